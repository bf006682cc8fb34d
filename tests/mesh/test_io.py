"""Mesh files: round trips, files of other programs, and one-line errors for what is no mesh."""

import math
import os
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.testing import assert_close

from gendr.mesh import Mesh, cube, grid, icosphere, load_texture, look_at
from gendr.rendering import Renderer
from support.cases import for_each
from support.gltf import CORNERS, Gltf, glb
from support.scenes import texels_at

ENDINGS = ["obj", "ply", "glb", "gltf", "off", "stl"]
EIGHT_BITS = 0.5 / 255 + 1e-6


def seamed(dtype=torch.float32):
    """A cube whose sides each map to the whole texture: all its edges are seams."""
    base = cube()
    corner = torch.tensor([[0.0, 0], [1, 0], [1, 1], [0, 1]], dtype=dtype)
    face_uvs = torch.tensor([[0, 1, 2], [0, 2, 3]]).repeat(6, 1)
    texture = torch.rand(5, 7, 3, generator=torch.Generator().manual_seed(0), dtype=dtype)
    texture = (texture * 255).round() / 255
    return Mesh(base.vertices.to(dtype), base.faces, uvs=corner, face_uvs=face_uvs, texture=texture)


# -- round trips -----------------------------------------------------------------------------------


@for_each(ending=ENDINGS, dtype=[torch.float32, torch.float64])
def test_geometry(tmp_path, ending, dtype):
    mesh = icosphere(1, dtype=dtype)
    shaken = mesh.with_vertices(mesh.vertices + 0.1 * torch.randn_like(mesh.vertices))
    shaken.save(tmp_path / f"m.{ending}")
    back = Mesh.load(tmp_path / f"m.{ending}", dtype=dtype)
    assert back.dtype == dtype
    assert back.is_watertight
    exact = ending in ("obj", "ply") or dtype == torch.float32
    within = 0 if exact else 1e-15 if ending == "off" else 1e-6
    tolerance = {"rtol": 0, "atol": within}
    assert_close(back.face_vertices, shaken.face_vertices, **tolerance)
    if ending != "stl":  # which has neither order nor number of vertices
        assert_close(back.vertices, shaken.vertices, **tolerance)
        assert_close(back.faces, shaken.faces)


@for_each(
    "ending, make",
    [
        (ending, make)
        for endings, make in (
            ("obj glb gltf", seamed),
            ("obj ply glb gltf", lambda: icosphere(1).with_vertex_colors(torch.rand(42, 3))),
            ("obj glb", lambda: seamed().with_vertex_colors(torch.rand(8, 3))),
            ("obj ply", lambda: icosphere(1).with_face_colors(torch.rand(5, 3).repeat(16, 1))),
            ("obj", lambda: grid(2, 2)),  # UVs without a texture
            ("obj", lambda: icosphere(0).with_vertices(icosphere(0).vertices.requires_grad_())),
        )
        for ending in endings.split()
    ],
)
def test_looks(tmp_path, ending, make):
    mesh = make()
    mesh.save(str(tmp_path / f"m.{ending}"))
    back = Mesh.load(str(tmp_path / f"m.{ending}"))
    assert_close(back.vertices, mesh.vertices.detach())
    assert_close(back.faces, mesh.faces)
    within = 1e-6 if ending == "obj" else EIGHT_BITS
    for name in ("corner_uvs", "texture", "vertex_colors", "face_colors"):
        want, got = getattr(mesh, name), getattr(back, name)
        assert (got is None) == (want is None), name
        if want is not None:
            assert_close(got, want, rtol=0, atol=within if "colors" in name else 1e-6)
    if mesh.uvs is not None and ending == "obj":
        assert len(back.uvs) == len(mesh.uvs)


@for_each(textured=[False, True])
def test_face_colors_in_a_glb_are_vertex_colors(tmp_path, textured):
    """Corners have the same colours and UVs; faces of one colour still hang together."""
    plain = seamed().with_vertex_colors(torch.rand(8, 3)) if textured else icosphere(1)
    count = len(plain.faces)
    mesh = plain.with_face_colors(torch.rand(count, 3))
    mesh.save(tmp_path / "m.glb")
    back = Mesh.load(tmp_path / "m.glb")
    assert_close(back.face_vertices, mesh.face_vertices)
    assert_close(back.corner_colors, mesh.corner_colors, rtol=0, atol=EIGHT_BITS)
    if textured:
        assert_close(back.corner_uvs, mesh.corner_uvs)
    one = plain.with_vertex_colors(None).with_face_colors(torch.full((count, 3), 0.5))
    one.save(tmp_path / "one.glb")
    assert len(Mesh.load(tmp_path / "one.glb").vertices) == len(plain.vertices)


def test_what_a_format_drops_is_named_once(tmp_path):
    mesh = seamed().with_vertex_colors(torch.rand(8, 3)).with_face_colors(torch.rand(12, 3))
    for ending, lost in (
        ("obj", "face_colors"),
        ("ply", "face_colors, texture, uvs"),
        ("off", "face_colors, texture, uvs, vertex_colors"),
        ("stl", "face_colors, texture, uvs, vertex_colors"),
    ):
        with pytest.warns(UserWarning, match=rf"m\.{ending} does not hold the {lost} of") as caught:
            mesh.save(tmp_path / f"m.{ending}")
        assert [w.filename for w in caught] == [__file__]  # the line that called


