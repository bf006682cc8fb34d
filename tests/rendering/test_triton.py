"""The Triton backend against the float64 reference; interpreted where there is no GPU."""

import pytest
import torch
from torch.utils._pytree import tree_map_only

import gendr
from gendr.mesh import icosphere
from support import TOLERANCES, degenerate, relative_l2, soup
from support.backends import assert_equals_reference, place, rendered
from support.cases import for_each
from support.instances import covering_set

pytest.importorskip("triton", reason="Triton has no wheels for this platform")

from support.triton import DEVICE, INTERPRETED, small_tiles

TOLERANCE = TOLERANCES[torch.float32]
# Distributions, transforms and families outside the benchmark.
OTHERS = [
    "heaviside/max",
    "optimal.reversed/probabilistic",
    "logistic.art(0.3)/average",
    "gamma(shape=1.0).centred/frank(p=0.25)",
    "gamma(shape=3.7).reversed.squared/schweizer_sklar(p=-3)",
    "gamma(shape=0.7).centred/hamacher(p=3)",
    "gaussian.shifted(-0.4).reversed/yager(p=3)",
    "student_t(shape=2.5).shifted(0.3)/einstein",
    "student_t(shape=0.05)/average",
    "power(shape=0.7).reversed/probabilistic",
]


def others():
    """The members of `OTHERS`, and one of each that is in neither."""
    named = [*map(gendr.instance, OTHERS)]
    known = [*gendr.instances(), *named]
    dists = gendr.distributions.standard_distributions()
    for name in sorted(dists.keys() - {x.dist.base.name for x in known}):
        named.append(gendr.instance(f"{dists[name].examples()[0]}/probabilistic"))
    for name in sorted({*gendr.tnorms.names()} - {x.tconorm.name for x in known}):
        named.append(gendr.instance(f"logistic/{gendr.tnorms.family(name).examples()[0]}"))
    return named


@pytest.fixture
def small_launches(monkeypatch):
    """Small tiles and blocks: every loop turns, every grid has more than one program."""
    small_tiles(monkeypatch)


def members(seed, every):
    """A covering set and the others; the interpreter is too slow for all, which GPUs get."""
    chosen = gendr.instances() if every and not INTERPRETED else covering_set(seed)
    return [*chosen, *others()]


def pytest_generate_tests(metafunc):
    """An item for each, as the check on a GPU tells how many of all there was time for."""
    if "member" in metafunc.fixturenames:
        chosen = members(*map(metafunc.config.getoption, ("--seed", "--every")))
        metafunc.parametrize("member", chosen, ids=[x.name for x in chosen])


# -- the same as the reference


@pytest.mark.rotating(4)
def test_alpha_and_all_gradients_equal_the_reference(member):
    scale = 0.02 if member.dist.is_squared else 0.1
    assert_equals_reference("triton", soup(1, 4, 21, size=0.8), (18, 13), member, scale)


LEARNT = [
    x for x in gendr.tnorms.names() if issubclass(gendr.tnorms.family(x), gendr.tnorms.Parametric)
]


@for_each(name=LEARNT, rotating=4)
def test_totals_take_their_own_share_from_the_gradient_of_p(name):
    """Of more pixels than a program takes, with totals of 0 and 1 among them."""
    member = gendr.instance(f"uniform/{gendr.tnorms.family(name).examples()[0]}")
    assert_equals_reference("triton", soup(2, 3, 5), (29, 37), member, 0.1)


@pytest.mark.rotating(4, group="rendering")
@pytest.mark.usefixtures("small_launches")
@for_each(
    "name, faces, size, scale",
    [
        ("logistic/probabilistic", 5, 0.5, 0.03),
        ("gaussian/max", 5, 0.5, 0.03),
        ("uniform/average", 5, 0.5, 0.03),
        ("uniform/probabilistic", 14, 0.08, torch.tensor([0.02, 0.05])),  # many lists
    ],
)
def test_many_programs_equal_the_reference(name, faces, size, scale):
    images = 2 if faces == 14 else 1
    scene, member = soup(images, faces, 8, size=size), gendr.instance(name)
    assert_equals_reference("triton", scene, (14, 19), member, scale)


@pytest.mark.rotating(4, group="rendering")
@for_each(
    composite=[None, "ordered"],
    family=["dombi(p=30)", "yager(p=30)", "aczel_alsina(p=200)", "joe(p=30)",
            "schweizer_sklar(p=-200)"],
    rotating=3,
)  # fmt: skip
def test_powers_that_no_float32_holds_are_summed_up(composite, family):
    found = []
    for name, dtype in (("triton", torch.float32), ("reference", torch.float64)):
        mesh, camera = (x.to(dtype).to(DEVICE)
                        for x in (icosphere(0), gendr.look_at(6.0, 20.0, 10.0)))  # fmt: skip
        mesh = mesh.with_vertices(mesh.vertices.requires_grad_())
        options = {"composite": composite} if composite else {}
        renderer = gendr.Renderer(16, "gaussian", family, 0.02, backend=name, **options)
        out = renderer(mesh, camera)
        (out.rgb.sum() if composite else out.alpha.square().sum()).backward()
        found.append((out.alpha.double(), mesh.vertices.grad.double()))
    (alpha, grad), (exact, exact_grad) = found
    # In order, a pixel is closed before the last of what is behind.
    torch.testing.assert_close(alpha, exact, rtol=0, atol=1e-4 if composite else 2e-6)
    assert (grad - exact_grad).norm() <= 1e-3 * exact_grad.norm()
    if composite is None and "200" in family:  # sums of the CPU are of float64
        renderer = gendr.Renderer(16, "gaussian", family, backend="cpu")
        with pytest.raises(ValueError, match=r"at most 75, got .* with p = -?200: take 'max'"):
            _ = renderer(mesh.to("cpu"), camera.to("cpu")).alpha


