"""What Triton's interpreter hides of the rendering kernels: races, their order, GPU arithmetic."""

from itertools import product

import pytest
import torch

import gendr
from gendr.mesh import icosphere
from support import TOLERANCES, relative_l2, soup

pytest.importorskip("triton", reason="Triton has no wheels for this platform")

from support.arithmetic import pessimistic_arithmetic
from support.cases import for_each
from support.layers import Scene
from support.races import RaceError, checked_launches, in_any_order
from support.triton import as_on_a_gpu, launched_by, needs_the_interpreter, small_tiles

pytestmark = [
    needs_the_interpreter,
    pytest.mark.usefixtures("nan_in_new_tensors"),
]

TOLERANCE = TOLERANCES[torch.float32]
SIZE = (7, 9)


@pytest.fixture(autouse=True)
def _small_launches(monkeypatch):
    small_tiles(monkeypatch, block_pixels=32, programs=16, walked=8)


def leaf(tensor, name):
    """The same float32 numbers, in float64 for the reference."""
    dtype = torch.float32 if name == "triton" else torch.float64
    return torch.as_tensor(tensor).float().to(dtype, copy=True).requires_grad_()


def weighted(image):
    """A sum of an image that gives every pixel a weight of its own."""
    generator = torch.Generator().manual_seed(7)
    return (image * torch.rand(image.shape, generator=generator).to(image)).sum()


def silhouette(name, dist, tconorm, faces=4, size=0.6, scale=0.1):
    """Alpha of two images, and the gradients of corners, scale, shape and p."""
    corners, scale = leaf(soup(2, faces, 21, size=size), name), leaf(scale, name)
    dist, tconorm = gendr.distributions.get(dist), gendr.tnorms.tconorm(tconorm)
    leaves = {"corners": corners, "scale": scale}
    if dist.shape_parameter is not None:
        leaves["shape"] = leaf(float(dist.shape_parameter), name)
        dist = dist.with_shape(leaves["shape"])
    if getattr(tconorm, "p", None) is not None:
        leaves["p"] = leaf(float(tconorm.p), name)
        tconorm = tconorm.with_p(leaves["p"])
    alpha = gendr.silhouette(corners, SIZE, dist, tconorm, scale, backend=name)
    weighted(alpha).backward()
    return {"alpha": alpha.detach(), **{key: x.grad for key, x in leaves.items()}}


def rendered(name, dist="gaussian", near=1.0, **options):
    """All images of a coarse ball from two sides, and the gradients of its vertices and more."""
    ball = icosphere(0).scaled(0.5)
    vertices = leaf(ball.vertices, name)
    colours = leaf(torch.linspace(0, 1, 3 * len(vertices)).reshape(-1, 3), name)
    mesh = gendr.Mesh(vertices, ball.faces[:5]).with_vertex_colors(colours)
    learnable = ("scale", "gamma") if options.get("shading") != "hard" else ("scale",)
    renderer = gendr.Renderer(
        SIZE, dist, scale=0.03, near=near, backend=name, learnable=learnable, **options
    ).to(vertices.dtype)
    out = renderer(mesh, gendr.look_at(2.732, 30.0, torch.tensor([10.0, 70.0]).to(vertices)))
    (weighted(out.alpha) + weighted(out.rgb)).backward()
    grads = {key: x.grad for key, x in renderer.named_parameters()}
    images = {"alpha": out.alpha, "rgb": out.rgb, "depth": out.depth}
    found = {key: x.detach() for key, x in images.items()}
    return {**found, "face_id": out.face_id, "vertices": vertices.grad, **grads}


def joined(name, dist="logistic", tconorm="probabilistic", sort="pixel"):
    """Faces joined in order, with gradients of all that they have."""
    scene = Scene(soup(2, 6, 21), SIZE, dist, tconorm, channels=4)
    dtype = torch.float32 if name == "triton" else torch.float64
    scene.leaves = {k: v.detach().float().double() for k, v in scene.leaves.items()}
    image, alpha, grads, _ = scene.found(name, dtype, sort=sort, bound=1e-3)
    return {"image": image, "alpha": alpha, **grads}


