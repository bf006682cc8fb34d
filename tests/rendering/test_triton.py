"""The Triton backend against the float64 reference; interpreted where there is no GPU."""

import sys
import warnings
from itertools import pairwise

import pytest
import torch
from torch.utils._pytree import tree_map_only

import gendr
from gendr._runtime import backends as _backends
from gendr.mesh import icosphere
from gendr.rendering import aggregation
from gendr.rendering.aggregation import Aggregation
from gendr.rendering.backends import choice as backends
from gendr.rendering.backends import reference
from gendr.rendering.coverage import Coverage
from gendr.rendering.fragments import signed_distance
from gendr.rendering.geometry import ImageSize, ScreenFaces, project_faces
from gendr.tnorms import has_parameter
from support import TOLERANCES, degenerate, relative_l2, soup, touching
from support.cases import for_each

pytest.importorskip("triton", reason="Triton has no wheels for this platform")

from gendr._runtime.triton.launch import Launcher
from gendr.rendering.backends.triton import alpha as silhouettes
from gendr.rendering.backends.triton import backend, recipes, tiles
from gendr.rendering.backends.triton import shared_kernels as shared
from support import ahead_of_time
from support.instances import covering_set

DEVICE = "cpu" if tiles.interpreted() else "cuda"
TOLERANCE = TOLERANCES[torch.float32]
# Laws, transforms and families outside the benchmark.
OTHERS = [
    "heaviside/max",
    "optimal.reversed/probabilistic",
    "logistic.art(0.3)/average",
    "gamma(shape=1.0).centred/frank(p=0.25)",
    "gamma(shape=3.7).reversed.squared/schweizer_sklar(p=-3)",
    "gamma(shape=0.7).centred/hamacher(p=3)",
    "gaussian.shifted(-0.4).reversed/yager(p=3)",
    "student_t(shape=2.5).shifted(0.3)/einstein",
]


def others():
    """The members of `OTHERS`, and one of each law and of each family that is in neither."""
    named = [*map(gendr.instance, OTHERS)]
    known = [*gendr.instances(), *named]
    laws = gendr.distributions.laws()
    for name in sorted(laws.keys() - {x.dist.law.name for x in known}):
        named.append(gendr.instance(f"{laws[name].examples()[0]}/probabilistic"))
    for name in sorted({*gendr.tnorms.names()} - {x.tconorm.name for x in known}):
        named.append(gendr.instance(f"logistic/{gendr.tnorms.family(name).examples()[0]}"))
    return named


@pytest.fixture
def device():
    return torch.device(DEVICE)


@pytest.fixture
def small_launches(monkeypatch):
    """Small tiles and blocks: every loop turns, every grid has more than one program."""
    small = tiles.TileLaunch((4, 8), 4, 16, 20, tiles.LAUNCH.warps, walked=0)
    monkeypatch.setattr(tiles, "LAUNCH", small)


def members(seed, every):
    """A covering set and the others; the interpreter is too slow for all, which GPUs get."""
    chosen = gendr.instances() if every and not tiles.interpreted() else covering_set(seed)
    return [*chosen, *others()]


def pytest_generate_tests(metafunc):
    """An item for each, as the check on a GPU tells how many of all there was time for."""
    if "member" in metafunc.fixturenames:
        chosen = members(*map(metafunc.config.getoption, ("--seed", "--every")))
        metafunc.parametrize("member", chosen, ids=[x.name for x in chosen])


def learnable(member, scale, like):
    """The member with tensors for all it has: (dist, tconorm, {name: tensor})."""

    def leaf(value):
        return torch.as_tensor(value).to(like, copy=True).requires_grad_()

    dist, tconorm, tensors = member.dist, member.tconorm, {"scale": leaf(scale)}
    if dist.shape_parameter is not None:
        tensors["shape"] = leaf(float(dist.shape_parameter))
        dist = dist.with_shape(tensors["shape"])
    if not dist.is_centred and dist.total_shift() == 0:
        tensors["shift"] = leaf(0.2)
        dist = dist.shifted(tensors["shift"])
    if getattr(tconorm, "p", None) is not None:
        tensors["p"] = leaf(float(tconorm.p))
        tconorm = tconorm.with_p(tensors["p"])
    return dist, tconorm, tensors


