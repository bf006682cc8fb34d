"""Files of cameras of other programs, written here by their documentation; all show one ring."""

import json
import random
from xml.sax.saxutils import quoteattr

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.spatial.transform import Rotation

from gendr.cli import main
from gendr.photos import load_views
from support.cases import for_each

HEIGHT, WIDTH, FOCAL, COUNT = 48, 64, 70.0, 6
NAMES = [f"IMG {i}.png" for i in range(COUNT)]
# The principal point, and another focal length, where a format has them.
CX, CY, FY = 35.0, 21.0, 77.0


def ring():
    """World to camera, x right, y down, z ahead: rotations and shifts."""
    found = []
    for i in range(COUNT):
        angle = 2 * np.pi * i / COUNT + 0.1
        eye = 4 * np.array([np.sin(angle), 0.1 + 0.1 * i, np.cos(angle)])
        ahead = -eye / np.linalg.norm(eye)
        right = np.cross(ahead, [0, 1, 0.3])
        right /= np.linalg.norm(right)
        turn = np.stack([right, np.cross(ahead, right), ahead])
        found.append((turn, -turn @ eye))
    return found


RING = ring()
EYES = [-turn.T @ shift for turn, shift in RING]
WORLD = [np.c_[turn.T, eye] for (turn, _), eye in zip(RING, EYES, strict=True)]  # y down, z ahead
OPENGL = [pose * [1, -1, -1, 1] for pose in WORLD]


def save_photos(root, place="images", names=NAMES):
    (root / place).mkdir(parents=True, exist_ok=True)
    for i, name in enumerate(names):
        pixels = np.zeros((HEIGHT, WIDTH, 4), np.uint8)
        pixels[10:40, 15:45] = (200, 100, 30 * i, 255)
        Image.fromarray(pixels).save(root / place / name)
    return root


def put(root, name, content):
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))


def check(views, fx=FOCAL, fy=FOCAL, cx=WIDTH / 2, cy=HEIGHT / 2, atol=1e-9):
    """Points land where the formulas say, in the photo of the name."""
    assert len(views) == COUNT
    rng = np.random.default_rng(1)
    for i, (turn, shift) in enumerate(RING):
        blue = 255 * views.rgb[:, 2].amax((1, 2))
        k = int((blue - 30 * i).abs().argmin())
        seen = rng.normal(size=(9, 3)) + np.array([0, 0, 6])
        points = torch.from_numpy((seen - shift) @ turn)
        u, v = fx * seen[:, 0] / seen[:, 2] + cx, fy * seen[:, 1] / seen[:, 2] + cy
        xy, depth = views.camera[k].project(points)
        wanted = np.stack([(2 * u - WIDTH) / HEIGHT, (HEIGHT - 2 * v) / HEIGHT], 1)
        np.testing.assert_allclose(xy[0].numpy(), wanted, atol=atol)
        np.testing.assert_allclose(depth[0].numpy(), seen[:, 2], atol=atol)


# -- writers: by the documentation of each format --------------------------------------------------


def gaussians(root):
    """camera_to_JSON of 3DGS: position and rotation of the inverse of world to view."""
    rows = []
    for i, pose in enumerate(WORLD):
        row = {"id": i, "img_name": NAMES[i][:-4], "width": WIDTH, "height": HEIGHT, "fx": FOCAL}
        row |= {"position": pose[:, 3].tolist(), "rotation": pose[:, :3].tolist(), "fy": FY}
        rows.append(row)
    put(root, "cameras.json", rows)
    return {"fy": FY}


def opensfm(root):
    """OpenSfM's documentation, geometry: normalised coordinates are parts of the longer side."""
    lens = {"projection_type": "brown", "width": WIDTH, "height": HEIGHT}
    lens |= {"focal_x": FOCAL / WIDTH, "focal_y": FY / WIDTH, "k1": 0, "k2": 0, "k3": 0, "p1": 0}
    lens |= {"p2": 0, "c_x": (CX - WIDTH / 2) / WIDTH, "c_y": (CY - HEIGHT / 2) / WIDTH}
    shots = {
        name: {
            "rotation": Rotation.from_matrix(turn).as_rotvec().tolist(),
            "translation": shift.tolist(),
            "camera": "v2 phone",
        }
        for name, (turn, shift) in zip(NAMES, RING, strict=True)
    }
    put(root, "opensfm/reconstruction.json", [{"cameras": {"v2 phone": lens}, "shots": shots}])
    # What ODM leaves beside it.
    put(root, "cameras.json", {"v2 phone": lens})
    return {"fy": FY, "cx": CX, "cy": CY}


