"""The arguments of all commands. Imports nothing heavy, so that --help is instant."""

from __future__ import annotations

import argparse
import sys
from typing import Any, NoReturn

from gendr._runtime.command_line import Parser, count

_FIT = """\
examples:
  gendr fit chair -o out                        a built-in mesh; 24 views are rendered from it
  gendr fit chair -o out --resume --steps 200   go on, after an interruption or with more steps
  gendr fit chair -o out --dist "gamma(shape=0.5).reversed" --tconorm "yager(p=2)"
  gendr fit chair -o out --scale 1px:0.1px --image-size 96
  gendr fit model.glb -o out --init start.obj   files of your own
  gendr fit photos/ -o out --budget 2m          two minutes of steps
  gendr fit photos/ -o out --refine rgb         hollows too, by the colours of the photos
  gendr fit photos/ -o out --image-size 128     a folder of images, masks and transforms.json

what is written to the output folder (files of these names are replaced, together at the end):
  fit.gif           the fit on its way, beside its target
  sheet.png         target, fit and difference of up to 12 views
  fit.obj           the mesh with the best hard silhouettes, in the target's coordinates
  fit.glb           of photos with colours: the same with its texture, for any viewer (with
                    --colors vertex fit.ply); fit.obj then comes with fit.mtl and fit.png
  turntable.gif     of photos with colours: the coloured mesh
  metrics.json      IoU per view, chamfer distance, seconds, settings, versions
  checkpoint.pt     the state after the last steps; --resume goes on from it
  cameras.pt refine.pt colors.pt    what comes before and after the shape, as far as it has come;
                    --resume does not do it again
  progress.json     while the fit runs, and after an interruption: what is known of it by then
  preview.png       while the fit runs, every few seconds: the shape of now, beside its target

a folder of images holds their cameras in one of these, the first that is there:
  transforms.json   of NeRF tools: frames with file_path and transform_matrix (camera to world,
                    OpenGL axes), and camera_angle_x or fl_x fl_y cx cy w h
  sparse/0          a model of COLMAP, text or binary, of the images in images/, undistorted
  cameras.json      OpenCV's matrices: images with file, and P = K [R | t], or K, and R and
                    t, or world_to_camera
the mask of an image is its mask_path, the file of its name in masks/, its alpha channel, all that
is not of the colour --background, or the image itself if it is grey. Soft edges are used as they
are. No file outside the folder is read.
"""

_POSE = """\
examples:
  gendr pose chair photo.png -o out                a mesh that is built in; any mesh file will do
  gendr pose model.obj frames/*.png -o out --fov 45
  gendr pose model.obj frames/ --track -o out      a video: each image from those before
  gendr pose model.obj photos/ --rig -o out        one pose for all cameras of transforms.json

an image shows the object by its alpha channel, as a mask, or before a plain background.

what is written to the output folder:
  camera.json     the camera of each image for OpenCV, OpenGL and PyTorch3D, its IoU, and the other
                  poses that look alike
  overlay.png     each image, the mesh in its pose, their difference, and the other poses
  search.gif      the way to the poses, of up to four images
  track.gif       instead of it with --track: the mesh over the images of the video
  poses.pt        until all are found: the images that are done, from which --resume goes on
"""

_RENDER = """\
examples, with a mesh that is built in; any mesh file will do:
  gendr render chair -o chair.png                        one picture
  gendr render chair -o chair.png --azimuth 0 90 180     three, side by side
  gendr render chair -o chair.gif --frames 60            a turntable
  gendr render chair -o soft.png --dist gaussian --scale 4px --tconorm einstein
  gendr render chair -o chair.png --background transparent
"""

_DATASET = """\
examples:
  gendr dataset planes/ jet.obj -o data --name airplane --workers 4
  gendr dataset chairs.npz -o data --name chair          a second class in the same folder

MESHES are mesh files, folders of them with all that is in them, and npz files of many meshes
(arrays names, verts, faces, vert_offset, face_offset). What cannot be read is skipped and named
at the end. An interrupted run goes on where it was.

what is written to the output folder, beside the classes that are there:
  ID_SPLIT_images.npz   24 views of each shape, 64 x 64 RGBA, split = train, val or test
  ID_SPLIT_voxels.npz   the occupancy of each shape, 32 x 32 x 32
  dataset.json          what was made from what
  sheet-NAME.png        a picture to see whether it went well
"""

