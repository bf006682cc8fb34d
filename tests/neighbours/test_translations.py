"""The tables "theirs, here" of docs/neighbours.md, run against the packages; see that page.

    pip install diffsort==0.2.0 difftopk==0.2.0 torchsort==0.1.10 pyepo==2.2.7 cvxpylayers==1.2.0
    pip install --no-deps torchlogix==0.2.2 gsplat==1.5.3 nerfstudio==1.1.5 jaxtyping tyro plyfile
    pip install --ignore-requires-python softtorch==0.1.1 torchopt
    npm install @playcanvas/splat-transform@2.7.1 @adobe/spz@0.2.3   # in that above NODE_PATH

torchsort builds for CUDA where it finds nvcc: hide it. Those of one line without `--no-deps` may
take another torch.
"""

import json
import os
import shutil
import subprocess
import sys
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import gendr
from gendr import relaxed, soft
from gendr.logic import GroupSum, LogicLayer
from gendr.relaxed.estimators import (
    ContrastiveLoss,
    FenchelYoungLoss,
    SolutionCache,
    SolutionRankingLoss,
    SPOPlusLoss,
    estimated,
    regret,
)
from gendr.sorting import permutation, soft_quantile, soft_rank, soft_sort
from gendr.topk import SmoothTopKSVM, TopKCrossEntropy, soft_topk, soft_topk_mask

pytestmark = [pytest.mark.every, pytest.mark.filterwarnings("ignore")]


def drawn(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(shape[-1]))


def assert_both(theirs, ours, x, atol=1e-6):
    """Values, and gradients of their sum to x."""
    assert_close(ours, theirs.reshape(ours.shape), rtol=0, atol=atol, check_dtype=False)
    slopes = (torch.autograd.grad(value.sum(), x)[0] for value in (ours, theirs))
    assert_close(*slopes, rtol=0, atol=atol)


@pytest.mark.parametrize(("theirs", "ours"), [("l2", "l2"), ("kl", "entropic")])
def test_torchsort(theirs, ours):
    torchsort = pytest.importorskip("torchsort")
    x, r = drawn(4, 8).requires_grad_(), 0.3
    names = {"regularization": theirs, "regularization_strength": r}
    for kind, own in ((torchsort.soft_rank, soft_rank), (torchsort.soft_sort, soft_sort)):
        assert_both(
            kind(x, **names), own(x, "permutahedron", steepness=1 / r, regularization=ours), x
        )


@pytest.mark.parametrize("method", ["odd_even", "bitonic"])
def test_diffsort(method):
    diffsort = pytest.importorskip("diffsort")
    x = drawn(4, 8)
    for theirs, options in {
        "cauchy": {"dist": "cauchy", "steepness": 5.0},
        "logistic": {"dist": "logistic", "steepness": 5.0},
        "gaussian": {"dist": "gaussian", "steepness": 5.0},
        "optimal": {"dist": "optimal", "steepness": 5.0},
        "reciprocal": {"dist": "reciprocal", "steepness": 2.5},
        "logistic_phi": {"dist": "logistic", "steepness": 5.0, "art": 0.25},
    }.items():
        values, p = diffsort.DiffSortNet(method, 8, steepness=5.0, distribution=theirs)(x)
        assert_close(permutation(x, method, **options), p.mT, rtol=0, atol=1e-9)
        assert_close(soft_sort(x, method, **options), values, rtol=0, atol=1e-9)