def rendered(name, scene, size, member, scale, cutoff=1e-6, weight=1.0):
    """Alpha and the gradients of all inputs through its weighted sum, float64 on the CPU.

    The reference gets the same float32 numbers as the kernels, in float64.
    """
    on, dtype = (DEVICE, torch.float32) if name == "triton" else ("cpu", torch.float64)
    vertices = scene.float().to(on, dtype).requires_grad_()
    dist, tconorm, tensors = learnable(member, scale, vertices)
    alpha = gendr.silhouette(vertices, size, dist, tconorm, tensors["scale"], cutoff, name)
    assert alpha.dtype == dtype
    (alpha * torch.as_tensor(weight).to(alpha)).sum().backward()
    grads = {"vertices": vertices.grad, **{key: x.grad for key, x in tensors.items()}}
    return alpha.detach().double().cpu(), {key: x.double().cpu() for key, x in grads.items()}


def clear_pixels(scene, size, member, scale, cutoff):
    """Those where rounding decides nothing: neither the cutoff nor a kink of the T-conorm."""
    scale = torch.as_tensor(scale).double().reshape(-1, 1, 1)
    points = size.centres(torch.arange(size.pixels), torch.float64)[:, None]
    d = signed_distance(points, scene.float().double()[..., :2].unsqueeze(1))
    dist, _, _ = learnable(member, 0.1, scene)
    coverage, _ = dist.coverage(d, scale)
    coverage = coverage.detach()
    clear = ((coverage / max(cutoff, 1e-300) - 1).abs() > 1e-3).all(-1)
    if member.tconorm.name == "yager":
        clear &= ((coverage ** float(member.tconorm.p)).sum(-1) - 1).abs() > 1e-5
    return clear.reshape(-1, size.height, size.width)


def assert_equal(scene, size, member, scale, cutoff=1e-6):
    """The backend's alpha and all its gradients are those of the reference."""
    clear = clear_pixels(scene, size, member, scale, cutoff)
    generator = torch.Generator().manual_seed(11)
    weight = torch.rand(clear.shape, generator=generator) * clear
    shape = (size.height, size.width)
    got, want = (
        rendered(name, scene, shape, member, scale, cutoff, weight)
        for name in ("triton", "reference")
    )
    dist = member.dist
    steep = dist.shape_parameter is not None and dist.shape_parameter < 1
    bound = TOLERANCE.steep_alpha if steep else TOLERANCE.alpha
    assert ((got[0] - want[0]) * clear).abs().max() <= bound
    assert got[1].keys() == want[1].keys()
    rounding = 1e-7 * clear.numel()  # of sums over pixels whose terms cancel
    for key, gradient in want[1].items():
        error = (got[1][key] - gradient).norm()
        assert error <= TOLERANCE.gradient * gradient.norm() + rounding, key


def packed(counts, dtype=torch.float64):
    """Images with different numbers of faces."""
    scenes = [soup(1, n, 10 + n)[0, :, :, :2] for n in counts]
    offsets = [0]
    for n in counts:
        offsets.append(offsets[-1] + n)
    return ScreenFaces(torch.cat(scenes).to(dtype), tuple(offsets))


def on_device(faces):
    return ScreenFaces(faces.corners.float().to(DEVICE), faces.offsets)


def grains(count=60, seed=3):
    """Small faces all over the image: tile lists are worth it."""
    return soup(2, count, seed, size=0.08)


def test_the_covering_set_covers_every_law_and_family():
    chosen = members(0, False)
    assert {x.dist.law.name for x in chosen} == set(gendr.distributions.names())
    assert {x.tconorm.name for x in chosen} == set(gendr.tnorms.names())


# -- the same as the reference


@pytest.mark.rotating(4)
def test_alpha_and_all_gradients_equal_the_reference(member):
    scale = 0.02 if member.dist.is_squared else 0.1
    assert_equal(soup(1, 4, 21, size=0.8), ImageSize(18, 13), member, scale)


@for_each(
    scene=["touching", "soup"],
    name=["uniform/max", "logistic/max", "logistic/probabilistic", "cauchy.squared/yager(p=2.0)"],
)
def test_ties_overlaps_and_an_exact_cutoff(name, scene):
    """Fans share edges: two faces reach the maximum of a pixel, and split its gradient evenly."""
    corners = touching(5) if scene == "touching" else soup(1, 6, 4)
    assert_equal(corners, ImageSize(16, 16), gendr.instance(name), 0.1, cutoff=0.0)