_TRAIN = """\
examples:
  gendr train reconstruction --data data --classes airplane chair -o out
  gendr train reconstruction --data data --dist "gamma(shape=0.5).reversed" --scale 1px -o out
  gendr train reconstruction ... --resume       the same command: go on after an interruption
  torchrun --nproc-per-node 4 -m gendr train reconstruction ... --device cuda     on four GPUs

what is written to the output folder:
  checkpoint.pt   all that training needs to go on, and what gendr predict reads
  metrics.json    at the end: settings, steps, seconds, 3D IoU with standard error, versions
  tensorboard/    curves and predictions, if tensorboard is installed

Going on gives the weights of a run without interruption, on the CPU bit for bit if the number of
threads is the same. --batch is that of all processes of torchrun together, and --threads that of
each.
"""

_PREDICT = """\
examples:
  gendr predict plane.png --checkpoint out/checkpoint.pt -o meshes
  gendr predict photos/*.png --checkpoint out/checkpoint.pt -o meshes --turntable

Images may have any size. Their alpha channel is the mask; without one, the object is what differs
from the colour of the border. The image is cut to a square around the mask.

what is written to the output folder, for an image NAME.png:
  NAME.obj    the mesh
  NAME.png    the input, the silhouette of the mesh in it, and the mesh from three sides
  NAME.gif    with --turntable
"""

_LOGIC = """\
examples:
  gendr logic train table.npz -o out                    arrays x [N, F] and y [N]
  gendr logic train table.npz -o out --resume           go on, after an interruption
  gendr logic run out/circuit.npz rows.npy -o classes.csv
  gendr logic export out/circuit.npz net.c net.v        also .dot, .py (NumPy) and .txt

Numbers become bits at quantiles of the training rows; rows of 0 and 1 are taken as they are.

what gendr logic train writes to the output folder:
  circuit.npz    the circuit, with its thresholds; it runs without torch
  metrics.json   test accuracy, size, settings, history, versions
  checkpoint.pt  the state after the last step; --resume goes on from it
"""

_LIST = """\
examples:
  gendr list                     everything
  gendr list distributions       what --dist takes
  gendr list tconorms            what --tconorm takes
"""

_MAIN = """\
gendr COMMAND --help explains a command. Examples:
  gendr fit chair -o out
  gendr render chair -o chair.gif
  gendr list tconorms
"""


class _Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Defaults shown, examples as written."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=100)

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.default in (None, False) or "%(default)" in (action.help or ""):
            return action.help
        return super()._get_help_string(action)


def build_parser() -> argparse.ArgumentParser:
    """The parser of `gendr`."""
    parser = Parser(
        prog="gendr",
        description="Differentiable rendering of triangle meshes, with 1242 renderers of one "
        "family:\na distribution makes edges soft, a T-conorm joins the faces.",
        epilog=_MAIN,
        formatter_class=_Help,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="say the version and stop")
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, parser_class=Parser
    )
    _add_fit(commands)
    _add_pose(commands)
    _add_render(commands)
    _add_dataset(commands)
    _add_train(commands)
    _add_predict(commands)
    _add_logic(commands)
    _add_list(commands)
    return parser


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        from importlib.metadata import version

        sys.stdout.write(f"gendr {version('gendr')}\n")
        raise SystemExit(0)


def _number(low: float = float("-inf"), high: float = float("inf"), closed: bool = True) -> Any:
    def convert(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"must be a number, got {text!r}") from None
        inside = low <= number <= high if closed else low < number < high
        if not inside or number in (float("inf"), float("-inf")):
            bounds = f"between {low:g} and {high:g}" + ("" if closed else ", ends excluded")
            if high == float("inf"):
                bounds = f"{'>=' if closed else '>'} {low:g}"
            raise argparse.ArgumentTypeError(f"must be {bounds}, got {text}")
        return number

    return convert


