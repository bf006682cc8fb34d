"""Ordered joining on the Triton backend against the definition in float64; interpreted."""

from itertools import product

import pytest
import torch

pytest.importorskip("triton", reason="Triton has no wheels for this platform")

import gendr
from gendr.mesh import icosphere
from gendr.rendering.ordered import ordered
from support import TOLERANCES, ahead_of_time, degenerate, relative_l2, soup
from support.backends import place
from support.cases import for_each
from support.laws import EXAMPLES, forms
from support.layers import Scene, assert_finite, assert_same, deep, layers, weights, wild
from support.tconorms import EVERY
from support.triton import needs_the_interpreter, small_tiles

pytestmark = [
    pytest.mark.skipif(place("triton")[0] != "cpu", reason="its scenes are on the CPU"),
    pytest.mark.usefixtures("nan_in_new_tensors"),
]

TOLERANCE = TOLERANCES[torch.float32]
MEMBERS = [*product([forms(law)[k] for law in EXAMPLES for k in (0, 4, 5, 7)], EVERY)]


@pytest.fixture
def small(monkeypatch):
    """Small tiles and blocks, lists for all, pieces of faces: every loop turns."""
    small_tiles(monkeypatch)


def rounded(scene):
    """The scene with the float32 numbers that the kernels see."""
    scene.leaves = {k: v.detach().float().double() for k, v in scene.leaves.items()}
    return scene


def steep(scene):
    """Whether a law is so steep that float32 is off by more than `TOLERANCES` says of others."""
    shape = scene.dist.shape_parameter
    return shape is not None and float(shape) < 1


@pytest.mark.rotating(4, group="rendering")
@for_each("dist, tconorm", MEMBERS, rotating=1200)
def test_every_law_and_family_equals_the_definition(dist, tconorm):
    scene = rounded(Scene(soup(1, 7, 3), (9, 12), dist, tconorm, scale=0.1))
    got, want = scene.found("triton", torch.float32), scene.found("reference")
    if steep(scene):
        assert (got[1].double() - want[1]).abs().max() <= TOLERANCE.steep_alpha
    else:
        assert_same(got, want, torch.float32)


@pytest.mark.rotating(4, group="rendering")
@for_each(
    sort=["pixel", "centroid"],
    size=[(1, 1), (9, 19), (13, 3)],
    tconorm=["probabilistic", "average", "max", "yager(p=2)"],
    channels=[1, 5],
    rotating=24,
)
def test_batches_tiles_and_channels_equal_the_definition(small, sort, size, tconorm, channels):
    scene = rounded(Scene(soup(2, 9, 4), size, "gamma(shape=2)", tconorm, channels=channels))
    got, want = (scene.found(b, d, sort=sort) for b, d in
                 (("triton", torch.float32), ("reference", torch.float64)))  # fmt: skip
    assert_same(got, want, torch.float32)


@pytest.mark.rotating(4, group="rendering")
@for_each(sort=["pixel", "centroid"], rotating=2)
def test_nearer_faces_come_first_and_equal_ones_by_their_number(sort):
    for depths in ((1.0, 2.0, 3.0), (3.0, 1.0, 2.0), (2.0,) * 9, (2.0, 1.0, 2.0, 1.0)):
        got, want = (weights(layers(*depths, dtype=torch.float32), backend=b, sort=sort)
                     for b in ("triton", "reference"))  # fmt: skip
        assert torch.equal(got, want), depths


def test_faces_that_pass_through_each_other_are_sorted_in_every_pixel():
    scene = layers([1.0, 4.0, 1.6], [4.0, 1.0, 1.6], dtype=torch.float32)
    for sort in ("pixel", "centroid"):
        got, want = (weights(scene, 8, opacity=1.0, sort=sort, backend=b)
                     for b in ("triton", "reference"))  # fmt: skip
        assert torch.equal(got, want)


@pytest.mark.rotating(4, group="rendering")
@for_each(
    tconorm=["probabilistic", "max", "einstein", "average"], sort=["pixel", "centroid"], rotating=8
)
def test_many_faces_of_a_pixel_and_what_is_behind_the_bound(tconorm, sort):
    """The nearest four are looked for again and again; some are equally deep."""
    corners = deep(24, 10)
    corners[:, 12:] = corners[:, :12] * torch.tensor([1.0, 0.9, 1.0])
    scene = rounded(Scene(corners, (5, 9), "logistic", tconorm))
    got, want = scene.found("triton", torch.float32, sort=sort), scene.found("reference", sort=sort)
    assert_same(got, want, torch.float32)
    image, alpha, grads, _ = scene.found("triton", torch.float32, sort=sort, bound=0.3)
    less = got[1] - alpha
    assert less.min() >= -1e-6
    assert less.max() < 0.3
    assert (image - got[0]).abs().max() < 0.3
    if tconorm in ("probabilistic", "average"):
        assert torch.equal(image, got[0]) == (tconorm == "average")
    assert_finite((image, alpha, grads))


@pytest.mark.rotating(4, group="rendering")
def test_opacities_of_0_and_faces_that_are_not_seen():
    for tconorm in ("probabilistic", "average", "max"):
        for images, count in ((2, 0), (0, 3), (0, 0)):
            found = Scene(soup(images, count, 0), (3, 5), "logistic", tconorm).found("triton")
            assert found[0].shape == (images, 3, 3, 5)
            assert not found[0].any()
        seen = soup(1, 3, 12)
        unseen = [seen * torch.tensor([1, 1, -1.0]), seen + torch.tensor([50.0, 0, 0])]
        scene = rounded(Scene(torch.cat([*unseen, seen], 1), (4, 5), "uniform", tconorm))
        scene.leaves["opacity"][:, -1] = 0
        got, want = scene.found("triton", torch.float32), scene.found("reference")
        assert_same(got, want, torch.float32)


