"""The renderer's arguments, bad ones and learnable ones; and a pose from one silhouette."""

import copy
import math
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

import gendr
from gendr import Mesh, Renderer, look_at
from gendr.losses import iou, iou_loss
from gendr.mesh import icosphere
from support import soup
from support.cases import for_each

BALL = icosphere(1).scaled(0.5)


def test_an_image_is_what_the_contract_says():
    out = Renderer((24, 36), scale="1px")(BALL, look_at(3, 20, torch.tensor([0.0, 90.0])))
    assert out.alpha.shape == (2, 24, 36)
    assert out.rgb.shape == (2, 3, 24, 36)
    assert out.depth.shape == (2, 24, 36)
    assert out.normals.shape == (2, 3, 24, 36)
    assert out.face_id.shape == (2, 24, 36)
    assert out.face_id.dtype == torch.int64
    assert torch.equal(out.face_id >= 0, torch.isfinite(out.depth))
    assert out.depth.min() == pytest.approx(2.5, abs=0.1)


@for_each(size=[8, np.int64(8), 8.0, (8, 8), np.array([8, 8])])
def test_renderers_and_cameras_take_the_same_image_sizes(size):
    renderer = Renderer(size, "heaviside", "max")
    assert (renderer.size.height, renderer.size.width) == (8, 8)
    camera = gendr.Camera.from_intrinsics(fx=9.0, image_size=size)
    torch.testing.assert_close(camera.intrinsics(size)[0, 0, 0], torch.tensor(9.0))
    assert gendr.silhouette(GOOD, size).shape == (1, 8, 8)


def test_row_0_is_the_top_and_x_runs_to_the_right():
    camera = look_at(3.0, 0.0, 0.0)  # eye at (0, 0, -3), looking along +z: world -x is right
    for offset, where in (
        ((0, 0.4, 0), (slice(0, 16), slice(None))),
        ((-0.4, 0, 0), (slice(None), slice(16, 32))),
    ):
        mesh = BALL.scaled(0.4).translated(torch.tensor(offset, dtype=torch.float32))
        alpha = Renderer(32, "heaviside", "max")(mesh, camera).alpha[0]
        assert alpha.any()
        assert alpha[where].sum() == alpha.sum()


def test_the_projected_size_of_a_ball():
    """A ball of radius r at distance d fills a disc of tan(asin(r/d)) / tan(fov/2)."""
    alpha = Renderer(128, "heaviside", "max")(icosphere(4).scaled(0.5), look_at(3, 10, 20)).alpha
    radius = math.tan(math.asin(0.5 / 3)) / math.tan(math.radians(15))
    assert alpha.mean().item() * 4 == pytest.approx(math.pi * radius**2, rel=0.01)


def test_mesh_and_camera_batches_broadcast():
    cameras = look_at(3, 20, torch.tensor([0.0, 90.0, 200.0]))
    many = Mesh.batch([BALL, BALL.scaled(0.5), BALL.scaled(0.25)])
    renderer = Renderer(16)
    assert renderer(BALL, cameras).alpha.shape[0] == 3
    one = renderer(many, cameras[0]).alpha
    assert one.shape[0] == 3
    assert one[0].sum() > one[1].sum() > one[2].sum()
    both = renderer(many, cameras).alpha
    ids, same = renderer(many, cameras).face_id, renderer(BALL, cameras).face_id
    for i in range(3):
        assert torch.equal(same[i], renderer(BALL, cameras[i]).face_id[0])
        alone = renderer(many[i], cameras[i])
        torch.testing.assert_close(both[i], alone.alpha[0])
        assert torch.equal(ids[i], alone.face_id[0])
    for count in (2, 0):
        with pytest.raises(ValueError, match=f"3 meshes and {count} cameras do not fit"):
            renderer(many, cameras[:count])


