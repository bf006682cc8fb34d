"""Mesh: packing, batches, bad arguments, and all that follows from vertices and faces."""

import math

import numpy as np
import pytest
import torch
import trimesh
from torch.testing import assert_close

from gendr.mesh import Mesh, cube, cube_sphere, grid, icosphere
from support.cases import for_each

DTYPES = [torch.float32, torch.float64]
SHAPES = {
    "icosphere": icosphere(1),
    "cube_sphere": cube_sphere(3),
    "cube": cube(2),
    "grid": grid(2, 3),
}


def triangle():
    return Mesh(torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]]), torch.tensor([[0, 1, 2]]))


def full(mesh, seed=0):
    """The mesh with UVs of its own, a texture and colours."""
    g = torch.Generator().manual_seed(seed)
    faces, vertices = len(mesh.faces), len(mesh.vertices)
    like = {"generator": g, "dtype": mesh.dtype}
    return Mesh(
        mesh.vertices,
        mesh.faces,
        uvs=torch.rand(faces + 4, 2, **like),
        face_uvs=torch.randint(faces + 4, (faces, 3), generator=g),
        texture=torch.rand(3 + seed, 5, 3, **like),
        vertex_colors=torch.rand(vertices, 3, **like),
        face_colors=torch.rand(faces, 3, **like),
    )


ATTRIBUTES = ["vertices", "faces", "uvs", "face_uvs", "vertex_colors", "face_colors"]


def assert_same(a, b):
    assert a.vertex_counts == b.vertex_counts
    assert a.face_counts == b.face_counts
    for name in ATTRIBUTES:
        x, y = getattr(a, name), getattr(b, name)
        assert (x is None) == (y is None), name
        if x is not None:
            assert_close(x, y, rtol=0, atol=0)
    assert (a.textures is None) == (b.textures is None)
    for x, y in zip(a.textures or (), b.textures or (), strict=True):
        assert_close(x, y, rtol=0, atol=0)


# -- packing -------------------------------------------------------------------------------------


def test_batch_of_different_meshes():
    meshes = [full(m, seed) for seed, m in enumerate(SHAPES.values())]
    batch = Mesh.batch(meshes)
    assert len(batch) == len(meshes)
    assert batch.vertex_counts == tuple(len(m.vertices) for m in meshes)
    assert batch.vertex_offsets == tuple(np.cumsum([0, *batch.vertex_counts])[:-1])
    assert batch.face_offsets == tuple(np.cumsum([0, *batch.face_counts])[:-1])
    assert batch.faces_local is None
    assert_close(batch.face_vertices, torch.cat([m.face_vertices for m in meshes]))
    assert_close(batch.corner_uvs, torch.cat([m.corner_uvs for m in meshes]))
    assert_close(batch.corner_colors, torch.cat([m.corner_colors for m in meshes]))
    for mesh, back in zip(meshes, batch, strict=True):
        assert_same(mesh, back)
    assert_same(batch[-1], meshes[-1])
    assert_same(batch[1:3], Mesh.batch(meshes[1:3]))
    assert_same(Mesh.batch([batch[:2], batch[2:]]), batch)
    assert_same(Mesh.batch(list(batch.unbind())), batch)


@for_each(own_faces=[False, True])
def test_batch_of_one_topology(own_faces):
    base = icosphere(1)
    vertices = torch.randn(4, 42, 3)
    faces = base.faces.expand(4, -1, -1).clone() if own_faces else base.faces
    colors = torch.rand(4, 42, 3)
    batch = Mesh(vertices, faces, vertex_colors=colors)
    assert len(batch) == 4
    assert (batch.faces_local is None) == own_faces
    for i in range(4):
        assert_close(batch[i].vertices, vertices[i])
        assert_close(batch[i].faces, base.faces)
        assert_close(batch[i].vertex_colors, colors[i])
        assert_close(batch.face_vertices.reshape(4, -1, 3, 3)[i], vertices[i][base.faces])
    assert_close(batch.edges[:120], base.edges)
    assert_close(batch.edges[120:240], base.edges + 42)


def test_shared_attributes_of_a_batch():
    uvs, face_uvs = torch.rand(7, 2), torch.randint(7, (80, 3))
    texture, colors = torch.rand(4, 4, 3), torch.rand(42, 3)
    batch = Mesh(torch.randn(3, 42, 3), icosphere(1).faces, uvs=uvs, face_uvs=face_uvs,
                 texture=texture, vertex_colors=colors, face_colors=torch.rand(80, 3))  # fmt: skip
    assert batch.texture is texture
    for mesh in batch:
        assert_close(mesh.corner_uvs, uvs[face_uvs])
        assert mesh.texture is texture
        assert_close(mesh.vertex_colors, colors)
        assert_close(mesh.face_colors, batch[0].face_colors)
    own = Mesh(torch.randn(3, 42, 3), icosphere(1).faces, uvs=torch.rand(3, 7, 2),
               face_uvs=face_uvs, texture=torch.rand(3, 4, 4, 3))  # fmt: skip
    assert_close(own[1].corner_uvs, own.uvs.reshape(3, 7, 2)[1][face_uvs])
    with pytest.raises(ValueError, match="different textures"):
        _ = own.texture


