"""All 1242 renderers (or a sample of them): gradients, equality of backends, degenerate input."""

import pytest
import torch
from torch.autograd import gradcheck

import gendr
from gendr import Instance, instance, instances
from gendr.distributions import benchmark_distributions
from gendr.tnorms import benchmark_tconorms
from support import degenerate, soup, touching
from support.backends import assert_equals_reference, centres, learnable
from support.cases import for_each
from support.instances import covering_set, drawn

SIZE = (4, 5)
DTYPES = [torch.float32, torch.float64]


def general_position(seed):
    """Overlapping and touching faces without a pixel near a corner's or bisector's kink."""
    for attempt in range(200):
        scene = torch.cat([soup(1, 3, 1000 * seed + attempt), touching(seed + attempt)], 1)
        points = centres(SIZE)[:, None, None]
        a, b = scene[0, :, :, :2], scene[0, :, :, :2].roll(-1, 1)
        t = (((points - a) * (b - a)).sum(-1) / ((b - a) ** 2).sum(-1)).clamp(0, 1)
        edges = (points - a - t.unsqueeze(-1) * (b - a)).norm(dim=-1)
        two = edges.topk(2, largest=False).values
        same_corner = torch.isclose(two[..., 0], two[..., 1], rtol=1e-12)
        bisector = ((two[..., 1] - two[..., 0]) < 1e-4) & ~same_corner
        if not bisector.any() and two.min() > 1e-3:
            return scene
    raise AssertionError("no scene in general position")


@for_each("member", drawn(), rotating=6)
def test_gradcheck_of_the_reference(member):
    """To corners and all that the member has; scales are such that many faces reach a pixel."""
    scene = general_position(sum(map(ord, member.name)))
    _, _, tensors = learnable(member, 0.03 if member.dist.is_squared else 0.17, scene)

    def render(corners, *values):
        given = dict(zip(tensors, values, strict=True))
        dist, tconorm = member.dist, member.tconorm
        if "shape" in given:
            dist = dist.with_shape(given["shape"])
        if "shift" in given:
            dist = dist.shifted(given["shift"])
        if "p" in given:
            tconorm = tconorm.with_p(given["p"])
        return gendr.silhouette(corners, SIZE, dist, tconorm, given["scale"], 0.0, "reference")

    leaves = scene.requires_grad_(), *tensors.values()
    assert gradcheck(render, leaves, eps=1e-7, atol=2e-5, rtol=1e-3, fast_mode=True)


# In the first image small faces, and such that share edges; in the second large ones.
SMALL = torch.cat([soup(1, 5, 7, size=0.3), touching(3)], 1)
COMPARED = torch.cat([SMALL, soup(1, 9, 8, size=0.8)])


@for_each("member, dtype, cutoff", drawn(DTYPES, [1e-6, 0.0]), rotating=3)
def test_cpu_equals_reference(member, dtype, cutoff):
    scale = torch.full((2,), 0.01 if member.dist.is_squared else 0.04)
    assert_equals_reference("cpu", COMPARED, (8, 11), member, scale, cutoff, dtype)


@for_each("member, backend, dtype", drawn(["reference", "cpu"], DTYPES), rotating=4)
def test_degenerate_faces_give_finite_images_and_gradients(member, backend, dtype):
    for cutoff in (0.0, 1e-6):
        vertices = degenerate(dtype).repeat(4, 1, 1, 1).requires_grad_()
        scales = torch.tensor([1e-8, 1e-4, 1e-2, 1.0], dtype=dtype, requires_grad=True)
        alpha = gendr.silhouette(vertices, 5, member.dist, member.tconorm, scales, cutoff, backend)
        assert torch.isfinite(alpha).all()
        assert 0 <= alpha.min() <= alpha.max() <= 1
        alpha.sum().backward()
        assert torch.isfinite(vertices.grad).all()
        assert torch.isfinite(scales.grad).all()


# -- names and order -------------------------------------------------------------------------------


def test_there_are_1242_in_order_and_names_parse_back():
    every = instances()
    assert len({one.name for one in every}) == len(every) == 1242
    tconorms, dists = benchmark_tconorms(), benchmark_distributions()
    for i, one in enumerate(every):
        dist = dists[i // 46]
        assert one.tconorm == tconorms[i % 23]
        assert str(one.dist) == str(dist if i % 46 < 23 else dist.squared())
        again = instance(one.name)
        assert again == one
        assert again.name == str(one) == one.name
    assert [every[i].name for i in (0, 1, 23, -1)] == [
        "uniform/max",
        "uniform/probabilistic",
        "uniform.squared/max",
        "levy.reversed.centred.squared/schweizer_sklar(p=-4)",
    ]
    one = instance("gamma(shape=0.5).squared / yager(3)")
    assert isinstance(one, Instance)
    assert one.name == "gamma(shape=0.5).squared/yager(p=3)"


def test_the_sample_covers_every_distribution_and_family(seed):
    every, chosen = instances(), covering_set(seed)
    assert {str(i.dist) for i in chosen} == {str(i.dist) for i in every}
    assert {str(i.tconorm) for i in chosen} == {str(i.tconorm) for i in every}
    assert {x.name for k in range(23) for x in covering_set(k)} == {x.name for x in every}


@for_each(
    "name, error, message",
    [
        ("logistic", ValueError, "'logistic' is no instance; write a distribution and a T-conorm"),
        ("logstic/max", ValueError, "logistic"),
        ("logistic/yagr(2)", ValueError, "yager"),
        ("logistic/yager", ValueError, "yager needs a parameter"),
        ("logistic/max/max", ValueError, "is no T-conorm"),
        (3, TypeError, "goes by its name, got int"),
    ],
)
def test_wrong_names(name, error, message):
    with pytest.raises(error, match=message) as caught:
        instance(name)
    assert "\n" not in str(caught.value)