@for_each(backend=["cpu", "reference"])
def test_images_are_of_the_call_whatever_changes_later(backend):
    renderer = Renderer(9, backend=backend)
    vertices = icosphere(1).vertices.clone().requires_grad_()
    camera = look_at(2.7, 20.0, 30.0)
    camera = camera.with_tensors(translation=camera.translation.clone().requires_grad_())
    scene = icosphere(1).with_vertices(vertices), camera
    first, second = renderer(*scene), renderer(*scene)
    want = first.depth, first.rgb
    with torch.no_grad():
        vertices *= 0.5
        camera.translation[:, 2] += 1
    for got, image in zip((second.depth, second.rgb), want, strict=True):
        torch.testing.assert_close(got, image)


def test_pixels_as_units_of_scale():
    camera = look_at(3, 20, 0)
    for dist, scale in (("gaussian", 1.5 * 2 / 20), ("gaussian.squared", (1.5 * 2 / 20) ** 2)):
        images = [
            Renderer((20, 30), dist, scale=s)(BALL, camera).alpha
            for s in ("1.5px", scale, f"{scale}")
        ]
        assert torch.equal(images[0], images[1])
        assert torch.equal(images[0], images[2])


def test_one_scale_per_image():
    camera = look_at(3, 20, torch.tensor([0.0, 0.0]))
    scales = torch.tensor([0.01, 0.1])
    alpha = Renderer(16, "gaussian", scale=scales)(BALL, camera).alpha
    for i in range(2):
        single = Renderer(16, "gaussian", scale=float(scales[i]))(BALL, camera[i]).alpha[0]
        torch.testing.assert_close(alpha[i], single)
    override = Renderer(16, "gaussian")(BALL, camera, scale=scales).alpha
    assert torch.equal(override, alpha)


def test_what_calls_keep_is_no_part_of_copies():
    """Backends keep addresses of compiled functions, which are those of this process."""
    renderer, sorter = Renderer(16), gendr.sorting.SoftSorter("odd_even")
    before = [pickle.dumps(x) for x in (renderer, sorter)]
    first = renderer(BALL, look_at(3, 20, 0)).alpha
    assert sorter(torch.rand(9)).values.shape == (9,)
    renderer._has_looked = False
    assert [pickle.dumps(x) for x in (renderer, sorter)] == before
    assert torch.equal(copy.deepcopy(renderer)(BALL, look_at(3, 20, 0)).alpha, first)


def test_learnable_parameters():
    renderer = Renderer(
        16, "gamma(shape=2).reversed.centred", "yager(p=2)", 0.1,
        learnable=("scale", "shape", "p", "gamma"),
    )  # fmt: skip
    names = {name for name, _ in renderer.named_parameters()}
    assert names == {"log_scale", "log_shape", "log_p", "log_gamma"}
    assert renderer.scale.item() == pytest.approx(0.1)
    camera = look_at(3, 20, 0)
    target = Renderer(16, "gamma(shape=1.5).reversed.centred", "yager(p=2.5)", 0.05)(BALL, camera)
    optimizer = torch.optim.Adam(renderer.parameters(), lr=0.05)
    losses = []
    for _ in range(12):
        out = renderer(BALL, camera)
        loss = (out.alpha - target.alpha.detach()).square().mean() + 0 * out.rgb.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2
    assert renderer.scale.item() < 0.1
    negative = Renderer(8, tconorm="schweizer_sklar(p=-2)", learnable=["p"])
    assert negative.tconorm.value == pytest.approx(-2)
    tensor = gendr.tnorms.tconorm("schweizer_sklar", p=torch.tensor(-2.0))
    assert Renderer(8, tconorm=tensor, learnable=["p"]).tconorm.value == pytest.approx(-2)
    text = repr(renderer)
    assert "gamma(shape=" in text
    assert not any(word in text for word in ("\n", "Parameter", "tensor"))
    with pytest.raises(AttributeError, match="learns its scale"):
        renderer.scale = 0.3


