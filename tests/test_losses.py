"""Losses against SciPy, brute force and closed forms."""

import math
from functools import partial

import numpy as np
import pytest
import scipy.sparse
import torch
from scipy.ndimage import gaussian_filter
from scipy.spatial import cKDTree
from torch.autograd import gradcheck

from gendr import losses
from gendr.mesh import Mesh, cube, icosphere
from support.cases import for_each

F64 = torch.float64
QUAD = torch.tensor([[0, 1, 2], [2, 1, 3]])


def bumpy(subdivisions=1, seed=0, dtype=F64):
    sphere = icosphere(subdivisions, dtype=dtype)
    noise = torch.randn(sphere.vertices.shape, generator=torch.Generator().manual_seed(seed))
    return sphere.with_vertices(sphere.vertices + 0.1 * noise.to(dtype))


# -- images ------------------------------------------------------------------------------------


def test_iou_loss_is_the_mean_over_images():
    alpha, target = torch.rand(3, 5, 7, dtype=F64), torch.rand(3, 5, 7, dtype=F64)
    each = [
        1 - np.sum(a * t) / np.sum(a + t - a * t)
        for a, t in zip(alpha.numpy(), target.numpy(), strict=True)
    ]
    assert float(losses.iou_loss(alpha, target)) == pytest.approx(sum(each) / 3, abs=1e-14)
    assert float(losses.iou_loss(alpha[1], target[1])) == pytest.approx(each[1], abs=1e-14)
    mask = torch.zeros(2, 6, 6)
    mask[:, 1:4, 2:5] = 1
    half = mask * torch.tensor([1.0, 0.0])[:, None, None]
    for other, want in ((mask, 0), (mask.bool(), 0), (0 * mask, 1), (half, 0.5)):
        assert float(losses.iou_loss(mask, other)) == want
    want = np.mean((alpha.numpy() - target.numpy()[:1]) ** 2)
    assert float(losses.mse_loss(alpha, target[:1])) == pytest.approx(want, rel=1e-13)
    for loss in (losses.iou_loss, losses.mse_loss):
        assert gradcheck(loss, (alpha.requires_grad_(), target.requires_grad_()))


def test_no_images_and_no_meshes_have_loss_0():
    images, vertices = torch.zeros(0, 4, 4), torch.zeros(0, 4, 3)
    assert losses.iou(images, images).shape == (0,)
    for loss, x in (
        (lambda x: losses.iou_loss(x, images), images),
        (lambda x: losses.mse_loss(x, images), images),
        (losses.LaplacianLoss(QUAD, 4), vertices),
        (losses.FlattenLoss(QUAD, 4), vertices),
        (lambda x: losses.chamfer_distance(x, torch.ones(1, 2, 3)), vertices),
    ):
        x = x.clone().requires_grad_()
        value = loss(x)
        assert value == 0
        assert torch.autograd.grad(value, x)[0].shape == x.shape
    empty = torch.zeros(2, 4, 4, requires_grad=True)  # and two empty images agree
    loss = losses.iou_loss(empty, torch.zeros(2, 4, 4))
    assert loss == 0
    assert not torch.autograd.grad(loss, empty)[0].any()
    assert losses.iou(empty, torch.zeros(2, 4, 4)).tolist() == [1, 1]
    unknown = torch.tensor([[[torch.nan, 1.0]], [[1.0, 0.0]]])
    assert losses.iou(unknown, unknown.nan_to_num()).isnan().tolist() == [True, False]


def test_hard_iou_counts_pixels():
    alpha = torch.tensor([[[0.9, 0.6], [0.2, 0.5]], [[0.0, 0.1], [0.2, 0.3]]])
    target = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    assert losses.iou(alpha, target).tolist() == pytest.approx([1 / 3, 0])
    assert losses.iou(alpha, target, threshold=0.4).tolist() == pytest.approx([2 / 3, 0])
    assert losses.iou(alpha[0], target[0]).shape == ()


