"""What docs/neighbours.md says of other packages, where they are installed; see that page.

    pip install xatlas==0.0.11 meshio==5.3.5 torchmetrics==1.9.0 \
        diffsort==0.2.0 difftopk==0.2.0 numpy-stl==4.1.1 open3d==0.20.0

`-p no:dash`, which Open3D brings, keeps its hooks out of pytest.
"""

import ast
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.ndimage import (
    binary_dilation,
    binary_erosion,
    binary_opening,
    distance_transform_edt,
    gaussian_filter,
    uniform_filter,
)

import gendr
from gendr.photos import unwrapped
from support.gltf import POINTS, Gltf

ROOT = Path(gendr.__file__).parent


def square(n):
    """An open square [0, 1]² at z = 0, of 2 (n - 1)² triangles."""
    side = np.linspace(0, 1, n)
    points = np.array([(x, y, 0.0) for y in side for x in side])
    i = np.arange(n * n).reshape(n, n)
    a, b, c, d = i[:-1, :-1], i[:-1, 1:], i[1:, :-1], i[1:, 1:]
    faces = np.concatenate([np.stack(t, -1).reshape(-1, 3) for t in ((a, b, c), (b, d, c))])
    return points, faces


def test_nobody_asks_libigl_for_distances_with_a_sign():
    folders = (ROOT, ROOT.parent / "experiments")
    files = [path for folder in folders for path in folder.rglob("*.py")]
    code = "\n".join(path.read_text(encoding="utf-8") for path in files)
    assert "fast_winding_number(" in code
    assert not re.search(r"igl\.signed_distance|SIGNED_DISTANCE_TYPE", code)


def test_no_kernel_assumes_that_there_is_no_nan_where_it_may_meet_one():
    """`nnan` makes x != x False; `_largest` of the top-k loss runs after a check of its row."""
    for path in ROOT.rglob("*.py"):
        code = path.read_text(encoding="utf-8")
        assert "fastmath=True" not in code, path
        assert code.count('"nnan"') == path.match("topk/backends/cpu/loss_kernels.py"), path


@pytest.mark.every
def test_nan_of_numba_with_fastmath():
    numba = pytest.importorskip("numba")
    for fast, seen in ((True, False), (False, True)):
        differs = numba.njit(fastmath=fast)(lambda x: x != x)
        assert differs(float("nan")) is seen


@pytest.mark.every
def test_distances_of_libigl_near_borders():
    igl = pytest.importorskip("igl")
    points, faces = square(20)
    above = np.array([[0.5, 0.5, 0.3], [0.5, 0.5, -0.3]])
    found = igl.signed_distance(above, points, faces)[0]
    np.testing.assert_allclose(found, [0.458, 0.142], atol=1e-3)


@pytest.mark.every
def test_charts_of_xatlas_are_mirrored_and_stretched_and_ours_are_not():
    xatlas = pytest.importorskip("xatlas")
    import trimesh

    box = trimesh.creation.box((4, 1, 1))
    _, index, uv = xatlas.parametrize(box.vertices, box.faces)

    def stretch(triangles, corners):
        """The largest ratio of the lengths in space and in the texture of two sides."""
        sides = [np.linalg.norm(x - np.roll(x, 1, 1), axis=2) for x in (triangles, corners)]
        return (sides[0] / sides[1]).max() / (sides[0] / sides[1]).min()

    def signs(corners):
        (ax, ay), (bx, by) = np.moveaxis(corners[:, 1:] - corners[:, :1], 0, -1)
        return {*np.sign(ax * by - ay * bx)}

    assert signs(uv[index]) == {-1.0, 1.0}
    assert 1.3 < stretch(box.triangles, uv[index]) < 1.5
    ours = unwrapped(gendr.Mesh(torch.tensor(box.vertices), torch.tensor(box.faces)))
    assert signs(ours.uvs[ours.face_uvs.reshape(-1, 3)].numpy()) == {1.0}
    assert stretch(box.triangles, ours.uvs[ours.face_uvs.reshape(-1, 3)].numpy()) < 1.01


