"""Data sets of one's own: any meshes, rendered and voxelised into the files of the benchmark.

    >>> make_dataset(["shapes/Jet.npz", "planes/"], "out/", "airplane")

Sources are mesh files, folders of them, and npz files of many meshes (`names`, `verts`, `faces`,
`vert_offset`, `face_offset`). Each shape is centred, scaled so that the diagonal of its box is 1,
seen from 24 sides and voxelised at 32³; one file a shape, written whole, so that an interrupted run
goes on where it was. At the end they are put together, split by a hash of their names.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import signal
import zipfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm

from gendr._common.arrays import read_arrays
from gendr._common.checks import check_choice, check_count
from gendr._common.files import write_whole
from gendr.jobs.folders import locked, writable_folder
from gendr.kernels.threads import set_num_threads
from gendr.mesh import Lighting, Mesh
from gendr.mesh.files.formats import FORMATS
from gendr.rendering import Renderer
from lab.cluster import connect, import_ray
from lab.reconstruction.classes import find_class
from lab.reconstruction.renderings import (
    SIDE,
    SPLITS,
    VIEWS,
    VOXELS,
    camera_of_view,
    published_images,
    published_voxels,
)
from lab.reconstruction.voxels import voxelize

__all__ = ["DatasetReport", "Shape", "find_shapes", "make_dataset", "rendered", "split_of"]

DESCRIPTION = "dataset.json"
PARTIAL = ".parts"  # the folder of the files of single shapes, while a data set is made
SAMPLES = 4  # an image is rendered this many times as large, and averaged
GREY = 0.7
# Rotations that turn the axis which is up in a file into y.
UPRIGHT = {
    "x": ((0.0, -1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)),
    "y": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "z": ((1.0, 0.0, 0.0), (0.0, 0.0, 1.0), (0.0, -1.0, 0.0)),
}


class Shape(NamedTuple):
    """Where a shape is.

    Attributes:
        name: the file without its ending, or the name within an npz file; unique in a class.
        path: the file.
        number: of the mesh within an npz file, None for other files.
    """

    name: str
    path: Path
    number: int | None

    def load(self, up: str = "y") -> Mesh:
        """The mesh, float32, centred, with a box of diagonal 1, and with y up.

        Args:
            up: the axis that is up in the file.

        Raises:
            ValueError: for a file that is broken, or a mesh without faces or extent.
        """
        mesh = Mesh.load(self.path) if self.number is None else _of_npz(self.path, self.number)
        if not len(mesh.faces):
            raise ValueError("it has no faces")
        if not bool(mesh.vertices.isfinite().all()):
            raise ValueError("some of its vertices are NaN or inf")
        low, high = (end[0] for end in mesh.bounding_box())
        diagonal = float((high - low).norm())
        if diagonal <= 0:
            raise ValueError("all of its vertices are the same point")
        vertices = (mesh.vertices - (low + high) / 2) / diagonal
        if up != "y":
            vertices = vertices @ vertices.new_tensor(UPRIGHT[up]).T
        return Mesh(vertices.float(), mesh.faces)


def _of_npz(path: Path, number: int) -> Mesh:
    file = read_arrays(path, ("vert_offset", "face_offset", "verts", "faces"))
    (a, b), (c, d) = (file[name][number : number + 2] for name in ("vert_offset", "face_offset"))
    vertices, faces = file["verts"][a:b], file["faces"][c:d]
    return Mesh(torch.from_numpy(vertices.astype(np.float32)), torch.from_numpy(faces).long())


def find_shapes(sources: Sequence[str | Path]) -> list[Shape]:
    """All shapes of files, folders (with what is in them) and npz files of meshes, in order.

    Raises:
        FileNotFoundError: for a source that is not there.
        ValueError: for an npz file that holds no meshes, or if nothing is found.
    """
    found: list[Shape] = []
    for source in map(Path, sources):
        if source.is_dir():
            paths = sorted(p for p in source.rglob("*") if p.suffix.lower() in FORMATS)
            found += [Shape(_name(p.relative_to(source)), p, None) for p in paths]
            for path in sorted(source.rglob("*.npz")):
                found += _in_npz(path)
        elif not source.is_file():
            raise FileNotFoundError(f"{source} is neither a file nor a folder")
        elif source.suffix.lower() == ".npz":
            found += _in_npz(source)
        else:
            found.append(Shape(source.stem, source, None))
    if not found:
        raise ValueError(f"no meshes in {', '.join(map(str, sources))}")
    return _unique(found)


def _name(path: Path) -> str:
    """A name that tells files of different folders apart."""
    return "-".join(path.with_suffix("").parts)


def _in_npz(path: Path) -> list[Shape]:
    wanted = {"names", "verts", "faces", "vert_offset", "face_offset"}
    file = read_arrays(path, wanted)
    if missing := wanted - set(file):
        raise ValueError(f"{path} holds no meshes: it lacks {', '.join(sorted(missing))}")
    return [Shape(str(name), path, k) for k, name in enumerate(file["names"])]


def _unique(shapes: list[Shape]) -> list[Shape]:
    """The same shapes, with numbers behind the names that occur before."""
    seen: dict[str, int] = {}
    unique: list[Shape] = []
    for shape in shapes:
        count = seen.get(shape.name, 0)
        seen[shape.name] = count + 1
        unique.append(shape._replace(name=f"{shape.name}-{count + 1}") if count else shape)
    return unique


def split_of(name: str, shares: Sequence[float] = (0.7, 0.1, 0.2), seed: int = 0) -> str:
    """The split of a shape: a hash of its name decides, whatever other shapes there are."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    place = int.from_bytes(digest[:8], "big") / 2**64 * sum(shares)
    for split, end in zip(SPLITS, np.cumsum(shares), strict=True):
        if place < end:
            return split
    return SPLITS[-1]


