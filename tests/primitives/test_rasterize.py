"""The rasteriser against rays that are solved for one by one, and rules that hold exactly."""

import numpy as np
import pytest
import torch

import gendr
from gendr import primitives as dr
from gendr.mesh import icosphere
from support.backends import BACKENDS, place
from support.cases import for_each

pytestmark = pytest.mark.skipif(gendr.backends()["cpu"] is not None, reason="needs Numba")


def scene(seed):
    """Clip-space positions [V, 4], triangles [T, 3] and a size: twelve kinds of scenes."""
    g = np.random.default_rng(seed)
    kind, count = seed % 12, int(g.integers(6, 24))
    pos = g.normal(size=(15, 4))
    tri = g.integers(0, 15, (count, 3))
    pos[:, 2] *= 0.5
    if kind in (0, 1, 2, 3, 4):
        pos[:, 3] = np.abs(pos[:, 3]) + 0.2  # in front; else corners are behind the camera too
    if kind == 1:
        pos = np.round(pos * 4) / 4
    if kind == 2:
        pos[:, :2] *= 1e4
    if kind == 3:
        pos[:, :2] *= 0.02
    if kind == 4:  # slivers
        pos[1::3] = pos[0::3] + 1e-6 * g.normal(size=(5, 4))
        tri = np.stack([np.arange(0, 15, 3), np.arange(1, 15, 3), np.arange(2, 15, 3)], 1)
    if kind == 5:  # the same triangles twice
        tri = np.concatenate([tri, tri[::-1, ::-1]])
    if kind == 6:  # on the camera plane
        pos[::2, 3] = 0.0
    if kind == 7:
        pos *= 1e-12
    if kind == 8:
        pos *= 1e12
    if kind == 9:
        pos[:, 3] = 1e-3 * pos[:, 3]
    if kind == 10:  # without area
        tri[:, 2] = tri[:, 1]
    size = [(17, 23), (32, 32), (8, 41), (1, 1)][seed % 4]
    return torch.tensor(pos), torch.tensor(tri, dtype=torch.int32), size


def rays(pos, tri, size, shift=(0.0, 0.0)):
    """(ids [H, W] + 1, whether two depths are too close to tell): b / w solves M^T b = s."""
    pos, tri = pos.numpy(), tri.numpy()
    height, width = size
    x = (2 * (np.arange(width) + shift[0]) + 1) / width - 1
    y = (2 * (np.arange(height) + shift[1]) + 1) / height - 1
    samples = np.stack([*np.meshgrid(x, y), np.ones(size)], -1).reshape(-1, 3).T
    depths = np.full((len(tri) + 2, height * width), np.inf)
    for t, corners in enumerate(pos[tri]):
        matrix = corners[:, [0, 1, 3]].T
        if len({*map(int, tri[t])}) < 3 or np.linalg.cond(matrix / np.abs(matrix).max(0)) > 1e14:
            continue
        weights = np.linalg.solve(matrix, samples)
        z = corners[:, 2] @ weights
        depths[t] = np.where((weights > 0).all(0) & (np.abs(z) < 1), z, np.inf)
    least = depths.min(0)
    ids = np.where(np.isfinite(least), depths.argmin(0) + 1, 0)
    nearly = (depths < least + 1e-9).sum(0) > 1
    return ids.reshape(size), (np.isfinite(least) & nearly).reshape(size)


@for_each(part=range(5), rotating=5)
def test_what_is_seen_equals_rays(part):
    seen = 0
    for seed in range(40 * part, 40 * part + 40):
        pos, tri, size = scene(seed)
        rast, _ = dr.rasterize(None, pos[None], tri, size)
        found = rast[0, ..., 3].numpy().astype(int)
        want, unsure = rays(pos, tri, size)
        for shift in ((1e-5, 0), (-1e-5, 0), (0, 1e-5), (0, -1e-5)):  # of a pixel
            moved, close = rays(pos, tri, size, shift)
            unsure |= close | (moved != want)
        assert (found == want)[~unsure].all(), seed
        seen += (want > 0)[~unsure].sum()
        narrow, _ = dr.rasterize(None, pos[None].float(), tri, size)
        assert torch.equal(
            narrow[..., 3],
            dr.rasterize(None, pos[None].float().double(), tri, size)[0][..., 3].float(),
        )
    assert seen > 500


