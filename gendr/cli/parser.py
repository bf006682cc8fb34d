"""The commands and their options. Imports nothing heavy, so that --help is instant.

A command is a function of its settings: the classes here. The docstring of each is its help: a
line, a paragraph, and what follows the options.
"""

from __future__ import annotations

import argparse
import inspect
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

from gendr import __version__
from gendr.cli.command_line import (
    Number,
    Parser,
    above,
    add_options,
    count,
    group,
    option,
    seconds,
)
from gendr.photos.fitting.pose.settings import PoseSettings
from gendr.photos.fitting.shape.settings import FitSettings
from gendr.photos.splatting.settings import SplatSettings

_MAIN = """\
gendr COMMAND --help explains a command. Examples:
  gendr fit chair -o out
  gendr render chair -o chair.gif
  gendr list tconorms
"""
_OUTPUT = ("-o", "--output")
_RENDERER = "the renderer, one of the family"
_RUNTIME = "where and how it runs"


@dataclass(frozen=True, kw_only=True)
class Common:
    """What all commands have that take a while.

    Attributes:
        quiet: no progress bar, no summary.
        debug: show the traceback of an error.
    """

    groups: ClassVar[Mapping[str, str]] = {}

    quiet: bool = option(False)
    debug: bool = option(False)


@dataclass(frozen=True, kw_only=True)
class OnDevice(Common):
    """Where a command computes.

    Attributes:
        device: such as cpu or cuda:0.
    """

    device: str = option("cpu")


@dataclass(frozen=True, kw_only=True)
class OnThreads(Common):
    """On how many threads a command computes.

    Attributes:
        threads: on the CPU (default: as a shared machine bears).
    """

    threads: int | None = option(None, count(1))


@dataclass(frozen=True, kw_only=True)
class ReadsImages(Common):
    """What limits the images that a command reads.

    Attributes:
        max_megapixels: the largest photo or texture that is read; larger ones are refused.
    """

    max_megapixels: float = option(150, above(0), "N")


