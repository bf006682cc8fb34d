"""The device and dtype of what is given count, not torch's default ones; see tests/sorting."""

import pytest
import torch

import gendr
import gendr.primitives as dr
from gendr import logic, losses, relaxed, soft, topk, transport
from gendr.photos.splatting import from_points
from support.operators import entries, graded


@gendr.relax
def largest(v):
    most = 0.0
    for i in range(len(v)):
        if v[i] > most:
            most = v[i]
    return most


@pytest.fixture(scope="module")
def calls():
    """Name -> a call with tensors that are on the CPU already."""
    mesh = gendr.mesh.icosphere(1).scaled(0.5)
    camera = gendr.look_at(2.7, 20.0, torch.arange(6) * 60.0)
    hard = gendr.Renderer(24, "heaviside", "max")
    soft_one = gendr.Renderer(24, "logistic", scale=2e-2)
    ordered = gendr.Renderer(24, "logistic", scale=2e-2, composite="ordered")
    masks, painted = hard(mesh, camera).alpha, mesh.with_vertex_colors(mesh.vertices.clamp(0, 1))
    rgb = soft_one(painted, camera).rgb
    x, y = torch.randn(4, 6), torch.rand(4, 6)
    pos = torch.cat([0.7 * mesh.vertices, 1.5 + 0.2 * mesh.vertices[:, 2:]], -1)[None]
    tri, color = mesh.faces.int(), torch.rand(1, 24, 24, 2)
    splats = from_points(torch.rand(20, 3), torch.rand(20, 3))
    model = torch.nn.Sequential(logic.LogicLayer(16, 12), logic.GroupSum(3, 1.0))
    bits, words = torch.rand(8, 16), torch.eye(4)
    return {
        "alpha": lambda: soft_one(mesh, camera).alpha,
        "images": lambda: (hard(painted, camera).rgb, ordered(painted, camera).rgb),
        "far": lambda: camera.with_origin(torch.ones(3, device="cpu")).in_world(),
        "chamfer": lambda: losses.chamfer(mesh, mesh, n=50),
        "fit": lambda: gendr.fit(masks, camera, steps=2, subdivisions=1).mesh.vertices,
        "hull": lambda: gendr.photos.visual_hull(camera, masks, resolution=16),
        "colours": lambda: gendr.fit_colors(mesh, rgb, camera, masks, kind="vertex"),
        "cameras": lambda: gendr.refine_cameras(masks, camera),
        "pose": lambda: gendr.fit_pose(mesh, masks[:1], starts=4, steps=2),
        "splats": lambda: splats.render(camera, 24),
        "primitives": lambda: dr.antialias(
            color, dr.rasterize(None, pos, tri, (24, 24))[0], pos, tri
        ),
        "program": lambda: (largest(x[0], scale=0.1), largest.hard(x[0])),
        "sampled": lambda: largest(x[0], scale=0.1, execution="sampled"),
        "path": lambda: relaxed.shortest_path(y[:, :4].reshape(1, 4, 4)),
        "alignments": lambda: (relaxed.soft_dtw(x, y, band=1), relaxed.levenshtein(words, words)),
        "soft": lambda: (soft.round(x), soft.equal(x, 0.0), soft.histogram(x, 5)),
        "transport": lambda: transport.sinkhorn_divergence(x, y),
        "logic": lambda: model(bits),
    }


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_default_device_does_not_count(calls, drawn):
    wrong = {}
    for name, call in drawn(calls.items(), 4):
        call()
        torch.set_default_device("meta")  # on which nothing has values
        try:
            call()
        except (TypeError, RuntimeError, NotImplementedError) as error:
            wrong[name] = str(error)
        finally:
            torch.set_default_device(None)
        with torch.inference_mode():  # in which a fit learns all the same
            call()
    assert wrong == {}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_default_dtype_does_not_count(calls, drawn):
    cases = {name: lambda case=case: graded(*case) for name, case in entries().items()}
    wide = torch.rand(2, 3000)
    cases["definition"] = lambda: [topk.soft_topk_mask(wide, 900, "uniform", backend="reference")]
    cases |= {name: lambda name=name: [calls[name]()] for name in ("primitives", "path", "logic")}
    for name, case in drawn(cases.items(), 3):
        torch.manual_seed(0)
        want = case()
        for dtype in (torch.float64, torch.bfloat16):
            torch.set_default_dtype(dtype)
            torch.manual_seed(0)
            try:
                found = case()
            finally:
                torch.set_default_dtype(torch.float32)
            torch.testing.assert_close(found, want, rtol=1e-5, atol=1e-5, msg=f"{name}, {dtype}")