def test_what_only_some_have_becomes_white():
    plain, rich = triangle(), full(cube())
    batch = Mesh.batch([plain, rich])
    assert (batch[0].vertex_colors == 1).all()
    assert (batch[0].face_colors == 1).all()
    assert (batch[0].texture == 1).all()
    assert_same(batch[1], rich)


def test_repeated_shares_topology():
    mesh = full(icosphere(1))
    batch = mesh.repeated(5)
    assert_same(batch[3], mesh)
    assert batch.faces_local is mesh.faces
    assert batch.texture is mesh.texture
    assert batch[2].edges is mesh.edges
    with pytest.raises(ValueError, match="got a batch of 5"):
        batch.repeated(2)


def test_empty_meshes():
    empty = Mesh(torch.zeros(0, 3), torch.zeros(0, 3, dtype=torch.int64))
    points = Mesh(torch.randn(4, 3), torch.zeros(0, 3, dtype=torch.int64))
    batch = Mesh.batch([empty, triangle(), points])
    assert batch.face_counts == (0, 1, 0)
    for mesh in (empty, points):
        assert mesh.face_vertices.shape == (0, 3, 3)
        assert mesh.face_normals.shape == (0, 3)
        assert mesh.edges.shape == (0, 2)
        assert not mesh.is_watertight
        assert mesh.subdivided().faces.shape == (0, 3)
        assert_close(mesh.volumes, torch.zeros(1))
    assert_close(points.vertex_normals, torch.zeros(4, 3))
    assert_close(batch.volumes, torch.zeros(3))
    with pytest.raises(ValueError, match="mesh 0 has no vertices"):
        batch.bounding_box()
    with pytest.raises(ValueError, match="mesh 0 has no area"):
        batch.sample_points(3)


# -- the hot path, and other copies ----------------------------------------------------------------


def test_with_vertices_shares_what_stays():
    mesh = full(icosphere(2))
    vertices = torch.randn(len(mesh.vertices), 3, requires_grad=True)
    moved = mesh.with_vertices(vertices)
    assert moved.vertices is vertices
    assert moved.faces is mesh.faces
    assert moved.edges is mesh.edges
    assert moved.textures is mesh.textures
    moved.face_vertices.sum().backward()
    degree = torch.bincount(mesh.faces.reshape(-1)).float()
    assert_close(vertices.grad, degree[:, None].expand(-1, 3))


def test_with_vertices_of_a_batch():
    mesh = full(icosphere(1))
    vertices = torch.randn(3, 42, 3)
    batch = mesh.with_vertices(vertices)
    assert len(batch) == 3
    assert_same(batch[1], mesh.with_vertices(vertices[1]))
    assert batch.with_vertices(vertices).faces is batch.faces
    assert mesh.with_vertices(vertices + 1).faces is batch.faces  # made once per size
    assert_close(batch.with_vertices(vertices.reshape(-1, 3) + 1).vertices, batch.vertices + 1)
    for bad in (torch.randn(41, 3), torch.randn(2, 42, 3), torch.randn(42, 2)):
        with pytest.raises(ValueError, match="vertices must have shape"):
            batch.with_vertices(bad)
    with pytest.raises(ValueError, match="V = 42"):
        mesh.with_vertices(torch.randn(3, 41, 3))
    with pytest.raises(TypeError, match="float32 or float64"):
        mesh.with_vertices(torch.zeros(42, 3, dtype=torch.int64))
    mixed = Mesh.batch([mesh, cube()])
    assert mixed.with_vertices(torch.zeros(50, 3)).vertex_counts == (42, 8)
    with pytest.raises(ValueError, match="V = 50"):
        mixed.with_vertices(torch.zeros(2, 25, 3))


def test_in_place_steps_are_seen():
    # An optimiser changes its leaf in place: nothing that depends on vertices may be remembered.
    vertices = icosphere(1).vertices.clone().requires_grad_()
    mesh = icosphere(1).with_vertices(vertices)
    before = mesh.face_areas.sum().item()
    for _ in range(2):
        mesh.face_areas.sum().backward()
    with torch.no_grad():
        vertices *= 2
    assert mesh.face_areas.sum().item() == pytest.approx(4 * before)


