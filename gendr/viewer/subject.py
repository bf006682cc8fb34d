"""What a viewer shows, and how it is read from what commands write."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gendr.fitting import FitState
from gendr.mesh import Mesh
from gendr.mesh.files.ply import read_cloud
from gendr.mesh.views import Views, load_views
from gendr.splatting import Look, Splats
from gendr.splatting.start import from_cloud

__all__ = ["Subject", "read_subject", "stamp"]

# Files of an output folder by what they hold; of the meshes the first that is there is the result.
MESHES, CHECKPOINT, SPLATS = ("fit.glb", "fit.ply", "fit.obj"), "checkpoint.pt", "splats.npz"
FACTS = ("metrics.json", "progress.json")
# Beside them, if the command that wrote them found these itself.
CAMERAS, MASKS = "cameras.json", "masks"
# Points of a file are shown as triangles that hide what is behind them.
_SOLID = Look(opacity=1.0)
PHOTO_SIZE = 256  # the shorter side of photos


@dataclass(frozen=True, eq=False)
class Subject:
    """What a viewer shows.

    Attributes:
        name: of it, for the page.
        meshes: (what it is, mesh), such as the steps of a fit; the last one is shown first.
        splats: triangles of `gendr.splatting`.
        views: photos or masks, and their cameras.
        target: the mesh that was fitted.
    """

    name: str
    meshes: tuple[tuple[str, Mesh], ...] = ()
    splats: Splats | None = None
    views: Views | None = None
    target: Mesh | None = None


def read_subject(path: str | Path, photos: str | Path | None = None) -> Subject:
    """Read a mesh file, splats, a folder of photos, or the output folder of a command.

    Args:
        path: a mesh file, an npz of `Splats`, a PLY of points or Gaussians, a folder of photos with
            their cameras (or the file of these), or a folder that `gendr splat` wrote, or `gendr
            fit` wrote or is writing.
        photos: the folder of the photos, if it is not where the command that wrote `path` found it.

    Raises:
        FileNotFoundError: if there is nothing of that name.
        ValueError: if it holds nothing to look at.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"no such file or folder: {path}")
    views = None if photos is None else load_views(photos, size=PHOTO_SIZE)
    if path.suffix == ".npz":
        return Subject(path.name, splats=Splats.load(path), views=views)
    if path.suffix.lower() == ".ply" and (cloud := read_cloud(path)) is not None:
        return Subject(path.name, splats=from_cloud(cloud, look=_SOLID), views=views)
    if path.is_file() and path.suffix != ".json":
        return Subject(path.name, (("", Mesh.load(path)),), views=views)
    if path.is_dir() and (stamp(path) or any((path / name).is_file() for name in FACTS)):
        return _output(path, views)
    return Subject(path.resolve().name, views=load_views(path, size=PHOTO_SIZE))


def stamp(folder: Path) -> tuple[tuple[str, int], ...]:
    """Which results an output folder holds, and of when: another one is worth reading again."""
    files = (folder / name for name in (*MESHES, CHECKPOINT, SPLATS))
    return tuple((file.name, file.stat().st_mtime_ns) for file in files if file.is_file())


def _output(folder: Path, views: Views | None) -> Subject:
    """What a command left in its output folder, or has written so far."""
    facts = {}
    for name in reversed(FACTS):
        if (folder / name).is_file():
            facts |= json.loads((folder / name).read_text(encoding="utf-8"))
    source = Path(facts.get("target") or facts.get("photos") or "")
    target = None
    if facts.get("kind") == "mesh":
        target = Mesh.load(source) if source.is_file() else None
    elif views is None and source.name and source.exists():
        cameras, masks = (
            file if file.exists() else None for file in (folder / CAMERAS, folder / MASKS)
        )
        views = load_views(source, cameras=cameras, masks=masks, size=PHOTO_SIZE)
    if (folder / SPLATS).is_file():
        splats = Splats.load(folder / SPLATS)
        return Subject(folder.resolve().name, splats=splats, views=views)
    return Subject(folder.resolve().name, tuple(_meshes(folder)), views=views, target=target)


def _meshes(folder: Path) -> Sequence[tuple[str, Mesh]]:
    """The shapes on the way to a fit, and its result."""
    meshes: list[tuple[str, Mesh]] = []
    with suppress(ValueError):  # there is none, or that of another command
        state = FitState.load(folder / CHECKPOINT)
        meshes = [
            (f"step {step}", Mesh(state.frame.world(vertices), faces))
            for step, vertices, faces in state.trace
        ]
    for name in MESHES:
        if (folder / name).is_file():
            return [*meshes, ("result", Mesh.load(folder / name))]
    return meshes