def _seconds(text: str) -> float:
    """A time such as 90, 90s, 2m or 1.5h, in seconds."""
    units = {"s": 1, "m": 60, "h": 3600}
    number, unit = (text[:-1], text[-1]) if text[-1:] in units else (text, "s")
    try:
        seconds = float(number) * units[unit]
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a time > 0 such as 90s, 2m or 1h, got {text!r}")
    return seconds


def _cutoff(group: Any, more: str = "") -> None:
    group.add_argument(
        "--cutoff",
        type=_number(0, 0.999),
        default=1e-3,
        metavar="X",
        help="coverage at or below it counts as 0; 0 is exact, the library's own default is 1e-6; "
        "heavy tails (cauchy, levy) are slow below 0.01" + more,
    )


def _common(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("where and how it runs")
    group.add_argument("--device", default="cpu", help="such as cpu or cuda:0")
    group.add_argument(
        "--backend", default="auto", metavar="NAME", help="auto, or one of: gendr list backends"
    )
    group.add_argument(
        "--threads",
        type=count(1),
        metavar="N",
        help="on the CPU (default: as a shared machine bears)",
    )
    _megapixels(group)
    _quiet(group)


def _add_fit(commands: Any) -> None:
    parser = commands.add_parser(
        "fit",
        help="fit a mesh to the silhouettes of a mesh or of images",
        description="Fit a mesh to silhouettes: of any mesh file, seen from all sides, or of a "
        "folder\nof images with masks and camera poses.",
        epilog=_FIT,
        formatter_class=_Help,
    )
    parser.add_argument(
        "target",
        metavar="TARGET",
        help="a mesh (.obj .ply .off .stl .glb), a folder of images with their cameras, or "
        "chair, which is built in",
    )
    parser.add_argument("-o", "--output", default="out", metavar="FOLDER", help="where results go")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on from the folder's checkpoint; of the settings, --steps and --budget may differ",
    )

    group = parser.add_argument_group("the renderer, one of the family")
    group.add_argument("--dist", default="logistic", metavar="LAW", help="gendr list distributions")
    group.add_argument(
        "--tconorm", default="probabilistic", metavar="NAME", help="gendr list tconorms"
    )
    group.add_argument(
        "--scale",
        default="auto",
        help="how soft edges are: a number (NDC: the image is 2 wide), 1.5px, or START:END for a "
        "geometric schedule; auto is 0.3px:0.05px for logistic, from a hull fine, which is "
        "0.1px:0.02px, and as soft for other laws",
    )
    _cutoff(group)

    group = parser.add_argument_group("the optimisation")
    group.add_argument("--steps", type=count(1), default=100, metavar="N", help="Adam steps")
    group.add_argument(
        "--budget",
        type=_seconds,
        metavar="TIME",
        help="end after 90s, 2m or 1h of steps, however many they are, and --refine rgb after as "
        "long again; less time, less quality",
    )
    group.add_argument(
        "--lr",
        type=_number(0, closed=False),
        metavar="X",
        help="step length, in the object's size; 0.1, or 0.003 from a hull",
    )
    group.add_argument(
        "--flatness", type=_number(0), default=0.05, metavar="X", help="how much creases cost"
    )
    group.add_argument(
        "--smoothness", type=_number(0), default=2.0, metavar="X", help="of steps along the surface"
    )
    group.add_argument(
        "--subdivisions",
        type=count(0),
        metavar="N",
        help="of the sphere to start from: 2 gives 162 vertices, 3 642 (as by default), 4 2562",
    )
    group.add_argument(
        "--init",
        metavar="hull|sphere|MESH",
        help="what to start from: the visual hull of the masks (as by default from four views on), "
        "a sphere (else, or with --subdivisions), or a mesh",
    )
    group.add_argument(
        "--remesh",
        action=argparse.BooleanOptionalAction,
        help="make faces even on the way, with edges that shrink with the scale (default: from a "
        "hull)",
    )
    group.add_argument(
        "--edge",
        type=_number(0, closed=False),
        metavar="PIXELS",
        help="length of edges at the end, with --remesh (default: 2, or less for thin parts)",
    )
    group.add_argument(
        "--seed",
        type=count(0),
        default=0,
        metavar="N",
        help="of the draws of views, where there are more than --views-per-step",
    )
    group.add_argument(
        "--views-per-step",
        type=count(1),
        default=24,
        metavar="N",
        help="drawn in random order if there are more views",
    )

    group = parser.add_argument_group("the views")
    group.add_argument(
        "--image-size",
        type=count(2),
        metavar="PIXELS",
        help="shorter side (default: 128 for a mesh; for images their own, at most 256; half of "
        "that from a sphere)",
    )
    group.add_argument(
        "--views", type=count(1), metavar="N", help="of a mesh, evenly around it (default: 24)"
    )
    group.add_argument(
        "--elevation",
        type=_number(-90, 90),
        metavar="DEGREES",
        help="of the views of a mesh (default: 30)",
    )
    group.add_argument(
        "--background",
        metavar="COLOUR",
        help="of photos without masks: a name or #rrggbb; what has another colour is the object",
    )
    group.add_argument(
        "--tolerance",
        type=_number(0, 1, closed=False),
        default=0.1,
        metavar="X",
        help="how much each channel of the background may differ from it, of 1 (0.1)",
    )
    group = parser.add_argument_group("refinements, of photos")
    group.add_argument(
        "--refine",
        nargs="+",
        choices=("rgb", "cameras", "focal"),
        metavar="WHAT",
        help="cameras: before the fit, put poses right that are a few degrees off; focal: and the "
        "focal length, by one factor; rgb: after the shape by silhouettes, the colours of photos "
        "move the surface where no outline shows it, as in a bowl",
    )
    group = parser.add_argument_group("colours, after the shape, from photos that have them")
    group.add_argument(
        "--colors",
        choices=("texture", "vertex", "none"),
        metavar="KIND",
        help="texture (as by default), vertex for vertex colours, or none",
    )
    group.add_argument(
        "--texture-size",
        type=count(16),
        default=1024,
        metavar="N",
        help="side of the texture, in texels (1024)",
    )
    group.add_argument(
        "--color-size",
        type=count(2),
        metavar="PIXELS",
        help="shorter side of the photos that colours are taken from (default: their own, at most "
        "512)",
    )
    group.add_argument(
        "--exposure",
        action="store_true",
        help="photos may be brighter or darker than each other, or of another tint",
    )
    _common(parser)


