"""The Triton kernels of the primitives against those of the CPU; interpreted without a GPU."""

import itertools

import pytest
import torch

import gendr
from gendr import primitives as dr
from gendr.mesh import icosphere
from support import relative_l2
from support.cases import for_each

pytest.importorskip("triton", reason="Triton has no wheels for this platform")

from support.triton import DEVICE, INTERPRETED, needs_a_place, needs_the_interpreter, small_sums

pytestmark = [
    pytest.mark.skipif(gendr.backends()["cpu"] is not None, reason="needs Numba"),
    needs_a_place,
]
BITS = {torch.float32: 4e-7, torch.float64: 2e-14}


@pytest.fixture
def small(monkeypatch):
    """Work cut into small pieces, where it is not a GPU that does it."""
    if INTERPRETED:
        small_sums(monkeypatch)


def outcomes(call, *leaves):
    """Results and gradients of a call (backend, *leaves), by the CPU's kernels and by Triton's."""
    found = []
    for backend, device in (("cpu", "cpu"), ("triton", DEVICE)):
        own = [x.detach().to(device).requires_grad_() for x in leaves]
        results = call(backend, *own)
        weights = [torch.sin(torch.arange(x.numel()).to(x)).view_as(x) for x in results]
        total = sum((x * w).sum() for x, w in zip(results, weights, strict=True))
        grads = torch.autograd.grad(total, own, materialize_grads=True)
        found.append(([x.detach().cpu() for x in results], [x.cpu() for x in grads]))
    return found


def on(x, like):
    return x.to(like.device)


def soup(seed):
    """Triangles of all sizes, in front of the camera and behind it, some of them twice."""
    g = torch.Generator().manual_seed(seed)
    pos = torch.randn(2, 24, 4, generator=g, dtype=torch.float64)
    pos[..., 2] *= 0.4
    pos[0, :, 3] = pos[0, :, 3].abs() + 0.3
    pos[:, 12:] = pos[:, :12] + 0.1 * pos[:, 12:]
    tri = torch.randint(0, 24, (14, 3), generator=g).int()
    return pos, torch.cat([tri, tri[:3].flip(1), torch.arange(24).view(8, 3).int()])


def ball(count, dtype=torch.float64):
    """Positions [2, V, 4] of a ball seen from two sides, and triangles."""
    mesh, g = icosphere(count), torch.Generator().manual_seed(count)
    matrix = 0.7 * torch.eye(4) + 0.1 * torch.randn(2, 4, 4, generator=g)
    pos = torch.cat([mesh.vertices, torch.ones(len(mesh.vertices), 1)], -1) @ matrix
    return pos.to(dtype), mesh.faces.int()


@pytest.mark.rotating(4, group="primitives")
@for_each(seed=range(4), dtype=[*BITS], rotating=8)
def test_the_same_triangles_are_seen(small, seed, dtype):
    """In every bit, behind the camera and of equal depths too; and gradients, of both results."""
    pos, tri = soup(seed)

    def draw(backend, points):
        tri_there = on(tri, points)
        return dr.rasterize(None, points, tri_there, (7 + seed, 11), backend=backend)

    (want, want_grads), (got, got_grads) = outcomes(draw, pos.to(dtype))
    assert (want[0][..., 3] > 0).sum() > 50
    assert torch.equal(got[0], want[0])
    assert torch.equal(got[1], want[1])
    assert relative_l2(got_grads[0], want_grads[0]) < BITS[dtype]


@pytest.mark.rotating(4, group="primitives")
def test_ranges_layers_and_equal_depths(small):
    pos, tri = soup(1)
    cut = torch.tensor([[0, 20], [3, 5], [7, 0], [11, 14]], dtype=torch.int32)

    def draw(backend, points):
        first, _ = dr.rasterize(
            dr.RasterizeGLContext(output_db=False), points[0], on(tri, points), (8, 11), cut,
            backend=backend,
        )  # fmt: skip
        peeler = dr.DepthPeeler(None, points, on(tri, points), (8, 11), backend=backend)
        with peeler:
            return first, *[peeler.rasterize_next_layer()[0] for _ in range(2)]

    (want, want_grads), (got, got_grads) = outcomes(draw, pos)
    for a, b in zip(got, want, strict=True):
        assert torch.equal(a, b)
        assert b.any()
    assert relative_l2(got_grads[0], want_grads[0]) < BITS[torch.float64]


