"""An example of every operator: what the tests of all operators run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import numpy as np
import torch
from torch import Tensor

import gendr
from gendr.kernels.backends import Choice
from gendr.kernels.operator import Kernels, Operator


@dataclass(frozen=True)
class Example:
    """An operator with something to do.

    Attributes:
        spec: what is no tensor.
        inputs: float64, which all get gradients.
        empty: inputs of an empty batch, if there is such a thing.
        batched: the places of inputs that `vmap` gets two of; none where vmap is refused.
        completed: these inputs -> all that the operator takes, also what gets no gradient.
        kernels: of the CPU, which take float64; None for those in the table of the backend.
    """

    spec: Any
    inputs: tuple[Tensor, ...]
    empty: tuple[Tensor, ...] | None = None
    batched: tuple[int, ...] = field(default=(0,))
    completed: Callable[..., tuple[Any, ...]] = lambda *inputs: inputs
    kernels: Kernels | None = None


def operators() -> dict[str, Operator]:
    """Every operator of the package by its name."""
    for module in walk_packages(gendr.__path__, "gendr."):
        if "triton" not in module.name and not module.name.endswith("__main__"):
            import_module(module.name)
    return dict(Operator.known)


def _leaves(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(t.double().requires_grad_() for t in tensors)


def _gates() -> Example:
    from gendr.logic import random_wiring
    from gendr.logic.backends.wires import Wires

    wires = Wires(random_wiring(5, 4, 3, seed=1), 5)
    x, tables = torch.rand(5, 6), torch.rand(4, 8)
    return Example(wires, _leaves(x, tables), _leaves(x[:, :0], tables))


def _mixed() -> Example:
    from gendr.logic import random_wiring
    from gendr.logic.backends.wires import Wires

    wires = Wires(random_wiring(5, 4, 3, seed=1), 5)
    x, shares = torch.rand(5, 6), torch.rand(3, 4)
    return Example(wires, _leaves(x, shares), _leaves(x[:, :0], shares))


def _comparators() -> Example:
    from gendr.distributions import get
    from gendr.sorting import bitonic
    from gendr.sorting.backends.comparators import Comparators
    from gendr.sorting.relaxed import ready

    spec = Comparators(ready(bitonic(3)), get("logistic").art(0.25))
    x, steepness = torch.randn(3, 3), torch.tensor(1.5)
    inputs, empty = _leaves(x, steepness), _leaves(x[:0], steepness)
    return Example(spec, inputs, empty)


def _carry() -> Example:
    from gendr.sorting import bitonic
    from gendr.sorting.relaxed import ready

    def with_swap(keep: Tensor, payload: Tensor) -> tuple[Tensor, ...]:
        return keep, 1 - keep.detach(), payload  # the gradient of keep includes that through swap

    network = ready(bitonic(3))
    keep, payload = torch.rand(2, network.size), torch.randn(2, 3, 2)
    inputs, empty = _leaves(keep, payload), _leaves(keep[:0], payload[:0])
    return Example(network, inputs, empty, (0, 1), with_swap)


def _rows() -> Example:
    from gendr.sorting.neuralsort import NeuralSort

    x, steepness = torch.randn(2, 5), torch.tensor(1.3)
    inputs, empty = _leaves(x, steepness), _leaves(x[:0], steepness)
    return Example((NeuralSort(), 4, 0), inputs, empty)


def _mean_ranks() -> Example:
    from gendr.sorting.neuralsort import NeuralSort

    x, steepness = torch.randn(2, 5), torch.tensor(1.3)
    return Example(NeuralSort(), _leaves(x, steepness), _leaves(x[:0], steepness))


def _products() -> Example:
    from gendr.sorting.softsort import SoftSort

    x, steepness, payload = torch.randn(2, 5), torch.tensor(1.3), torch.randn(2, 5, 2)
    inputs, empty = _leaves(x, steepness, payload), _leaves(x[:0], steepness, payload[:0])
    return Example((SoftSort(), True, None), inputs, empty, (0, 2))


def _faces() -> Any:
    """Two images of three triangles, and their size."""
    from gendr.rendering.geometry import ImageSize, ScreenFaces

    corners = torch.rand(6, 3, 2, generator=torch.Generator().manual_seed(4)) * 1.6 - 0.8
    return ScreenFaces(corners.double(), (0, 3, 6)), ImageSize(4, 5)


def _alpha() -> Example:
    from gendr.distributions import get
    from gendr.rendering.aggregation import Aggregation
    from gendr.rendering.backends.cpu import backend
    from gendr.rendering.coverage import Coverage
    from gendr.tnorms import tconorm

    (faces, size), dist = _faces(), get("gumbel_min").shifted(0.1).squared()
    scale, shift, p = torch.tensor([0.05, 0.2]), torch.tensor(0.1), torch.tensor(1.5)
    spec = (
        faces,
        size,
        Aggregation(Coverage(dist, scale, 1e-6), tconorm("hamacher", torch.tensor(1.5))),
    )
    kernels = backend.KernelPair(backend._alpha_forward, backend._alpha_backward, wide=True)
    return Example(
        spec, _leaves(faces.corners, scale, shift, p), batched=(),
        completed=lambda corners, scale, shift, p: (corners, scale, shift, None, p),
        kernels=kernels,
    )  # fmt: skip


def _distance() -> Example:
    from gendr.rendering.backends.cpu import backend

    faces, size = _faces()
    pixels, face = torch.tensor([0, 3, 17, 30]), torch.tensor([0, 2, 1, 5])
    kernels = backend.KernelPair(backend._distance_forward, backend._distance_backward, wide=True)
    return Example((pixels, face, size), _leaves(faces.corners), batched=(), kernels=kernels)


def _ordered() -> Example:
    from gendr.distributions import get
    from gendr.rendering.backends.cpu import ordered
    from gendr.rendering.layers import Layered, depth_keys
    from gendr.tnorms import tconorm

    (faces, size), count = _faces(), 6
    made = torch.Generator().manual_seed(5)
    colours, opacity, depth = (torch.rand(count, k, generator=made) for k in (3, 1, 3))
    scale, shift = torch.full((count,), 0.1), torch.tensor(0.2)
    planes, limits = depth_keys(faces.corners, depth + 1, "pixel")
    layered = Layered(
        faces, get("logistic").shifted(shift), tconorm("probabilistic"), 1e-6, 0.0, colours,
        opacity[:, 0], scale, planes, limits,
    )  # fmt: skip
    kernels = ordered.KernelPair(ordered._forward, ordered._backward, wide=True)
    return Example(
        (layered, size),
        _leaves(faces.corners, colours, opacity[:, 0], scale, shift), batched=(),
        completed=lambda *inputs: (*inputs, None, None),
        kernels=kernels,
    )  # fmt: skip


def _project() -> Example:
    from gendr.mesh import icosphere, look_at
    from gendr.rendering.backends.cpu import backend

    ball, camera = icosphere(0), look_at(3.0, 20.0, torch.tensor([10.0, 130.0]))
    spec = backend._ProjectSpec(ball.faces, np.empty((2, 3)))
    kernels = backend.KernelPair(backend._project_forward, backend._project_backward)
    inputs = _leaves(ball.vertices, camera.projection)
    return Example(spec, inputs, batched=(), kernels=kernels)


def _gather() -> Example:
    from gendr.rendering.backends.cpu import backend

    index = torch.tensor([2, 0, 2, 1])
    kernels = backend.KernelPair(backend._gather_forward, backend._gather_backward)
    return Example(index, _leaves(torch.randn(3, 2)), kernels=kernels)


def _projection() -> Example:
    x, steep = 2 * torch.randn(2, 7), torch.tensor(0.5)
    inputs, empty = _leaves(x, steep), _leaves(x[:0], steep)
    return Example(True, inputs, empty)


def _isotonic() -> Example:
    x = 2 * torch.randn(2, 7)
    return Example(None, _leaves(x), _leaves(x[:0]))


def _mask() -> Example:
    from gendr.distributions import get

    x, k, scale = torch.randn(2, 6), torch.tensor([[1.5], [4.0]]), torch.tensor([[0.7], [0.9]])
    inputs, empty = _leaves(x, k, scale), _leaves(x[:0], k[:0], scale[:0])
    return Example(get("logistic"), inputs, empty, (0, 2))


def _places() -> Example:
    from gendr.distributions import get

    x, steepness = torch.randn(3, 6), torch.tensor(1.5)
    counted = torch.tensor([1.0, 1, 0, 1, 1, 1], dtype=torch.float64)
    return Example(
        get("logistic"), _leaves(x, steepness),
        _leaves(x[:0], steepness),
        completed=lambda x, steepness: (x, steepness, counted.expand(x.shape)),
    )  # fmt: skip


def _list_losses() -> Example:
    from gendr.sorting import ListNet

    x, target = torch.randn(3, 5), torch.randn(3, 5)
    mask = torch.tensor([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]]).bool()
    return Example(
        (ListNet(), "none", "tops"), _leaves(x), _leaves(x[:0]),
        completed=lambda x: (x, target.to(x)[: len(x)], mask[: len(x)]),
    )  # fmt: skip


def _losses() -> Example:
    from gendr.topk import TopKCrossEntropy, losses

    loss = TopKCrossEntropy([0.5, 0.2, 0.3], m=4, steepness=0.7)
    batch = losses._Batch(loss, torch.tensor([1, 4, -100]), None)
    return Example(batch, _leaves(torch.randn(3, 6)))


def _cosines() -> Example:
    from gendr.losses import FlattenLoss

    box = gendr.mesh.icosphere(0)
    vertices = box.vertices + 0.1 * torch.rand_like(box.vertices)
    creases = FlattenLoss(box.faces)
    return Example((creases.faces, creases.pairs, creases.sign), _leaves(vertices))


def _steepness() -> Tensor:
    return torch.tensor(3.0)


def _shortest_path() -> Example:
    from gendr.relaxed.algorithms.shortest_path import STEPS, GridTask

    task = GridTask(*_distribution("cauchy"), None, STEPS[:4], 2, 2)
    costs = 0.2 + torch.rand(2, 2, 2)
    leaves, empty = _leaves(costs, _steepness()), _leaves(costs[:0], _steepness())
    return Example(task, leaves, empty)


def _shortest_path_graph() -> Example:
    from gendr.relaxed.algorithms.graph_path import task_of

    edges = torch.tensor([[2, 0], [0, 1], [0, 2], [1, 2]])  # by their ends
    task, costs = task_of(_distribution("logistic")[0], edges, 3, 0, 2, 2), 0.2 + torch.rand(2, 4)
    leaves, empty = _leaves(costs, _steepness()), _leaves(costs[:0], _steepness())
    return Example(task, leaves, empty)


def _alignment() -> Example:
    from gendr.relaxed.algorithms.alignment import AlignmentTask

    lengths = torch.tensor([[2, 2], [1, 2]])
    task = AlignmentTask(*_distribution("logistic"), lengths, warping=False, minimum="expected")
    leaves = _leaves(torch.rand(2, 2, 2), torch.tensor([0.7, 1.1]), _steepness())
    return Example(task, leaves)


def _bubble_sort() -> Example:
    from gendr.relaxed.algorithms.bubble_sort import SortTask

    x, task = torch.randn(2, 3), SortTask(*_distribution("laplace"))
    leaves, empty = _leaves(x, _steepness()), _leaves(x[:0], _steepness())
    return Example(task, leaves, empty)


def _program() -> Example:
    from gendr.relaxed.compiled import ProgramGraphs, ProgramKernels

    def function(inputs: list[Tensor]) -> list[Tensor]:
        x, y = inputs
        return [torch.lerp(x, y, (y - x).sigmoid()), x.exp().sum(-1)]

    leaves = _leaves(torch.randn(2, 3), torch.randn(2, 3))
    graphs = ProgramGraphs(function, leaves, {"backend": "eager"})
    return Example(graphs, leaves, batched=(0, 1), kernels=ProgramKernels)


def _splats() -> Example:
    from gendr.mesh import look_at
    from gendr.photos.splatting import Splats
    from gendr.photos.splatting.splats import _Projection

    vertices, harmonics = torch.randn(4, 3, 3, dtype=torch.float64), torch.randn(4, 16, 3)
    leaves = _leaves(0.3 * vertices, harmonics, torch.rand(4) + 0.5)
    splats = Splats(leaves[0], leaves[1], leaves[2] / 2, leaves[2])
    camera = look_at(3.0, 20.0, 30.0).to(torch.float64)
    task = _Projection(splats, camera, (8, 8), 0.01, 0.0, 1e-6)
    empty = tuple(x[:0].detach().requires_grad_() for x in leaves)
    return Example(task, leaves, empty)


def _lookups() -> Example:
    from gendr.primitives.sampling import CUBE, LEVELS, Sampling

    spec = Sampling(LEVELS, CUBE, ((4, 4), (2, 2), (1, 1)))
    mips = spec.starts()[-1] - spec.starts()[1]
    leaves = _leaves(
        torch.randn(2, 2, 3, 3), torch.rand(2, 6, 4, 4, 2), torch.rand(2, 2 * mips),
        0.5 * torch.randn(2, 2, 3, 6), 0.5 * torch.randn(2, 2, 3),
    )  # fmt: skip
    return Example(spec, leaves)


def _mipmaps() -> Example:
    from gendr.primitives.sampling import Stack

    spec = Stack(((4, 2), (2, 1), (1, 1)), 1)
    return Example(spec, _leaves(torch.rand(2, 4, 2, 3)))


def _distribution(name: str) -> tuple[Any, Any]:
    """A distribution and the same for kernels."""
    from gendr.relaxed.backends.distributions import check_distribution, for_kernels

    dist = check_distribution(name)
    return dist, for_kernels(dist)


def _triangles(size: int) -> tuple[Any, Tensor]:
    """Two images of overlapping triangles, some of which reach behind the camera."""
    from gendr.primitives.scene import Scene

    pos = torch.randn(2, 7, 4, dtype=torch.float64)
    pos[..., 2] *= 0.3
    pos[0, :, 3] = pos[0, :, 3].abs() + 1.5
    tri = torch.tensor([[0, 1, 2], [3, 2, 1], [4, 5, 6], [1, 4, 3]], dtype=torch.int32)
    return Scene(tri, 2, size, size + 2, 7), pos


def _rasterize() -> Example:
    scene, pos = _triangles(3)
    return Example(scene, _leaves(pos))


def _interpolate() -> Example:
    from gendr.primitives.interpolate import Faces
    from gendr.primitives.kernels import raster

    scene, pos = _triangles(3)
    (rast, slopes), _ = raster.forward(scene, pos, save=False)
    leaves = _leaves(torch.randn(2, 7, 3), rast, slopes)
    return Example(Faces(scene.tri, (2, 0)), leaves)


def _antialias() -> Example:
    from gendr.primitives.kernels import raster
    from gendr.primitives.reference.antialias import Borders, linked

    scene, pos = _triangles(5)
    (rast, _), _ = raster.forward(scene, pos, save=False)
    borders = Borders(scene, linked(scene.tri), 1.0)
    leaves = _leaves(torch.rand(2, 5, 7, 2), pos)
    return Example(borders, leaves, completed=lambda c, p: (c, rast, p))


_EXAMPLES = {
    "logic.gates": _gates,
    "logic.mixed": _mixed,
    "primitives.mipmaps": _mipmaps,
    "primitives.texture": _lookups,
    "sorting.carry": _carry,
    "sorting.gates": _comparators,
    "sorting.network": _comparators,
    "sorting.isotonic": _isotonic,
    "sorting.losses": _list_losses,
    "sorting.places": _places,
    "sorting.mean_ranks": _mean_ranks,
    "sorting.products": _products,
    "sorting.ranks": _projection,
    "sorting.rows": _rows,
    "sorting.values": _projection,
    "losses.cosines": _cosines,
    "primitives.antialias": _antialias,
    "primitives.interpolate": _interpolate,
    "primitives.rasterize": _rasterize,
    "rendering.alpha": _alpha,
    "rendering.distance": _distance,
    "rendering.gather": _gather,
    "rendering.ordered": _ordered,
    "rendering.project": _project,
    "splatting.project": _splats,
    "topk.losses": _losses,
    "topk.mask": _mask,
    "relaxed.alignment": _alignment,
    "relaxed.bubble_sort": _bubble_sort,
    "relaxed.program": _program,
    "relaxed.shortest_path": _shortest_path,
    "relaxed.shortest_path_graph": _shortest_path_graph,
}


def example(name: str) -> Example:
    """The example of an operator, the same in every call.

    Raises:
        KeyError: it has none; give it one here.
    """
    torch.manual_seed(0)
    made = _EXAMPLES[name]()
    if made.kernels is not None:
        return made
    return replace(made, kernels=Choice.known[name.partition(".")[0]].load("cpu").KERNELS[name])