def test_ssim_against_filters_of_scipy():
    source = torch.Generator().manual_seed(1)
    image = torch.rand(2, 3, 14, 19, generator=source, dtype=F64)
    target = (image + 0.2 * torch.randn(image.shape, generator=source, dtype=F64)).clamp(0, 1)

    def smooth(x):  # 11 taps; what the border has no part in
        return gaussian_filter(x, 1.5, truncate=3.5)[5:-5, 5:-5]

    for i in range(2):
        wanted = []
        for x, y in zip(image[i].numpy(), target[i].numpy(), strict=True):
            a, b = smooth(x), smooth(y)
            va, vb, ab = smooth(x * x) - a * a, smooth(y * y) - b * b, smooth(x * y) - a * b
            light = (2 * a * b + 1e-4) / (a * a + b * b + 1e-4)
            wanted.append((light * (2 * ab + 9e-4) / (va + vb + 9e-4)).mean())
        assert float(losses.ssim(image[i], target[i])) == pytest.approx(np.mean(wanted), abs=1e-12)
    both = losses.ssim(image[:1], target)
    assert both.shape == (2,)
    assert both[0] == losses.ssim(image[0], target[0])
    assert both[1] < 0.2 < both[0]
    torch.testing.assert_close(losses.ssim(image.float(), image.float()), torch.ones(2))
    small = image[0, :1, :11, :12].clone().requires_grad_()
    assert gradcheck(lambda x: losses.ssim(x, target[0, :1, :11, :12]), (small,))


# -- smoothness --------------------------------------------------------------------------------


def scipy_laplacian(faces, count):
    """Identity minus the row-normalised adjacency, as a SciPy matrix."""
    i = np.concatenate([faces[:, [0, 1, 2]].ravel(), faces[:, [1, 2, 0]].ravel()])
    j = np.concatenate([faces[:, [1, 2, 0]].ravel(), faces[:, [0, 1, 2]].ravel()])
    adjacency = scipy.sparse.coo_matrix((np.ones(len(i)), (i, j)), (count, count)).tocsr()
    adjacency.data[:] = 1
    degree = np.asarray(adjacency.sum(1)).ravel()
    scale = scipy.sparse.diags_array(1 / np.maximum(degree, 1))
    return scipy.sparse.diags_array((degree > 0).astype(float)) - scale @ adjacency


def test_laplacian_against_scipy():
    mesh = bumpy(2)
    vertices = torch.cat([mesh.vertices, torch.ones(3, 3, dtype=F64)])  # three in no face
    matrix = scipy_laplacian(mesh.faces.numpy(), len(vertices))
    loss = losses.LaplacianLoss(mesh.faces, len(vertices))
    want = matrix @ vertices.numpy()
    np.testing.assert_allclose(loss.laplacian(vertices), want, rtol=0, atol=1e-14)
    two = torch.stack([vertices, 2 * vertices])
    assert float(loss(two)) == pytest.approx((1 + 4) / 2 * (want**2).sum(), rel=1e-13)
    # Of a triangle, each vertex minus the midpoint of the others is 3/2 of its way from the centre.
    corners = torch.tensor([[0.0, 0, 0], [3, 0, 0], [0, 3, 0]], dtype=F64)
    want = 2.25 * (corners - corners.mean(0)).square().sum().item()
    loss = losses.laplacian_loss(Mesh(corners, torch.tensor([[0, 1, 2]])))
    assert float(loss) == pytest.approx(want, rel=1e-14)


def softras_flatten(vertices, faces):
    """The sum over inner edges as SoftRas computes it: heights over the edge, in NumPy."""
    around = {}
    for a, b, c in faces.tolist():
        for i, j, k in ((a, b, c), (b, c, a), (c, a, b)):
            around.setdefault((min(i, j), max(i, j)), []).append(k)
    total = 0.0
    for (i, j), apexes in around.items():
        if len(apexes) != 2:
            continue
        edge = vertices[j] - vertices[i]
        heights = []
        for k in apexes:
            side = vertices[k] - vertices[i]
            heights.append(side - edge * (side @ edge) / (edge @ edge))
        p, q = heights
        total += (p @ q / np.linalg.norm(p) / np.linalg.norm(q) + 1) ** 2
    return total


def test_flatten_of_a_cube_is_one_per_right_angle():
    assert float(losses.flatten_loss(cube(dtype=F64))) == pytest.approx(12, abs=1e-13)
    # Of its 18 edges.
    assert float(losses.normal_consistency_loss(cube(dtype=F64))) == pytest.approx(12 / 18)
    plane = torch.tensor([[0.0, 0, 1], [2, 0, 1], [0, 1, 1], [3, 4, 1]], dtype=F64)
    assert float(losses.flatten_loss(Mesh(plane, QUAD))) == pytest.approx(0, abs=1e-28)