GOOD = soup(1, 3, 0, torch.float32)


SILHOUETTE = [
    ({"face_vertices": [1, 2]}, TypeError, "face_vertices must be a torch.Tensor, got list"),
    ({"face_vertices": torch.zeros(2, 3)}, ValueError, r"\[B, F, 3, 3\].*got \[2, 3\]"),
    ({"face_vertices": GOOD.int()}, TypeError, "float32 or float64, got int32"),
    ({"face_vertices": GOOD.half()}, TypeError, "got float16"),
    ({"face_vertices": GOOD * math.nan}, ValueError, "face_vertices must be finite"),
    ({"face_vertices": GOOD / 0}, ValueError, "face_vertices must be finite"),
    ({"image_size": 0}, ValueError, "image_size must be >= 1, got 0"),
    ({"image_size": (3, 4, 5)}, TypeError, "an int or"),
    ({"dist": "logistc"}, ValueError, "logistic"),
    ({"dist": 3}, TypeError, "distribution"),
    ({"dist": "gamma(shape=-1)"}, ValueError, "shape"),
    ({"tconorm": "yagr(p=2)"}, ValueError, "yager"),
    ({"tconorm": "yager"}, ValueError, "p"),
    ({"tconorm": "yager(p=-2)"}, ValueError, "p > 0"),
    ({"scale": 0.0}, ValueError, "scale must be > 0"),
    ({"scale": -1}, ValueError, "heaviside"),
    ({"scale": math.nan}, ValueError, "scale"),
    ({"scale": "2 pixels"}, ValueError, "1.5px"),
    ({"scale": None}, TypeError, "scale must be a number"),
    ({"scale": torch.tensor([0.1, 0.2])}, ValueError, "one per image"),
    ({"scale": torch.tensor([0.0])}, ValueError, "> 0"),
    ({"cutoff": -1}, ValueError, r"\[0, 1\)"),
    ({"cutoff": 1}, ValueError, r"\[0, 1\)"),
    ({"cutoff": "x"}, TypeError, "cutoff"),
    ({"backend": "cuda"}, ValueError, "unknown backend 'cuda'.*cpu"),
    ({"precision": "half"}, ValueError, "unknown precision 'half'"),
]
RENDERER = [
    ({"near": 0.0}, ValueError, "near must be > 0"),
    ({"near": 2.0, "far": 1.0}, ValueError, "far must be > 2"),
    ({"gamma": 0.0}, ValueError, "gamma must be > 0"),
    ({"gamma": 1e-30}, ValueError, "gamma must be >= 1e-12, got 1e-30"),
    ({"gamma": torch.tensor(1e-30)}, ValueError, "gamma must be >= 1e-12, got 1e-30"),
    ({"gamma": torch.tensor(math.nan)}, ValueError, "gamma must be > 0 and finite, got"),
    ({"gamma": torch.ones(2)}, ValueError, r"gamma must have shape \[\]"),
    ({"gamma": True}, TypeError, "gamma must be a number, got bool"),
    ({"eps": 2.0}, ValueError, r"eps must lie in \[0, 1\], got 2"),
    ({"shading": "flat"}, ValueError, "unknown shading 'flat'"),
    ({"composite": "over"}, ValueError, "composite"),
    ({"lighting": "sun"}, ValueError, "unknown lighting 'sun'"),
    ({"background": (1.0, 2.0)}, ValueError, "three numbers"),
    ({"background": "white"}, ValueError, "three numbers"),
    ({"background": (255, 0, 0)}, ValueError, "RGB in .0, 1., got .* divide .* by 255"),
    ({"background": (0.5, -0.1, 0)}, ValueError, r"RGB in .0, 1., got \(0.5, -0.1, 0\)$"),
    ({"backend": "tpu"}, ValueError, "unknown backend"),
    ({"precision": "single"}, ValueError, "unknown precision 'single'; allowed: auto, double"),
    ({"dist": "logistic", "learnable": ["shape"]}, ValueError, "no parameter 'shape'"),
    ({"learnable": ["scal"]}, ValueError, "unknown learnable parameter 'scal'"),
]