def rendered(mesh: Mesh, side: int = SIDE) -> tuple[Tensor, Tensor]:
    """The images and voxels of one mesh within the sphere of radius 1/2.

    Returns:
        uint8 [24, 4, side, side] RGBA as our cameras see it, and bool [32, 32, 32] by [x, y, z]:
        the interior and the cells that the surface passes, as those of ShapeNet.
    """
    renderer = Renderer(
        SAMPLES * side,
        "heaviside",
        "max",
        shading="hard",
        near=0.1,
        far=10.0,
        lighting=Lighting(two_sided=True),  # pyright: ignore[reportArgumentType]
    )
    grey = torch.full((len(mesh.vertices), 3), GREY)
    images = []
    with torch.no_grad():
        for view in range(VIEWS):
            out = renderer(mesh.with_vertex_colors(grey), camera_of_view(torch.tensor([view])))
            alpha = (out.face_id >= 0).float().unsqueeze(1)
            sums = torch.nn.functional.avg_pool2d(torch.cat([out.rgb * alpha, alpha], 1), SAMPLES)
            colour = sums[:, :3] / sums[:, 3:].clamp(min=1e-6)
            images.append(torch.cat([colour * (sums[:, 3:] > 0), sums[:, 3:]], 1)[0])
    pixels = (torch.stack(images) * 255).round().to(torch.uint8)
    return pixels, voxelize(mesh, VOXELS, surface=True)[0]


@dataclass(frozen=True)
class DatasetReport:
    """What was made.

    Attributes:
        name: of the class.
        counts: shapes of each split.
        skipped: why, by the name of each shape that could not be used.
    """

    name: str
    counts: dict[str, int]
    skipped: dict[str, str]