@dataclass(frozen=True, kw_only=True)
class Fit(OnDevice, OnThreads, ReadsImages):
    """Make a mesh of photographs, or of the silhouettes of a mesh.

    Make a mesh of a folder of photographs: of the object where there are masks or a backdrop, of
    all that they see where there are none; or of the silhouettes of any mesh file.

    Examples:
      gendr fit chair -o out                        a built-in mesh; 24 views are rendered from it
      gendr fit chair -o out --resume --steps 200   go on, after an interruption or with more steps
      gendr fit chair -o out --dist "gamma(shape=0.5).reversed" --tconorm "yager(p=2)"
      gendr fit chair -o out --scale 1px:0.1px --image-size 96
      gendr fit model.glb -o out --init start.obj   files of your own
      gendr fit photos/ -o out --budget 2m          two minutes in all
      gendr fit photos/ -o out --scene --hold-out 5   all that photos see, scored by every fifth
      gendr fit photos/ -o out --shape silhouettes   no stereo, outlines alone
      gendr fit photos/ -o out --image-size 128     a folder of images, masks and transforms.json

    what is written to the output folder (files of these names are replaced, together at the end):
      fit.gif           the fit on its way, beside its target
      sheet.png         target, fit and difference of up to 12 views
      fit.obj           the mesh with the best hard silhouettes, in the target's coordinates
      fit.glb           of photos with colours: the same with its texture, for any viewer (with
                        --colors vertex fit.ply); fit.obj then comes with fit.mtl and fit.png
      metrics.json      IoU per view, chamfer distance, seconds, settings, versions
      checkpoint.pt     the state after the last steps; --resume goes on from it
      cameras.pt refine.pt colors.pt    what comes before and after the shape, as far as it has
                        come; --resume does not do it again
      progress.json     while the fit runs, and after an interruption: what is known of it by then
      preview.png       while the fit runs, every few seconds: the shape of now, beside its target

    of a scene, without masks: fit.glb with its texture, points.ply (position, normal, colour),
    sheet.png (photos, the mesh, its shape) and metrics.json (shares of pixels matched and kept,
    PSNR and cover, seconds of each stage); depth_maps/ while it runs.

    a folder of images holds their cameras in one of these, the first that is there:
      transforms.json   of NeRF tools: frames with file_path and transform_matrix (camera to world,
                        OpenGL axes), and camera_angle_x or fl_x fl_y cx cy w h
      sparse/0          a model of COLMAP, text or binary, of the images in images/
      cameras.json      OpenCV's matrices: images with file, and P = K [R | t], or K, and R and
                        t, or world_to_camera
      NAME_par.txt      projection matrices of Middlebury; also NAME_Ps.mat, projections.npy
      others            of 3DGS, OpenSfM, OpenMVG, Meshroom, Metashape, Bundler, Polycam, LLFF, NeuS
                        and more: docs/camera-files.md; what is not read is named
    without any of these, cameras are found (gendr cameras), and written to the output folder,
    as are masks.
    the mask of an image is its mask_path, the file of its name in masks/, its alpha channel, all
    that is not of the colour --background, or the image itself if it is grey. Soft edges are used
    as they are. Without any of these, masks are found (gendr masks). No file outside the folder is
    read.

    Attributes:
        target: a mesh (.obj .ply .off .stl .glb .gltf), a folder of images with their cameras or
            without, a video (.mp4 .mov ...), or chair, which is built in.
        output: where results go.
        resume: go on from the folder's checkpoint; of the settings, --steps and --budget may
            differ.
        settings: of the fit.
        budget: end after 90s, 2m or 1h, that of finding cameras apart: steps take a third of it and
            stereo as much, or steps most of it without stereo, and the rest is for colours and
            pictures, which take longer if it is too little for them; less time, less quality.
        init: what to start from: the visual hull of the masks (as by default from four views on),
            a sphere (else, or with --subdivisions), or a mesh.
        image_size: shorter side (default: 128 for a mesh; for images their own, at most 256, half
            of that from a sphere; of a scene the longer side is at most 1600).
        views: of a mesh, evenly around it (default: 24).
        elevation: of the views of a mesh (default: 30).
        cameras: their file, if it is not in the folder: as gendr cameras writes it.
        frames: of a video, in pieces of equal length the sharpest of each (default: 60).
        masks: their folder, if it is not in the folder: as gendr masks writes it.
        scene: a mesh of all that photos see, whatever masks there are; so by default where there
            are no masks and no backdrop.
        object: of the object alone: an error where there are no masks and no backdrop.
        faces: of the mesh of a scene, at most: quadrics keep those of a finer surface that tell
            most.
        box: of a scene, what is in a box alone: auto, about what the cameras look at, or two
            corners, the smaller numbers first, in the frame of the cameras.
        hold_out: of a scene, every N-th photo is left out of the making, and scored; 0 for none.
        keep_doubtful: also use photos whose masks contradict those of the others.
        background: of photos without masks: a name or #rrggbb; what has another colour is the
            object (default: a backdrop that stands still or is plain is found).
        tolerance: how much each channel of the background may differ from it, of 1.
        shape: photos (as by default, if there are three with colours): after the silhouettes,
            stereo moves the surface where no outline shows it, as in a bowl; or silhouettes alone.
        refine: cameras: before the fit, put poses right that are a few degrees off; focal: and the
            focal length, by one factor.
        colors: texture (as by default), vertex for vertex colours, or none.
        texture_size: side of the texture (default: 256 to 2048, as the photos carry).
        color_size: shorter side of the photos that colours are taken from (default: their own, at
            most 512, or 1024 where they are few).
        exposure: photos may be brighter or darker than each other, or of another tint (default: if
            that predicts photos that were left out better).
        light: camera: light that moves with the camera, as where an object turns in front of it, is
            divided out, and colours are albedo; none: they hold the light; auto (as by default):
            what predicts photos that were left out better.
    """

    groups: ClassVar[Mapping[str, str]] = {
        _RENDERER: "dist tconorm scale cutoff",
        "the optimisation": "steps budget lr flatness smoothness subdivisions init remesh edge seed"
        " views_per_step",
        "the views": "image_size views elevation cameras frames masks keep_doubtful background"
        " tolerance",
        "of photos": "scene object shape refine",
        "a scene": "faces box hold_out",
        "colours, after the shape, from photos that have them": "colors texture_size color_size"
        " exposure light",
        _RUNTIME: "device backend threads max_megapixels quiet debug",
    }

    target: str = option(metavar="TARGET", flags="")
    output: str = option("out", None, "FOLDER", flags=_OUTPUT)
    resume: bool = option(False)
    settings: FitSettings = group(
        FitSettings, dist="DIST", tconorm="NAME", backend="NAME", edge="PIXELS",
        budget=(seconds, "TIME"),
    )  # fmt: skip
    subdivisions: int | None = option(None, count(0))
    init: str | None = option(None, None, "hull|sphere|MESH")
    image_size: int | None = option(None, count(2), "PIXELS")
    views: int | None = option(None, count(1))
    elevation: float | None = option(None, Number(-90, 90), "DEGREES")
    cameras: str | None = option(None, None, "FILE")
    frames: int | None = option(None, count(4))
    masks: str | None = option(None, None, "FOLDER")
    scene: bool = option(False)
    object: bool = option(False)
    faces: int = option(400_000, count(100))
    box: tuple[str, ...] = option((), None, "X", nargs="+")
    hold_out: int = option(0, count(0))
    keep_doubtful: bool = option(False)
    background: str | None = option(None, None, "COLOUR")
    tolerance: float = option(0.1, above(0, 1))
    shape: str | None = option(None, None, "KIND", choices=("photos", "silhouettes"))
    refine: tuple[str, ...] = option((), None, "WHAT", nargs="+", choices=("cameras", "focal"))
    colors: str | None = option(None, None, "KIND", choices=("texture", "vertex", "none"))
    texture_size: int | None = option(None, count(16), "TEXELS")
    color_size: int | None = option(None, count(2), "PIXELS")
    exposure: bool | None = option(None)
    light: str = option("auto", None, "KIND", choices=("auto", "camera", "none"))


