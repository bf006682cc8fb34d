"""What users call runs with everything on one device, and mixes it with no other.

On a machine without a GPU the device is pretended: its tensors refuse to meet those of the CPU.
"""

import importlib
from pathlib import Path

import pytest
import torch

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
# The pretended device has no random numbers of its own.
LEFT_OUT = {"surfaces", "meshes"}


@pytest.fixture
def modules(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("gpu_entries"), importlib.import_module("pretend_gpu")


def names():
    text = (BENCHMARKS / "gpu_entries.py").read_text(encoding="utf-8")
    listed = text[text.index("ENTRIES: ") :].partition("for x in (")[2].partition(")")[0]
    return [name for name in listed.replace("\n", " ").replace(" ", "").split(",") if name]


def test_all_entries_are_listed(modules):
    entries, _ = modules
    assert names() == list(entries.ENTRIES)


@pytest.mark.slow
@pytest.mark.rotating(6)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in names() if name not in LEFT_OUT])
def test_an_entry_mixes_no_devices(modules, name):
    entries, pretended = modules
    device = pretended.device()
    with pretended.strict():
        found = entries.ENTRIES[name](device)
        assert entries.wrong_with(found, device) == ""


def test_the_pretended_device_refuses_others(modules):
    _, pretended = modules
    there, here = pretended.upload(torch.ones(2)), torch.ones(2)
    with pretended.strict():
        with pytest.raises(RuntimeError, match="not all on the same device: add"):
            torch.add(there, here)
        assert (there + torch.tensor(1.0)).tolist() == [2.0, 2.0]
        there.copy_(here)
    assert (there + here).tolist() == [2.0, 2.0]