def test_flatten_against_softras_and_orientation():
    mesh = bumpy(1)
    want = softras_flatten(mesh.vertices.numpy(), mesh.faces)
    assert float(losses.flatten_loss(mesh)) == pytest.approx(want, rel=1e-12)
    some = torch.rand(len(mesh.faces)) < 0.5
    flipped = torch.where(some[:, None], mesh.faces.flip(1), mesh.faces)
    loss = losses.FlattenLoss(flipped, len(mesh.vertices))
    assert float(loss(mesh.vertices)) == pytest.approx(want, rel=1e-12)
    twice = torch.stack([mesh.vertices, mesh.vertices])
    assert float(loss(twice)) == pytest.approx(want, rel=1e-12)


def test_edges_of_many_faces_count_once_per_pair():
    # Three half planes at 120 degrees round the z axis: 3 pairs with cos(inner angle) = -1/2.
    ring = [[math.cos(a), math.sin(a), 0.3] for a in (0, 2 * math.pi / 3, 4 * math.pi / 3)]
    vertices = torch.tensor([[0.0, 0, 0], [0, 0, 1], *ring], dtype=F64)
    fan = Mesh(vertices, torch.tensor([[0, 1, 2], [0, 1, 3], [1, 0, 4]]))
    assert float(losses.flatten_loss(fan)) == pytest.approx(3 * 0.25, abs=1e-14)
    twice = Mesh(vertices, torch.tensor([[0, 0, 1]]))  # is no neighbour of itself
    assert float(losses.flatten_loss(twice)) == 0
    lone = Mesh(vertices[:3], torch.tensor([[0, 1, 2]]))
    assert float(losses.flatten_loss(lone)) == 0
    assert float(losses.normal_consistency_loss(lone)) == 0


def test_edge_lengths_of_an_icosahedron():
    ball = icosphere(0, dtype=F64)
    side = 4 / math.sqrt(10 + 2 * math.sqrt(5))
    assert float(losses.edge_length_loss(ball)) == pytest.approx(0, abs=1e-30)
    assert float(losses.edge_length_loss(ball, 0.0)) == pytest.approx(side**2, rel=1e-14)
    assert float(losses.edge_length_loss(ball, 1.5)) == pytest.approx((1.5 - side) ** 2, rel=1e-13)
    mesh = bumpy(1)
    pairs = mesh.faces.numpy()[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2)
    ends = mesh.vertices.numpy()[np.unique(np.sort(pairs, 1), axis=0)]
    lengths = np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1)
    assert float(losses.edge_length_loss(mesh)) == pytest.approx(np.var(lengths), rel=1e-12)


REGULARISERS = [
    losses.laplacian_loss,
    losses.flatten_loss,
    losses.normal_consistency_loss,
    losses.edge_length_loss,
    lambda mesh: losses.edge_length_loss(mesh, 0.3),
]


@for_each(loss=REGULARISERS)
def test_regularisers_of_batches_and_their_gradients(loss):
    """Packed batches are the mean of their meshes; a mesh without faces costs nothing."""
    batch = Mesh.batch([bumpy(0, seed=3), cube(dtype=F64), bumpy(1)])
    shared = bumpy(0).repeated(3)
    shared = shared.with_vertices(shared.vertices * torch.linspace(1, 2, 36, dtype=F64)[:, None])
    for meshes in (batch, shared):
        want = sum(float(loss(mesh)) for mesh in meshes) / 3
        assert float(loss(meshes)) == pytest.approx(want, rel=1e-13)
    pair = Mesh.batch([bumpy(0, seed=3), cube(dtype=F64)])
    vertices = pair.vertices + 0.05 * torch.randn_like(pair.vertices)
    assert gradcheck(lambda v: loss(pair.with_vertices(v)), vertices.requires_grad_())
    assert float(loss(Mesh(torch.ones(4, 3), torch.zeros(0, 3, dtype=torch.int64)))) == 0
    # A folded pair, a sliver of no area, a face of one point, and a face with a vertex twice.
    faces = torch.tensor([[0, 1, 2], [1, 0, 2], [0, 1, 3], [4, 5, 6], [0, 0, 1]])
    corners = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [2, 0, 0], *[[1, 1, 1]] * 3])
    for size in (1e-30, 1.0, 1e15):
        vertices = (corners * size).requires_grad_()
        value = loss(Mesh(vertices, faces))
        assert torch.isfinite(value)
        assert torch.isfinite(torch.autograd.grad(value, vertices)[0]).all()


