"""Antialiasing against coverage by supersampling, in value and in gradient."""

import pytest
import torch

import gendr
from gendr import primitives as dr
from gendr.mesh import icosphere
from support.cases import for_each

pytestmark = pytest.mark.skipif(gendr.backends()["cpu"] is not None, reason="needs Numba")


def shape(seed, dtype=torch.float64):
    """A turned cube or a ball, fine or coarse, in front of the camera: positions and triangles."""
    g = torch.Generator().manual_seed(seed)
    if seed % 2:
        corners = torch.cartesian_prod(*3 * [torch.tensor([-1.0, 1.0])])
        faces = torch.tensor([
            [0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1],
            [2, 3, 7], [2, 7, 6], [0, 2, 6], [0, 6, 4], [1, 5, 7], [1, 7, 3],
        ])  # fmt: skip
        corners = corners * 0.4
    else:
        ball = icosphere(1 + seed % 4)
        corners, faces = ball.vertices * 0.6, ball.faces
    turn = torch.linalg.qr(torch.randn(3, 3, generator=g))[0]
    points = corners @ turn + 0.05 * torch.randn(3, generator=g)
    w = 1.5 + 0.4 * points[:, 2:]
    pos = torch.cat([1.5 * points[:, :2], points[:, 2:] * 0.5, w], -1)
    return pos.to(dtype)[None], faces.int()


def mask(pos, tri, size, boost=1.0):
    rast, _ = dr.rasterize(None, pos, tri, size)
    covered = (rast[..., 3:] > 0).to(pos.dtype)
    return dr.antialias(covered, rast, pos, tri, pos_gradient_boost=boost)[..., 0]


def coverage(pos, tri, size, fine):
    """The part of each pixel that is covered, by fine^2 samples."""
    rast, _ = dr.rasterize(None, pos, tri, (fine * size[0], fine * size[1]))
    seen = (rast[..., 3] > 0).to(pos.dtype)
    return torch.nn.functional.avg_pool2d(seen[:, None], fine)[:, 0]


def test_coverage_at_silhouettes():
    errors = []
    for seed in range(8):
        pos, tri = shape(seed)
        found, wanted = mask(pos, tri, (41, 60)), coverage(pos, tri, (41, 60), 16)
        error = (found - wanted).abs()
        errors.append(error[(wanted > 0) & (wanted < 1)])
        assert error.max() < 0.6
        # Across a whole silhouette, what is too much in one pixel is missing in the next.
        assert abs(found.sum() / wanted.sum() - 1) < 3e-3, seed
    assert torch.cat(errors).mean() < 0.018  # 0.0172 of these shapes


def half_plane(angle, shift, size=24):
    """Masks beyond edges at these angles and distances from the middle, and exact coverages.

    Without the outermost pixels, whose silhouettes may lie between them and pixels outside.
    """
    normal = torch.stack([angle.cos(), angle.sin()], -1)
    along = torch.stack([-normal[:, 1], normal[:, 0]], -1) * 10 * size
    begin, back = shift[:, None] * normal, 10 * size * normal
    points = torch.stack([begin + along, begin - along, begin - along - back, begin + along - back])
    xy = points.transpose(0, 1) * 2 / size
    pos = torch.cat([xy, torch.zeros_like(xy[..., :1]), torch.ones_like(xy[..., :1])], -1)
    found = mask(pos, torch.tensor([[0, 1, 2], [0, 2, 3]], dtype=torch.int32), (size, size))
    centre = torch.arange(size, dtype=torch.float64) + 0.5 - size / 2
    x, y, shift = centre[None, None], centre[None, :, None], shift[:, None, None]
    a, b = normal[:, 0, None, None], normal[:, 1, None, None]
    inside, (a, b) = shift - a * x - b * y, (a.abs(), b.abs())
    sums = [
        sign * (inside + k * (a + sign * b) / 2).clamp(min=0).square() / 2
        for sign in (1, -1) for k in (1, -1)
    ]  # fmt: skip
    return found[:, 1:-1, 1:-1], (sum(sums) / (a * b))[:, 1:-1, 1:-1]