def _add_render(commands: Any) -> None:
    parser = commands.add_parser(
        "render",
        help="a picture or a turntable of a mesh",
        description="Render a mesh, with its texture and colours: pictures (.png, .jpg) or a "
        "turntable (.gif).\nThe camera stands where all of it is in view.",
        epilog=_RENDER,
        formatter_class=_Help,
    )
    parser.add_argument(
        "model", metavar="MODEL", help="a mesh (.obj .ply .off .stl .glb), or chair"
    )
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="ends in .png, .jpg or .gif"
    )

    group = parser.add_argument_group("the picture")
    group.add_argument("--size", type=count(8), default=512, metavar="PIXELS", help="of a view")
    group.add_argument(
        "--azimuth",
        type=_number(),
        nargs="+",
        default=[30.0],
        metavar="DEGREES",
        help="one or several views; where a turntable starts",
    )
    group.add_argument(
        "--elevation",
        type=_number(-90, 90),
        default=20.0,
        metavar="DEGREES",
        help="above the model",
    )
    group.add_argument(
        "--fov",
        type=_number(0, 180, closed=False),
        default=30.0,
        metavar="DEGREES",
        help="full angle of view",
    )
    group.add_argument("--frames", type=count(1), default=36, metavar="N", help="of a turntable")
    group.add_argument(
        "--lighting",
        choices=("auto", "lambert", "phong", "headlight", "none"),
        default="auto",
        metavar="KIND",
        help="lambert (flat faces), phong (smooth, with highlights), headlight (a lamp at the "
        "camera), or none: colours as they are; by default lambert, and none for a file that says "
        "that its colours hold the light (unlit), such as fit.glb",
    )
    group.add_argument(
        "--background", default="white", metavar="COLOUR", help="a name, #rrggbb, or transparent"
    )

    group = parser.add_argument_group(
        "soft rendering", "If any of these is given. Otherwise the picture is crisp."
    )
    group.add_argument("--dist", metavar="LAW", help="gendr list distributions (logistic)")
    group.add_argument("--tconorm", metavar="NAME", help="gendr list tconorms (probabilistic)")
    group.add_argument("--scale", metavar="SCALE", help="a number in NDC, or such as 1.5px (2px)")
    group.add_argument(
        "--gamma",
        type=_number(0, closed=False),
        metavar="X",
        help="depth, in that of the object, by which a surface hides what is behind it; less makes "
        "faces win outside of themselves, more lets the far side through (0.03)",
    )
    _cutoff(group, "; where soft faces end in a visible step, pass 1e-6 or 0, which take longer")
    _common(parser)