@dataclass(frozen=True, kw_only=True)
class Pose(OnThreads, ReadsImages):
    """Where the camera stood, from a mask and the mesh.

    Find the camera of each image of an object whose mesh is known.

    Examples:
      gendr pose chair photo.png -o out             a mesh that is built in; any mesh file will do
      gendr pose model.obj frames/*.png -o out --fov 45
      gendr pose model.obj frames/ --track -o out   a video: each image from those before
      gendr pose model.obj photos/ --rig -o out     one pose for all cameras of transforms.json

    an image shows the object by its alpha channel, as a mask, or before a plain background. It is
    turned upright, as its EXIF data say; --lens and the camera are of the upright image.

    what is written to the output folder:
      camera.json     the camera of each image for OpenCV, OpenGL and PyTorch3D, its IoU, and the
                      other poses that look alike
      overlay.png     each image, the mesh in its pose, their difference, and the other poses
      track.gif       with --track: the mesh over the images of the video
      poses.pt        until all are found: the images that are done, from which --resume goes on

    Attributes:
        mesh: a mesh file, or chair, which is built in.
        images: images or masks of any size, or folders of them.
        output: where results go.
        resume: go on after an interruption: with the images that are not done yet.
        track: the images are those of a video: find each from those before.
        rig: IMAGE is a folder with transforms.json: images of one moment, and cameras whose poses
            to each other are known; find one pose of the mesh for all.
        find_scale: the unit of the rig is not that of the mesh.
        fov: field of view across the shorter side, in degrees.
        find_fov: search for the field of view too, from --fov on.
        lens: instead of --fov: focal lengths and principal point, in pixels of the images, whose
            first pixel has its centre at 0.5.
        settings: of the search.
    """

    groups: ClassVar[Mapping[str, str]] = {
        "the search": "starts steps image_size",
        _RUNTIME: "threads max_megapixels quiet debug",
    }

    mesh: str = option(metavar="MESH", flags="")
    images: tuple[str, ...] = option(metavar="IMAGE", flags="", nargs="+")
    output: str = option("out", None, "FOLDER", flags=_OUTPUT)
    resume: bool = option(False)
    track: bool = option(False)
    rig: bool = option(False)
    find_scale: bool = option(False)
    fov: float = option(30.0, above(0, 180))
    find_fov: bool = option(False)
    lens: tuple[float, ...] | None = option(None, Number(), ("FX", "FY", "CX", "CY"), nargs=4)
    settings: PoseSettings = group(PoseSettings)