def test_laplacian_far_from_the_origin_keeps_its_digits():
    mesh = bumpy(1, dtype=torch.float32)
    exact = (mesh.vertices + 1000.0).double()
    got = losses.laplacian_loss(mesh.with_vertices(mesh.vertices + 1000.0))
    want = losses.laplacian_loss(mesh.to(F64).with_vertices(exact))
    assert float(got) == pytest.approx(float(want), rel=1e-5)


def test_memory_is_linear_in_the_mesh():
    # A dense [V, V] operator of 40,962 vertices would hold 13 GB.
    ball = icosphere(6)
    assert float(losses.laplacian_loss(ball) + losses.flatten_loss(ball)) < 0.1


# -- shapes ------------------------------------------------------------------------------------


@for_each(squared=[False, True])
def test_chamfer_against_a_tree(squared):
    a, b = torch.randn(3, 50, 3, dtype=F64), torch.randn(3, 70, 3, dtype=F64) + 0.3
    each = []
    for p, q in zip(a.numpy(), b.numpy(), strict=True):
        there, back = cKDTree(q).query(p)[0], cKDTree(p).query(q)[0]
        power = 2 if squared else 1
        each.append(((there**power).mean() + (back**power).mean()) / 2)
    got = losses.chamfer_distance(a, b, squared=squared)
    assert float(got) == pytest.approx(np.mean(each), rel=1e-13)
    one = losses.chamfer_distance(a[0], b[:1], squared=squared)
    assert float(one) == pytest.approx(each[0], rel=1e-13)


@for_each(squared=[False, True])
def test_chamfer_gradients(squared):
    a = torch.randn(2, 9, 3, dtype=F64, requires_grad=True)
    b = torch.randn(1, 7, 3, dtype=F64, requires_grad=True)
    distance = partial(losses.chamfer_distance, squared=squared)
    assert gradcheck(distance, (a, b))
    alone = torch.func.vmap(torch.func.grad(distance), (0, None))(a, b)
    torch.testing.assert_close(alone / 2, torch.autograd.grad(distance(a, b), a)[0])
    same = a[0].detach().requires_grad_()
    distance(same, same.detach().clone()).backward()
    assert torch.equal(same.grad, torch.zeros_like(same))  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore")  # the tracer's own
@for_each(trace=["export", "jit"])
def test_chamfer_in_graphs(trace):
    """The neighbours are those of the points that come, not of the example."""

    class Distance(torch.nn.Module):
        def forward(self, a, b):
            return losses.chamfer_distance(a, b)

    example, points = torch.rand(2, 1, 6, 3), torch.rand(2, 1, 6, 3)
    if trace == "jit":
        graph = torch.jit.trace(Distance(), (*example,))
    else:
        graph = torch.export.export(Distance(), (*example,)).module()
    torch.testing.assert_close(graph(*points), losses.chamfer_distance(*points))


def test_chamfer_of_spheres():
    small, large = icosphere(4, dtype=F64), icosphere(4, dtype=F64).scaled(1.5)
    got = losses.chamfer(small, large, n=6_000)
    assert float(got) == pytest.approx(0.5, abs=1e-2)
    assert float(losses.chamfer(small, large, n=6_000)) == float(got)
    assert float(losses.chamfer(small, large, n=6_000, seed=1)) != float(got)
    floor = losses.chamfer(small, small, n=6_000)
    assert float(floor) == pytest.approx(0.5 * math.sqrt(4 * math.pi / 6_000), rel=0.05)
    pairs = losses.chamfer(small.repeated(2), Mesh.batch([small, large]), n=500)
    assert 0.25 < float(pairs) < 0.5