@for_each(
    "call, arguments, error, words",
    [(gendr.silhouette, {"face_vertices": GOOD, "image_size": 8, **a}, *b) for a, *b in SILHOUETTE]
    + [(Renderer, {"image_size": 8, **a}, *b) for a, *b in RENDERER],
)
def test_bad_arguments_end_in_one_line(call, arguments, error, words):
    with pytest.raises(error, match=words) as caught:
        call(**arguments)
    assert "\n" not in str(caught.value)


def test_bad_scenes():
    renderer, camera = Renderer(8), look_at(3, 0, 0)
    with pytest.raises(TypeError, match=r"takes a gendr\.Mesh and a gendr\.Camera, got Tensor"):
        renderer(BALL.vertices, camera)
    with pytest.raises(TypeError, match="dtype"):
        renderer(BALL, look_at(3, 0, 0, dtype=torch.float64))
    broken = BALL.with_vertices(BALL.vertices * math.nan)
    with pytest.raises(ValueError, match="vertices of the mesh must be finite"):
        renderer(broken, camera)
    assert Renderer(8, check=False)(broken, camera).alpha.shape == (1, 8, 8)


def test_backends_are_listed_by_operator():
    """Of all systems; what has no kernels in a backend says so, and the definition serves all."""
    found = gendr.backends("all")
    assert found["rendering"] == gendr.backends() == gendr.backends("primitives")
    for operator in (
        "rendering.ordered", "primitives.texture", "sorting.ranks", "logic.gates", "relaxed",
        "topk.mask", "topk.losses", "losses.cosines", "splatting.project", "rendering.project",
    ):  # fmt: skip
        assert found[operator]["reference"] is None, operator
        assert found[operator]["cpu"] is None, operator
    assert "has no triton kernels" in found["sorting.rows"]["triton"]
    with pytest.raises((ValueError, RuntimeError), match="triton"):
        gendr.sorting.soft_rank(torch.rand(3), "softsort", backend="triton")
    with pytest.raises(ValueError, match=r"unknown of 'primitive'.*primitives"):
        gendr.backends("primitive")
    with pytest.raises(ValueError, match="unknown backend 'cuda'"):
        gendr.primitives.rasterize(
            None, torch.rand(1, 3, 4), torch.tensor([[0, 1, 2]]).int(), (4, 4), backend="cuda"
        )