def test_attributes_are_replaced_not_changed():
    mesh = full(icosphere(1))
    colors, texture = torch.rand(42, 3), torch.rand(2, 2, 3)
    other = mesh.with_vertex_colors(colors).with_texture(texture).with_face_colors(None)
    assert other.vertex_colors is colors
    assert other.texture is texture
    assert other.face_colors is None
    assert mesh.face_colors is not None
    assert mesh.texture is not texture
    assert mesh.with_uvs(None).texture is None
    assert mesh.with_uvs(mesh.uvs * 2).face_uvs is mesh.face_uvs
    batch = mesh.repeated(2).with_vertex_colors(torch.rand(2, 42, 3))
    assert batch.vertex_colors.shape == (84, 3)
    assert_close(batch.with_vertex_colors(colors)[1].vertex_colors, colors)


@for_each(dtype=DTYPES)
def test_to_and_detach(dtype):
    mesh = full(icosphere(1).to(torch.float64)).with_vertices(
        torch.randn(42, 3, dtype=torch.float64, requires_grad=True)
    )
    moved = mesh.repeated(2).to(dtype)
    for name in ("vertices", "uvs", "vertex_colors", "face_colors", "texture"):
        assert getattr(moved, name).dtype == dtype
    assert moved.faces.dtype == torch.int64
    assert moved.vertices.requires_grad
    assert not moved.detach().vertices.requires_grad
    assert mesh.to("cpu") is mesh
    assert mesh.to(device="meta").faces.device.type == "meta"
    assert mesh.repeated(2).to("meta").face_uvs.device.type == "meta"
    with pytest.raises(TypeError, match="float32 or float64, not float16"):
        mesh.to(torch.float16)
    with pytest.raises(ValueError, match=r"within ±1e\+18 in float32, .*; scale them down"):
        mesh.with_vertices(mesh.vertices * 1e30).to(torch.float32)


def test_the_origin_goes_along():
    far = torch.tensor([5e5, 4.6e6, 0.0])
    mesh = icosphere(1).with_origin(far)
    assert mesh.origin.dtype == torch.float64
    assert mesh.origin.tolist() == [far.tolist()]
    same = (mesh.detach(), mesh.to(torch.float64), mesh.subdivided(), mesh.scaled(2.0), mesh[0],
            mesh.with_vertices(mesh.vertices + 1), mesh.translated(torch.ones(3)),
            mesh.with_vertex_colors(torch.ones(42, 3)), mesh.transformed(torch.eye(3)))  # fmt: skip
    for other in same:
        assert torch.equal(other.origin, mesh.origin)
    assert not mesh.normalized().origin.any()
    assert mesh.repeated(2).origin.tolist() == [far.tolist()] * 2
    batch = Mesh.batch([cube(), mesh, icosphere(1)])
    assert batch.origin.tolist() == [[0, 0, 0], far.tolist(), [0, 0, 0]]
    assert torch.equal(batch[1].origin, mesh.origin)
    assert not batch[2].origin.any()
    assert batch.with_origin(-batch.origin).origin[1].tolist() == (-far).tolist()
    assert "origin [500000.0, 4600000.0, 0.0]" in repr(mesh)
    assert repr(triangle()) == "Mesh(1 mesh, 3 vertices, 1 faces, float32, cpu)"
    assert "texture 5×3" in repr(full(cube()))


def test_relative_to_another_origin():
    far = torch.tensor([5e5, 4.6e6, 0.0], dtype=torch.float64)
    batch = Mesh.batch([icosphere(0).with_origin(far), icosphere(0)])
    near = batch.relative_to(far + 0.5)
    assert_close(near[0].vertices, icosphere(0).vertices - 0.5)
    assert_close(near[1].vertices, (icosphere(0).vertices - far - 0.5).float())
    assert_close(near.origin, (far + 0.5).expand(2, 3))
    for bad, error in (
        ([0.0] * 3, TypeError),
        (torch.zeros(2), ValueError),
        (far * NAN, ValueError),
    ):
        for method in (batch.relative_to, batch.with_origin):
            with pytest.raises(error, match="origin must"):
                method(bad)


# -- bad arguments -------------------------------------------------------------------------------