def test_difftopk():
    difftopk = pytest.importorskip("difftopk")
    x, tau = drawn(4, 8, dtype=torch.float32), 0.5
    falling = {"steepness": 1 / tau, "descending": True}
    pairs = {
        "NeuralSort": (
            difftopk.NeuralSort(tau)(x), permutation(x, "neuralsort", steepness=1 / tau).mT,
        ),
        "SoftSort": (difftopk.SoftSort(tau)(x), permutation(x, "softsort", **falling)),
        "pow": (difftopk.SoftSort(tau, pow=2)(x), permutation(x, "softsort", power=2.0, **falling)),
        "network": (
            difftopk.DiffTopkNet("odd_even", 8, 3, steepness=5.0)(x)[1],
            soft_topk(x, 3, "odd_even", steepness=5.0).attribution.flip(-2).mT,
        ),
    }  # fmt: skip
    labels = torch.tensor([0, 3, 7, 2])
    pairs["svm"] = (
        difftopk.SmoothTopKLoss(8, k=3, tau=tau)(x, labels),
        SmoothTopKSVM(3, tau)(x, labels),
    )
    hard = difftopk.SmoothHardTopKLoss(8, k=3, tau=tau)
    pairs["hard svm"] = hard(5 * x, labels), SmoothTopKSVM(3, tau)(5 * x, labels)
    shares = [0.5, 0.2, 0.3]
    for theirs, ours in (("sort", "network"), ("smce", "softmax")):
        loss = difftopk.TopKCrossEntropyLoss("softsort", 0.5, shares, 8, top1_mode=theirs)
        own = TopKCrossEntropy(shares, "softsort", m=None, top1=ours, steepness=0.5)
        pairs[theirs] = loss(x, labels), own(x, labels)
    for name, (theirs, ours) in pairs.items():
        assert_close(ours, theirs, rtol=0, atol=1e-5, msg=name)
    plain = difftopk.TopKCrossEntropyLoss("softsort", 0.5, shares, 8)(x, labels)
    assert (plain - pairs["smce"][1]).abs() > 0.1  # "sm", their default, has no counterpart


def test_softtorch():
    softtorch = pytest.importorskip("softtorch")
    x, s, n = drawn(4, 8).requires_grad_(), 0.2, 8
    as_is = {"softness": s, "standardize": False}
    fast = {"method": "fast_soft_sort", "mode": "c0", **as_is}
    network = {"method": "sorting_network", "return_indices": False, **as_is}
    pairs = [
        (
            softtorch.sort(x, method="softsort", **as_is).values,
            soft_sort(x, "softsort", steepness=5.0),
        ),
        (
            softtorch.argsort(x, method="softsort", **as_is),
            permutation(x, "softsort", steepness=5.0),
        ),
        (
            softtorch.sort(x, **network).values,
            soft_sort(x, "bitonic", dist="logistic", steepness=5.0),
        ),
        (
            softtorch.sort(x, return_indices=False, **fast).values,
            soft_sort(x, "permutahedron", steepness=1 / (s * (n - 1))),
        ),
        (
            softtorch.rank(x, dim=-1, descending=False, **fast),
            soft_rank(x, "permutahedron", steepness=(n - 1) / s),
        ),
        (
            softtorch.topk(x, 3, method="softsort", **as_is).values,
            soft_topk(x, 3, "softsort", steepness=5.0).values,
        ),
        (
            softtorch.quantile(x, 0.3, dim=-1, method="softsort", **as_is),
            soft_quantile(x, 0.3, method="softsort", steepness=5.0),
        ),
        (
            softtorch.median(x, dim=-1, method="softsort", **as_is).values,
            soft_quantile(x, 0.5, "softsort", steepness=5.0, interpolation="lower"),
        ),
        (
            softtorch.max(x, dim=-1, method="softsort", **as_is).values,
            soft_topk(x, 1, "softsort", steepness=5.0).values[..., 0],
        ),
        (
            softtorch.sort_st(x, method="softsort", **as_is).values,
            soft_sort(x, "softsort", steepness=5.0, hard=True),
        ),
        (softtorch.abs(x, softness=s), soft.abs(x, s)),
    ]
    for theirs, ours in pairs:
        assert_both(theirs, ours, x, 1e-9)
    # Its NeuralSort smooths |x_i - x_j|: not the formula of Grover et al.
    theirs = softtorch.argsort(x, method="neuralsort", **as_is)
    assert (theirs - permutation(x, "neuralsort", steepness=5.0)).abs().max() > 0.05
    y = x.detach().flip(0)
    assert 0.05 < (softtorch.eq(x, y, softness=s) - soft.equal(x, y, s)).abs().max() < 0.1
    assert 0.02 < (softtorch.round(x, softness=s) - soft.round(x, s)).abs().max() < 0.05
    # And by default values are squashed first.
    assert softtorch.sort(torch.tensor([1.0, 2.0, 3.0, 100.0])).values[-1] < 99
    assert softtorch.rank(10 * torch.eye(2)).flatten()[1:3].max() > 2.5  # of all, not of a row


