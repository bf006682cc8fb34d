"""Meshes of other libraries: trimesh, which also reads and writes files for us, and PyTorch3D."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gendr._runtime.checks import check_tensor
from gendr.mesh.attributes import check_reach
from gendr.mesh.images import UnreadableImageError, decode
from gendr.mesh.mesh import Mesh
from gendr.mesh.soup import Array, Material, Soup, joined, merge, note, pixels, to_mesh

if TYPE_CHECKING:
    from PIL.Image import Image

# -- trimesh ---------------------------------------------------------------------------------------


def from_trimesh(
    geometry: Any,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Mesh:
    """The mesh of a `trimesh.Trimesh`, or of all meshes in a `trimesh.Scene`.

    Vertices and faces keep their order and number, but for meshes with UVs: trimesh repeats their
    vertices along the seams of the texture, and those of equal position and colour are made one.
    What a `Mesh` cannot hold (transparency) is dropped with a warning. Coordinates too far out for
    float32 count from an `origin`, as those of a file (`load_mesh`).

    Args:
        geometry: A `trimesh.Trimesh` or `trimesh.Scene`.
        dtype: float32 or float64.
        device: Where the mesh lives.

    Raises:
        TypeError: for anything else.
        ValueError: for a mesh without faces, and what no `Mesh` may hold.
    """
    import trimesh

    notes: list[str] = []
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
    mesh = to_mesh(soup, dtype, notes).to(device)
    if notes:
        warnings.warn(f"the trimesh: {'; '.join(notes)}", stacklevel=3)
    return mesh


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
    """One trimesh geometry, placed."""
    vertices = np.array(geometry.vertices, np.float64)
    faces = np.array(geometry.faces, np.int64)
    if len(faces) and not 0 <= faces.min() <= faces.max() < len(vertices):
        raise ValueError("a face names a vertex that is not there")
    if not np.array_equal(matrix, np.eye(4)):
        vertices = vertices @ matrix[:3, :3].T + matrix[:3, 3]
        if np.linalg.det(matrix[:3, :3]) < 0:
            faces = faces[:, ::-1]
    part = Soup(
        vertices=vertices,
        faces=faces,
        uvs=np.zeros((0, 2)),
        face_uvs=np.full_like(faces, -1),
        materials=[],
        face_material=np.full(len(faces), -1),
    )
    visual = geometry.visual
    if visual.kind == "texture":
        uv = getattr(visual, "uv", None)
        if uv is not None and np.shape(uv)[:1] == (len(vertices),):
            part.uvs = np.asarray(uv, np.float64)[:, :2]
            part.face_uvs = faces
        part.materials = [_material(geometry, notes)]
        part.face_material = np.zeros(len(faces), np.int64)
        colors = visual.vertex_attributes.get("color")
        if colors is not None and len(colors) == len(vertices):
            part.vertex_colors = _from_bytes(colors, notes)
    elif visual.kind == "vertex":
        part.vertex_colors = _from_bytes(visual.vertex_colors, notes)
    elif visual.kind == "face":
        part.face_colors = _from_bytes(visual.face_colors, notes)
    return part


def texture_image(geometry: Any) -> Image | None:
    """The image of a simple or a PBR material; of a loaded file, only its header has been read."""
    material = getattr(getattr(geometry, "visual", None), "material", None)
    simple = hasattr(material, "diffuse")
    return getattr(material, "image" if simple else "baseColorTexture", None)


def _material(geometry: Any, notes: list[str]) -> Material:
    """Image and colour of a simple or a PBR material."""
    material, image = geometry.visual.material, texture_image(geometry)
    simple = hasattr(material, "diffuse")
    if image is not None:
        try:
            decode("its texture", image)
        except UnreadableImageError as error:
            note(notes, str(error))
            image = None
    color = material.diffuse if simple and image is None else None
    color = getattr(material, "baseColorFactor", None) if not simple else color
    return Material(
        image=None if image is None else pixels(image, notes),
        color=np.ones(3) if color is None else _from_bytes(np.asarray(color)[None], notes)[0],
    )


def _from_bytes(colors: Any, notes: list[str]) -> Array:
    """RGB in [0, 1] from RGB or RGBA, 8 bits, 16 bits or floating."""
    colors = np.asarray(colors)
    if np.issubdtype(colors.dtype, np.integer):
        colors = colors / float(np.iinfo(colors.dtype).max)
    if colors.shape[1] > 3 and colors[:, 3].min(initial=1.0) < 1:
        note(notes, "the transparency of its colours is dropped")
    return np.asarray(colors[:, :3], np.float64)


def to_trimesh(mesh: Mesh) -> Any:
    """A mesh as a `trimesh.Trimesh`, in world coordinates (`mesh.origin` added), float64.

    trimesh has one UV per vertex and either vertex or face colours. So vertices are repeated along
    the seams of a texture, and each face gets vertices of its own where face colours meet a texture
    or vertex colours; else vertices and faces keep their order and number. Colours are rounded to
    8 bits.

    Raises:
        ValueError: for a batch.
    """
    import trimesh
    from trimesh.visual import ColorVisuals, TextureVisuals
    from trimesh.visual.material import PBRMaterial

    if len(mesh) != 1:
        raise ValueError(f"a trimesh is one mesh, got a batch of {len(mesh)}; convert mesh[i]")
    mesh = mesh.detach().to("cpu")
    if mesh.face_colors is not None and (mesh.uvs is not None or mesh.vertex_colors is not None):
        mesh = with_corner_colors(mesh)
    vertices, faces = world_vertices(mesh).numpy(), mesh.faces.numpy()
    colors = None if mesh.vertex_colors is None else to_bytes(mesh.vertex_colors)
    visual: Any = None
    if mesh.uvs is not None and mesh.face_uvs is not None:
        # One UV per vertex: vertices on a seam are repeated, in order, so that `merge` can undo it.
        index = mesh.face_uvs.numpy()
        pairs = np.stack((faces, index), -1).reshape(-1, 2)
        lonely = np.setdiff1d(np.arange(len(vertices)), faces)
        pairs = np.concatenate((pairs, np.stack((lonely, np.zeros_like(lonely)), -1)))
        unique, inverse = np.unique(pairs, axis=0, return_inverse=True)
        faces = inverse.reshape(-1)[: faces.size].reshape(-1, 3)
        vertices = vertices[unique[:, 0]]
        material = PBRMaterial(
            baseColorTexture=to_image(mesh.textures[0]) if mesh.textures is not None else None,
            baseColorFactor=[255] * 4,
            metallicFactor=0.0,
            roughnessFactor=1.0,
        )
        visual = TextureVisuals(uv=mesh.uvs.double().numpy()[unique[:, 1]], material=material)
        if colors is not None:
            opaque = np.full((len(colors), 1), 255, np.uint8)
            visual.vertex_attributes["color"] = np.hstack((colors, opaque))[unique[:, 0]]
    elif colors is not None:
        visual = ColorVisuals(vertex_colors=colors)
    elif mesh.face_colors is not None:
        visual = ColorVisuals(face_colors=to_bytes(mesh.face_colors))
    return trimesh.Trimesh(vertices, faces, visual=visual, process=False)


def with_corner_colors(mesh: Mesh) -> Mesh:
    """The same surface with vertex colours in place of face colours: no two faces share a vertex.

    `merge` joins those of equal position and colour again.
    """
    corners, colors = mesh.faces.reshape(-1), mesh.corner_colors
    assert colors is not None  # asked only for meshes with face colours
    return Mesh(
        mesh.vertices[corners],
        torch.arange(len(corners)).reshape(-1, 3),
        uvs=mesh.uvs,
        face_uvs=mesh.face_uvs,
        texture=mesh.textures,
        vertex_colors=colors.reshape(-1, 3),
    ).with_origin(mesh.origin)


def world_vertices(mesh: Mesh) -> Tensor:
    """Positions in the world of all vertices of one mesh: float64 [V, 3]."""
    return mesh.vertices.double() + mesh.origin.to(mesh.device)


def to_image(texture: Tensor) -> Image:
    """8-bit RGB image."""
    from PIL import Image

    return Image.fromarray(to_bytes(texture))


def to_bytes(colors: Tensor) -> Array:
    """[0, 1] to 0 .. 255, rounded."""
    return (colors.clamp(0, 1) * 255).round().to(torch.uint8).numpy()


# -- PyTorch3D -------------------------------------------------------------------------------------


def from_pytorch3d(meshes: Any) -> Mesh:
    """The batch of a `pytorch3d.structures.Meshes`, with gradients.

    TexturesVertex of 3 features become vertex colours, TexturesUV textures and TexturesAtlas of one
    texel face colours; other textures are dropped with a warning. UVs and texels stay as they are:
    both sides have v up and row 0 at the top. `gendr` repeats a texture beyond [0, 1] and has the
    outer edges of its outer texels at 0 and 1; PyTorch3D has their centres there unless
    `align_corners=False`.

    Args:
        meshes: Meshes, or what has `verts_list()`, `faces_list()` and `textures`.

    Raises:
        TypeError: for anything else.
        ValueError: for no mesh, and what no `Mesh` may hold.
    """
    if not (hasattr(meshes, "verts_list") and hasattr(meshes, "faces_list")):
        raise TypeError(f"from_pytorch3d takes a pytorch3d Meshes, got {type(meshes).__name__}")
    vertices, faces = list(meshes.verts_list()), list(meshes.faces_list())
    looks = _pytorch3d_looks(getattr(meshes, "textures", None), len(vertices))
    return Mesh.batch(
        [Mesh(v, f, **look) for v, f, look in zip(vertices, faces, looks, strict=True)]
    )


def _pytorch3d_looks(textures: Any, count: int) -> list[dict[str, Tensor]]:
    """What each mesh looks like, as arguments of `Mesh`."""
    if textures is None:
        return [{} for _ in range(count)]
    if hasattr(textures, "verts_features_list"):
        colors = list(textures.verts_features_list())
        if all(c.shape[-1] == 3 for c in colors):
            return [{"vertex_colors": c} for c in colors]
    elif hasattr(textures, "verts_uvs_list"):
        maps = list(textures.maps_list() if hasattr(textures, "maps_list")
                    else textures.maps_padded())  # fmt: skip
        if all(m.shape[-1] == 3 for m in maps):
            parts = zip(maps, textures.verts_uvs_list(), textures.faces_uvs_list(), strict=True)
            return [
                {"texture": check_tensor("maps", m), "uvs": uvs, "face_uvs": faces}
                for m, uvs, faces in parts
            ]
    elif hasattr(textures, "atlas_list"):
        atlases = list(textures.atlas_list())
        if all(a.shape[1:] == (1, 1, 3) for a in atlases):
            return [{"face_colors": a[:, 0, 0]} for a in atlases]
    name = type(textures).__name__
    warnings.warn(f"a Mesh does not hold these textures, {name}, which are dropped", stacklevel=4)
    return [{} for _ in range(count)]


def to_pytorch3d(mesh: Mesh) -> Any:
    """The batch as a `pytorch3d.structures.Meshes`, with gradients; PyTorch3D must be installed.

    It holds one kind of looks: the texture as TexturesUV, else vertex colours as TexturesVertex,
    else face colours as TexturesAtlas; what does not fit is dropped with a warning. Coordinates
    stay as they are, without `mesh.origin`.

    Raises:
        ImportError: if PyTorch3D is not installed.
    """
    try:
        from pytorch3d import renderer, structures  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ImportError(
            "to_pytorch3d needs PyTorch3D, which is not installed; its INSTALL.md says how"
        ) from None

    parts = list(mesh)
    held = [n for n in ("textures", "vertex_colors", "face_colors") if getattr(mesh, n) is not None]
    textures: Any = None
    if mesh.textures is not None:
        textures = renderer.TexturesUV(
            maps=list(mesh.textures),
            faces_uvs=[m.face_uvs for m in parts],
            verts_uvs=[m.uvs for m in parts],
            align_corners=False,
        )
    elif mesh.vertex_colors is not None:
        textures = renderer.TexturesVertex(verts_features=[m.vertex_colors for m in parts])
    elif mesh.face_colors is not None:
        colors = mesh.face_colors.split(list(mesh.face_counts))
        textures = renderer.TexturesAtlas(atlas=[c[:, None, None] for c in colors])
    if held[1:]:
        lost = " and ".join(name.replace("_", " ") for name in held[1:])
        warnings.warn(f"PyTorch3D does not hold the {lost} of this mesh", stacklevel=3)
    return structures.Meshes(
        verts=[m.vertices for m in parts], faces=[m.faces for m in parts], textures=textures
    )
