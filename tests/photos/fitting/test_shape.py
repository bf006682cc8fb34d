"""The fit of a mesh: its parametrisation, frame, resuming, remeshing."""

import math
import warnings
from contextlib import nullcontext
from itertools import pairwise

import pytest
import torch

from gendr import Mesh, Renderer, distributions, look_at
from gendr.losses import iou
from gendr.mesh import cube, icosphere, mesh_quality
from gendr.photos.fitting import FitSettings, FitState, Frame, SmoothParametrization, fit
from support.cases import for_each

SMALL = {"steps": 10, "subdivisions": 2, "frames": 4}
FACELESS = Mesh(torch.zeros(3, 3), torch.zeros(0, 3, dtype=torch.int64))


def views(mesh=None, size=16, count=4, at=(0.0, 0.0, 0.0), unit=1.0, dtype=torch.float32):
    """Hard masks of a box seen from all sides, and the cameras."""
    if mesh is None:
        mesh = cube(2, dtype=dtype)
        stretch = torch.tensor([0.36, 0.2, 0.28], dtype=dtype) * unit
        mesh = mesh.with_vertices(mesh.vertices * stretch + torch.tensor(at, dtype=dtype))
    azimuth = torch.arange(count, dtype=dtype) * (360 / count) + 10
    camera = look_at(2.732 * unit, 30.0, azimuth, at=at)
    renderer = Renderer(size, "heaviside", "max", near=0.1 * unit, far=10 * unit)
    return renderer(mesh, camera).alpha, camera


# -- the parametrisation ---------------------------------------------------------------------------