V, F = torch.zeros(4, 3), torch.tensor([[0, 1, 2]])
UVS = {"uvs": torch.zeros(3, 2), "face_uvs": torch.tensor([[0, 1, 2]])}
NAN = torch.tensor(math.nan)
NESTED = torch.nested.nested_tensor([torch.zeros(2)], layout=torch.jagged)
BAD = {
    "list": (([[0.0, 0, 0]], F), {}, TypeError, "vertices must be a torch.Tensor, got list"),
    "half": ((V.half(), F), {}, TypeError, "vertices must be float32 or float64, got float16"),
    "flat": ((V[:, :2], F), {}, ValueError, r"vertices must have shape \[V, 3\]"),
    "no mesh": ((torch.zeros(0, 4, 3), F), {}, ValueError, "at least one mesh"),
    "float faces": ((V, F.float()), {}, TypeError, "faces must hold integers, got float32"),
    "quads": ((V, torch.tensor([[0, 1, 2, 3]])), {}, ValueError, r"faces must have shape"),
    "faces of a batch": ((V, F[None]), {}, ValueError, r"faces must have shape \[F, 3\]"),
    "another batch": ((V.expand(2, 4, 3), F.expand(3, 1, 3)), {}, ValueError, "B = 2"),
    "too large": ((V, F + 2), {}, ValueError, r"faces must index the 4 vertices \(0 \.\. 3\)"),
    "from 1": ((V, F + 2), {}, ValueError, "index 4; indices count from 0"),
    "negative": ((V, F - 1), {}, ValueError, "got the index -1"),
    "nan": ((V + NAN, F), {}, ValueError, "vertices must be finite, got 12 NaN"),
    "inf": ((V.double() + math.inf, F), {}, ValueError, "vertices must be finite"),
    "far": ((V + 1e20, F), {}, ValueError, r"vertices must lie within ±1e\+18 in float32, got 1e"),
    "farther": (
        (V.double() + 1e200, F),
        {},
        ValueError,
        r"±1e\+153 in float64, got 1e\+200; scale",
    ),
    "device": ((V, F.to("meta")), {}, TypeError, "faces must have values, .* the device meta"),
    "sparse": ((V.to_sparse(), F), {}, TypeError, "dense, got the layout sparse_coo; use .to_d"),
    "nested": ((NESTED, F), {}, TypeError, "vertices must be dense, got a nested tensor; use"),
    "uvs alone": ((V, F), {"uvs": UVS["uvs"]}, ValueError, "got no face_uvs"),
    "face_uvs alone": ((V, F), {"face_uvs": F}, ValueError, "got no uvs"),
    "uvw": ((V, F), {**UVS, "uvs": torch.zeros(3, 3)}, ValueError, "uvs must have shape"),
    "uv index": ((V, F), {**UVS, "face_uvs": F + 1}, ValueError, "face_uvs must index the 3 uvs"),
    "uv faces": ((V, F), {**UVS, "face_uvs": F.expand(2, 3)}, ValueError, "F = 1"),
    "uv nan": ((V, F), {**UVS, "uvs": torch.zeros(3, 2) + NAN}, ValueError, "uvs must be finite"),
    "uv dtype": ((V, F), {**UVS, "uvs": torch.zeros(3, 2).double()}, TypeError, "uvs must have"),
    "no uvs": ((V, F), {"texture": torch.ones(2, 2, 3)}, ValueError, "texture needs uvs"),
    "rgba": ((V, F), {**UVS, "texture": torch.ones(2, 2, 4)}, ValueError, r"\[Ht, Wt, 3\]"),
    "8 bits": ((V, F), {**UVS, "texture": torch.ones(2, 2, 3).byte()}, TypeError, "float32 or"),
    "no texel": ((V, F), {**UVS, "texture": torch.ones(0, 2, 3)}, ValueError, "one texel"),
    "textures": ((V, F), {**UVS, "texture": [torch.ones(1, 1, 3)] * 2}, ValueError, "got 2"),
    "number": ((V, F), {**UVS, "texture": 1.0}, TypeError, "texture must be a torch.Tensor"),
    "colors": ((V, F), {"vertex_colors": torch.ones(3, 3)}, ValueError, "V = 4"),
    "face colors": ((V, F), {"face_colors": torch.ones(4, 3)}, ValueError, "F = 1"),
    "0 .. 255": ((V, F), {"vertex_colors": torch.full((4, 3), 200.0)}, ValueError, "by 255"),
    "color nan": ((V, F), {"face_colors": torch.ones(1, 3) + NAN}, ValueError, "face_colors must"),
}


@for_each(case=BAD)
def test_bad_arguments_of_a_mesh(case):
    args, attributes, error, message = BAD[case]
    with pytest.raises(error, match=message) as caught:
        Mesh(*args, **attributes)
    assert "\n" not in str(caught.value)


@for_each(name=["texture", "vertex_colors", "face_colors"])
def test_colors_that_are_learnt_may_leave_their_range(name):
    mesh = full(cube())
    change = getattr(mesh, f"with_{name}")
    far = torch.full_like(getattr(mesh, name), 2.5)
    leaf = far.clone().requires_grad_()
    for learnt in (leaf, leaf * -1):
        assert getattr(change(learnt), name) is learnt
    with pytest.raises(ValueError, match=rf"{name} must lie in .* got 2\.5 .* by 255, clamp what"):
        change(far)
    with pytest.raises(ValueError, match=f"{name} must be finite"):
        change(leaf * NAN)