@dataclass(frozen=True, kw_only=True)
class Render(OnDevice, OnThreads, ReadsImages):
    """A picture or a turntable of a mesh.

    Render a mesh, with its texture and colours: pictures (.png, .jpg) or a turntable (.gif).
    The camera stands where all of it is in view.

    examples, with a mesh that is built in; any mesh file will do:
      gendr render chair -o chair.png                        one picture
      gendr render chair -o chair.png --azimuth 0 90 180     three, side by side
      gendr render chair -o chair.gif --frames 60            a turntable
      gendr render chair -o soft.png --dist gaussian --scale 4px --tconorm einstein
      gendr render chair -o chair.png --background transparent

    Attributes:
        model: a mesh (.obj .ply .off .stl .glb .gltf), or chair.
        output: ends in .png, .jpg or .gif.
        size: of a view.
        azimuth: one or several views; where a turntable starts.
        elevation: above the model.
        fov: full angle of view.
        frames: of a turntable (36).
        lighting: lambert (flat faces), phong (smooth, with highlights), headlight (a lamp at the
            camera), or none: colours as they are; by default lambert, and none for a file that
            says that its colours hold the light (unlit), such as fit.glb.
        background: a name, #rrggbb, or transparent.
        mipmaps: average textures over what a pixel shows: fine patterns far away do not flicker.
        dist: gendr list distributions (logistic).
        tconorm: gendr list tconorms (probabilistic).
        scale: a number in NDC, or such as 1.5px (2px).
        gamma: depth, in that of the object, by which a surface hides what is behind it; less makes
            faces win outside of themselves, more lets the far side through (0.03).
        cutoff: coverage at or below it counts as 0 (0.001); 0 is exact, the library uses 1e-6;
            heavy tails (cauchy, levy) are slow below 0.01; where soft faces end in a visible step,
            pass 1e-6 or 0, which take longer.
        backend: auto, or one of: gendr list backends.
    """

    groups: ClassVar[Mapping[str, str]] = {
        "the picture": "size azimuth elevation fov frames lighting background mipmaps",
        "soft rendering, if any of these is given; otherwise the picture is crisp": "dist tconorm"
        " scale gamma cutoff",
        _RUNTIME: "device backend threads max_megapixels quiet debug",
    }

    model: str = option(metavar="MODEL", flags="")
    output: str = option(metavar="FILE", flags=_OUTPUT)
    size: int = option(512, count(8), "PIXELS")
    azimuth: tuple[float, ...] = option((30.0,), Number(), "DEGREES", nargs="+")
    elevation: float = option(20.0, Number(-90, 90), "DEGREES")
    fov: float = option(30.0, above(0, 180), "DEGREES")
    frames: int | None = option(None, count(1))
    lighting: str = option(
        "auto", None, "KIND", choices=("auto", "lambert", "phong", "headlight", "none")
    )
    background: str = option("white", None, "COLOUR")
    mipmaps: bool = option(False)
    dist: str | None = option(None, None, "DIST")
    tconorm: str | None = option(None, None, "NAME")
    scale: str | None = option(None)
    gamma: float | None = option(None, above(0))
    cutoff: float | None = option(None, Number(0, 0.999))
    backend: str = option("auto", None, "NAME")


