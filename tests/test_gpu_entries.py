"""What users call runs with everything on one device, and mixes it with no other.

On a machine without a GPU the device is pretended: its tensors refuse to meet those of the CPU.
"""

import importlib
from pathlib import Path

import pytest

from support.processes import run_python

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
# The pretended device has no random numbers of its own.
LEFT_OUT = {"surfaces", "meshes"}


@pytest.fixture
def entries(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("gpu_entries").ENTRIES


def names():
    text = (BENCHMARKS / "gpu_entries.py").read_text(encoding="utf-8")
    listed = text[text.index("ENTRIES: ") :].partition("for x in (")[2].partition(")")[0]
    return [name for name in listed.replace("\n", " ").replace(" ", "").split(",") if name]


def test_all_entries_are_listed(entries):
    assert names() == list(entries)


# In processes of their own: the pretended device stays registered, and PyTorch's checks of
# operators in other tests would then ask it for what it has not.
ENTRY = """
import sys
sys.path.insert(0, sys.argv[1])
import gpu_entries
from support import strict_device
device = strict_device.device()
with strict_device.strict():
    found = gpu_entries.ENTRIES[sys.argv[2]](device)
    print("wrong:", gpu_entries.wrong_with(found, device))
"""
REFUSALS = """
import sys
sys.path.insert(0, sys.argv[1])
import torch
from support import strict_device
there, here = strict_device.upload(torch.ones(2)), torch.ones(2)
with strict_device.strict():
    try:
        torch.add(there, here)
    except RuntimeError as error:
        print(error)
    print((there + torch.tensor(1.0)).tolist())
    there.copy_(here)
print((there + here).tolist())
"""


@pytest.mark.slow
@pytest.mark.rotating(24)
@pytest.mark.parametrize("name", [name for name in names() if name not in LEFT_OUT])
def test_an_entry_mixes_no_devices(name, request):
    if name == "pose_of_a_video" and not request.config.getoption("--every"):
        pytest.skip("takes over a minute on the pretended device: --every")
    run = run_python(ENTRY, BENCHMARKS, name)
    assert run.stdout.splitlines()[-1:] == ["wrong: "], run.stderr


def test_the_pretended_device_refuses_others():
    mixed, added, copied = run_python(REFUSALS, BENCHMARKS, check=True).stdout.splitlines()
    assert mixed.startswith("tensors are not all on the same device: add")
    assert added == copied == "[2.0, 2.0]"