@pytest.mark.parametrize(
    ("mode", "dist", "factor"),
    [("smooth", "logistic", 1), ("c0", "uniform", 5), ("c1", "cubic_hermite", 5)],
)
def test_comparisons_of_softtorch(mode, dist, factor):
    softtorch = pytest.importorskip("softtorch")
    x, s, zero = torch.linspace(-3, 3, 41, dtype=torch.float64), 0.2, torch.zeros(41).double()
    distribution = gendr.distributions.get(dist)
    assert_close(distribution(x, factor * s), softtorch.sigmoidal(x, softness=s, mode=mode))
    with relaxed.smoothing(scale=factor * s, dist=dist):
        for name in ("less", "greater", "less_equal", "greater_equal"):
            theirs = getattr(softtorch, name)(x, zero, softness=s, mode=mode)
            assert_close(getattr(relaxed, name)(x, zero), theirs, rtol=0, atol=1e-9)
    p, q = torch.rand(2, 9, dtype=torch.float64)
    assert_close(gendr.tnorms.tnorm("probabilistic")(p, q), softtorch.logical_and(p, q))
    assert_close(gendr.tnorms.tconorm("probabilistic")(p, q), softtorch.logical_or(p, q))


@pytest.mark.parametrize(
    ("theirs", "ours", "fan_in", "sign"),
    [
        ("raw", "gates", 2, 1), ("light", "table", 2, 1),
        ("warp", "walsh", 2, -1), ("warp", "walsh", 4, -1),
    ],
)  # fmt: skip
def test_torchlogix(theirs, ours, fan_in, sign, monkeypatch):
    """Weights and wires of a trained layer give the same outputs here, soft and hard."""
    if sys.version_info < (3, 12):  # its exporter is written for Python 3.12
        exporter = types.ModuleType("torchlogix.circuit")
        exporter.Circuit = None
        monkeypatch.setitem(sys.modules, "torchlogix.circuit", exporter)
    layers = pytest.importorskip("torchlogix.layers")
    torch.manual_seed(0)
    x = torch.rand(20, 12)
    for sampling, estimator in (("soft", "expected"), ("hard", "straight_through")):
        layer = layers.LogicDense(
            12, 16, lut_rank=fan_in, parametrization=theirs,
            parametrization_kwargs={"weight_init": "random", "forward_sampling": sampling},
            connections_kwargs={"init_method": "random-unique"},
        )  # fmt: skip
        wires = layer.connections.indices
        own = LogicLayer(12, 16, fan_in, parametrization=ours, wiring=wires, estimator=estimator)
        with torch.no_grad():
            own.weight.copy_(sign * layer.weight)
        slopes = [torch.autograd.grad(m(x).square().sum(), m.weight)[0] for m in (own, layer)]
        assert_close(own(x), layer(x))
        assert_close(sign * slopes[0], slopes[1], rtol=0, atol=1e-5)
        assert_close(own.eval()(x.round()), layer.eval()(x.round()))
    assert_close(GroupSum(4, 2.0, beta=0.5)(x), layers.GroupSum(4, tau=2.0, beta=1.0)(x))


def cheapest_two(costs):
    return (costs.argsort().argsort() < 2).astype(costs.dtype)