def test_a_tie_of_the_maximum_is_split_evenly(device):
    """Two faces on the same side of a shared edge, pixels beyond it: the distance is the same."""
    shared = torch.tensor([[-0.613, 0.117], [0.591, 0.203]])
    apexes = torch.tensor([[0.05, 0.9], [-0.3, 0.7]])
    first, second = torch.cat([shared, apexes[:1]]), torch.cat([shared.flip(0), apexes[1:]])
    corners = torch.stack([first, second])
    scene = torch.cat([corners, torch.ones(2, 3, 1)], -1)[None].to(device).requires_grad_()
    alpha = gendr.silhouette(scene, 16, "logistic", "max", 0.1, cutoff=0.0, backend="triton")
    alpha[0, 8:, 5:11].log().sum().backward()
    assert scene.grad.abs().sum() > 0
    torch.testing.assert_close(scene.grad[0, 0, :2], scene.grad[0, 1, :2].flip(0))


@pytest.mark.parametrize("size", [(1, 1), (1, 7), (9, 2), (33, 65)])
def test_sizes_that_are_no_multiple_of_a_tile(size):
    scales = torch.tensor([0.1, 0.03])
    member = gendr.instance("gaussian/probabilistic")
    assert_equal(soup(2, 5, 4), ImageSize(*size), member, scales)


@pytest.mark.parametrize("family", ["probabilistic", "average", "max"])
def test_images_with_different_numbers_of_faces(family):
    size, weight = ImageSize(12, 17), torch.rand(4, 12, 17)
    results = []
    for module, on in ((backend, on_device), (reference, lambda x: x)):
        faces = on(packed((3, 0, 5, 1)))
        faces.corners.requires_grad_()
        scale = torch.tensor([0.1, 0.2, 0.3, 0.05]).to(faces.corners).requires_grad_()
        coverage = Coverage(gendr.distributions.get("logistic"), scale, 0.0)
        rule = Aggregation(coverage, gendr.tnorms.tconorm(family))
        alpha = module.alpha(faces, size, rule)
        (alpha * weight.to(alpha)).sum().backward()
        results.append([x.double().cpu() for x in (alpha, faces.corners.grad, scale.grad)])
    got, want = results
    torch.testing.assert_close(got[0], want[0], rtol=0, atol=TOLERANCE.alpha)
    assert not got[0][1].any()
    assert got[2][1] == 0
    for k in (1, 2):
        assert relative_l2(got[k], want[k]) <= TOLERANCE.gradient


def test_no_faces_give_an_empty_image(device):
    empty = torch.zeros(2, 0, 3, 3, device=device, requires_grad=True)
    for family in ("probabilistic", "average", "max"):
        alpha = gendr.silhouette(empty, 8, tconorm=family, backend="triton")
        assert alpha.shape == (2, 8, 8)
        assert not alpha.any()
        alpha.sum().backward()
        assert empty.grad.shape == empty.shape


def test_faces_with_a_depth_that_is_not_positive_are_ignored(device):
    scene = soup(1, 6, 2, torch.float32)
    scene[0, 1, 2, 2] = 0.0
    scene[0, 4, 0, 2] = -1.0
    results = []
    for faces in ([0, 1, 2, 3, 4, 5], [0, 2, 3, 5]):
        vertices = scene[:, faces].to(device).requires_grad_()
        alpha = gendr.silhouette(vertices, 12, "cauchy", scale=0.1, backend="triton")
        alpha.square().sum().backward()
        results.append((alpha.detach(), vertices.grad))
    torch.testing.assert_close(results[0][0], results[1][0])
    torch.testing.assert_close(results[0][1][:, [0, 2, 3, 5]], results[1][1])
    assert not results[0][1][:, [1, 4]].any()
    behind = scene[:, [1, 4]].to(device)
    assert not gendr.silhouette(behind, 12, "cauchy", scale=0.1, backend="triton").any()


def test_faces_far_outside_neither_show_nor_break_anything(device):
    scene = soup(1, 3, 6)
    far = torch.cat([scene, scene + 50.0, scene * torch.tensor([1e6, 1e6, 1]) + 3e9], 1)
    member = gendr.instance("gaussian/einstein")
    near, _ = rendered("triton", scene, 16, member, 0.1)
    both, grads = rendered("triton", far, 16, member, 0.1)
    assert torch.equal(near, both)
    assert torch.isfinite(grads["vertices"]).all()
    assert not grads["vertices"][:, 3:].any()