SCENES = {
    "lists": lambda name: silhouette(name, "logistic", "probabilistic", 8, 0.2, 0.02),
    "walks": lambda name: silhouette(name, "gamma(shape=1.7)", "yager(p=2)"),
    "max": lambda name: silhouette(name, "uniform", "max"),
    "mean": lambda name: silhouette(name, "cauchy.squared", "average", scale=0.03),
    "colours": lambda name: rendered(name, gamma=0.1),
    "hard": lambda name: rendered(name, shading="hard"),
    "clipped": lambda name: rendered(name, near=2.5, shading="hard"),
    "layers": joined,
    "layers of one order": lambda name: joined(name, "gamma(shape=2)", "frank(p=2)", "centroid"),
}
KERNELS = (
    "depth_ranges project_faces project_gradients face_tables alpha_tiles "
    "join_segments alpha_gradients through_totals softmax_tiles softmax_gradients count_faces "
    "prefix_chunks scan_tiles fill_lists count_pieces list_pieces join_pieces"
)
# The others, and launches as on a GPU, with --every only.
USUAL = ("lists", "walks", "max", "colours", "clipped", "layers")
IN_GPU_ARITHMETIC = ("walks", "max", "colours")


@pytest.mark.rotating(4, group="rendering")
def test_no_race_nothing_out_of_bounds_and_any_order_gives_the_same_bits(request):
    seen = set()
    for scene in SCENES if request.config.getoption("--every") else USUAL:
        watch = in_any_order(lambda scene=scene: SCENES[scene]("triton").values())
        assert max(watch.programs) > 3
        seen |= set(watch.kernels)
    assert set(KERNELS.split()) <= seen  # every kernel was watched


def launches(seed, every):
    """Scenes, and whether launches are as on a GPU."""
    return [*product(SCENES, (False, True))] if every else [(x, False) for x in IN_GPU_ARITHMETIC]


@pytest.mark.rotating(4, group="rendering")
@for_each("scene, as_on_gpus", launches, rotating=3)
def test_the_arithmetic_of_a_gpu_is_accurate_enough(scene, as_on_gpus, monkeypatch):
    if as_on_gpus:
        as_on_a_gpu(monkeypatch)
    # The maximum asks bit by bit who reached it: its kernels are compiled without fusion.
    with pessimistic_arithmetic(3, fused=scene != "max"):
        got = SCENES[scene]("triton")
    for key, want in SCENES[scene]("reference").items():
        if not want.is_floating_point():
            assert torch.equal(got[key], want), key
        elif key in ("alpha", "rgb", "depth"):
            torch.testing.assert_close(
                got[key].double(), want, rtol=TOLERANCE.alpha, atol=TOLERANCE.alpha, msg=key
            )
        else:
            assert relative_l2(got[key], want) <= TOLERANCE.gradient, key


@pytest.mark.rotating(4, group="rendering")
def test_pixel_centres_are_rounded_correctly():
    """An edge through the centres of a row of pixels: they are covered, all or none.

    Steep distributions amplify an error of theirs: the gradient of the scale of gamma(shape=0.5)
    with aczel_alsina(p=0.5) is wrong by 2e-3 with such centres, and by 2e-4 without.
    """
    heights = torch.tensor([-4.0, -2.0, 2.0, 4.0]) / SIZE[0]
    left, right, below = (heights.new_full((4, 2), x) for x in (-0.95, 0.95, 0.0))
    for corner, height in ((left, heights), (right, heights), (below, heights - 1.5)):
        corner[:, 1] = height
    faces = torch.stack([left, right, below], 1)
    scene = torch.cat([faces, torch.ones(4, 3, 1)], -1)[:, None]

    def image():
        return gendr.silhouette(scene, SIZE, "heaviside", "max", 0.1, backend="triton")

    want = image()
    assert want.any()
    for seed in range(3):
        with pessimistic_arithmetic(seed):
            assert torch.equal(image(), want)


def test_a_tile_that_reads_beyond_its_faces_is_seen(monkeypatch):
    """The detector watches these kernels indeed: with one corner less they leave their tensor."""

    def short(launch, launcher, grid, corners, *rest):
        launch(launcher, grid, corners.ravel()[:-1], *rest)

    launched_by(monkeypatch, short)
    with checked_launches(), pytest.raises(RaceError, match="out of bounds"):
        SCENES["walks"]("triton")
