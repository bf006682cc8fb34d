"""`Renderer.compiled`: calls are counted, captured and replayed; gradients reach all that moves."""

import gc
import weakref

import pytest
import torch

import gendr
from gendr.mesh import icosphere
from support.cases import for_each
from support.fake_graphs import graphs_on_the_cpu, marked, streams_of_leaves

KEYS = "vertices rotation translation focal principal".split()


@pytest.fixture
def graphs(monkeypatch):
    return graphs_on_the_cpu(monkeypatch)


def scene(views=2):
    mesh = icosphere(1).scaled(0.5)
    camera = gendr.look_at(2.7, 20.0, torch.arange(views) * 50.0)
    return mesh, camera


def moved(mesh, camera, seed, wanted=("vertices", "rotation")):
    """Other tensors of the same kinds, some of which require gradients."""
    generator = torch.Generator().manual_seed(seed)
    given = [mesh.vertices, *(getattr(camera, name) for name in KEYS[1:])]
    given = [x + 1e-2 * torch.randn(x.shape, generator=generator) for x in given]
    given = [x.requires_grad_(name in wanted) for name, x in zip(KEYS, given, strict=True)]
    return mesh.with_vertices(given[0]), camera.with_tensors(*given[1:]), given


def outcome(renderer, mesh, camera, given, scale=None, seed=0):
    """Alpha and the gradients of the given tensors and of the renderer's parameters."""
    alpha = renderer(mesh, camera, scale).alpha
    grad = torch.rand(alpha.shape, generator=torch.Generator().manual_seed(seed))
    own = getattr(renderer, "renderer", renderer)
    asked = [x for x in (*given, *own.parameters()) if x.requires_grad]
    return [alpha.detach(), *torch.autograd.grad(alpha, asked, grad, allow_unused=True)]


def same(got, want):
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert (a is None) == (b is None)
        assert a is None or torch.equal(a, b)


@pytest.mark.rotating(4, group="rendering")
def test_on_a_cpu_it_is_the_renderer():
    mesh, camera = scene()
    renderer = gendr.Renderer(16, scale=2e-2)
    fast = renderer.compiled()
    assert "GPU" in fast.why_not(mesh, camera)
    for seed in range(4):
        there = moved(mesh, camera, seed)
        same(outcome(fast, *there), outcome(renderer, *there))
    assert len(fast) == 0
    assert isinstance(fast(mesh, camera), type(renderer(mesh, camera)))
    with pytest.raises(TypeError, match="takes a gendr"):
        fast(mesh.vertices, camera)


@for_each(learnable=[(), ("scale", "gamma"), ("p",)])
def test_the_third_call_is_captured_and_every_call_has_the_bits_of_the_renderer(graphs, learnable):
    graphs.captures = 0
    mesh, camera = scene()
    renderer = gendr.Renderer(16, "logistic", "yager(p=2)", scale=2e-2, learnable=learnable)
    fast = renderer.compiled()
    for seed in range(6):
        assert len(fast) == (seed > 2)
        there = moved(mesh, camera, seed, KEYS)
        same(outcome(fast, *there, seed=seed), outcome(renderer, *there, seed=seed))
        with torch.no_grad():
            for parameter in renderer.parameters():
                parameter.add_(0.01)  # in place, as an optimiser does: no new graph
    assert graphs.captures == 2
    with torch.no_grad():  # another kind: without gradients
        for seed in range(4):
            there = moved(mesh, camera, seed)
            assert torch.equal(fast(*there[:2]).alpha, renderer(*there[:2]).alpha)
    assert len(fast) == 2
    assert graphs.captures == 3


def test_captures_are_made_of_leaves_that_no_other_stream_has_seen(graphs, monkeypatch):
    """Else PyTorch warns that AccumulateGrad's stream is another one than the capture's."""
    seen = streams_of_leaves(monkeypatch)
    renderer = gendr.Renderer(8, scale=2e-2, learnable=("scale",))
    mesh, camera, given = moved(*scene(), 0)
    fast, kept = renderer.compiled(), []
    for _ in range(3):
        kept.append(fast(mesh, camera).alpha)  # a graph of the user's own that lives on
        marked([*given, renderer.log_scale], "user")
    assert seen == [[None] * 3, ["capture"] * 3]  # vertices, rotation, the scale


