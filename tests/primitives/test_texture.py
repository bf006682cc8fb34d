"""Texture lookups and mipmaps, against the rules of OpenGL in NumPy, one pixel after the other."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch.nn.functional import avg_pool2d

from gendr.primitives import texture, texture_construct_mip
from support.cases import for_each

FLAT = ("wrap", "clamp", "zero")
FILTERS = ("nearest", "linear", "linear-mipmap-nearest", "linear-mipmap-linear")
MIPMAPPED = FILTERS[2:]


# ---------------------------------------------------------------------------------------------
# The oracle
# ---------------------------------------------------------------------------------------------


def major_axis(direction):
    """Face, s and t of OpenGL's table of cube maps."""
    x, y, z = direction
    if abs(x) >= max(abs(y), abs(z)):
        face, sc, tc, ma = (0, -z, -y, x) if x > 0 else (1, z, -y, -x)
    elif abs(y) >= abs(z):
        face, sc, tc, ma = (2, x, z, y) if y > 0 else (3, x, -z, -y)
    else:
        face, sc, tc, ma = (4, x, -y, z) if z > 0 else (5, -x, -y, -z)
    return face, (sc / ma + 1) / 2, (tc / ma + 1) / 2


def on_cube(face, s, t):
    """The point of the cube [-1, 1]^3 at s and t of a face, by asking the table."""
    a, b = 2 * s - 1, 2 * t - 1
    return {
        0: (1, -b, -a), 1: (-1, -b, a), 2: (a, 1, b),
        3: (a, -1, -b), 4: (a, -b, 1), 5: (-a, -b, -1),
    }[face]  # fmt: skip


def centres(n):
    """The centres of all texels of a cube map in space: (face, row, column) -> point."""
    return {
        (f, j, i): np.array(on_cube(f, (i + 0.5) / n, (j + 0.5) / n))
        for f, j, i in itertools.product(range(6), range(n), range(n))
    }


def texel(level, face, j, i, boundary, all_centres=None):
    """The texel of a row and a column that may lie outside; None at the corner of a cube."""
    height, width = level.shape[-3:-1]
    if boundary == "wrap":
        return level[j % height, i % width]
    if boundary == "clamp":
        return level[min(max(j, 0), height - 1), min(max(i, 0), width - 1)]
    inside = 0 <= i < width and 0 <= j < height
    if boundary == "zero":
        return level[j, i] if inside else 0 * level[0, 0]
    if inside:
        return level[face, j, i]
    n = height
    if not (0 <= i < n or 0 <= j < n):
        return None
    # Of the two texels next to this point of an edge, the one of the other face.
    edge = on_cube(face, *(min(max((k + 0.5) / n, 0), 1) for k in (i, j)))
    others = [key for key in all_centres if key[0] != face]
    return level[min(others, key=lambda key: np.abs(all_centres[key] - edge).sum())]


def look_up(level, place, boundary, nearest):
    face, u, v = place
    height, width = level.shape[-3:-1]
    if nearest:
        i, j = math.floor(u * width), math.floor(v * height)
        if boundary == "cube":
            i, j = min(i, width - 1), min(j, height - 1)
        return texel(level, face, j, i, boundary)
    x, y = u * width - 0.5, v * height - 0.5
    if boundary == "clamp":
        x, y = min(max(x, 0), width - 1), min(max(y, 0), height - 1)
    i, j = math.floor(x), math.floor(y)
    points = centres(height) if boundary == "cube" else None
    four = [texel(level, face, j + b, i + a, boundary, points) for b in (0, 1) for a in (0, 1)]
    known = [value for value in four if value is not None]
    four = [sum(known) / 3 if value is None else value for value in four]
    fx, fy = x - i, y - j
    weights = [(1 - fx) * (1 - fy), fx * (1 - fy), (1 - fx) * fy, fx * fy]
    return sum(w * value for w, value in zip(weights, four, strict=True))


