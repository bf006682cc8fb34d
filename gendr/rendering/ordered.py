"""Ordered joining: soft faces from front to back, each with an opacity, a scale and a colour.

The faces of a pixel in the order of their depth along its ray cover it by a_i = o_i F(d_i / s_i).
Joined one after the other, A_i = T-conorm(a_1, …, a_i), each adds the weight w_i = A_i - A_(i - 1)
of its colour, and what is left, 1 - A_n, shows the background. With the probabilistic sum this is
alpha blending, the "over" of splatting: w_i = a_i (1 - a_1) … (1 - a_(i - 1)).

Gradients. Summed by parts, C = sum_i A_i (c_i - c_(i + 1)) + c_bg with the background as c_(n + 1).
So with v_i = <dL/dC, c_i>, and the gradient of alpha off v_(n + 1), dL/dA_i = v_i - v_(i + 1).
With a generator A_i = g^-1(g(a_1) + … + g(a_i)), and dA_i/da_j = g'(a_j)/g'(A_i) for j <= i. The
sum over i is a walk from back to front:

    dL/da_j = g'(a_j)/g'(A_j) P_j,   P_j = dL/dA_j + g'(A_j)/g'(A_(j + 1)) P_(j + 1)
    dL/dp = sum_j P_j (dg/dp)(a_j)/g'(A_j) - sum_i dL/dA_i (dg/dp)(A_i)/g'(A_i)

g' has no bound near 1, but each family has the ratio as one formula of a, 1 - a, A and 1 - A that
neither overflows nor cancels, `weight` in its file; nothing is divided by a transmittance that may
be 0. There is no gradient at A = 1, nor at a = 0 where g'(0) is infinite. With max, the face that
first reaches a maximum has the dL/dA_i from there to the next greater one; average is linear.

Source: Held et al., Triangle Splatting (2025), for windows of the signed distance; Kerbl et al.,
3D Gaussian Splatting (2023), (3) for the order; the T-conorms are those of thesis (5.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gendr._common.checks import (
    check_choice,
    check_finite,
    check_float,
    check_like,
    check_number,
    check_shape,
)
from gendr._common.tracing import refuse_vmap
from gendr._common.words import worded
from gendr.rendering.aggregation import check_batch, is_double
from gendr.rendering.api import (
    Dist,
    Scale,
    check_positive,
    parse_image_size,
    parse_scale,
)
from gendr.rendering.backends.choice import choose
from gendr.rendering.geometry import screen_faces
from gendr.rendering.layers import Layered

if TYPE_CHECKING:
    from gendr.tnorms import TConorm

__all__ = ["ordered"]

SORTS = ("pixel", "centroid")


@worded()
def ordered(
    face_vertices: Tensor,
    colors: Tensor,
    image_size: int | Sequence[int],
    dist: Dist = "uniform",
    tconorm: str | TConorm = "probabilistic",
    scale: Scale = 1e-2,
    *,
    opacity: Tensor | None = None,
    shape: Tensor | None = None,
    cutoff: float = 1e-6,
    sort: str = "pixel",
    bound: float = 1e-4,
    backend: str = "auto",
    precision: str = "auto",
    check: bool = True,
) -> tuple[Tensor, Tensor]:
    """Join projected soft triangles from front to back.

    Differentiable in all tensors; the order itself has no gradient.

    Args:
        face_vertices: [B, F, 3, 3] (or [F, 3, 3] for one image); x, y in NDC, where the shorter
            image side spans [-1, 1], x right, y up; depth > 0. A face with any depth <= 0 is
            ignored. float32 or float64.
        colors: [B, F, C], one of each face.
        image_size: int or (H, W), pixels.
        dist: a distribution or its name; not a CDF of your own.
        tconorm: a T-conorm or its name.
        scale: > 0, a number, text such as "1.5px", or [B, F], in NDC (NDC^2 for squared
            distributions).
        opacity: [B, F] in [0, 1]; None for 1.
        shape: of the distribution, [B, F]; None for its own.
        cutoff: F <= cutoff counts as 0.
        sort: "pixel": by the depth of each face at each pixel, exactly; where the plane of a face
            leaves the depths of its corners, the nearest of these counts. "centroid": all pixels in
            the order of the depths of centroids, as most splatting does; faces that pass through
            each other then jump where a camera moves. Equal depths go by the order of the faces.
        bound: in [0, 1): faces may be left out whose weights in a pixel are less than this
            together; 0 joins all.
        backend: "auto", "cpu", "reference" or "triton". Where pixels have orders of their own,
            "triton" looks for the nearest pairs again and again, and stores none to sort them.
        precision: "auto", or "double" for kernels of the CPU that compute in float64; see
            `gendr.Renderer`. Keys of depth are float64 always; "reference" is float64 throughout.
        check: whether to look for NaN and inf, and for opacities outside [0, 1].

    Returns:
        The image [B, C, H, W] over black, and alpha [B, H, W] in [0, 1], the alpha that
        `gendr.silhouette` gives for opacity 1 (without B for input without): image + (1 - alpha) *
        background.

    Raises:
        TypeError: for what is no tensor or has the wrong dtype.
        ValueError: for wrong shapes, unknown names, parameters out of range, NaN or inf.
        RuntimeError: inside `torch.func.vmap`.
    """
    from gendr.distributions import CallableDistribution, as_distribution
    from gendr.tnorms import as_tconorm

    refuse_vmap("rendering")  # before the checks, which would end it in words of PyTorch
    check_shape(
        "face_vertices", check_float("face_vertices", face_vertices), "[B, F, 3, 3] or [F, 3, 3]"
    )
    if face_vertices.ndim == 3:
        each = [None if x is None else x[None] for x in (opacity, shape)]
        wide = scale[None] if isinstance(scale, Tensor) and scale.ndim == 1 else scale
        image, alpha = ordered(
            face_vertices[None], colors[None], image_size, dist, tconorm, wide, opacity=each[0],
            shape=each[1], cutoff=cutoff, sort=sort, bound=bound, backend=backend,
            precision=precision, check=check,
        )  # fmt: skip
        return image[0], alpha[0]
    size, join, dist = parse_image_size(image_size), as_tconorm(tconorm), as_distribution(dist)
    if isinstance(dist.base, CallableDistribution):
        raise ValueError(f"ordered joining takes named distributions only, got {dist}")
    check_choice("sort", sort, SORTS)
    check_number("cutoff", cutoff, least=0.0, below=1.0)
    check_number("bound", bound, least=0.0, below=1.0)
    images, count = face_vertices.shape[:2]
    check_batch(images, size, face_vertices.dtype, face_vertices.device)
    double = is_double(precision, face_vertices.device)
    given: dict[str, Tensor | None] = {"colors": colors, "opacity": opacity, "shape": shape}
    if isinstance(scale, Tensor) and scale.ndim:
        given["scale"] = scale
    for name, value in given.items():
        if value is not None:
            check_like(name, check_float(name, value), "face_vertices", face_vertices)
            pattern = "[B, F, C]" if name == "colors" else "[B, F]"
            check_shape(name, value, pattern, B=images, F=count)
            if check:
                check_finite(name, value)
    if check:
        check_finite("face_vertices", face_vertices)
        for name in ("scale", "shape"):
            value = given.get(name)
            if value is not None:
                check_positive(name, value.detach())
        if opacity is not None and bool(((opacity < 0) | (opacity > 1)).any()):
            low, high = (float(x) for x in opacity.detach().aminmax())
            raise ValueError(f"opacity must lie in [0, 1], got {low:g} .. {high:g}")
    if isinstance(scale, Tensor) and scale.ndim:
        widths = scale.reshape(-1)
    else:
        number = parse_scale(scale, size, dist.is_squared)
        number = torch.as_tensor(number, dtype=face_vertices.dtype, device=face_vertices.device)
        widths = number.expand(images * count)
    if shape is not None:
        dist = dist.with_shape(shape.reshape(-1))
    opacities = face_vertices.new_ones(()).expand(images * count)
    opacities = opacities if opacity is None else opacity.reshape(-1)
    with torch.autocast(face_vertices.device.type, enabled=False):
        corners = face_vertices[..., :2].reshape(-1, 3, 2)
        depth = face_vertices[..., 2].detach().reshape(-1, 3)
        keep = (depth > 0).all(-1)
        offsets = tuple(map(count.__mul__, range(images + 1)))
        faces = screen_faces(corners, offsets, keep, leave_out=False)
        chosen = choose(backend, face_vertices)
        planes, limits = chosen.depth_keys(corners.detach(), depth, sort)
        layered = Layered(
            faces, dist, join, float(cutoff), float(bound), colors.flatten(0, 1),
            opacities, widths, planes, limits, sort == "pixel",
            double,
        )  # fmt: skip
        image, alpha = chosen.ordered(layered, size)
    shape_of = images, size.height, size.width
    return image.reshape(*shape_of, colors.shape[-1]).permute(0, 3, 1, 2), alpha.reshape(shape_of)
