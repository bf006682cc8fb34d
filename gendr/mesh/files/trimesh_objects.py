"""Conversion between plain parts and the meshes and scenes of trimesh."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gendr.mesh.attributes import check_reach
from gendr.mesh.files.reports import note
from gendr.mesh.files.soup import Array, Material, Soup, joined, merge, to_parts
from gendr.mesh.files.srgb import from_linear
from gendr.mesh.files.textures import pixels, to_bytes, to_image
from gendr.mesh.images import UnreadableImageError, decode
from gendr.mesh.parts import MeshParts


def from_trimesh(geometry: Any, dtype: torch.dtype, notes: list[str]) -> MeshParts:
    """The parts of a `trimesh.Trimesh`, or of all meshes in a `trimesh.Scene`.

    Raises:
        TypeError: for anything else.
        ValueError: for a mesh without faces, or one too large for the dtype.
    """
    import trimesh

    if isinstance(geometry, trimesh.Scene):
        soup = scene_soup(geometry, notes)
    elif isinstance(geometry, trimesh.Trimesh):
        soup = _part(geometry, np.eye(4), notes)
    else:
        raise TypeError(
            f"from_trimesh takes a trimesh.Trimesh or a trimesh.Scene, got {type(geometry)}"
        )
    if len(soup.faces) == 0:
        raise ValueError("the trimesh has no faces, so it is no mesh to render")
    if len(soup.uvs):
        merge(soup)
    check_reach("the vertices of the trimesh", torch.from_numpy(soup.vertices), dtype)
    return to_parts(soup, dtype, notes)


def scene_soup(scene: Any, notes: list[str]) -> Soup:
    """All meshes of a `trimesh.Scene`, placed by their transforms.

    Raises:
        ValueError: if a face names a vertex that is not there.
    """
    import trimesh

    parts: list[Soup] = []
    for node in scene.graph.nodes_geometry:
        matrix, name = scene.graph[node]
        geometry = scene.geometry[name]
        if isinstance(geometry, trimesh.Trimesh) and len(geometry.faces):
            parts.append(_part(geometry, np.asarray(matrix), notes))
    return joined(parts)


def _part(geometry: Any, matrix: Array, notes: list[str]) -> Soup:
    """One trimesh geometry, placed by a matrix."""
    vertices = np.array(geometry.vertices, np.float64)
    faces = np.array(geometry.faces, np.int64)
    if len(faces) and not 0 <= faces.min() <= faces.max() < len(vertices):
        raise ValueError("a face names a vertex that is not there")
    if not np.array_equal(matrix, np.eye(4)):
        vertices = vertices @ matrix[:3, :3].T + matrix[:3, 3]
        if np.linalg.det(matrix[:3, :3]) < 0:
            faces = faces[:, ::-1]
    part = Soup.plain(vertices, faces)
    visual = geometry.visual
    if visual.kind == "texture":
        uv = getattr(visual, "uv", None)
        if uv is not None and np.shape(uv)[:1] == (len(vertices),):
            part.uvs = np.asarray(uv, np.float64)[:, :2]
            part.face_uvs = faces
        several = getattr(visual.material, "materials", [visual.material])  # of a MultiMaterial
        part.materials = [_material(each, notes) for each in several]
        part.face_material = np.zeros(len(faces), np.int64)
        if len(several) > 1:  # trimesh does not follow these where faces are removed or picked
            which = np.asarray(getattr(visual, "face_materials", None))
            if which.shape == (len(faces),) and np.isin(which, range(-1, len(several))).all():
                part.face_material += which.astype(np.int64)
            else:
                note(notes, f"it does not say which faces have which of its {len(several)} "
                     "materials; the first counts")  # fmt: skip
        colors = visual.vertex_attributes.get("color")
        if colors is not None and len(colors) == len(vertices):
            part.vertex_colors = _from_bytes(colors, notes)
    elif visual.kind == "vertex":
        part.vertex_colors = _from_bytes(visual.vertex_colors, notes)
    elif visual.kind == "face":
        part.face_colors = _from_bytes(visual.face_colors, notes)
    return part


def _material(material: Any, notes: list[str]) -> Material:
    """Image and colour of a simple or a PBR material."""
    simple = hasattr(material, "diffuse")
    image = getattr(material, "image" if simple else "baseColorTexture", None)
    if image is not None:
        try:
            decode("its texture", image)
        except UnreadableImageError as error:
            note(notes, str(error))
            image = None
    color = material.diffuse if simple and image is None else None
    color = getattr(material, "baseColorFactor", None) if not simple else color
    rgb = np.ones(3) if color is None else _from_bytes(np.asarray(color)[None], notes)[0]
    return Material(
        image=None if image is None else pixels(image, notes),
        color=rgb if simple else from_linear(rgb),  # as in glTF, where PBR materials are from
    )


def _from_bytes(colors: Any, notes: list[str]) -> Array:
    """RGB in [0, 1] from RGB or RGBA, 8 bits, 16 bits or floating."""
    colors = np.asarray(colors)
    if np.issubdtype(colors.dtype, np.integer):
        colors = colors / float(np.iinfo(colors.dtype).max)
    if colors.shape[1] > 3 and colors[:, 3].min(initial=1.0) < 1:
        note(notes, "the transparency of its colours is dropped")
    return np.asarray(colors[:, :3], np.float64)


def to_trimesh(parts: MeshParts) -> Any:
    """One mesh as a `trimesh.Trimesh`; `gendr.Mesh.to_trimesh` says how."""
    import trimesh
    from trimesh.visual import ColorVisuals, TextureVisuals
    from trimesh.visual.material import PBRMaterial

    if parts.face_colors is not None and (parts.uvs is not None or parts.vertex_colors is not None):
        parts = parts.with_corner_colors()
    parts = parts.with_vertex_uvs()  # trimesh has one for each vertex
    vertices, faces = parts.world_vertices().numpy(), parts.faces.numpy()
    colors = None if parts.vertex_colors is None else to_bytes(parts.vertex_colors)
    visual: Any = None
    if parts.uvs is not None:
        material = PBRMaterial(
            baseColorTexture=None if parts.texture is None else to_image(parts.texture),
            baseColorFactor=[255] * 4,
            metallicFactor=0.0,
            roughnessFactor=1.0,
        )
        visual = TextureVisuals(uv=parts.uvs.double().numpy(), material=material)
        if colors is not None:
            opaque = np.full((len(colors), 1), 255, np.uint8)
            visual.vertex_attributes["color"] = np.hstack((colors, opaque))
    elif colors is not None:
        visual = ColorVisuals(vertex_colors=colors)
    elif parts.face_colors is not None:
        visual = ColorVisuals(face_colors=to_bytes(parts.face_colors))
    return trimesh.Trimesh(vertices, faces, visual=visual, process=False)