def oracle(stack, uv, uv_da, bias, filter_mode, boundary):
    """One pixel; the level by the singular values of the Jacobian in texels."""
    if boundary == "cube":
        place = major_axis(uv)
    else:
        place = (0, *uv)
    if "mipmap" not in filter_mode:
        return look_up(stack[0], place, boundary, filter_mode == "nearest")
    level = 0.0 if bias is None else bias
    if uv_da is not None:
        jacobian = uv_da.reshape(-1, 2)
        if boundary == "cube":  # the derivative of s and t, by central differences
            step = 1e-5

            def on_face(X, Y):
                return np.array(major_axis(uv + jacobian @ (X, Y))[1:])

            jacobian = np.stack(
                [(on_face(*d) - on_face(*-d)) / (2 * step) for d in step * np.eye(2)], 1
            )
        height, width = stack[0].shape[-3:-1]
        level += math.log2(np.linalg.svd(np.diag([width, height]) @ jacobian)[1][0])
    level = min(max(level, 0), len(stack) - 1)
    if filter_mode == "linear-mipmap-nearest":
        return look_up(stack[math.floor(level + 0.5)], place, boundary, False)
    low = math.floor(level)
    fine = look_up(stack[low], place, boundary, False)
    coarse = look_up(stack[min(low + 1, len(stack) - 1)], place, boundary, False)
    return fine + (level - low) * (coarse - fine)


