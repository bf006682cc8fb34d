"""What `--resume` goes on with: whether what lies in an output folder still fits, and stages.

`Run` compares photos and options, before anything is read. A stage, which takes long beside the
main part of a command, keeps a file in the folder: while it runs, how far it has come; then its
result. Of which pixels and settings that file, or a checkpoint, is, its signature says
(`gendr.jobs.checkpoint`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from hashlib import sha256
from inspect import signature
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from torch import Tensor

from gendr import __version__
from gendr._common.files import write_whole
from gendr.cli.command_line import say
from gendr.cli.common import METRICS, as_json, check_checkpoint, read_json
from gendr.cli.parser import Fit, Splat
from gendr.cli.progress import Session
from gendr.jobs.checkpoint import (
    OtherWorkError,
    digest,
    load_checkpoint,
    save_checkpoint,
)
from gendr.jobs.folders import SOURCES
from gendr.mesh import Camera, Mesh
from gendr.photos.camera_files.photos import IMAGES, MASKS
from gendr.photos.capture.cameras import kept_features
from gendr.photos.fitting.colors.light import HarmonicLight

__all__ = [
    "CHECKPOINT",
    "DEPTH_MAPS",
    "HARD",
    "PROGRESS",
    "STAGES",
    "START",
    "Run",
    "StageFile",
    "Stages",
]

# The stages of a fit, in their order, and their files in the output folder.
STAGES = {"cameras": "cameras.pt", "refine": "refine.pt", "colors": "colors.pt"}
# The state after the last step, and a readable file about it.
CHECKPOINT, PROGRESS = "checkpoint.pt", "progress.json"
# The state of opaque triangles, which `gendr splat` trains after soft ones.
HARD = "opaque.pt"
# What stereo has found for `gendr splat` to start with.
START = "start.npz"
# What Windows keeps in a folder that somebody has looked at, with no point before its name.
_OF_WINDOWS = "Thumbs.db", "desktop.ini"
# A folder that stands there while a scene is made.
DEPTH_MAPS = "depth_maps"
# What a file holds of a mesh.
_MESH = (
    "vertices", "faces", "origin", "uvs", "face_uvs", "texture", "vertex_colors", "unlit"
)  # fmt: skip

# What is made before the main part of a command, of which the hidden file keeps the options.
_BEFORE = "frames", "cameras", "masks"

T = TypeVar("T")
Values = Mapping[str, Any]


class Run:
    """A command with its output folder, and whether what is there was made of the same.

    A hidden file in the folder holds a digest of the inputs, and the options of each thing that was
    made of them. What is made anew takes with it all that comes after it.

    Args:
        args: of the command.
        path: its photos, the file of their cameras, a video, or a mesh.

    Attributes:
        out: the output folder.
        resume: whether what is there is used.
        began: whether such a command began to fill the folder.

    Raises:
        ValueError: for `--resume`, if there is nothing to go on with.
    """

    def __init__(self, args: Fit | Splat, path: Path) -> None:
        self.out, self.resume = Path(args.output), args.resume
        self._file, self._begun = self.out / SOURCES, False
        if self.resume and not self._file.is_file() and not kept_features(self.out):
            check_checkpoint(self.out, CHECKPOINT)
        inside = _inside(path.resolve(), self.out.resolve())
        masks = [file for file in inside if file.parent.name in MASKS]
        given = [Path(name) for name in (args.cameras, args.init) if name is not None]
        named = [file for each in given for file in (each, *_libraries(each))]
        if isinstance(args, Fit) and args.masks is not None:
            named += sorted(Path(args.masks).glob("*"))
        target = {"photos" if isinstance(args, Splat) else "target": str(path.resolve())}
        # How a command runs changes no result.
        how = {"output": "", "quiet": False, "resume": False, "threads": None, "debug": False}
        self._asked = _digest(replace(args, **how, **target))
        command = type(args).__name__
        self.began = read_json(self._file).get("command") == command
        self._own: dict[str, Any] = {
            "command": command,
            "inputs": _stats(file for file in inside if file not in masks),
            "files": _stats([*named, *masks]),
        }
        rest = (HARD,) if isinstance(args, Splat) else (PROGRESS, *STAGES.values())
        self._on_the_way = CHECKPOINT, *rest
        self._asked_for: dict[str, Any] = {}
        self._kept: dict[str, Any] = read_json(self._file) if self.resume else {}
        why = "photos, or files beside them, have changed since"
        if path.is_file() and path.suffix.lower() != ".json":
            why = f"{path.name}, or a file beside it, has changed since"
        self._compare("inputs", self._own["inputs"], why, "all")

    def compare_files(self) -> None:
        """Use frames and cameras alone if masks, or files that options name, have changed."""
        why = "masks, or files that options name, have changed since"
        self._compare("files", self._own["files"], why, "all after the cameras")

    def _compare(self, name: str, now: Any, why: str, anew: str) -> None:
        """Use nothing that was made of others, which is said; where nothing is known it is used."""
        if self.resume and self._kept.get(name, now) != now:
            say("gendr", f"{why}: {anew} is made anew")
            self.resume = False

    def uses(self, what: str, there: bool, *options: Any) -> bool:
        """Whether something is not made anew: if it is there, and was made with such options.

        Args:
            what: "frames", "cameras" or "masks".
            there: whether it is.
            options: plain values.
        """
        now = list(options)
        there = there and self._kept.get(what) is not False
        if there:
            why = f"the options of {what} have changed since"
            if self._kept.get(what, now) is None:
                why = f"{what} there may be of other photos"
            self._compare(what, now, why, f"all from {what} on")
        used = self.resume and there
        (self._own if used else self._asked_for)[what] = now
        return used

    def made(self) -> None:
        """Keep with what all was made that `uses` has named; what comes after it is made anew."""
        self.resume, self._begun = False, False
        self._own |= self._asked_for
        self._asked_for = {}
        self.begin()
        self._begun = False

    def begin(self) -> None:
        """Results begin to be made; what is left of others on their way goes."""
        if self._begun:
            return
        self._begun = True
        if not self.resume:
            # What is there of these, and is not made again, is of other photos.
            self._kept = dict.fromkeys(_BEFORE)
            for name in self._on_the_way:
                (self.out / name).unlink(missing_ok=True)
        # False: it was asked for in vain, and what is there is not looked at.
        vain = dict.fromkeys(self._asked_for, False)
        self._kept = {**self._kept, **vain, **self._own, "results": None}
        write_whole(self._file, as_json(self._kept))

    def finish(self, files: Iterable[Path]) -> None:
        """All results are there, in these files."""
        self.begin()
        results = {"asked": self._asked, "files": sorted(file.name for file in files)}
        write_whole(self._file, as_json({**self._kept, "results": results}))

    @property
    def has_results(self) -> bool:
        """Whether all results are there, and none are under way."""
        results = self._kept.get("results")
        files = results.get("files") if isinstance(results, dict) else None
        return isinstance(files, list) and all(
            (self.out / str(name)).is_file() for name in (METRICS, *files)
        )

    @property
    def is_finished(self) -> bool:
        """Whether just these results are there."""
        same = self._kept.get("files", self._own["files"]) == self._own["files"]
        results = self._kept["results"] if self.resume and same and self.has_results else {}
        return results.get("asked") == self._asked


def _digest(value: object) -> str:
    return sha256(repr(value).encode()).hexdigest()


def _stats(files: Iterable[Path]) -> str:
    """A digest of the names, sizes and times of those files that there are."""
    return _digest([
        (file.name, (stat := file.stat()).st_size, stat.st_mtime_ns)
        for file in files if file.is_file()
    ])  # fmt: skip


def _libraries(path: Path) -> list[Path]:
    """The files of materials that an OBJ names."""
    if path.suffix.lower() != ".obj" or not path.is_file():
        return []
    names = re.findall(rb"^mtllib[ \t]+(.+?)[ \t\r]*$", path.read_bytes(), re.MULTILINE)
    return [path.parent / os.fsdecode(name) for name in names]


def _photos_of(file: Path) -> list[Path]:
    """The photos and masks that a transforms.json names, in whatever folders."""
    frames = read_json(file).get("frames")
    entries = frames if isinstance(frames, list) else []
    names = [
        str(each.get(key)) for each in entries if isinstance(each, dict)
        for key in ("file_path", "mask_path")
    ]  # fmt: skip
    files = (file.parent / f"{name}{end}" for name in names for end in ("", *IMAGES))
    return [each for each in files if each.is_file()]


def _inside(path: Path, out: Path) -> list[Path]:
    """The files that a command reads in the folder of its photos; both paths are resolved."""
    folder = path.parent if path.suffix.lower() == ".json" else path
    if not folder.is_dir():
        return [path, *_libraries(path)]
    inside = sorted(
        {x for form in ("*", "*/*", "images/**/*", "sparse/0/*") for x in folder.glob(form)}
    )
    # Neither what an operating system keeps beside photos nor other results there.
    results = SOURCES, METRICS, CHECKPOINT, PROGRESS, DEPTH_MAPS, START, HARD, *STAGES.values()
    own = {
        place: any((place / name).exists() for name in results)
        for place in {file.parent for file in inside} - {folder}
    }
    named = {photo for file in folder.glob("*.json") for photo in _photos_of(file)}
    return sorted(named - set(inside)) + [
        file for file in inside
        if not (own.get(file.parent, False) or (out in file.parents and out not in folder.parents))
        and all(part[0] != "." for part in file.relative_to(folder).parts)
        and file.name not in _OF_WINDOWS
    ]  # fmt: skip


class StageFile:
    """What a stage has come to.

    Args:
        path: of the file.
        what: the stage is, for messages.
        given: all tensors, cameras and meshes that the result depends on.
        options: and all else, as plain values; but the version of gendr, which is added.
    """

    def __init__(self, path: Path, what: str, given: Iterable[Any], options: Values) -> None:
        self.path, self._what = path, what
        tensors = [tensor for each in given for tensor in _tensors(each)]
        self._signature = {
            "version": __version__, "input": digest(*tensors), "options": dict(options),
        }  # fmt: skip

    def read(self) -> Values | None:
        """What it holds: `done` and `values`; None if there is no file, or one of other input.

        Raises:
            ValueError: if it is something else.
        """
        if not self.path.is_file():
            return None
        try:
            return load_checkpoint(self.path, self._what, ("done", "values"), self._signature)
        except OtherWorkError:
            return None

    def write(self, values: Values, *, done: bool = False) -> None:
        """Replace what it holds."""
        content = {"done": done, "values": dict(values)}
        save_checkpoint(self.path, self._what, content, self._signature)


class Stages:
    """The files of the stages of one fit.

    Args:
        run: in whose folder they are.
        session: which shows their progress.
    """

    def __init__(self, run: Run, session: Session) -> None:
        self._run, self.out, self.session = run, run.out, session

    def run(
        self,
        name: str,
        kind: type[T],
        function: Callable[..., T],
        /,
        *given: Tensor | Camera | Mesh | None,
        **options: Any,
    ) -> T:
        """The result of a stage: of an earlier run if that had the same input, or computed.

        Args:
            name: of `STAGES`.
            kind: the dataclass of the result.
            function: the stage itself. It takes `callback`, and if it can go on where it was
                interrupted `resume`, as `refine_cameras` does.
            given: its arguments.
            options: its further arguments, plain values.
        """
        file = StageFile(self.out / STAGES[name], "a stage of a fit", given, options)
        before = file.read() if self._run.resume else None
        if before is not None and before["done"]:
            return _unpacked(kind, before["values"], _tensors(given[0])[0])
        if "resume" in signature(function).parameters:
            options["resume"] = None if before is None else before["values"]
        self._run.begin()
        with self.session.part(name, file.write) as tell:
            result = function(*given, **options, callback=tell)
        file.write(_packed(result), done=True)
        return result

    def clear(self, *names: str) -> None:
        """Remove the files of some stages."""
        for name in names:
            (self.out / STAGES[name]).unlink(missing_ok=True)


def _tensors(value: Tensor | Camera | Mesh | None) -> list[Tensor]:
    if isinstance(value, Camera):
        places = [x for x in (value.origin, value.window) if x is not None]
        return [*value.tensors(), *places]
    if isinstance(value, Mesh):
        return [value.vertices, value.faces, value.origin]
    return [] if value is None else [value]


def _packed(result: Any) -> dict[str, Any]:
    """A dataclass of plain values, tensors, cameras and meshes without the latter two."""
    values = {f.name: getattr(result, f.name) for f in fields(result)}
    for name, value in values.items():
        if isinstance(value, Camera):
            values[name] = {
                "tensors": value.tensors(), "origin": value.origin, "window": value.window,
            }  # fmt: skip
        elif isinstance(value, HarmonicLight):
            values[name] = {"coefficients": value.coefficients, "frame": value.frame}
        elif isinstance(value, Mesh):
            values[name] = {part: getattr(value, part) for part in _MESH}
    return values


def _unpacked(kind: type[T], values: Values, like: Tensor) -> T:
    """The opposite, with cameras and meshes on the device of a tensor."""
    types, found = get_type_hints(kind), dict(values)
    for name, value in values.items():
        if types[name] is Camera:
            camera = Camera(*value["tensors"]).with_window(value["window"])
            found[name] = camera.with_origin(value["origin"]).to(like.device)
        elif types[name] is Mesh:
            parts = dict(value)
            origin, unlit = parts.pop("origin"), parts.pop("unlit")
            mesh = Mesh(parts.pop("vertices"), parts.pop("faces"), **parts)
            found[name] = mesh.with_origin(origin[0]).with_unlit(unlit).to(like.device)
        elif types[name] == HarmonicLight | None and value is not None:
            light = HarmonicLight(**value)
            found[name] = replace(light, coefficients=light.coefficients.to(like.device))
    return kind(**found)