def test_faces_agree_on_the_side_and_the_corners_they_share(device):
    """In every bit, whichever way round they go: else ties of the maximum would be missed."""
    a, b = torch.tensor([-0.613, 0.117]), torch.tensor([0.591, 0.203])
    faces = [(a, b, torch.tensor([0.3, 0.9])), (b, a, torch.tensor([0.1, -0.7])), (b, b, a)]
    corners = torch.stack([torch.stack(x) for x in faces]).to(device)
    images = tiles.bare_images(1, torch.zeros(1, device=device))
    plan = tiles.plan_of(tiles.TilePlan, (0, 3), ImageSize(8, 8), 3, images.device, tiles.LAUNCH)
    first, second, flat = plan.tables(corners, images)[0].cpu()
    side = slice(shared.DIRECTION.value, shared.DIRECTION.value + 2)
    middle = slice(shared.MIDDLE.value, shared.MIDDLE.value + 2)
    assert torch.equal(first[middle], second[middle])
    assert torch.equal(first[side], -second[side])
    assert first[shared.OFFSET.value] == -second[shared.OFFSET.value]
    assert first[shared.HALF.value] == second[shared.HALF.value]
    length = (b.double() - a.double()).norm()
    torch.testing.assert_close(first[shared.HALF.value].double() * 2, length, rtol=1e-6, atol=0)
    assert (first[shared.CEILING.value] > 0, flat[shared.CEILING.value] > 0) == (True, False)


@pytest.mark.parametrize(
    ("images", "faces", "size", "tiles_are_small", "blocks_are_small"),
    [
        (24, 30720, (64, 64), True, True),
        (1, 40368, (1024, 1024), False, True),
        (1, 12, (1024, 1024), False, False),
        (0, 0, (64, 64), True, True),
    ],
)
def test_programs_are_as_small_as_images_and_faces(
    images, faces, size, tiles_are_small, blocks_are_small
):
    given = tiles.TileLaunch(fits=True, small_tile=(4, 8), small_tile_warps=3, small_block_warps=5)
    fitted = given.fitted(images, faces, ImageSize(*size))
    forward, backward = (fitted.tile, fitted.tile_warps), (fitted.block_pixels, fitted.block_warps)
    assert forward == (((4, 8), 3) if tiles_are_small else ((16, 16), 2))
    assert backward == ((32, 5) if blocks_are_small else (128, 4))
    assert fitted.fitted(images, faces, ImageSize(*size)) is fitted
    fixed = tiles.TileLaunch((4, 8), 4, 16)
    assert fixed.fitted(images, faces, ImageSize(*size)) is fixed


LEARNT = [x for x in gendr.tnorms.names() if has_parameter(gendr.tnorms.family(x))]


@for_each(family_of_p=[str(gendr.tnorms.family(x).examples()[0]) for x in LEARNT])
def test_totals_take_their_own_share_from_the_gradient_of_p(family_of_p, device):
    """For every image, of more pixels than a program takes, with totals at and next to 0 and 1."""
    size, images = ImageSize(33, 41), 3
    generator = torch.Generator().manual_seed(3)
    A = torch.rand(images, size.pixels, generator=generator, dtype=torch.float64)
    A[:, :8] = torch.tensor([0.0, 1.0, 1e-30, 1e-12, 1e-5, 0.5, 1.0, 0.0])
    S = 1 - A
    S[:, :8] = torch.tensor([1.0, 0.0, 1.0, 1.0, 1.0, 0.5, 1e-30, 0.0])
    A, S = A.float(), S.float()
    grad = torch.randn(images, size.height, size.width, generator=generator)
    family = gendr.tnorms.tconorm(family_of_p)
    table = torch.zeros(images, tiles.image_columns())
    table[:, shared.FAMILY_P.value] = family.given_p
    recipe = recipes.Recipe("uniform", family.name, ("scale", "p"))
    given = (0,) * (images + 1), size, 3, torch.device(device), tiles.LAUNCH, recipe
    plan = tiles.plan_of(silhouettes.AlphaPlan, *given)
    found = silhouettes.through_totals(plan, *(x.to(device) for x in (table, A, S, grad)))
    terms = grad.reshape(images, -1).double() * family.weight_p(A, S, A, S)
    assert found.shape == (images,)
    apart = (found.cpu().double() - terms.sum(1)).abs()
    assert (apart <= 2e-6 * terms.abs().sum(1)).all()


