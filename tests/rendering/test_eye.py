"""The eye inside, on and behind faces: no gradient is NaN or infinite where the image is finite."""

import pytest
import torch

from gendr import Camera, Mesh, Renderer, look_at
from support import around_the_eye
from support.backends import BACKENDS, place
from support.cases import for_each

FACES = 4
STYLES = [
    {"dist": "logistic", "scale": 0.03},
    {"dist": "cauchy", "shading": "hard", "composite": "alpha"},
    {"dist": "gaussian.squared", "tconorm": "yager(p=2)", "composite": "alpha"},
    {"dist": "gamma(shape=0.5).reversed.centred", "tconorm": "max", "lighting": "none"},
    {"dist": "levy", "tconorm": "frank(p=0.5)", "shading": "hard", "lighting": "phong"},
    {"dist": "exponential", "tconorm": "dombi(p=0.5)", "lighting": "phong"},
    {"dist": "uniform", "tconorm": "einstein", "lighting": "headlight"},
    {"dist": "logistic", "composite": "ordered", "opacity": 0.9},
    {"dist": "gumbel_max", "tconorm": "hamacher(p=0.5)", "composite": "ordered"},
]
NEARS = (None, 1e-6, None, 1.0, None)


def wrong(renderer, mesh, camera):
    """[B] which scenes have an image that is not finite, and a gradient that is not."""
    leaves = [x.detach().clone().requires_grad_() for x in (mesh.vertices, *camera.tensors()[:3])]
    seen = camera.with_tensors(*leaves[1:], camera.principal)
    out = renderer(mesh.with_vertices(leaves[0]), seen)
    images = [out.alpha, out.rgb, torch.where(out.face_id >= 0, out.depth, 0.0), out.normals]
    flat = torch.cat([x.flatten(1) for x in images], 1)
    weights = torch.linspace(-1, 1, flat.shape[1]).to(flat)
    grads = torch.autograd.grad((flat * weights).sum(), leaves)
    finite = torch.cat([x.reshape(len(camera), -1).isfinite() for x in grads], 1)
    return ~flat.isfinite().all(1), ~finite.all(1)


def scenes(count, seed, dtype, orthographic=False):
    corners, moved, fov = around_the_eye(count, FACES, seed, dtype)
    faces = torch.arange(3 * FACES).reshape(FACES, 3)
    colors = torch.rand(3 * FACES, 3, generator=torch.Generator().manual_seed(seed))
    mesh = Mesh(corners[0].reshape(-1, 3), faces, vertex_colors=colors.to(dtype))
    focal = 1 / torch.tan(torch.deg2rad(fov / 2))
    camera = Camera(None, moved, focal[:, None].expand(-1, 2), orthographic=orthographic)
    return mesh.with_vertices(corners.reshape(count, -1, 3)), camera


@pytest.mark.rotating(4, group="rendering")
def test_no_gradient_is_nan_with_the_eye_among_faces(request, seed):
    """With --every 100,000 scenes. Backends, dtypes and renderers take turns."""
    rounds, count = (400, 250) if request.config.getoption("--every") else (9, 12)
    found = []
    for k in range(rounds):
        backend, dtype = ("cpu", "reference")[k % 2], (torch.float32, torch.float64)[k // 2 % 2]
        options = {"cutoff": (0.0, 1e-6)[k // 4 % 2], "near": NEARS[k % len(NEARS)]}
        options |= STYLES[k % len(STYLES)]
        here = 1000 * seed + k
        mesh, camera = scenes(count, here, dtype, orthographic=k % 11 == 10)
        if "opacity" in options:  # colours that are constant on faces have a kernel of their own
            mesh = mesh.with_vertex_colors(None)
        images, grads = wrong(Renderer(8, backend=backend, **options), mesh, camera)
        bad = (images | grads).nonzero().flatten().tolist()
        if bad:
            found.append((here, backend, dtype, options, bad))
    assert not found


@for_each(backend=["cpu", "reference"])
def test_scenes_whose_gradients_were_nan(backend):
    # Far beyond the eye on both sides: a cut between such corners cancels.
    face = torch.tensor([[-0.5, -0.5, 0.3], [0.5, -0.5, -0.8], [0.0, 0.5, 0.2]])
    # Beside the eye: in some pixels coverages are almost 0, and the background is far behind.
    beside = torch.tensor([[-0.6, 0.0, -0.4514], [-3.0, 1.0, 1.0], [-1.0, 0.0, 1.0]])
    soft = {"dist": "logistic", "scale": 0.03, "cutoff": 0.0, "lighting": "none"}
    for vertices, order, distance, size, options in (
        (1e5 * face, [0, 1, 2], 2.0, 6, {}),
        (beside, [2, 0, 1], 0.45, 16, soft),
    ):
        mesh = Mesh(vertices, torch.tensor([order]))
        for dtype in (torch.float32, torch.float64):
            camera = look_at(distance, 0.0, 0.0).to(dtype)
            renderer = Renderer(size, backend=backend, **options)
            assert not torch.stack(wrong(renderer, mesh.to(dtype), camera)).any()


@pytest.mark.rotating(4, group="rendering")
@pytest.mark.skipif("triton" not in BACKENDS, reason="there is no Triton")
def test_no_gradient_is_nan_on_the_triton_backend(seed):
    """Few scenes, because an interpreter renders them."""
    device = place("triton")[0]
    for k, options in enumerate(({"near": 1e-6, "cutoff": 0.0}, {"composite": "alpha"})):
        mesh, camera = (x.to(device) for x in scenes(5, 10 * seed + k, torch.float32))
        renderer = Renderer(6, "logistic", scale=0.03, backend="triton", **options)
        assert not torch.stack(wrong(renderer, mesh, camera)).any()


def test_corners_beyond_the_squares_of_float32():
    vertices = torch.tensor([[1e12, 0.0, 1e-20], [0.0, 1e12, 1e-20], [-1.0, -1.0, 1.0]])
    mesh = Mesh(vertices, torch.tensor([[0, 1, 2]]))
    camera = Camera(torch.diag(torch.tensor([-1.0, 1.0, 1.0])), fov=90.0)
    for backend in ("cpu", "reference"):
        assert not torch.stack(wrong(Renderer(8, backend=backend), mesh, camera)).any()