@pytest.mark.every
def test_texture_coordinates_of_meshio(tmp_path):
    meshio = pytest.importorskip("meshio")
    text = "v 0 0 0\nv 1 0 0\nv 1 1 0\nvt 0 0\nvt 1 0\nvt 1 1\nf 1/3 2/2 3/1\n"
    (tmp_path / "a.obj").write_text(text)
    np.testing.assert_array_equal(
        meshio.read(tmp_path / "a.obj").point_data["obj:vt"], [[0, 0], [1, 0], [1, 1]]
    )
    ours = gendr.Mesh.load(tmp_path / "a.obj")
    assert ours.uvs[ours.face_uvs.reshape(-1)].tolist() == [[1, 1], [1, 0], [0, 0]]


def test_calls_of_opencv():
    """Shapes, types and values of all that is called here, the same in OpenCV 4.9 and 5.0."""
    cv2 = pytest.importorskip("cv2")
    called = {
        name
        for path in ROOT.rglob("*.py")
        for name in re.findall(r"(?<!`)cv2\.([a-zA-Z]\w*)\(", path.read_text(encoding="utf-8"))
    }
    assert called == {
        "GaussianBlur", "blur", "connectedComponents", "connectedComponentsWithStats", "cvtColor",
        "dilate", "distanceTransform", "erode", "getStructuringElement", "grabCut", "Laplacian",
        "morphologyEx", "resize", "setRNGSeed", "VideoCapture",
    }  # fmt: skip
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (5, 5))
    assert disc.dtype == np.uint8
    assert disc.sum(1).tolist() == [1, 5, 5, 5, 1]
    mask = np.zeros((12, 12), np.uint8)
    mask[2:9, 3:10], mask[0, 0], mask[5, 6] = 1, 1, 0
    whole, square = mask > 0, np.ones((3, 3))
    for found, expected in {
        "open": (cv2.morphologyEx(mask, cv2.MORPH_OPEN, square), binary_opening(whole, square)),
        "dilate": (cv2.dilate(mask, disc), binary_dilation(whole, disc)),
        "erode": (cv2.erode(mask, disc), binary_erosion(whole, disc, border_value=1)),
    }.values():
        assert found.dtype == np.uint8
        np.testing.assert_array_equal(found, expected)
    count, labels, stats, centres = cv2.connectedComponentsWithStats(mask, connectivity=8)
    assert (count, labels.dtype, stats.dtype) == (3, np.int32, np.int32)
    assert stats[:, cv2.CC_STAT_AREA].tolist() == [95, 1, 48]
    assert (labels.shape, centres.shape) == ((12, 12), (3, 2))
    np.testing.assert_array_equal(cv2.connectedComponents(mask, connectivity=8)[1], labels)
    away = cv2.distanceTransform(np.ones((9, 9), np.uint8) - mask[:9, :9], cv2.DIST_L2, 5)
    exact = distance_transform_edt(mask[:9, :9] == 0)
    assert away.dtype == np.float32
    np.testing.assert_allclose(away, exact, rtol=0.03)
    blurred, want = cv2.GaussianBlur(away, (0, 0), 1.5), gaussian_filter(away, 1.5, mode="mirror")
    assert blurred.dtype == np.float32
    np.testing.assert_allclose(blurred, want, atol=0.01)
    means = cv2.blur(away, (5, 5))
    np.testing.assert_allclose(means, uniform_filter(away, 5, mode="mirror"), atol=1e-5)
    bent = cv2.Laplacian(np.add.outer(np.arange(7.0) ** 2, np.zeros(7)), cv2.CV_64F)
    assert bent[1:-1].tolist() == [[2.0] * 7] * 5
    colour = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    grey = cv2.cvtColor(colour, cv2.COLOR_BGR2GRAY)
    assert (grey.shape, grey.dtype) == ((4, 4), np.uint8)
    assert abs(grey[0, 0] - (0.587 * 1 + 0.299 * 2)) <= 1
    means = cv2.resize(grey, (2, 2), interpolation=cv2.INTER_AREA)
    assert np.abs(means - grey.reshape(2, 2, 2, 2).mean((1, 3))).max() <= 0.5
    picture = np.full((12, 12, 3), 20, np.uint8)
    picture[2:9, 3:10] = 220
    picture += np.random.default_rng(0).integers(0, 20, picture.shape, np.uint8)
    state = np.full((12, 12), cv2.GC_PR_FGD, np.uint8)
    state[:, [0, -1]] = cv2.GC_BGD
    models = np.zeros((1, 65)), np.zeros((1, 65))
    cv2.setRNGSeed(0)
    cv2.grabCut(picture, state, (0, 0, 1, 1), *models, 3, cv2.GC_INIT_WITH_MASK)
    assert ((state == cv2.GC_PR_FGD).astype(int) == (picture[..., 0] > 100)).all()


