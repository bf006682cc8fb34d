"""All 1242 renderers (or a sample of them): gradients, equality of backends, degenerate input."""

import pytest
import torch
from torch.autograd import gradcheck

import gendr
from gendr.rendering.fragments import signed_distance
from gendr.rendering.geometry import ImageSize
from support import TOLERANCES, degenerate, relative_l2, soup, touching
from support.cases import for_each
from support.instances import covering_set, drawn

SIZE = ImageSize(4, 5)
DTYPES = [torch.float32, torch.float64]


def distances(face_vertices, size):
    """All pixel-face distances [B, P, F], and the gap to the second-nearest edge."""
    points = size.centres(torch.arange(size.pixels), face_vertices.dtype)[:, None]
    corners = face_vertices[..., :2].unsqueeze(1)
    return signed_distance(points, corners)


def general_position(seed):
    """Overlapping and touching faces without a pixel near a corner's or bisector's kink."""
    for attempt in range(200):
        scene = torch.cat([soup(1, 3, 1000 * seed + attempt), touching(seed + attempt)], 1)
        scene = scene.clone()
        points = SIZE.centres(torch.arange(SIZE.pixels), scene.dtype)[:, None, None]
        a, b = scene[0, :, :, :2], scene[0, :, :, :2].roll(-1, 1)
        t = (((points - a) * (b - a)).sum(-1) / ((b - a) ** 2).sum(-1)).clamp(0, 1)
        edges = (points - a - t.unsqueeze(-1) * (b - a)).norm(dim=-1)
        two = edges.topk(2, largest=False).values
        same_corner = torch.isclose(two[..., 0], two[..., 1], rtol=1e-12)
        bisector = ((two[..., 1] - two[..., 0]) < 1e-4) & ~same_corner
        if not bisector.any() and two.min() > 1e-3:
            return scene
    raise AssertionError("no scene in general position")


def parameters(instance):
    """The instance as a function of tensors, and these: scale, shape, shift and p where it has."""
    scale = 0.03 if instance.dist.is_squared else 0.17
    values = {"scale": torch.tensor(scale, dtype=torch.float64)}
    if instance.dist.shape_parameter is not None:
        values["shape"] = torch.tensor(float(instance.dist.shape_parameter), dtype=torch.float64)
    if not instance.dist.is_centred:
        values["shift"] = torch.tensor(0.2, dtype=torch.float64)
    p = getattr(instance.tconorm, "p", None)
    if p is not None:
        values["p"] = torch.tensor(float(p), dtype=torch.float64)

    def render(face_vertices, *tensors):
        given = dict(zip(values, tensors, strict=True))
        dist, tconorm = instance.dist, instance.tconorm
        if "shape" in given:
            dist = dist.with_shape(given["shape"])
        if "shift" in given:
            dist = dist.shifted(given["shift"])
        if "p" in given:
            tconorm = tconorm.with_p(given["p"])
        return gendr.silhouette(
            face_vertices,
            (SIZE.height, SIZE.width),
            dist,
            tconorm,
            given["scale"],
            cutoff=0.0,
            backend="reference",
        )

    return render, [v.requires_grad_() for v in values.values()]


@for_each("instance", drawn())
def test_gradcheck_of_the_reference(instance):
    render, tensors = parameters(instance)
    scene = general_position(sum(map(ord, instance.name)))
    assert gradcheck(
        render, (scene.requires_grad_(), *tensors), eps=1e-7, atol=2e-5, rtol=1e-3, fast_mode=True
    )


@pytest.fixture(scope="module")
def compared():
    """Size, scene and distances of the images that backends are compared by."""
    size = ImageSize(13, 18)
    scene = torch.cat([soup(1, 9, 7, size=0.3), touching(3)], 1)
    scene = torch.cat([scene, soup(1, 13, 8, size=0.8)])
    return size, scene, distances(scene, size)


@for_each("instance, dtype, cutoff", drawn(DTYPES, [1e-6, 0.0]))
def test_cpu_equals_reference(instance, dtype, cutoff, compared):
    dist, tconorm = instance.dist, instance.tconorm
    size, scene, d = compared
    tolerance = TOLERANCES[dtype]
    scale = 0.01 if dist.is_squared else 0.04
    # Pixels that hold a fragment within 1e-3 relative of the cutoff may go either way.
    coverage, _ = dist.coverage(d, scale)
    clear = ((coverage / max(cutoff, 1e-300) - 1).abs() > 1e-3).all(-1)
    if tconorm.name == "yager":
        # Across a shared edge F(d) + F(-d) = 1, the very kink of min(1, t) for p = 1: rounding
        # decides which of its two slopes is taken.
        clear &= ((coverage**tconorm.p).sum(-1) - 1).abs() > 1e-5
    clear = clear.reshape(2, size.height, size.width)
    weight = torch.rand(2, size.height, size.width, dtype=torch.float64) * clear
    alphas, grads = [], []
    for backend in ("reference", "cpu"):
        vertices = scene.to(dtype, copy=True).requires_grad_()
        scales = torch.full((2,), scale, dtype=dtype, requires_grad=True)
        alpha = gendr.silhouette(
            vertices, (size.height, size.width), dist, tconorm, scales, cutoff, backend
        )
        assert alpha.dtype == dtype
        (alpha * weight.to(dtype)).sum().backward()
        alphas.append(alpha.detach() * clear)
        grads.append((vertices.grad, scales.grad))
    steep = dist.shape_parameter is not None and dist.shape_parameter < 1
    bound = tolerance.steep_alpha if steep else tolerance.alpha
    assert (alphas[0] - alphas[1]).abs().max() <= bound
    for want, got in zip(*grads, strict=True):
        assert relative_l2(got, want) <= tolerance.gradient


@for_each("instance, backend, dtype", drawn(["reference", "cpu"], DTYPES))
def test_degenerate_faces_give_finite_images_and_gradients(instance, backend, dtype):
    for cutoff in (0.0, 1e-6):
        vertices = degenerate(dtype).repeat(4, 1, 1, 1).requires_grad_()
        scales = torch.tensor([1e-8, 1e-4, 1e-2, 1.0], dtype=dtype, requires_grad=True)
        alpha = gendr.silhouette(
            vertices, 5, instance.dist, instance.tconorm, scales, cutoff, backend
        )
        assert torch.isfinite(alpha).all()
        assert alpha.min() >= 0
        assert alpha.max() <= 1
        alpha.sum().backward()
        assert torch.isfinite(vertices.grad).all()
        assert torch.isfinite(scales.grad).all()


def test_the_sample_covers_every_law_and_family(seed):
    every = gendr.instances()
    chosen = covering_set(seed)
    assert {str(i.dist) for i in chosen} == {str(i.dist) for i in every}
    assert {str(i.tconorm) for i in chosen} == {str(i.tconorm) for i in every}
    families = len({str(i.tconorm) for i in every})
    assert {x.name for k in range(families) for x in covering_set(k)} == {x.name for x in every}


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_faces_with_a_depth_that_is_not_positive_are_ignored(backend):
    scene = soup(1, 6, 2)
    scene[0, 1, 2, 2] = 0.0
    scene[0, 4, 0, 2] = -1.0
    kept = scene[:, [0, 2, 3, 5]]
    images = [
        gendr.silhouette(s, 12, "gaussian", scale=0.1, backend=backend) for s in (scene, kept)
    ]
    assert torch.equal(images[0], images[1])
    assert not gendr.silhouette(scene[:, [1, 4]], 12, backend=backend).any()