def lattice(seed, n=6):
    """A bent sheet whose corners lie on pixel centres and between, with perspective."""
    g = torch.Generator().manual_seed(seed)
    grid = torch.stack(torch.meshgrid(*2 * [torch.arange(n).double()], indexing="ij"), -1)
    offsets = torch.randint(-1, 2, (n - 2, n - 2, 2), generator=g) * 0.25
    grid[1:-1, 1:-1] += (
        offsets  # in half cells of 4 pixels: all corners on multiples of a pixel / 2
    )
    xy = (grid.reshape(-1, 2) / (n - 1)) * 2 - 1
    w = 1 + torch.randint(0, 4, (n * n, 1), generator=g).double()
    pos = torch.cat([xy * w, torch.zeros_like(w), w], -1)
    index = torch.arange(n * n).view(n, n)
    a, b, c, d = (v.reshape(-1) for v in (index[:-1, :-1], index[:-1, 1:], index[1:, :-1],
                                          index[1:, 1:]))  # fmt: skip
    tri = torch.cat([torch.stack([a, b, c], -1), torch.stack([b, c, d], -1)]).int()
    return pos, tri


@for_each(seed=range(6), size=[(20, 20), (40, 21), (25, 25)])
def test_every_sample_of_a_shared_edge_has_one_owner(seed, size):
    pos, tri = lattice(seed)
    each = torch.stack([torch.arange(len(tri)), torch.ones(len(tri))], -1).int()
    alone, _ = dr.rasterize(None, pos, tri, size, ranges=each)
    assert ((alone[..., 3] > 0).sum(0) == 1).all()


def test_left_and_top_edges_own_their_samples():
    # A square from centre to centre of an image of 4 x 4: pixels 0 and 1 of the three.
    corner = torch.tensor([-0.75, 0.25])
    xy = torch.cartesian_prod(corner, corner)
    pos = torch.cat([xy, torch.zeros(4, 1), torch.ones(4, 1)], -1)[None]
    tri = torch.tensor([[0, 1, 2], [1, 2, 3]], dtype=torch.int32)
    rast, _ = dr.rasterize(None, pos, tri, (4, 4))
    assert (rast[0, ..., 3] > 0).int().tolist() == [[0] * 4, [1, 1, 0, 0], [1, 1, 0, 0], [0] * 4]


@for_each(x=[-1, 1], y=[-1, 1])
def test_zeros_of_both_signs_are_on_the_edge(x, y):
    # Two triangles above and below the middle row of samples, a product of which is -0.
    xy = torch.tensor([[-0.9, 0], [0.9, 0], [0.1, 0.9], [0.2, -0.9]]) * torch.tensor([x, y])
    pos = torch.cat([xy, torch.zeros(4, 1), torch.ones(4, 1)], -1)
    tri = torch.tensor([[0, 1, 2], [0, 1, 3]], dtype=torch.int32)
    each = torch.tensor([[0, 1], [1, 1]], dtype=torch.int32)
    rast, _ = dr.rasterize(None, pos, tri, (11, 11), ranges=each)
    assert (rast[..., 5, 1:-1, 3] > 0).sum(0).tolist() == [1] * 9


def test_equal_depths_go_to_the_lower_number_and_then_to_the_next_layers():
    pos = torch.randn(1, 3, 4, generator=torch.Generator().manual_seed(4)).double()
    pos[..., 3] = pos[..., 3].abs() + 1
    pos[..., :2] *= 2
    orders = [[2, 1, 0], [0, 1, 2], [1, 2, 0], [0, 2, 1]]
    tri = torch.tensor(orders, dtype=torch.int32)
    with dr.DepthPeeler(None, pos, tri, (19, 30)) as peeler:
        layers = [peeler.rasterize_next_layer()[0] for _ in range(5)]
    seen = layers[0][..., 3] > 0
    assert seen.sum() > 20
    for k, layer in enumerate(layers):
        assert torch.equal(layer[..., 3], seen.double() * (k + 1 if k < 4 else 0))


