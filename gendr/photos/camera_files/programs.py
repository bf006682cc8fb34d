"""Reading the cameras that programs of photogrammetry write, as transforms files.

Each reader takes a file, its content and an `Index` of the photos. Worlds are kept as the files
have them, and no digit of a pose is lost. A kind of lens that no reader of transforms files knows
is passed on by its name, to be refused there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt

from gendr._common.arrays import read_array, read_arrays
from gendr._common.texts import numbers, read_text
from gendr.mesh.files.reports import warn_caller
from gendr.photos.camera_files.opencv import camera_to_world, from_opencv_json
from gendr.photos.camera_files.photos import Index

__all__ = [
    "of_bundler", "of_gaussians", "of_llff", "of_meshroom", "of_metashape", "of_neus", "of_neus2",
    "of_nvm", "of_openmvg", "of_opensfm", "of_polycam", "of_record3d",
]  # fmt: skip

Matrix = npt.NDArray[np.float64]
Meta = dict[str, Any]
# From a camera that looks along +z, y down, to one that looks along -z, y up, and back.
_FLIP = np.diag([1.0, -1.0, -1.0])


def _frame(
    name: str, rotation: Any, lens: Mapping[str, Any], shift: Any = None, eye: Any = None
) -> Meta:
    """An entry of a transforms file.

    Args:
        name: The photo.
        rotation: [3, 3], world to camera, x right, y down, z ahead.
        lens: What the entry says of it.
        shift: [3], added after the rotation; or else
        eye: [3], where the camera is.
    """
    turn = np.asarray(rotation, np.float64)
    if turn.shape != (3, 3):
        raise ValueError(f"the rotation of {name} must be 3 x 3")
    if eye is not None:
        shift = -turn @ np.asarray(eye, np.float64)
    pose = camera_to_world(turn, np.asarray(shift, np.float64))
    if eye is not None:  # as it is in the file, without rounding
        for row, value in zip(pose, np.asarray(eye, np.float64), strict=False):
            row[3] = float(value)
    return {"file_path": name, "transform_matrix": pose, **lens}


def _quaternion(w: float, x: float, y: float, z: float) -> Matrix:
    from scipy.spatial.transform import Rotation

    return Rotation.from_quat([x, y, z, w]).as_matrix()


def _named(names: Sequence[str], values: Sequence[Any]) -> dict[str, float]:
    """Coefficients by their names, as many as there are."""
    if len(values) > len(names) and any(float(value) for value in values[len(names) :]):
        raise ValueError(f"a lens has {len(values)} coefficients, more than {' '.join(names)}")
    return {name: float(value) for name, value in zip(names, values, strict=False)}


def _largest(parts: Sequence[Any], count: Callable[[Any], int], file: Path) -> Any:
    """Of models that do not know each other that of most photos, with a warning."""
    best = max(parts, key=count)
    if sum(count(part) > 0 for part in parts) > 1:
        counts = ", ".join(str(count(part)) for part in parts)
        warn_caller(f"{file} holds {len(parts)} models, of {counts} photos; the largest is used")
    return best


# -- 3D Gaussian splatting -------------------------------------------------------------------------


def of_gaussians(file: Path, content: list[Any], photos: Index) -> Meta:
    """cameras.json of 3DGS: `rotation` and `position` are camera to world, y down, z ahead."""
    frames: list[Meta] = []
    for each in content:
        lens = {
            "w": each["width"],
            "h": each["height"],
            "fl_x": float(each["fx"]),
            "fl_y": float(each["fy"]),
        }
        name = photos.photo(str(each["img_name"]))
        turn = np.asarray(each["rotation"], np.float64).T
        frames.append(_frame(name, turn, lens, eye=each["position"]))
    return {"frames": frames}


# -- OpenSfM and OpenDroneMap ----------------------------------------------------------------------

_OPENSFM = {
    "perspective": ("RADIAL", "k1 k2"),
    "simple_radial": ("RADIAL", "k1"),
    "radial": ("RADIAL", "k1 k2"),
    "brown": ("OPENCV", "k1 k2 k3 p1 p2"),
    "fisheye": ("OPENCV_FISHEYE", "k1 k2"),
    "fisheye_opencv": ("OPENCV_FISHEYE", "k1 k2 k3 k4"),
}


def of_opensfm(file: Path, content: list[Any], photos: Index) -> Meta:
    """reconstruction.json: focal lengths and principal points are parts of the longer side."""
    from scipy.spatial.transform import Rotation

    model = _largest(content, lambda part: len(part["shots"]), file)
    frames: list[Meta] = []
    for name, shot in model["shots"].items():
        lens = model["cameras"][shot["camera"]]
        kind = lens["projection_type"]
        width, height = float(lens["width"]), float(lens["height"])
        side = max(width, height)
        focal = lens.get("focal", lens.get("focal_x"))
        entries: Meta = {"w": width, "h": height, "camera_model": kind}
        if kind in _OPENSFM:
            model_name, bends = _OPENSFM[kind]
            entries |= {
                "camera_model": model_name,
                "fl_x": side * float(focal),
                "fl_y": side * float(lens.get("focal_y", focal)),
                "cx": width / 2 + side * float(lens.get("c_x", 0)),
                "cy": height / 2 + side * float(lens.get("c_y", 0)),
                **{key: float(lens.get(key, 0)) for key in bends.split()},
            }
        turn = Rotation.from_rotvec(np.asarray(shot["rotation"], np.float64)).as_matrix()
        frames.append(_frame(photos.photo(name), turn, entries, shift=shot["translation"]))
    return {"frames": frames}


# -- OpenMVG ---------------------------------------------------------------------------------------

_OPENMVG = {
    "pinhole": ("PINHOLE", "", ""),
    "pinhole_radial_k1": ("RADIAL", "disto_k1", "k1"),
    "pinhole_radial_k3": ("OPENCV", "disto_k3", "k1 k2 k3"),
    "pinhole_brown_t2": ("OPENCV", "disto_t2", "k1 k2 k3 p1 p2"),
    "fisheye": ("OPENCV_FISHEYE", "fisheye", "k1 k2 k3 k4"),
}


def of_openmvg(file: Path, content: Meta, photos: Index) -> Meta:
    """sfm_data.json; what cereal writes names a class once, and then by its number.

    The centre of the first pixel is (0, 0) (Camera_undistort_image.hpp samples pixels there).
    """
    kinds: dict[int, str] = {}

    def parts(value: Meta) -> tuple[str, Meta]:
        number = int(value.get("polymorphic_id", 0)) & 0x7FFFFFFF
        name = kinds.setdefault(number, str(value.get("polymorphic_name", "")))
        data = dict(value["ptr_wrapper"]["data"])
        return name, {**data.pop("value0", {}), **data}

    lenses: dict[int, Meta] = {}
    for each in content["intrinsics"]:
        kind, data = parts(each["value"])
        entries: Meta = {"w": data["width"], "h": data["height"], "camera_model": kind}
        if kind in _OPENMVG:
            model, key, bends = _OPENMVG[kind]
            cx, cy = data["principal_point"]
            entries |= {
                "camera_model": model,
                "fl_x": float(data["focal_length"]),
                "cx": float(cx) + 0.5,
                "cy": float(cy) + 0.5,
                **_named(bends.split(), data[key] if key else ()),
            }
        lenses[each["key"]] = entries
    poses = {each["key"]: each["value"] for each in content["extrinsics"]}
    frames: list[Meta] = []
    for each in content["views"]:
        data = each["value"]["ptr_wrapper"]["data"]
        data = {**data.get("value0", {}), **data}
        if data["id_pose"] in poses and data["id_intrinsic"] in lenses:
            pose = poses[data["id_pose"]]
            name = photos.photo("/".join(filter(None, [data.get("local_path"), data["filename"]])))
            lens = lenses[data["id_intrinsic"]]
            frames.append(_frame(name, pose["rotation"], lens, eye=pose["center"]))
    return {"frames": frames}


# -- Meshroom (AliceVision) ------------------------------------------------------------------------

_MESHROOM = {
    "pinhole": ("PINHOLE", ""),
    "radial1": ("RADIAL", "k1"),
    "radial3": ("OPENCV", "k1 k2 k3"),
    "brown": ("OPENCV", "k1 k2 k3 p1 p2"),
    "fisheye4": ("OPENCV_FISHEYE", "k1 k2 k3 k4"),
}
# Later files have the type "pinhole" for all of these, and a distortionType.
_MESHROOM_BENT = {
    "none": "pinhole",
    "radialk1": "radial1",
    "radialk3": "radial3",
    "brown": "brown",
    "fisheye": "fisheye4",
}


def of_meshroom(file: Path, content: Meta, photos: Index) -> Meta:
    """cameras.sfm: numbers are texts, matrices stand column by column.

    Focal lengths are pixels before version 1.2.2 and then millimetres; the principal point is
    counted from the middle since 1.2.1, with the centre of the first pixel at (0, 0), as in
    OpenMVG (cameraUndistortImage.hpp). `pixelRatio` is that of the sides of a pixel since 1.2.5,
    before that of the focal lengths; since 1.2.11 millimetres are those of the vertical one.
    """
    version = tuple(int(part) for part in content["version"])
    lenses = {each["intrinsicId"]: _meshroom_lens(each, version) for each in content["intrinsics"]}
    poses = {each["poseId"]: each["pose"]["transform"] for each in content["poses"]}
    frames: list[Meta] = []
    for view in content["views"]:
        if view.get("poseId") not in poses or view.get("intrinsicId") not in lenses:
            continue
        if str(view.get("isPoseIndependant", "true")).lower() in ("0", "false"):
            raise ValueError("its cameras are of a rig; export them without it")
        pose = poses[view["poseId"]]
        turn = np.array(pose["rotation"], np.float64).reshape(3, 3).T
        eye = np.array(pose["center"], np.float64)
        lens = lenses[view["intrinsicId"]]
        frames.append(_frame(photos.photo(view["path"]), turn, lens, eye=eye))
    return {"frames": frames}


def _meshroom_lens(each: Meta, version: tuple[int, ...]) -> Meta:
    width, height = float(each["width"]), float(each["height"])
    kind = str(each["type"])
    if kind == "pinhole" and each.get("distortionType"):
        kind = str(each["distortionType"])
        kind = _MESHROOM_BENT.get(kind, kind)
    if str(each.get("undistortionType") or "none") != "none":
        kind = str(each["undistortionType"])
    bends = each.get("distortionParams") or ()
    lens: Meta = {"w": width, "h": height, "camera_model": kind}
    if kind not in _MESHROOM:
        return lens
    if version < (1, 2, 2):
        focal = np.array(each["pxFocalLength"], np.float64).reshape(-1)
        fx, fy = float(focal[0]), float(focal[-1])
    else:
        fx = float(each["focalLength"]) / float(each.get("sensorWidth", 36)) * width
        ratio = float(each.get("pixelRatio", 1))
        fx = fx if version < (1, 2, 11) else fx / ratio
        fy = fx / ratio if version < (1, 2, 5) else fx * ratio
    cx, cy = (float(part) for part in each["principalPoint"])
    if version >= (1, 2, 1):
        cx, cy = cx + width / 2, cy + height / 2
    model, names = _MESHROOM[kind]
    bent = _named(names.split(), bends)
    centre = {"cx": cx + 0.5, "cy": cy + 0.5}
    return {**lens, "camera_model": model, "fl_x": fx, "fl_y": fy, **centre, **bent}


# -- Metashape -------------------------------------------------------------------------------------


def of_metashape(file: Path, photos: Index) -> Meta:
    """cameras.xml of Agisoft Metashape, in the coordinates of its chunk.

    Lenses: Metashape User Manual, appendix "Camera models": the principal point is counted from the
    middle; tangential terms are OpenCV's with p1 and p2 exchanged; b1 is added to the horizontal
    focal length, b2 is the skew. A fisheye is equidistant, its terms in powers of the angle.
    """
    text = read_text(file)
    if "<!ENTITY" in text:
        raise ValueError("it defines entities, which no such file does")
    root = ElementTree.fromstring(text)
    chunks = [root] if root.tag == "chunk" else root.findall("chunk")
    if not chunks:
        raise ValueError("it has no chunk; export it by File > Export > Export Cameras")
    chunk = _largest(chunks, lambda part: len(_aligned(part)), file)
    groups: dict[str, list[ElementTree.Element]] = {}
    for camera in _aligned(chunk):
        groups.setdefault(camera.get("component_id", ""), []).append(camera)
    if not groups:
        raise ValueError("it holds no camera with a transform")
    if any(each.get("master_id") is not None for each in chunk.iterfind("cameras//camera")):
        raise ValueError("its cameras are of a rig; export them as COLMAP")
    sensors = {each.get("id"): each for each in chunk.iterfind("sensors/sensor")}
    frames: list[Meta] = []
    for camera in _largest(list(groups.values()), len, file):
        pose = np.array(numbers(camera.findtext("transform", ""))).reshape(4, 4)
        lens = _metashape_lens(sensors[camera.get("sensor_id")])
        turn = pose[:3, :3].T
        frames.append(_frame(photos.photo(camera.get("label", "")), turn, lens, eye=pose[:3, 3]))
    return {"frames": frames}


def _aligned(chunk: ElementTree.Element) -> list[ElementTree.Element]:
    return [each for each in chunk.iterfind("cameras//camera") if each.findtext("transform")]


def _metashape_lens(sensor: ElementTree.Element) -> Meta:
    size = sensor.find("resolution")
    found = {each.get("class", ""): each for each in sensor.iterfind("calibration")}
    calibration = found.get("adjusted", found.get("", found.get("initial")))
    kind = sensor.get("type", "frame")
    if calibration is None or size is None:
        if kind not in ("frame", "fisheye"):  # such as spherical ones, which have no calibration
            return {"camera_model": kind}
        raise ValueError(f"its sensor {sensor.get('label', '')!r:.40} is not calibrated")
    if calibration.find("f") is None and calibration.find("fx") is not None:
        raise ValueError("its lenses are of PhotoScan before 1.2; export the cameras again")
    within = calibration.find("resolution")
    size = size if within is None else within  # an element without children is false
    width, height = float(size.attrib["width"]), float(size.attrib["height"])
    kind = calibration.get("type", kind)
    lens: Meta = {"w": width, "h": height, "camera_model": kind}

    def number(name: str) -> float:
        return numbers(calibration.findtext(name, "0"))[0]

    shutter = sensor.find("property[@name='rolling_shutter']")
    lens["rolling_shutter"] = shutter is not None and shutter.get("value") in ("true", "1")
    if kind not in ("frame", "fisheye"):
        return lens
    bends = {name: number(name) for name in ("k1", "k2", "k3", "k4")}
    bends |= {"p1": number("p2"), "p2": number("p1")}
    if not bends["k4"]:
        del bends["k4"]  # a name of another term in some models
    if number("p3") or number("p4"):
        bends["p3"] = number("p3") or number("p4")
    return {
        **lens,
        "camera_model": "OPENCV" if kind == "frame" else "OPENCV_FISHEYE",
        "fl_x": number("f") + number("b1"),
        "fl_y": number("f"),
        "cx": width / 2 + number("cx"),
        "cy": height / 2 + number("cy"),
        "skew": number("b2"),
        **bends,
    }


# -- phones ----------------------------------------------------------------------------------------


def of_polycam(file: Path, content: Meta, photos: Index) -> Meta:
    """keyframes/cameras/N.json of Polycam: camera to world, y up, looking along -z, of ARKit.

    Args:
        file: That of one photo; the others are beside it.
        content: Of this one.
        photos: The photos, in keyframes/images.
    """
    import json

    place = "keyframes/" + file.parent.name.replace("cameras", "images")
    frames: list[Meta] = []
    for each in sorted(file.parent.glob("*.json")):
        if each.name.startswith("."):
            continue
        one = content if each == file else json.loads(read_text(each))
        missing = [key for key in ("fx", "t_00", "t_23") if key not in one]
        if missing:
            raise ValueError(f"{each.name} has no {missing[0]}")
        rows = [[float(one[f"t_{i}{j}"]) for j in range(4)] for i in range(3)]
        frames.append(
            {
                "file_path": photos.get(f"{place}/{each.stem}.jpg") or photos.photo(each.stem),
                "transform_matrix": [*rows, [0.0, 0.0, 0.0, 1.0]],
                "fl_x": one["fx"],
                "fl_y": one["fy"],
                "cx": one["cx"],
                "cy": one["cy"],
                "w": one["width"],
                "h": one["height"],
            }
        )
    return {"frames": frames}


def of_record3d(file: Path, content: Meta, photos: Index) -> Meta:
    """metadata.json of Record3D: quaternions x y z w and places, y up, looking along -z.

    K stands column by column; the photos are rgb/0.jpg, ... Of a lens that focuses,
    `perFrameIntrinsicCoeffs` has fx, fy, cx, cy of each photo.
    """
    k = np.array(content["K"], np.float64).reshape(3, 3).T
    lens = {"w": content["w"], "h": content["h"], "fl_x": k[0, 0], "fl_y": k[1, 1]}
    lens |= {"cx": k[0, 2], "cy": k[1, 2]}
    each = content.get("perFrameIntrinsicCoeffs") or []
    if len(each) not in (0, len(content["poses"])):
        raise ValueError(f"it has {len(content['poses'])} poses and {len(each)} lenses")
    frames: list[Meta] = []
    for i, (*turn, x, y, z) in enumerate(content["poses"]):
        if each:
            lens |= dict(zip(("fl_x", "fl_y", "cx", "cy"), map(float, each[i][:4]), strict=True))
        x0, y0, z0, w0 = map(float, turn)
        world = _quaternion(w0, x0, y0, z0)  # camera to world
        name = photos.photo(f"{file.parent.name}/rgb/{i}")  # also in a folder EXR_RGBD
        frames.append(_frame(name, (world @ _FLIP).T, lens, eye=[x, y, z]))
    return {"frames": frames}


# -- matrices in the order of the photos -----------------------------------------------------------


def _in_order(photos: Index, count: int, place: str | None = None) -> list[str]:
    names = photos.in_order(place)
    if len(names) != count:
        raise ValueError(
            f"it holds {count} cameras for the photos in the order of their names, of which there "
            f"are {len(names)}"
        )
    return names


def of_llff(file: Path, photos: Index) -> Meta:
    """poses_bounds.npy of LLFF: a row of 3 x 5 numbers, and two, for each photo.

    The columns of the former are the camera's axes down, right and back in the world, its place,
    and height, width and focal length.
    """
    table = read_array(file)
    if table.ndim != 2 or table.shape[1] != 17 or not np.isfinite(table).all():
        raise ValueError("it must hold rows of 17 finite numbers")
    frames: list[Meta] = []
    for name, row in zip(_in_order(photos, len(table)), table.astype(np.float64), strict=True):
        down, right, back, eye, (height, width, focal) = row[:15].reshape(3, 5).T
        lens = {"w": float(width), "h": float(height), "fl_x": float(focal)}
        frames.append(_frame(name, np.stack([right, down, -back]), lens, eye=eye))
    return {"frames": frames}


def of_neus(file: Path, photos: Index) -> Meta:
    """cameras_sphere.npz of NeuS and IDR: world_mat_i, K [R | t], of the photos in `image`.

    The world is that of world_mat; scale_mat_i, which would take the object to a unit ball, is not
    used. Masks are those in `mask`, if there are as many.
    """
    # Others than these may be Python objects, which are not read.
    arrays = read_arrays(file, lambda name: name.startswith("world_mat_") and name[10:].isdigit())
    count = len(arrays)
    matrices = [np.asarray(arrays[f"world_mat_{i}"], np.float64)[:3] for i in range(count)]
    if not matrices:
        raise ValueError("it has no world_mat_0")
    names, masks = _in_order(photos, count), photos.in_order("mask")
    images: list[Meta] = []
    for i, (name, matrix) in enumerate(zip(names, matrices, strict=True)):
        part = matrix[:, :3] @ matrix[:, :3].T
        if np.allclose(part, part[0, 0] * np.eye(3), rtol=0, atol=1e-3 * abs(part[0, 0])):
            raise ValueError("its world_mat hold no focal length (DVR); give K [R | t]")
        images.append({"file": name, "P": matrix.tolist()})
        if len(masks) == count:
            images[-1]["mask"] = masks[i]
    return from_opencv_json(file, {"images": images})


def of_neus2(content: Meta) -> Meta:
    """transforms.json of NeuS2 with `from_na`: camera to world with y down and z ahead.

    Without a focal length of all, `intrinsic_matrix` has that of each photo (nerf_loader.h, .cu).
    """
    frames: list[Meta] = []
    of_all = any(key in content for key in ("fl_x", "fl_y", "camera_angle_x", "camera_angle_y"))
    for each in content["frames"]:
        pose = np.asarray(each["transform_matrix"], np.float64)
        frames.append({**each, "transform_matrix": (pose * [1, -1, -1, 1]).tolist()})
        if not of_all and "intrinsic_matrix" in each:
            k = np.asarray(each["intrinsic_matrix"], np.float64)
            lens = {"fl_x": k[0, 0], "fl_y": k[1, 1], "cx": k[0, 2], "cy": k[1, 2]}
            frames[-1] |= {"skew": float(k[0, 1]), **{key: float(x) for key, x in lens.items()}}
    return {**content, "frames": frames}


# -- Bundler and VisualSFM -------------------------------------------------------------------------


def of_bundler(file: Path, photos: Index) -> Meta:
    """bundle.out: f k1 k2, R and t of each camera, which looks along -z, y up.

    Names are those of a file list.txt; those of the photos in their order without one.
    """
    lines = [line for line in read_text(file).split("\n") if not line.startswith("#")]
    words = " ".join(lines).split()
    count = int(words[0]) if words else 0
    values = np.array(numbers(" ".join(words[2 : 2 + 15 * count])))
    if not len(values) or len(values) < 15 * count:
        raise ValueError(f"it announces {count} cameras and holds {len(values) // 15}")
    rows = values.reshape(-1, 15)
    stem = file.name.removesuffix(".out").removesuffix(".bundle")
    places = [file.with_name(name) for name in ("list.txt", f"{file.name}.list.txt",
                                                f"{stem}.list.txt")]  # fmt: skip
    places += [file.parent.parent / "list.txt"]
    given = next((place for place in places if place.is_file()), None)
    if given is not None:
        listed = [line.strip() for line in read_text(given).split("\n") if line.strip()]
        if len(listed) != count:
            raise ValueError(f"it holds {count} cameras and {given.name} {len(listed)} names")
        names = [photos.photo(_listed(line)) for line in listed]
    else:
        names = _in_order(photos, count)
        warn_caller(f"{file} has no list.txt beside it: its cameras are taken for the photos in "
                    "the order of their names")  # fmt: skip
    frames: list[Meta] = []
    for name, row in zip(names, rows, strict=True):
        if row[0]:  # 0 of photos that were not placed
            lens = _named(("fl_x", "k1", "k2"), row[:3].tolist())
            turn = _FLIP @ row[3:12].reshape(3, 3)
            frames.append(_frame(name, turn, lens, shift=_FLIP @ row[12:]))
    return {"frames": frames}


def _listed(line: str) -> str:
    """The name in a line of list.txt, after which 0 and a focal length may stand."""
    words = line.rsplit(maxsplit=2)
    return words[0] if len(words) == 3 and words[1] == "0" else line


def of_nvm(file: Path, photos: Index) -> Meta:
    """NVM_V3 of VisualSFM: name, f, quaternion w x y z, place, distortion and 0 of each camera.

    The distortion is of what is measured, the other way round than in all lenses known here, so
    that it must be 0.
    """
    lines = iter(read_text(file).split("\n"))
    head = next(lines).split()
    if head[:1] != ["NVM_V3"]:
        raise ValueError("it does not begin with NVM_V3")
    fixed: Meta = {}
    if head[1:2] == ["FixedK"]:
        fixed = dict(zip(("fl_x", "cx", "fl_y", "cy"), numbers(" ".join(head[2:6])), strict=True))
    models: list[list[str]] = []
    filled: Iterator[str] = (line for line in lines if line.strip())
    for line in filled:
        if not line.strip().isdigit() or not (count := int(line)):
            break
        model = [each for _, each in zip(range(count), filled, strict=False)]
        if len(model) < count:
            raise ValueError(f"it announces {count} cameras and ends after {len(model)}")
        models.append(model)
        for _ in range(int(next(filled, "0"))):  # points
            if next(filled, None) is None:
                break
    if not models:
        raise ValueError("it holds no cameras")
    frames: list[Meta] = []
    for line in _largest(models, len, file):
        name, *words = line.rsplit(maxsplit=10)
        focal, w, x, y, z, *eye, bend, _ = numbers(" ".join(words))
        if bend:
            raise ValueError(
                f"the lens of {name:.60} is bent, in a way that is not known here; let VisualSFM "
                "undistort the photos (Reconstruct Dense, .cmvs: txt of PMVS are read)"
            )
        found = photos.photo(name.replace('"', " "))
        frames.append(_frame(found, _quaternion(w, x, y, z), {"fl_x": focal} | fixed, eye=eye))
    return {"frames": frames}