def test_calls_whose_backward_passes_come_later_and_more_than_once(graphs):
    mesh, camera = scene()
    renderer = gendr.Renderer(16, "logistic", scale=2e-2)
    fast = renderer.compiled()
    for seed in range(3):
        outcome(fast, *moved(mesh, camera, seed))
    scenes = [moved(mesh, camera, seed) for seed in range(3)]
    alphas = [fast(*there[:2]).alpha for there in scenes]
    for alpha, there in zip(alphas, scenes, strict=True):
        vertices = there[2][0]
        want = renderer(*there[:2]).alpha
        assert torch.equal(alpha, want)  # the other calls have not written over it
        (slope,) = torch.autograd.grad(want.square().sum(), vertices)
        for _ in range(2):
            (got,) = torch.autograd.grad(alpha.square().sum(), vertices, retain_graph=True)
            assert torch.equal(got, slope)
    # Gradients lie in tensors of their own: the next replay does not change them.
    found = []
    for there in scenes[:2]:
        alpha = fast(*there[:2]).alpha
        found += torch.autograd.grad(alpha.square().sum(), there[2][0])
    assert not torch.equal(*found)
    vertices = scenes[0][2][0]
    for _ in range(2):
        fast(*scenes[0][:2]).alpha.square().sum().backward()
    first = vertices.grad.clone()
    want = torch.autograd.grad(renderer(*scenes[0][:2]).alpha.square().sum(), vertices)[0]
    torch.testing.assert_close(first, 2 * want)


def test_what_changes_in_place_is_seen_and_what_is_needed_may_not_change(graphs):
    mesh, camera = scene()
    renderer = gendr.Renderer(16, "logistic", scale=2e-2)
    fast = renderer.compiled()
    plain = mesh, camera
    mesh, camera, given = moved(mesh, camera, 0)
    for step in range(5):
        same(outcome(fast, mesh, camera, given), outcome(renderer, mesh, camera, given))
        with torch.no_grad():
            given[step % 2].mul_(0.99)
    alpha = fast(mesh, camera).alpha
    with torch.no_grad():
        given[0].mul_(0.9)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        alpha.sum().backward()
    # Graphs of inference mode serve calls outside of it.
    fast, want = renderer.compiled(), renderer(*plain).alpha
    with torch.inference_mode():
        for _ in range(4):
            assert torch.equal(fast(*plain).alpha, want)
    there = moved(*plain, 0, ())
    with torch.no_grad():
        assert torch.equal(fast(*there[:2]).alpha, renderer(*there[:2]).alpha)
    assert len(fast) == 1


def test_kinds_of_calls_are_told_apart(graphs):
    mesh, camera = scene()
    other = icosphere(1).scaled(0.5)
    flipped = gendr.Mesh(other.vertices, other.faces.flip(0))
    renderer = gendr.Renderer(12, "logistic", scale=2e-2)
    fast = renderer.compiled()
    wide = gendr.Camera(camera.rotation, camera.translation, focal=0.5, orthographic=True)
    calls = [(mesh, camera), (flipped, camera), (mesh, wide), (mesh, camera[:1])]
    for call in calls * 4:
        assert torch.equal(fast(*call).alpha, renderer(*call).alpha)
    assert len(fast) == len(calls)
    for name, value in (("scale", 5e-2), ("near", 2.3), ("far", 2.6), ("cutoff", 1e-2)):
        setattr(renderer, name, value)
        for _ in range(4):
            assert torch.equal(fast(mesh, camera).alpha, renderer(mesh, camera).alpha)
    assert len(fast) == 8
    renderer.scale = 7e-2
    for _ in range(4):
        assert torch.equal(fast(mesh, camera).alpha, renderer(mesh, camera).alpha)
    assert len(fast) == 8  # the one that was used least is gone
    fast.forget()
    assert len(fast) == 0
    for size in ((12, 12), (9, 14), (12, 12)):
        renderer.size = gendr.Renderer(size).size
        for _ in range(4):
            alpha = fast(mesh, camera).alpha
            assert alpha.shape[1:] == size
            assert torch.equal(alpha, renderer(mesh, camera).alpha)
    assert len(fast) == 2


