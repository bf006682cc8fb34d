"""The network: what it gives, that it stays in its cube, and that all of it learns."""

import pytest
import torch

from gendr import Renderer
from gendr.losses import iou_loss
from gendr.mesh import icosphere
from lab.reconstruction import Reconstructor, camera_of_view
from lab.reconstruction.model import CODE, Decoder
from support.cases import for_each


@for_each(encoder=["published", "residual", "none"], rotating=3)
def test_images_become_meshes_in_the_cube(encoder):
    model = Reconstructor(encoder)
    images = torch.rand(3, 4, 64, 64)
    vertices = model(images)
    assert vertices.shape == (3, 642, 3)
    assert vertices.abs().max() <= 0.5
    meshes = model.mesh(images)
    assert len(meshes) == 3
    assert meshes.faces.shape == (3 * 1280, 3)
    assert torch.equal(meshes[1].vertices, model(images)[1])


def test_layers_are_those_of_the_papers():
    encoder, decoder = Reconstructor().encoder, Reconstructor().decoder
    kernels = [tuple(p.shape) for p in encoder.parameters() if p.ndim == 4]
    assert kernels == [(64, 4, 5, 5), (128, 64, 5, 5), (256, 128, 5, 5)]
    linear = [tuple(p.shape) for p in encoder.parameters() if p.ndim == 2]
    assert linear == [(1024, 256 * 64), (1024, 1024), (CODE, 1024)]
    linear = {tuple(p.shape) for p in decoder.parameters() if p.ndim == 2}
    assert linear == {(1024, CODE), (2048, 1024), (3, 2048), (642 * 3, 2048)}


@for_each(size=[0.0, 100.0])
def test_a_centroid_moves_the_mesh_within_the_cube(size):
    decoder = Decoder(icosphere(2))
    for parameter in decoder.parameters():
        torch.nn.init.zeros_(parameter)
    with torch.no_grad():
        decoder.centroid.bias[:] = torch.tensor([5.0, -5.0, 0.0])
        decoder.displacement.bias[:] = size
    vertices = decoder(torch.randn(1, CODE))[0]
    c = torch.tanh(torch.tensor([0.5, -0.5, 0.0]))
    middle = 0.5 * (vertices.amin(0) + vertices.amax(0))
    if size:  # as far out as it goes: the box fills the cube, wherever its centroid is
        assert torch.allclose(vertices.amax(0), torch.full((3,), 0.5))
        assert torch.allclose(vertices.amin(0), torch.full((3,), -0.5))
    else:
        low, high = 0.25 * (1 + c), 0.25 * (1 - c)
        assert torch.allclose(vertices.amax(0), 0.5 * c + high, atol=1e-5)
        assert torch.allclose(vertices.amin(0), 0.5 * c - low, atol=1e-5)
        torch.nn.init.zeros_(decoder.centroid.bias)
        # sigmoid(logit(|v| / 2)) / 2 of each coordinate of the unit sphere
        still = decoder(torch.randn(1, CODE))[0]
        assert torch.allclose(still, icosphere(2).vertices / 4, atol=1e-6)
        assert (middle * c >= 0).all()


def test_every_weight_learns_from_a_silhouette():
    torch.manual_seed(1)
    model = Reconstructor(side=16, subdivisions=1)
    images = torch.rand(2, 4, 16, 16)
    renderer = Renderer(16, scale="1px")
    alpha = renderer(model.mesh(images), camera_of_view(torch.tensor([0, 6]))).alpha
    iou_loss(alpha, images[:, 3]).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


def test_bfloat16_of_the_encoder_keeps_the_mesh_in_float32():
    torch.manual_seed(2)
    model = Reconstructor(side=16, subdivisions=1).eval()
    images = torch.rand(2, 4, 16, 16)
    with torch.autocast("cpu", torch.bfloat16):
        rough = model(images)
    assert rough.dtype == torch.float32
    assert 0 < (rough - model(images)).abs().max() < 0.05


def test_what_is_refused():
    with pytest.raises(ValueError, match="published, residual"):
        Reconstructor("resnet18")
    with pytest.raises(ValueError, match="multiple of 8"):
        Reconstructor(side=60)
    with pytest.raises(ValueError, match=r"\[2, 4, 32, 32\]"):
        Reconstructor()(torch.rand(2, 4, 32, 32))
    with pytest.raises(TypeError, match="uint8"):
        Reconstructor()(torch.zeros(2, 4, 64, 64, dtype=torch.uint8))
