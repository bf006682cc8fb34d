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
@pytest.mark.rotating(48)
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
from support import strict_device

primitives.available = lambda: "Triton is missing here"  # else they have kernels
ball = gendr.mesh.icosphere(2)
pos = torch.cat([0.7 * ball.vertices, 1.5 + 0.2 * ball.vertices[:, 2:]], -1)[None]
color = torch.rand(1, 24, 24, 2, generator=torch.Generator().manual_seed(0))


def near(a, b):  # while tensors are pretended, the definition runs in place of kernels
    return (a - b.to("cpu")).abs().max().item() <= 1e-5 * a.abs().max().item()


def drawn(to):
    tri, points, paint = to(ball.faces.int()), to(pos).requires_grad_(), to(color)
    rast, slopes = dr.rasterize(None, points, tri, (24, 24))
    smooth = dr.antialias(paint, rast, points, tri)
    ranks = gendr.sorting.soft_rank(paint[0, 0, :, 0], "permutahedron")
    total = smooth.square().sum() + slopes.square().sum()
    return rast, smooth, ranks, *torch.autograd.grad(total, [points])


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
@pytest.mark.rotating(4, group="pretended device")
def test_what_has_no_kernels_for_gpus_goes_through_the_cpu_and_says_so():
    said, equal, late = run_python(THROUGH_CPU, check=True).stdout.splitlines()
    assert late == "uv must not hold NaN, got one in an earlier call on pretend:0"
    assert said == "['rasterize', 'antialias', 'the projection onto the permutahedron']"
    assert equal == f"{{'pretend'}} {4 * [True]}"


# Photos stay on the CPU; the second training launches nothing and counts for what the host waits.
TRAINING = """
import torch
import gendr
from gendr._common.readback import Readback
from gendr.kernels.triton.launch import Launcher
from gendr.photos.splatting import splats as projecting, triton
from gendr.rendering import ordered as ordering
from gendr.rendering.backends.triton import backend, tiles
from gendr.photos.splatting import Photos, SplatSettings, from_cameras, training
from support import strict_device

camera = gendr.look_at(2.5, 20.0, torch.tensor([0.0, 90.0, 200.0]))
images = gendr.Renderer(24, scale=1e-2)(gendr.mesh.icosphere(1), camera).rgb.detach()
photos = Photos(images, None, camera, ("a", "b", "c"), torch.ones(3))
start = from_cameras(photos, 30)
device = strict_device.device()
training.usable_device = lambda _: device


def trained(name, **options):
    given = {"triangles": 40, "steps": 3, "renew_every": 1, "device": name, **options}
    found = training.SplatTraining(photos, SplatSettings(**given), start)
    while not found.is_over:
        found.advance()
    return found


here = trained(None)
with strict_device.strict():
    there = trained("pretend")
    pictures, splats = there._levels[1], there.splats()
    print(pictures.dtype, pictures.device.type, splats.vertices.device.type, len(there))
    print(len(here) == len(there), abs(here.history[-1]["loss"] - there.history[-1]["loss"]) < 1e-3)
    print((splats.vertices - here.splats().vertices).abs().max().item() < 1e-2)

waits, launched, compute = [], [], strict_device._compute


def counted(func, args, kwargs):
    name, to = func._schema.name.split("::")[1], (kwargs or {}).get("device")
    if any(isinstance(x, strict_device.Pretended) for x in args) and (
        name in ("_local_scalar_dense", "nonzero") or (to is not None and to.type == "cpu")
    ):
        waits.append(name)
    return compute(func, args, kwargs)


Launcher.__call__ = lambda self, grid, *args: launched.append(
    (self.kernel.fn.__name__, all(x.device.type == "pretend" for x in args
                                  if isinstance(x, torch.Tensor))))
ordering.choose = lambda name, x: backend
projecting.kernels_for = lambda *_: triton.Projection
tiles.Capacity.of_step = lambda self, totals: (4096, 0)
Readback.wait = lambda self: [1000]
with strict_device.strict():
    quiet = training.SplatTraining(
        photos, SplatSettings(triangles=40, density="none", device="pretend"), start)
    quiet._write_row = lambda: None
    quiet.advance()
    strict_device._compute, launched[:] = counted, []
    quiet.advance()
kernels = {"join_layers", "part_layers", "layer_gradients", "project_triangles", "project_backward"}
print(waits, kernels <= {name for name, _ in launched})
print(all(there for _, there in launched))
"""


@pytest.mark.slow
@pytest.mark.rotating(4, group="pretended device")
def test_splats_are_trained_on_a_device_of_their_own_without_waiting_for_it():
    lines = run_python(TRAINING, check=True).stdout.splitlines()
    assert lines[0] == "torch.float16 pretend cpu 40"
    assert lines[1:] == ["True True", "True", "[] True", "True"]