def test_parametrization_solves_the_dense_system():
    mesh = cube(2, dtype=torch.float64)
    count, edges = mesh.vertex_counts[0], mesh.edges
    adjacency = torch.zeros(count, count, dtype=torch.float64)
    adjacency[edges[:, 0], edges[:, 1]] = adjacency[edges[:, 1], edges[:, 0]] = 1
    matrix = torch.eye(count) + 3 * (torch.diag(adjacency.sum(1)) - adjacency)
    shape = SmoothParametrization(mesh, 3.0)
    torch.testing.assert_close(shape(), mesh.vertices)
    assert shape.mesh().faces is mesh.faces
    u = torch.randn(count, 3, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(shape(u), torch.linalg.solve(matrix, u))
    assert torch.autograd.gradcheck(shape, (u,))
    assert torch.autograd.gradgradcheck(shape, (u,))


def test_parametrization_takes_loose_vertices_and_folded_edges():
    vertices = torch.randn(6, 3)
    mesh = Mesh(vertices, torch.tensor([[0, 1, 2], [1, 3, 3], [0, 1, 2]]))
    torch.testing.assert_close(SmoothParametrization(mesh, 5.0)(), vertices)


@for_each(
    "arguments, error, text",
    [
        ((icosphere(0), -1), ValueError, "smoothness must be >= 0, got -1"),
        ((Mesh.batch([icosphere(0)] * 2),), ValueError, "one mesh, got a batch of 2"),
        ((FACELESS,), ValueError, "has no faces"),
        (([],), TypeError, r"must be a gendr\.Mesh, got list"),
    ],
)
def test_parametrization_refuses_what_it_cannot_use(arguments, error, text):
    with pytest.raises(error, match=text):
        SmoothParametrization(*arguments)


# -- the frame -------------------------------------------------------------------------------------


@for_each(orthographic=[False, True])
def test_frame_shows_the_same_image(orthographic):
    mesh = icosphere(2, dtype=torch.float64)
    centre = torch.tensor([3.0, -5.0, 7.0], dtype=torch.float64)
    frame = Frame(centre, 12.5)
    world = mesh.with_vertices(frame.world(mesh.vertices * 0.4))
    camera = look_at(
        40.0, 20.0, torch.tensor([0.0, 130.0], dtype=torch.float64), at=centre,
        orthographic=orthographic,
    )  # fmt: skip
    inner = mesh.with_vertices(frame.inner(world.vertices))
    torch.testing.assert_close(inner.vertices, mesh.vertices * 0.4)
    there = camera.project(world.vertices)[0]
    here, depth = frame.camera(camera).project(inner.vertices)
    torch.testing.assert_close(here, there)
    assert float(depth.min()) > 2


# -- the fit ---------------------------------------------------------------------------------------


@for_each("at, unit", [((30.0, -20.0, 400.0), 100.0), ((0, 0, 0), 1e-3)])
def test_fit_is_free_of_units(at, unit):
    masks, camera = views(at=at, unit=unit, size=32, count=6)
    result = fit(masks, camera, steps=30, subdivisions=2)
    assert result.iou > 0.93
    low, high = result.mesh.bounding_box()
    middle = (low + high)[0] / 2 - torch.tensor(at)
    assert float(middle.norm()) < 0.1 * unit
    assert float((high - low).max()) == pytest.approx(0.72 * unit, rel=0.15)


def test_fit_reports_what_its_mesh_shows():
    masks, camera = views()
    result = fit(masks, camera, **SMALL)
    with torch.no_grad():
        shown = Renderer(16, "heaviside", "max", near=0.1)(result.mesh, camera).alpha
    assert result.metrics["iou_per_view"] == pytest.approx(iou(shown, masks).tolist())
    assert result.iou == pytest.approx(sum(result.metrics["iou_per_view"]) / 4)
    measured = [h["iou"] for h in result.history if "iou" in h]
    assert result.iou == pytest.approx(max(measured))
    assert [h["step"] for h in result.history] == list(range(1, 11))
    assert result.history[-1]["loss"] < result.history[0]["loss"]
    scales = [h["scale"] for h in result.history]
    assert scales[0] == pytest.approx(0.3 * 2 / 16)
    assert scales[-1] == pytest.approx(0.05 * 2 / 16)
    assert [step for step, _ in result.trace][-1] == result.metrics["best_step"]
    assert torch.equal(result.trace[-1][1].vertices, result.mesh.vertices)


def test_fit_is_deterministic_and_leaves_the_global_state_alone():
    masks, camera = views()
    before = torch.random.get_rng_state()
    first, second = (fit(masks, camera, views_per_step=2, seed=3, **SMALL) for _ in range(2))
    assert torch.equal(first.mesh.vertices, second.mesh.vertices)
    assert torch.equal(before, torch.random.get_rng_state())
    other = fit(masks, camera, views_per_step=2, seed=4, **SMALL)
    assert not torch.equal(first.mesh.vertices, other.mesh.vertices)


@pytest.mark.rotating(5, group="photos")
@pytest.mark.filterwarnings("ignore:the fit fell apart")  # heavy tails do; squared ones do not
@for_each(rotating=8, dist=sorted(set(distributions.names()) - {"heaviside"}))
def test_every_distribution_can_fit(dist):
    mesh = cube(2)
    masks, camera = views(mesh.with_vertices(mesh.vertices * torch.tensor([0.4, 0.06, 0.15])), 24)
    # An image of a one-sided distribution is smaller than its mesh, unless the distribution is
    # centred.
    distribution = distributions.get(dist)
    distribution = distribution.centred() if distribution.support[0] == 0 else distribution
    steps = (
        60 if dist == "levy" else 30
    )  # on its way it depends on rounding, at its end it does not
    found = [
        fit(masks, camera, dist=member, cutoff=1e-2, steps=steps, subdivisions=2)
        for member in (distribution, distribution.squared())
    ]
    assert max(result.iou for result in found) > 0.8
    for result in found:
        assert torch.isfinite(result.mesh.vertices).all()


def test_auto_scale_is_as_wide_for_every_distribution():
    quarter = torch.tensor([0.25, 0.75], dtype=torch.float64)
    widths = []
    for name in ("logistic", "cauchy", "gamma(shape=0.5).reversed", "levy.squared", "gaussian"):
        settings = FitSettings(dist=name)
        start, _ = settings.scales((64, 64))
        unit = settings.distribution.icdf(quarter).diff().item()
        widths.append(unit * (start**0.5 if settings.distribution.is_squared else start))
    assert widths == pytest.approx([widths[0]] * len(widths))


@for_each(
    "scale, ends",
    [
        (0.1, (0.1, 0.1)),
        ("2px", (0.0625, 0.0625)),
        ("2px:1px", (0.0625, 0.03125)),
        ((0.1, "1px"), (0.1, 0.03125)),
    ],
)
def test_scales_are_read(scale, ends):
    assert FitSettings(scale=scale).scales((64, 100)) == pytest.approx(ends)


def test_fit_starts_from_a_mesh():
    masks, camera = views()
    start = cube(3).scaled(0.3)
    result = fit(masks, camera, init=start, **SMALL)
    assert torch.equal(result.mesh.faces, start.faces)
    torch.testing.assert_close(result.trace[0][1].vertices, start.vertices, atol=1e-5, rtol=0)


def test_fit_takes_float64_soft_masks_and_flat_meshes():
    masks, camera = views(dtype=torch.float64)
    soft = torch.nn.functional.avg_pool2d(masks[None], 3, 1, 1)[0]
    result = fit(soft, camera, **SMALL)
    assert result.mesh.dtype == torch.float64
    triangle = Mesh(torch.tensor([[-0.3, 0, 0], [0.3, 0, 0], [0, 0.3, 0]]).double(),
                    torch.tensor([[0, 1, 2]]))  # fmt: skip
    assert torch.isfinite(fit(soft, camera, init=triangle, **SMALL).mesh.vertices).all()


# -- resuming --------------------------------------------------------------------------------------


def states_of(masks, camera, **options):
    """A fit, and its states after every step."""
    states = []
    return fit(masks, camera, callback=states.append, **options), states


def check_resumed(whole, states, step, folder, masks, camera, **options):
    """From a state and from its file, the fit is that without an interruption."""
    path = folder / f"{step}.pt"
    states[step - 1].save(path)
    for source in (states[step - 1], path):
        result = fit(masks, camera, resume=source, **options)
        assert torch.equal(result.mesh.vertices, whole.mesh.vertices)
        assert torch.equal(result.mesh.faces, whole.mesh.faces)
        assert torch.equal(result.state.second, whole.state.second)
        assert torch.equal(result.state.u, whole.state.u)
        assert result.history == whole.history
        assert [(i, len(m.faces)) for i, m in result.trace] == [
            (i, len(m.faces)) for i, m in whole.trace
        ]


def test_resumed_fit_equals_an_uninterrupted_one(tmp_path):
    masks, camera = views()
    options = {"views_per_step": 3, **SMALL}
    whole, states = states_of(masks, camera, **options)
    for step in (1, 4, 10):
        check_resumed(whole, states, step, tmp_path, masks, camera, **options)
    assert len(list(tmp_path.iterdir())) == 3


def test_a_fit_is_ended_by_its_callback():
    masks, camera = views()

    def stop(state):
        if state.step == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(masks, camera, callback=stop, **SMALL)


def test_a_fit_goes_on_with_another_number_of_steps():
    masks, camera = views()
    options = {**SMALL, "scale": "1px:0.1px", "views_per_step": 3}
    ends = FitSettings(scale=options["scale"]).scales((16, 16))
    states = states_of(masks, camera, **options)[1]
    longer = {**options, "steps": 14}
    result, more = states_of(masks, camera, resume=states[3], **longer)
    scales = torch.tensor([entry["scale"] for entry in result.history], dtype=torch.float64)
    assert len(scales) == 14
    assert scales[[0, -1]].tolist() == pytest.approx(ends)
    steps = scales.log().diff()
    assert steps[:3].tolist() == pytest.approx([steps[0].item()] * 3)
    assert steps[3:].tolist() == pytest.approx([steps[-1].item()] * 10)
    assert steps[0] < steps[-1] < 0
    # That can be interrupted too, and is then the same.
    same = fit(masks, camera, resume=more[3], **longer)
    assert same.history == result.history
    assert torch.equal(same.state.u, result.state.u)
    # After its end a fit stays at the last scale, and is no worse.
    more = fit(masks, camera, resume=result.state, **{**longer, "steps": 17})
    assert [e["scale"] for e in more.history[14:]] == pytest.approx([ends[1]] * 3)
    assert more.iou >= result.iou
    with pytest.raises(ValueError, match="has 14 steps, more than the 10 asked for"):
        fit(masks, camera, resume=result.state, **options)


def test_what_diverges_says_so():
    for given in ({"lr": 1e30}, {"flatness": 1e30}):
        with pytest.raises(ValueError, match=r"diverged in step \d, .*smaller lr or flatness"):
            fit(*views(), **{**SMALL, "steps": 3, **given})
    with pytest.warns(
        UserWarning, match=r"fell apart.* that of step 0, .* smaller lr .*than 1e\+09"
    ):
        fit(*views(), **{**SMALL, "steps": 3, "lr": 1e9})


def test_resume_refuses_another_fit(tmp_path):
    masks, camera = views()
    state = fit(masks, camera, **{**SMALL, "steps": 2}).state
    with pytest.raises(ValueError, match=r"with lr = 0\.1, now it is 0\.2; resume with"):
        fit(masks, camera, resume=state, lr=0.2, **SMALL)
    with pytest.raises(ValueError, match="of other masks, cameras or start"):
        fit(masks.flip(-1), camera, resume=state, **SMALL)
    with pytest.raises(ValueError, match="no checkpoint to resume from"):
        FitState.load(tmp_path / "none.pt")
    (tmp_path / "text.pt").write_text("hello")
    with pytest.raises(ValueError, match="is no checkpoint of a fit"):
        FitState.load(tmp_path / "text.pt")


# -- bad input -------------------------------------------------------------------------------------


@for_each(
    "changes, error, text",
    [
        ({"steps": 0}, ValueError, "steps must be >= 1, got 0"),
        ({"steps": 1.5}, TypeError, "steps must be an int"),
        ({"lr": float("nan")}, ValueError, "lr must be > 0, got nan"),
        ({"flatness": -1}, ValueError, "flatness must be >= 0"),
        ({"cutoff": 1.0}, ValueError, r"cutoff must be in \[0, 1\)"),
        ({"seed": -1}, ValueError, "seed must be >= 0"),
        ({"edge": 0.0}, ValueError, "edge must be > 0"),
        ({"remesh": 1}, TypeError, "remesh must be True, False or None, got 1"),
        ({"step": 5}, ValueError, "unknown setting of a fit 'step'; the nearest: steps"),
        ({"scale": "1px:0.1"}, ValueError, "in one unit"),
        ({"scale": ":1px"}, ValueError, "in one unit"),
        ({"init": FACELESS}, ValueError, "has no faces"),
        ({"init": "hulk"}, ValueError, "unknown init 'hulk'"),
        ({"settings": {"steps": 2}}, TypeError, "got dict; give each setting of a fit by name"),
    ],
)
def test_bad_settings_end_in_one_line(changes, error, text):
    masks, camera = views()
    with pytest.raises(error, match=text) as caught:
        fit(masks, camera, **changes)
    assert "\n" not in str(caught.value)


def test_bad_targets_end_in_one_line():
    masks, camera = views()
    nan = masks.clone()
    nan[1, 2, 3] = float("nan")
    for args, error, text in [
        ((masks[0], camera), ValueError, r"must have shape \[B, H, W\], got \[16, 16\]"),
        ((masks > 0.5, camera), TypeError, "must be float32 or float64, got bool"),
        ((masks, camera[:3]), ValueError, "4 masks need as many cameras, got 3"),
        ((masks[:0], camera[:0]), ValueError, r"must have one view or more, got \[0, 16, 16\]"),
        ((masks, None), TypeError, r"must be a gendr\.Camera, got NoneType"),
        ((masks.double(), camera), TypeError, "must have the dtype of target_masks"),
        ((nan, camera), ValueError, r"NaN or inf values, the first \(nan\) at index \[1, 2, 3\]"),
        ((torch.zeros_like(masks), camera), ValueError, "all 4 masks are empty"),
        ((masks * 255, camera), ValueError, "divide 8-bit values by 255"),
    ]:
        with pytest.raises(error, match=text) as caught:
            fit(*args, **SMALL)
        assert "\n" not in str(caught.value)


@for_each(distance=[0.9, 0.3])
def test_a_camera_inside_the_object(distance):
    mesh = icosphere(2).scaled(0.5)
    camera = look_at(torch.tensor([2.7, 2.7, 2.7, distance]), 30.0, torch.arange(4) * 90.0)
    masks = Renderer(16, "heaviside", "max", near=0.01)(mesh, camera).alpha
    masks[3] = 1.0
    inside = pytest.raises(ValueError, match="camera 3 is inside the object: by all masks")
    with (
        warnings.catch_warnings(record=True) as caught,
        inside if distance < 0.5 else nullcontext(),
    ):
        warnings.simplefilter("always")
        assert fit(masks, camera, **SMALL).iou > 0.8
    assert "1 of 4 masks fill their whole image (the first is 3)" in str(caught[0].message)
    with pytest.raises(ValueError, match=r"4 of 4 masks fill their whole image .* inverted"):
        fit(torch.ones_like(masks), camera, **SMALL)
    with pytest.raises(ValueError, match="borders of all images, as if they were inverted"):
        fit(1 - masks[:3], camera[:3], **SMALL)


def ring_views(size=48, count=24):
    """Masks of a ring from all sides."""
    import trimesh

    ring = Mesh.from_trimesh(trimesh.creation.torus(0.7, 0.25, 32, 16))
    elevation = torch.tensor([80.0, 10.0, -10.0, -80.0, 40.0, -40.0]).repeat(count // 6)
    camera = look_at(4.0, elevation, torch.arange(count) * 15.0, fov=40.0)
    hard = Renderer(size, "heaviside", "max")
    return torch.cat([hard(ring, camera[i]).alpha for i in range(count)]), camera


@pytest.mark.rotating(5, group="photos")
def test_fit_from_the_visual_hull():
    """A ring has its hole from the start, the step is short, and faces are even."""
    masks, camera = ring_views()
    result = fit(masks, camera, init="hull", steps=16)
    quality = mesh_quality(result.mesh)
    assert quality["is_watertight"]
    assert quality["genus"] == 1
    assert quality["smallest_angle"] > 15
    assert quality["self_intersections"] == 0
    assert result.iou > 0.96
    assert result.settings.lr == 0.01
    assert FitSettings().resolved(True).steps == 60
    assert FitSettings(remesh=False).resolved(True).steps == FitSettings().resolved(False).steps
    measured = {h["step"]: h["iou"] for h in result.history if "iou" in h}
    best, last = result.metrics["best_iou"], result.metrics["final_iou"]
    assert best == max(best, *measured.values())
    assert best == result.state.best_iou
    assert last == measured[16]
    assert result.iou > best - 1e-3  # that of the same faces, but where some were cut
    # Edges are hard from the start: soft ones would eat thin parts.
    assert result.settings.scale == "fine"
    ends = [result.history[i]["scale"] * 48 / 2 for i in (0, -1)]
    assert ends == pytest.approx([0.1, 0.02])
    again = fit(masks, camera, init="hull", steps=16, resume=result.state)
    assert torch.equal(again.mesh.vertices, result.mesh.vertices)


@pytest.mark.rotating(5, group="photos")
def test_a_fit_that_remeshes_goes_on_as_if_uninterrupted(tmp_path):
    """It may stop right before or after the mesh is remeshed, as it is after 2, 5 and 7 steps."""
    masks, camera = ring_views(20, 6)
    options = {"init": "hull", "steps": 12, "views_per_step": 4, "frames": 12, "edge": 2.0}
    whole, states = states_of(masks, camera, **options)
    assert len({len(mesh.faces) for _, mesh in whole.trace}) == 4  # the hull, and three times
    for step in (5, 6):
        check_resumed(whole, states, step, tmp_path, masks, camera, **options)


def test_edges_shrink_to_the_length_asked_for():
    masks, camera = ring_views(32, 12)
    found = []
    for _, mesh in fit(masks, camera, init="hull", steps=8, edge=3.0, frames=8).trace:
        a, b = mesh.edges.T
        found.append(float((mesh.vertices[a] - mesh.vertices[b]).norm(dim=-1).mean()))
    pixel = 4.0 * math.tan(math.radians(20)) / 16
    assert found[-1] == pytest.approx(3.0 * pixel, rel=0.1)
    assert found[0] > 1.3 * found[-1]
    # They shrink, but for what a step changes.
    assert all(b < 1.05 * a for a, b in pairwise(found))


@pytest.mark.rotating(5, group="photos")
def test_edges_are_shorter_where_parts_are_thin():
    _, camera = ring_views(32, 12)
    hard = Renderer(48, "heaviside", "max", near=1e-2)
    plate = cube(2).with_vertices(cube(2).vertices * torch.tensor([0.8, 0.07, 0.5]))
    found = {}
    for name, target in (("ball", icosphere(3).scaled(0.5)), ("plate", plate)):
        masks = hard(target, camera).alpha
        auto, fixed = (
            fit(masks, camera, init="hull", steps=1, edge=edge, frames=0) for edge in (None, 2.0)
        )
        found[name] = auto.mesh.face_counts[0] / fixed.mesh.face_counts[0]
        if name == "plate":
            assert auto.iou > fixed.iou + 0.01
    assert found["ball"] == 1
    assert found["plate"] > 1.5


@pytest.mark.rotating(5, group="photos")
def test_a_mesh_is_remeshed_if_asked_for():
    """Needles of a long box, with an origin of its own, and colours, which are lost."""
    masks, camera = views(size=32, count=6)
    box = cube(1)
    start = box.with_vertices(box.vertices * torch.tensor([0.5, 0.1, 0.1]))
    start = start.with_vertex_colors(torch.rand(len(start.vertices), 3))
    result = fit(masks, camera, init=start, steps=24, remesh=True)
    assert mesh_quality(result.mesh)["smallest_angle"] > 15
    assert result.mesh.vertex_colors is None
    assert result.iou > 0.9
    plain = fit(masks, camera, init=start, steps=2)
    assert torch.equal(plain.mesh.faces, start.faces)
    hull = fit(masks, camera, init="hull", steps=2, remesh=False)
    assert hull.trace[0][1].face_counts == hull.mesh.face_counts
