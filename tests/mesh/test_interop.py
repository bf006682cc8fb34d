"""Meshes from and to trimesh and PyTorch3D."""

import sys
from dataclasses import dataclass
from types import ModuleType

import numpy as np
import pytest
import torch
import trimesh
from torch.testing import assert_close

from gendr.mesh import Mesh, cube, icosphere
from support.cases import for_each

EIGHT_BITS = 0.5 / 255 + 1e-6


def textured(mesh):
    """A mesh with a texture whose seams run along all edges."""
    corner = torch.tensor([[0.0, 0], [1, 0], [1, 1]])
    uvs = torch.arange(3).repeat(len(mesh.faces), 1)
    texture = torch.tensor([[[1.0, 0, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 0]]])
    return Mesh(mesh.vertices, mesh.faces, uvs=corner, face_uvs=uvs, texture=texture)


LOOKS = {
    "plain": icosphere(1),
    "vertex": icosphere(1).with_vertex_colors(torch.rand(42, 3)),
    "face": icosphere(1).with_face_colors(torch.rand(80, 3)),
    "texture": textured(cube()),
    "texture and vertex": textured(cube()).with_vertex_colors(torch.rand(8, 3)),
    "texture and face": textured(cube()).with_face_colors(torch.rand(12, 3)),
    "vertex and face": icosphere(1)
    .with_vertex_colors(torch.rand(42, 3))
    .with_face_colors(torch.rand(80, 3)),
}


@for_each(name=LOOKS)
def test_to_trimesh_and_back(name):
    mesh = LOOKS[name]
    other = mesh.to_trimesh()
    back = Mesh.from_trimesh(other)
    assert Mesh.from_trimesh(other, dtype=torch.float64).dtype == torch.float64
    assert_close(back.face_vertices, mesh.face_vertices)
    if " and face" not in name:  # where each face has vertices of its own
        assert_close(back.vertices, mesh.vertices)
        assert_close(back.faces, mesh.faces)
        assert back.is_watertight
    if mesh.texture is not None:
        assert_close(back.corner_uvs, mesh.corner_uvs)
        assert_close(back.texture, mesh.texture)
    assert (back.corner_colors is None) == (mesh.corner_colors is None)
    if mesh.corner_colors is not None:
        assert_close(back.corner_colors, mesh.corner_colors, rtol=0, atol=EIGHT_BITS)


def test_materials_of_trimesh(tmp_path):
    """PBR factors are linear as in glTF: a file has the same colours by trimesh and `load`."""
    box = trimesh.creation.box()
    material = trimesh.visual.material.PBRMaterial(baseColorFactor=[128, 64, 255, 255])
    box.visual = trimesh.visual.TextureVisuals(uv=np.zeros((8, 2)), material=material)
    box.export(tmp_path / "box.glb")
    direct, by_trimesh = Mesh.load(tmp_path / "box.glb"), Mesh.from_trimesh(box)
    assert direct.face_colors is not None
    assert by_trimesh.face_colors is not None
    assert_close(by_trimesh.face_colors, direct.face_colors, rtol=0, atol=1e-6)
    assert by_trimesh.face_colors[0, 0].item() == pytest.approx(0.7366, abs=1e-4)
    material = trimesh.visual.material.SimpleMaterial(diffuse=[128, 64, 255, 255])
    box.visual = trimesh.visual.TextureVisuals(uv=np.zeros((8, 2)), material=material)
    simple = Mesh.from_trimesh(box).face_colors
    assert simple is not None
    assert simple[0, 0].item() == pytest.approx(128 / 255)
    blue = trimesh.visual.material.SimpleMaterial(diffuse=[0, 0, 255, 255])
    several = trimesh.visual.material.MultiMaterial([material, blue])
    box.visual = trimesh.visual.TextureVisuals(
        uv=np.zeros((8, 2)), material=several, face_materials=[1] * 6 + [0] * 6
    )
    both = Mesh.from_trimesh(box).face_colors
    assert both is not None
    assert_close(both[6:], simple[6:])
    assert_close(both[:6], torch.tensor([[0.0, 0, 1]]).expand(6, 3))
    box.update_faces(np.arange(12) > 2)  # which leaves 12 materials of 9 faces
    with pytest.warns(UserWarning, match="which of its 2 materials; the first counts"):
        first = Mesh.from_trimesh(box).face_colors
    assert first is not None
    assert_close(first, simple[:9])
    box.visual = trimesh.visual.TextureVisuals(uv=np.zeros((8, 2)), material=blue)
    mixed = Mesh.from_trimesh(trimesh.Scene([box, trimesh.creation.box()])).face_colors
    assert mixed is not None
    assert (mixed[-12:] == 1).all()  # what has no material takes none of the others