def test_bad_batches():
    assert all(Mesh(V, F.to(n)).faces.dtype == torch.int64 for n in (torch.uint8, torch.int32))
    two = triangle().repeated(2)
    for call, error, message in (
        (lambda: Mesh.batch([]), ValueError, "at least one mesh"),
        (lambda: Mesh.batch([two, V]), TypeError, "mesh 1 of the batch must be a Mesh, got Tensor"),
        (lambda: Mesh.batch([two, two.to(torch.float64)]), TypeError, "dtype of mesh 0"),
        (lambda: two[2], IndexError, "out of range for 2 meshes"),
        (lambda: two[-3], IndexError, "out of range for 2 meshes"),
        (lambda: two[2:], IndexError, "holds none"),
        (lambda: two["0"], TypeError, "int or a slice"),
    ):
        with pytest.raises(error, match=message):
            call()


# -- what follows ----------------------------------------------------------------------------------


@for_each(name=SHAPES)
def test_against_trimesh(name):
    mesh = SHAPES[name].to(torch.float64)
    mesh = mesh.with_vertices(mesh.vertices + 0.05 * torch.randn_like(mesh.vertices))
    other = trimesh.Trimesh(mesh.vertices.numpy(), mesh.faces.numpy(), process=False)
    assert_close(mesh.face_normals, torch.from_numpy(other.face_normals.copy()))
    assert_close(mesh.face_areas, torch.from_numpy(other.area_faces.copy()))
    assert mesh.is_watertight == (other.is_watertight and other.is_winding_consistent)
    assert mesh.edges.tolist() == sorted(sorted(e) for e in other.edges_unique.tolist())
    low, high = mesh.bounding_box()
    assert_close(torch.cat((low, high)), torch.from_numpy(other.bounds.copy()))
    if mesh.is_watertight:
        assert_close(mesh.volumes[0].item(), float(other.volume))
        for away, dtype, error in ((1e3, torch.float32, 1e-3), (1e7, torch.float64, 1e-7)):
            far = mesh.translated(mesh.vertices.new_full((3,), away)).to(dtype)
            volumes = Mesh.batch([mesh.to(dtype), far]).volumes.tolist()
            assert volumes == pytest.approx([float(other.volume)] * 2, rel=error)


def test_vertex_normals_by_hand():
    mesh = SHAPES["cube_sphere"].to(torch.float64)
    expected = torch.zeros_like(mesh.vertices)
    for face, normal, area in zip(mesh.faces, mesh.face_normals, mesh.face_areas, strict=True):
        for v in face:
            expected[v] += area * normal
    assert_close(mesh.vertex_normals, expected / expected.norm(dim=-1, keepdim=True))


MOVES = (
    lambda m: m.normalized("sphere"),
    lambda m: m.normalized("cube"),
    lambda m: m.subdivided(2),
    lambda m: m.scaled(torch.tensor([2.0, 3.0], dtype=torch.float64)),
    lambda m: m.transformed(torch.eye(4, dtype=torch.float64) * torch.tensor([2.0, 1, 1, 1])),
)
DERIVED = ("face_vertices", "face_normals", "face_areas", "vertex_normals", "volumes")


def test_gradients():
    base = Mesh.batch([icosphere(0), grid(1, 2)]).to(torch.float64)
    start = (base.vertices + 0.1 * torch.randn_like(base.vertices)).requires_grad_()
    for name in DERIVED:

        def derived(v, name=name):
            return getattr(base.with_vertices(v), name)

        assert torch.autograd.gradcheck(derived, start, fast_mode=True), name
        assert torch.autograd.gradgradcheck(derived, start, fast_mode=True), name
    for move in MOVES:
        assert torch.autograd.gradcheck(
            lambda v, f=move: f(base.with_vertices(v)).vertices, start, fast_mode=True
        )
    assert torch.autograd.gradcheck(
        lambda v: base.with_vertices(v).sample_points(7, torch.Generator().manual_seed(3)), start
    )