@pytest.mark.every
def test_surprises_of_opencv():
    """Of calls that are not made here, and why: the lenses have an inversion of their own."""
    cv2 = pytest.importorskip("cv2")
    assert cv2.add(np.arange(3.0), np.arange(3.0)).shape == (4, 1)
    assert cv2.add(np.array([[2**40]], np.int64), np.array([[1]], np.int64)).item() == 1
    newer = int(cv2.__version__.split(".")[0]) >= 5
    assert cv2.add(np.arange(5.0), np.arange(5.0)).shape == ((5,) if newer else (5, 1))
    image = np.zeros((100, 100), np.uint8)
    cv2.line(image, (10, 10), (90, 90), 255)
    found = cv2.HoughLinesP(image, 1, np.pi / 180, 20, minLineLength=10)
    assert found.shape[1:] == ((4,) if newer else (1, 4))
    k, bend = np.array([[400, 0, 320], [0, 400, 240], [0, 0, 1.0]]), np.array([0.4, 0.3, 0, 0])
    corner = np.array([[[1.0, 1.0]]])
    rays = np.append(cv2.undistortPoints(corner, k, bend).reshape(2), 1)[None]
    seen, _ = cv2.projectPoints(rays, np.zeros(3), np.zeros(3), k, bend)
    assert np.abs(seen.reshape(2) - 1).max() > 10  # pixels


@pytest.mark.every
def test_images_of_torchmetrics_and_scikit_image():
    metrics = pytest.importorskip("torchmetrics.functional.image")
    generator = torch.Generator().manual_seed(0)
    target = torch.rand(1, 3, 64, 64, generator=generator)
    image = (target + 0.1 * torch.randn(target.shape, generator=generator)).clamp(0, 1)
    ours = gendr.losses.ssim(image, target).item()
    theirs = metrics.structural_similarity_index_measure
    assert theirs(image, target, data_range=1.0).item() == pytest.approx(ours, abs=5e-3)
    dark = 0.05 * image, 0.05 * target
    assert theirs(*dark).item() == pytest.approx(ours, abs=1e-2)
    assert theirs(*dark, data_range=1.0).item() > ours + 0.02