@pytest.mark.every
@for_each(axis=[(0.5, 0.7, -0.4), (1.0, 0.0, 0.0), (-1.0, -1.0, 1.0)])
def test_the_pose_of_the_teapot_from_one_silhouette(axis):
    """30 degrees off, recovered within 3: the scale goes from 2 pixels to a tenth of one."""
    mesh = Mesh.load(Path(__file__).parents[2] / "assets" / "teapot.obj").scaled(0.6)
    truth = look_at(2.732, 25.0, 40.0)
    axis = torch.tensor(axis)
    start = truth.rotated(axis / axis.norm() * math.radians(30))
    off = float(gendr.rotation_angle_between(start.rotation, truth.rotation)[0])
    assert off == pytest.approx(30, abs=0.1)
    with torch.no_grad():
        target = Renderer(64, "heaviside", "max")(mesh, truth).alpha
    renderer = Renderer(64, "uniform", "probabilistic", cutoff=1e-4)
    turn = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.Adam([turn], lr=0.02)
    steps = 150
    for i in range(steps):
        renderer.scale = f"{2.0 * 0.05 ** (i / (steps - 1))}px"
        loss = iou_loss(renderer(mesh, start.rotated(turn)).alpha, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    found = start.rotated(turn.detach())
    assert float(gendr.rotation_angle_between(found.rotation, truth.rotation)[0]) < 3
    assert iou(renderer(mesh, found).alpha, target).item() > 0.95


DATA = os.environ.get("GENDR_DATA")
SMOOTH = [name for name in gendr.distributions.names() if name != "heaviside"]


@pytest.mark.skipif(DATA is None, reason="set GENDR_DATA to a folder with meshes/*.obj")
@for_each(rotating=16, name=["spot", "airplane_gendr", "teapot", "cow"], dist=SMOOTH)
def test_float32_is_close_to_float64_on_real_meshes(name, dist):
    mesh = Mesh.load(Path(DATA or "") / "meshes" / f"{name}.obj").normalized().scaled(0.5)
    for scale, bound in ((1e-1, 1e-4), (1e-2, 1e-4), (1e-3, 1e-3)):
        images = []
        for dtype in (torch.float32, torch.float64):
            camera = look_at(2.732, 30.0, 40.0, dtype=dtype)
            images.append(Renderer(64, dist, scale=scale)(mesh.to(dtype), camera).alpha.double())
        assert (images[0] - images[1]).abs().max() <= bound


def test_on_a_gpu_a_later_call_tells_of_wrong_values(monkeypatch):
    """On the CPU, whose tensors claim to be on a GPU; the reference needs none."""
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    corners, wrong = torch.rand(2, 3, 3, 3) + 1, torch.rand(2, 3, 3, 3) + 1
    wrong[1, 2, 0, 1] = -torch.inf
    scale = torch.tensor([1e-2, 2e-2])
    bad = torch.tensor([1e-2, torch.nan])

    def silhouette(corners, scale, **options):
        return gendr.silhouette(corners, 8, scale=scale, backend="reference", **options)

    want = silhouette(corners, scale)
    silhouette(wrong, scale)
    with pytest.raises(ValueError, match=r"face_vertices must be finite, .* in an earlier call"):
        silhouette(corners, scale)
    assert torch.equal(silhouette(corners, scale), want)  # it is said once
    silhouette(wrong, scale, check=False)
    assert torch.equal(silhouette(corners, scale), want)
    silhouette(3e38 * corners.sign(), scale)
    assert torch.equal(silhouette(corners, scale), want)  # a sum would have overflowed
    with pytest.raises(ValueError, match="got a tensor with minimum nan"):
        silhouette(corners, bad)  # the distribution of the reference looks at once
    with pytest.raises(ValueError, match=r"scale must be > 0 and finite, .* in an earlier call"):
        silhouette(corners, scale)
    assert torch.equal(silhouette(corners, scale), want)
    renderer, camera = Renderer(8, backend="reference"), look_at(3, 20, torch.zeros(2))
    for call in (renderer, renderer.compiled()):
        alpha = call(BALL, camera, scale).alpha
        call(BALL, camera, -scale)
        with pytest.raises(ValueError, match=r"minimum -0\.02 in an earlier call"):
            call(BALL, camera, scale)
        assert torch.equal(call(BALL, camera, scale).alpha, alpha)
    other = Renderer(8, backend="reference")  # is not blamed for what the first one was given
    renderer(BALL, camera, -scale)
    assert torch.equal(other(BALL, camera, scale).alpha, alpha)
    with pytest.raises(ValueError, match=r"minimum -0\.02 in an earlier call"):
        renderer(BALL, camera, scale)
    silhouette(wrong, scale)
    gendr.silhouette(corners, 9, scale=scale, backend="reference")  # another size
    with pytest.raises(ValueError, match=r"face_vertices must be finite, .* in an earlier call"):
        silhouette(corners, scale)
    renderer.scale = bad
    with pytest.raises(ValueError, match="in an earlier call"):
        renderer.scale = scale
    with pytest.raises(ValueError, match="minimum nan; "):
        Renderer(8, scale=bad)  # made once: it waits