def test_the_error_of_an_edge_is_that_of_the_formula():
    """Of an edge m off the upright, m^2 / 12 / (1 + m) in pixels that it cuts: 1/24 at 45 degrees.

    Over all directions of edges across a square that is (1 - pi/4) / (3 pi + 6 ln 2) = 0.0158, and
    of edges that are equally long (ln(1 + sqrt(2)) - sqrt(1/2)) / 12 = 0.0145.
    """
    count = torch.arange(400, dtype=torch.float64)
    shift = 0.5**0.5 * (count / 50 - 4)  # whole diagonals of pixels
    turn = 2 * torch.pi * ((0.618034 * count + 0.3) % 1)  # evenly, and at each distance another
    diagonal = torch.full_like(turn, torch.pi / 4 + 1e-3)
    for angle, mean, worst in ((turn, 0.0158, 0.13), (diagonal, 1 / 24, 0.13)):
        found, wanted = half_plane(angle, shift)
        error = (found - wanted).abs()
        assert abs(error[(wanted > 1e-6) & (wanted < 1 - 1e-6)].mean() - mean) < 5e-4
        assert error.max() < worst


def test_an_upright_edge_is_exact():
    for x in torch.linspace(-0.89, 0.89, 40, dtype=torch.float64).tolist():
        points = torch.tensor([[-2.0, -2], [x, -2], [x, 2], [-2, 2]], dtype=torch.float64)
        for turned in (False, True):
            xy = points.flip(-1) if turned else points
            pos = torch.cat([xy, torch.zeros(4, 1), torch.ones(4, 1)], -1)[None]
            tri = torch.tensor([[0, 1, 2], [0, 2, 3]], dtype=torch.int32)
            found = mask(pos, tri, (10, 10))
            line = found[0, :, 5] if turned else found[0, 5]
            wanted = (5 * (x + 1) - torch.arange(10).double()).clamp(0, 1)
            torch.testing.assert_close(line, wanted)


@pytest.mark.rotating(4, group="primitives")
def test_the_gradient_is_unbiased():
    """Of sums over pixels with random weights, under random motions, against differences."""
    size, fine, step = (24, 31), 16, 0.35  # pixels that the shapes move for a difference
    errors, scale = [], []
    for seed in range(40):
        g = torch.Generator().manual_seed(100 + seed)
        pos, tri = shape(seed)
        weights = torch.randn(1, *size, generator=g, dtype=torch.float64)
        weights = torch.nn.functional.avg_pool2d(weights[:, None], 3, 1, 1)[:, 0]
        direction = torch.randn(2, generator=g, dtype=torch.float64)
        direction = direction / direction.norm() * 2 / torch.tensor([size[1], size[0]])
        moved = torch.zeros_like(pos)
        moved[..., :2] = direction * pos[..., 3:]  # by a pixel on the screen
        found = torch.tensor(0.0, dtype=torch.float64)
        for k in (-0.75, -0.25, 0.25, 0.75):  # over the way of the difference
            leaf = (pos + k * step * moved).requires_grad_()
            loss = (mask(leaf, tri, size) * weights).sum()
            found += (torch.autograd.grad(loss, leaf)[0] * moved).sum() / 4
        ends = [
            (coverage(pos + s * step * moved, tri, size, fine) * weights).sum() for s in (-1, 1)
        ]
        wanted = (ends[1] - ends[0]) / (2 * step)
        errors.append(found - wanted)
        scale.append(wanted)
    errors, scale = torch.stack(errors), torch.stack(scale)
    assert abs(errors.mean()) < 2 * errors.std() / len(errors) ** 0.5
    slope = (errors * scale).mean() / scale.square().mean()  # of the error: too much, too little
    assert abs(slope) < 0.03  # of 240 shapes -0.006, with a standard error of 0.005


def test_the_area_of_a_ball_and_its_derivative():
    """Growing by r: the area of a disc, 2 pi r; also where triangles are far below a pixel."""
    for count in (3, 6):
        ball = icosphere(count)
        flat = torch.cat(
            [ball.vertices * torch.tensor([1.0, 1, 0.5]), torch.ones(len(ball.vertices), 1)], -1
        ).double()
        hull = torch.pi * (1 if count > 3 else 0.995)
        errors = []
        for r in torch.linspace(0.55, 0.65, 20, dtype=torch.float64):
            radius = r.clone().requires_grad_()
            scale = torch.stack([radius, radius, radius, torch.ones_like(radius)])
            area = mask((flat * scale)[None], ball.faces.int(), (64, 64)).sum() * (2 / 64) ** 2
            (grown,) = torch.autograd.grad(area, radius)
            errors.append([area.item() / (hull * r**2) - 1, grown.item() / (hull * 2 * r) - 1])
        mean = torch.tensor(errors).mean(0).abs()
        assert mean[0] < 3e-3, count
        assert mean[1] < 1e-2, count