def _add_dataset(commands: Any) -> None:
    parser = commands.add_parser(
        "dataset",
        help="render and voxelise meshes, to train single-view reconstruction on",
        description="Render meshes from 24 sides and voxelise them: one class of a data set in the "
        "layout of the\npublished renderings of ShapeNet.",
        epilog=_DATASET,
        formatter_class=_Help,
    )
    parser.add_argument("meshes", nargs="+", metavar="MESHES", help="files and folders of meshes")
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help="of the data set")
    parser.add_argument(
        "--name",
        required=True,
        metavar="CLASS",
        help="of the class: such as airplane or chair, or a name of your own",
    )
    parser.add_argument(
        "--shares",
        type=_number(0),
        nargs=3,
        default=[0.7, 0.1, 0.2],
        metavar=("TRAIN", "VAL", "TEST"),
        help="of the splits; a hash of its name decides for each shape",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the split")
    parser.add_argument(
        "--up",
        choices=("x", "y", "z"),
        default="y",
        metavar="AXIS",
        help="which axis is up in the files: x, y or z; the sheet shows whether it is right",
    )
    parser.add_argument(
        "--workers",
        type=count(1),
        metavar="N",
        help="processes (default: 1; on a cluster, what it has room for)",
    )
    parser.add_argument(
        "--executor",
        choices=("local", "ray"),
        default="local",
        metavar="NAME",
        help="local, or ray: a cluster whose machines find MESHES at the same paths",
    )
    parser.add_argument("--address", help="of a Ray cluster, such as auto; default: start one here")
    _quiet(parser)


def _add_train(commands: Any) -> None:
    parser = commands.add_parser(
        "train",
        help="train a network: single-view reconstruction",
        description="Train a network through a renderer.",
        formatter_class=_Help,
    )
    tasks = parser.add_subparsers(dest="task", metavar="TASK", required=True, parser_class=Parser)
    _add_train_reconstruction(tasks)


def _add_train_reconstruction(tasks: Any) -> None:
    parser = tasks.add_parser(
        "reconstruction",
        help="one image -> one mesh, learnt from silhouettes",
        description="Train a network that predicts a mesh from one image. Only silhouettes teach "
        "it: two views of each shape.",
        epilog=_TRAIN,
        formatter_class=_Help,
    )
    parser.add_argument(
        "--data", required=True, metavar="FOLDER", help="of gendr dataset, or as published"
    )
    parser.add_argument(
        "--classes", nargs="+", metavar="CLASS", help="names or ids (default: all in the folder)"
    )
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help="where results go")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint in -o")

    group = parser.add_argument_group("the renderer, one of the family")
    group.add_argument("--dist", default="uniform", metavar="LAW", help="gendr list distributions")
    group.add_argument(
        "--tconorm", default="probabilistic", metavar="NAME", help="gendr list tconorms"
    )
    group.add_argument(
        "--scale", default="0.5px", help="how soft edges are: a number in NDC, or such as 1.5px"
    )
    group.add_argument(
        "--cutoff",
        type=_number(0, 0.999),
        default=1e-4,
        metavar="X",
        help="coverage at or below it counts as 0",
    )

    group = parser.add_argument_group("the network and its optimisation")
    group.add_argument(
        "--encoder",
        choices=("published", "residual", "none"),
        default="published",
        metavar="NAME",
        help="published (three convolutions), residual (of the size of ResNet18), or none: the "
        "baseline, one mesh for all images, that explains the training set best",
    )
    group.add_argument("--steps", type=count(1), default=20_000, metavar="N", help="Adam steps")
    group.add_argument(
        "--batch", type=count(2), default=64, metavar="N", help="shapes a step, two views each"
    )
    group.add_argument(
        "--lr", type=_number(0, closed=False), default=1e-4, metavar="X", help="learning rate"
    )
    group.add_argument(
        "--laplacian", type=_number(0), default=5e-3, metavar="X", help="weight of this loss"
    )
    group.add_argument(
        "--flatten", type=_number(0), default=5e-4, metavar="X", help="weight of this loss"
    )
    group.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of the weights and of the draws"
    )
    group.add_argument("--bfloat16", action="store_true", help="run the encoder in bfloat16")

    group = parser.add_argument_group("what is measured and saved on the way")
    group.add_argument(
        "--save-every", type=count(1), default=500, metavar="N", help="steps between checkpoints"
    )
    group.add_argument(
        "--validate-every",
        type=count(1),
        default=2000,
        metavar="N",
        help="steps between 3D IoUs on the validation split",
    )
    group.add_argument(
        "--validation-views",
        type=count(1),
        default=4,
        metavar="N",
        help="from which each shape is predicted then, at most 24",
    )
    group = parser.add_argument_group("where and how it runs")
    group.add_argument("--device", default="cpu", help="such as cpu or cuda:0")
    group.add_argument("--threads", type=count(1), metavar="N", help="on the CPU")
    _quiet(group)