def openmvg(root):
    """As cereal writes it: classes are named once; the centre of the first pixel is (0, 0)."""
    centre = [CX - 0.5, CY - 0.5]
    data = {"width": WIDTH, "height": HEIGHT, "focal_length": FOCAL, "principal_point": centre}
    views, lenses, poses = [], [], []
    for i, (turn, _) in enumerate(RING):
        kind = {"polymorphic_id": 2147483649, "polymorphic_name": "pinhole_brown_t2"}
        kind = {"polymorphic_id": 1} if i else kind
        bent = {"value0": data, "disto_t2": [0.0] * 5}
        lenses.append({"key": i, "value": {**kind, "ptr_wrapper": {"id": 1, "data": bent}}})
        view = {"filename": NAMES[i], "local_path": "/", "id_intrinsic": i, "id_pose": i}
        views.append({"key": i, "value": {"ptr_wrapper": {"id": 1, "data": view}}})
        poses.append({"key": i, "value": {"rotation": turn.tolist(), "center": EYES[i].tolist()}})
    whole = {"root_path": "C:\\photos", "views": views, "intrinsics": lenses, "extrinsics": poses}
    put(root, "sfm_data.json", whole)
    return {"cx": CX, "cy": CY}


def meshroom(root, version="1.2.6"):
    """jsonIO.cpp of AliceVision: Eigen's matrices column by column, numbers as texts.

    Its scene_v1.2.11.json has 17.5953 mm of 36, ratio 2 and width 4092 for focal lengths of 1000
    and 2000 pixels, scene_v1.2.8.json 8.7976 mm. The centre of the first pixel is (0, 0).
    """
    number = tuple(map(int, version.split(".")))
    lens = {"intrinsicId": "7", "width": str(WIDTH), "height": str(HEIGHT), "type": "radial3"}
    lens |= {"distortionParams": ["0", "0", "0"], "sensorWidth": "32", "sensorHeight": "24"}
    middle = (WIDTH / 2, HEIGHT / 2) if number >= (1, 2, 1) else (0, 0)
    lens["principalPoint"] = [str(CX - 0.5 - middle[0]), str(CY - 0.5 - middle[1])]
    if number > (1, 2, 6):
        lens |= {"type": "pinhole", "distortionType": "radialk3", "undistortionType": "none"}
    if number < (1, 2, 0):
        lens["pxFocalLength"] = str(FOCAL)
    else:
        ratio = FY / FOCAL if number >= (1, 2, 5) else FOCAL / FY
        focal = FY if number >= (1, 2, 11) else FOCAL
        lens |= {"focalLength": str(focal / WIDTH * 32), "pixelRatio": repr(ratio)}
    views, poses = [], []
    for i, (turn, _) in enumerate(RING):
        path = f"C:/Users/me/{NAMES[i]}" if i % 2 else f"/home/me/photos/{NAMES[i]}"
        views.append({"viewId": str(i), "poseId": str(i), "intrinsicId": "7", "path": path})
        rotation = [repr(float(x)) for x in turn.flatten(order="F")]
        place = {"rotation": rotation, "center": [repr(float(x)) for x in EYES[i]]}
        poses.append({"poseId": str(i), "pose": {"transform": place, "locked": "0"}})
    views.append({**views[0], "viewId": "99", "poseId": "99"})  # not placed
    whole = {"version": version.split("."), "views": views, "intrinsics": [lens], "poses": poses}
    put(root, "cameras.sfm", whole)
    return {"fy": FOCAL if number < (1, 2, 0) else FY, "cx": CX, "cy": CY}


def record3d(root):
    (root / "images").rename(root / "rgb")
    for i, name in enumerate(NAMES):
        (root / "rgb" / name).rename(root / "rgb" / f"{i}.png")
    poses = [[*Rotation.from_matrix(p[:, :3]).as_quat(), *p[:, 3]] for p in OPENGL]
    k = [FOCAL, 0, 0, 0, FY, 0, CX, CY, 1]
    put(root, "metadata.json", {"poses": poses, "K": k, "w": WIDTH, "h": HEIGHT, "fps": 30})
    return {"fy": FY, "cx": CX, "cy": CY}