def test_pyepo():
    pytest.importorskip("pyepo")
    from pyepo import EPO, func, metric  # pyright: ignore[reportMissingImports]
    from pyepo.data.dataset import optDataset  # pyright: ignore[reportMissingImports]
    from pyepo.model.opt import optModel  # pyright: ignore[reportMissingImports]

    class Model(optModel):  # pyright: ignore[reportUntypedBaseClass]
        def __init__(self):
            self.modelSense = EPO.MINIMIZE
            super().__init__()

        def _getModel(self):
            return None, dict(enumerate(range(5)))

        @property
        def num_cost(self):
            return 5

        def setObj(self, c):
            self.costs = np.asarray(c, np.float64)

        def solve(self):
            found = cheapest_two(self.costs)
            return found, float(found @ self.costs)

    model, costs, features = Model(), drawn(12, 5).abs().float(), drawn(12, 3).float()
    known = optDataset(model, features.numpy(), costs.numpy())
    w, z = torch.tensor(known.sols), torch.tensor(known.objs)
    x, weights = (costs + drawn(12, 5).flip(0).float()).requires_grad_(), drawn(12, 5).float()
    cache = SolutionCache(cheapest_two, minimize=True, refresh=0.0)
    cache.add(w)
    pool = {"processes": 1, "solve_ratio": 0.0, "dataset": known}

    def solution(method, **options):
        return estimated(cheapest_two, method, minimize=True, **options)(x) * weights

    pairs = [
        (func.SPOPlus(model)(x, costs, w, z), SPOPlusLoss(cheapest_two, minimize=True)(x, costs)),
        (func.blackboxOpt(model, lambd=3.0)(x) * weights, solution("black_box", step=3.0)),
        (func.negativeIdentity(model)(x) * weights, solution("straight_through")),
        (func.noiseContrastiveEstimation(model, **pool)(x, w), ContrastiveLoss(cache)(x, w)),
        (func.contrastiveMAP(model, **pool)(x, w), ContrastiveLoss(cache, hardest=True)(x, w)),
    ]
    pairs += [
        (kind(model, **pool)(x, costs), SolutionRankingLoss(cache, order=order)(x, costs))
        for order, kind in {
            "listwise": func.listwiseLearningToRank,
            "pairwise": func.pairwiseLearningToRank,
            "pointwise": func.pointwiseLearningToRank,
        }.items()
    ]
    for theirs, ours in pairs:
        assert_both(theirs, ours, x)
    theirs = func.perturbedFenchelYoung(model, n_samples=4000, sigma=0.5)(x, w)
    ours = FenchelYoungLoss(cheapest_two, minimize=True, samples=4000, scale=0.5, seed=0)(x, w)
    assert_both(theirs, ours, x, 0.03)
    linear = torch.nn.Linear(3, 5)
    data = torch.utils.data.DataLoader(known, batch_size=4)
    ours = regret(linear(features), costs, cheapest_two, minimize=True).item()
    assert ours == pytest.approx(metric.regret(linear, model, data), abs=1e-6)


def test_cvxpylayers():
    """Two masks are convex programs: a capped simplex with squares, and with binary entropies."""
    layers = pytest.importorskip("cvxpylayers.torch")
    import cvxpy as cp  # pyright: ignore[reportMissingImports]

    p, c = cp.Variable(6), cp.Parameter(6)
    inside, total = [p >= 0, p <= 1], [cp.sum(p) == 2]
    x, weights = drawn(3, 6).requires_grad_(), drawn(3, 6).flip(0)

    def layer(objective, constraints):
        problem = cp.Problem(cp.Minimize(objective), constraints)
        return layers.CvxpyLayer(problem, parameters=[c], variables=[p])(x)[0] * weights

    entropies = 0.3 * cp.sum(cp.entr(p) + cp.entr(1 - p))
    for theirs, dist, scale in (
        (layer(0.4 * cp.sum_squares(p) - c @ p, inside + total), "uniform", 0.4),
        (layer(-c @ p - entropies, total), "logistic", 0.3),
    ):
        assert_both(theirs, soft_topk_mask(x, 2, dist=dist, scale=scale) * weights, x, 1e-3)
    (slope,) = torch.autograd.grad(layer(-c @ p, inside + total).sum(), x)
    assert slope.abs().max() < 1e-2  # a linear program has no gradient


def a_camera(height, width):
    turn = gendr.mesh.axis_angle_to_matrix(torch.tensor([0.3, -0.2, 0.1]))
    shift = torch.tensor([0.1, 0.2, 4.0])
    k = torch.tensor([[150.0, 0, 83], [0, 140.0, 55], [0, 0, 1]])
    view = torch.eye(4)
    view[:3, :3], view[:3, 3] = turn, shift
    return gendr.Camera.from_opencv(turn, shift, k, (height, width)), view, k