def stack_of(tex):
    """The levels of a texture [H, W, C] or [6, N, N, C], by means over blocks in NumPy."""
    levels = [tex]
    while max(levels[-1].shape[-3:-1]) > 1:
        last = levels[-1]
        *faces, height, width, channels = last.shape
        a, b = min(height, 2), min(width, 2)
        blocks = last.reshape(*faces, height // a, a, width // b, b, channels)
        levels.append(blocks.mean((-4, -2)))
    return levels


def scene(boundary, dtype=torch.float64, seed=0, images=2, size=(4, 5)):
    """A texture of 8 x 16 or a cube map of 8, and places with footprints of all lengths."""
    draw = torch.Generator().manual_seed(seed)
    cube = boundary == "cube"
    shape = (images, 6, 8, 8, 3) if cube else (images, 8, 16, 3)
    axes = 3 if cube else 2
    tex = torch.rand(shape, generator=draw, dtype=dtype)
    uv = 1.5 * torch.randn(images, *size, axes, generator=draw, dtype=dtype)
    spread = torch.exp(2 * torch.randn(images, *size, 1, generator=draw, dtype=dtype) - 3)
    uv_da = spread * torch.randn(images, *size, 2 * axes, generator=draw, dtype=dtype)
    bias = torch.randn(images, *size, generator=draw, dtype=dtype)
    return tex, uv, uv_da, bias


def expected(tex, uv, uv_da, bias, filter_mode, boundary, levels=None):
    found = np.zeros((*uv.shape[:-1], tex.shape[-1]))
    for b in range(len(uv)):
        stack = stack_of(tex[b % len(tex)].double().numpy())[:levels]
        for j, i in np.ndindex(*uv.shape[1:3]):
            at = (b, j, i)
            found[at] = oracle(
                stack, uv[at].double().numpy(),
                None if uv_da is None else uv_da[at].double().numpy(),
                None if bias is None else float(bias[at]), filter_mode, boundary,
            )  # fmt: skip
    return torch.from_numpy(found)


MODES = [*itertools.product((*FLAT, "cube"), FILTERS)]


@for_each("boundary, filter_mode", MODES, dtype=[torch.float32, torch.float64], rotating=4)
def test_lookups_are_those_of_opengl(boundary, filter_mode, dtype):
    tex, uv, uv_da, bias = scene(boundary, dtype, seed=MODES.index((boundary, filter_mode)))
    for given in ((uv_da, bias), (uv_da, None), (None, bias)):
        ours = texture(tex, uv, *given, filter_mode=filter_mode, boundary_mode=boundary)
        assert ours.dtype == dtype
        wanted = expected(tex, uv, *given, filter_mode, boundary)
        # The oracle's derivatives on a cube are differences, of 10 digits.
        assert (ours - wanted).abs().max() < 1e-6
        if "mipmap" not in filter_mode:
            break


def test_auto_takes_the_best_that_is_given():
    tex, uv, uv_da, bias = scene("wrap")
    for given, mode in (((None, None), "linear"), ((uv_da, None), MIPMAPPED[1]),
                        ((None, bias), MIPMAPPED[1])):  # fmt: skip
        assert torch.equal(texture(tex, uv, *given), texture(tex, uv, *given, filter_mode=mode))


def test_max_mip_level_limits_the_levels():
    tex, uv, uv_da, _ = scene("clamp")
    wanted = expected(tex, uv, uv_da, None, MIPMAPPED[1], "clamp", levels=3)
    for mip in (None, texture_construct_mip(tex), texture_construct_mip(tex, 2)):
        ours = texture(tex, uv, uv_da, mip=mip, boundary_mode="clamp", max_mip_level=2)
        assert torch.allclose(ours, wanted, atol=1e-12)
    one = texture(tex, uv, uv_da, boundary_mode="clamp", max_mip_level=0)
    assert torch.equal(one, texture(tex, uv, boundary_mode="clamp"))


def test_one_texture_serves_all_images():
    tex, uv, uv_da, _ = scene("wrap")
    shared = texture(tex[:1], uv, uv_da)
    assert torch.equal(shared, texture(tex[:1].expand(2, -1, -1, -1), uv, uv_da))


def test_magnified_and_flat_footprints_take_the_first_level():
    tex, uv, uv_da, _ = scene("wrap")
    for small in (1e-6 * uv_da, 0 * uv_da):
        assert torch.equal(texture(tex, uv, small), texture(tex, uv))


# ---------------------------------------------------------------------------------------------
# Mipmaps
# ---------------------------------------------------------------------------------------------


def test_levels_are_means():
    tex = torch.rand(2, 8, 16, 3, dtype=torch.float64)
    mip = texture_construct_mip(tex)
    assert mip.sizes == ((8, 16), (4, 8), (2, 4), (1, 2), (1, 1))
    level, start = tex.movedim(-1, 1), 0
    for height, width in mip.sizes[1:4]:
        level = avg_pool2d(level, 2)
        size = 3 * height * width
        ours = mip.texels[:, start : start + size].reshape(2, height, width, 3)
        assert torch.allclose(ours, level.movedim(1, -1), atol=1e-15)
        start += size
    assert torch.allclose(mip.texels[:, -3:], tex.mean((1, 2)), atol=1e-15)


def test_levels_of_a_user_get_gradients_of_their_own():
    tex, uv, uv_da, _ = scene("wrap")
    tex.requires_grad_()
    stack = texture_construct_mip(tex)
    levels, start = [], 0
    for height, width in stack.sizes[1:]:
        size = height * width * 3
        levels.append(stack.texels.detach()[:, start : start + size].reshape(2, height, width, 3))
        start += size
    levels = [level.requires_grad_() for level in levels]
    ours, whole = texture(tex, uv, uv_da, mip=levels), texture(tex, uv, uv_da)
    assert torch.equal(ours, whole)
    grad = torch.rand_like(ours)
    base, *own = torch.autograd.grad(ours, [tex, *levels], grad)
    # Through the means, all of them come to the gradient of the texture whose levels are made.
    for level in range(len(own) - 1, -1, -1):
        finer = own[level - 1] if level else base
        spread = own[level]
        for axis in (1, 2):
            by = finer.shape[axis] // spread.shape[axis]
            spread = spread.repeat_interleave(by, axis) / by
        if level:
            own[level - 1] = finer + spread
        else:
            base = finer + spread
    (through,) = torch.autograd.grad(whole, tex, grad)
    assert torch.allclose(base, through, atol=1e-14)
    stacked = texture(tex, uv, uv_da, mip=stack)
    assert torch.equal(torch.autograd.grad(stacked, tex, grad)[0], through)


# ---------------------------------------------------------------------------------------------
# Gradients
# ---------------------------------------------------------------------------------------------


@for_each("boundary, filter_mode", MODES, rotating=4)
def test_gradients(boundary, filter_mode):
    tex, *others = scene(boundary, images=1, size=(2, 3), seed=4)
    given = [x.requires_grad_() for x in (tex[..., :4, :4, :2].contiguous(), *others)]

    def call(*inputs):
        return texture(*inputs, filter_mode=filter_mode, boundary_mode=boundary)

    torch.autograd.gradcheck(call, given, eps=1e-7, atol=1e-5, rtol=1e-4, fast_mode=True)
    if filter_mode != "nearest":
        torch.autograd.gradgradcheck(call, given, eps=1e-7, atol=1e-4, fast_mode=True)


def test_gradients_of_float32_are_those_of_float64():
    for boundary in ("wrap", "cube"):
        found = []
        given = scene(boundary, torch.float32, size=(40, 50))
        for dtype in (torch.float32, torch.float64):
            leaves = [x.detach().to(dtype).requires_grad_() for x in given]
            out = texture(*leaves, boundary_mode=boundary)
            weights = torch.cos(torch.arange(out.numel()).reshape(out.shape)).to(dtype)
            found.append(torch.autograd.grad(out, leaves, weights))
        for single, double in zip(*found, strict=True):
            assert (single - double).norm() < 1e-5 * double.norm()


# ---------------------------------------------------------------------------------------------
# Edges
# ---------------------------------------------------------------------------------------------


def test_a_cube_has_no_seams():
    cube = torch.rand(1, 6, 4, 4, 1, dtype=torch.float64)
    draw = torch.Generator().manual_seed(1)
    on_edges = torch.rand(1, 60, 1, 3, generator=draw, dtype=torch.float64) * 2 - 1
    for k in range(60):  # two coordinates of equal length: an edge of the cube
        on_edges[0, k, 0, k % 3] = 1.0
        on_edges[0, k, 0, (k + 1) % 3] = -1.0 if k % 2 else 1.0
    a, b = on_edges.clone(), on_edges.clone()
    for k in range(60):
        a[0, k, 0, k % 3] += 1e-9
        b[0, k, 0, (k + 1) % 3] *= 1 + 1e-9
    jump = texture(cube, a, boundary_mode="cube") - texture(cube, b, boundary_mode="cube")
    assert jump.abs().max() < 1e-7


def test_directions_that_are_none_give_nothing():
    cube = torch.rand(1, 6, 4, 4, 2).requires_grad_()
    uv = torch.tensor([[0.0, 0, 0], [math.nan, 1, 0], [math.inf, 1, 0], [1, 2, 3]])
    uv = uv.reshape(1, 2, 2, 3).requires_grad_()
    uv_da = torch.tensor([2.0, 0, 0, 2, 0, 0]).expand(1, 2, 2, 6).clone().requires_grad_()
    out = texture(cube, uv, uv_da, boundary_mode="cube")
    assert torch.equal(out.reshape(4, 2)[:3], torch.zeros(3, 2))
    for grad in torch.autograd.grad(out.sum(), (cube, uv, uv_da)):
        assert grad.isfinite().all()
        assert grad.any()
    only = texture(cube, uv, uv_da, boundary_mode="cube").reshape(4, 2)[:3]
    assert not any(g.any() for g in torch.autograd.grad(only.sum(), (cube, uv, uv_da)))


def test_places_far_away_read_nothing_outside():
    tex = torch.rand(1, 4, 8, 2).requires_grad_()
    far = [1e30, -1e30, 1e8 + 0.5, -3e38, 3e38, math.inf, -math.inf, -1e-30]
    uv = torch.tensor([[a, b] for a in far for b in (*far, 0.3)]).reshape(1, 8, 9, 2)
    wide = torch.full((1, 8, 9, 4), 3e38)
    wide[0, 0, 0] = math.inf
    for boundary, filter_mode in itertools.product(FLAT, FILTERS):
        place = uv.clone().requires_grad_()
        slopes = wide.clone().requires_grad_()
        out = texture(tex, place, slopes, filter_mode=filter_mode, boundary_mode=boundary)
        for grad in torch.autograd.grad(out.sum(), (tex, place, slopes), allow_unused=True):
            assert grad is None or grad.isfinite().all()
        assert ((out >= 0) & (out <= 1)).all()
    assert torch.equal(
        texture(tex, uv, filter_mode="nearest", boundary_mode="zero")[0, 0], torch.zeros(9, 2)
    )
    clamped = texture(tex, uv, filter_mode="nearest", boundary_mode="clamp")
    assert torch.equal(clamped[0, 5, 6], tex[0, 0, 7])  # u = inf, v = -inf


def test_what_is_wrong_is_said():
    tex, uv, uv_da, bias = (x.float() for x in scene("wrap"))
    cube, way, _, _ = (x.float() for x in scene("cube"))
    odd = torch.rand(1, 10, 32, 3)
    nan = torch.full_like(uv, math.nan)
    cases = {
        "unknown filter_mode 'bilinear'": lambda: texture(tex, uv, filter_mode="bilinear"),
        "unknown boundary_mode 'mirror'": lambda: texture(tex, uv, boundary_mode="mirror"),
        r"tex must have shape \[B, H, W, C\]": lambda: texture(tex[0], uv),
        r'boundary_mode="cube"': lambda: texture(cube, way),
        r"tex must have shape \[B, 6, N, N, C\]": lambda: texture(tex, way, boundary_mode="cube"),
        r"uv must have shape \[B, h, w, 2\]": lambda: texture(tex, way),
        r"uv must have shape \[B, h, w, 3\]": lambda: texture(cube, uv, boundary_mode="cube"),
        r"uv_da must have shape \[B, h, w, 4\]": lambda: texture(tex, uv, uv),
        r"mip_level_bias must have shape": lambda: texture(tex, uv, None, bias[:1]),
        "tex must have 1 image or the 1 of uv, got 2": lambda: texture(tex, uv[:1]),
        "uv must not hold NaN": lambda: texture(tex, nan),
        "tex must not hold NaN": lambda: texture(tex / 0 * 0, uv),
        "tex must have texels": lambda: texture(tex[:, :0], uv),
        "uv must have pixels": lambda: texture(tex, uv[:, :0]),
        "needs uv_da, mip_level_bias": lambda: texture(tex, uv, filter_mode=MIPMAPPED[0]),
        "its mipmap 1 is 5 x 16.*max_mip_level=1": lambda: texture_construct_mip(odd),
        "it is 3 x 3.*max_mip_level=0": lambda: texture_construct_mip(torch.rand(1, 3, 3, 1)),
        "max_mip_level must be >= 0": lambda: texture_construct_mip(tex, -1),
        r"mip\[0\] must have shape \[2, 4, 8, 3\]": lambda: texture(tex, uv, uv_da, mip=[tex]),
        "mip must be made for tex of .* that of a cube map": lambda: texture(
            tex, uv, uv_da, mip=texture_construct_mip(cube, cube_mode=True)
        ),
        "mip must be made for tex": lambda: texture(
            tex[:1], uv, uv_da, mip=texture_construct_mip(tex)
        ),
    }
    for message, call in cases.items():
        with pytest.raises(ValueError, match=message) as caught:
            call()
        assert "\n" not in str(caught.value)
    wrong = {
        "uv must have the dtype of tex": lambda: texture(tex, uv.double()),
        "tex must be float32 or float64": lambda: texture(tex.half(), uv),
        "tex must be a torch.Tensor": lambda: texture(tex.numpy(), uv),
        "mip must be a result of": lambda: texture(tex, uv, uv_da, mip=3),
        "max_mip_level must be an int": lambda: texture(tex, uv, uv_da, max_mip_level=1.5),
    }
    for message, call in wrong.items():
        with pytest.raises(TypeError, match=message):
            call()
    # Enough levels of a texture that cannot be halved to the end.
    assert texture_construct_mip(odd, 1).sizes == ((10, 32), (5, 16))