@pytest.mark.rotating(4, group="primitives")
@for_each(
    "attributes, selected", [(5, None), (3, [2, 0, 2]), (1, "all")], dtype=[*BITS], rotating=6
)
def test_a_pipeline_and_its_gradients(small, attributes, selected, dtype):
    """Attributes of one mesh and of each image, their derivatives, silhouettes, a boost."""
    pos, tri = ball(1, dtype)
    g = torch.Generator().manual_seed(attributes)
    own = torch.rand(2, pos.shape[1], attributes, generator=g).to(dtype)

    def image(backend, points, shared, each):
        there = on(tri, points)
        rast, db = dr.rasterize(None, points, there, (14, 19), backend=backend)
        a, slopes = dr.interpolate(shared, rast, there, db, selected, backend=backend)
        b, _ = dr.interpolate(each, rast, there, backend=backend)
        color = torch.cat([a, slopes, b], -1)
        smooth = dr.antialias(color, rast, points, there, pos_gradient_boost=1.7, backend=backend)
        seen = dr.antialias(b, rast, points, there, edges="seen", backend=backend)
        assert (smooth != color).any()
        return a, slopes, b, smooth, seen

    (want, want_grads), (got, got_grads) = outcomes(image, pos, own[0], own)
    for a, b in zip((*got, *got_grads), (*want, *want_grads), strict=True):
        assert relative_l2(a, b) < BITS[dtype]
    for a, b in zip(got[:3], want[:3], strict=True):
        assert torch.equal(a, b)


@pytest.mark.rotating(4, group="primitives")
def test_silhouettes_of_the_definition_and_decisions_in_float64(small):
    """Of float32 positions whose edges pass near pixels' centres, as float64 has them."""
    pos, tri = ball(2, torch.float32)
    pos[..., 3] *= 1 + 1e-3
    rast, _ = dr.rasterize(None, pos, tri, (23, 26))
    color = torch.rand(*rast.shape[:3], 2, generator=torch.Generator().manual_seed(0))

    def smoothed(backend, c, p, where):
        there = on(tri, p)
        return (dr.antialias(c, on(where, p).to(p.dtype), p, there, backend=backend),)

    _, (got, got_grads) = outcomes(lambda b, c, p: smoothed(b, c, p, rast), color, pos)
    exact = [x.double().requires_grad_() for x in (color, pos)]
    (want,) = smoothed("reference", *exact, rast)
    torch.testing.assert_close(got[0].double(), want, rtol=0, atol=2e-7)
    weights = torch.sin(torch.arange(want.numel()).float()).view_as(want)
    for a, b in zip(got_grads, torch.autograd.grad((want * weights).sum(), exact), strict=True):
        assert relative_l2(a, b) < 1e-6


@pytest.mark.rotating(4, group="primitives")
def test_second_derivatives_are_those_of_the_definitions(small):
    """Of what the kernels have found: an order of triangles, silhouettes."""
    pos, tri = ball(0)

    def slopes(backend, points, colors):
        there = on(tri, points)
        rast, db = dr.rasterize(None, points, there, (7, 6), backend=backend)
        color, _ = dr.interpolate(colors, rast, there, db, backend=backend)
        image = dr.antialias(color, rast, points, there, backend=backend)
        total = image.square().sum() + db.square().sum()
        return torch.autograd.grad(total, (points, colors), create_graph=True)

    colors = torch.rand(2, pos.shape[1], 2, generator=torch.Generator().manual_seed(1)).double()
    pair = outcomes(slopes, pos, colors)
    for a, b in zip(*(results + grads for results, grads in pair), strict=True):
        assert relative_l2(a, b) < 1e-12


FLAT = ("wrap", "clamp", "zero")
FILTERS = ("nearest", "linear", "linear-mipmap-nearest", "linear-mipmap-linear")
MODES = [*itertools.product((*FLAT, "cube"), FILTERS)]