# -- OBJ as others write it ------------------------------------------------------------------------


def obj(tmp_path, text, mtl=None):
    (tmp_path / "m.obj").write_text(text)
    if mtl is not None:
        (tmp_path / "m.mtl").write_text(mtl)
    return Mesh.load(tmp_path / "m.obj")


SQUARE = "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nv 9 9 9\n"


def test_obj_polygons_and_corners(tmp_path):
    mesh = obj(
        tmp_path,
        "# a comment\r\ng some\n" + SQUARE + "vn 0 0 1\nvt 0 0\nvt 1 0 0\nvt 1 1\nvt 0 1\n"
        "s off\nf 1/1/1 2/2/1 3/3/1 4/4/1 # quad\n",
    )
    assert mesh.vertices.shape == (5, 3)  # the unused one stays, so indices stay
    assert mesh.faces.tolist() == [[0, 1, 2], [0, 2, 3]]
    assert mesh.face_uvs.tolist() == [[0, 1, 2], [0, 2, 3]]
    pentagon = "v 0 0 0\nv 1 0 0\nv 2 1 0\nv 1 2 0\nv 0 1 0\nf 1//1 2//1 3//1 4//1 5//1\n"
    assert obj(tmp_path, pentagon).faces.tolist() == [[0, 1, 2], [0, 2, 3], [0, 3, 4]]


def test_obj_spellings(tmp_path):
    for face in ("f -5 -4 -3", "f\t1  2\t3", "f 1 \\\n 2 3", "  f 1 2 3  "):
        assert obj(tmp_path, SQUARE + face + "\n").faces.tolist() == [[0, 1, 2]], face
    later = obj(tmp_path, SQUARE + "f -5 -4 -3\nv 2 2 2\nf -1 -2 -3\n")
    assert later.faces.tolist() == [[0, 1, 2], [5, 4, 3]]
    mixed = obj(tmp_path, SQUARE + "vt 0 0\nvt 1 0\nvt 1 1\nf 1/1 2/2 3/3\nf 1 3 4\n")
    assert mixed.uvs is None  # UVs on some faces only are of no use without a texture
    scaled = obj(tmp_path, "v 1 2 3 1.0\nv 0 0 0 1.0\nv 1 1 0 1.0\nf 1 2 3\n")
    assert scaled.vertices[0].tolist() == [1, 2, 3]
    assert scaled.vertex_colors is None
    bytes_ = obj(tmp_path, "v 0 0 0 255 0 51\nv 1 0 0 0 0 0\nv 0 1 0 0 0 0\nf 1 2 3\n")
    assert_close(bytes_.vertex_colors[0], torch.tensor([1.0, 0, 0.2]))


def test_obj_seams_keep_the_surface_whole(tmp_path):
    lines = SQUARE + "".join(f"vt {i / 6} {i / 7}\n" for i in range(6))
    mesh = obj(tmp_path, lines + "f 1/1 2/2 3/3\nf 1/4 3/5 4/6\n")
    assert mesh.faces.tolist() == [[0, 1, 2], [0, 2, 3]]
    assert mesh.face_uvs.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_obj_material_colors(tmp_path):
    mesh = obj(
        tmp_path,
        "mtllib m.mtl\n" + SQUARE + "usemtl red one\nf 1 2 3\nusemtl None\nf 1 3 4\n",
        "newmtl red one\nKd 1 0.5 0\n# end\n",
    )
    assert_close(mesh.face_colors, torch.tensor([[1, 0.5, 0], [1, 1, 1]]))


