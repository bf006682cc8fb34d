"""Programs that launch the kernels of every system, for `support.ahead_of_time`.

They run in a process of their own, as that of the tests may interpret kernels, and then Triton
cannot compile. Nothing is launched there, so that results are what was in memory: all that decides
is given anew, and what would have been read back is made up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import gendr
import gendr.primitives as dr
import gendr.primitives.triton.backend as primitives_backend
from gendr import topk
from gendr._common.readback import Readback
from gendr.distributions import get
from gendr.logic import random_wiring
from gendr.logic.backends.triton import backend as logic_backend
from gendr.logic.backends.wires import Wires
from gendr.photos.splatting import Splats, splats
from gendr.photos.splatting import triton as splats_backend
from gendr.rendering.backends.triton import backend as rendering_backend
from gendr.rendering.backends.triton import tiles
from gendr.sorting.backends.comparators import Comparators
from gendr.sorting.backends.triton import backend as sorting_backend
from gendr.sorting.backends.triton import isotonic
from gendr.sorting.networks import network
from gendr.topk.backends.triton import backend as topk_backend
from support import soup
from support.layers import Scene


def _serving(backend: Any) -> None:
    """It takes tensors of the CPU."""
    backend.available, backend.supports = lambda: None, lambda _: True


def selection(dist: str, n: int) -> None:
    """A mask and a loss of rows of n."""
    law, x, columns = get(dist), torch.zeros(2, n), torch.ones(2, 1, dtype=torch.float64)
    (p,), saved = topk_backend.Mask.forward(law, x, columns, columns, save=True)
    topk_backend.Mask.backward(law, (x, columns, columns), saved, (p,), (True, True, True))
    loss = topk.TopKCrossEntropy([0.5, 0, 0.5], weight=torch.ones(n), check=False)
    topk_backend.Losses.forward((loss, torch.zeros(2, dtype=torch.int64), None), x, save=True)


def comparators(dist: str, name: str, sizes: list[int], width: int | None) -> None:
    """A network, and what is carried through it."""
    wires = network(name, *sizes) if len(sizes) == 1 else topk.network(name, *sizes)
    spec, x = Comparators(wires, get(dist)), torch.zeros(2, sizes[0])
    payload = None if width is None else torch.zeros(2, sizes[0], width)
    (_, keep, swap), saved = sorting_backend.gates_forward(spec, x, 1.0, save=True)
    sorting_backend.gates_backward(spec, (x, 1.0), saved, (x, keep, None), (True, False))
    grads, _ = sorting_backend.carry_forward(wires, keep, swap, payload, save=True)
    sorting_backend.carry_backward(wires, (keep, swap, payload), (), grads, (True, False, True))


def projections(regularization: str, n: int) -> None:
    """Of the permutahedron."""
    x, entropic = torch.zeros(2, n), regularization == "entropic"
    for kernels in (isotonic.Ranks, isotonic.Values):
        (y,), saved = kernels.forward(entropic, x, 1.0, save=True)
        kernels.backward(entropic, (x, 1.0), saved, (y,), (True, False))
    if not entropic:
        _, saved = isotonic.Isotonic.forward(None, x.double(), save=True)
        isotonic.Isotonic.backward(None, (x.double(),), saved, (x.double(),), (True,))


def gates(fan_in: int, batch: int, dtype: str) -> None:
    """A layer of logic gates."""
    wires = Wires(random_wiring(784, 8000, fan_in, seed=0), 784)
    x = torch.zeros(784, batch, dtype=getattr(torch, dtype))
    tables = torch.zeros(8000, 1 << fan_in, dtype=x.dtype)
    (grad,), _ = logic_backend.forward(wires, x, tables, save=True)
    logic_backend.backward(wires, (x, tables), (), (grad,), (True, True))


def primitives(dtype: str, kind: str, mode: str = "") -> None:
    """One of the primitives; a texture by its boundary mode and its filter mode."""
    _serving(primitives_backend)

    def zeros(*shape: int) -> Any:
        return torch.zeros(shape, dtype=getattr(torch, dtype), requires_grad=True)

    tri = torch.zeros(30, 3, dtype=torch.int32)
    rast, pos = zeros(2, 33, 35, 4), zeros(2, 40, 4)
    if kind == "rasterize":
        sum(x.sum() for x in dr.rasterize(None, pos, tri, (33, 35), backend="triton")).backward()
    elif kind == "layers":
        cut = torch.tensor([[0, 9], [4, 5]])
        with dr.DepthPeeler(None, pos[0], tri, (33, 35), cut, backend="triton") as layers:
            layers.rasterize_next_layer()
            layers.rasterize_next_layer()
    elif kind == "interpolate":
        attr = zeros(40, 3)
        for db in (None, rast.detach().clone().requires_grad_()):
            chosen = None if db is None else [0]
            found = dr.interpolate(attr, rast, tri, db, chosen, backend="triton")
            sum(x.sum() for x in found).backward()
    elif kind == "antialias":
        dr.antialias(zeros(2, 33, 35, 3), rast, pos, tri, backend="triton").sum().backward()
    else:
        cube = kind == "cube"
        shapes = (1, *([6] * cube), 8, 8, 3), (2, 33, 35, 2 + cube), (2, 33, 35, 4 + 2 * cube)
        leaves = [zeros(*x) for x in (*shapes, (2, 33, 35))]
        dr.texture(
            *leaves, filter_mode=mode, boundary_mode=kind, backend="triton"
        ).sum().backward()  # fmt: skip


def triangles(count: int, unit: str) -> None:
    """The projection of splats with so many harmonics."""
    splats.kernels_for = lambda *_: splats_backend.Projection
    values = [torch.rand(70, *shape).requires_grad_() for shape in ((3, 3), (count, 3), ())]
    vertices, harmonics, scale = values
    made = Splats(vertices, harmonics, torch.ones(70), scale.clamp(min=0.1), unit=unit)
    found = splats.projected(made, gendr.look_at(2.5, 20.0, 200.0), 32)
    torch.autograd.grad([x.sum() for x in found], values)


def layers(dist: str, tconorm: str, sort: str, channels: int) -> None:
    """Faces that are joined in order."""
    _serving(rendering_backend)
    tiles.Capacity.of_step = lambda self, totals: (4096, 0)
    Readback.wait = lambda self: [100_000]
    scene = Scene(soup(1, 70, 3), (64, 64), dist, tconorm, channels=channels)
    scene.found("triton", torch.float32, sort=sort)


def rendered(dist: str, tconorm: str, learnable: list[str], size: int = 16, level: int = 0) -> None:
    """A picture in float32 where float64 is the default, with learnt parameters."""
    _serving(rendering_backend)
    tiles.Capacity.of_step = lambda self, totals: (4096, 8)
    torch.set_default_dtype(torch.float64)
    mesh, camera = (
        x.to(torch.float32) for x in (gendr.mesh.icosphere(level), gendr.look_at(3.0, 20.0, 0.0))
    )
    vertices = mesh.vertices.requires_grad_()
    renderer = gendr.Renderer(size, dist, tconorm, 0.1, backend="triton", learnable=learnable)
    out = renderer(mesh.with_vertices(vertices), camera)
    (out.alpha.sum() + out.rgb.sum()).backward()


def screen(dist: str, tconorm: str, size: int) -> None:
    """A silhouette of triangles on the screen."""
    _serving(rendering_backend)
    faces = soup(1, 9, 3, torch.float32).requires_grad_()
    gendr.silhouette(faces, size, dist, tconorm, 0.1, backend="triton").sum().backward()


PROGRAMS: dict[str, Callable[..., None]] = {
    program.__name__: program
    for program in (
        selection, comparators, projections, gates, primitives, triangles, layers, rendered, screen
    )
}  # fmt: skip