def _add_pose(commands: Any) -> None:
    parser = commands.add_parser(
        "pose",
        help="where the camera stood, from a mask and the mesh",
        description="Find the camera of each image of an object whose mesh is known.",
        epilog=_POSE,
        formatter_class=_Help,
    )
    parser.add_argument("mesh", metavar="MESH", help="a mesh file, or chair, which is built in")
    parser.add_argument(
        "images", nargs="+", metavar="IMAGE", help="images or masks of any size, or folders of them"
    )
    parser.add_argument("-o", "--output", default="out", metavar="FOLDER", help="where results go")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on after an interruption: with the images that are not done yet",
    )
    parser.add_argument(
        "--track",
        action="store_true",
        help="the images are those of a video: find each from those before",
    )
    parser.add_argument(
        "--rig",
        action="store_true",
        help="IMAGE is a folder with transforms.json: images of one moment, and cameras whose "
        "poses to each other are known; find one pose of the mesh for all",
    )
    parser.add_argument(
        "--find-scale", action="store_true", help="the unit of the rig is not that of the mesh"
    )
    parser.add_argument(
        "--fov",
        type=_number(0, 180, closed=False),
        default=30.0,
        metavar="X",
        help="field of view across the shorter side, in degrees",
    )
    parser.add_argument(
        "--find-fov", action="store_true", help="search for the field of view too, from --fov on"
    )
    parser.add_argument(
        "--lens",
        nargs=4,
        type=_number(),
        metavar=("FX", "FY", "CX", "CY"),
        help="instead of --fov: focal lengths and principal point, in pixels of the images, whose "
        "first pixel has its centre at 0.5",
    )
    group = parser.add_argument_group("the search")
    group.add_argument(
        "--starts", type=count(1), default=24, metavar="N", help="poses that are refined"
    )
    group.add_argument(
        "--steps", type=count(1), default=60, metavar="N", help="of the first refinement"
    )
    group.add_argument(
        "--image-size", type=count(16), default=128, metavar="N", help="of the second refinement"
    )
    group = parser.add_argument_group("where and how it runs")
    group.add_argument(
        "--threads",
        type=count(1),
        metavar="N",
        help="on the CPU (default: as a shared machine bears)",
    )
    _megapixels(group)
    _quiet(group)


def _add_predict(commands: Any) -> None:
    parser = commands.add_parser(
        "predict",
        help="a mesh from one image, with a trained network",
        description="Predict the mesh of each image, with a network of gendr train reconstruction.",
        epilog=_PREDICT,
        formatter_class=_Help,
    )
    parser.add_argument("images", nargs="+", metavar="IMAGE", help="files of any size")
    parser.add_argument("--checkpoint", required=True, metavar="FILE", help="of gendr train")
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help="where results go")
    parser.add_argument("--turntable", action="store_true", help="write a GIF of each mesh, too")
    parser.add_argument(
        "--fill",
        type=_number(0, 1, closed=False),
        default=0.6,
        metavar="X",
        help="how much of the square the longer side of the mask takes; as large as in training",
    )
    group = parser.add_argument_group("where and how it runs")
    group.add_argument("--device", default="cpu", help="such as cpu or cuda:0")
    _megapixels(group)
    _quiet(group)