def pixels(camera, points, height, width):
    """x, y of points with the centre of the first pixel at 0.5, 0.5: [V, 2]."""
    (ndc,), _ = camera.project(points[None])
    return (
        ndc * torch.tensor([1.0, -1.0]) * min(height, width) / 2 + torch.tensor([width, height]) / 2
    )


def test_gsplat():
    gsplat = pytest.importorskip("gsplat.cuda._torch_impl")
    from gendr.photos.splatting import colors_of

    camera, view, k = a_camera(120, 160)
    points = drawn(9, 3, dtype=torch.float32) / 2
    small = 1e-4 * torch.eye(3).expand(9, 3, 3)
    _, means, *_ = gsplat._fully_fused_projection(points, small, view[None], k[None], 160, 120)
    assert_close(pixels(camera, points, 120, 160), means[0], rtol=0, atol=1e-3)
    directions = torch.nn.functional.normalize(points, dim=-1)
    coefficients = drawn(9, 16, dtype=torch.float32)[..., None].expand(9, 16, 3).contiguous()
    theirs = gsplat._spherical_harmonics(3, directions, coefficients)
    assert_close(colors_of(coefficients, directions), (theirs + 0.5).clamp(min=0))


def columns_of(file):
    """The vertices of a binary PLY file of floats, by name."""
    head, data = file.read_bytes().split(b"end_header\n", 1)
    names = [line.split()[-1].decode() for line in head.split(b"\n") if b"property" in line]
    table = np.frombuffer(data, "<f4").reshape(-1, len(names))
    return dict(zip(names, table.T, strict=True))


def test_files_of_gsplat(tmp_path):
    """Our file of Gaussians is what gsplat writes of the same numbers."""
    exporter = pytest.importorskip("gsplat.exporter")
    from gendr.photos.splatting import Look, from_mesh

    splats = from_mesh(gendr.mesh.icosphere(1), 20, look=Look(degree=3))
    splats = splats.with_tensors(harmonics=drawn(*splats.harmonics.shape).float())
    splats.to_ply(tmp_path / "ours.ply")
    ours = columns_of(tmp_path / "ours.ply")

    def table(*names):
        return torch.tensor(np.stack([ours[name] for name in names], 1))

    exporter.export_splats(
        means=table(*"xyz"), scales=table("scale_0", "scale_1", "scale_2"),
        quats=table("rot_0", "rot_1", "rot_2", "rot_3"), opacities=table("opacity")[:, 0],
        sh0=splats.harmonics[:, :1], shN=splats.harmonics[:, 1:],
        format="ply", save_to=str(tmp_path / "theirs.ply"),
    )  # fmt: skip
    theirs = columns_of(tmp_path / "theirs.ply")
    assert {*ours} - {*theirs} <= {"nx", "ny", "nz"}
    for name, column in theirs.items():
        np.testing.assert_array_equal(column, ours[name], err_msg=name)


def test_nerfstudio():
    cameras = pytest.importorskip("nerfstudio.cameras.cameras")
    camera, view, k = a_camera(120, 160)
    pose = torch.linalg.inv(view)
    pose[:, 1:3] *= -1  # its cameras look along -z, y up
    ours = gendr.Camera.from_opengl(camera_to_world=pose)
    assert_close((ours.rotation, ours.translation), (camera.rotation, camera.translation))
    rays = cameras.Cameras(
        pose[None, :3], fx=k[0, 0], fy=k[1, 1], cx=k[0, 2], cy=k[1, 2], width=160, height=120
    ).generate_rays(0)
    ends = (rays.origins + 5 * rays.directions).reshape(-1, 3)
    v, u = torch.meshgrid(torch.arange(120) + 0.5, torch.arange(160) + 0.5, indexing="ij")
    expected = torch.stack([u, v], -1).reshape(-1, 2)
    assert_close(pixels(camera, ends, 120, 160), expected, rtol=0, atol=1e-3)