def test_layers_are_all_triangles_by_depth():
    g = torch.Generator().manual_seed(1)
    pos = torch.randn(2, 12, 4, generator=g, dtype=torch.float64)
    tri = torch.randint(0, 12, (9, 3), generator=g).int()
    each = torch.stack([torch.arange(9), torch.ones(9)], -1).int()
    alone = torch.stack(
        [dr.rasterize(None, p, tri, (9, 14), ranges=each)[0] for p in pos], 1
    )  # [9, 2, H, W, 4]
    depths = torch.where(alone[..., 3] > 0, alone[..., 2], torch.inf).sort(0).values
    leaf = pos.clone().requires_grad_()
    with dr.DepthPeeler(None, leaf, tri, (9, 14)) as peeler:
        for k in range(9):
            rast, _ = peeler.rasterize_next_layer()
            there = rast[..., 3] > 0
            assert torch.equal(there, depths[k].isfinite())
            torch.testing.assert_close(rast[..., 2][there], depths[k][there])
            if k == 1:
                assert torch.autograd.grad(rast[..., 2].sum(), leaf)[0].abs().sum() > 0
    with pytest.raises(RuntimeError, match="with statement"):
        peeler.rasterize_next_layer()


def test_interpolated_clip_coordinates_are_those_of_the_samples():
    """Independent of barycentric coordinates: x = X w, and d(x/w)/dX is 2 / W."""
    g = torch.Generator().manual_seed(2)
    pos = torch.randn(3, 12, 4, generator=g, dtype=torch.float64)
    tri = torch.randint(0, 12, (20, 3), generator=g).int()
    rast, db = dr.rasterize(None, pos, tri, (18, 31))
    values, slopes = dr.interpolate(pos, rast, tri, db, "all")
    there = rast[..., 3] > 0
    x = (2 * torch.arange(31).double() + 1) / 31 - 1
    y = ((2 * torch.arange(18).double() + 1) / 18 - 1)[:, None]
    w = values[..., 3]
    for k, want, pixel in ((0, x, 31), (1, y, 18)):
        quotient = values[..., k] / w
        torch.testing.assert_close(quotient[there], want.expand_as(w)[there], rtol=1e-6, atol=1e-6)
        for axis in (0, 1):
            slope = (slopes[..., 2 * k + axis] - quotient * slopes[..., 6 + axis]) / w
            wanted = torch.full_like(slope, 2 / pixel if axis == k else 0.0)[there]
            torch.testing.assert_close(slope[there], wanted, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(values[..., 2][there] / w[there], rast[..., 2][there])
    assert (values[~there] == 0).all()
    some, two = dr.interpolate(pos, rast, tri, db, [3, 0])
    assert torch.equal(two, slopes[..., [6, 7, 0, 1]])
    assert torch.equal(some, values)
    assert dr.interpolate(pos, rast, tri)[1].shape == (3, 18, 31, 0)


def ball(count=3):
    """Positions [3, V, 4] of a ball seen from three sides, colours and triangles."""
    mesh = icosphere(count)
    g = torch.Generator().manual_seed(0)
    matrix = torch.eye(4) * torch.tensor([0.7, 0.7, 0.4, 1.0]) + 0.15 * torch.randn(
        3, 4, 4, generator=g
    )
    pos = torch.cat([mesh.vertices, torch.ones(len(mesh.vertices), 1)], -1) @ matrix
    return pos, torch.rand(len(mesh.vertices), 3, generator=g), mesh.faces.int()


def test_range_mode_draws_meshes_of_different_sizes():
    pos, _, tri = ball(1)
    cut = torch.tensor([[0, len(tri)], [10, 5], [7, 0]], dtype=torch.int32)
    leaf = pos[0].double().requires_grad_()
    rast, db = dr.rasterize(None, leaf, tri, (20, 31), ranges=cut)
    attr = torch.randn(len(leaf), 2, dtype=torch.float64, requires_grad=True)
    image = dr.antialias(dr.interpolate(attr, rast, tri, db, [1])[0], rast, leaf, tri)
    found = torch.autograd.grad(image.square().sum() + db.sum(), (leaf, attr))
    total = [torch.zeros_like(leaf), torch.zeros_like(attr)]
    for n, (start, count) in enumerate(cut.tolist()):
        part = tri[start : start + count]
        one, slopes = dr.rasterize(None, leaf[None], part, (20, 31))
        assert torch.equal(one[..., :3], rast[n : n + 1, ..., :3])
        assert torch.equal(one[..., 3], (rast[n, ..., 3] - start).clamp(min=0)[None])
        color = dr.interpolate(attr[None], one, part)[0]
        # Its silhouettes are those of the whole mesh: what is left out is no border of it.
        color = dr.antialias(color, rast[n : n + 1].detach(), leaf[None], tri)
        grads = torch.autograd.grad(
            color.square().sum() + slopes.sum(), (leaf, attr), materialize_grads=True
        )
        total = [a + b for a, b in zip(total, grads, strict=True)]
    torch.testing.assert_close(found, tuple(total))


def test_attributes_are_shared_by_all_images():
    pos, colors, tri = ball(1)
    rast, _ = dr.rasterize(None, pos, tri, (16, 16))
    wide = colors.expand(3, -1, -1).clone().requires_grad_()
    one = colors[None].clone().requires_grad_()
    images = [dr.interpolate(attr, rast, tri)[0] for attr in (wide, one)]
    assert torch.equal(*images)
    grads = [
        torch.autograd.grad(x.square().sum(), a)[0]
        for x, a in zip(images, (wide, one), strict=True)
    ]
    torch.testing.assert_close(grads[0].sum(0, keepdim=True), grads[1])


def test_gradients_of_attributes_may_lie_in_memory_as_they_like():
    """Some channels of a picture, at its end too; turned, expanded, and of a single pixel."""
    pos, colors, tri = ball(1)
    for size in ((16, 9), (1, 1)):
        rast, _ = dr.rasterize(None, pos, tri, size)
        attr, rast = colors[None].clone().requires_grad_(), rast.requires_grad_()
        image, _ = dr.interpolate(attr, rast, tri)
        wide = torch.randn(*image.shape[:3], 5)
        turned = torch.randn(3, *image.shape[:3]).permute(1, 2, 3, 0)
        one = torch.randn(3).expand_as(image)
        for grad in (wide[..., :3], wide[..., 2:], turned, one, wide[..., :3].flip(1)):
            got, want = (
                torch.autograd.grad(image, (attr, rast), g, retain_graph=True)
                for g in (grad, grad.contiguous())
            )
            assert all(map(torch.equal, got, want))


@for_each(channels=(1, 2, 3, 4, 5))
def test_what_is_no_number_stays_with_its_vertex(channels):
    """Kernels read vertices and pixels by vectors, which reach into those beside them."""
    pos, tri, size = scene(1)
    rast, _ = dr.rasterize(None, pos[None], tri, size)
    attr = torch.randn(1, len(pos) + 1, channels, generator=torch.Generator().manual_seed(0))
    attr, rast = attr.double(), rast.requires_grad_()
    attr[:, -1] = torch.nan  # of no triangle
    tri = torch.stack([len(pos) - 1 - tri[:, k] for k in range(3)], 1).int()
    values, grad = [], torch.randn(1, *size, channels + 2, dtype=torch.float64)
    grad[..., channels:] = torch.inf
    for backend in ("cpu", "reference"):
        leaf = attr.clone().requires_grad_()
        value, _ = dr.interpolate(leaf, rast, tri, backend=backend)
        values.append((value, *torch.autograd.grad(value, (leaf, rast), grad[..., :channels])))
    for got, want in zip(*values, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-12)


def test_results_depend_neither_on_other_images_nor_on_threads():
    pos, colors, tri = ball(1)

    def drawn(pos, backend="auto"):
        leaves = pos.clone().requires_grad_(), colors.repeat(len(pos), 1, 1).requires_grad_()
        rast, _ = dr.rasterize(None, leaves[0], tri, (60, 90), backend=backend)
        color, _ = dr.interpolate(leaves[1], rast, tri, backend=backend)
        loss = color.square().mean() + rast[..., 2].square().mean()
        return rast, color, *torch.autograd.grad(loss, leaves)

    together = drawn(pos)
    alone = [torch.cat(parts) for parts in zip(*(drawn(p[None]) for p in pos), strict=True)]
    try:
        gendr.set_num_threads(3)
        on_three = drawn(pos)
    finally:
        gendr.set_num_threads(None)
    assert all(map(torch.equal, together, on_three))
    assert all(map(torch.equal, together[:2], alone))
    torch.testing.assert_close(alone[2:], [3 * x for x in together[2:]])
    torch.testing.assert_close(together, drawn(pos, "reference"))


def test_corners_at_the_end_of_float32():
    pos = torch.tensor([[-0.4, 0.2, 0, 1], [-3.4e38, -1.0, 0, 1], [0.7, -0.9, 0, 1]])
    found = []
    for backend in ("auto", "reference"):
        leaf = pos[None].clone().requires_grad_()
        rast, db = dr.rasterize(None, leaf, TRI[:1], (8, 8), backend=backend)
        assert rast[..., 3].any()
        found.append((rast, db, *torch.autograd.grad(rast.sum() + db.sum(), leaf)))
    assert all(x.isfinite().all() for x in found[0])
    torch.testing.assert_close(*found)


@for_each(backend=BACKENDS)
def test_empty_scenes(backend):
    device, _ = place(backend)
    none = torch.zeros(0, 3, dtype=torch.int32, device=device)
    pos = torch.zeros(2, 0, 4, device=device, requires_grad=True)
    rast, db = dr.rasterize(None, pos, none, (3, 5), backend=backend)
    colors = torch.zeros(2, 0, 3, device=device, requires_grad=True)
    color, _ = dr.interpolate(colors, rast, none, backend=backend)
    image = dr.antialias(color, rast, pos, none, backend=backend)
    assert image.shape == (2, 3, 5, 3)
    assert not any(x.any() for x in (rast, db, image))
    (grad,) = torch.autograd.grad(rast.sum() + db.sum(), pos)
    assert grad.shape == pos.shape
    rast, _ = dr.rasterize(None, pos.new_zeros(0, 4, 4), none, (3, 5), backend=backend)
    assert rast.shape == (0, 3, 5, 4)


POS, TRI = torch.rand(1, 4, 4) + 0.1, torch.tensor([[0, 1, 2], [1, 2, 3]], dtype=torch.int32)
RAST = torch.zeros(1, 4, 5, 4)
COLOR = torch.zeros(1, 4, 5, 3)
ATTR = torch.zeros(4, 3)
NAN = POS.clone()
NAN[0, 2, 1] = torch.nan


@for_each(
    "call, error",
    [
        (lambda: dr.rasterize(None, POS[..., :3], TRI, (4, 4)), "pos must have shape"),
        (lambda: dr.rasterize(None, POS.half(), TRI, (4, 4)), "float32 or float64, got float16"),
        (lambda: dr.rasterize(None, NAN, TRI, (4, 4)), r"pos must be finite.*\[0, 2, 1\]"),
        (lambda: dr.rasterize(None, POS.double() * 1e80, TRI, (4, 4)), "at most 1e.75"),
        (lambda: dr.rasterize(None, POS, TRI.float(), (4, 4)), "tri must be int32, got float32"),
        (lambda: dr.rasterize(None, POS, TRI[:, :2], (4, 4)), "tri must have shape"),
        (lambda: dr.rasterize(None, POS, TRI + 1, (4, 4)), r"0 \.\. 3\), got the index 4"),
        (lambda: dr.rasterize(None, POS, TRI - 1, (4, 4)), "got the index -1"),
        (lambda: dr.rasterize(None, POS, TRI, (0, 4)), "resolution must be >= 1"),
        (lambda: dr.rasterize(None, POS, TRI, (4, 4, 4)), "resolution must be"),
        (lambda: dr.rasterize(None, POS, TRI, (10**6, 10**6)), "this machine has"),
        (lambda: dr.rasterize(None, POS[0], TRI, (4, 4)), "needs ranges"),
        (lambda: dr.rasterize(None, POS[0], TRI, (4, 4), torch.tensor([[1, 2]])), "the index 3"),
        (lambda: dr.rasterize(None, POS[0], TRI, (4, 4), torch.tensor([[-1, 2]])), "index -1"),
        (lambda: dr.interpolate(ATTR, RAST, TRI, None, [0]), "needs rast_db"),
        (lambda: dr.interpolate(ATTR, RAST, TRI, RAST, [3]), "index the 3 attributes, got 3"),
        (lambda: dr.interpolate(ATTR, RAST, TRI, RAST, "none"), "a list or 'all'"),
        (lambda: dr.interpolate(ATTR, RAST + 3, TRI), r"1 \.\. 2 of a triangle, got 3"),
        (lambda: dr.interpolate(ATTR, RAST * torch.nan, TRI), "of a triangle, got nan"),
        (lambda: dr.interpolate(ATTR.double(), RAST, TRI), "dtype of attr, float64"),
        (lambda: dr.interpolate(ATTR[:2], RAST, TRI), "got the index 3"),
        (lambda: dr.interpolate(torch.zeros(2, 4, 1), RAST, TRI), r"for 1 images"),
        (lambda: dr.antialias(COLOR[:, :3], RAST, POS, TRI), "color must have shape"),
        (lambda: dr.antialias(COLOR, RAST, NAN, TRI), "pos must be finite"),
        (lambda: dr.antialias(COLOR, RAST, POS, TRI, 3), "topology_hash must come from"),
        (
            lambda: dr.antialias(
                COLOR, RAST, POS, TRI, dr.antialias_construct_topology_hash(TRI[:1])
            ),
            "2 triangles, got one of 1",
        ),
        (lambda: dr.antialias(COLOR, RAST, POS, TRI, None, torch.nan), "pos_gradient_boost"),
        (lambda: dr.RasterizeGLContext(mode="hand"), "automatic"),
    ],
)  # fmt: skip
def test_bad_input_ends_in_one_line(call, error):
    with pytest.raises((TypeError, ValueError, MemoryError), match=error) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_contexts_do_nothing():
    context = dr.RasterizeGLContext(output_db=False, mode="manual", device="cuda")
    context.set_context()
    rast, db = dr.rasterize(context, POS, TRI, (4, 4))
    context.release_context()
    assert rast.shape == (1, 4, 4, 4)
    assert db.shape == (1, 4, 4, 0)
    leaf = POS.clone().requires_grad_()
    assert not dr.rasterize(None, leaf, TRI, (4, 4), grad_db=False)[1].requires_grad


def test_a_million_triangles_in_one_pixel():
    count = 10**6
    pos = torch.rand(1, 300, 4, generator=torch.Generator().manual_seed(0)) * 0.01
    pos[..., 3] = 1
    tri = torch.randint(0, 300, (count, 3), generator=torch.Generator().manual_seed(1)).int()
    rast, _ = dr.rasterize(None, pos.requires_grad_(), tri, (33, 33))
    rast.sum().backward()
    assert (rast[..., 3] > 0).sum() <= 1