@for_each(far=[0.0, 2.25])
def test_several_images_become_one(tmp_path, far, monkeypatch):
    """Also where a face repeats its image, by `far` along u and twice that along v."""
    g = np.random.default_rng(0)
    images = {n: g.integers(0, 256, s, np.uint8) for n, s in
              (("a", (8, 4, 3)), ("b c", (3, 10, 3)))}  # fmt: skip
    for name, pixels in images.items():
        Image.fromarray(pixels).save(tmp_path / f"{name}.png")
    mtl = "newmtl A\nKd 0 0 0\nmap_Kd -s 1 1 1 a.png\nnewmtl B\nmap_Kd textures\\b c.png\n"
    mtl += "newmtl C\nKd 0.2 0.4 0.6\n"
    text = "mtllib m.mtl\n" + SQUARE + "vt 0.1 0.1\nvt 0.9 0.2\nvt 0.8 0.9\nvt -2.8 1.6\n"
    text += f"vt {far - 2.2} {1.1 - 2 * far}\nvt -2.5 1.9\nusemtl A\nf 1/1 2/2 3/3\n"
    text += "usemtl B\nf 1/4 3/5 4/6\n"
    text += "usemtl C\nf 1/1 2/2 4/3\nusemtl A\nf 2/2 3/3 4/1\nf 2 3 5\n"
    with pytest.warns(UserWarning, match="1 of its faces have a texture but no UVs"):
        mesh = obj(tmp_path, text, mtl)
    assert mesh.faces.tolist() == [[0, 1, 2], [0, 2, 3], [0, 1, 3], [1, 2, 3], [1, 2, 4]]
    uvs = torch.tensor([[0.1, 0.1], [0.9, 0.2], [0.8, 0.9], [-2.8, 1.6],
                        [far - 2.2, 1.1 - 2 * far], [-2.5, 1.9]])  # fmt: skip
    faces = [([0, 1, 2], "a"), ([3, 4, 5], "b c"), None, ([1, 2, 0], "a"), None]
    for weights in ((0.6, 0.3, 0.1), (0.2, 0.2, 0.6), (0.12, 0.75, 0.13)):
        got = texels_at(mesh, weights) * mesh.face_colors
        for k, face in enumerate(faces):
            if face is None:
                continue
            index, name = face
            uv = (uvs[index] * torch.tensor(weights)[:, None]).sum(0) % 1
            height, width = images[name].shape[:2]
            texel = images[name][int((1 - uv[1]) * height), int(uv[0] * width)]
            assert_close(got[k], torch.from_numpy(texel / 255).float(), atol=1e-6, rtol=0)
        assert_close(got[2], torch.tensor([0.2, 0.4, 0.6]))
        assert_close(got[4], torch.ones(3))
    monkeypatch.setattr("gendr.mesh.files.atlas._MOST", 400)  # texels
    with pytest.warns(UserWarning, match="have a texture but no UVs") as caught:
        obj(tmp_path, text, mtl)
    assert ("1 faces repeat their image" in str(caught[0].message)) == (far > 0)


def test_what_is_missing_is_said(tmp_path):
    lines = SQUARE + "vt 0 0\nvt 1 0\nvt 1 1\nusemtl A\nf 1/1 2/2 3/3\n"
    with pytest.warns(UserWarning, match=r"m\.obj: its material file gone\.mtl is n") as caught:
        obj(tmp_path, "mtllib gone.mtl\n" + lines)
    assert [w.filename for w in caught] == [__file__]
    with pytest.warns(UserWarning, match=r"its texture gone\.png is not there"):
        obj(tmp_path, "mtllib m.mtl\n" + lines, "newmtl A\nmap_Kd gone.png\n")
    with pytest.warns(UserWarning, match=r"its material 'A' is not in its mtl"):
        obj(tmp_path, "mtllib m.mtl\n" + lines, "newmtl B\nKd 1 0 0\n")
    (tmp_path / "t.png").write_text("no image")
    with pytest.warns(UserWarning, match=r"its texture t\.png is no readable image"):
        obj(tmp_path, "mtllib m.mtl\n" + lines, "newmtl A\nmap_Kd t.png\n")
    Image.new("RGBA", (2, 2), (255, 0, 0, 100)).save(tmp_path / "t.png")
    with pytest.warns(UserWarning, match="transparency") as caught:
        mesh = obj(tmp_path, "mtllib m.mtl\n" + lines, "newmtl A\nmap_Kd t.png\n")
    assert len(caught) == 1
    assert_close(mesh.texture, torch.tensor([1.0, 0, 0]).expand(2, 2, 3))


def test_obj_of_mixed_corners_and_blocks(tmp_path, monkeypatch):
    """Reading lines in blocks gives the same as reading them one by one."""
    monkeypatch.setattr("gendr.mesh.files.obj_text.BLOCK", 2)
    lines = SQUARE + "vt 0 0 # half\nvt 1\nvt 1 1\nf 1/1 2//7 -3/3/1\nv 7 7 7\n"
    lines += "f 1/1/1 2/ 3/3 -1\nusemtl None\nf -2// 2//1 3//1 # done\nf 1/-3 2/-2 3/-1\n"
    mesh = obj(tmp_path, lines)
    assert mesh.faces.tolist() == [[0, 1, 2], [0, 1, 2], [0, 2, 5], [4, 1, 2], [0, 1, 2]]
    uvs = obj(tmp_path, lines.replace("2//7", "2/2").replace("2/ 3/3 -1", "2/2 3/3 -1/3")
              .replace("f -2// 2//1 3//1", "f 1/1 2/2/1 3/3"))  # fmt: skip
    assert uvs.uvs.tolist() == [[0, 0], [1, 0], [1, 1]]
    assert uvs.face_uvs.tolist() == [[0, 1, 2], [0, 1, 2], [0, 2, 2], [0, 1, 2], [0, 1, 2]]
    for wrong in (
        "v 1 2 x",
        "f 1 2 3x",
        "f 1/2 2/1 3/1/z/ 1/y",
        "f 1 2 -8",
        "f 99999999999999999999 2 3",
    ):
        (tmp_path / "m.obj").write_text(lines + "v 1 1 1\n" + wrong + "\nf 1 2 3\nv 2 2 2\n")
        fails(tmp_path / "m.obj", rf"damaged: line 16 reads '{wrong[:40]}'")