@dataclass(frozen=True, kw_only=True)
class Splat(OnThreads, ReadsImages):
    """A scene of soft triangles from photos, seen from anywhere.

    Train soft triangles, joined front to back, until they look like photos from known
    cameras; then look at them from elsewhere.

    Examples:
      gendr splat photos/ -o out --budget 10m       ten minutes of training
      gendr splat photos/ -o out --image-size 200 --budget 1m       small, to try it
      gendr splat photos/ -o out --resume --budget 1h               go on
      gendr splat photos/ -o out --dist "power(shape=1)" --tconorm "yager(p=2)"
      gendr splat photos/ -o out --init points      those that COLMAP found

    PHOTOS are as for gendr fit: a folder of images with their cameras (transforms.json, a model
    of COLMAP, cameras.json), or such a file. Masks are used where there are any, else whole
    pictures.

    what is written to the output folder (files of these names are replaced, together at the end):
      splats.npz      the triangles: gendr.photos.splatting.Splats.load
      splats.ply      about the same as Gaussians, for viewers of 3D Gaussian Splatting
      splats.glb      opaque triangles, trained to look like the photos in any 3D program
      sheet.png       pictures that were held out, and what the triangles look like from there
      orbit.gif       a walk past the cameras
      metrics.json    PSNR and SSIM of each picture held out, of the soft triangles and of the
                      GLB; seconds, settings, versions
      checkpoint.pt   every 30 s: the state of the training; --resume goes on from it
      opaque.pt       the same of the opaque triangles
      preview.png     while it runs: a picture held out, and the triangles of now

    Attributes:
        photos: a folder of images with their cameras, the file of the cameras, or a video.
        output: where results go.
        resume: go on from the folder's checkpoint; of the settings, --steps and --budget may
            differ.
        settings: of the training.
        budget: the files are there after 90s, 10m or 1h, reading and stereo included, finding
            cameras not; a tenth of it is for steps, however long the rest takes (default: 5000
            steps).
        cameras: their file, if it is not in the folder: as gendr cameras writes it.
        frames: of a video, in pieces of equal length the sharpest of each (default: 60).
        image_size: shorter side (default: their own, at most 400).
        background: behind the triangles: a name or #rrggbb, which transparent photos are laid over;
            learnt, one colour; or still, a backdrop that is the same image in all photos, as of a
            turntable (default: white; of photos without masks still if it is so, else learnt).
        init: what to start from: of photos without masks the surface that stereo finds, with a
            sphere about it for what is far (default); else, or where photos agree too little
            (which is said), points of COLMAP or gendr cameras (if any), a visual hull of the masks
            (if any), or what the cameras see; or a mesh, a file of points or Gaussians (PLY, plain
            or compressed, .splat, .spz, SOG, glTF), or the splats.npz of a training before, whose
            distribution, T-conorm and unit then hold.
        hold_out: every N-th picture is left out of the training, and scored; 0 for none.
        opaque: for splats.glb, train opaque triangles for so many times the steps, or the time, of
            the soft ones; 0: none.
    """

    groups: ClassVar[Mapping[str, str]] = {
        "the triangles": (
            "dist tconorm shape scale learn_scale unit degree triangles cutoff background"
        ),
        "the training": "steps budget opaque init density renew_every rate decay exposure seed",
        "the photos": "cameras frames image_size hold_out evaluate_every",
        _RUNTIME: "device threads max_megapixels quiet debug",
    }

    photos: str = option(metavar="PHOTOS", flags="")
    output: str = option("out", None, "FOLDER", flags=_OUTPUT)
    resume: bool = option(False)
    settings: SplatSettings = group(
        SplatSettings, dist="DIST", tconorm="NAME", unit="UNIT", density="HOW", background="HOW",
        budget=(seconds, "TIME"),
    )  # fmt: skip
    cameras: str | None = option(None, None, "FILE")
    frames: int | None = option(None, count(4))
    image_size: int | None = option(None, count(16), "PIXELS")
    background: str | None = option(None, None, "COLOUR")
    init: str | None = option(None, None, "surface|hull|cameras|points|MESH|SPLATS")
    hold_out: int = option(10, count(0))
    opaque: float = option(1.0, Number(0, 100))


@dataclass(frozen=True, kw_only=True)
class Cameras(OnThreads, ReadsImages):
    """Find out from where photos were taken.

    Find the cameras of photos by structure from motion: with pycolmap, of the extra photos.

    Examples:
      gendr cameras photos/                 writes photos/cameras.json
      gendr cameras photos/ -o found.json   for gendr fit photos/ --cameras found.json

    Photos are those in photos/images, or in photos/ itself. If their rim stands still, as on a
    turntable before a screen, features are those of what moves; masks in photos/masks are used
    then. gendr fit and gendr splat do the same with photos without cameras.

    Attributes:
        photos: a folder.
        output: a .json file, or a folder that is there, for cameras.json (default: that of the
            photos).
        force: find cameras also where there are some, and replace the file.
    """

    groups: ClassVar[Mapping[str, str]] = {_RUNTIME: "threads max_megapixels quiet debug"}

    photos: str = option(metavar="PHOTOS", flags="")
    output: str | None = option(None, None, "FILE", flags=_OUTPUT)
    force: bool = option(False)