def _megapixels(group: Any) -> None:
    group.add_argument(
        "--max-megapixels",
        type=_number(0, closed=False),
        default=150,
        metavar="N",
        help="the largest photo or texture that is read; larger ones are refused",
    )


def _quiet(group: Any) -> None:
    group.add_argument("--quiet", action="store_true", help="no progress bar, no summary")
    group.add_argument("--debug", action="store_true", help="show the traceback of an error")


def _add_logic(commands: Any) -> None:
    parser = commands.add_parser(
        "logic",
        help="networks of logic gates: train one on a table, run it, write it as C or Verilog",
        description="Logic gate networks: trained by gradients, run as circuits.",
        epilog=_LOGIC,
        formatter_class=_Help,
    )
    actions = parser.add_subparsers(
        dest="action", metavar="ACTION", required=True, parser_class=Parser
    )
    train = actions.add_parser(
        "train", help="train a network and harden it", epilog=_LOGIC, formatter_class=_Help
    )
    train.add_argument("data", metavar="DATA", help="a .npz file with arrays x [N, F] and y [N]")
    train.add_argument("-o", "--output", default="out", metavar="FOLDER", help="where results go")
    train.add_argument(
        "--resume",
        action="store_true",
        help="go on from the folder's checkpoint; of the settings, --steps may differ",
    )
    train.add_argument("--layers", type=count(1), default=4, metavar="N", help="of gates")
    train.add_argument("--width", type=count(2), default=512, metavar="N", help="gates per layer")
    train.add_argument(
        "--tau", type=_number(0, closed=False), metavar="X",
        help="divides the counts of classes (default: half the root of the gates per class)",
    )  # fmt: skip
    train.add_argument("--bits", type=count(1), default=7, metavar="N", help="per number")
    train.add_argument("--steps", type=count(1), default=2000, metavar="N", help="Adam steps")
    train.add_argument("--batch", type=count(1), default=100, metavar="N", help="rows per step")
    train.add_argument(
        "--lr", type=_number(0, closed=False), default=0.03, metavar="X", help="learning rate"
    )
    train.add_argument(
        "--test-share", type=_number(0, 1, closed=False), default=0.2, metavar="X",
        help="part of the rows for the test",
    )  # fmt: skip
    train.add_argument("--seed", type=count(0), default=0, metavar="N", help="of all draws")
    run = actions.add_parser(
        "run", help="classify rows by a circuit", epilog=_LOGIC, formatter_class=_Help
    )
    run.add_argument("circuit", metavar="CIRCUIT", help="a saved circuit")
    run.add_argument("data", metavar="ROWS", help="a .npy file [N, F], or .npz with x")
    run.add_argument("-o", "--output", metavar="FILE", help="csv of classes, else printed")
    export = actions.add_parser(
        "export", help="write a circuit as source code", epilog=_LOGIC, formatter_class=_Help
    )
    export.add_argument("circuit", metavar="CIRCUIT", help="a saved circuit")
    export.add_argument("files", nargs="+", metavar="FILE", help="by suffix: .c .v .dot .py .txt")
    export.add_argument("--name", default="circuit", help="of the function or module")
    for each in (train, run, export):
        each.add_argument("--threads", type=count(1), metavar="N", help="on the CPU")
        _quiet(each)


def _add_list(commands: Any) -> None:
    parser = commands.add_parser(
        "list",
        help="distributions, T-conorms and backends, with their formulas",
        description="What there is to choose from.",
        epilog=_LIST,
        formatter_class=_Help,
    )
    parser.add_argument(
        "what",
        nargs="?",
        choices=("all", "distributions", "tconorms", "backends"),
        default="all",
        metavar="WHAT",
        help="distributions, tconorms or backends",
    )
    parser.add_argument("--debug", action="store_true", help=argparse.SUPPRESS)