def make_dataset(
    sources: Sequence[str | Path],
    out: str | Path,
    name: str,
    *,
    shares: Sequence[float] = (0.7, 0.1, 0.2),
    seed: int = 0,
    up: str = "y",
    workers: int | None = None,
    executor: str = "local",
    address: str | None = None,
    progress: bool = True,
) -> DatasetReport:
    """Render and voxelise meshes into one class of a data set that `ShapeNetRenderings` reads.

    Args:
        sources: see `find_shapes`.
        out: the folder of the data set; it may hold other classes.
        name: of the class: one of the 13, whose id then names the files, or any other.
        shares: of train, val and test.
        seed: of the split.
        up: the axis that is up in the sources: "x", "y" or "z".
        workers: processes; by default 1, and on a cluster as many as it has room for.
        executor: "local", or "ray" for a cluster, whose machines find the sources at the same
            paths; only the caller writes to `out`.
        address: of the cluster, as `ray.init` takes it; by default one is started here.
        progress: show a bar.

    Returns:
        What was made. Shapes that cannot be read are skipped and named.

    Raises:
        ValueError: if no shape can be used, or the folder is in use or cannot be written to.
        OSError: if the disk is full. What is done stays; the same call goes on with it.
        ConnectionError: if no cluster answers at the address.
        RuntimeError: if Ray is not installed.
    """
    if workers is not None:
        check_count("workers", workers)
    check_choice("executor", executor, ("local", "ray"))
    if executor == "local" and address is not None:
        raise ValueError("an address is that of a cluster; give it with executor='ray'")
    ray = import_ray() if executor == "ray" else None
    check_choice("up", up, tuple(UPRIGHT))
    if len(shares) != len(SPLITS) or min(shares) < 0 or not sum(shares) > 0:
        raise ValueError(f"shares must be three numbers >= 0 (train, val, test), got {shares!r}")
    shapes = find_shapes(sources)
    folder = writable_folder(Path(out))
    shape_class = find_class(name, [name])
    parts = writable_folder(folder / PARTIAL / shape_class.id)
    with locked(parts):
        paths = {shape: _part(parts, shape, up) for shape in shapes}
        todo = [shape for shape, path in paths.items() if not path.exists()]
        if ray is None:
            work = _in_processes(todo, up, workers or 1)
        else:
            work = _on_cluster(todo, up, ray, address, workers)
        reasons: dict[Shape, str] = {}
        bar = tqdm(total=len(shapes), initial=len(shapes) - len(todo), desc="shapes", delay=2,
                   disable=not progress)  # fmt: skip
        with bar:
            for shape, made in work if todo else ():
                if isinstance(made, str):
                    reasons[shape] = made
                else:
                    save = partial(np.savez_compressed, **made)
                    write_whole(paths[shape], save)
                bar.update()
        # In the order of the shapes: with several workers they come as they are done.
        skipped = {s.name: reasons[s] for s in shapes if s in reasons}
        good = [shape for shape in shapes if shape.name not in skipped]
        if not good:
            first, reason = next(iter(skipped.items()))
            raise ValueError(f"none of {len(shapes)} shapes can be used; {first}: {reason}")
        splits: dict[str, list[Shape]] = {split: [] for split in SPLITS}
        for shape in good:
            splits[split_of(shape.name, shares, seed)].append(shape)
        for split, members in splits.items():
            _assemble(folder, shape_class.id, split, [paths[shape] for shape in members])
        named = {
            split: [{"name": s.name, "file": str(s.path), "number": s.number} for s in members]
            for split, members in splits.items()
        }
        entry = {
            "name": shape_class.name,
            "shapes": named,
            "skipped": skipped,
            "shares": [share / math.fsum(shares) for share in shares],
            "seed": seed,
            "up": up,
            "count": len(good),
        }
        describe_class(folder, shape_class.id, entry)
    shutil.rmtree(parts)
    with suppress(OSError):  # other classes may be on their way
        parts.parent.rmdir()
    counts = {split: len(members) for split, members in splits.items()}
    return DatasetReport(shape_class.name, counts, skipped)


def _part(parts: Path, shape: Shape, up: str) -> Path:
    """The file of one shape: named by what it is made from, so that a changed file is made anew."""
    status = shape.path.stat()
    text = f"{shape.path.resolve()}/{shape.number}/{status.st_size}/{status.st_mtime_ns}/{up}"
    return parts / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.npz"


# The arrays of the file of a shape, or why it cannot be used.
Made: TypeAlias = "dict[str, NDArray[np.uint8]] | str"