@dataclass(frozen=True, kw_only=True)
class Masks(ReadsImages):
    """Cut out what stands before a backdrop in photos.

    Find masks of photos: of what stands before a backdrop that stands still, as that of a
    turntable, or is plain, such as a wall, a sheet or a sweep. With OpenCV, of the extra photos.

    Examples:
      gendr masks photos/            writes photos/masks/NAME.png and photos/masks/sheet.jpg
      gendr masks photos/ -o masks   elsewhere

    gendr fit does the same with photos without masks. Look at the sheet, and mend in any image
    editor what is wrong: white is the object.

    Attributes:
        photos: a folder.
        output: of the masks (default: masks in the folder of the photos).
        image_size: shorter side of the photos in which outlines are sought.
    """

    groups: ClassVar[Mapping[str, str]] = {_RUNTIME: "max_megapixels quiet debug"}

    photos: str = option(metavar="PHOTOS", flags="")
    output: str | None = option(None, None, "FOLDER", flags=_OUTPUT)
    image_size: int = option(800, count(32))


@dataclass(frozen=True, kw_only=True)
class View(OnThreads):
    """Look at a mesh, photos, a fit or splats in the browser.

    A page to turn and zoom: meshes with their colours, as a wireframe, by any soft renderer or with
    its gradient on the vertices; cameras with their photos; the steps of a fit while it runs;
    splats; Gaussians of other programs. With viser, of the extra view. Ctrl-C ends it.

    Examples:
      gendr view model.obj           a mesh
      gendr view out                 what gendr fit wrote, or is writing, or gendr splat wrote
      gendr view out/splats.npz --photos photos/
      gendr view scene.sog           Gaussians: PLY, .splat, .spz, SOG, glTF
      gendr view photos/             cameras and photos

    Attributes:
        subject: a mesh file, splats.npz, a file of points or Gaussians, a folder of photos with
            their cameras, or an output folder.
        photos: their folder, if it is not where the output folder says.
        port: of the page; the next one that is free.
        image_size: shorter side of soft pictures.
    """

    groups: ClassVar[Mapping[str, str]] = {_RUNTIME: "threads quiet debug"}

    subject: str = option(metavar="SUBJECT", flags="")
    photos: str | None = option(None, None, "FOLDER")
    port: int = option(8080, Number(1, 65535, whole=True))
    image_size: int = option(400, count(32), "PIXELS")


@dataclass(frozen=True, kw_only=True)
class Logic(OnThreads):
    """Networks of logic gates: train one on a table, run it, write it as C or Verilog.

    Logic gate networks: trained by gradients, run as circuits.

    Examples:
      gendr logic train table.npz -o out                    arrays x [N, F] and y [N]
      gendr logic train table.npz -o out --resume           go on, after an interruption
      gendr logic run out/circuit.npz rows.npy -o classes.csv
      gendr logic export out/circuit.npz net.c net.v        also .dot, .py (NumPy) and .txt

    Numbers become bits at quantiles of the training rows; rows of 0 and 1 are taken as they are.

    what gendr logic train writes to the output folder:
      circuit.npz    the circuit, with its thresholds; it runs without torch
      metrics.json   test accuracy, size, settings, history, versions
      checkpoint.pt  the state after the last step; --resume goes on from it

    Attributes:
        circuit: a saved circuit.
        threads: on the CPU.
    """

    groups: ClassVar[Mapping[str, str]] = {_RUNTIME: "threads quiet debug"}


@dataclass(frozen=True, kw_only=True)
class LogicTrain(Logic):
    """Train a network and harden it.

    Attributes:
        data: a .npz file with arrays x [N, F] and y [N].
        output: where results go.
        resume: go on from the folder's checkpoint; of the settings, --steps may differ.
        layers: of gates.
        width: gates per layer.
        tau: divides the counts of classes (default: half the root of the gates per class).
        bits: per number.
        steps: Adam steps.
        batch: rows per step.
        learning_rate: learning rate.
        test_share: part of the rows for the test.
        seed: of all draws.
    """

    data: str = option(metavar="DATA", flags="")
    output: str = option("out", None, "FOLDER", flags=_OUTPUT)
    resume: bool = option(False)
    layers: int = option(4, count(1))
    width: int = option(512, count(2))
    tau: float | None = option(None, above(0))
    bits: int = option(7, count(1))
    steps: int = option(2000, count(1))
    batch: int = option(100, count(1))
    learning_rate: float = option(0.03, above(0), flags="--lr")
    test_share: float = option(0.2, above(0, 1))
    seed: int = option(0, count(0))