@for_each(scale=[0.0, 1e-30, 1e-12, 1.0, 1e12], dtype=DTYPES)
def test_degenerate_is_finite(dtype, scale):
    faces = torch.tensor([[0, 1, 2], [0, 0, 1], [3, 3, 3], [0, 1, 4]])
    vertices = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [5, 5, 5], [2, 0, 0]], dtype=dtype)
    vertices = (vertices * scale).requires_grad_()
    mesh = Mesh(vertices.detach(), faces).with_vertices(vertices)
    total = mesh.face_normals.sum() + mesh.face_areas.sum() + mesh.vertex_normals.sum()
    (gradient,) = torch.autograd.grad(total, vertices)
    assert total.isfinite()
    if scale >= 1e-12 or dtype == torch.float64:
        assert gradient.isfinite().all()
    assert_close(mesh.face_normals[1:], torch.zeros(3, 3, dtype=dtype))
    if scale >= 1e-12:
        assert_close(mesh.face_normals[0], torch.tensor([0.0, 0, 1], dtype=dtype))
        assert_close(mesh.face_areas[0], torch.tensor(scale**2 / 2, dtype=dtype))


def test_rounding_chooses_no_normal():
    """Corners on one line but for rounding; the triangle beside them is thin and has its own."""
    torch.manual_seed(0)
    start, along = torch.rand(2, 100, 3, dtype=torch.float64)
    line = torch.stack([start, start + 0.37 * along, start + along], 1)
    thin = torch.tensor([[[0.0, 0, 0], [1, 0, 0], [0.5, 3e-5, 0]]], dtype=torch.float64)
    vertices = torch.cat([line, thin]).reshape(-1, 3)
    for dtype in DTYPES:
        mesh = Mesh(vertices.to(dtype), torch.arange(303).reshape(-1, 3))
        assert (mesh.face_areas[:-1] > 0).any()
        assert_close(
            mesh.face_normals, torch.eye(3, dtype=dtype)[2] * (torch.arange(101) == 100)[:, None]
        )
        assert (mesh.vertex_normals[:-3] == 0).all()


def test_watertight():
    sphere = icosphere(1)
    turned = sphere.faces.clone()
    turned[0] = turned[0].flip(0)
    for faces in (sphere.faces[1:], turned, torch.cat((sphere.faces, sphere.faces))):
        assert not Mesh(sphere.vertices, faces).is_watertight
    for mesh, closed in (
        (sphere, True), (Mesh.batch([sphere, cube()]), True), (sphere.repeated(3), True),
        (Mesh.batch([sphere, grid()]), False),
    ):  # fmt: skip
        assert mesh.is_watertight == closed


def test_moving():
    mesh = Mesh.batch([icosphere(1), cube()])
    offset = torch.tensor([[1.0, 2, 3], [-1, 0, 0]])
    low, high = mesh.translated(offset).bounding_box()
    assert_close((low + high) / 2, offset)
    assert_close(mesh.scaled(3.0).vertices, 3 * mesh.vertices)
    assert_close(mesh.scaled(torch.tensor([1.0, 2.0]))[1].vertices, 2 * cube().vertices)
    turn = torch.tensor([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])
    assert_close(mesh.transformed(turn).vertices, mesh.vertices @ turn.T)
    matrix = torch.eye(4).repeat(2, 1, 1)
    matrix[:, :3, 3] = offset
    assert_close(mesh.transformed(matrix).vertices, mesh.translated(offset).vertices)
    away = mesh.scaled(7.0).translated(offset)
    sphere, box = away.normalized(), away.normalized("cube")
    for m, b in zip(sphere, box, strict=True):
        assert m.vertices.norm(dim=-1).max().item() == pytest.approx(1, abs=1e-6)
        low, high = b.bounding_box()
        assert (high - low).max().item() == pytest.approx(1, abs=1e-6)
        assert_close(low, -high)


def test_bad_arguments_of_moves():
    mesh, flat = triangle(), triangle().with_vertices(torch.ones(3, 3))
    factors = (0.0, -1, math.nan, torch.tensor(0.0), torch.tensor([1.0, 1.0]))
    for call, error, message in (
        *((lambda f=f: mesh.scaled(f), ValueError, "factor") for f in factors),
        (lambda: mesh.scaled("2"), TypeError, "factor must be a number"),
        (lambda: mesh.translated(torch.zeros(2)), ValueError, "offset must have shape"),
        (lambda: mesh.transformed(torch.ones(4, 4)), ValueError, "affine"),
        (lambda: mesh.normalized("box"), ValueError, "unknown fit 'box'; allowed: cube, sphere"),
        (flat.normalized, ValueError, "mesh 0 has no extent"),
        (flat.with_vertices(torch.full((3, 3), torch.nan)).normalized, ValueError, "be finite"),
    ):
        with pytest.raises(error, match=message):
            call()


