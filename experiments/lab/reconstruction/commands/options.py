"""The options of train.py, dataset.py and predict.py, as those of the commands of gendr."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from gendr.cli.command_line import Number, above, count, group, option
from gendr.cli.parser import Common, OnDevice, OnThreads, ReadsImages
from lab.reconstruction.settings import TrainingSettings

__all__ = ["Dataset", "Predict", "Reconstruction"]

OUTPUT = ("-o", "--output")
RENDERER = "the renderer, one of the family"
RUNTIME = "where and how it runs"


@dataclass(frozen=True, kw_only=True)
class Dataset(Common):
    """Render and voxelise meshes, to train single-view reconstruction on.

    Render meshes from 24 sides and voxelise them: one class of a data set in the layout of the
    published renderings of ShapeNet.

    Examples:
      dataset.py planes/ jet.obj -o data --name airplane --workers 4
      dataset.py chairs.npz -o data --name chair          a second class in the same folder

    MESHES are mesh files, folders of them with all that is in them, and npz files of many meshes
    (arrays names, verts, faces, vert_offset, face_offset). What cannot be read is skipped and named
    at the end. An interrupted run goes on where it was.

    what is written to the output folder, beside the classes that are there:
      ID_SPLIT_images.npz   24 views of each shape, 64 x 64 RGBA, split = train, val or test
      ID_SPLIT_voxels.npz   the occupancy of each shape, 32 x 32 x 32
      dataset.json          what was made from what
      sheet-NAME.png        a picture to see whether it went well

    Attributes:
        meshes: files and folders of meshes.
        output: of the data set.
        name: of the class: such as airplane or chair, or a name of your own.
        shares: of the splits; a hash of its name decides for each shape.
        seed: of the split.
        up: which axis is up in the files: x, y or z; the sheet shows whether it is right.
        workers: processes (default: 1; on a cluster, what it has room for).
        executor: local, or ray: a cluster whose machines find MESHES at the same paths.
        address: of a Ray cluster, such as auto; default: start one here.
    """

    groups: ClassVar[Mapping[str, str]] = {RUNTIME: "workers executor address quiet debug"}

    meshes: tuple[str, ...] = option(metavar="MESHES", flags="", nargs="+")
    output: str = option(metavar="FOLDER", flags=OUTPUT)
    name: str = option(metavar="CLASS")
    shares: tuple[float, float, float] = option(
        (0.7, 0.1, 0.2), Number(0), ("TRAIN", "VAL", "TEST"), nargs=3
    )
    seed: int = option(0, int, "N")
    up: str = option("y", None, "AXIS", choices=("x", "y", "z"))
    workers: int | None = option(None, count(1))
    executor: str = option("local", None, "NAME", choices=("local", "ray"))
    address: str | None = option(None)


@dataclass(frozen=True, kw_only=True)
class Reconstruction(OnDevice, OnThreads):
    """One image -> one mesh, learnt from silhouettes.

    Train a network that predicts a mesh from one image. Only silhouettes teach it: two views of
    each shape.

    Examples:
      train.py --data data --classes airplane chair -o out
      train.py --data data --dist "gamma(shape=0.5).reversed" --scale 1px -o out
      train.py ... --resume       the same command: go on after an interruption
      torchrun --nproc-per-node 4 train.py ... --device cuda     on four GPUs

    what is written to the output folder:
      checkpoint.pt   all that training needs to go on, and what predict.py reads
      metrics.json    at the end: settings, steps, seconds, 3D IoU with standard error, versions
      tensorboard/    curves and predictions, if tensorboard is installed

    Going on gives the weights of a run without interruption, on the CPU bit for bit if the number
    of threads is the same. --batch is that of all processes of torchrun together, and --threads
    that of each.

    Attributes:
        data: of dataset.py, or as published.
        classes: names or ids (default: all in the folder).
        output: where results go.
        resume: go on from the checkpoint in -o.
        settings: of the training.
        save_every: steps between checkpoints.
        validate_every: steps between 3D IoUs on the validation split.
        validation_views: from which each shape is predicted then, at most 24.
        threads: on the CPU.
    """

    groups: ClassVar[Mapping[str, str]] = {
        RENDERER: "dist tconorm scale cutoff",
        "the network and its optimisation": "encoder steps batch learning_rate laplacian flatten"
        " seed bfloat16",
        "what is measured and saved on the way": "save_every validate_every validation_views",
        RUNTIME: "device threads quiet debug",
    }

    data: str = option(metavar="FOLDER")
    classes: tuple[str, ...] | None = option(None, None, "CLASS", nargs="+")
    output: str = option(metavar="FOLDER", flags=OUTPUT)
    resume: bool = option(False)
    settings: TrainingSettings = group(TrainingSettings)
    save_every: int = option(500, count(1))
    validate_every: int = option(2000, count(1))
    validation_views: int = option(4, count(1))


@dataclass(frozen=True, kw_only=True)
class Predict(OnDevice, ReadsImages):
    """A mesh from one image, with a trained network.

    Predict the mesh of each image, with a network of train.py.

    Examples:
      predict.py plane.png --checkpoint out/checkpoint.pt -o meshes
      predict.py photos/*.png --checkpoint out/checkpoint.pt -o meshes --turntable

    Images may have any size. Their alpha channel is the mask; without one, the object is what
    differs from the colour of the border. The image is cut to a square around the mask.

    what is written to the output folder, for an image NAME.png:
      NAME.obj    the mesh
      NAME.png    the input, the silhouette of the mesh in it, and the mesh from three sides
      NAME.gif    with --turntable

    Attributes:
        images: files of any size.
        checkpoint: of train.py.
        output: where results go.
        turntable: write a GIF of each mesh, too.
        fill: how much of the square the longer side of the mask takes; as large as in training.
    """

    groups: ClassVar[Mapping[str, str]] = {RUNTIME: "device max_megapixels quiet debug"}

    images: tuple[str, ...] = option(metavar="IMAGE", flags="", nargs="+")
    checkpoint: str = option(metavar="FILE")
    output: str = option(metavar="FOLDER", flags=OUTPUT)
    turntable: bool = option(False)
    fill: float = option(0.6, above(0, 1))
