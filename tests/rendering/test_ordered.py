"""Ordered joining: the kernels against the definition, the definition against what is published."""

from itertools import product

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

import gendr
from gendr.mesh import icosphere
from gendr.rendering.ordered import ordered
from support import TOLERANCES, degenerate, relative_l2, soup
from support.backends import BACKENDS as USABLE
from support.backends import place
from support.cases import for_each
from support.distributions import EXAMPLES, SMOOTH, forms
from support.layers import Scene, assert_finite, assert_same, deep, layers, weights, wild
from support.tconorms import EVERY

# Scenes are on the CPU, where Triton is interpreted.
BACKENDS = [name for name in USABLE if place(name)[0] == "cpu"]
KERNELS = [name for name in BACKENDS if name != "reference"]
EXACT = ["cpu", "reference"]
needs_triton = pytest.mark.skipif("triton" not in KERNELS, reason="for Triton's interpreter")
SORTS = ["pixel", "centroid"]
# Those with a pdf that is finite everywhere and, in `CONTINUOUS`, without a jump.
CONTINUOUS = ["cubic_hermite", "wigner_semicircle", "gaussian", "logistic", "cauchy", "gumbel_max",
              "gamma(shape=2.5)", "student_t(shape=3)", "levy", "logistic.squared"]  # fmt: skip


# ---------------------------------------------------------------------------------------------
# Kernels against the definition
# ---------------------------------------------------------------------------------------------

# A distribution as it is, and under all kinds of transforms.
FORMS = [forms(dist)[k] for dist in EXAMPLES for k in (0, 4, 5, 7)]
MEMBERS = list(product(FORMS, EVERY))


def on_kernels(cases, part):
    """Each case on the CPU, and an n-th of them by Triton's interpreter, which takes longer."""

    def rows(seed, every):
        some = cases if every else cases[seed % part :: part]
        return [(name, *case) for name in KERNELS for case in (cases if name == "cpu" else some)]

    return rows


def both(backend, scene, **options):
    """What the backend finds, and the definition for the same numbers; their dtype."""
    dtype = place(backend)[1]
    scene.leaves = {k: v.detach().to(dtype).double() for k, v in scene.leaves.items()}
    return scene.found(backend, dtype, **options), scene.found("reference", **options), dtype


@pytest.mark.rotating(4, group="rendering")
@for_each("backend, dist, tconorm", on_kernels(MEMBERS, 40), rotating=120)
def test_every_distribution_and_family_equals_the_definition(backend, dist, tconorm):
    got, want, dtype = both(backend, Scene(soup(1, 7, 3), (9, 12), dist, tconorm, scale=0.1))
    shape = want[3].get("shape")
    if dtype == torch.float32 and shape is not None and shape.min() < 1:  # so steep a distribution
        assert (got[1].double() - want[1]).abs().max() <= TOLERANCES[dtype].steep_alpha
    else:
        assert_same(got, want, dtype)


