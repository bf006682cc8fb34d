"""Every Triton kernel compiles to machine code for Ampere and Hopper, with no GPU around."""

import json
import os
import random
import subprocess
import sys

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
SAMPLE = 4  # per architecture and run

# The tests' own process may interpret kernels, and then Triton cannot compile.
SCRIPT = """
import json, sys
from dataclasses import asdict
from gendr.testing.ahead_of_time import Specialisation, compile_ahead

for row, capability, options in json.load(sys.stdin):
    usage = compile_ahead(Specialisation(*row), capability, **options)
    print(json.dumps(asdict(usage)))
"""


def compiled(wanted):
    """What each (specialisation, capability, options) uses, from one process."""
    request = [[list(vars(x).values()), *how] for x, *how in wanted]
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        env=os.environ | {"TRITON_INTERPRET": "0"},
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return [json.loads(line) for line in run.stdout.splitlines()]


def test_default_instances_spill_nothing():
    wanted = [(x, capability, {}) for capability in CAPABILITIES for x in DEFAULT]
    # With too few registers a kernel spills: spills would be seen.
    narrow = (Specialisation("alpha_tiles", "uniform", "probabilistic"), CAPABILITIES[0])
    *usages, narrowed = compiled([*wanted, (*narrow, {"maxnreg": 24})])
    for x, usage in zip(wanted, usages, strict=True):
        assert usage["local"] == 0, x
        assert 0 < usage["registers"] <= 128, x
        assert usage["size"] > 0
    assert narrowed["local"] > 0
    assert narrowed["registers"] <= 24


def test_the_others_compile(request, seed):
    rest = [x for x in specialisations() if x not in DEFAULT]
    generator, every = random.Random(seed), request.config.getoption("--every")
    wanted = [
        (x, capability, {})
        for capability in CAPABILITIES
        for x in (rest if every else generator.sample(rest, SAMPLE))
    ]
    for x, usage in zip(wanted, compiled(wanted), strict=True):
        assert 0 < usage["registers"] <= 255, x


def test_a_process_that_interprets_compiles_nothing(monkeypatch):
    from gendr.testing.ahead_of_time import compile_ahead

    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with pytest.raises(RuntimeError, match="TRITON_INTERPRET is set"):
        compile_ahead(DEFAULT[0], 80)
