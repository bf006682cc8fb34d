"""Where photos pull vertices."""

import torch

import gendr
from gendr.photos.fitting import silhouette_gradient as gradients
from support.cases import for_each


@for_each(faces=[100, gradients._MANY_FACES])
def test_photos_together_and_apart_pull_alike_for_any_number_of_threads(faces):
    generator = torch.Generator().manual_seed(0)
    vertices = torch.randn(7, 3, generator=generator)
    goals = torch.randn(5, 7, 3, generator=generator)
    asked = []

    def loss(x, rows):
        asked.append(tuple(rows))
        return (x - goals[rows]).square().sum()

    found = []
    for threads in (1, 2, 4):
        gendr.set_num_threads(threads)
        found.append(gradients.silhouette_gradient(loss, vertices, [0, 1, 3, 4], faces))
    gendr.set_num_threads(None)
    apart = faces == gradients._MANY_FACES
    assert set(asked) == ({(0, 3), (1, 4)} if apart else {(0, 1, 3, 4)})
    wanted = 2 * (vertices - goals[[0, 1, 3, 4]]).sum(0)
    for total, gradient in found:
        assert torch.allclose(gradient, wanted, atol=1e-5)
        assert torch.allclose(total, (vertices - goals[[0, 1, 3, 4]]).square().sum())
        assert torch.equal(gradient, found[0][1])