def test_trimesh():
    trimesh = pytest.importorskip("trimesh")
    theirs = trimesh.creation.box((4, 1, 2)).subdivide()
    theirs.vertices += 0.03 * drawn(*theirs.vertices.shape).numpy()
    ours = gendr.Mesh.from_trimesh(theirs, dtype=torch.float64)
    assert_close(ours.face_areas, torch.tensor(theirs.area_faces))
    assert_close(ours.face_normals, torch.tensor(theirs.face_normals))
    assert_close(ours.volumes.item(), theirs.volume)
    assert {*map(tuple, ours.edges.tolist())} == {*map(tuple, theirs.edges_unique.tolist())}
    assert ours.is_watertight == theirs.is_watertight
    # Weighted by angles there, by areas here.
    assert (ours.vertex_normals - torch.tensor(theirs.vertex_normals)).abs().max() > 0.1


# What it writes of our file, and by how much each format rounds points, harmonics beyond the first,
# colours, opacities and logarithms of sizes.
FORMATS = {
    "a.ply": (0, 1e-6, 1e-6, 1e-6, 1e-6),
    "a.compressed.ply": (2e-3, 1 / 63, 1 / 255, 1 / 255, 5e-3),
    "a.spz": (2**-12, 1 / 8, 0.014, 1 / 255, 1 / 30),
    "a.glb": (1e-6, 1e-6, 1e-6, 1e-6, 1e-6),
    "a.sog": (1e-3, np.inf, 0.05, 1 / 255, 0.1),  # harmonics by clusters
}


@pytest.mark.parametrize("name", FORMATS)
def test_splat_transform(name, tmp_path):
    """Our file through each of its formats and back, Gaussian by Gaussian."""
    from scipy.spatial import KDTree

    from gendr.photos.splatting import Look, from_mesh, read_cloud

    folder = Path(os.environ.get("NODE_PATH", "none")) / "@playcanvas" / "splat-transform"
    node = shutil.which("node")
    if node is None or not folder.is_dir():
        pytest.skip("needs node, and npm install @playcanvas/splat-transform above NODE_PATH")
    if name == "a.spz":
        pytest.importorskip("zstandard")
    splats = from_mesh(gendr.mesh.icosphere(2), 400, look=Look(degree=3))
    harmonics = 0.2 * drawn(*splats.harmonics.shape).float()
    splats.with_tensors(harmonics=harmonics).to_ply(tmp_path / "ours.ply")
    command = [node, str(folder / "bin" / "cli.mjs"), "-w", "-g", "cpu", "ours.ply", name]
    subprocess.run(command, check=True, cwd=tmp_path, capture_output=True)
    ours, found = read_cloud(tmp_path / "ours.ply"), read_cloud(tmp_path / name)
    if name == "a.glb":  # which it turns by 180 degrees about z: harmonics of odd m change sign
        w, x, y, z = found.turns.T
        signs = [(-1.0) ** m for degree in range(4) for m in range(-degree, degree + 1)]
        found = replace(
            found, points=found.points * [-1, -1, 1], turns=np.stack([-z, -y, x, w], 1),
            harmonics=found.harmonics * np.array(signs)[:, None],
        )  # fmt: skip
    _, order = KDTree(found.points).query(ours.points)
    assert len(set(order)) == len(found) == 400
    found = found.at(order)
    place, rest, color, opacity, size = FORMATS[name]
    for a, b, tolerance in (
        (found.points, ours.points, place),
        (found.harmonics[:, 1:], ours.harmonics[:, 1:], rest),
        (found.harmonics[:, 0], ours.harmonics[:, 0], color),
        (found.opacity, ours.opacity, opacity),
        # .spz has no smaller sizes
        (np.log(found.sizes).clip(-10), np.log(ours.sizes).clip(-10), size),
    ):
        assert np.abs(a - b).max() <= tolerance
    alike = np.abs((found.turns * ours.turns).sum(1))
    assert alike.min() > np.cos(np.radians(1.0))