@for_each(ending=["obj", "ply", "glb"])
def test_learnt_colors_are_clamped(tmp_path, ending):
    learnt = torch.full((12, 3), 3.0, requires_grad=True)
    path = tmp_path / f"m.{ending}"
    cube().with_face_colors(learnt).save(path)
    loaded = Mesh.load(path)
    colors = loaded.vertex_colors if ending == "glb" else loaded.face_colors
    assert colors is None or (colors == 1).all()  # an OBJ does not say that a colour is white


def test_textures_lie_beside_their_mtl_or_the_obj(tmp_path):
    lines = "mtllib parts/m.mtl\n" + SQUARE + "vt 0 0\nusemtl A\nf 1/1 2/1 3/1\n"
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "m.mtl").write_text("newmtl A\nmap_Kd t.png\n")
    Image.new("RGB", (1, 1), (255, 0, 0)).save(tmp_path / "t.png")
    assert obj(tmp_path, lines).texture[0, 0].tolist() == [1, 0, 0]
    Image.new("RGB", (1, 1), (0, 255, 0)).save(tmp_path / "parts" / "t.png")
    assert obj(tmp_path, lines).texture[0, 0].tolist() == [0, 1, 0]


def test_load_texture(tmp_path):
    grey = np.array([[0, 65535], [13107, 0]], np.uint16)
    Image.fromarray(grey).save(tmp_path / "g.png")
    texture = load_texture(tmp_path / "g.png", dtype=torch.float64)
    assert_close(texture[..., 0], torch.tensor([[0.0, 1], [0.2, 0]], dtype=torch.float64))
    Image.fromarray(np.array([[7]], np.uint8)).convert("P").save(tmp_path / "p.png")
    assert_close(load_texture(tmp_path / "p.png"), torch.full((1, 1, 3), 7 / 255))
    Image.new("CMYK", (1, 1)).save(tmp_path / "c.jpg")
    with pytest.warns(UserWarning, match="inks of a printer, are a guess"):
        load_texture(tmp_path / "c.jpg")
    (tmp_path / "bad.png").write_text("x")
    with pytest.raises(ValueError, match="no readable image"):
        load_texture(tmp_path / "bad.png")
    with pytest.raises(FileNotFoundError, match="no image file at"):
        load_texture(tmp_path / "gone.png")


# -- the other formats as others write them --------------------------------------------------------


def test_scene_of_a_glb(tmp_path):
    trimesh = pytest.importorskip("trimesh")
    scene = trimesh.Scene()
    box = trimesh.creation.box()
    move = np.eye(4)
    move[:3, 3] = 5, 0, 0
    mirror = np.diag([-2.0, 1, 1, 1])
    scene.add_geometry(box, geom_name="box", transform=move)
    scene.add_geometry(box, geom_name="box2", transform=mirror)
    ball = trimesh.creation.icosphere(subdivisions=1, radius=0.25)
    ball.visual.vertex_colors = [255, 0, 0, 255]
    scene.add_geometry(ball, geom_name="ball")
    scene.export(tmp_path / "s.glb")
    mesh = Mesh.load(tmp_path / "s.glb")
    assert len(mesh) == 1
    assert mesh.face_counts == (12 + 12 + 80,)
    assert mesh.is_watertight
    expected = box.volume * 3 + ball.volume  # the mirror image is turned right side out
    assert mesh.volumes.item() == pytest.approx(expected, rel=1e-5)
    assert mesh.vertices[:, 0].max().item() == pytest.approx(5.5)
    red = (mesh.vertex_colors == torch.tensor([1.0, 0, 0])).all(-1)
    assert red.sum() == 42
    assert (mesh.vertex_colors[~red] == 1).all()


def test_two_textures_in_a_glb(tmp_path):
    trimesh = pytest.importorskip("trimesh")
    scene = trimesh.Scene()
    for i, color in enumerate([(255, 0, 0), (0, 51, 255)]):
        visual = trimesh.visual.TextureVisuals(
            uv=np.random.default_rng(i).random((8, 2)),
            material=trimesh.visual.material.PBRMaterial(
                baseColorTexture=Image.new("RGB", (4 + i, 3), color)
            ),
        )
        box = trimesh.creation.box()
        box = trimesh.Trimesh(box.vertices + 3 * i, box.faces, visual=visual, process=False)
        scene.add_geometry(box, geom_name=f"box{i}")
    scene.export(tmp_path / "s.glb")
    mesh = Mesh.load(tmp_path / "s.glb")
    second = mesh.face_vertices.mean((1, 2)) > 1.5
    got = texels_at(mesh, (0.3, 0.3, 0.4))
    assert_close(got[~second], torch.tensor([1.0, 0, 0]).expand(12, 3))
    assert_close(got[second], torch.tensor([0, 0.2, 1]).expand(12, 3))


STRIPS = [[0, 1, 2, 3, -1, 2, 3, 4, 5], [1, 3, 3, 5]]
STRIP_FACES = [[0, 1, 2], [2, 1, 3], [2, 3, 4], [4, 3, 5]]


