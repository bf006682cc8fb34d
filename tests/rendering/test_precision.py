"""Kernels of the CPU in float32: against float64, on what tiles and windows of edges meet."""

import torch

import gendr
from gendr.mesh import icosphere
from support import relative_l2, soup
from support.cases import for_each

BALL = icosphere(2).scaled(0.5)
BALL = BALL.with_vertex_colors((3 * BALL.vertices).sin().abs())
LARGE = icosphere(0).scaled(0.8).with_vertex_colors(icosphere(0).vertices.abs())
CAMERA = gendr.look_at(2.7, 31.0, torch.tensor([7.0, 100.0]))


def drawn(
    part, mesh=BALL, size=64, dist="logistic", scale=1e-2, tconorm="probabilistic", **options
):
    """An image, and the gradients of vertices and colours through a weighted sum of squares."""
    renderer = gendr.Renderer(size, dist, tconorm, scale, backend="cpu", **options)
    leaves = [x.clone().requires_grad_() for x in (mesh.vertices, mesh.vertex_colors)]
    mesh = mesh.with_vertices(leaves[0]).with_vertex_colors(leaves[1])
    image = getattr(renderer(mesh, CAMERA), part)
    weight = torch.arange(image.numel(), dtype=image.dtype).sin().reshape(image.shape)
    grads = torch.autograd.grad((image.square() + image * weight).sum(), leaves, allow_unused=True)
    return image.detach(), *(g for g in grads if g is not None)  # pyright: ignore[reportUnnecessaryComparison]


def assert_near(got, want, bound=1e-5):
    """Within what is promised: 1e-4 always, 3e-6 in the mean, gradients to 1e-3; and better."""
    error = (got[0].double() - want[0]).abs()
    assert error.max() <= bound
    assert error.mean() <= 3e-6
    assert all(relative_l2(g, w) <= 1e-4 for g, w in zip(got[1:], want[1:], strict=True))


@for_each(
    part=["alpha", "rgb"],
    options=[
        {"dist": "logistic.squared", "scale": 1e-4},
        {"size": (37, 51), "dist": "uniform"},
        {"size": (7, 6), "scale": "1px"},
        {"dist": "exponential.reversed", "tconorm": "yager(p=2)"},
        {"dist": "cauchy", "tconorm": "hamacher(p=0.5)", "cutoff": 1e-3},
        {"mesh": LARGE, "size": (301, 700), "scale": "0.1px"},
        {"mesh": LARGE, "size": 512, "scale": "0.02px"},
        {"mesh": LARGE.scaled(4.0), "scale": "2px"},  # around the cameras: polygons of four corners
        {"composite": "alpha", "eps": 0.98, "background": (0.2, 0.5, 0.9)},
    ],
    rotating=3,
)
def test_float32_is_within_its_bounds_of_float64(part, options):
    mesh = options.get("mesh", BALL)
    assert_near(drawn(part, **options), drawn(part, **options | {"mesh": mesh}, precision="double"))


def looked_at(texture=None, stretch=1.0, extra=(), threads=None, **options):
    """As `drawn`, of a ball with a texture or colours, in light that changes over faces."""
    gendr.set_num_threads(threads)
    generator = torch.Generator().manual_seed(3)
    extra = torch.tensor(extra).reshape(-1, 3)
    faces = torch.arange(len(extra)).reshape(-1, 3) + len(BALL.vertices)
    leaves = [torch.cat([BALL.vertices, extra])]
    mesh = gendr.Mesh(leaves[0], torch.cat([BALL.faces, faces]))
    leaves += [(leaves[0][:, :2] + 0.3) * stretch, mesh.vertices.sin().abs()]
    if texture is not None:
        leaves[2] = torch.rand(*texture, 3, generator=generator)
    leaves = [x.clone().requires_grad_() for x in leaves]
    if texture is None:
        mesh = mesh.with_vertex_colors(leaves.pop())
        leaves.pop()
    else:
        mesh = mesh.with_uvs(leaves[1], mesh.faces).with_texture(leaves[2])
    mesh = mesh.with_vertices(leaves[0])
    options = {"image_size": 48, "dist": "logistic", "scale": 1e-2} | options
    camera = gendr.look_at(2.7, 31.0, torch.tensor([7.0, 100.0]))
    if options.pop("orthographic", False):
        camera = gendr.look_at(2.7, 31.0, 7.0, orthographic=True)
    image = gendr.Renderer(backend="cpu", **options)(mesh, camera).rgb
    gendr.set_num_threads(None)
    weight = torch.arange(image.numel(), dtype=image.dtype).sin().reshape(image.shape)
    return image.detach(), *torch.autograd.grad((image.square() + image * weight).sum(), leaves)


SMOOTH = gendr.Lighting(0.2, 0.6, smooth=True)
# A point, a line, a sliver, one as large as the image, and one out of it.
ODD = [
    [[0.3, 0.1, 0.2]] * 3, [[0.5, 0, 0], [0, 0.5, 0], [0.5, 0, 0]],
    [[-0.7, 0.1, 0], [0.7, 0.1, 0], [0.7, 0.1001, 0]], [[-1.0, -1, 0.2], [1, -1, 0.2], [0, 1, 0.2]],
    [[0.1, 9, 9], [0.2, 9, 9], [0.2, 9.1, 9]],
]  # fmt: skip