# Operations of PyTorch that launch nothing.
LAUNCHED = """
import warnings
from collections import Counter
import torch
from gendr.kernels.triton.launch import Launcher
from gendr.sorting import soft_rank
from gendr.sorting.backends.triton import backend as sorting
from gendr.topk import TopKCrossEntropy, soft_topk_mask
from gendr.topk.backends.triton import backend as topk
from support import strict_device

NONE = {
    "_unsafe_view", "alias", "as_strided", "detach", "empty", "empty_like", "expand", "lift_fresh",
    "new_empty", "permute", "select", "slice", "squeeze", "t", "transpose", "unbind", "unsqueeze",
    "view",
}
launched, compute = Counter(), strict_device._compute


def counted(func, args, kwargs):
    launched.update({func._schema.name.split("::")[1]} - NONE)
    return compute(func, args, kwargs)


Launcher.__call__ = lambda self, grid, *args: launched.update([self.kernel.fn.__name__])
strict_device.device()
x, labels = torch.randn(100, 1000), torch.arange(100)
with strict_device.strict():
    for module in (sorting, topk):
        module.available, module.supports = lambda: None, lambda tensor: tensor.is_cuda
    x, labels = strict_device.upload(x).requires_grad_(), strict_device.upload(labels)
    loss = TopKCrossEntropy([0.5, 0, 0, 0, 0.5], check=False).to(x.device)
    for run in (
        lambda: loss(x, labels),
        lambda: soft_topk_mask(x, 10, "logistic", check=False),
        lambda: soft_rank(x, "permutahedron", check=False),
    ):
        for strict_device._compute in (compute, counted):  # the first call keeps tables
            launched.clear()
            found = run()
            torch.autograd.grad(found, x, torch.ones_like(found))
        print(sum(launched.values()), sorted(launched))
"""


@pytest.mark.slow
@pytest.mark.rotating(4, group="pretended device")
def test_lists_take_few_launches():
    """Both passes; without kernels 81 of a loss of top-k, 4,106 of a logistic mask."""
    lines = run_python(LAUNCHED, check=True).stdout.splitlines()
    for line, most, kernels in zip(
        lines, (11, 9, 6), (("losses",), ("mask", "mask_back"), ("project", "project_gradients")),
        strict=True,
    ):  # fmt: skip
        assert int(line.split()[0]) <= most, line
        assert all(f"'{kernel}'" in line for kernel in kernels), line


# What PyTorch lists, in `torch.use_deterministic_algorithms`, as different from run to run on CUDA,
# as far as it adds up floats. A fit takes a stand-in for the renderer, whose kernels have no such
# sums: they are looked at by `rendering/test_triton_hazards.py`.
SAME_EVERY_TIME = """
import torch
import gendr
from gendr import losses
from gendr.photos.fitting import FitSettings, fit
from gendr.photos.fitting.shape import job
from gendr.photos.splatting import Splats
from support import soup, strict_device

ADDING = {
    "index_add", "index_add_", "index_select_backward", "scatter_add", "scatter_add_",
    "scatter_reduce", "scatter_reduce_", "index_reduce", "embedding_dense_backward", "cumsum",
    "cumsum_", "cumprod", "histc", "put_", "kthvalue", "grid_sampler_2d_backward",
    "upsample_bilinear2d_backward", "upsample_nearest2d_backward", "_adaptive_avg_pool2d_backward",
    "segment_reduce_backward",
}
found, compute = set(), strict_device._compute


def looked_at(func, args, kwargs):
    out = compute(func, args, kwargs)
    name = func._schema.name.split("::")[1]
    here = [x for x in (*args, out) if isinstance(x, strict_device.Pretended)]
    if name in ADDING and any(x.is_floating_point() for x in here):
        found.add(name)
    return out


class Standin(torch.nn.Module):
    def __init__(self, size, *args, **options):
        super().__init__()
        self.size = size if isinstance(size, tuple) else (size, size)

    def forward(self, mesh, camera, **options):
        spread = mesh.vertices.square().mean(0)  # something smooth of the vertices
        plane = (spread.sum() - 1).sigmoid().expand(len(camera), *self.size)
        return type("Out", (), {"alpha": plane})


def slopes(value, *leaves):
    torch.autograd.grad(value.sum(), leaves)


strict_device.device()
job.Renderer = Standin
camera = gendr.look_at(2.5, 20.0, torch.tensor([0.0, 120.0]))
masks = (torch.rand(2, 16, 16) > 0.5).float()
ball = gendr.mesh.icosphere(1)
with strict_device.strict():
    strict_device._compute = looked_at
    up = strict_device.upload
    there = camera.to(up(masks).device)
    fit(up(masks), there, FitSettings(steps=4, subdivisions=1))
    x = up(ball.vertices).requires_grad_()
    mesh = gendr.Mesh(x, up(ball.faces))
    for loss in (losses.laplacian_loss, losses.flatten_loss, losses.edge_length_loss,
                 losses.normal_consistency_loss):
        slopes(loss(mesh), x)
    slopes(gendr.Mesh.batch([mesh, mesh.scaled(2.0)]).volumes, x)
    slopes(mesh.subdivided().vertices, x)
    slopes(mesh.face_vertices.square() + mesh.vertex_normals.sum(), x)
    slopes(losses.chamfer_distance(x, up(torch.rand(20, 3))), x)
    eyes = up(torch.tensor([10.0, 50.0])).requires_grad_()
    turned = gendr.look_at(3.0, 20.0, eyes)
    slopes(turned.world_to_camera(x[:4], up(torch.tensor([0, 1, 1, 0]))), eyes, x)
    slopes(mesh.sample_points(9, torch.Generator().manual_seed(0)), x)
    corners = soup(1, 5, 3, torch.float32)[0] - torch.tensor([0, 0, 1.5])
    half = 0.5 * torch.rand(5) + 0.1
    values = [up(v).requires_grad_() for v in (corners, torch.rand(5, 4, 3), half, half + 0.1)]
    from gendr.photos.splatting.splats import projected
    slopes(sum(y.sum() for y in projected(Splats(*values), gendr.look_at(3.0, 20.0, 0.0).to(
        x.device), 8)), *values[:2], values[3])
print(sorted(found))
"""


@pytest.mark.slow
@pytest.mark.rotating(4, group="pretended device")
def test_fits_and_losses_add_up_in_the_same_order_every_time_on_a_gpu():
    assert run_python(SAME_EVERY_TIME, check=True).stdout.splitlines()[-1] == "[]"