def test_subdivided():
    mesh = full(cube())
    fine = mesh.subdivided(2)
    assert fine.is_watertight
    assert fine.face_counts == (12 * 16,)
    assert_close(fine.volumes, mesh.volumes)
    assert_close(fine.vertices[:8], mesh.vertices)
    assert_close(fine.face_colors, mesh.face_colors.repeat_interleave(16, 0))
    # The child at corner 0 of a face keeps it; the middle child has the edges' midpoints.
    once = mesh.subdivided()
    for values, finer in [
        (mesh.face_vertices, once.face_vertices),
        (mesh.corner_uvs, once.corner_uvs),
        (mesh.vertex_colors[mesh.faces], once.vertex_colors[once.faces]),
    ]:
        a, b, c = values.unbind(1)
        finer = finer.reshape(12, 4, 3, -1)
        assert_close(finer[:, 0, 0], a)
        assert_close(finer[:, 1, 1], b)
        assert_close(finer[:, 2, 2], c)
        assert_close(finer[:, 3].sum(1), a + b + c)
        assert_close(finer[:, 0, 1], (a + b) / 2)
    assert mesh.subdivided(0) is mesh
    assert grid(2, 2).subdivided().edges.shape == grid(4, 4).edges.shape


def test_subdivided_batches():
    mesh = full(cube())
    shared = mesh.with_vertices(torch.randn(3, 8, 3))
    for i, fine in enumerate(shared.subdivided()):
        one = shared[i].subdivided()
        for name in ("face_vertices", "corner_uvs", "corner_colors"):
            assert_close(getattr(fine, name), getattr(one, name))
    mixed = Mesh.batch([mesh, full(icosphere(0), 1)])
    assert_same(mixed.subdivided(), Mesh.batch([m.subdivided() for m in mixed]))


def test_samples_are_even():
    # Two triangles of areas 1 : 3 and one of none, in the planes z = 0, 1, 2.
    vertices = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [3, 0, 1], [0, 1, 1],
                             [0, 0, 2], [1, 0, 2], [2, 0, 2]])  # fmt: skip
    mesh = Mesh(vertices, torch.tensor([[6, 7, 8], [0, 1, 2], [3, 4, 5], [6, 7, 8]]))
    points = mesh.sample_points(20000, torch.Generator().manual_seed(0))[0]
    assert set(points[:, 2].round().tolist()) == {0.0, 1.0}
    share = (points[:, 2] > 0.5).float().mean().item()
    assert share == pytest.approx(0.75, abs=4 * math.sqrt(0.75 * 0.25 / 20000))
    on_first = points[points[:, 2] < 0.5][:, :2]
    assert (on_first >= 0).all()
    assert (on_first.sum(-1) <= 1 + 1e-6).all()
    assert_close(on_first.mean(0), torch.full((2,), 1 / 3), atol=0.015, rtol=0)
    covariance = torch.cov(on_first.T)  # of a uniform triangle: 1/18 and -1/36
    assert_close(covariance, torch.tensor([[2.0, -1], [-1, 2]]) / 36, atol=3e-3, rtol=0)


def test_samples_are_seeded_and_differentiable():
    vertices = icosphere(2).vertices.clone().requires_grad_()
    mesh = Mesh.batch([icosphere(2).with_vertices(vertices), cube()])
    first = mesh.sample_points(50, torch.Generator().manual_seed(1))
    again = mesh.sample_points(50, torch.Generator().manual_seed(1))
    other = mesh.sample_points(50, torch.Generator().manual_seed(2))
    assert_close(first, again, rtol=0, atol=0)
    assert (first != other).any()
    radius = first[0].norm(dim=-1)
    assert (radius <= 1 + 1e-6).all()
    assert (radius > 0.97).all()
    assert_close(first[1].abs().amax(-1), torch.ones(50))
    first[0].sum().backward()
    assert_close(vertices.grad.sum(0), torch.full((3,), 50.0))  # weights of a point add up to 1


# -- shapes ----------------------------------------------------------------------------------------


@for_each(make=[icosphere, cube_sphere, cube], dtype=DTYPES)
def test_closed_shapes(make, dtype):
    shape = make(dtype=dtype)
    assert shape.dtype == dtype
    assert shape.is_watertight
    assert ((shape.face_normals * shape.face_vertices.mean(1)).sum(-1) > 0.5).all()  # outwards
    if make is not cube:
        assert_close(shape.vertices.norm(dim=-1), torch.ones(len(shape.vertices), dtype=dtype))
        assert shape.volumes.item() == pytest.approx(4 / 3 * math.pi, rel=0.01)
        assert shape.vertices.mean(0).abs().max() < 1e-6