@pytest.mark.rotating(4, group="primitives")
@for_each("boundary, filter_mode", MODES, rotating=16)
def test_lookups_and_all_gradients(small, boundary, filter_mode):
    """A texture for all images or one for each, footprints of all lengths, an odd size."""
    g = torch.Generator().manual_seed(MODES.index((boundary, filter_mode)))
    cube, dtype = boundary == "cube", (torch.float64, torch.float32)[FILTERS.index(filter_mode) % 2]
    axes = 3 if cube else 2
    for images in (1, 2):
        tex = torch.rand((images, 6, 4, 4, 3) if cube else (images, 2, 8, 5), generator=g)
        uv = 1.5 * torch.randn(2, 5, 7, axes, generator=g)
        spread = torch.exp(2 * torch.randn(2, 5, 7, 1, generator=g) - 3)
        uv_da = spread * torch.randn(2, 5, 7, 2 * axes, generator=g)
        bias = torch.randn(2, 5, 7, generator=g)
        given = [x.to(dtype) for x in (tex, uv, uv_da, bias)]
        pair = outcomes(
            lambda backend, *x: [
                texture_of(x, filter_mode, boundary, backend),
                # A magnified texel is looked up by many pixels.
                texture_of((x[0], 0.05 * x[1] + 0.5), "linear", boundary, backend),
            ],
            *given,
        )
        for a, b in zip(*(results + grads for results, grads in pair), strict=True):
            assert relative_l2(a, b) < 3 * BITS[dtype]


def texture_of(given, filter_mode, boundary, backend):
    return dr.texture(*given, filter_mode=filter_mode, boundary_mode=boundary, backend=backend)


@pytest.mark.rotating(4, group="primitives")
def test_places_without_a_lookup(small):
    """Far away, infinite, directions without a length, derivatives that are none: as on the CPU."""
    far = [1e30, -1e30, 3e38, torch.inf, -torch.inf, -1e-30, 0.3]
    uv = torch.tensor([[a, b] for a in far for b in far]).reshape(1, 7, 7, 2)
    wide = torch.full((1, 7, 7, 4), 3e38)
    wide[0, 0, 0] = 0
    tex = torch.rand(1, 4, 8, 2, generator=torch.Generator().manual_seed(0))
    for boundary, mode in itertools.product(FLAT, FILTERS[1:]):
        if mode == FILTERS[2] and boundary != "wrap":
            continue
        (want, want_grads), (got, got_grads) = outcomes(
            lambda backend, *x, m=mode, b=boundary: [texture_of(x, m, b, backend)], tex, uv, wide
        )
        for a, b in zip((*got, *got_grads), (*want, *want_grads), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)
    way = torch.tensor([[0.0, 0, 0], [torch.nan, 1, 0], [torch.inf, 1, 0], [1, 2, 3]])
    cube = torch.rand(1, 6, 1, 1, 2, generator=torch.Generator().manual_seed(0))
    (want, want_grads), (got, got_grads) = outcomes(
        lambda backend, *x: [texture_of(x, "linear", "cube", backend)], cube, way.view(1, 2, 2, 3)
    )
    for a, b in zip((*got, *got_grads), (*want, *want_grads), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)


def everything(backend):
    """Results and gradients of all operators, of a small scene."""
    pos, tri = ball(0, torch.float32)
    tex = torch.rand(1, 4, 4, 2, generator=torch.Generator().manual_seed(3))

    def image(backend, points, texels):
        rast, db = dr.rasterize(None, points, tri, (7, 9), backend=backend)
        uv, uv_da = dr.interpolate(points[..., :2] + 0.5, rast, tri, db, "all", backend=backend)
        color = dr.texture(texels, uv, uv_da, backend=backend)
        return (dr.antialias(color, rast, points, tri, backend=backend),)

    (_, _), (got, grads) = outcomes(image, pos, tex)
    return [*got, *grads]


@pytest.mark.slow
@pytest.mark.rotating(4, group="primitives")
@needs_the_interpreter
@pytest.mark.usefixtures("nan_in_new_tensors")
def test_no_race_nothing_out_of_bounds_and_any_order_gives_the_same_bits(monkeypatch):
    from support.races import in_any_order

    small_sums(monkeypatch, block=32, chunk=16)
    watch = in_any_order(lambda: everything("triton"))
    assert {*watch.kernels} >= {
        "draw_small", "draw_large", "shade", "raster_gradients", "pixel_keys", "segment_ends",
        "block_sums", "upper_sums", "vertex_sums", "interpolated", "position_gradients",
        "corner_gradients", "find_silhouettes", "blend_pairs", "line_gradients", "sample",
        "sample_gradients", "list_lookups", "texel_sums", "halve", "halve_gradients",
    }  # fmt: skip