def test_a_trimesh_far_out():
    far = torch.tensor([5e5, 4.6e6, 0.0], dtype=torch.float64)
    other = icosphere(1).with_origin(far).to_trimesh()
    assert_close(torch.from_numpy(other.vertices.mean(0)), far, rtol=0, atol=1e-6)
    with pytest.warns(UserWarning, match=r"the trimesh: .* mesh\.origin") as caught:
        back = Mesh.from_trimesh(other)
    assert caught[0].filename == __file__
    assert_close(back.vertices, icosphere(1).vertices)


def test_bad_arguments_of_trimesh():
    def triangle(points):
        return trimesh.Trimesh(points, [[0, 1, 2]], process=False)

    for bad, error, message in (
        (torch.zeros(3), TypeError, r"trimesh\.Trimesh or a trimesh\.Scene, got .*Tensor"),
        (trimesh.Trimesh(), ValueError, "no faces"),
        (triangle(np.zeros((2, 3))), ValueError, "a face names a vertex that is not there"),
        (triangle(np.eye(3) * 1e30), ValueError, r"of the trimesh must lie within ±1e\+18"),
    ):
        with pytest.raises(error, match=message):
            Mesh.from_trimesh(bad)
    with pytest.raises(ValueError, match="one mesh, got a batch of 2"):
        cube().repeated(2).to_trimesh()


# -- PyTorch3D: what we use of its interface -------------------------------------------------------


class TexturesVertex:
    def __init__(self, verts_features):
        self.features = verts_features

    def verts_features_list(self):
        return self.features


class TexturesUV:
    def __init__(self, maps, faces_uvs, verts_uvs, align_corners=True):
        self.maps, self.faces, self.verts = maps, faces_uvs, verts_uvs
        self.align_corners = align_corners

    def maps_list(self):
        return self.maps

    def faces_uvs_list(self):
        return self.faces

    def verts_uvs_list(self):
        return self.verts


class TexturesAtlas:
    def __init__(self, atlas):
        self.atlas = atlas

    def atlas_list(self):
        return self.atlas


@dataclass
class Meshes:
    verts: list
    faces: list
    textures: object = None

    def verts_list(self):
        return self.verts

    def faces_list(self):
        return self.faces


@pytest.fixture
def pytorch3d(monkeypatch):
    package, renderer, structures = (
        ModuleType(name) for name in ("pytorch3d", "pytorch3d.renderer", "pytorch3d.structures")
    )
    for kind in (TexturesVertex, TexturesUV, TexturesAtlas):
        setattr(renderer, kind.__name__, kind)
    structures.Meshes = Meshes
    package.renderer, package.structures = renderer, structures
    for module in (package, renderer, structures):
        monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.mark.parametrize("name", ["plain", "vertex", "face", "texture"])
def test_to_pytorch3d_and_back(pytorch3d, name):
    mesh = Mesh.batch([LOOKS[name], LOOKS[name].scaled(2.0)])
    leaf = mesh.vertices.clone().requires_grad_()
    other = mesh.with_vertices(leaf).to_pytorch3d()
    assert [len(v) for v in other.verts] == list(mesh.vertex_counts)
    assert all(int(f.max()) < len(v) for v, f in zip(other.verts, other.faces, strict=True))
    back = Mesh.from_pytorch3d(other)
    for part in ("vertices", "faces", "corner_uvs", "vertex_colors", "face_colors"):
        if getattr(mesh, part) is not None:
            assert_close(getattr(back, part), getattr(mesh, part))
    if mesh.textures is not None:
        assert [t is mesh.textures[0] for t in back.textures] == [True, True]
        assert other.textures.align_corners is False
    back.face_areas.sum().backward()
    assert leaf.grad.abs().sum() > 0


def test_gradients_of_pytorch3d_looks(pytorch3d):
    colors = torch.rand(42, 3, requires_grad=True)
    textures = TexturesVertex([colors])
    mesh = Mesh.from_pytorch3d(Meshes([icosphere(1).vertices], [icosphere(1).faces], textures))
    mesh.corner_colors.sum().backward()
    assert (colors.grad >= 5).all()


def test_what_does_not_fit_pytorch3d(pytorch3d):
    both = icosphere(1).with_vertex_colors(torch.rand(42, 3)).with_face_colors(torch.rand(80, 3))
    with pytest.warns(UserWarning, match="does not hold the face colors of this mesh") as caught:
        both.to_pytorch3d()
    assert caught[0].filename == __file__
    many = Meshes([cube().vertices], [cube().faces], TexturesVertex([torch.rand(8, 7)]))
    with pytest.warns(UserWarning, match="TexturesVertex, which are dropped") as caught:
        assert Mesh.from_pytorch3d(many).vertex_colors is None
    assert caught[0].filename == __file__
    with pytest.raises(TypeError, match="takes a pytorch3d Meshes, got list"):
        Mesh.from_pytorch3d([])


def test_without_pytorch3d(monkeypatch):
    monkeypatch.setitem(sys.modules, "pytorch3d", None)
    with pytest.raises(ImportError, match="to_pytorch3d needs PyTorch3D, which is not installed"):
        cube().to_pytorch3d()