def polycam(root):
    (root / "keyframes").mkdir()
    (root / "images").rename(root / "keyframes" / "images")
    for i, pose in enumerate(OPENGL):
        one = {f"t_{a}{b}": float(pose[a, b]) for a in range(3) for b in range(4)}
        one |= {"fx": FOCAL, "fy": FY, "cx": CX, "cy": CY, "width": WIDTH, "height": HEIGHT}
        put(root, f"keyframes/cameras/{NAMES[i][:-4]}.json", {**one, "blur_score": 90})
    (root / "keyframes/cameras/._IMG 0.json").write_bytes(b"\0\5\x16\7")
    return {"fy": FY, "cx": CX, "cy": CY}


def llff(root):
    """Axes down, right, back, then the place, then height, width, focal length."""
    rows = []
    for pose in OPENGL:
        right, up, back, eye = pose.T
        part = np.stack([-up, right, back, eye, [HEIGHT, WIDTH, FOCAL]], 1)
        rows.append([*part.ravel(), 1.0, 8.0])
    np.save(root / "poses_bounds.npy", np.array(rows))
    return {}


def neus(root):
    (root / "images").rename(root / "image")
    k = np.array([[FOCAL, 0, CX], [0, FY, CY], [0, 0, 1]])
    arrays = {}
    for i, (turn, shift) in enumerate(RING):
        arrays[f"world_mat_{i}"] = np.vstack([k @ np.c_[turn, shift], [0, 0, 0, 1]])
        arrays[f"scale_mat_{i}"] = np.diag([2.0, 2, 2, 1])
    arrays["about"] = np.array({"of": "somebody"})  # a Python object, which is not read
    np.savez(root / "cameras_sphere.npz", **arrays)
    return {"fy": FY, "cx": CX, "cy": CY}


def bundler(root):
    """Bundler's manual: a camera looks down -z, y up; names are in list.txt."""
    lines = ["# Bundle file v0.3", f"{COUNT + 1} 0"]
    for turn, shift in RING:
        flip = np.diag([1, -1, -1])
        lines.append(f"{FOCAL} 0 0")
        lines += [" ".join(map(repr, map(float, row))) for row in [*(flip @ turn), flip @ shift]]
    lines += ["0 0 0"] * 5  # one that was not placed
    put(root, "bundle/bundle.out", "\n".join(lines))
    listed = [f"./images/{name} 0 {FOCAL}" if i % 2 else name for i, name in enumerate(NAMES)]
    put(root, "bundle/list.txt", "\n".join([*listed, "none.png"]) + "\n")
    return {}


def nvm(root):
    """VisualSFM's documentation: name, f, quaternion, place, distortion, 0."""
    lines = ["NVM_V3 ", "", str(COUNT)]
    for i, (turn, _) in enumerate(RING):
        x, y, z, w = Rotation.from_matrix(turn).as_quat()
        numbers = [FOCAL, w, x, y, z, *EYES[i], 0, 0]
        lines.append(f"images\\{NAMES[i].replace(' ', chr(34))}\t{' '.join(map(str, numbers))}")
    put(root, "model.nvm", "\r\n".join([*lines, "", "1", "0 0 0 1 2 3 0", "", "0"]))
    return {}


def metashape(root):
    """Metashape's manual, appendix "Camera models"; transforms are camera to world."""
    calibration = f"""<calibration type="frame" class="adjusted">
      <resolution width="{WIDTH}" height="{HEIGHT}"/><f>{FY}</f><cx>{CX - WIDTH / 2}</cx>
      <cy>{CY - HEIGHT / 2}</cy><b1>{FOCAL - FY}</b1><k1>0</k1></calibration>"""
    cameras = []
    for i, pose in enumerate(WORLD):
        numbers = " ".join(repr(float(x)) for x in np.vstack([pose, [0, 0, 0, 1]]).ravel())
        head = f"id='{i}' sensor_id='0' component_id='0' label={quoteattr(NAMES[i][:-4])}"
        cameras.append(f"<camera {head}><transform>{numbers}</transform></camera>")
    cameras.append("<camera id='99' sensor_id='0' label='none'/>")
    put(root, "cams.xml", f"""<?xml version="1.0" encoding="UTF-8"?>
<document version="2.0.0"><chunk label="Chunk 1"><sensors><sensor id="0" label="phone"
 type="frame"><resolution width="{WIDTH}" height="{HEIGHT}"/>{calibration}</sensor></sensors>
 <cameras><group id="0">{"".join(cameras[:3])}</group>{"".join(cameras[3:])}</cameras></chunk>
</document>""")  # fmt: skip
    return {"fy": FY, "cx": CX, "cy": CY}


