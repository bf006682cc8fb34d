"""What a viewer shows, and how it is read from what commands write."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from gendr.jobs.folders import SOURCES
from gendr.mesh import Mesh
from gendr.mesh.files.origins import origin_of
from gendr.photos.camera_files.transforms import NoCamerasError
from gendr.photos.fitting import FitState
from gendr.photos.folders import NoMasksError
from gendr.photos.splatting import Cloud, Look, Splats, from_cloud, load_photos, read_cloud
from gendr.photos.views import Views, load_views

__all__ = ["Subject", "read_subject", "stamp"]

# Files of an output folder by what they hold; of the meshes the first that is there is the result.
MESHES = ("fit.glb", "fit.ply", "fit.obj", "splats.glb")
CHECKPOINT, SPLATS = "checkpoint.pt", "splats.npz"
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
        splats: triangles of `gendr.photos.splatting`.
        cloud: Gaussians, which the browser draws.
        views: photos or masks, and their cameras.
        target: the mesh that was fitted.
        up: which way is up, of what has no views: y, but for Gaussians of files that have it down.
    """

    name: str
    meshes: tuple[tuple[str, Mesh], ...] = ()
    splats: Splats | None = None
    cloud: Cloud | None = None
    views: Views | None = None
    target: Mesh | None = None
    up: tuple[float, float, float] = (0.0, 1.0, 0.0)

    def together(self) -> Subject:
        """The same in coordinates that count from one point, small ones if all of it is far out."""
        origins = [mesh.origin[0] for _, mesh in self.meshes]
        origins += [] if self.splats is None else [self.splats.origin]
        origins += (
            []
            if self.cloud is None
            else [torch.from_numpy(origin_of(self.cloud.points, torch.float32))]
        )
        origins += [] if self.target is None else [self.target.origin[0]]
        if self.views is not None and self.views.camera.origin is not None:
            origins.insert(0, self.views.camera.origin)
        origin = next((each for each in origins if bool(each.any())), torch.zeros(3))
        zero = torch.zeros(3)

        def near(mesh: Mesh) -> Mesh:
            return mesh.relative_to(origin).with_origin(zero)

        views, splats = self.views, self.splats
        if views is not None and views.camera.origin is not None:
            camera = views.camera.relative_to(origin).with_origin(None)
            views = replace(views, camera=camera)
        return replace(
            self,
            meshes=tuple((name, near(mesh)) for name, mesh in self.meshes),
            splats=None if splats is None else splats.relative_to(origin).with_tensors(origin=zero),
            cloud=None if self.cloud is None else self.cloud.relative_to(origin.numpy()),
            views=views,
            target=None if self.target is None else near(self.target),
        )


def read_subject(path: str | Path, photos: str | Path | None = None) -> Subject:
    """Read a mesh file, splats, a folder of photos, or the output folder of a command.

    Args:
        path: a mesh file, an npz of `Splats`, points or Gaussians (see `read_cloud`), a folder of
            photos with their cameras (or the file of these), or a folder that `gendr splat` or
            `gendr fit` wrote or is writing.
        photos: the folder of the photos, if it is not where the command that wrote `path` found it.

    Raises:
        FileNotFoundError: if there is nothing of that name.
        ValueError: if it holds nothing to look at.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"no such file or folder: {path}")
    views = None if photos is None else _photos(Path(photos))
    if path.suffix == ".npz":
        return Subject(path.name, splats=Splats.load(path), views=views)
    if (cloud := read_cloud(path)) is not None:
        if cloud.parts is not None:
            head = b""
            if path.is_file():
                with path.open("rb") as file:
                    head = file.read(100)
            upright = path.suffix.lower() in (".glb", ".gltf") or b" of gendr" in head
            up = (0.0, 1.0 if upright else -1.0, 0.0)
            return Subject(path.resolve().name, cloud=cloud, views=views, up=up)
        return Subject(path.name, splats=from_cloud(cloud, look=_SOLID), views=views)
    if path.is_file() and path.suffix != ".json":
        return Subject(path.name, (("", Mesh.load(path)),), views=views)
    if path.is_dir() and (stamp(path) or any((path / name).is_file() for name in FACTS)):
        return _output(path, views)
    try:
        return Subject(path.resolve().name, views=_photos(path))
    except NoCamerasError:
        if not (path / SOURCES).is_file():
            raise
    return _output(path, views)  # a command has just begun to fill it


def _photos(path: Path, **options: Any) -> Views:
    """Photos with their masks, or whole ones if they have none, upright."""
    try:
        return load_views(path, size=PHOTO_SIZE, **options).upright()
    except NoMasksError:
        photos = load_photos(path, size=PHOTO_SIZE, cameras=options.get("cameras"))
        shown = photos.camera.photo(photos.image_size)
        whole = torch.ones_like(photos.images[:, 0]) if shown is None else shown.to(photos.images)
        names, quarters = photos.names, photos.quarters
        return Views(whole, photos.images, photos.camera, names, quarters).upright()


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
        options = {key: facts[key] for key in ("background", "tolerance") if facts.get(key)}
        for key, own in (("cameras_from", folder / CAMERAS), ("masks_from", folder / MASKS)):
            file = own if own.exists() else Path(facts.get(key) or "")
            if file.name and file.exists():
                options[key.removesuffix("_from")] = file
        views = _photos(source, **options)
    splats = Splats.load(folder / SPLATS) if (folder / SPLATS).is_file() else None
    meshes = tuple(_meshes(folder, facts))
    return Subject(folder.resolve().name, meshes, splats, views=views, target=target)


def _meshes(folder: Path, facts: dict[str, Any]) -> Sequence[tuple[str, Mesh]]:
    """The shapes on the way to a fit, and its result."""
    meshes: list[tuple[str, Mesh]] = []
    origin = torch.tensor(facts.get("origin") or [0.0] * 3, dtype=torch.float64)
    with suppress(ValueError):  # there is none, or that of another command
        state = FitState.load(folder / CHECKPOINT)
        meshes = [
            (f"step {step}", Mesh(state.frame.world(vertices), faces).with_origin(origin))
            for step, vertices, faces in state.trace
        ]
    for name in MESHES:
        if (folder / name).is_file():
            return [*meshes, ("result", Mesh.load(folder / name))]
    return meshes
