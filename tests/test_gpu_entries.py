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


# What has no kernels for GPUs is computed by those of the CPU, and says so.
THROUGH_CPU = """
import warnings
import torch
import gendr
import gendr.primitives as dr
from gendr.primitives.triton import backend as primitives
from gendr.rendering import ordered as ordering
from gendr.rendering.backends.triton import backend
from support import strict_device

choose = ordering.choose
ordering.choose = lambda name, x: choose(name, x) if x.device.type == "cpu" else backend
primitives.available = lambda: "Triton is missing here"  # else they have kernels
ball = gendr.mesh.icosphere(2)
pos = torch.cat([0.7 * ball.vertices, 1.5 + 0.2 * ball.vertices[:, 2:]], -1)[None]
color = torch.rand(1, 24, 24, 2, generator=torch.Generator().manual_seed(0))
faces = 0.5 + torch.rand(1, 30, 3, 3, generator=torch.Generator().manual_seed(1))
colors = torch.rand(1, 30, 3, generator=torch.Generator().manual_seed(2))


def near(a, b):  # while tensors are pretended, the definition runs in place of kernels
    return (a - b.to("cpu")).abs().max().item() <= 1e-5 * a.abs().max().item()


def drawn(to):
    tri, points, paint = to(ball.faces.int()), to(pos).requires_grad_(), to(color)
    rast, slopes = dr.rasterize(None, points, tri, (24, 24))
    smooth = dr.antialias(paint, rast, points, tri)
    corners = to(faces).requires_grad_()
    image, alpha = ordering.ordered(corners, to(colors), 24, "logistic", scale=2e-2)
    total = smooth.square().sum() + slopes.square().sum() + image.square().sum() + alpha.sum()
    return rast, smooth, image, alpha, *torch.autograd.grad(total, [points, corners])


here = drawn(lambda x: x.clone())
device = strict_device.device()
with warnings.catch_warnings(record=True) as said, strict_device.strict():
    warnings.simplefilter("always")
    there = drawn(strict_device.upload)
    there = drawn(strict_device.upload)
print([str(w.message).split(" has no")[0] for w in said if "copied there" in str(w.message)])
print({x.device.type for x in there}, [near(*pair) for pair in zip(here, there)])

with strict_device.strict():  # a later call says what this one got
    for bad in ([[torch.nan, 1.0]], [[0.0, 1.0]]):
        try:
            dr.texture(*map(strict_device.upload, (color, torch.tensor([[bad]]))))
        except ValueError as error:
            print(error)
"""


@pytest.mark.slow
def test_what_has_no_kernels_for_gpus_goes_through_the_cpu_and_says_so():
    said, equal, late = run_python(THROUGH_CPU, check=True).stdout.splitlines()
    assert late == "uv must not hold NaN, got one in an earlier call on pretend:0"
    assert said == "['rasterize', 'antialias', 'ordered joining']"
    assert equal == f"{{'pretend'}} {6 * [True]}"