def test_double_input_gives_double_output_of_single_accuracy(device):
    scene = soup(1, 4, 9)
    results = []
    for name, on in (("triton", device), ("reference", "cpu")):
        vertices = scene.to(on).requires_grad_()
        alpha = gendr.silhouette(vertices, 16, "logistic", scale=0.1, backend=name)
        alpha.sum().backward()
        assert alpha.dtype == vertices.grad.dtype == torch.float64
        results.append((alpha.detach().cpu(), vertices.grad.cpu()))
    torch.testing.assert_close(results[0][0], results[1][0], rtol=0, atol=TOLERANCE.alpha)
    assert relative_l2(results[0][1], results[1][1]) <= TOLERANCE.gradient


@pytest.mark.parametrize(
    ("name", "cutoff"),
    [
        ("gamma(shape=0.5).reversed.centred.squared/yager(p=0.5)", 0.0),
        ("gaussian/frank(p=4)", 1e-6),
        ("levy.reversed/dombi(p=0.5)", 1e-6),
        ("gumbel_min.squared/aczel_alsina(p=0.5)", 0.0),
        ("logistic.art(0.5)/max", 0.0),
    ],
)
def test_degenerate_faces_give_finite_images_and_gradients(name, cutoff):
    member = gendr.instance(name)
    scene = degenerate().expand(4, -1, -1, -1)
    scales = torch.tensor([1e-8, 1e-4, 1e-2, 1.0])
    alpha, grads = rendered("triton", scene, 5, member, scales, cutoff)
    assert torch.isfinite(alpha).all()
    assert alpha.min() >= 0
    assert alpha.max() <= 1
    for key, gradient in grads.items():
        assert torch.isfinite(gradient).all(), key


@pytest.mark.parametrize("family", ["max", "probabilistic", "yager(p=2)"])
def test_a_saturated_pixel_is_1_and_passes_no_gradient(family, device):
    """A pixel centre exactly on an edge, where exponential.reversed has F = 1 and slope 1."""
    scene = torch.tensor([[[[-0.9, 0.0, 1], [0.9, 0.0, 1], [0.0, 0.9, 1]]]])
    scene = torch.cat([scene, soup(1, 3, 1, torch.float32)], 1).to(device).requires_grad_()
    scale = torch.tensor(0.3, device=device, requires_grad=True)
    alpha = gendr.silhouette(scene, 5, "exponential.reversed", family, scale, backend="triton")
    assert alpha[0, 2, 2] == 1
    alpha[0, 2, 2].backward()
    assert not scene.grad.any()
    assert scale.grad == 0


# -- lists, walks, shares