@pytest.mark.every
def test_networks_of_diffsort():
    diffsort = pytest.importorskip("diffsort")
    x = torch.randn(4, 22, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    theirs, p = diffsort.DiffSortNet("bitonic", 22, steepness=1e4, distribution="cauchy")(x)
    torch.testing.assert_close(torch.einsum("bij,bi->bj", p, x), theirs)
    truth = x.sort(-1).values
    assert (theirs - truth).abs().max() > 0.1
    ours = gendr.sorting.soft_sort(x, method="bitonic", dist="cauchy", steepness=1e4)
    assert (ours - truth).abs().max() < 2e-3


@pytest.mark.every
@pytest.mark.filterwarnings("ignore")
def test_hard_neuralsort_of_difftopk():
    difftopk = pytest.importorskip("difftopk")
    x = torch.randn(200, 10, generator=torch.Generator().manual_seed(0))
    p = difftopk.NeuralSort(tau=1.0, hard=True)(x)
    whole = ((p.sum(1) == 1).all(-1) & (p.sum(2) == 1).all(-1)).float().mean()
    assert whole < 0.3


@pytest.mark.every
def test_soft_dtw_of_tslearn():
    theirs = pytest.importorskip("tslearn.metrics")
    from gendr.relaxed import soft_dtw, soft_dtw_alignment

    a, b = (torch.randn(n, dtype=torch.float64).cumsum(0) for n in (12, 9))
    for gamma in (0.1, 1.0, 5.0):
        pair = a.numpy()[:, None], b.numpy()[:, None]
        expected, value = theirs.soft_dtw_alignment(*pair, gamma=gamma)
        torch.testing.assert_close(
            soft_dtw_alignment(a, b, gamma), torch.tensor(np.asarray(expected))
        )
        assert soft_dtw(a, b, gamma).item() == pytest.approx(value, abs=1e-6, rel=1e-6)
    banded = theirs.dtw(*pair, global_constraint="sakoe_chiba", sakoe_chiba_radius=2)
    assert soft_dtw(a, b, 0.0, band=2).sqrt().item() == pytest.approx(banded, abs=1e-6)
    assert theirs.soft_dtw(pair[0], pair[0], gamma=1.0) < -1
    several = torch.randn(3, 10, 2), torch.randn(3, 8, 2)
    for normalize in (False, True):
        loss = theirs.SoftDTWLossPyTorch(gamma=0.5, normalize=normalize)(*several)
        ours = soft_dtw(*several, 0.5, features=True, normalize=normalize)
        torch.testing.assert_close(ours, loss, rtol=1e-4, atol=1e-4)


@pytest.mark.every
def test_rankings_of_torchmetrics():
    theirs = pytest.importorskip("torchmetrics.functional.retrieval")
    from gendr.sorting import metrics

    scores, relevant = torch.rand(30), torch.randint(2, (30,))
    for k in (None, 5):
        for name, metric in (
            ("normalized_dcg", lambda *a, **b: metrics.ndcg(*a, gain="linear", **b)),
            ("precision", metrics.precision),
            ("recall", metrics.recall),
            ("reciprocal_rank", metrics.reciprocal_rank),
        ):
            want = getattr(theirs, f"retrieval_{name}")(scores, relevant, top_k=k)
            torch.testing.assert_close(metric(scores, relevant, k=k), want)
    want = theirs.retrieval_average_precision(scores, relevant)
    torch.testing.assert_close(metrics.average_precision(scores, relevant), want)
    # Scores that are not positive are irrelevant to them.
    assert theirs.retrieval_reciprocal_rank(scores - 2, relevant) == 0
    assert metrics.reciprocal_rank(scores - 2, relevant) > 0


@pytest.mark.every
@pytest.mark.filterwarnings("ignore")
def test_sinkhorn_of_pot():
    ot = pytest.importorskip("ot")
    from gendr.transport import sinkhorn, sinkhorn_barycenter

    costs = torch.rand(7, 5, dtype=torch.float64)
    a, b = torch.rand(7, dtype=torch.float64), torch.rand(5, dtype=torch.float64)
    a, b = a / a.sum(), b / b.sum()
    for epsilon in (1.0, 0.1, 0.02):
        theirs = ot.sinkhorn(
            a.numpy(), b.numpy(), costs.numpy(), epsilon, method="sinkhorn_log",
            numItermax=100_000, stopThr=1e-12,
        )  # fmt: skip
        ours = sinkhorn(costs, a, b, epsilon, tolerance=1e-11).plan
        torch.testing.assert_close(ours, torch.tensor(theirs), rtol=1e-6, atol=1e-9)
        options = {"reg": epsilon, "max_iter": 100_000, "tol": 1e-12}
        solved = ot.solve(costs.numpy(), a.numpy(), b.numpy(), **options).plan
        torch.testing.assert_close(ours, torch.tensor(solved), rtol=1e-6, atol=1e-9)
    exact = ot.emd2(a.numpy(), b.numpy(), costs.numpy())
    assert sinkhorn(costs, a, b, 1e-4).cost.item() == pytest.approx(exact, abs=1e-4)
    square, several = costs @ costs.mT, costs / costs.sum(0)
    shares = torch.tensor([0.1, 0.4, 0.2, 0.0, 0.3], dtype=torch.float64)
    for epsilon in (1.0, 0.1, 0.02):
        theirs = ot.bregman.barycenter(
            several.numpy(), square.numpy(), epsilon, weights=shares.numpy(),
            method="sinkhorn_log", numItermax=100_000, stopThr=1e-12,
        )  # fmt: skip
        ours = sinkhorn_barycenter(square, several.mT, shares, epsilon, tolerance=1e-11)
        torch.testing.assert_close(ours, torch.tensor(theirs), rtol=1e-6, atol=1e-9)


@pytest.mark.every
def test_concave_polygons_of_trimesh(tmp_path):
    """By the shoelace formula the area is 5.25."""
    import trimesh

    corners = "".join(f"v {x} {y} 0\n" for x, y in ((0, 0), (3, 0), (3, 3), (1.5, 0.5), (0, 3)))
    theirs, ours = [], []
    for first in range(5):
        face = " ".join(str((first + i) % 5 + 1) for i in range(5))
        (tmp_path / "a.obj").write_text(f"{corners}f {face}\n")
        theirs.append(trimesh.load_mesh(tmp_path / "a.obj").area)
        ours.append(gendr.Mesh.load(tmp_path / "a.obj").face_areas.sum().item())
    assert {round(area, 6) for area in theirs} == {5.25, 8.25, 12.75}
    np.testing.assert_allclose(ours, 5.25)


def square_of_gltf(kind):
    """A square of area 1, or of 2 where it stands twice, by a feature of glTF."""
    file = Gltf()
    wide = np.concatenate([POINTS * 32767, POINTS[:, :1]], 1)  # rows of eight bytes
    square = {
        "fan": lambda: file.primitive(corners=np.arange(4, dtype="u2"), mode=6),
        "sparse": lambda: file.primitive() | {
            "attributes": {"POSITION": file.accessor(POINTS, sparse=[2])}
        },
        "normalized": lambda: file.primitive() | {
            "attributes": {
                "POSITION": file.accessor(wide[:, :3], "i2", stride=8, normalized=True)
            }
        },
    }  # fmt: skip
    node = {}
    if kind == "normalized":
        file.extension("KHR_mesh_quantization", required=True)
    if kind == "instances":
        moved = file.accessor(np.array([[0, 0, 0], [5, 0, 0]], "f4"))
        name = file.extension("EXT_mesh_gpu_instancing", required=True)
        node = {"extensions": {name: {"attributes": {"TRANSLATION": moved}}}}
    file.show(square.get(kind, file.primitive)(), **node)
    return file.bytes()


@pytest.mark.every
def test_glb_by_trimesh(tmp_path):
    """What glTF 2.0 means, 3.6.2 and 3.7.2.1, is read here; trimesh gives other areas silently."""
    import trimesh

    theirs = {}
    for kind, area in {"fan": 1, "sparse": 1, "normalized": 1, "instances": 2}.items():
        (tmp_path / "a.glb").write_bytes(square_of_gltf(kind))
        mesh = gendr.Mesh.load(tmp_path / "a.glb")
        assert mesh.face_areas.sum().item() == pytest.approx(area), kind
        theirs[kind] = trimesh.load(tmp_path / "a.glb", force="mesh", process=False).area
    assert theirs["fan"] == 0
    assert theirs["instances"] == 1
    assert theirs["normalized"] > 1e9
    assert theirs["sparse"] != pytest.approx(1)


@pytest.mark.every
def test_linear_colours_of_glb_by_trimesh(tmp_path):
    """COLOR_0 is linear, glTF 2.0, 3.9.2: 0.5 is 0.735 in sRGB, of which bytes are made there."""
    import trimesh

    file = Gltf()
    colours = file.accessor(np.full((4, 3), 0.5, "f4"))
    corner = file.primitive()
    corner["attributes"]["COLOR_0"] = colours
    file.show(corner)
    (tmp_path / "a.glb").write_bytes(file.bytes())
    theirs = trimesh.load(tmp_path / "a.glb", force="mesh", process=False)
    assert set(theirs.visual.vertex_colors[:, 0].tolist()) <= {127, 128}
    ours = gendr.Mesh.load(tmp_path / "a.glb")
    np.testing.assert_allclose(ours.vertex_colors, 0.735, atol=1e-3)


@pytest.mark.every
def test_integers_of_glb_by_open3d(tmp_path):
    """UVs of 16 bits, normalized: k / 65535 by glTF 2.0, 3.6.2.2."""
    o3d = pytest.importorskip("open3d")
    file = Gltf()
    corner = file.primitive()
    uvs = np.array([[0, 65535], [65535, 65535], [65535, 0], [0, 0]], "u2")
    corner["attributes"]["TEXCOORD_0"] = file.accessor(uvs, "u2", normalized=True)
    file.show(corner)
    (tmp_path / "a.glb").write_bytes(file.bytes())
    theirs = np.asarray(o3d.io.read_triangle_mesh(str(tmp_path / "a.glb")).triangle_uvs)
    assert np.isnan(theirs).any()
    assert {*gendr.Mesh.load(tmp_path / "a.glb").uvs.flatten().tolist()} == {0.0, 1.0}


@pytest.mark.every
def test_turns_of_numpy_stl():
    stl = pytest.importorskip("stl.mesh").Mesh
    triangle = stl(np.zeros(1, stl.dtype))
    triangle.vectors[0] = np.eye(3)
    triangle.rotate([0, 0, 1], np.pi / 2)
    np.testing.assert_allclose(triangle.vectors[0, 0], [0, -1, 0], atol=1e-6)
    ours = gendr.mesh.axis_angle_to_matrix(torch.tensor([0, 0, np.pi / 2]))
    np.testing.assert_allclose(ours[:, 0], [0, 1, 0], atol=1e-6)


@pytest.mark.every
def test_matrices_of_scipy_that_are_no_rotations():
    from scipy.spatial.transform import Rotation

    np.testing.assert_allclose(
        Rotation.from_matrix(np.diag([1.0, 2.0, 3.0])).as_matrix(), np.eye(3), atol=1e-12
    )
    with pytest.raises(ValueError, match="determinant"):
        Rotation.from_matrix(np.diag([1.0, 1.0, -1.0]))


def test_no_kernel_of_triton_sums_a_comparison():
    """Triton 3.9's interpreter sums int1 as uint32, of which differences wrap around."""

    def is_condition(node, names):
        if isinstance(node, ast.Name):
            return any(is_condition(value, {}) for value in names.get(node.id, ()))
        joined = isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr)
        inverted = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert | ast.Not)
        return isinstance(node, ast.Compare | ast.BoolOp) or joined or inverted

    count = 0
    for path in ROOT.rglob("triton/*.py"):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(function, ast.FunctionDef):
                continue
            names = {}
            for node in ast.walk(function):
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                    names.setdefault(node.targets[0].id, []).append(node.value)
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "tl.sum":
                    count += 1
                    assert not is_condition(node.args[0], names), (
                        f"{path.name}: {ast.unparse(node)}"
                    )
    assert count > 20
