"""The CPU backend of the losses of meshes, compiled by Numba: cosines between faces."""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false, reportIndexIssue=false, reportCallIssue=false

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gendr.kernels.numba.compilation import available as available
from gendr.kernels.numba.compilation import inner, kernel
from gendr.kernels.numba.compilation import supports as supports
from gendr.kernels.operator import KernelPair
from gendr.kernels.threads import run


@inner(forceinline=True)
def _edge(vertices, b, first, second):
    """From a vertex of a mesh to another one."""
    return (
        vertices[b, second, 0] - vertices[b, first, 0],
        vertices[b, second, 1] - vertices[b, first, 1],
        vertices[b, second, 2] - vertices[b, first, 2],
    )


@inner(forceinline=True)
def _cross(a, b):
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@kernel()
def cosines(vertices, faces, pairs, sign, normals, inverse, out, start, stop):
    """Cosines of the meshes start .. stop - 1.

    Args:
        vertices: float64 [B, V, 3].
        faces: int64 [F, 3].
        pairs: int64 [2, P], of faces.
        sign: int64 [P], of the cosines.
        normals: float64 [B, F, 3], is written: unit normals, or 0.
        inverse: float64 [B, F], is written: one over twice the areas, or 0.
        out: float64 [B, P], is written.
        start: a mesh.
        stop: one past the last.
    """
    for b in range(start, stop):
        for f in range(len(faces)):
            first = _edge(vertices, b, faces[f, 0], faces[f, 1])
            x, y, z = _cross(first, _edge(vertices, b, faces[f, 0], faces[f, 2]))
            # Neither over- nor underflows.
            size = max(abs(x), abs(y), abs(z))
            whole = 1.0 / size if size > 0.0 else 0.0
            x, y, z = x * whole, y * whole, z * whole
            one = 1.0 / math.sqrt(x * x + y * y + z * z) if size > 0.0 else 0.0
            normals[b, f, 0], normals[b, f, 1], normals[b, f, 2] = x * one, y * one, z * one
            inverse[b, f] = one * whole
        for p in range(len(sign)):
            f, g = pairs[0, p], pairs[1, p]
            along = normals[b, f, 0] * normals[b, g, 0] + normals[b, f, 1] * normals[b, g, 1]
            out[b, p] = sign[p] * (along + normals[b, f, 2] * normals[b, g, 2])


@kernel()
def cosines_backward(
    vertices, faces, pairs, sign, normals, inverse, grads, of_normals, out, start, stop
):
    """Gradients `out` float64 [B, V, 3] of vertices, 0 before; see `cosines`.

    Args:
        vertices: see there.
        faces: see there.
        pairs: see there.
        sign: see there.
        normals: see there.
        inverse: see there.
        grads: float64 [B, P], of the cosines.
        of_normals: float64 [B, F, 3], 0 before; those of the normals.
        out: see above.
        start: a mesh.
        stop: one past the last.
    """
    for b in range(start, stop):
        for p in range(len(sign)):
            first, second, g = pairs[0, p], pairs[1, p], grads[b, p] * sign[p]
            for k in range(3):
                of_normals[b, first, k] += g * normals[b, second, k]
                of_normals[b, second, k] += g * normals[b, first, k]
        for f in range(len(faces)):
            n = normals[b, f, 0], normals[b, f, 1], normals[b, f, 2]
            g = of_normals[b, f, 0], of_normals[b, f, 1], of_normals[b, f, 2]
            scale = inverse[b, f]
            along = n[0] * g[0] + n[1] * g[1] + n[2] * g[2]
            by = (
                (g[0] - along * n[0]) * scale, (g[1] - along * n[1]) * scale,
                (g[2] - along * n[2]) * scale,
            )  # fmt: skip
            i, j, k = faces[f, 0], faces[f, 1], faces[f, 2]
            to_second = _cross(_edge(vertices, b, i, k), by)
            to_third = _cross(by, _edge(vertices, b, i, j))
            for c in range(3):
                out[b, j, c] += to_second[c]
                out[b, k, c] += to_third[c]
                out[b, i, c] -= to_second[c] + to_third[c]


def _forward(
    spec: tuple[Tensor, ...], vertices: Tensor, *, save: bool
) -> tuple[tuple[Tensor], tuple[Any, ...]]:
    """The cosines; normals are saved."""
    topology = [x.numpy() for x in spec]
    batch = vertices.shape[:-2]
    given = vertices.reshape(math.prod(batch), *vertices.shape[-2:])
    normals = np.empty((len(given), len(topology[0]), 3))
    inverse = np.empty(normals.shape[:2])
    out = vertices.new_empty(len(given), len(topology[2]))
    run(cosines, len(given), given.numpy(), *topology, normals, inverse, out.numpy())
    return (out.reshape(*batch, out.shape[1]),), (normals, inverse)


def _backward(
    spec: tuple[Tensor, ...], inputs: tuple[Tensor], saved: tuple[Any, ...],
    grads: tuple[Tensor], wanted: tuple[bool, ...],
) -> tuple[Tensor]:  # fmt: skip
    """The gradient of the vertices."""
    (vertices,), (normals, inverse) = inputs, saved
    given = vertices.reshape(len(normals), *vertices.shape[-2:])
    out = np.zeros(given.shape)
    run(
        cosines_backward, len(given), given.numpy(), *(x.numpy() for x in spec), normals, inverse,
        grads[0].reshape(len(given), len(spec[2])).numpy(), np.zeros(normals.shape), out,
    )  # fmt: skip
    return (torch.from_numpy(out).reshape(vertices.shape),)


KERNELS = {"losses.cosines": KernelPair(_forward, _backward, wide=True)}