@dataclass(frozen=True, kw_only=True)
class LogicRun(Logic):
    """Classify rows by a circuit.

    Attributes:
        data: a .npy file [N, F], or .npz with x.
        output: csv of classes, else printed.
    """

    circuit: str = option(metavar="CIRCUIT", flags="")
    data: str = option(metavar="ROWS", flags="")
    output: str | None = option(None, None, "FILE", flags=_OUTPUT)


@dataclass(frozen=True, kw_only=True)
class LogicExport(Logic):
    """Write a circuit as source code.

    Attributes:
        files: by suffix: .c .v .dot .py .txt.
        name: of the function or module.
    """

    circuit: str = option(metavar="CIRCUIT", flags="")
    files: tuple[str, ...] = option(metavar="FILE", flags="", nargs="+")
    name: str = option("circuit")


@dataclass(frozen=True, kw_only=True)
class List:
    """Distributions, T-conorms and backends, with their formulas.

    What there is to choose from.

    Examples:
      gendr list                     everything
      gendr list distributions       what --dist takes
      gendr list tconorms            what --tconorm takes

    Attributes:
        what: distributions, tconorms or backends.
    """

    groups: ClassVar[Mapping[str, str]] = {}

    what: str = option(
        "all", None, "WHAT", flags="", nargs="?",
        choices=("all", "distributions", "tconorms", "backends"),
    )  # fmt: skip
    debug: bool = option(False, help=argparse.SUPPRESS)


# The class of each command, or that of its help and those of its own commands.
COMMANDS: dict[str, Any] = {
    "fit": Fit,
    "pose": Pose,
    "render": Render,
    "splat": Splat,
    "cameras": Cameras,
    "masks": Masks,
    "view": View,
    "logic": (Logic, "action", {"train": LogicTrain, "run": LogicRun, "export": LogicExport}),
    "list": List,
}


class _Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Defaults shown, examples as written."""

    def __init__(self, prog: str) -> None:
        width = min(100, shutil.get_terminal_size((100, 24)).columns)
        super().__init__(prog, max_help_position=28, width=width)

    def _get_help_string(self, action: argparse.Action) -> str | None:
        """Say the defaults but those that go without saying."""
        if action.default in (None, False, ()):
            return action.help
        if isinstance(action.default, tuple):
            return f"{action.help} (default: {' '.join(map(str, action.default))})"
        return super()._get_help_string(action)


def build_parser() -> argparse.ArgumentParser:
    """The parser of `gendr`; what it reads names the class of its settings as `settings_class`."""
    parser = Parser(
        prog="gendr",
        description="Differentiable rendering of triangle meshes, with 1242 renderers of one "
        "family:\na distribution makes edges soft, a T-conorm joins the faces.",
        epilog=_MAIN,
        formatter_class=_Help,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="say the version and stop")
    _add_commands(parser, "command", COMMANDS)
    return parser


def parser_of(settings: type[Common], program: str) -> argparse.ArgumentParser:
    """The parser of a program that is one command, with the help that its settings have."""
    parser = Parser(prog=program, **_texts(settings)[1])
    add_options(parser, settings, settings.groups)
    return parser


def _texts(settings: type, examples: str = "") -> tuple[str, dict[str, Any]]:
    """The first line of the help, and the rest as arguments of a parser."""
    head, _, _ = (inspect.getdoc(settings) or " ").partition("Attributes:")
    summary, description, epilog = (*head.strip().split("\n\n", 2), "", examples)[:3]
    return summary, {"description": description, "epilog": epilog, "formatter_class": _Help}


def _add_commands(
    parser: argparse.ArgumentParser, name: str, commands: dict[str, Any], examples: str = ""
) -> None:
    parsers = parser.add_subparsers(
        dest=name, metavar=name.upper(), required=True, parser_class=Parser
    )
    for command, found in commands.items():
        settings, *inner = found if isinstance(found, tuple) else (found,)
        summary, texts = _texts(settings, examples)
        each = parsers.add_parser(
            command, help=summary[0].lower() + summary[1:].rstrip("."), **texts
        )
        if inner:
            _add_commands(each, inner[0], inner[1], texts["epilog"])
        else:
            add_options(each, settings, settings.groups)
            each.set_defaults(settings_class=settings)


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        sys.stdout.write(f"gendr {__version__}\n")
        raise SystemExit(0)