@for_each(
    "backend, sort, size, tconorm, channels",
    on_kernels(
        [*product(SORTS, [(1, 1), (17, 35), (40, 3)],
                  ["probabilistic", "average", "max", "yager(p=2)", "einstein"], [0, 1, 5])],
        20,
    ),
    rotating=15,
)  # fmt: skip
def test_batches_tiles_and_channels_equal_the_definition(
    backend, sort, size, tconorm, channels, monkeypatch
):
    images, count = (3, 12) if backend == "cpu" else (2, 9)
    if backend == "triton":
        from support.triton import small_tiles

        small_tiles(monkeypatch)
    size = size if backend == "cpu" else tuple(-(-n // 3) for n in size)
    scene = Scene(soup(images, count, 4), size, "gamma(shape=2)", tconorm, channels=channels)
    got, want, dtype = both(backend, scene, sort=sort)
    assert_same(got, want, dtype)


@pytest.mark.rotating(4, group="rendering")
@for_each(
    backend=EXACT,
    dist=CONTINUOUS,
    tconorm=[t for t in EVERY if t.given_p is None or abs(t.given_p) > 1e-3],  # a step away from 0
    rotating=160,
)
def test_gradients_are_those_of_differences(backend, dist, tconorm):
    scene = Scene(soup(1, 4, 5), (3, 4), dist, tconorm, scale=0.3)
    names = list(scene.leaves)

    def drawn(*leaves):
        return scene.drawn(backend, dict(zip(names, leaves, strict=True)), cutoff=0.0)

    assert gradcheck(drawn, tuple(scene.leaves.values()), fast_mode=True, atol=1e-4, rtol=1e-3)


def found_in(dtype, corners, size, dist, tconorm, scale, channels=3, **options):
    """Image and alpha, then gradients, of float32 numbers computed in either dtype."""
    scene = Scene(corners, size, dist, tconorm, scale, channels=channels)
    names = ("corners", "colours", "opacity", "scale")
    leaves = [scene.leaves[k].detach().float().to(dtype).requires_grad_() for k in names]
    points, colours, opacity, scales = leaves
    options = {"bound": 0.0, "cutoff": 1e-6, **options}
    image, alpha = ordered(
        points, colours, size, dist, tconorm, scales, opacity=opacity, backend="cpu", **options
    )
    loss = (image * scene.weights[0].to(dtype)).sum() + (alpha * scene.weights[1].to(dtype)).sum()
    return [image.detach(), alpha.detach(), *torch.autograd.grad(loss, leaves)]


def assert_near(found, want):
    for got, exact in zip(found[:2], want[:2], strict=True):
        error = (got.double() - exact).abs()
        assert error.max() <= 1e-5
        assert error.mean() <= 3e-6
    assert all(relative_l2(g, w) <= 1e-4 for g, w in zip(found[2:], want[2:], strict=True))


SINGLE = ["uniform", "logistic", "logistic.squared", "exponential.reversed", "cauchy"]


@pytest.mark.rotating(4, group="rendering")
@for_each(dist=SINGLE, tconorm=[t for t in EVERY if t.given_p is None or 0.3 < t.given_p < 4])
def test_float32_is_joined_within_its_bounds(dist, tconorm):
    """By the kernels in float64, which share the walk over tiles alone."""
    scene = soup(2, 25, 6), (19, 38), dist, tconorm, 0.05
    assert_near(found_in(torch.float32, *scene), found_in(torch.float64, *scene))


@for_each(
    sort=SORTS,
    size=[(1, 1), (17, 35), (40, 3)],
    tconorm=["probabilistic", "einstein"],
    channels=[1, 5],
)
def test_float32_has_tiles_and_channels(sort, size, tconorm, channels):
    scene = soup(3, 12, 4), size, "logistic", tconorm, 0.05, channels
    found, want = (found_in(x, *scene, sort=sort) for x in (torch.float32, torch.float64))
    assert_near(found, want)


def test_float32_closes_pixels_as_it_may():
    """What is left out is below the bound, and lists of many faces are sorted."""
    scene = deep(400, 2), (9, 13), "uniform", "probabilistic", 0.05
    exact = found_in(torch.float64, *scene)
    for bound in (1e-3, 0.1):
        found = found_in(torch.float32, *scene, bound=bound)
        assert 0 < (found[1].double() - exact[1]).abs().max() <= bound
        assert (found[0].double() - exact[0]).abs().max() <= bound


@for_each(dist=["logistic", "logistic.squared", "exponential.reversed"], width=[3e-3, 1e-3, 1e-4])
def test_narrow_distributions_take_distances_of_float64(dist, width):
    """The distribution is of so many pixels: a few lie that near to an edge."""
    scale = (width / 50) ** (2 if "squared" in dist else 1)
    scene = soup(1, 200, 6), (100, 100), dist, "einstein", scale
    found, want = (found_in(x, *scene) for x in (torch.float32, torch.float64))
    assert_near(found, want)
    assert ((found[1] > 1e-3) & (found[1] < 0.999)).any()
    assert (found[1] - want[1]).abs().max() < 1e-6


def test_double_precision_is_that_of_float64():
    """The bits of images are those of float64, rounded."""
    scene = soup(1, 60, 6), (20, 20), "logistic", "einstein", 1e-2
    found = found_in(torch.float32, *scene, precision="double")
    want = found_in(torch.float64, *scene)
    assert all(torch.equal(x, y.float()) for x, y in zip(found[:2], want[:2], strict=True))
    assert_near(found, want)
    assert not torch.equal(found_in(torch.float32, *scene)[0], found[0])
    with pytest.raises(ValueError, match="unknown precision 'single'"):
        found_in(torch.float32, *scene, precision="single")


# ---------------------------------------------------------------------------------------------
# The order
# ---------------------------------------------------------------------------------------------


@for_each(backend=BACKENDS, sort=SORTS, rotating=2)
def test_nearer_faces_come_first_and_equal_ones_by_their_number(backend, sort):
    def of(*depths):
        scene = layers(*depths, dtype=place(backend)[1])
        return weights(scene, backend=backend, sort=sort).flatten().tolist()

    assert of(1.0, 2.0, 3.0) == pytest.approx([0.5, 0.25, 0.125])
    assert of(3.0, 1.0, 2.0) == pytest.approx([0.125, 0.5, 0.25])
    assert of(2.0, 2.0, 2.0) == pytest.approx([0.5, 0.25, 0.125])
    assert of(2.0, 1.0, 2.0, 1.0) == pytest.approx([0.125, 0.5, 0.0625, 0.25])
    assert of(*[2.0] * 9) == pytest.approx([0.5**k for k in range(1, 10)])


@for_each(backend=BACKENDS, tconorm=["max", "probabilistic", "yager(p=2)", "average"], rotating=2)
def test_identical_faces_share_a_pixel_by_their_number(backend, tconorm):
    dtype = place(backend)[1]
    w = weights(layers(1.5, 1.5, 1.5, dtype=dtype), 3, tconorm, backend=backend)
    root = 0.5 * 2**0.5
    want = {
        "max": [0.5, 0, 0],
        "probabilistic": [0.5, 0.25, 0.125],
        "yager(p=2)": [0.5, root - 0.5, 0.75**0.5 - root],
        "average": [1 / 6] * 3,
    }[tconorm]
    assert torch.allclose(
        w, w.new_tensor(want)[:, None, None], rtol=0, atol=1e-15 if dtype == torch.float64 else 1e-6
    )


@for_each(backend=EXACT)
def test_the_nearest_of_equal_maxima_has_the_gradient(backend):
    opacity = torch.full((1, 3), 0.5, dtype=torch.float64).requires_grad_()
    scene, colours = layers(3.0, 1.0, 2.0), torch.tensor([[[1.0], [2.0], [3.0]]]).double()
    image, _ = ordered(scene, colours, 1, "heaviside", "max", opacity=opacity, backend=backend)
    (gradient,) = torch.autograd.grad(image.sum(), opacity)
    assert gradient.tolist() == [[0, 2, 0]]


@for_each(backend=BACKENDS)
def test_faces_that_pass_through_each_other_are_sorted_in_every_pixel(backend):
    """One is nearer on the left, the other on the right; 1/z is affine on the screen."""
    scene = layers([1.0, 4.0, 1.6], [4.0, 1.0, 1.6], dtype=place(backend)[1])
    w = weights(scene, 8, opacity=1.0, backend=backend)
    left = torch.arange(8).expand(8, 8) < 4
    assert torch.equal(w[0], left.to(w))
    assert torch.equal(w[1], 1 - left.to(w))
    by_centroid = weights(scene, 8, opacity=1.0, sort="centroid", backend=backend)
    assert by_centroid[0].all()
    assert not by_centroid[1].any()
    scene[0, 1, :, 2] *= 0.99
    nearer = weights(scene, 8, opacity=1.0, sort="centroid", backend=backend)
    assert nearer[1].all()
    assert not nearer[0].any()


@for_each(backend=EXACT)
def test_beyond_its_corners_a_face_has_the_depth_of_the_nearest(backend):
    """A steep face far to the left would come before the eye at the right edge of the image."""
    steep = [[-1.0, -0.1, 9.0], [-0.9, -0.1, 2.0], [-1.0, 0.1, 9.0]]
    scene = torch.cat([layers(1.5), torch.tensor([[steep]], dtype=torch.float64)], 1)
    colours = torch.eye(2, dtype=torch.float64)[None]
    image, _ = ordered(scene, colours, 4, "cauchy", scale=1.0, bound=0.0, backend=backend)
    alone, _ = ordered(scene[:, :1], colours[:, :1], 4, "cauchy", scale=1.0, backend=backend)
    torch.testing.assert_close(image[0, 0], alone[0, 0], rtol=0, atol=1e-12)


# ---------------------------------------------------------------------------------------------
# What it is
# ---------------------------------------------------------------------------------------------


@pytest.mark.rotating(4, group="rendering")
@for_each(backend=EXACT, tconorm=EVERY, dist=["logistic", "exponential.reversed"], rotating=9)
def test_weights_sum_to_the_alpha_of_the_silhouette(backend, tconorm, dist):
    corners, options = soup(2, 8, 8), {"cutoff": 1e-4, "backend": backend}
    ones = torch.ones(2, 8, 1, dtype=torch.float64)
    image, alpha = ordered(corners, ones, (9, 20), dist, tconorm, 0.05, bound=0.0, **options)
    want = gendr.silhouette(corners, (9, 20), dist, tconorm, 0.05, **options)
    torch.testing.assert_close(alpha, want, rtol=0, atol=1e-10)
    torch.testing.assert_close(image[:, 0], want, rtol=0, atol=1e-10)


@for_each(backend=EXACT)
def test_the_probabilistic_sum_is_the_over_operator(backend):
    """As Kerbl et al. and gsplat have it: w_i = a_i T_i, T_i = prod over j < i of (1 - a_j)."""
    scene = Scene(soup(1, 10, 9), (7, 9), "gaussian", "probabilistic", scale=0.1)
    image, alpha = (x.detach() for x in scene.drawn(backend))
    names = ("corners", "colours", "opacity", "scale")
    corners, colours, opacity, scale = (scene.leaves[n].detach().numpy()[0] for n in names)
    dist = scene.dist.shifted(0.2)
    one = [
        gendr.silhouette(torch.from_numpy(c[None]), (7, 9), dist, scale=s, cutoff=1e-3,
                         backend="reference").numpy()
        for c, s in zip(corners, scale, strict=True)
    ]  # fmt: skip
    size = gendr.rendering.geometry.ImageSize(7, 9)
    points = size.centres(torch.arange(63), torch.float64).numpy().reshape(7, 9, 2)
    for row, column in np.ndindex(7, 9):
        keys = []
        for c in corners:
            plane = np.linalg.solve(np.c_[c[:, :2], np.ones(3)], 1 / c[:, 2])
            key = plane @ [*points[row, column], 1]
            keys.append(np.clip(key, (1 / c[:, 2]).min(), (1 / c[:, 2]).max()))
        left, colour = 1.0, np.zeros(3)
        for i in np.argsort(keys)[::-1]:
            a = opacity[i] * one[i][row, column]
            colour += a * left * colours[i]
            left *= 1 - a
        np.testing.assert_allclose(image[0, :, row, column], colour, atol=1e-12)
        np.testing.assert_allclose(alpha[0, row, column], 1 - left, atol=1e-12)


@for_each(tconorm=EVERY)
def test_what_is_left_out_is_below_the_bound(tconorm):
    scene = Scene(deep(80, 10), (12, 20), "logistic", tconorm)
    whole, alpha = (x.detach() for x in scene.drawn("cpu"))
    for bound in (0.5, 1e-2):
        image, less = (x.detach() for x in scene.drawn("cpu", bound=bound))
        assert (alpha - less).min() >= -1e-12
        assert (alpha - less).max() < bound
        assert (image - whole).abs().max() < bound
        if bound == 0.5:
            assert torch.equal(image, whole) == (tconorm.kind == "mean")


@for_each(tconorm=["probabilistic", "max", "yager(p=2)", "einstein"])
def test_of_faces_behind_the_bound_the_others_have_their_own_gradients(tconorm):
    """The faces that a pixel keeps are the nearest so many, whose gradients nothing changes."""
    fewer = 0
    for seed in range(6):
        corners = deep(40, seed)
        scene = Scene(corners, (1, 1), "logistic", tconorm, seed=seed)
        image, alpha, grads, _ = scene.found("cpu", bound=0.1)
        # Which they are, by the gradients of colours.
        kept = (grads["colours"] != 0).any(-1)[0]
        fewer += int(kept.sum() < 30)
        some = Scene(corners, (1, 1), "logistic", tconorm, seed=seed)
        for name, leaf in some.leaves.items():
            some.leaves[name] = leaf if leaf.ndim == 0 else leaf.detach()[:, kept]
        of_kept = {k: g if g.ndim == 0 else g[:, kept] for k, g in grads.items()}
        assert_same((image, alpha, of_kept), some.found("reference"))
        for gradient in grads.values():
            assert gradient.ndim == 0 or not gradient[:, ~kept].any()
    assert fewer


# ---------------------------------------------------------------------------------------------
# Input of all kinds
# ---------------------------------------------------------------------------------------------


@for_each(backend=EXACT)
def test_strides_and_expanded_tensors(backend):
    scene = Scene(soup(1, 6, 11), (5, 6), "logistic", "hamacher(p=0.5)")
    want = scene.found(backend)
    leaves = dict(scene.leaves)
    turned = leaves["corners"].detach().transpose(1, 3).contiguous().transpose(1, 3)
    spread = leaves["colours"].detach().repeat_interleave(2, -1)[..., ::2]
    assert not turned.is_contiguous()
    assert not spread.is_contiguous()
    leaves |= {"corners": turned.requires_grad_(), "colours": spread.requires_grad_()}
    image, alpha = scene.drawn(backend, leaves)
    assert torch.equal(image, want[0])
    assert torch.equal(alpha, want[1])
    one = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    views = {k: v if v.ndim == 0 else v.detach().expand(2, *v.shape[1:]) for k, v in leaves.items()}
    views |= {"opacity": one.expand(2, 6), "scale": one.expand(2, 6)}
    image, _ = scene.drawn(backend, views)
    assert torch.equal(image[0], image[1])
    (gradient,) = torch.autograd.grad(image.sum(), one)
    step = 1e-6
    up, down = (
        scene.drawn(backend, views | {"opacity": x.expand(2, 6), "scale": x.expand(2, 6)})[0].sum()
        for x in (one.detach() + step, one.detach() - step)
    )
    assert gradient.item() == pytest.approx(((up - down) / (2 * step)).item(), rel=1e-4)


@for_each(backend=EXACT)
def test_one_image_without_a_batch(backend):
    scene = Scene(soup(1, 6, 11), (5, 6), "gamma(shape=2)", "probabilistic")
    leaves = {k: v if v.ndim == 0 else v[0] for k, v in scene.leaves.items()}
    for got, want in zip(scene.drawn(backend, leaves), scene.drawn(backend), strict=True):
        assert torch.equal(got, want[0])
    image, alpha = ordered(
        leaves["corners"], leaves["colours"], (5, 6), scale="1px", backend=backend
    )
    batched = ordered(
        scene.leaves["corners"], scene.leaves["colours"], (5, 6), scale=2 / 5, backend=backend
    )
    assert torch.equal(image, batched[0][0])
    assert torch.equal(alpha, batched[1][0])


@for_each(backend=BACKENDS, tconorm=["probabilistic", "average", "max"], rotating=3)
def test_nothing_and_what_is_not_seen(backend, tconorm):
    dtype = place(backend)[1]
    for images, count in ((2, 0), (0, 3), (0, 0)):
        corners = soup(images, count, 0)
        found = Scene(corners, (3, 5), "logistic", tconorm).found(backend, dtype)
        assert found[0].shape == (images, 3, 3, 5)
        assert found[1].shape == (images, 3, 5)
        assert not found[0].any()
        assert not found[1].any()
    seen = soup(1, 5, 12)
    unseen = [seen * torch.tensor([1, 1, -1.0]), seen * torch.tensor([1, 1, 0.0])]
    unseen += [seen + torch.tensor([50.0, 0, 0]), seen * 1e6 + 3e9]
    found = Scene(torch.cat(unseen, 1), (4, 5), "uniform", tconorm).found(backend, dtype)
    assert not found[0].any()
    assert not any(g.any() for g in found[2].values())
    scene = Scene(torch.cat([*unseen[:3], seen], 1), (4, 5), "uniform", tconorm)
    scene.leaves["opacity"].detach()[:, -1] = 0
    got, want, _ = both(backend, scene)
    assert_same(got, want, dtype)


@for_each(dist=["uniform", "logistic", "cauchy"], tconorm=["probabilistic", "max", "average"])
def test_hard_faces(dist, tconorm):
    """Edge-on, without area, behind and on the plane of the camera, twice the same."""
    scene = Scene(degenerate(), (5, 5), dist, tconorm)
    got, want = scene.found("cpu"), scene.found("reference")
    assert_finite(got)
    for x, y in zip(got[:2], want[:2], strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=1e-10)
    without = [name for name in scene.leaves if name != "corners"]  # of which two are at a corner
    for name in without:
        assert relative_l2(got[2][name], want[2][name]) <= 1e-8, name


def in_batches(seed, every):
    """Members, each with the seed and the number of its scenes; with `--every` 1e5 scenes."""
    members = list(product([form for dist in SMOOTH for form in forms(dist)[:5]], EVERY))
    if every:
        return [(*m, i, -(-100_000 // len(members))) for i, m in enumerate(members)]
    return [(*members[(i * 977 + seed * 131) % len(members)], seed * 20 + i, 16) for i in range(20)]


def assert_wild_is_finite(backend, dtype, dist, tconorm, seed, scenes, **limits):
    corners, colours, opacity, scale = (x.to(dtype) for x in wild(scenes, seed))
    scene = Scene(corners, (4, 4), dist, tconorm, seed=seed)
    given = {"corners": corners, "colours": colours, "opacity": opacity, "scale": scale}
    scene.leaves |= {k: v.double() for k, v in given.items()}
    found = scene.found(backend, dtype, **limits)
    assert_finite(found)
    assert found[1].min() >= 0
    assert found[1].max() <= 1 + 1e-6


@for_each("dist, tconorm, seed, scenes", in_batches, rotating=4)
def test_wild_scenes_are_finite(dist, tconorm, seed, scenes):
    for dtype in (torch.float64, torch.float32):
        limits = {"cutoff": (0.0, 1e-6)[seed % 2], "bound": (0.0, 1e-4)[seed % 3 > 0]}
        assert_wild_is_finite("cpu", dtype, dist, tconorm, seed, scenes, **limits)


@pytest.mark.rotating(4, group="rendering")
@for_each(
    backend=KERNELS,
    tconorm=["probabilistic", "max", "einstein", "average"],
    sort=SORTS,
    rotating=8,
)
def test_many_faces_of_a_pixel_and_what_is_behind_the_bound(backend, tconorm, sort):
    """The nearest four are looked for again and again; some are equally deep."""
    corners = deep(24, 10)
    corners[:, 12:] = corners[:, :12] * torch.tensor([1.0, 0.9, 1.0])
    scene = Scene(corners, (5, 9), "logistic", tconorm)
    got, want, dtype = both(backend, scene, sort=sort)
    assert_same(got, want, dtype)
    image, alpha, grads, _ = scene.found(backend, dtype, sort=sort, bound=0.3)
    less = got[1] - alpha
    assert less.min() >= -1e-6
    assert less.max() < 0.3
    assert (image - got[0]).abs().max() < 0.3
    if tconorm in ("probabilistic", "average"):
        assert torch.equal(image, got[0]) == (tconorm == "average")
    assert_finite((image, alpha, grads))


@needs_triton
@pytest.mark.rotating(4, group="rendering")
@for_each("dist, tconorm", [("logistic", "probabilistic"), ("uniform", "max")])
def test_hard_faces_and_wild_scenes_are_finite_in_triton(dist, tconorm):
    scene = Scene(degenerate(), (5, 5), dist, tconorm)
    got, want = scene.found("triton", torch.float32), scene.found("reference")
    assert_finite(got)
    assert (got[1] - want[1]).abs().max() <= TOLERANCES[torch.float32].alpha
    assert_wild_is_finite("triton", torch.float32, dist, tconorm, 5, 4, cutoff=1e-6)


@needs_triton
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
def test_scenes_and_what_a_renderer_learns_in_triton(dist, tconorm, learnable, options):
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


# ---------------------------------------------------------------------------------------------
# Refusals
# ---------------------------------------------------------------------------------------------

FACES, COLOURS = torch.rand(2, 3, 3, 3) + 0.1, torch.rand(2, 3, 4)


@for_each(
    "options, kind, words",
    [
        ({"face_vertices": [[1.0]]}, TypeError, "face_vertices must be a"),
        ({"face_vertices": FACES[..., :2]}, ValueError, r"face_vertices must .*\[B, F, 3, 3\]"),
        ({"face_vertices": FACES * torch.inf}, ValueError, "face_vertices .*(NaN|inf)"),
        ({"colors": COLOURS[0]}, ValueError, r"colors must .*\[B, F, C\]"),
        ({"colors": COLOURS[:, :2]}, ValueError, "colors must"),
        ({"colors": COLOURS.double()}, TypeError, "colors .*float"),
        ({"colors": COLOURS * torch.nan}, ValueError, "colors .*(NaN|inf)"),
        ({"opacity": torch.ones(2, 4)}, ValueError, r"opacity must .*\[B, F\]"),
        ({"opacity": torch.full((2, 3), 1.5)}, ValueError, r"opacity must lie in .0, 1., got 1.5"),
        ({"opacity": 0.5}, TypeError, "opacity must be a"),
        ({"scale": torch.zeros(2, 3)}, ValueError, "scale must be > 0"),
        ({"scale": -1.0}, ValueError, "scale must be > 0"),
        ({"scale": torch.ones(2)}, ValueError, "scale must"),
        ({"dist": "gamma", "shape": torch.zeros(2, 3)}, ValueError, "shape must be > 0"),
        ({"shape": torch.ones(2, 3)}, TypeError, "uniform .*shape"),
        ({"dist": torch.sigmoid}, ValueError, "named distributions only"),
        ({"tconorm": "maximum"}, ValueError, "maximum"),
        ({"sort": "tile"}, ValueError, "unknown sort 'tile'"),
        ({"bound": 1.0}, ValueError, "bound must be"),
        ({"bound": -0.1}, ValueError, "bound must be"),
        ({"cutoff": 1.0}, ValueError, "cutoff must be"),
        ({"image_size": 0}, ValueError, "image_size"),
        ({"backend": "gpu"}, ValueError, "gpu"),
    ],
)  # fmt: skip
def test_refusals(options, kind, words):
    given = {"face_vertices": FACES, "colors": COLOURS, "image_size": 4, **options}
    with pytest.raises(kind, match=words):
        ordered(**given)


@for_each(backend=BACKENDS)
def test_what_is_not_finite_is_refused(backend):
    faces = FACES.clone()
    faces[0, 1, 2, 0] = torch.nan
    with pytest.raises(ValueError, match=r"face_vertices .*(NaN|inf)"):
        ordered(faces, COLOURS, 4, backend=backend)


def test_derivatives_beyond_the_first_and_transforms():
    scene = Scene(soup(1, 3, 1), (3, 4), "logistic", "probabilistic")
    opacity = scene.leaves["opacity"]
    image, _ = scene.drawn("cpu")
    (first,) = torch.autograd.grad(image.square().sum(), opacity, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), opacity)

    def loss(opacity, backend="auto"):
        return scene.drawn(backend, {**scene.leaves, "opacity": opacity})[0].square().sum()

    reference = torch.autograd.functional.hessian(lambda o: loss(o, "reference"), opacity)
    assert torch.isfinite(reference).all()
    assert reference.any()
    torch.testing.assert_close(
        second.flatten(), reference.reshape(len(second.flatten()), -1).sum(0)
    )
    # Inside transforms "auto" is the reference.
    torch.testing.assert_close(torch.func.grad(loss)(opacity.detach()), first.detach())
    with pytest.raises(RuntimeError, match=r"rendering .* torch\.func\.vmap, .*hessian"):
        torch.func.vmap(loss)(opacity.detach().expand(2, 1, 3))


def test_pixels_of_many_faces():
    """More than the insertion sort takes, some of them of equal depth."""
    corners = soup(1, 130, seed=3)
    corners[:, 65:] = corners[:, :65]
    scene = Scene(corners, (6, 5), "cauchy", "einstein")
    assert_same(scene.found("cpu", bound=0.0), scene.found("reference", bound=0.0))


@pytest.mark.parametrize("opacity", [0.0, 1.0])
def test_the_mean_has_the_gradient_of_opacities_at_their_ends(opacity):
    scene = Scene(soup(1, 7, 3), (12, 12), "uniform", "average", scale=0.3)
    scene.leaves["opacity"] = torch.full_like(scene.leaves["opacity"], opacity).requires_grad_()
    found, wanted = scene.found("cpu"), scene.found("reference")
    assert float(wanted[2]["opacity"].norm()) > 0
    assert_same(found, wanted)