@pytest.mark.every
def test_graphs_are_of_the_backend_s_settings(graphs, monkeypatch):
    pytest.importorskip("triton", reason="Triton has no wheels for this platform")
    from support.triton import small_projections, small_tiles

    mesh, camera = icosphere(0).scaled(0.5), gendr.look_at(2.7, 20.0, 0.0)
    fast = gendr.Renderer(6, "logistic", scale=2e-2, backend="triton").compiled()

    def calls():
        with torch.no_grad():
            found = [fast(mesh, camera).alpha for _ in range(3)]
        assert torch.equal(found[0], found[2])
        return len(fast)

    assert calls() == 1
    small_tiles(monkeypatch)
    assert calls() == 2
    small_projections(monkeypatch)
    assert calls() == 3


def test_a_scale_that_changes_at_every_call_is_never_captured_but_a_tensor_is(graphs):
    mesh, camera = scene()
    renderer = gendr.Renderer(12, "logistic")
    fast = renderer.compiled()
    for step in range(80):
        fast(mesh, camera, 1e-2 + 1e-4 * step)
    assert len(fast) == 0
    for step in range(5):
        scale = torch.tensor([1e-2, 2e-2]) * (1 + step)
        scale.requires_grad_()
        there = moved(mesh, camera, step)
        there[2].append(scale)
        same(outcome(fast, *there, scale), outcome(renderer, *there, scale))
    assert len(fast) == 1
    with pytest.raises(ValueError, match="scale must be > 0"):
        fast(mesh, camera, torch.tensor(-1.0))


def test_graphs_keep_nothing_of_the_user_s_and_other_images_are_the_renderer_s(graphs):
    mesh, camera = scene()
    renderer = gendr.Renderer(12, "logistic", scale=2e-2)
    fast = renderer.compiled()
    vertices = mesh.vertices.clone().requires_grad_()
    for _ in range(4):
        fast(mesh.with_vertices(2 * vertices), camera).alpha.sum().backward()
    gone = weakref.ref(vertices)
    del vertices
    gc.collect()
    assert gone() is None
    out, want = [(fast(mesh, camera), renderer(mesh, camera)) for _ in range(3)][-1]
    assert len(fast) == 2
    for name in ("alpha", "rgb", "depth", "normals", "face_id", "mask"):
        assert torch.equal(getattr(out, name), getattr(want, name)), name


@for_each(
    "options, dtype, said",
    [
        ({"backend": "reference"}, torch.float32, "waits for the backend 'reference'"),
        ({}, torch.float64, "torch.float64"),
        ({"dist": torch.sigmoid}, torch.float32, "CDF of your own"),
        ({"composite": "ordered"}, torch.float32, "the order of faces"),
        ({"dist": "gamma(shape=2)", "learnable": ("shape",)}, torch.float32, "shape"),
        ({"tconorm": gendr.tnorms.tconorm("yager", p=torch.tensor(2.0))}, torch.float32, "p is a"),
        ({"scale": torch.tensor(1e-2, device="meta")}, torch.float32, "are not on"),
        ({}, torch.float32, None),
    ],
)
def test_what_cannot_be_captured_is_said(monkeypatch, options, dtype, said):
    """On the CPU, whose tensors claim to be on a GPU."""
    pytest.importorskip("triton", reason="Triton has no wheels for this platform")
    mesh, camera = (x.to(dtype) for x in scene())
    if "scale" in options:
        monkeypatch.setattr("gendr.rendering.renderer.parse_scale", lambda scale, *_: scale)
    fast = gendr.Renderer(12, **{"backend": "triton", **options}).compiled()
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    found = fast.why_not(mesh, camera)
    assert found is None if said is None else said in found