def bundler_elsewhere(root):
    """As RealityCapture and others export it."""
    bundler(root)
    (root / "bundle" / "bundle.out").rename(root / "scene.out")
    (root / "bundle" / "list.txt").rename(root / "list.txt")
    return {}


PROGRAMS = (
    gaussians, opensfm, openmvg, meshroom, record3d, polycam, llff, neus, bundler,
    bundler_elsewhere, nvm, metashape,
)  # fmt: skip


@for_each(write=PROGRAMS)
def test_poses_and_lenses_of_programs(tmp_path, write):
    expected = write(save_photos(tmp_path))
    check(load_views(tmp_path, dtype=torch.float64), **expected)


def neus2(root):
    """nerf_loader.h of NeuS2: with from_na columns 1 and 2 keep their signs, as in OpenCV."""
    k = [[FOCAL, 0, CX, 0], [0, FY, CY, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    frames = [
        {"file_path": f"images/{name}", "intrinsic_matrix": k,
         "transform_matrix": [*pose.tolist(), [0, 0, 0, 1]]}
        for name, pose in zip(NAMES, WORLD, strict=True)
    ]  # fmt: skip
    whole = {"w": WIDTH, "h": HEIGHT, "from_na": True, "scale": 0.5, "frames": frames}
    put(root, "transforms.json", whole)
    return {"fy": FY, "cx": CX, "cy": CY}


def test_axes_of_neus2_and_rolling_shutters(tmp_path):
    expected = neus2(save_photos(tmp_path))
    check(load_views(tmp_path, dtype=torch.float64), **expected)
    file = tmp_path / "transforms.json"
    content = json.loads(file.read_text())
    whole = {"fl_x": FOCAL, "fl_y": FY, "cx": CX, "cy": CY, "rolling_shutter": [0, 0, 0, 0]}
    file.write_text(json.dumps(content | whole))
    check(load_views(tmp_path, dtype=torch.float64), **expected)  # none, so that nothing is said
    file.write_text(json.dumps(content | whole | {"rolling_shutter": [0, 0, 1, 0]}))
    with pytest.warns(UserWarning, match="has a rolling shutter, which is taken for one moment"):
        check(load_views(tmp_path, dtype=torch.float64), **expected)
    del content["frames"][1]["transform_matrix"]
    file.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"\(of NeuS2\) cannot be read: 'transform_matrix'"):
        load_views(tmp_path)


@for_each(write=[neus2, gaussians, llff])
def test_smaller_copies_of_photos(tmp_path, write):
    """Some data sets come with copies in images_4 alone; lenses are those of the whole ones."""
    expected = write(save_photos(tmp_path))
    (tmp_path / "images").rename(tmp_path / "images_4")
    for file in (tmp_path / "images_4").iterdir():
        with Image.open(file) as photo:
            small = photo.resize((WIDTH // 4, HEIGHT // 4), Image.Resampling.NEAREST)
        small.save(file)
    check(load_views(tmp_path, dtype=torch.float64), **expected)


@for_each(version=["1.0.0", "1.2.2", "1.2.4", "1.2.6", "1.2.11"])
def test_versions_of_meshroom(tmp_path, version):
    expected = meshroom(save_photos(tmp_path), version)
    check(load_views(tmp_path, dtype=torch.float64), **expected)


def test_lenses_of_record3d_that_focus(tmp_path):
    """A focal length of each photo is that of K here, and K another."""
    expected = record3d(save_photos(tmp_path))
    file = tmp_path / "metadata.json"
    content = json.loads(file.read_text())
    lenses = [[FOCAL, FY, CX, CY]] * COUNT
    file.write_text(json.dumps({**content, "K": [1.0] * 9, "perFrameIntrinsicCoeffs": lenses}))
    check(load_views(tmp_path, dtype=torch.float64), **expected)
    file.write_text(json.dumps({**content, "perFrameIntrinsicCoeffs": lenses[1:]}))
    with pytest.raises(ValueError, match="it has 6 poses and 5 lenses"):
        load_views(tmp_path)


def test_a_folder_of_record3d_inside(tmp_path):
    expected = record3d(save_photos(tmp_path / "EXR_RGBD"))
    check(load_views(tmp_path, dtype=torch.float64), **expected)


def test_a_photo_has_one_camera(tmp_path):
    """Names of other folders may lead to one photo: two of a rig, labels of two memory cards."""
    for write, old, new in (
        (bundler, NAMES[1], f"b/{NAMES[0]}"), (metashape, NAMES[1][:-4], NAMES[0][:-4]),
        (meshroom, NAMES[1], f"b/{NAMES[0]}"), (nvm, NAMES[1].replace(" ", '"'), "IMG 0.png"),
    ):  # fmt: skip
        root = save_photos(tmp_path / write.__name__)
        write(root)
        for file in root.rglob("*"):
            if file.suffix in (".txt", ".xml", ".sfm", ".nvm"):
                file.write_text(file.read_text().replace(old, new.replace(" ", old[3])))
        with pytest.raises(ValueError, match=r"frame 1 \(.*\): frame 0 has this photo too"):
            load_views(root)


@for_each(write=[gaussians, opensfm, bundler, nvm, metashape, meshroom])
def test_a_file_of_cameras_may_lie_elsewhere(tmp_path, write):
    expected = write(save_photos(tmp_path / "a"))
    (tmp_path / "a" / "images").rename(tmp_path / "photos")
    if write is opensfm:
        (tmp_path / "a" / "cameras.json").unlink()
    file = read_file_name(tmp_path / "a")
    views = load_views(tmp_path / "photos", cameras=file, dtype=torch.float64)
    check(views, **expected)


def read_file_name(root):
    return next(p for p in root.rglob("*") if p.is_file() and p.name not in ("list.txt",))


def test_lenses_of_programs(tmp_path):
    """Coefficients by the models in the manuals: OpenCV's order, or Metashape's p1 and p2."""
    metashape(save_photos(tmp_path))
    text = (tmp_path / "cams.xml").read_text()
    bent = "<k1>0.01</k1><k2>0.02</k2><k3>0.03</k3><p1>0.001</p1><p2>0.002</p2><b2>0.5</b2>"
    text = text.replace("<k1>0</k1>", bent)
    (tmp_path / "cams.xml").write_text(text)
    lens = {"k1": 0.01, "k2": 0.02, "k3": 0.03, "p1": 0.002, "p2": 0.001, "skew": 0.5}
    lens |= {"fl_x": FOCAL, "fl_y": FY, "cx": CX, "cy": CY, "w": WIDTH, "h": HEIGHT}
    frames = [{"file_path": f"images/{name}", "transform_matrix": np.eye(4).tolist()}
              for name in NAMES]  # fmt: skip
    save_photos(tmp_path / "same")
    put(tmp_path / "same", "transforms.json", {**lens, "frames": frames})

    def assert_same():
        views, same = (load_views(tmp_path / x, dtype=torch.float64) for x in ("", "same"))
        assert views.names == same.names
        torch.testing.assert_close(views.rgb, same.rgb)
        torch.testing.assert_close(views.camera.focal, same.camera.focal)

    assert_same()
    sensor = f'type="frame"><resolution width="{WIDTH}" height="{HEIGHT}"/>'
    assert sensor in text  # its own size is not that of the calibration
    (tmp_path / "cams.xml").write_text(text.replace(sensor, sensor.replace('="64"', '="640"')))
    assert_same()
    old = text.replace(f"<f>{FY}</f>", f"<fx>{FOCAL}</fx><fy>{FY}</fy>")
    (tmp_path / "cams.xml").write_text(old)
    with pytest.raises(ValueError, match=r"PhotoScan before 1\.2; export the cameras again"):
        load_views(tmp_path)
    shutter = '<property name="rolling_shutter" value="true"/></sensor>'
    (tmp_path / "cams.xml").write_text(text.replace("</sensor>", shutter))
    with pytest.warns(UserWarning, match="has a rolling shutter, which is taken for one moment"):
        load_views(tmp_path)
    for term in ("p3", "p4"):
        (tmp_path / "cams.xml").write_text(text.replace("<k1>", f"<{term}>0.1</{term}><k1>"))
        with pytest.raises(ValueError, match=r"\(p3\) is not supported for a radial"):
            load_views(tmp_path)
    (tmp_path / "cams.xml").write_text(text)
    text = text.replace('type="frame" class', 'type="fisheye" class')
    (tmp_path / "cams.xml").write_text(text)
    with pytest.raises(ValueError, match=r"\(p1\) is not supported for a fisheye"):
        load_views(tmp_path)
    (tmp_path / "cams.xml").write_text(
        text.replace('type="fisheye" class', 'type="spherical" class')
    )
    around = "kind spherical are not supported; they look all around"
    with pytest.raises(ValueError, match=around):
        load_views(tmp_path)
    start, end = text.index("<calibration"), text.index("</sensor>")
    text = text[:start] + text[end:]
    (tmp_path / "cams.xml").write_text(text.replace('type="frame"', 'type="spherical"'))
    with pytest.raises(ValueError, match=around):
        load_views(tmp_path)


UNREAD = {
    "cameras.json": ({"v2 phone": {"projection_type": "brown"}}, "opensfm/reconstruction.json"),
    "transforms_train.json": ([{"file_path": "0.png", "transform": []}], "ns-process-data"),
    "camera_path.json": ({"camera_path": [], "keyframes": []}, "a path for a film"),
    "base_cam.json": ({"path": []}, "a path for a film"),
    "a.csv": ("#name,x,y,alt,heading,pitch,roll,f,px,py\n", "sparse/0"),
    "a.xmp": ("<x xcr:Rotation='1 0 0'/>", "sparse/0"),
    "a.psx": ("", "Export Cameras"),
    "database.db": ("SQLite CREATE TABLE keypoints (", "not poses"),
    "blocks.xml": ("<BlocksExchange/>", "sparse/0"),
    "sparse/0/cameras.txt": ("1 PINHOLE 64 48 70 70 32 24\n", "images.txt"),
    "a_pmatrix.txt": ("", "projections.txt"),
    "cameras.abc": ("", "cameras.sfm"),
    "sfm.json": ({"version": [1, 0, 0], "views": []}, "holds no poses"),
    "cams/00000000_cam.txt": ("extrinsic\n", "cameras.json"),
    "sensors/trajectories.txt": ("# kapture format: 1.1\n", "kapture_export_colmap"),
    "frame_00000.json": ({"cameraPoseARFrame": [1.0], "intrinsics": [1.0]}, "transforms.json"),
    "odometry.csv": ("timestamp, frame, x, y, z, qx, qy, qz, qw\n", "transforms.json"),
    "lowres_wide.traj": ("1.0 0 0 0 0 0 0\n", "transforms.json"),
    "meta_data.json": ({"frames": [{"camtoworld": []}]}, "cameras.json"),
    "poses/00.txt": ("1 0 0 0 0 1 0 0 0 0 1 0\n", "transforms.json"),
    "KeyFrameTrajectory.txt": ("1.0 0 0 0 0 0 0 1\n", "transforms.json"),
    "frame-000000.pose.txt": ("1 0 0 0\n", "transforms.json"),
    "0000.png.camera": ("2759.48 0 1520.69\n", "cameras.json"),
    "camchain.yaml": ("cam0:\n  distortion_model: radtan\n", "lenses only"),
    "ost.yaml": ("camera_matrix:\n  rows: 3\n", "lenses only"),
    "EuRoC.yaml": ("%YAML:1.0\nCamera1.fx: 435.2\n", "lenses only"),
    "mav0/state_groundtruth_estimate0/data.csv": ("#timestamp\n", "poses of the body"),
    "0c3ab189999a83.txt": ("https://www.youtube.com/watch?v=x\n0 .5 .9 .5 .5 0 0\n", "parts of"),
    "nerfstudio/transforms.json": ({"fl_x": 1, "test_frames": []}, "as --cameras"),
    "pose_intrinsic_imu.json": ({"frame_000000": {"aligned_pose": []}}, "iphone/colmap"),
    "frame_annotations.jgz": ("", "transforms.json"),
    "shots.geojson": ({"type": "FeatureCollection"}, "opensfm/reconstruction.json"),
    "Ori-All/Orientation-0.png.xml": ("<ExportAPERO/>", "sparse/0"),
    "a.txt": ("# PhotoID, X, Y, Z, Omega, Phi, Kappa, r11\n", "Export Cameras"),
    "scene.opf": ("{}", "COLMAP"),
    "calibrated_cameras.json": ({"format": "", "sensors": [], "cameras": []}, "sparse/0"),
    "predictions.npz": ("", "cameras.json"),
    "000.npy": ("", "transforms.json"),
    "cam_poses.txt": ("0 1 0 0 0\n", "transforms.json"),
    "camera_keyframe_positions.hdf5": ("", "transforms.json"),
    "scan.r3d": ("", "metadata.json"),
    "synth_0.out": ("drews 1.0\n", "sparse/0"),
    "b.csv": ("#cameras 6\n#name,x,y,z,omega,phi,kappa\n", "sparse/0"),
    "metadata.json": ({"camera": {"focal_length": 35}, "instances": []}, "transforms.json"),
    "00000.json": ({"camera_data": {"cam2world": []}}, "transforms.json"),
    "scene_camera.json": ({"0": {"cam_K": []}}, "transforms.json"),
    "calib/pos_001.txt": ("1 0 0 0\n", "as P into cameras.json"),
    "train/pose/0.txt": ("1 0 0 0\n", "transforms.json"),
    "models.json": ([{"radial_distortion": [0, 0]}], "transforms.json"),
    "pose_left.txt": ("0 0 0 0 0 0 1\n", "transforms.json"),
    "cam0_to_world.txt": ("0 1 0 0 0\n", "transforms.json"),
    "undistorted_camera_parameters/a.conf": ("dataset matterport\n", "transforms.json"),
    "calibration_a.json": ({"cameras": [{"K": []}]}, "transforms.json"),
    "rendering_metadata.txt": ("30 20 0 .8 25\n", "transforms.json"),
    "closed_loop_trajectory.csv": ("graph_uid\n", "transforms.json"),
    "0.krtd": ("1 0 0\n", "K, R and t"),
    "zephyr.xmp": ("<camera><calibration fx='1'/></camera>", "sparse/0"),
    "results.npz": (f"PK{'0' * 99999}extrinsics.npyPK", "cameras.json"),
    "extrinsic.txt": ("frame cameraID r1,1 r1,2\n", "transforms.json"),
    "trajectory.json": ({"class_name": "PinholeCameraTrajectory", "parameters": []}, "world_to_"),
}


def test_files_that_are_not_read_are_named(tmp_path, monkeypatch, capsys):
    for number, (name, (content, advice)) in enumerate(UNREAD.items()):
        root = save_photos(tmp_path / str(number))
        put(root, name, content)
        with pytest.raises(ValueError, match=f"/{name} is of .*not read: .*{advice}") as caught:
            load_views(root)
        assert "\n" not in str(caught.value)
        with pytest.raises(ValueError, match=name):
            load_views(root, cameras=root / name)
        assert len(caught.value.unread) == 1
    # A model of COLMAP where hloc, ETH3D and scripts write it.
    root = save_photos(tmp_path / "hloc")
    put(root, "a/sfm/images.txt", "#   IMAGE_ID, QW, QX, QY, QZ, TX, TY, TZ, CAMERA_ID, NAME\n")
    with pytest.raises(ValueError, match=r"a/sfm/images.txt is of COLMAP .* as --cameras"):
        load_views(root)
    # Of others: a data set's metadata, subtitles, a table.
    root = save_photos(tmp_path / "others")
    put(root, "metadata.json", {"title": "a"})
    put(root, "a.csv", "name,price\n")
    put(root, "a.yaml", "name: a\n")
    for name in ("results.npz", "extrinsic.txt", "pos_of_lamps.txt"):
        put(root, name, "notes")
    for name in NAMES:  # captions and labels
        (root / "images" / name).rename(root / name)
        put(root, f"{name[:-4]}.txt", "a cow" if name == NAMES[0] else "0 .5 .5 .2 .2\n")
    put(root, "Thumbs.db", "SQLite")  # of systems and of albums
    put(root, "a.xml", "<annotation/>")
    put(root, "._cams.xml", "<chunk/>")
    with pytest.raises(ValueError, match="image folder without poses") as caught:
        load_views(root)
    assert caught.value.unread == ()
    # Commands that estimate cameras say it.
    stop = monkeypatch.setattr
    stop("gendr.cli.cameras.find_cameras", lambda *a, **o: (_ for _ in ()).throw(ValueError("end")))
    for command in (["cameras"], ["fit", "-o", "out"], ["splat", "-o", "out"]):
        monkeypatch.chdir(tmp_path)
        assert main([command[0], str(tmp_path / "0"), *command[1:]]) == 2
        said = capsys.readouterr().err
        assert "cameras.json is of OpenDroneMap and not read: it holds lenses only" in said
        assert "Poses are estimated instead" in said


def test_models_that_do_not_know_each_other(tmp_path):
    opensfm(save_photos(tmp_path))
    file = tmp_path / "opensfm/reconstruction.json"
    whole = json.loads(file.read_text())
    one = {**whole[0], "shots": dict(list(whole[0]["shots"].items())[:2])}
    file.write_text(json.dumps([one, *whole]))
    with pytest.warns(UserWarning, match="holds 2 models, of 2, 6 photos; the largest is used"):
        check(load_views(tmp_path, dtype=torch.float64), fy=FY, cx=CX, cy=CY)


def test_photos_that_are_not_there_are_named(tmp_path):
    """Whatever the file is, it is used for those that are there."""
    for write in (gaussians, opensfm, openmvg, meshroom, bundler, nvm, metashape):
        root = save_photos(tmp_path / write.__name__)
        write(root)
        (root / "images" / NAMES[2]).unlink()
        with pytest.warns(UserWarning, match=r"names 1 of . photos that are not in .*: .*IMG"):
            assert len(load_views(root)) == COUNT - 1
    for photo in (root / "images").iterdir():
        photo.unlink()
    with pytest.raises(ValueError, match=r"of the 6 photos that it names none is in .*\(IMG 0, "):
        load_views(root)


def test_lenses_of_visualsfm_that_are_bent(tmp_path):
    nvm(save_photos(tmp_path))
    text = (tmp_path / "model.nvm").read_text()
    for bend, message in (("0.1", r"the lens of .* is bent"), ("0_0", "0_0 is no number")):
        (tmp_path / "model.nvm").write_text(text.replace(" 0 0\n", f" {bend} 0\n", 1))
        with pytest.raises(ValueError, match=message):
            load_views(tmp_path)


@for_each(write=PROGRAMS, rotating=3)
def test_damaged_files_of_programs(tmp_path, write):
    """Cut off, a byte changed, a value replaced: read, or one line that names the file."""
    write(save_photos(tmp_path))
    if write is opensfm:
        (tmp_path / "cameras.json").unlink()
    files = [p for p in sorted(tmp_path.rglob("*")) if p.is_file() and p.suffix != ".png"]
    file = next(p for p in files if p.name != "list.txt" and p.name[0] != ".")
    whole = file.read_bytes()
    draw = random.Random(3)
    for trial in range(24):
        data = bytearray(whole)
        if trial < 8:
            data = data[: len(data) * trial // 8]
        elif trial < 16:
            for _ in range(5):
                data[draw.randrange(len(data))] = draw.randrange(256)
        else:
            old, new = draw.choice(
                [(b"[", b"{"), (b"0", b"NaN"), (b"7", b"1e999"), (b"1", b"-"), (b'"', b""),
                 (b"3", b"[]"), (b"48", b"0"), (b"fx", b"fz"), (b"64", b"9" * 400)]
            )  # fmt: skip
            data = bytearray(bytes(data).replace(old, new, draw.randrange(1, 9)))
        file.write_bytes(bytes(data))
        error = error_of(tmp_path)
        # What is known by its content only may not be known any more.
        unknown = write in (metashape, record3d, bundler_elsewhere) and hasattr(error, "unread")
        assert error is None or str(file) in str(error) or unknown, error
        assert "\n" not in str(error), error


def error_of(root):
    try:
        load_views(root, size=(6, 8))
    except ValueError as error:
        return error
    return None