def test_boost_is_a_factor_of_the_gradient_only():
    pos, tri = shape(3)
    results = []
    for boost in (1.0, 3.0):
        leaf = pos.clone().requires_grad_()
        image = mask(leaf, tri, (20, 20), boost)
        first = torch.autograd.grad(image.square().sum(), leaf, create_graph=True)[0]
        results.append((image, first, torch.autograd.grad(image.square().sum(), leaf)[0]))
    torch.testing.assert_close(results[0][0], results[1][0])
    for k in (1, 2):
        torch.testing.assert_close(3 * results[0][k], results[1][k])


@for_each(axis=[0, 1], far=[1e25, -1e25])
def test_edges_far_outside_are_nowhere(axis, far):
    """As integers such places are anything, such as the least one, and a loop had no end."""
    pos, tri = shape(3)
    corners = torch.eye(4).double()[[3, 3, 3]]
    corners[:, axis], corners[:, 1 - axis] = far * torch.arange(1, 4), torch.tensor([0.0, 0.5, 0.1])
    both = torch.cat([pos, corners[None]], 1), torch.cat([tri, len(pos[0]) + torch.arange(3)[None]])
    assert torch.equal(mask(both[0], both[1].int(), (20, 20)), mask(pos, tri, (20, 20)))


def test_half_edges_are_linked_as_a_sort_says():
    g = torch.Generator().manual_seed(5)
    for count, vertices in ((1, 3), (40, 6), (300, 100)):
        tri = torch.randint(0, vertices, (count, 3), generator=g).int()
        by = (dr.antialias_construct_topology_hash(tri, backend=b) for b in ("cpu", "reference"))
        assert torch.equal(*(each.uses for each in by))
    ball = icosphere(2)
    uses = dr.antialias_construct_topology_hash(ball.faces).uses.long()
    assert torch.equal(uses[uses], torch.arange(len(uses)))  # pairs
    assert (uses // 3 != torch.arange(len(uses)) // 3).all()


def test_what_is_kept_of_triangles_follows_their_changes():
    pos, tri = shape(1)
    first = mask(pos, tri, (20, 20))
    tri[:] = tri.flip(0)
    assert torch.equal(first, mask(pos, tri, (20, 20)))
    tri[:] = tri[:1].clone()
    rast, _ = dr.rasterize(None, pos, tri, (20, 20))
    fresh = dr.antialias_construct_topology_hash(tri.clone())
    color = (rast[..., 3:] > 0).double()
    assert torch.equal(
        dr.antialias(color, rast, pos, tri), dr.antialias(color, rast, pos, tri, fresh)
    )
    tri[0, 0] = 100
    with pytest.raises(ValueError, match="got the index 100"):
        dr.antialias(color, rast, pos, tri)


@for_each(dist=["uniform", "logistic", "gamma(shape=0.5)"])
def test_soft_is_the_silhouette_of_the_family(dist):
    pos, tri = shape(2)
    leaf = pos.clone().requires_grad_()
    found = dr.soft(leaf, tri, (20, 30), dist, "hamacher(p=1)", "2px")
    assert found.shape == (1, 20, 30, 1)
    faces = torch.cat([pos[..., :2] / pos[..., 3:], pos[..., 3:]], -1)
    faces = faces * torch.tensor([1.5, 1.0, 1.0])  # of 30 pixels 20 span [-1, 1]
    wanted = gendr.silhouette(faces[0][tri.long()], (20, 30), dist, "hamacher(p=1)", "2px")
    torch.testing.assert_close(found[0, ..., 0], wanted.flip(0))
    assert torch.autograd.grad(found.sum(), leaf)[0].abs().sum() > 0
    inside = mask(pos, tri, (20, 30))[..., None] > 0.5
    hard = dr.soft(pos, tri, (20, 30), dist, scale="0.01px") > 0.5
    assert (inside != hard).double().mean() < 0.02
    both = torch.tensor([[0, len(tri)], [0, 4]], dtype=torch.int32)
    some = dr.soft(pos[0], tri, (20, 30), dist, "hamacher(p=1)", "2px", ranges=both)
    torch.testing.assert_close(some[:1], found)


def test_the_definition_finds_crossings_in_float64():
    """Where an edge passes close to a pixel's centre far from the origin, float32 has no digits."""
    pos, tri = shape(2, torch.float32)
    pos = pos.clone()
    pos[..., 3] *= 1 + 1e-3
    size, points = (96, 96), pos.clone().requires_grad_()
    rast, _ = dr.rasterize(None, pos, tri, size)
    color = torch.rand(*rast.shape[:3], 2, generator=torch.Generator().manual_seed(0))
    found = dr.antialias(color, rast, points, tri, backend="reference")
    exact_points = pos.double().requires_grad_()
    exact = dr.antialias(color.double(), rast.double(), exact_points, tri, backend="reference")
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=3e-7)
    (slope,) = torch.autograd.grad(found.square().sum(), points)
    (exact_slope,) = torch.autograd.grad(exact.square().sum(), exact_points)
    assert (slope - exact_slope).abs().max() < 1e-6 * exact_slope.abs().max()