def strips(kind, rows, points):
    """A PLY file of triangle strips, red except for its first vertex."""
    head = f"ply\nformat {kind} 1.0\nelement vertex {len(points)}\n"
    head += "".join(f"property float {c}\n" for c in "xyz")
    head += "".join(f"property uchar {c}\n" for c in ("red", "green", "blue"))
    head += f"element tristrips {len(rows)}\nproperty list int int vertex_indices\nend_header\n"
    colors = [[255, 0, 0]] * len(points)
    colors[0] = [0, 0, 255]
    if kind == "ascii":
        lines = [[*p, *c] for p, c in zip(points, colors, strict=True)]
        lines += [[len(row), *row] for row in rows]
        return (head + "".join(" ".join(map(str, line)) + "\n" for line in lines)).encode()
    order = "<" if "little" in kind else ">"
    vertices = np.zeros(len(points), [("p", order + "f4", 3), ("c", "u1", 3)])
    vertices["p"], vertices["c"] = points, colors
    lists = b"".join(np.array([len(row), *row], order + "i4").tobytes() for row in rows)
    return head.encode() + vertices.tobytes() + lists


@for_each(kind=["ascii", "binary_little_endian", "binary_big_endian"])
def test_triangle_strips_of_a_ply(tmp_path, kind):
    points = [(x, y, 0) for y in range(3) for x in range(2)]
    mesh = None
    for rows in (STRIPS[:1], STRIPS) if kind == "ascii" else (STRIPS[:1],):
        (tmp_path / "m.ply").write_bytes(strips(kind, rows, points))
        mesh = Mesh.load(tmp_path / "m.ply")
        assert mesh.faces.tolist() == STRIP_FACES  # the second row has no area
    assert mesh is not None
    assert_close(mesh.face_normals, torch.tensor([[0.0, 0, 1]]).expand(4, 3))
    assert mesh.vertex_colors[:2].tolist() == [[0, 0, 1], [1, 0, 0]]
    (tmp_path / "m.ply").write_bytes(strips(kind, [[0, 1, 9]], points))
    fails(tmp_path / "m.ply", "a face names a vertex that is not there")


# -- what is no mesh -------------------------------------------------------------------------------