def test_shapes():
    for mesh in (icosphere(3), cube_sphere(15)):  # well shaped
        a, b, c = mesh.face_vertices.double().unbind(1)
        angles = [
            torch.acos(torch.nn.functional.cosine_similarity(q - p, r - p))
            for p, q, r in ((a, b, c), (b, c, a), (c, a, b))
        ]
        assert torch.stack(angles).min() > math.radians(29)
        assert mesh.face_areas.max() / mesh.face_areas.min() < 1.45
    for n in (1, 2, 5):
        assert (*icosphere(n).vertex_counts, *icosphere(n).face_counts) == (
            10 * 4**n + 2,
            20 * 4**n,
        )
        assert cube_sphere(n).vertex_counts == (6 * n * n + 2,)
        assert cube_sphere(n).face_counts == cube(n).face_counts == (12 * n * n,)
        assert cube(n).volumes.item() == pytest.approx(8)
        flat = grid(n, n + 1)
        assert flat.face_counts == (2 * n * (n + 1),)
        assert flat.face_areas.sum().item() == pytest.approx(4)
        assert_close(flat.face_normals, torch.tensor([[0.0, 0, 1]]).expand_as(flat.face_normals))
        assert_close(flat.corner_uvs, (flat.face_vertices[..., :2] + 1) / 2)
    for make in (cube_sphere, cube, grid, icosphere):
        with pytest.raises(ValueError, match="must be >= "):
            make(-1)
        for wrong in (2.0, True):
            with pytest.raises(TypeError, match="must be an int"):
                make(wrong)


# -- values of faces -----------------------------------------------------------------------------

OWN = ("face_opacity", "face_scale", "face_shape")


def valued(mesh, seed=0):
    """The mesh with a number of each kind for every face."""
    generator = torch.Generator().manual_seed(seed)
    values = {name: 0.1 + 0.8 * torch.rand(len(mesh.faces), generator=generator) for name in OWN}
    return Mesh(mesh.vertices, mesh.faces, **values)


def test_values_of_faces_go_where_the_faces_go():
    one, other = valued(cube(), 1), valued(icosphere(0), 2)
    batch = Mesh.batch([one, other])
    assert all(name in repr(one) for name in OWN)
    for name in OWN:
        value = getattr(one, name)
        assert value.shape == (12,)
        assert_close(getattr(batch, name), torch.cat([value, getattr(other, name)]))
        assert_close(getattr(batch[1], name), getattr(other, name))
        assert_close(getattr(one.subdivided(2), name), value.repeat_interleave(16))
        assert getattr(one.to(torch.float64), name).dtype == torch.float64
        assert_close(getattr(one.with_vertices(one.vertices * 2), name), value)
        change = getattr(one, f"with_{name}")
        assert_close(getattr(change(value / 2), name), value / 2)
        assert getattr(change(None), name) is None
        others = [x for x in OWN if x != name]
        assert all(getattr(change(None), x) is getattr(one, x) for x in others)
        three = one.repeated(3)
        for values in (torch.rand(12) + 0.1).clamp(max=1).expand(3, 12), torch.full((12,), 0.5):
            assert_close(
                getattr(getattr(three, f"with_{name}")(values), name),
                values.expand(3, 12).flatten(),
            )
        leaf = value.clone().requires_grad_()
        getattr(Mesh.batch([change(leaf), other]), name).sum().backward()
        assert_close(leaf.grad, torch.ones(12))
        assert not getattr(change(leaf).detach(), name).requires_grad


@for_each(
    "name, values, error, words",
    [
        ("face_opacity", torch.ones(3), ValueError, "face_opacity must have shape .F. with F = 12"),
        ("face_opacity", torch.ones(12, 1), ValueError, "face_opacity must have shape"),
        ("face_opacity", torch.ones(12).double(), TypeError, "face_opacity must have the dtype"),
        ("face_opacity", 0.5, TypeError, "face_opacity must be a"),
        ("face_opacity", torch.full((12,), 1.1), ValueError, r"lie in \[0, 1\], got 1.1 .. 1.1"),
        ("face_opacity", torch.full((12,), NAN), ValueError, "face_opacity"),
        ("face_scale", torch.zeros(12), ValueError, "face_scale must be > 0, got .* minimum 0"),
        ("face_shape", -torch.ones(12), ValueError, "face_shape must be > 0, got .* minimum -1"),
    ],
)  # fmt: skip
def test_bad_values_of_faces(name, values, error, words):
    with pytest.raises(error, match=words) as caught:
        getattr(cube(), f"with_{name}")(values)
    assert "\n" not in str(caught.value)


def test_values_that_only_some_meshes_or_no_files_have(tmp_path):
    mesh = valued(cube())
    with pytest.raises(ValueError, match="only some of these meshes have a face_opacity"):
        Mesh.batch([mesh, cube()])
    with pytest.warns(UserWarning, match="does not hold the face_opacity, face_scale, face_shape"):
        mesh.save(tmp_path / "mesh.obj")
    assert Mesh.load(tmp_path / "mesh.obj").face_opacity is None
