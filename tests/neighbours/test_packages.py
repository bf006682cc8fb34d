"""What docs/neighbours.md says of other packages, where they are installed; see that page.

    pip install xatlas==0.0.11 meshio==5.3.5 scikit-image==0.26.0 torchmetrics==1.9.0 \
        diffsort==0.2.0 difftopk==0.2.0 numpy-stl==4.1.1
"""

import ast
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import gendr
from gendr.photos import unwrapped

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
        assert code.count('"nnan"') == (path.name == "loss_kernels.py"), path


@pytest.mark.every
def test_distances_of_libigl_near_borders():
    igl = pytest.importorskip("igl")
    points, faces = square(20)
    above = np.array([[0.5, 0.5, 0.3], [0.5, 0.5, -0.3]])
    found = igl.signed_distance(above, points, faces)[0]
    np.testing.assert_allclose(found, [0.458, 0.142], atol=1e-3)


@pytest.mark.every
def test_normals_of_scikit_image():
    measure = pytest.importorskip("skimage.measure")
    x = np.linspace(-1, 1, 32)
    distance = np.linalg.norm(np.stack(np.meshgrid(x, x, x[::2], indexing="ij"), -1), axis=-1)
    spacing = (x[1] - x[0], x[1] - x[0], x[2] - x[0])
    points, _, normals, _ = measure.marching_cubes(distance, 0.6, spacing=spacing)
    out = points - points.mean(0)
    cosine = np.abs((out / np.linalg.norm(out, axis=1, keepdims=True) * normals).sum(1))
    assert 20 < np.degrees(np.arccos(cosine.min())) < 28


@pytest.mark.every
def test_charts_of_xatlas_are_mirrored_and_ours_are_not():
    xatlas = pytest.importorskip("xatlas")
    import trimesh

    box = trimesh.creation.box((4, 1, 1))
    _, index, uv = xatlas.parametrize(box.vertices, box.faces)

    def signs(corners):
        (ax, ay), (bx, by) = np.moveaxis(corners[:, 1:] - corners[:, :1], 0, -1)
        return {*np.sign(ax * by - ay * bx)}

    assert signs(uv[index]) == {-1.0, 1.0}
    ours = unwrapped(gendr.Mesh(torch.tensor(box.vertices), torch.tensor(box.faces)))
    assert signs(ours.uvs[ours.face_uvs.reshape(-1, 3)].numpy()) == {1.0}


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


@pytest.mark.every
def test_calls_of_opencv():
    cv2 = pytest.importorskip("cv2")
    if cv2.__version__ < "5":
        pytest.skip("OpenCV 5")
    image = np.zeros((100, 100), np.uint8)
    cv2.line(image, (10, 10), (90, 90), 255)
    assert cv2.HoughLinesP(image, 1, np.pi / 180, 20, minLineLength=10).shape[1:] == (4,)
    assert cv2.add(np.array([[2**40]], np.int64), np.array([[1]], np.int64)).item() == 1
    # The functions that `gendr.photos.masks` calls.
    count, labels, stats, _ = cv2.connectedComponentsWithStats(np.eye(4, dtype=np.uint8))
    assert (count, labels.shape, stats.shape) == (2, (4, 4), (2, 5))


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


@pytest.mark.every
@pytest.mark.filterwarnings("ignore")
def test_sinkhorn_of_pot():
    ot = pytest.importorskip("ot")
    from gendr.transport import sinkhorn

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


@pytest.mark.every
@pytest.mark.filterwarnings("ignore")
def test_orientations_of_difftopk():
    difftopk = pytest.importorskip("difftopk")
    x = torch.tensor([[1.0, 4.0, 2.0, 3.0]])
    rising = x.sort(-1).values
    neural, soft = (kind(tau=0.02)(x)[0] for kind in (difftopk.NeuralSort, difftopk.SoftSort))
    torch.testing.assert_close(x @ neural, rising, atol=1e-3, rtol=0)
    torch.testing.assert_close(x @ soft.T, rising.flip(-1), atol=1e-3, rtol=0)
    for method in ("neuralsort", "softsort", "odd_even"):
        ours = gendr.sorting.permutation(x, method, steepness=1e3)
        torch.testing.assert_close(x @ ours[0].T, rising, atol=1e-2, rtol=0)


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
