"""Textures of the renderer by mipmaps: closed forms on a wall, and less error on a floor."""

import pytest
import torch

import gendr

HARD = {"dist": "heaviside", "tconorm": "max", "shading": "hard"}
PATHS = ({**HARD}, {"scale": "0.01px"}, {"scale": "0.01px", "composite": "ordered"})


def quad(corners, texture):
    faces = torch.tensor([[0, 1, 2], [0, 2, 3]])
    uvs = torch.tensor([[0.0, 0], [1, 0], [1, 1], [0, 1]], dtype=corners.dtype)
    return gendr.Mesh(corners, faces).with_uvs(uvs, faces).with_texture(texture)


def wall(texture):
    """A wall that fills the image of an orthographic camera."""
    corners = torch.tensor([[-1.0, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]])
    return quad(corners.to(texture), texture)


def drawn(mesh, camera, size, mipmaps=True, **options):
    renderer = gendr.Renderer(size, lighting="none", mipmaps=mipmaps, **options)
    return renderer(mesh, camera).rgb


@pytest.mark.parametrize("options", PATHS, ids=["hard", "softmax", "ordered"])
def test_a_wall_shows_the_level_of_its_pixels(options):
    """2^k texels per pixel: level k, a mean of blocks, in which bilinear lookups meet centres."""
    texture = torch.rand(32, 32, 3)
    camera = gendr.look_at(1.0, 0.0, 180.0, fov=90.0, orthographic=True)
    for level in (0, 1, 2):
        size = 32 >> level
        image = drawn(wall(texture), camera, size, **options)[0].permute(1, 2, 0)
        blocks = texture.reshape(size, 1 << level, size, 1 << level, 3).mean((1, 3))
        inner = ~torch.eye(size, dtype=torch.bool).flip(0)  # not on the edge between the faces
        inner[0] = inner[-1] = inner[:, 0] = inner[:, -1] = False
        assert torch.allclose(image[inner], blocks[inner], atol=2e-5)


def floor():
    """A chequered floor to the horizon, and a camera above it."""
    k = torch.arange(64) // 4
    pattern = ((k[:, None] + k) % 2).to(torch.float64)
    corners = torch.tensor([[-8.0, -0.7, 8], [8, -0.7, 8], [8, -0.7, -8], [-8, -0.7, -8]])
    texture = pattern.unsqueeze(-1).repeat(1, 1, 3)
    return quad(corners.double(), texture), gendr.look_at(8.0, 6.0, 20.0).to(torch.float64)


def test_a_floor_is_nearer_to_what_pixels_see():
    mesh, camera = floor()
    fine = drawn(mesh, camera, 32 * 16, False, **HARD)
    truth = fine.reshape(1, 3, 32, 16, 32, 16).mean((3, 5))
    errors = [
        (drawn(mesh, camera, 32, mipmaps, **HARD) - truth)[..., 12:20, :].square().mean()
        for mipmaps in (False, True)
    ]
    assert errors[1] < 0.5 * errors[0]


def test_gradients():
    mesh, camera = floor()

    def image(vertices, texture):
        moved = mesh.with_vertices(vertices).with_texture(texture)
        return drawn(moved, camera, 8, **HARD)

    leaves = mesh.vertices.detach().clone(), mesh.textures[0][::4, ::4].clone()
    leaves = [x.requires_grad_() for x in leaves]
    assert torch.autograd.gradcheck(image, leaves, eps=1e-7, atol=1e-5, fast_mode=True)


def test_several_textures_of_any_size():
    """Each image has the levels of its own texture; sides of 6 halve once."""
    camera = gendr.look_at(1.0, 0.0, 180.0, fov=90.0, orthographic=True)
    textures = [torch.rand(6, 6, 3), torch.rand(16, 8, 3)]
    alone = [drawn(wall(x), camera, 4, **HARD) for x in textures]
    mesh = gendr.Mesh.batch([wall(x) for x in textures])
    assert torch.equal(drawn(mesh, camera, 4, **HARD), torch.cat(alone))


def test_the_backend_of_the_renderer_samples_too(monkeypatch):
    from importlib import import_module

    module, asked = import_module("gendr.primitives.texture"), []
    choose = module.kernels_for

    def kernels_for(operator, tensor, backend="auto"):
        asked.append((operator, backend))
        return choose(operator, tensor, backend)

    monkeypatch.setattr(module, "kernels_for", kernels_for)
    camera = gendr.look_at(1.0, 0.0, 180.0, fov=90.0, orthographic=True)
    scene, found = wall(torch.rand(8, 8, 3)), {}
    for name in ("cpu", "reference"):
        found[name] = drawn(scene, camera, 8, backend=name, scale="0.3px")
        assert {backend for _, backend in asked} == {name}, name
        assert {operator for operator, _ in asked} == {"primitives.mipmaps", "primitives.texture"}
        asked.clear()
    assert torch.allclose(found["cpu"], found["reference"], atol=2e-5)