# Writes files of a cloud as our PLY has it, and what the package itself reads of them.
SPZ = """
import { readFileSync, writeFileSync } from "fs";
const spz = await (await import(process.argv[2])).default(), to = spz.CoordinateSystem.RDF;
const cloud = JSON.parse(readFileSync("cloud.json")), found = {};
for (const name in cloud) cloud[name] = Float32Array.from(cloud[name]);
Object.assign(cloud, { numPoints: cloud.alphas.length, shDegree: 3, antialiased: false });
cloud.extensions = [];
for (const [version, axes] of [[2], [3], [4], [4, 1], [4, 6], [4, 7]]) {
  const options = { version, from: to, sh1Bits: 5, shRestBits: 4 }, name = `${version}.${axes}`;
  let file = Buffer.from(spz.saveSpzToBuffer(cloud, options));
  if (axes) {  // the values as they are, called those of other axes
    const record = Buffer.from(Uint32Array.of(0xadbe0003, 4, axes).buffer);
    file[14] |= 2;
    file.writeUInt32LE(32 + record.length, 16);
    file = Buffer.concat([file.subarray(0, 32), record, file.subarray(32)]);
  }
  writeFileSync(`${name}.spz`, file);
  const read = spz.loadSpzFromBuffer(file, { to });
  found[name] = Object.fromEntries(
    ["positions", "scales", "rotations", "alphas", "colors", "sh"].map((x) => [x, [...read[x]]]));
}
writeFileSync("found.json", JSON.stringify(found));
"""


def test_adobe_spz(tmp_path):
    """The library that the format is from reads the same in its files, of all versions and axes."""
    from gendr.photos.splatting import read_cloud

    pytest.importorskip("zstandard")
    module = Path(os.environ.get("NODE_PATH", "none")) / "@adobe" / "spz" / "dist" / "spz.js"
    node, n = shutil.which("node"), 300
    if node is None or not module.is_file():
        pytest.skip("needs node, and npm install @adobe/spz above NODE_PATH")
    given = {
        "positions": drawn(n, 3), "scales": drawn(n, 3) - 4, "alphas": 2 * drawn(n),
        "rotations": torch.nn.functional.normalize(drawn(n, 4), dim=-1),
        "colors": drawn(n, 3) / 2, "sh": 0.2 * drawn(n, 15, 3),
    }  # fmt: skip
    (tmp_path / "cloud.json").write_text(
        json.dumps({k: x.flatten().tolist() for k, x in given.items()})
    )
    (tmp_path / "write.mjs").write_text(SPZ)
    run = [node, "write.mjs", module.as_uri()]
    subprocess.run(run, check=True, cwd=tmp_path, capture_output=True)
    for version, read in json.loads((tmp_path / "found.json").read_text()).items():
        theirs = {k: np.array(x).reshape(given[k].shape) for k, x in read.items()}
        ours = read_cloud(tmp_path / f"{version}.spz")
        turns = theirs["rotations"][:, [3, 0, 1, 2]]
        turns /= np.linalg.norm(turns, axis=1, keepdims=True)  # those of version 2 are not
        for a, b in (
            (ours.points, theirs["positions"]),
            (np.log(ours.sizes), theirs["scales"]),
            (ours.opacity, 1 / (1 + np.exp(-theirs["alphas"]))),
            (ours.harmonics[:, 0], theirs["colors"]),
            (ours.harmonics[:, 1:], theirs["sh"]),
            (np.abs((ours.turns * turns).sum(1)), 1),
        ):
            np.testing.assert_allclose(a, b, atol=1e-6, err_msg=version)


def test_plyfile(tmp_path):
    """Our file has the columns and the values that another reader finds."""
    plyfile = pytest.importorskip("plyfile")
    from gendr.photos.splatting import Look, from_mesh, read_cloud

    from_mesh(gendr.mesh.icosphere(1), 20, look=Look(degree=3)).to_ply(tmp_path / "a.ply")
    table = plyfile.PlyData.read(tmp_path / "a.ply")["vertex"]
    cloud = read_cloud(tmp_path / "a.ply")
    np.testing.assert_allclose(np.stack([table[c] for c in "xyz"], 1), cloud.points)
    found = np.exp(np.stack([table[f"scale_{i}"] for i in range(3)], 1))
    np.testing.assert_allclose(found, cloud.sizes, rtol=1e-6)