def test_lists_walks_and_lists_without_room_give_the_same_image(monkeypatch, device):
    seen, original = [], tiles.lists_of
    monkeypatch.setattr(tiles, "lists_of", lambda *x: seen.append(original(*x)) or seen[-1])
    scene = grains(24).float().to(device)

    def image(walked):
        launch = tiles.TileLaunch((8, 8), 16, 1024, 1, tiles.LAUNCH.warps, walked=walked)
        monkeypatch.setattr(tiles, "LAUNCH", launch)
        return gendr.silhouette(scene, (24, 17), scale=0.02, backend="triton")

    want, walked = image(0), image(10**6)
    assert (seen[0].starts >= 0).all()
    assert (seen[1].starts < 0).all()
    monkeypatch.setattr(tiles.Capacity, "of_step", lambda _, totals: (int(totals.sum()) // 2, 0))
    mixed = image(0)
    assert 0 < (seen[2].starts < 0).sum() < len(seen[2].starts)
    for got in (walked, mixed):
        torch.testing.assert_close(got, want, rtol=0, atol=1e-6)


@pytest.mark.usefixtures("small_launches")
@pytest.mark.parametrize("name", ["logistic/probabilistic", "gaussian/max", "uniform/average"])
def test_many_programs_equal_the_reference(name):
    assert_equal(soup(1, 5, 8), ImageSize(14, 19), gendr.instance(name), 0.03)


@pytest.mark.usefixtures("small_launches")
def test_many_lists_of_many_images_equal_the_reference():
    member = gendr.instance("uniform/probabilistic")
    assert_equal(grains(14), ImageSize(23, 18), member, torch.tensor([0.02, 0.05]))


@pytest.mark.usefixtures("small_launches")
def test_deterministic_gives_the_same_bits_and_atomics_the_same_numbers():
    scene, member = soup(1, 3, 8), gendr.instance("gamma(shape=1.7)/yager(p=2.0)")
    runs = []
    try:
        for atomic in (False, False, True):
            backend.set_atomic(atomic)
            runs.append(rendered("triton", scene, (14, 19), member, 0.1)[1])
    finally:
        backend.set_atomic(False)
    first, second, atomic = runs
    for key, gradient in first.items():
        assert torch.equal(second[key], gradient), key
        assert relative_l2(atomic[key], gradient) < 1e-5, key


def test_torch_overrules_atomics():
    try:
        backend.set_atomic(True)
        assert tiles.atomic_now()
        torch.use_deterministic_algorithms(True)
        assert not tiles.atomic_now()
    finally:
        torch.use_deterministic_algorithms(False)
        backend.set_atomic(False)


# -- pairs, depth, the renderer


def ball(near=1.0, views=2):
    """A coarse sphere and some cameras; with near = 2.5 its front is cut off."""
    azimuths = torch.tensor([10.0, 70.0])[:views]
    return icosphere(0).scaled(0.5), gendr.look_at(2.732, 30.0, azimuths), ImageSize(12, 16), near


@pytest.mark.parametrize("limit", [10**9, 300])
def test_pairs_are_those_within_the_radius_and_nothing_else(limit):
    mesh, camera, size, near = ball()
    faces, _ = project_faces(mesh, camera, near, 100.0)
    radius = torch.tensor([0.05, 0.2])
    listed = [run() for run in backend.pairs(on_device(faces), size, radius.to(DEVICE), limit)]
    assert all(a.last == b.first for a, b in pairwise(listed))
    assert (listed[0].first, listed[-1].last) == (0, 2 * size.pixels)
    assert (len(listed) > 3) == (limit == 300)
    got = torch.cat([torch.stack([run.pixels, run.faces]) for run in listed], 1).cpu()
    dense = reference.pairs(faces, size, radius, 10**9)
    every = torch.cat([torch.stack([x.pixels, x.faces]) for x in (run() for run in dense)], 1)
    d = signed_distance(size.centres(every[0], torch.float64), faces.corners.double()[every[1]])
    near_enough = d >= -radius.double()[size.image_of(every[0])]
    assert sorted(zip(*got.tolist(), strict=True)) == sorted(
        zip(*every[:, near_enough].tolist(), strict=True)
    )


def test_a_callable_cdf_works_wherever_a_name_does(monkeypatch, device):
    def cdf(z):
        return ((1 + z) / 2).clamp(0, 1)

    monkeypatch.setattr(aggregation, "PAIRS_AT_ONCE", 300)  # in several runs
    dist = gendr.distributions.from_callable(cdf, support=(-1.0, 1.0))
    results = []
    for law in (dist, "uniform"):
        vertices = soup(2, 5, 6, torch.float32).to(device).requires_grad_()
        alpha = gendr.silhouette(vertices, (9, 12), law, "yager(p=2)", 0.2, backend="triton")
        alpha.sum().backward()
        results.append((alpha.detach(), vertices.grad))
    torch.testing.assert_close(results[0][0], results[1][0], rtol=0, atol=TOLERANCE.alpha)
    assert relative_l2(results[0][1], results[1][1]) <= TOLERANCE.gradient


def images(name, mesh, camera, size, near, dist="gaussian", **options):
    """All images of the renderer and the gradients of the vertices through alpha and rgb."""
    on, dtype = (DEVICE, torch.float32) if name == "triton" else ("cpu", torch.float64)
    vertices = mesh.vertices.to(on, dtype, copy=True).requires_grad_()
    colours = torch.linspace(0, 1, 3 * len(vertices), dtype=dtype, device=on).reshape(-1, 3)
    mesh = mesh.to(on).with_vertices(vertices).with_vertex_colors(colours)
    renderer = gendr.Renderer(
        (size.height, size.width), dist, scale=0.03, near=near, backend=name, **options
    ).to(on)
    out = renderer(mesh, camera.to(on, dtype))
    found = {"alpha": out.alpha, "rgb": out.rgb, "depth": out.depth, "normals": out.normals}
    (out.alpha.square().sum() + out.rgb.square().sum()).backward()
    found = {key: x.detach().double().cpu() for key, x in found.items()}
    return found | {"face_id": out.face_id.cpu()}, vertices.grad.double().cpu()


@pytest.mark.rotating(2)
@pytest.mark.parametrize("near", [1.0, 2.5], ids=["triangles", "clipped to four corners"])
@pytest.mark.parametrize("shading", ["softmax", "hard"])
def test_all_images_of_the_renderer_equal_the_reference(near, shading):
    scene = ball(near)
    cut = project_faces(scene[0], scene[1], near, 100.0)[0].corners.shape[1]
    assert cut == (3 if near == 1.0 else 4)
    options = {"shading": shading, "gamma": 0.1}
    got, want = (images(name, *scene, **options) for name in ("triton", "reference"))
    assert torch.equal(got[0]["face_id"], want[0]["face_id"])
    assert (want[0]["face_id"] >= 0).any()
    for key, image in want[0].items():
        torch.testing.assert_close(got[0][key], image, rtol=1e-5, atol=1e-5, msg=key)
    assert relative_l2(got[1], want[1]) <= TOLERANCE.gradient


@pytest.mark.usefixtures("small_launches")
def test_the_nearest_face_is_that_of_the_reference_and_the_lower_of_two_equals(device):
    mesh = icosphere(0).scaled(0.6)
    twice = gendr.Mesh(mesh.vertices, torch.cat([mesh.faces, mesh.faces]))
    camera = gendr.look_at(2.732, 20.0, 40.0)
    found = [
        gendr.Renderer((9, 13), backend=name)(twice.to(on), camera.to(on)).face_id.cpu()
        for name, on in (("triton", device), ("reference", "cpu"))
    ]
    assert torch.equal(*found)
    assert found[0].max() < len(mesh.faces)


def test_a_second_derivative_is_refused_with_a_word_on_the_reference(device):
    scene = soup(1, 3, 0, torch.float32).to(device).requires_grad_()
    alpha = gendr.silhouette(scene, 8, "gaussian", scale=0.1, backend="triton")
    (slope,) = torch.autograd.grad(alpha.sum(), scene, create_graph=True)
    with pytest.raises(RuntimeError, match="backend='reference'"):
        slope.sum().backward()


# -- operators and launches


def calls(monkeypatch, operators, run):
    """The arguments with which `run` calls operators of torch."""
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = {}

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            if function in operators:
                seen[function] = tuple(args)
            return function(*args, **(kwargs or {}))

    with Recorder():
        run()
    return seen


@pytest.mark.parametrize("name", ["gamma(shape=1.7)/yager(p=2.0)", "logistic.squared/max"])
def test_the_operators_keep_the_rules_of_torch(name, monkeypatch):
    """Schema, fake kernel and autograd registration, with arguments of real calls."""
    operators = {torch.ops.gendr.alpha.default, torch.ops.gendr.alpha_gradients.default}
    member = gendr.instance(name)
    seen = calls(
        monkeypatch, operators, lambda: rendered("triton", soup(1, 3, 2), (6, 7), member, 0.1)
    )
    assert seen.keys() == operators
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    for operator, args in seen.items():
        torch.library.opcheck(
            operator, tree_map_only(torch.Tensor, torch.detach, args), test_utils=tests
        )


TYPES = {
    torch.float32: "*fp32",
    torch.float64: "*fp64",
    torch.int32: "*i32",
    torch.int64: "*i64",
    int: "i32",
    float: "fp32",
}


def test_what_is_compiled_ahead_of_time_is_what_is_launched(monkeypatch, device):
    """Types and constants of all launches, as `support.ahead_of_time` has them."""
    launches, original = [], Launcher.__call__

    def recorder(launcher, grid, *args):
        launches.append((launcher.kernel.fn.__name__, args, launcher.constants))
        original(launcher, grid, *args)

    monkeypatch.setattr(Launcher, "__call__", recorder)
    learnt = {"dist": "gamma(shape=1.7)", "tconorm": "yager(p=3)"}
    images("triton", *ball(views=1), **learnt, learnable=("scale", "shape", "p"))
    with torch.no_grad():  # small faces: lists
        gendr.silhouette(grains(6).float().to(device), 64, scale=0.01, backend="triton", **learnt)
    for kernel, args, constants in launches:
        of_p = kernel == "through_totals"
        law = "gamma" * (of_p or "CDF" in constants)
        family = "yager" * (of_p or "KIND" in constants)
        scalars = constants.get("SCALARS", of_p)
        sides = constants.get("N", 3)
        x = ahead_of_time.Specialisation(kernel, law, family, sides, scalars=scalars)
        want = ahead_of_time.constants(x)
        # Those that project are compiled for all that they can do, at the sizes of a GPU.
        want = {} if kernel in ahead_of_time.PROJECTING else want
        assert {name: constants[name] for name in want} == want, x
        types = {k: t for k, t in ahead_of_time.signature(kernel).items() if t != "constexpr"}
        given = {k: TYPES[getattr(x, "dtype", type(x))] for k, x in zip(types, args, strict=True)}
        if not constants.get("CHECK", True):  # what nobody looks at may point to anything
            types["flags"] = given["flags"]
        assert given == types, x
    known = {x.kernel for x in ahead_of_time.specialisations()}
    launched = {kernel for kernel, *_ in launches}
    # That all are launched somewhere is seen to by the tests of hazards.
    assert {"project_faces", "face_tables", "alpha_gradients", "softmax_gradients"} <= launched
    assert "through_totals" in launched
    assert launched <= known


# -- availability


@pytest.fixture
def fresh():
    """`available` without its cache."""
    backend.available.cache_clear()
    yield backend.available
    backend.available.cache_clear()


@pytest.fixture
def compiling(fresh, monkeypatch):
    """The same where Triton compiles."""
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Some GPU")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (8, 0))
    return fresh


def test_no_triton(fresh, monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", None)
    assert "pip install '.[triton]'" in fresh()
    assert gendr.backends()["triton"] == fresh()


def test_an_old_triton(fresh, monkeypatch):
    monkeypatch.setattr(sys.modules["triton"], "__version__", "3.3.1")
    assert "needs Triton >= 3.4, found 3.3.1" in fresh()


def test_interpreted_kernels_need_no_gpu(fresh, monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert fresh() is None
    assert backend.supports(torch.zeros(1))


def test_a_capable_gpu(compiling):
    assert compiling() is None
    assert not backend.supports(torch.zeros(1))


def test_pytorch_without_cuda(compiling, monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", None)
    assert "needs PyTorch built for CUDA" in compiling()


def test_no_gpu(compiling, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    assert "torch.cuda.is_available() is False" in compiling()


def test_an_old_driver(compiling, monkeypatch):
    def init():
        raise RuntimeError("The NVIDIA driver on your system is too old.\nPlease update it.")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "init", init)
    assert compiling().endswith("The NVIDIA driver on your system is too old.")


def test_an_old_gpu(compiling, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (7, 5))
    assert "Some GPU with 7.5" in compiling()
    scene = soup(1, 2, 0)
    with pytest.raises(RuntimeError, match=r"capability 8\.0 .* found Some GPU with 7\.5"):
        gendr.silhouette(scene, 8, backend="triton")


def test_tensors_that_are_elsewhere(compiling):
    with pytest.raises(ValueError, match="'triton' does not serve tensors on cpu"):
        gendr.silhouette(soup(1, 2, 0), 8, backend="triton")


class OnGpu:
    """A stand-in for a tensor on a GPU, with what `choose` reads of it."""

    device = torch.device("cuda")
    is_cuda = True


def test_auto_falls_back_with_one_warning(compiling, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (7, 5))
    monkeypatch.setattr(_backends, "warned", set())
    with pytest.warns(RuntimeWarning, match=r"found Some GPU with 7\.5; falling back") as caught:
        assert backends.choose("auto", OnGpu()) is reference
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert backends.choose("auto", OnGpu()) is reference


def test_auto_takes_triton_on_a_gpu_and_cpu_kernels_elsewhere(compiling):
    assert backends.choose("auto", OnGpu()) is backend
    assert backends.choose("auto", torch.zeros(1)) is not backend
