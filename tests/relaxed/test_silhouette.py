"""Silhouettes: the renderer's instance, the three edges by hand, hard images, gradients."""

import itertools
from importlib import import_module

import numpy as np
import pytest
import torch

import gendr
from gendr.relaxed import silhouette


def triangles(*shape, dtype=torch.float64):
    corners = 1.6 * torch.rand(*shape, 3, 3, dtype=dtype) - 0.8
    corners[..., 2] = 2.0
    return corners.requires_grad_()


def test_distances_give_the_image_of_the_renderer():
    for dist, size in itertools.product(
        ["logistic", "cauchy", "gaussian.squared", "gumbel_max"], [9, (6, 11)]
    ):
        x = triangles(2, 5)
        images = [
            silhouette(x, size, dist=dist, steepness=20.0),
            gendr.silhouette(x, size, dist, "probabilistic", 1 / 20.0, cutoff=0),
        ]
        torch.testing.assert_close(*images, rtol=0, atol=1e-10)
        g = torch.randn_like(images[0])
        grads = [torch.autograd.grad(image, x, g)[0] for image in images]
        torch.testing.assert_close(*grads, rtol=1e-8, atol=1e-8)


def test_three_edges_by_hand():
    # One right triangle, and one pixel centre in it at (-0.5, -0.5) with distances to its lines.
    x = torch.tensor([[[-0.8, -0.9], [0.7, -0.9], [-0.8, 0.6]]], dtype=torch.float64)
    distances = np.array([0.4, (-0.2 + 0.5 + 0.5) / np.sqrt(2), 0.3])
    for corners in (x, x.flip(-2)):
        image = silhouette(corners, 2, method="edges", steepness=3.0)
        expected = np.prod(1 / (1 + np.exp(-3.0 * distances)))
        assert abs(image[1, 0].item() - expected) < 1e-12


def test_hard_images_are_exact():
    for method in ["distance", "edges"]:
        x = triangles(3, 4)
        hard = silhouette(x, 32, method=method, dist="heaviside").detach()
        y, column = np.mgrid[31:-32:-2, -31:32:2] / 32
        expected = np.zeros((3, 32, 32), bool)
        for b in range(3):
            for a, c, d in x[b, ..., :2].detach().numpy():
                sides = [
                    (q[0] - p[0]) * (y - p[1]) - (q[1] - p[1]) * (column - p[0])
                    for p, q in ((a, c), (c, d), (d, a))
                ]
                expected[b] |= np.all(np.array(sides) > 0, 0) | np.all(np.array(sides) < 0, 0)
        assert 0.05 < expected.mean() < 0.95
        assert torch.equal(hard.bool(), torch.from_numpy(expected))
        steep = silhouette(x, 32, method=method, steepness=1e7)
        torch.testing.assert_close(steep, hard, rtol=0, atol=1e-3)


@pytest.mark.parametrize("method", ["distance", "edges"])
def test_gradients_by_differences(method):
    x = triangles(1, 3)
    beta = torch.tensor(4.0, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda x, b: silhouette(x, (3, 4), method=method, steepness=b), (x, beta)
    )


def test_large_images_are_computed_in_parts(monkeypatch):
    for method in ["distance", "edges"]:
        module = import_module("gendr.relaxed.algorithms.silhouette")  # the name is also a function
        x, g = triangles(2, 4), torch.randn(2, 8, 8, dtype=torch.float64)
        found = []
        for pairs in (1 << 19, 40):
            monkeypatch.setattr(module, "_PAIRS", pairs)
            image = silhouette(x, 8, method=method)
            found.append((image, *torch.autograd.grad(image, x, g)))
        for whole, parts in zip(*found, strict=True):
            torch.testing.assert_close(whole, parts, rtol=0, atol=1e-12)


def test_flat_triangles_cover_nothing():
    flat = torch.tensor([[[-0.5, 0.0], [0.5, 0.0], [0.1, 0.0]]], requires_grad=True)
    for method in ("distance", "edges"):
        image = silhouette(flat, 4, method=method, steepness=1e5)
        assert image.max() < 1e-3
        (grad,) = torch.autograd.grad(image.sum(), flat)
        assert grad.isfinite().all()


def test_any_batch_shape():
    x = triangles(2, 3, 4)
    whole = silhouette(x, 5)
    torch.testing.assert_close(whole[1, 2], silhouette(x[1, 2], 5), rtol=0, atol=1e-14)
    assert silhouette(x[:0], 5).shape == (0, 3, 5, 5)
    assert torch.equal(silhouette(x[:, :, :0], 5), torch.zeros(2, 3, 5, 5, dtype=torch.float64))
    assert silhouette(x.float()[..., :2], 5).dtype == torch.float32


def test_bad_arguments():
    for options, kind, said in [
        ({"face_vertices": np.ones((1, 3, 2))}, TypeError, "torch.Tensor"),
        ({"face_vertices": torch.ones(3, 2)}, ValueError, r"\[\.\.\., F, 3, 2\]"),
        ({"face_vertices": torch.full((1, 3, 2), torch.nan)}, ValueError, "finite"),
        ({"image_size": 0}, ValueError, "image_size"),
        ({"method": "corners"}, ValueError, "edges"),
        ({"steepness": 0}, ValueError, "steepness"),
        ({"tconorm": "sum"}, ValueError, "T-conorm"),
    ]:
        with pytest.raises(kind, match=said):
            silhouette(**{"face_vertices": torch.ones(1, 3, 2), "image_size": 4, **options})