def test_double_input_gives_double_output_of_single_accuracy():
    scene, size, member = soup(1, 4, 9), (16, 16), gendr.instance("logistic/probabilistic")
    got, want = (
        rendered(name, scene, size, member, 0.1, dtype=torch.float64)
        for name in ("triton", "reference")
    )
    torch.testing.assert_close(got[0], want[0], rtol=0, atol=TOLERANCE.alpha)
    assert relative_l2(got[1]["vertices"], want[1]["vertices"]) <= TOLERANCE.gradient


@pytest.mark.rotating(4, group="rendering")
@for_each(
    "name, cutoff",
    [
        ("gamma(shape=0.5).reversed.centred.squared/yager(p=0.5)", 0.0),
        ("gaussian/frank(p=4)", 1e-6),
        ("levy.reversed/dombi(p=0.5)", 1e-6),
        ("gumbel_min.squared/aczel_alsina(p=0.5)", 0.0),
        ("logistic.art(0.5)/max", 0.0),
    ],
    rotating=5,
)
def test_degenerate_faces_give_finite_images_and_gradients(name, cutoff):
    scene, scales = degenerate().expand(4, -1, -1, -1), torch.tensor([1e-8, 1e-4, 1e-2, 1.0])
    member = gendr.instance(name)
    alpha, grads = rendered("triton", scene, (5, 5), member, scales, cutoff)
    assert torch.isfinite(alpha).all()
    assert 0 <= alpha.min() <= alpha.max() <= 1
    for key, gradient in grads.items():
        assert torch.isfinite(gradient).all(), key


# -- the renderer


def images(name, near, **options):
    """All images of a coarse ball from two sides, and the gradients of its vertices."""
    device, dtype = place(name)
    ball = icosphere(0).scaled(0.5).to(device, dtype)
    camera = gendr.look_at(2.732, 30.0, torch.tensor([10.0, 70.0])).to(device, dtype)
    vertices = ball.vertices.clone().requires_grad_()
    colours = torch.linspace(0, 1, 3 * len(vertices)).reshape(-1, 3).to(vertices)
    renderer = gendr.Renderer(
        (9, 12), "gaussian", scale=0.03, near=near, backend=name, gamma=0.1, **options
    ).to(device)
    out = renderer(ball.with_vertices(vertices).with_vertex_colors(colours), camera)
    found = {"alpha": out.alpha, "rgb": out.rgb, "depth": out.depth, "normals": out.normals}
    (out.alpha.square().sum() + out.rgb.square().sum()).backward()
    found = {key: x.detach().double().cpu() for key, x in found.items()}
    is_cut = bool((camera.project(ball.vertices[None])[1] < near).any())
    return found, out.face_id.cpu(), vertices.grad.double().cpu(), is_cut


@pytest.mark.rotating(4)
@pytest.mark.parametrize(("near", "is_cut"), [(1.0, False), (2.5, True)])
@pytest.mark.parametrize("shading", ["softmax", "hard"])
def test_all_images_of_the_renderer_equal_the_reference(near, is_cut, shading):
    got, want = (images(name, near, shading=shading) for name in ("triton", "reference"))
    assert want[3] == is_cut
    assert torch.equal(got[1], want[1])
    assert (want[1] >= 0).any()
    for key, image in want[0].items():
        torch.testing.assert_close(got[0][key], image, rtol=1e-5, atol=1e-5, msg=key)
    assert relative_l2(got[2], want[2]) <= TOLERANCE.gradient


@pytest.mark.usefixtures("small_launches")
def test_the_nearest_face_is_that_of_the_reference_and_the_lower_of_two_equals():
    mesh = icosphere(0).scaled(0.6)
    twice = gendr.Mesh(mesh.vertices, torch.cat([mesh.faces, mesh.faces]))
    camera = gendr.look_at(2.732, 20.0, 40.0)
    found = [
        gendr.Renderer((9, 13), backend=name)(twice.to(on), camera.to(on)).face_id.cpu()
        for name, on in (("triton", DEVICE), ("reference", "cpu"))
    ]
    assert torch.equal(*found)
    assert found[0].max() < len(mesh.faces)


@pytest.mark.rotating(4, group="rendering")
@for_each(name=["gamma(shape=1.7)/yager(p=2.0)", "logistic.squared/max"], rotating=2)
def test_the_operators_keep_the_rules_of_torch(name):
    """Schema, fake kernel and autograd registration, with arguments of real calls."""
    from torch.utils._python_dispatch import TorchDispatchMode

    operators = {torch.ops.gendr.alpha.default, torch.ops.gendr.alpha_gradients.default}
    seen = {}

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            if function in operators:
                seen[function] = tuple(args)
            return function(*args, **(kwargs or {}))

    with Recorder():
        rendered("triton", soup(1, 3, 2), (6, 7), gendr.instance(name), 0.1)
    assert seen.keys() == operators
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    for operator, args in seen.items():
        detached = tree_map_only(torch.Tensor, torch.Tensor.detach, args)
        torch.library.opcheck(operator, detached, test_utils=tests)
