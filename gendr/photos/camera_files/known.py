"""The files in which programs of this field keep cameras: who reads each, or why nobody does.

JSON files are told apart by what they hold, others by their names. A file that is known and not
read is named, with what to do, so that nobody's poses are estimated anew in silence.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from gendr._common.texts import read_text
from gendr.photos.camera_files.opencv import OPENCV, from_opencv_json
from gendr.photos.camera_files.photos import Index
from gendr.photos.camera_files.programs import (
    of_bundler,
    of_gaussians,
    of_llff,
    of_meshroom,
    of_metashape,
    of_neus,
    of_neus2,
    of_nvm,
    of_openmvg,
    of_opensfm,
    of_polycam,
    of_record3d,
)

__all__ = ["LAYOUT", "UnknownError", "UnreadError", "find_known", "find_unread", "read_known"]

LAYOUT = (
    "it must hold frames, each with file_path and transform_matrix (4 x 4, camera to world, "
    "OpenGL), and camera_angle_x or fl_x"
)
# Cameras of thousands of photos have less.
_LARGEST = 1 << 30

Meta = dict[str, Any]


class UnreadError(ValueError):
    """A file that is of a known kind and not read."""


class UnknownError(ValueError):
    """A file that is of no kind that is known here."""


# -- JSON ------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class _Json:
    """JSON of a program.

    Attributes:
        program: Who writes it.
        holds: Keys of the object, or of the first one of a list.
        is_list: Whether it is a list of objects.
        read: Its reader; None if it is not read.
        advice: What to do if it is not.
    """

    program: str
    holds: tuple[str, ...]
    is_list: bool = False
    read: Callable[[Path, Any, Index], Meta] | None = None
    advice: str = ""

    def fits(self, content: Any) -> bool:
        if self.is_list != isinstance(content, list):
            return False
        first = content[0] if self.is_list and content else content
        return isinstance(first, dict) and all(key in first for key in self.holds)


_JSON = (
    _Json("3D Gaussian splatting", ("img_name", "position", "rotation", "fx"), True, of_gaussians),
    _Json("OpenSfM", ("cameras", "shots"), True, of_opensfm),
    _Json("OpenMVG", ("views", "intrinsics", "extrinsics"), read=of_openmvg),
    _Json("Meshroom", ("version", "views", "intrinsics", "poses"), read=of_meshroom),
    _Json("Meshroom", ("version", "views"), advice="it holds no poses: take cameras.sfm of the node"
          " StructureFromMotion, or sfm.json of ConvertSfMFormat"),
    _Json("Record3D", ("K", "poses", "w", "h"), read=of_record3d),
    _Json("Polycam", ("t_00", "fx"), read=of_polycam),
    _Json("ns-export cameras", ("file_path", "transform"), True, advice="it holds no focal lengths,"
          " and poses in nerfstudio's scaled world: take the transforms.json of ns-process-data"),
    _Json("nerfstudio", ("camera_path",), advice="it is a path for a film, not of photos: take the "
          "transforms.json of ns-process-data"),
    _Json("instant-ngp", ("path",), advice="it is a path for a film, not of photos: take the "
          "transforms.json that colmap2nerf.py writes"),
    _Json("Nerfies", ("orientation", "position", "focal_length"), advice="convert it to "
          "transforms.json"),
    _Json("Open3D", ("class_name", "parameters"), advice="write intrinsic_matrix as K and "
          "extrinsic as world_to_camera, both by rows, into cameras.json"),
    _Json("Pix4D", ("format", "sensors", "cameras"), advice="export the cameras as COLMAP's text "
          "into sparse/0"),
    _Json("Kubric", ("camera", "instances"), advice="write transforms.json"),
    _Json("RTMV or NViSII", ("camera_data",), advice="write transforms.json"),
    _Json("Kapture, hloc or others", ("query", "references"), advice="convert it to COLMAP"),
)  # fmt: skip
# In the folder of photos, the first that is there; these are told apart by what they hold.
_NAMES = (
    OPENCV, "reconstruction.json", "opensfm/reconstruction.json", "sfm_data.json",
    "cameras.sfm", "sfm.json", "*.sfm", "metadata.json", "EXR_RGBD/metadata.json",
    "keyframes/corrected_cameras/*.json", "keyframes/cameras/*.json",
)  # fmt: skip
_PATHS = ("transforms_train.json", "transforms_eval.json", "camera_path.json", "base_cam.json",
          "camera/*.json", "trajectory.json", "calibrated_cameras.json", "00000.json")  # fmt: skip
_OF_ODM = (
    "it holds lenses only: take opensfm/reconstruction.json of the same project, for the photos in "
    "images"
)


def load_json(file: Path) -> Any:
    """The content of a JSON file.

    Raises:
        ValueError: If it is none.
    """
    try:
        return json.loads(read_text(file))
    except RecursionError:
        raise ValueError(f"{file} is no transforms file: its JSON is nested too deeply") from None
    except ValueError as error:  # no JSON, or a number of thousands of digits
        raise ValueError(f"{file} is no JSON file: {error}") from None


def read_json(file: Path, root: Path) -> Meta:
    """A JSON file of cameras, whoever wrote it, as the content of a transforms file.

    Raises:
        UnreadError: If it is of a known kind that is not read.
        UnknownError: If it is of no known kind.
        ValueError: If it is damaged.
    """
    content = load_json(file)
    if isinstance(content, dict):
        if isinstance(content.get("frames"), list) and content["frames"]:
            if content.get("from_na"):
                return _guarded("NeuS2", file, lambda: of_neus2(content))
            return content
        if "frames" not in content and "images" in content:
            return from_opencv_json(file, content)
        kinds = [each for each in content.values() if isinstance(each, dict)]
        if kinds and all("projection_type" in each for each in kinds):
            raise UnreadError(f"{file} is of OpenDroneMap and not read: {_OF_ODM}")
    kind = next((kind for kind in _JSON if kind.fits(content)), None)
    if kind is None:
        raise UnknownError(
            f"{file} has no frames, nor is it of another program that is known; {LAYOUT}"
        )
    if kind.read is None:
        raise UnreadError(f"{file} is of {kind.program} and not read: {kind.advice}")
    return _guarded(kind.program, file, lambda read=kind.read: read(file, content, Index(root)))


# -- other files -----------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class _Known:
    """A kind of file.

    Attributes:
        program: Who writes it.
        patterns: Where it is in the folder of photos.
        read: Its reader; None if it is not read.
        advice: What to do if it is not.
        says: What stands in it, one of several, if its name is that of others too.
    """

    program: str
    patterns: tuple[str, ...]
    read: Callable[[Path, Index], Meta] | None = None
    advice: str = "write transforms.json"
    says: bytes | tuple[bytes, ...] = b""


_COLMAP = "export the cameras as COLMAP's text (cameras.txt and images.txt) into sparse/0"
_ELSEWHERE = "it lies in a folder of another name: give it as --cameras"
_KNOWN = (
    _Known("LLFF", ("poses_bounds.npy",), of_llff),
    _Known("NeuS", ("cameras_sphere.npz", "cameras.npz"), of_neus),
    _Known("Bundler", ("bundle.out", "*.bundle.out", "bundle/bundle.out", "bundle.rd.out"),
           of_bundler),
    _Known("Bundler", ("*.out",), of_bundler, says=b"# Bundle file"),
    _Known("VisualSFM", ("*.nvm",), of_nvm),
    _Known("Metashape", ("*.xml",), of_metashape, says=b"<chunk"),
    _Known("Metashape", ("*.psx", "*.psz"), advice="it is a project: File > Export > Export Cameras"
           " writes cameras.xml, which is read"),
    _Known("RealityScan or RealityCapture", ("*.csv",), advice=_COLMAP,
           says=(b"heading,pitch,roll", b"#name,x,y")),
    _Known("RealityScan or RealityCapture", ("*.xmp", "images/*.xmp"), advice=_COLMAP,
           says=b"xcr:Rotation"),
    _Known("RealityScan or RealityCapture", ("*.rcproj", "*.rsproj"), advice=_COLMAP),
    _Known("ContextCapture", ("*.xml",), advice=_COLMAP, says=b"<BlocksExchange"),
    _Known("Pix4D", ("*calibrated_camera_parameters.txt", "*_pmatrix.txt", "*.p4d",
                     "*calibrated_external_camera_parameters.txt", "*.opf"),
           advice="convert it to COLMAP's text, or its pmatrix to projections.txt"),
    _Known("3DF Zephyr", ("*.zep",), advice=_COLMAP),
    _Known("COLMAP", ("*.db", "distorted/*.db", "colmap/*.db"), advice="a database holds features, "
           "not poses: run colmap mapper, and copy its sparse/0 here", says=b"keypoints"),
    _Known("COLMAP", ("cameras.txt", "cameras.bin", "sparse/cameras.txt", "sparse/cameras.bin",
                      "sparse/0/cameras.txt", "sparse/0/cameras.bin"),
           advice="images.txt or images.bin, with the poses, is not beside it"),
    _Known("Meshroom", ("*.abc",), advice="take cameras.sfm of the node StructureFromMotion"),
    _Known("Meshroom", ("*.mg",), advice="it is a project: take cameras.sfm of its node "
           "StructureFromMotion, in MeshroomCache"),
    _Known("OpenMVG", ("sfm_data.bin",), advice="openMVG_main_ConvertSfM_DataFormat writes "
           "sfm_data.json, which is read"),
    _Known("MVE", ("views/*.mve/meta.ini", "synth_*.out"), advice=_COLMAP),
    _Known("OpenMVS", ("*.mvs",), advice=_COLMAP),
    _Known("MVSNet", ("cams/*_cam.txt", "Cameras/*_cam.txt", "cams_*/*_cam.txt"),
           advice="write K, R and t into cameras.json"),
    _Known("ScanNet or NSVF", ("pose/*.txt",)),
    _Known("Tanks and Temples", ("*.log",), advice="it holds no focal lengths: write "
           "transforms.json", says=b"0 0 0\n"),
    _Known("Kapture", ("sensors/trajectories.txt",), advice="kapture_export_colmap.py writes "
           "COLMAP's text"),
    _Known("3D Scanner App", ("frame_*.json", "images/frame_*.json"), says=b"cameraPoseARFrame"),
    _Known("Stray Scanner", ("odometry.csv",)),
    _Known("ARKitScenes", ("*.traj", "*_intrinsics/*.pincam")),
    _Known("SDFStudio", ("meta_data.json",), advice="write K and world_to_camera into cameras.json",
           says=b"camtoworld"),
    _Known("TUM RGB-D", ("groundtruth.txt",)),
    _Known("KITTI", ("poses.txt", "poses/*.txt")),
    _Known("SLAM, such as Replica or ORB-SLAM", ("traj.txt", "*Trajectory.txt", "pred_traj.txt")),
    _Known("7-Scenes or BundleFusion", ("*.pose.txt", "seq-*/*.pose.txt")),
    _Known("Strecha et al.", ("*.camera", "images/*.camera"), advice="write K, R^T and -R^T t into "
           "cameras.json"),
    _Known("Kalibr, ROS or EuRoC", ("*.yaml", "*.yml", "cam0/sensor.yaml", "mav0/cam0/sensor.yaml"),
           advice="it holds lenses only: write them and poses into cameras.json",
           says=(b"distortion_model", b"camera_matrix:", b"intrinsics:", b"Camera.fx",
                 b"Camera1.fx")),
    _Known("EuRoC", ("state_groundtruth_estimate0/data.csv",
                     "mav0/state_groundtruth_estimate0/data.csv"), advice="it holds the poses of "
           "the body: write those of the cameras into transforms.json"),
    _Known("RealEstate10K or ACID", ("*.txt",), advice="its focal lengths are parts of the photo: "
           "write transforms.json", says=b"youtube.com/watch"),
    _Known("ScanNet++ or others",
           ("nerfstudio/transforms*.json", "dslr/nerfstudio/transforms*.json"),
           advice="give the folder of its photos, and this file as --cameras"),
    _Known("COLMAP", ("*/images.bin", "*/*/images.bin", "*/*/*/images.bin"), advice=_ELSEWHERE),
    _Known("COLMAP", ("*/images.txt", "*/*/images.txt", "*/*/*/images.txt"), advice=_ELSEWHERE,
           says=b"IMAGE_ID, QW"),
    _Known("ScanNet++", ("pose_intrinsic_imu.json", "iphone/pose_intrinsic_imu.json"),
           advice="take iphone/colmap", says=b"aligned_pose"),
    _Known("DROID-SLAM, DUSt3R, VGGT or others of them",
           ("poses.npy", "extrinsics.npy", "predictions.npz", "scene.npz", "camera/*.npz"),
           advice="write K and world_to_camera into cameras.json"),
    _Known("Depth Anything 3", ("results.npz", "exports/npz/results.npz"), advice="write K and "
           "world_to_camera into cameras.json", says=b"extrinsics.npy"),
    _Known("Zero-1-to-3 or OpenLRM", ("000.npy", "pose/*.npy")),
    _Known("WildRGB-D", ("cam_poses.txt",)),
    _Known("Hypersim", ("camera_keyframe_positions.hdf5", "_detail/*/*_positions.hdf5")),
    _Known("BOP", ("scene_camera.json",)),
    _Known("DTU", ("calib/pos_*.txt", "pos_[0-9]*.txt", "Calibration/*/pos_*.txt"),
           advice="write each matrix as P into cameras.json"),
    _Known("NeRF++ or Mega-NeRF", ("train/pose/*.txt", "train/metadata/*.pt")),
    _Known("immersive light fields or Spaces", ("models.json",), says=b"radial_distortion"),
    _Known("TartanAir", ("pose_left.txt", "pose_lcam_*.txt")),
    _Known("KITTI-360", ("cam0_to_world.txt",)),
    _Known("Virtual KITTI", ("extrinsic.txt",), says=b" r1,1 "),
    _Known("Matterport3D", ("undistorted_camera_parameters/*.conf",)),
    _Known("CMU Panoptic", ("calibration_*.json",), says=b'"K"'),
    _Known("ZJU-MoCap", ("annots.npy",)),
    _Known("3D-R2N2", ("rendering_metadata.txt", "rendering/rendering_metadata.txt")),
    _Known("Project Aria", ("closed_loop_trajectory.csv",)),
    _Known("KWIVER", ("*.krtd", "images/*.krtd"), advice="write K, R and t into cameras.json"),
    _Known("3DF Zephyr", ("*.xmp", "images/*.xmp"), advice=_COLMAP, says=b"<calibration"),
    _Known("Record3D", ("*.r3d",), advice="export EXR and RGB: its metadata.json is read"),
    _Known("CO3D", ("frame_annotations.jgz",)),
    _Known("OpenDroneMap", ("shots.geojson", "odm_report/shots.geojson"), advice="take opensfm/"
           "reconstruction.json of the same project"),
    _Known("MicMac", ("Ori-*/Orientation-*.xml",), advice=_COLMAP),
    _Known("Metashape", ("*.txt",), advice="File > Export > Export Cameras writes cameras.xml, "
           "which is read", says=b"omega, phi, kappa"),
    _Known("calibration of OpenCV", ("*.yml", "*.yaml"), advice="write K, R and t into "
           "cameras.json", says=b"opencv-matrix"),
)  # fmt: skip


def _files(folder: Path, pattern: str) -> Iterator[Path]:
    """The files of a pattern that are not hidden, in the order of their names."""
    found = folder.glob(pattern) if "*" in pattern else [folder / pattern]
    yield from (p for p in sorted(found) if p.is_file() and not p.name.startswith("."))


def _holds(file: Path, texts: bytes | tuple[bytes, ...]) -> bool:
    """Whether one of these, spelled in any case, is within the first 64 kB of a file or its last.

    The last are of archives, which list there what they hold.
    """
    if not texts:
        return True
    try:
        with file.open("rb") as opened:
            ends = opened.read(1 << 16)
            opened.seek(max(opened.tell(), file.stat().st_size - (1 << 16)))
            ends = (ends + b"\n" + opened.read()).replace(b"\0", b"").lower()
        return any(
            text.lower() in ends for text in ([texts] if isinstance(texts, bytes) else texts)
        )
    except OSError:
        return False


def find_known(folder: Path, *, before: bool = False) -> list[Path]:
    """The files in a folder that `read_known` reads, the first of each place.

    Args:
        folder: That of the photos.
        before: Only those that come before files of projection matrices.
    """
    if before:
        return list(_files(folder, OPENCV))
    found = [next(_files(folder, pattern), None) for pattern in _NAMES]
    for kind in _KNOWN:
        for pattern in kind.patterns if kind.read is not None else ():
            found += [file for file in _files(folder, pattern) if _holds(file, kind.says)][:1]
    return [file for file in found if file is not None]


def find_unread(folder: Path) -> list[str]:
    """What is to be said of files in a folder that are of a known kind and not read."""
    said: list[str] = []
    for pattern in (*_NAMES, *_PATHS):
        for file in list(_files(folder, pattern))[:1]:
            try:
                read_json(file, folder)
            except UnreadError as error:
                said.append(str(error))
            except UnknownError:
                pass  # of others
    for kind in _KNOWN:
        if kind.read is None:
            files = [f for p in kind.patterns for f in _files(folder, p) if _holds(f, kind.says)]
            if files:
                said.append(f"{files[0]} is of {kind.program} and not read: {kind.advice}")
    return said


def read_known(file: Path, root: Path) -> Meta:
    """A file of cameras of another program as the content of a transforms file.

    Args:
        file: Its kind is known by its name or, of JSON, by its content.
        root: The folder of the photos.

    Raises:
        UnreadError: If it is of a known kind that is not read.
        UnknownError: If it is of no known kind.
        ValueError: If it is damaged.
    """
    if file.suffix.lower() in (".json", ".sfm"):
        return read_json(file, root)
    advice = ""
    for kind in _KNOWN:
        if any(file.match(pattern) for pattern in kind.patterns) and _holds(file, kind.says):
            if kind.read is None:
                advice = advice or f"is of {kind.program} and not read: {kind.advice}"
                continue
            return _guarded(kind.program, file, lambda read=kind.read: read(file, Index(root)))
    if advice:
        raise UnreadError(f"{file} {advice}")
    raise UnknownError(f"{file} is no file of cameras of a kind that is known")


def _guarded(program: str, file: Path, read: Callable[[], Meta]) -> Meta:
    """What a reader gives, or one line for whatever a damaged file makes it raise."""
    try:
        if file.stat().st_size > _LARGEST:
            raise ValueError("it is larger than such files are")
        meta = read()
        if not meta["frames"]:
            raise ValueError("it holds no photo with a pose")
    except Exception as error:  # noqa: BLE001 (NumPy and expat raise anything on a damaged file)
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        if isinstance(error, KeyError):
            reason = f"{reason} is missing"
        if str(file) in reason:
            raise ValueError(reason) from None
        raise ValueError(f"{file} (of {program}) cannot be read: {reason}") from None
    return meta