def seen_edges(color, rast, pos, tri):
    """Antialiasing as the paper has it, pair by pair: only edges of the nearer pixel's triangle."""
    height, width = color.shape[:2]
    points = pos[:, :2] / pos[:, 3:] * torch.tensor([width, height]) / 2  # in pixels
    neighbours = {}
    for a, b, c in tri.tolist():
        for x, y, z in ((a, b, c), (b, c, a), (c, a, b)):
            neighbours.setdefault(frozenset((x, y)), []).append(z)

    def side(a, b, p):
        (ax, ay), (bx, by), (px, py) = a.tolist(), b.tolist(), p.tolist()
        return (bx - ax) * (py - ay) - (by - ay) * (px - ax)

    out, centre = color.clone(), torch.tensor([width, height]) / 2 - 0.5
    for i, j in torch.cartesian_prod(torch.arange(height), torch.arange(width)).tolist():
        for di, dj in ((0, 1), (1, 0)):
            if i + di == height or j + dj == width:
                continue
            p, q = (i, j), (i + di, j + dj)
            ids = [int(rast[k][3]) for k in (p, q)]
            if ids[0] == ids[1]:
                continue
            depth = [
                float(rast[k][2]) if t else torch.inf for k, t in zip((p, q), ids, strict=True)
            ]
            near = 0 if depth[0] <= depth[1] else 1
            corners = tri[ids[near] - 1].tolist()
            here, there = (torch.tensor([k[1], k[0]]) - centre for k in (p, q))
            for k in range(3):
                a, b, third = (corners[(k + m) % 3] for m in range(3))
                va, vb = points[a], points[b]
                run = (vb - va).abs().tolist()
                upright = run[1] >= run[0]
                others = [z for z in neighbours[frozenset((a, b))] if z != third]
                ends = any(
                    side(va, vb, points[z]) * side(va, vb, points[third]) < 0 for z in others
                )
                e, f = side(va, vb, here), side(va, vb, there)
                if ends or upright != (dj == 1) or e * f > 0 or e == f:
                    continue
                reach = [side(here, there, v) for v in (va, vb)]
                if reach[0] * reach[1] > 0:
                    continue
                t = e / (e - f)
                target = q if t > 0.5 else p
                out[target] += (t - 0.5) * (color[p] - color[q])
    return out


def test_edges_that_are_seen_are_those_of_the_paper():
    for seed in (1, 0, 3):
        pos, tri = shape(seed)
        rast, _ = dr.rasterize(None, pos, tri, (19, 22))
        draw = torch.Generator().manual_seed(seed)
        color = torch.rand(1, 19, 22, 2, generator=draw, dtype=torch.float64)
        wanted = seen_edges(color[0], rast[0], pos[0], tri)
        for backend in ("cpu", "reference"):
            found = dr.antialias(color, rast, pos, tri, edges="seen", backend=backend)[0]
            torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
        assert (wanted != color[0]).any()
        every = dr.antialias(color, rast, pos, tri)[0]
        assert (every != color[0]).sum() >= (wanted != color[0]).sum()
    with pytest.raises(ValueError, match="unknown edges 'none'"):
        dr.antialias(color, rast, pos, tri, edges="none")
