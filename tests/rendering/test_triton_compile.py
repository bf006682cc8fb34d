"""Every Triton kernel compiles to machine code for Ampere and Hopper, with no GPU around."""

import json
import os
import random
import subprocess
import sys
from datetime import date

import pytest

pytest.importorskip("triton", reason="Triton has no wheels for this platform")

from gendr.testing.ahead_of_time import CAPABILITIES, Specialisation, specialisations

# The default instance, those of the README, and how each is compiled where gradients are wanted.
SHOWN = [
    ("uniform", "probabilistic"),
    ("logistic", "probabilistic"),
    ("logistic", "yager"),
    ("heaviside", "max"),
]
DEFAULT = [
    *(Specialisation(kernel) for kernel in ("face_boxes", "count_tiles", "list_tiles")),
    Specialisation("nearest_tiles"),
    Specialisation("softmax_tiles", "uniform"),
    Specialisation("softmax_gradients", "uniform"),
    *(Specialisation("alpha_tiles", *member) for member in SHOWN),
    *(Specialisation("alpha_gradients", *member) for member in SHOWN),
    Specialisation("alpha_gradients", "uniform", "probabilistic", scalars=True),
]
SAMPLE = 8  # per architecture and run
TODAY = date.today().toordinal()  # the sample changes from day to day

# The tests' own process may interpret kernels, and then Triton cannot compile.
SCRIPT = """
import json, sys
from dataclasses import asdict
from gendr.testing.ahead_of_time import Specialisation, compile_ahead

request = json.load(sys.stdin)
for row in request["kernels"]:
    usage = compile_ahead(Specialisation(*row), request["capability"], **request["options"])
    print(json.dumps(asdict(usage)))
"""


def compiled(wanted, capability, **options):
    """What each specialisation uses."""
    rows = [list(vars(x).values()) for x in wanted]
    request = {"kernels": rows, "capability": capability, "options": options}
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        env=os.environ | {"TRITON_INTERPRET": "0"},
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return dict(zip(wanted, map(json.loads, run.stdout.splitlines()), strict=True))


def sample(every, number):
    """The same on one day."""
    return random.Random(TODAY).sample(every, number)


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_default_instances_spill_nothing(capability):
    for x, usage in compiled(DEFAULT, capability).items():
        assert usage["local"] == 0, x
        assert 0 < usage["registers"] <= 128, x
        assert usage["size"] > 0


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_the_others_compile(capability, request):
    rest = [x for x in specialisations() if x not in DEFAULT]
    wanted = rest if request.config.getoption("--every") else sample(rest, SAMPLE)
    for x, usage in compiled(wanted, capability).items():
        assert 0 < usage["registers"] <= 255, x


def test_spills_would_be_seen():
    """With too few registers the same kernel spills."""
    x = Specialisation("alpha_tiles", "uniform", "probabilistic")
    usage = compiled([x], CAPABILITIES[0], maxnreg=24)[x]
    assert usage["local"] > 0
    assert usage["registers"] <= 24


def test_a_process_that_interprets_compiles_nothing(monkeypatch):
    from gendr.testing.ahead_of_time import compile_ahead

    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with pytest.raises(RuntimeError, match="TRITON_INTERPRET is set"):
        compile_ahead(DEFAULT[0], 80)
