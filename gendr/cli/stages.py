"""What takes long in a command beside its main part, kept in files so that `--resume` goes on.

A stage keeps a file in the output folder: while it runs, how far it has come; then its result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from inspect import signature
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from torch import Tensor

from gendr.cli.progress import Session
from gendr.jobs.checkpoint import (
    OtherWorkError,
    digest,
    load_checkpoint,
    save_checkpoint,
)
from gendr.jobs.folders import SOURCES
from gendr.mesh import Camera, Mesh
from gendr.photos.fitting.colors.light import HarmonicLight

__all__ = ["STAGES", "StageFile", "Stages"]

# The stages of a fit, in their order, and their files in the output folder.
STAGES = {"cameras": "cameras.pt", "refine": "refine.pt", "colors": "colors.pt"}
# What a file holds of a mesh.
_MESH = (
    "vertices", "faces", "origin", "uvs", "face_uvs", "texture", "vertex_colors", "unlit"
)  # fmt: skip

T = TypeVar("T")
Values = Mapping[str, Any]


class StageFile:
    """What a stage has come to.

    Args:
        path: of the file.
        what: the stage is, for messages.
        given: all tensors, cameras and meshes that the result depends on.
        options: and all else, as plain values.
    """

    def __init__(self, path: Path, what: str, given: Iterable[Any], options: Values) -> None:
        self.path, self._what = path, what
        tensors = [tensor for each in given for tensor in _tensors(each)]
        self._signature = {"input": digest(*tensors), "options": dict(options)}

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
        out: the folder that they are in.
        session: which shows their progress.
        resume: whether they are used; otherwise those of an earlier fit are removed.
    """

    def __init__(self, out: Path, session: Session, *, resume: bool) -> None:
        self.out, self.session = out, session
        if not resume:
            self.clear(*STAGES)

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
        before = file.read()
        if before is not None and before["done"]:
            return _unpacked(kind, before["values"], _tensors(given[0])[0])
        if "resume" in signature(function).parameters:
            options["resume"] = None if before is None else before["values"]
        with self.session.part(name, file.write) as tell:
            result = function(*given, **options, callback=tell)
        file.write(_packed(result), done=True)
        return result

    def clear(self, *names: str) -> None:
        """Remove the files of some stages."""
        for name in names:
            (self.out / STAGES[name]).unlink(missing_ok=True)


def has_begun(out: Path, *names: str) -> bool:
    """Whether a folder holds the file of a stage, what one was made from, or one of some names."""
    return any((out / name).exists() for name in (SOURCES, *STAGES.values(), *names))


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