@for_each(
    options=[
        {"texture": (64, 48)},
        {"texture": (1, 1), "dist": "uniform"},  # all pixels ask for one texel
        {"texture": (1, 7), "stretch": 9.0, "dist": "cauchy", "cutoff": 1e-3},  # it repeats
        {"texture": (500, 300), "dist": "uniform", "lighting": SMOOTH},  # faces keep records
        {"texture": (64, 48), "extra": ODD, "dist": "logistic.squared", "scale": 1e-4},
        {"lighting": SMOOTH, "dist": "exponential.reversed", "extra": ODD},
        {"texture": (9, 9), "lighting": gendr.Lighting(0.1, 0.5, 0.4, 8.0, smooth=True)},
        {"lighting": gendr.Lighting(0.1, 0.5, 0.4, 0.5), "orthographic": True, "extra": ODD},
    ]
)
def test_textures_and_light_in_float32(options):
    """Within bounds of float64, with the same bits for any number of threads."""
    results = [looked_at(**options, threads=n) for n in (1, 3)]
    assert all(map(torch.equal, *results))
    double = looked_at(**options, precision="double")
    assert not torch.equal(results[0][0], double[0])
    assert_near(results[0], double, 3e-5)  # a face of 160 texels has 1.4e-5


def test_what_float32_cannot_hold_of_a_look_is_computed_in_float64():
    sharp = gendr.Lighting(0.1, 0.5, 0.4, 1000.0)
    for options in ({"texture": (4, 2000), "stretch": 300.0}, {"lighting": sharp}):
        assert torch.equal(looked_at(**options)[0], looked_at(**options, precision="double")[0])


def test_float32_is_near_the_definition():
    """Beside the dense formulas in float64, which share no kernel with it."""
    scene, member = soup(2, 6, 4), ("logistic", "probabilistic", 0.05)
    faces = scene.float().requires_grad_()
    exact = scene.float().double().requires_grad_()
    images = [
        gendr.silhouette(x, (9, 14), *member, backend=backend)
        for x, backend in ((faces, "cpu"), (exact, "reference"))
    ]
    for image in images:
        image.square().sum().backward()
    assert (images[0] - images[1]).abs().max() <= 1e-6
    assert relative_l2(faces.grad, exact.grad) <= 1e-5


@for_each(part=["alpha", "rgb"])
def test_double_has_the_bits_of_float64_and_auto_has_not(part):
    auto, double = drawn(part), drawn(part, precision="double")
    assert not torch.equal(auto[0], double[0])
    for other in ({"dist": "heaviside"}, {"dist": "gaussian"}, {"scale": "0.001px"}):
        images = [drawn(part, **other, precision=x)[0] for x in ("auto", "double")]
        assert torch.equal(*images), other
    if part == "alpha":
        faces = soup(1, 6, 2).float()
        scale = 2.0**-7  # exact in both dtypes
        image = gendr.silhouette(faces, 16, scale=scale, precision="double")
        assert torch.equal(image, gendr.silhouette(faces.double(), 16, scale=scale).float())
        for tconorm in ("max", "dombi(p=9)"):
            images = [drawn(part, tconorm=tconorm, precision=x)[0] for x in ("auto", "double")]
            assert torch.equal(*images), tconorm


def test_what_is_learnt_is_computed_in_float64():
    faces = soup(1, 6, 2).float()
    scale = torch.tensor(0.02, requires_grad=True)
    learnt, double = (
        gendr.silhouette(faces, 16, scale=x, precision=precision)
        for x, precision in ((scale, "auto"), (0.02, "double"))
    )
    torch.testing.assert_close(learnt, double, rtol=0, atol=1e-7)
    learnt.sum().backward()
    assert scale.grad.isfinite()


def test_faces_without_area_and_far_away_leave_finite_numbers():
    faces = torch.zeros(1, 6, 3, 3)
    faces[..., 2] = 1.0
    faces[0, 1] = torch.tensor([0.3, -0.2, 1.0])  # a point
    faces[0, 2, :2, 0] = 0.5  # a line, whose second corner comes twice
    faces[0, 3] = torch.tensor([[1e15, 0, 1], [0, 1e15, 1], [-1e15, -1e15, 1]])
    faces[0, 4] = torch.tensor([[3e37, 1e37, 1], [3e37, 2e37, 1], [-3e37, 1e37, 1]])
    faces[0, 5] = torch.tensor([[0.0, 0, 1], [0.5, 1e-7, 1], [1.0, 0, 1]])
    for chosen in (faces, faces[:, [0, 1, 2, 5]]):
        images = []
        for precision in ("auto", "double"):
            leaf = chosen.clone().requires_grad_()
            image = gendr.silhouette(leaf, (5, 9), "logistic", scale=0.1, precision=precision)
            image.sum().backward()
            assert leaf.grad.isfinite().all()
            images.append(image.detach())
        torch.testing.assert_close(*images, rtol=0, atol=1e-6)


@for_each(twice=[0, 1, 2])
def test_gradients_of_a_line_are_those_of_its_ends(twice):
    """Which of the corners that are one gets them is open."""
    ends = torch.tensor([[0.52, 0.31, 1.0], [-0.23, -0.64, 1.0]])
    order = torch.tensor([0, 0, 1]).roll(twice)
    found = []
    for precision in ("auto", "double"):
        leaf = ends.clone().requires_grad_()
        image = gendr.silhouette(leaf[order][None, None], (5, 9), scale=0.1, precision=precision)
        found.append(torch.autograd.grad((image * image).sum(), leaf)[0])
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-6)