def test_chamfer_compares_places_in_the_world():
    far = torch.tensor([500_000.0, 4_649_000.0, 0.0], dtype=F64)
    step = torch.tensor([3.0, 0, 0], dtype=F64)
    small = icosphere(2, dtype=torch.float32)
    near = float(losses.chamfer(small, small.translated(step.float()), n=2_000))
    one, other = small.with_origin(far), small.with_origin(far + step)
    assert float(losses.chamfer(one, other, n=2_000)) == pytest.approx(near, rel=1e-5)
    assert float(losses.chamfer(other, one, n=2_000)) == pytest.approx(near, rel=0.05)
    same = other.relative_to(far)
    assert float(losses.chamfer(same, other, n=2_000)) < 0.1
    pair = Mesh.batch([one, other])
    alone = [float(losses.chamfer(one, m, n=2_000)) for m in (one, other)]
    # The draws for a pair are others than for each alone.
    assert float(losses.chamfer(one, pair, n=2_000)) == pytest.approx(sum(alone) / 2, rel=0.05)
    leaf = small.vertices.clone().requires_grad_()
    losses.chamfer(one, other.with_vertices(leaf), n=200).backward()
    assert leaf.grad is not None
    assert bool(leaf.grad.any())
    with pytest.raises(ValueError, match="got 2 and 3 meshes"):
        losses.chamfer(pair, other.repeated(3))


def test_chamfer_pulls_vertices():
    vertices = icosphere(1, dtype=F64).vertices.mul(0.5).requires_grad_()
    small = icosphere(1, dtype=F64).with_vertices(vertices)
    losses.chamfer(small, icosphere(2, dtype=F64), n=2000).backward()
    outwards = (-vertices.grad * vertices.detach()).sum(-1)  # type: ignore[operator]
    assert (outwards > 0).all()


# -- what is refused ---------------------------------------------------------------------------

NAN = float("nan")
IMAGE = torch.zeros(2, 4, 4)
BALL = icosphere(0)
FLAT = torch.zeros(2, 3)


@for_each(
    "call, kind, words",
    [
        (lambda: losses.iou_loss(IMAGE, IMAGE[:, 1:]), ValueError, r"equal shapes.*\[2, 3, 4\]"),
        (lambda: losses.iou_loss(FLAT, IMAGE), ValueError, r"equal shapes.*\[2, 3\] and \[2, 4"),
        (lambda: losses.iou_loss(IMAGE, IMAGE + 255), ValueError, "divide 8-bit masks by 255"),
        (lambda: losses.iou_loss(IMAGE, IMAGE.byte()), TypeError, "target must be float32"),
        (lambda: losses.mse_loss(IMAGE, IMAGE * NAN), ValueError, "target must be finite"),
        (lambda: losses.mse_loss(IMAGE.numpy(), IMAGE), TypeError, "image must be a torch"),
        (lambda: losses.iou(IMAGE, IMAGE, 1.0), ValueError, "threshold must be > 0"),
        (lambda: losses.ssim(IMAGE, IMAGE), ValueError, r"H, W >= 11, got \[2, 4, 4\]"),
        (lambda: losses.laplacian_loss(BALL.vertices), TypeError, "mesh must be a Mesh"),
        (lambda: losses.edge_length_loss(BALL.faces), TypeError, "mesh must be a Mesh"),
        (lambda: losses.edge_length_loss(BALL, -1.0), ValueError, "target must be >= 0"),
        (lambda: losses.LaplacianLoss(BALL.faces, 5), ValueError, "faces must index the 5"),
        (lambda: losses.FlattenLoss(BALL.vertices), TypeError, "faces must hold integ"),
        (lambda: losses.FlattenLoss(BALL.faces)(FLAT), ValueError, "vertices must have .*V = 12"),
        (lambda: losses.chamfer_distance(FLAT[:0], FLAT), ValueError, "first must hold at least"),
        (lambda: losses.chamfer_distance(FLAT, FLAT.double()), TypeError, "the dtype of first"),
        (lambda: losses.chamfer_distance(FLAT, FLAT * NAN), ValueError, "second must be finite"),
        (
            lambda: losses.chamfer_distance(torch.zeros(2, 5, 3), torch.zeros(3, 5, 3)),
            ValueError,
            "batches must be equal or 1, got 2 and 3",
        ),
        (lambda: losses.chamfer(BALL, BALL.faces), TypeError, "second must be a Mesh"),
        (lambda: losses.chamfer(BALL, BALL, n=0), ValueError, "n must be >= 1"),
    ],
)
def test_bad_input_is_named_in_one_line(call, kind, words):
    with pytest.raises(kind, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)