@pytest.mark.rotating(4, group="rendering")
@for_each("dist, tconorm", [("logistic", "probabilistic"), ("uniform", "max")])
def test_hard_faces_and_wild_scenes_are_finite(dist, tconorm):
    scene = Scene(degenerate(), (5, 5), dist, tconorm)
    got, want = scene.found("triton", torch.float32), scene.found("reference")
    assert_finite(got)
    assert (got[1] - want[1]).abs().max() <= TOLERANCE.alpha
    corners, colours, opacity, scale = wild(4, 5)
    scene = Scene(corners, (4, 4), dist, tconorm)
    given = {"corners": corners, "colours": colours, "opacity": opacity, "scale": scale}
    scene.leaves |= {k: v.double() for k, v in given.items()}
    found = scene.found("triton", torch.float32, cutoff=1e-6)
    assert_finite(found)
    assert found[1].min() >= 0
    assert found[1].max() <= 1 + 1e-6


def test_without_channels_there_is_alpha():
    scene = rounded(Scene(soup(1, 3, 12), (4, 5), "uniform", "einstein", channels=0))
    got, want = scene.found("triton", torch.float32), scene.found("reference")
    assert got[1].any()
    assert_same(got, want, torch.float32)


@pytest.mark.rotating(4, group="rendering")
@for_each(
    "dist, tconorm, learnable, options",
    [
        ("logistic", "probabilistic", ("scale",), {}),
        ("logistic", "yager(p=2)", ("scale", "p"), {"near": 2.35}),  # which cuts faces
        ("gamma(shape=2).centred", "max", ("scale", "shape"), {"orthographic": True}),
    ],
    rotating=3,
)
def test_scenes_and_what_a_renderer_learns(dist, tconorm, learnable, options):
    found, near = [], options.get("near", 1.0)
    for backend, dtype in (("triton", torch.float32), ("reference", torch.float64)):
        ball, views = icosphere(0, dtype=dtype), torch.tensor([10.0, 80.0])
        vertices = ball.vertices.clone().requires_grad_()
        colours = torch.linspace(0, 1, 60, dtype=dtype).reshape(20, 3).requires_grad_()
        renderer = gendr.Renderer(
            (9, 13), dist, tconorm, scale=3e-2, near=near, composite="ordered", backend=backend,
            learnable=learnable, lighting="none", opacity=0.6, bound=0.0,
        ).to(dtype)  # fmt: skip
        camera = gendr.look_at(
            2.7, 20.0, views, orthographic=options.get("orthographic", False), dtype=dtype
        )
        out = renderer(gendr.Mesh(vertices, ball.faces, face_colors=colours), camera)
        loss = (out.rgb * torch.linspace(-1, 1, out.rgb.numel()).reshape(out.rgb.shape).cos()).sum()
        leaves = [vertices, colours, *renderer.parameters()]
        found.append([out.rgb.detach(), *torch.autograd.grad(loss + out.alpha.sum(), leaves)])
    for got, want in zip(*found, strict=True):
        assert relative_l2(got, want) <= 1e-5


FACES = soup(1, 3, 1, torch.float32)

# Nothing is launched: what would have been read back is made up.
SCRIPT = """
import torch
from gendr._common.readback import Readback
from gendr.rendering.backends.triton import backend, tiles
from support.ahead_of_time import compile_launches
from support.layers import Scene
from support import soup

cases = compile_launches()
backend.available, backend.supports = lambda: None, lambda _: True
tiles.Capacity.of_step = lambda self, totals: (4096, 0)
Readback.wait = lambda self: [100_000]
for dist, tconorm, sort, channels in cases:
    scene = Scene(soup(1, 70, 3), (64, 64), dist, tconorm, channels=channels)
    scene.found("triton", torch.float32, sort=sort)
"""
COMPILED = [
    ("power(shape=1)", "probabilistic", "pixel", 3),
    ("logistic", "probabilistic", "centroid", 3),
    ("gamma(shape=2)", "yager(p=2)", "pixel", 5),
    ("uniform", "max", "centroid", 1),
    ("cauchy", "average", "pixel", 2),
]


@pytest.mark.slow
@pytest.mark.rotating(4, group="compiled ahead")
@needs_the_interpreter
def test_its_kernels_compile_and_spill_hardly_anything(request, seed):
    every = request.config.getoption("--every")
    cases = COMPILED if every else [COMPILED[seed % len(COMPILED)]]
    capabilities = ahead_of_time.CAPABILITIES
    capabilities = capabilities if every else [capabilities[seed % len(capabilities)]]
    found = ahead_of_time.launches_compiled(SCRIPT, cases, capabilities)
    for kernel in ("join_layers", "part_layers", "layer_gradients"):
        usages = [usage for name, _, usage in found if name == kernel]
        assert len(usages) == len(cases) * len(capabilities)
        for usage in usages:
            assert usage.size > 0
            assert usage.registers <= 168
            assert usage.local <= 16


def test_what_is_not_finite_is_refused():
    faces = FACES.clone()
    faces[0, 1, 2, 0] = torch.nan
    with pytest.raises(ValueError, match=r"face_vertices .*(NaN|inf)"):
        ordered(faces, FACES[..., 0], 4, backend="triton")