def _in_processes(todo: Sequence[Shape], up: str, workers: int) -> Iterator[tuple[Shape, Made]]:
    """What processes of this machine make of shapes."""
    if workers == 1 or len(todo) < 2:
        yield from ((shape, _made(shape, up)) for shape in todo)
        return
    # Ctrl-C is for the process that hands out the work.
    ignore = signal.SIGINT, signal.SIG_IGN
    with ProcessPoolExecutor(workers, get_context("spawn"), signal.signal, ignore) as pool:
        futures = {pool.submit(_made_on_one_thread, shape, up): shape for shape in todo}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _on_cluster(
    todo: Sequence[Shape], up: str, ray: Any, address: str | None, workers: int | None
) -> Iterator[tuple[Shape, Made]]:
    """What the machines of a Ray cluster make of shapes, one core a shape.

    A shape whose worker dies three times is one that cannot be used.
    """
    connect(ray, address, workers)
    running: dict[Any, Shape] = {}
    try:
        make = ray.remote(num_cpus=1, max_retries=2)(_made_on_one_thread)
        left = list(reversed(todo))
        while left or running:
            # A few more than run at once, so that none waits; results are not small.
            room = int(ray.cluster_resources().get("CPU", 1.0)) if workers is None else workers
            while left and len(running) < room + 2:
                shape = left.pop()
                running[make.remote(shape, up)] = shape
            ready, _ = ray.wait(list(running), timeout=1.0)
            for reference in ready:
                shape = running.pop(reference)
                try:
                    made = ray.get(reference)
                except ray.exceptions.RayTaskError as error:  # such as a missing package
                    raise RuntimeError(f"{shape.name}: {error.cause!r} in the cluster") from None
                except ray.exceptions.RayError as error:
                    made = str(error).strip().partition("\n")[0]
                yield shape, made
    finally:
        for reference in running:
            ray.cancel(reference, force=True)
        ray.shutdown()


def _made_on_one_thread(shape: Shape, up: str) -> Made:
    set_num_threads(1)
    torch.set_num_threads(1)
    return _made(shape, up)


def _made(shape: Shape, up: str) -> Made:
    """The content of the file of one shape, uint8 [24, 4, H, W] and [32, 32, 32], in its order."""
    try:
        images, voxels = rendered(shape.load(up))
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 (a broken file of any format may raise anything)
        return " ".join(str(error).split()) or type(error).__name__
    if not images[:, 3].any():
        return "nothing of it is seen at this size"
    cells = published_voxels(voxels).numpy().astype(np.uint8)
    return {"images": published_images(images).numpy(), "voxels": cells}


def _assemble(folder: Path, class_id: str, split: str, parts: Sequence[Path]) -> None:
    """Put the files of shapes together; files of a split without shapes are removed."""
    for kind, shape in (
        ("images", (VIEWS, 4, SIDE, SIDE)),
        ("voxels", (1, VOXELS, VOXELS, VOXELS)),
    ):
        path = folder / f"{class_id}_{split}_{kind}.npz"
        if not parts:
            path.unlink(missing_ok=True)
            continue
        # Not compressed, so that it can be mapped into memory; shape by shape, so that no more than
        # one is in memory; and by plain writes, which fail with an error where a disk is full.
        new = folder / f".new-{os.getpid()}-{path.name}"
        header = {
            "descr": np.lib.format.dtype_to_descr(np.dtype(np.uint8)),
            "fortran_order": False,
            "shape": (len(parts) * shape[0], *shape[1:]),
        }
        try:
            with (
                zipfile.ZipFile(new, "w", zipfile.ZIP_STORED) as archive,
                archive.open("arr_0.npy", "w", force_zip64=True) as whole,
            ):
                np.lib.format.write_array_header_1_0(whole, header)
                for part in parts:
                    array = read_arrays(part, (kind,))[kind]
                    whole.write(array.astype(np.uint8, copy=False).tobytes())
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)


def describe_class(folder: Path, class_id: str, entry: dict[str, Any]) -> None:
    """Say in dataset.json what was made from what."""
    path = folder / DESCRIPTION
    with locked(path, 60.0):  # another class may be on its way in another process
        content: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
        content[class_id] = entry
        write_whole(path, json.dumps(content, indent=1).encode())