def fails(path, message, error=ValueError):
    with pytest.raises(error, match=message) as caught:
        Mesh.load(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_what_is_no_mesh_file(tmp_path):
    for ending in ENDINGS:
        fails(tmp_path / f"gone.{ending}", "no mesh file at", FileNotFoundError)
    for name in ("m.objj", "m.fbx", "m", "m.txt"):
        (tmp_path / name).write_text(SQUARE + "f 1 2 3")
        fails(tmp_path / name, r"must end in one of .*\.obj.*; Blender or MeshLab save .* as GLB")
        with pytest.raises(ValueError, match="must end in one of"):
            cube().save(tmp_path / name)
    (tmp_path / "m.las").write_bytes(b"LASF")
    fails(tmp_path / "m.las", "got the extension '.las'; CloudCompare saves points as PLY")
    (tmp_path / "m.obj").mkdir()
    fails(tmp_path / "m.obj", "is a folder")


@for_each(kind=["nothing", "text", "image", "zeros", "noise"], ending=ENDINGS)
def test_no_mesh_at_all(tmp_path, ending, kind):
    path = tmp_path / f"m.{ending}"
    if kind == "image":
        Image.new("RGB", (16, 16)).save(path, format="png")
    else:
        noise = np.random.default_rng(0).bytes(3000)
        path.write_bytes({"nothing": b"", "text": b"Dear reader,\nthis is a letter.\n",
                          "zeros": bytes(500), "noise": noise}[kind])  # fmt: skip
    fails(path, "holds no faces|is no readable|is no OBJ|is damaged")


@for_each(ending=ENDINGS)
def test_truncated(tmp_path, ending):
    icosphere(1).save(tmp_path / f"m.{ending}")
    data = (tmp_path / f"m.{ending}").read_bytes()
    for share in (0.02, 0.3, 0.6, 0.99):
        path = tmp_path / f"cut.{ending}"
        path.write_bytes(data[: int(len(data) * share)])
        if ending == "obj":  # has no length: what is cut between lines cannot be told
            lines = path.read_text().splitlines()
            path.write_text("\n".join([*lines[:-1], " ".join(lines[-1].split()[:3])]))
            if share < 0.1:
                continue
        reason = "its header says|no header" if ending == "stl" else ""
        fails(path, rf"(is no readable|is damaged).*({reason})")


@for_each(
    "line, message",
    [
        ("f 1 2", r"damaged: line 6 reads 'f 1 2'"),
        ("f 1 2 x", "line 6"),
        ("f 1 2 0_3", "line 6 reads 'f 1 2 0_3'"),  # in Python 3
        ("v 1_0 0 0", "line 6"),
        ("f 0 1 2", "line 6"),
        ("f 1 2 9", "not there"),
        ("f 1/1 2/1 3/1", "not there"),
        ("f -9 1 2", "line 6"),
        ("v 1 2\nf 1 2 3", "line 6"),
        ("v 1 2 nan\nf 1 2 6", "vertices must be finite"),
        ("", "holds no faces"),
        ("p 1 2 3", "holds no faces"),
    ],
)
def test_damaged_obj(tmp_path, line, message):
    (tmp_path / "m.obj").write_text(SQUARE + line + "\n")
    fails(tmp_path / "m.obj", message)


@for_each(number=["nan", "inf"], images=["ab", "aa"])
def test_uvs_that_are_no_numbers(tmp_path, number, images):
    text = "".join(f"newmtl {name}\nmap_Kd {name}.png\n" for name in "ab")
    (tmp_path / "m.mtl").write_text(text)
    for name in "ab":
        Image.new("RGB", (2, 2)).save(tmp_path / f"{name}.png")
    faces = "".join(f"usemtl {name}\nf 1/1 2/1 3/2\n" for name in images)
    (tmp_path / "m.obj").write_text(f"mtllib m.mtl\n{SQUARE}vt 0 0\nvt {number} 0\n{faces}")
    fails(tmp_path / "m.obj", "is damaged: uvs must be finite")


def test_points_without_faces(tmp_path):
    head = "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\n"
    (tmp_path / "m.ply").write_text(head + "property float z\nend_header\n0 0 0\n")
    fails(tmp_path / "m.ply", "holds no faces")
    (tmp_path / "m.off").write_text("OFF\n3 0 0\n0 0 0\n1 0 0\n0 1 0\n")
    fails(tmp_path / "m.off", "holds no faces|is no readable")


def test_coordinates_too_large(tmp_path):
    for size, dtypes in (("1e30", ("float32",)), ("1e300", ("float32", "float64"))):
        (tmp_path / "m.obj").write_text(f"v 0 0 0\nv {size} 0 0\nv 0 {size} 0\nf 1 2 3\n")
        for dtype in dtypes:
            limit = r"1e\+18" if dtype == "float32" else r"1e\+153"
            with pytest.raises(ValueError, match=rf"m\.obj must lie within ±{limit} in {dtype}"):
                Mesh.load(tmp_path / "m.obj", dtype=getattr(torch, dtype))
    (tmp_path / "m.obj").write_text("v 0 0 0\nv 1e30 0 0\nv 0 1e30 0\nf 1 2 3\n")
    mesh = Mesh.load(tmp_path / "m.obj", dtype=torch.float64)
    assert mesh.normalized().to(torch.float32).face_areas.isfinite().all()
    (tmp_path / "m.obj").write_text("v 0 0 0\nv 1e400 0 0\nv 0 1 0\nf 1 2 3\n")
    fails(tmp_path / "m.obj", "vertices must be finite")


def triangle_glb(nodes=({"mesh": 0},), meshes=1, count=None):
    """A GLB of one triangle, some entries of which are taken several times, or claim points."""
    file = Gltf()
    file.add("meshes", primitives=[file.primitive(corners=CORNERS[:3])] * meshes)
    file.tree["nodes"] = [*nodes]
    file.tree["scenes"][0]["nodes"].append(0)
    if count is not None:
        position = file.tree["accessors"][0]
        del position["bufferView"]
        position["count"] = count
    return file.bytes()


def test_what_claims_more_than_it_holds_is_refused_before_it_is_made(tmp_path, monkeypatch):
    """Within a fraction of a second and of the memory that these files would become."""
    monkeypatch.setattr("gendr.mesh.files.bounds._MOST_BYTES", 10_000)
    monkeypatch.setattr("gendr.mesh.files.bounds._TIMES", 1)
    deep, many = 12_000, 200
    chain = [{"children": [k + 1]} for k in range(deep)] + [{"mesh": 0}]
    leaves = [{"children": [*range(1, many + 1)]}] + [{"mesh": 0}] * many
    nested = b'{"extras":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    plain = "v 0 0 0\nv 1 0 0\nv 0 1 0\n"
    points, face = plain.replace("v ", "").encode(), b"60000" + b" 0 1 2" * 20_000
    ascii_ply = (
        b"ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\n"
        b"property float z\nelement face %d\nproperty list int int vertex_indices\nend_header\n"
    )
    for ending, content, message in (
        ("glb", triangle_glb(count=300_000), "claims arrays of 7.2e[+]06 byt"),
        ("glb", triangle_glb(count=10**12), "claims arrays of 2.4e[+]13 byt"),
        ("glb", triangle_glb(leaves), "claims arrays of"),
        ("glb", triangle_glb(meshes=2_000), "claims arrays of"),
        ("glb", triangle_glb(chain), "claims arrays of"),
        ("glb", triangle_glb([{"mesh": 0, "children": [0]}]), "no tree: node 0 has two parents"),
        ("glb", triangle_glb([{"mesh": 0, "scale": [math.nan, 1, 1]}]), "not 3 finite numbers"),
        ("glb", triangle_glb([{"mesh": 0, "scale": [1e300, 1e300, 1]}]), "must lie within"),
        ("glb", glb(nested), "is no readable GLB file .it is nested too deeply"),
        ("obj", (plain + "f" + " 1 2 3" * 20_000).encode(), "line 4 is a face of more than 1000"),
        ("off", b"OFF\n3 1 0\n" + points + face, "more than 1000 corners, of 3 vertices"),
        ("off", b"OFF\n3 9000 0\n" + points + b"0\n" * 8999, "fewer lines than"),
        ("off", b"OFF\n3 9000 0\n" + points + b"0\n" * 9000, "9000 .* fewer than 3 corners"),
        ("ply", ascii_ply % 1 + points + face, "more than 1000 corners, of 3 vertices"),
        ("ply", ascii_ply % 3 + points + b"3 0 1 2\n", "fewer rows than"),
    ):
        (tmp_path / f"m.{ending}").write_bytes(content)
        fails(tmp_path / f"m.{ending}", message)
    monkeypatch.undo()  # within the bounds they are read
    for nodes, faces in ((leaves, many), (chain, 1)):
        (tmp_path / "m.glb").write_bytes(triangle_glb(nodes))
        assert Mesh.load(tmp_path / "m.glb").face_counts == (faces,)


def test_what_cannot_be_saved(tmp_path):
    with pytest.raises(ValueError, match="got a batch of 2; save mesh"):
        cube().repeated(2).save(tmp_path / "m.obj")
    with pytest.raises(ValueError, match="without faces"):
        Mesh(torch.zeros(1, 3), torch.zeros(0, 3, dtype=torch.int64)).save(tmp_path / "m.obj")
    with pytest.raises(FileNotFoundError, match=r"no folder .*nowhere to save m\.obj"):
        icosphere(0).save(tmp_path / "nowhere" / "m.obj")
    assert not any(tmp_path.iterdir())


# -- what is there already -------------------------------------------------------------------------


def test_files_of_others_stay(tmp_path):
    mesh = seamed()
    for name in ("m.png", "m-1.png", "m.mtl"):
        (tmp_path / name).write_text("mine")
    for _ in range(2):  # the second time, m-2.png and m-1.mtl are those of m.obj
        mesh.save(tmp_path / "m.obj")
        assert {p.name for p in tmp_path.iterdir()} == {
            "m.png", "m-1.png", "m.mtl", "m.obj", "m-1.mtl", "m-2.png"
        }  # fmt: skip
        for name in ("m.png", "m-1.png", "m.mtl"):
            assert (tmp_path / name).read_text() == "mine"
        assert_close(Mesh.load(tmp_path / "m.obj").texture, mesh.texture)
        mesh = mesh.with_texture(torch.zeros(1, 1, 3))


@for_each(ending=ENDINGS)
def test_all_files_or_none(tmp_path, ending, monkeypatch):
    path = tmp_path / f"m.{ending}"
    mesh = seamed() if ending in ("obj", "glb") else cube()
    mesh.save(path)
    before = {p: p.read_bytes() for p in tmp_path.iterdir()}
    written = []

    def full(file):
        written.append(file)
        if len(written) == len(before):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        mesh.scaled(2).save(path)
    assert {p: p.read_bytes() for p in tmp_path.iterdir()} == before


# -- far out ---------------------------------------------------------------------------------------

FAR = torch.tensor([500_000.25, 4_649_000.75, 12.0], dtype=torch.float64)


def surveyed(far=FAR):
    """A ball of radius 5 in the coordinates of a survey."""
    return icosphere(2, dtype=torch.float64).scaled(5.0).translated(far)


@for_each(ending=["obj", "ply", "off", "glb", "gltf"])
def test_shape_and_place_survive_far_out(tmp_path, ending):
    true = surveyed()
    true.save(tmp_path / f"m.{ending}")
    with pytest.warns(UserWarning, match=r"counts? from mesh\.origin, \(500000, 4649001, 0\)"):
        mesh = Mesh.load(tmp_path / f"m.{ending}")
    assert mesh.dtype == torch.float32
    assert mesh.origin.tolist() == [[500_000, 4_649_001, 0]]
    assert_close(mesh.vertices.double() + mesh.origin, true.vertices, rtol=0, atol=1e-6)
    assert_close(mesh.face_areas.double(), true.face_areas, rtol=1e-5, atol=0)
    moved = mesh.with_vertices(mesh.vertices * 1.5)
    moved.save(tmp_path / f"again.{ending}")
    with pytest.warns(UserWarning, match="origin"):
        again = Mesh.load(tmp_path / f"again.{ending}")
    assert again.origin.tolist() == mesh.origin.tolist()
    assert_close(again.vertices, moved.vertices, rtol=0, atol=1e-6)
    same = Mesh.load(tmp_path / f"m.{ending}", dtype=torch.float64)
    assert not same.origin.any()
    assert_close(same.vertices, true.vertices, rtol=0, atol=1e-6)


def test_an_stl_drops_the_origin(tmp_path):
    mesh = icosphere(1).with_origin(FAR)
    with pytest.warns(UserWarning, match="does not hold the origin of this mesh"):
        mesh.save(tmp_path / "m.stl")
    assert_close(Mesh.load(tmp_path / "m.stl").face_vertices, mesh.face_vertices)


def test_what_is_far_out(tmp_path):
    """It is the corners that count, and float32's spacing there over the longest side."""
    for distance, far in ((4000, False), (9000, True)):  # times 1.2e-7 is 1e-4 of 10 at 8389
        surveyed(FAR * 0 + torch.tensor([distance, 0, 0])).save(tmp_path / "m.obj")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            mesh = Mesh.load(tmp_path / "m.obj")
        assert bool(caught) == bool(mesh.origin.any()) == far
    text = "v 0 0 0\n" + "".join(f"v {3e6 + x} {y} 0\n" for x, y in ((0, 0), (1, 0), (0, 1)))
    with pytest.warns(UserWarning, match="origin"):
        mesh = obj(tmp_path, text + "f 2 3 4\n")  # vertex 1 is of no face
    assert mesh.face_areas.item() == 0.5
    tiny = surveyed(FAR * 0 + torch.tensor([0, 70.3, 0])).scaled(1e-3)
    tiny.translated(FAR * 1e-3).save(tmp_path / "m.obj")
    with pytest.warns(UserWarning, match="origin"):
        mesh = Mesh.load(tmp_path / "m.obj")
    assert_close(mesh.face_areas.double(), tiny.face_areas, rtol=1e-4, atol=0)


# -- real files ------------------------------------------------------------------------------------

DATA = os.environ.get("GENDR_DATA")
NAMES = (
    "airplane_gendr", "cheburashka", "cow", "fandisk", "homer", "sphere_642", "spot",
    "stanford-bunny", "suzanne", "teapot",
)  # fmt: skip


@pytest.mark.skipif(DATA is None, reason="GENDR_DATA does not name a folder with meshes/*.obj")
@for_each(name=NAMES)
def test_real_files(name, tmp_path):
    path = Path(DATA or "") / "meshes" / f"{name}.obj"
    mesh = Mesh.load(path)
    text = path.read_text()
    assert mesh.vertex_counts == (len(re.findall(r"^v\s", text, re.MULTILINE)),)
    lines = re.findall(r"^f\s+(.*)", text, re.MULTILINE)
    assert mesh.face_counts == (sum(len(line.split()) - 2 for line in lines),)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PLY drops spot's UVs
        for ending in ("obj", "ply"):
            mesh.save(tmp_path / f"m.{ending}")
            back = Mesh.load(tmp_path / f"m.{ending}")
            assert_close(back.vertices, mesh.vertices, rtol=0, atol=0)
            assert_close(back.faces, mesh.faces)
    if mesh.uvs is not None:
        texture = load_texture(path.with_name("spot_texture.png"))
        mesh.with_texture(texture).save(tmp_path / "t.glb")
        back = Mesh.load(tmp_path / "t.glb")
        assert_close(back.faces, mesh.faces)
        assert_close(back.corner_uvs, mesh.corner_uvs, rtol=0, atol=1e-6)
        assert_close(back.texture, texture, rtol=0, atol=1e-6)


def test_colours_that_hold_their_light_are_drawn_as_they_are_again(tmp_path):
    """A GLB and an OBJ keep that a mesh is unlit, whatever carries its colours."""
    ball = icosphere(1)
    uvs = ball.vertices[:, :2] / 2 + 0.5
    colors = 0.5 + 0.4 * torch.sin(4 * ball.vertices)
    textured = ball.with_uvs(uvs, ball.faces).with_texture(torch.rand(8, 8, 3))
    camera = look_at(3.0, 20.0, 30.0)
    lit, as_it_is = (
        Renderer(24, "heaviside", "max", shading="hard", **options)
        for options in ({}, {"lighting": "none"})
    )
    painted = ball.with_vertex_colors(colors), ball.with_face_colors(colors[ball.faces[:, 0]])
    given = textured
    for mesh in (textured, *painted):
        assert not mesh.unlit
        assert not torch.equal(lit(mesh, camera).rgb, as_it_is(mesh, camera).rgb)
        for kind in ("glb", "obj"):
            for unlit in (False, True):
                given = mesh.with_unlit(unlit)
                given.save(tmp_path / f"a.{kind}")
                found = Mesh.load(tmp_path / f"a.{kind}")
                assert found.unlit == unlit
                want = (as_it_is if unlit else lit)(given, camera).rgb
                torch.testing.assert_close(lit(found, camera).rgb, want, atol=5e-3, rtol=0)
    # Each mesh made of it is unlit as well; another light is used as it is given.
    made = (given.to(torch.float64), given.scaled(2.0), given.subdivided(), given.detach(),
            given.repeated(2)[1], given.with_vertices(given.vertices),
            Mesh.batch([given] * 2))  # fmt: skip
    assert all(each.unlit for each in made)
    strong = Renderer(24, "heaviside", "max", shading="hard", lighting="lambert")
    assert not torch.equal(strong(given, camera).rgb, lit(given, camera).rgb)
    with pytest.raises(ValueError, match=r"some of these meshes are unlit.*with_unlit"):
        Mesh.batch([given, ball])


def test_a_file_with_some_unlit_materials_is_lit_with_a_word(tmp_path):
    file = Gltf()
    unlit = file.material(beside={"extensions": {file.extension("KHR_materials_unlit"): {}}})
    file.show(*(file.primitive(material=material) for material in (unlit, file.material())))
    (tmp_path / "m.glb").write_bytes(file.bytes())
    with pytest.warns(UserWarning, match="only some of its materials are unlit"):
        assert not Mesh.load(tmp_path / "m.glb").unlit
