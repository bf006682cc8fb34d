"""The compiled kernels of bodies of least area: the two steps of the method.

Chambolle & Pock (2011) take them in turn: slopes grow towards those of the function, and the
function follows.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false

from __future__ import annotations

from typing import Any

import numpy as np

from gendr.kernels.numba.compilation import kernel

# No reordering of sums, which would change from compiler to compiler.
_FAST: Any = {"fastmath": {"contract", "nsz"}}
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)


@kernel(**_FAST)
def steepen(ahead, domain, along, step, start, stop):
    """The dual step of a body of least area: its slopes grow, up to one, towards those of `ahead`.

    Args:
        ahead: float32 [X, Y, Z], where the function is going.
        domain: bool [X, Y, Z]; what goes on beyond it has no slope.
        along: float32 [3, X, Y, Z], in and out.
        step: of the method.
        start: the first plane of x; stop: the one after the last.
        stop: see start.
    """
    last = np.array(ahead.shape) - 1
    for i in range(start, stop):
        for j in range(ahead.shape[1]):
            for k in range(ahead.shape[2]):
                x, y, z = along[0, i, j, k], along[1, i, j, k], along[2, i, j, k]
                if domain[i, j, k]:
                    here = ahead[i, j, k]
                    if i < last[0] and domain[i + 1, j, k]:
                        x += step * (ahead[i + 1, j, k] - here)
                    if j < last[1] and domain[i, j + 1, k]:
                        y += step * (ahead[i, j + 1, k] - here)
                    if k < last[2] and domain[i, j, k + 1]:
                        z += step * (ahead[i, j, k + 1] - here)
                scale = _ONE / max(_ONE, np.sqrt(x * x + y * y + z * z))
                along[0, i, j, k], along[1, i, j, k], along[2, i, j, k] = (
                    scale * x, scale * y, scale * z,
                )  # fmt: skip


@kernel(**_FAST)
def settle(body, ahead, data, along, step, start, stop):
    """The primal step: the function goes where slopes and data push it, between 0 and 1.

    Args:
        body: float32 [X, Y, Z], in and out.
        ahead: float32 [X, Y, Z], out.
        data: float32 [X, Y, Z], what a cell gains by being inside.
        along: float32 [3, X, Y, Z].
        step: of the method.
        start: the first plane of x; stop: the one after the last.
        stop: see start.
    """
    for i in range(start, stop):
        for j in range(body.shape[1]):
            for k in range(body.shape[2]):
                push = along[0, i, j, k] + along[1, i, j, k] + along[2, i, j, k] + data[i, j, k]
                if i > 0:
                    push -= along[0, i - 1, j, k]
                if j > 0:
                    push -= along[1, i, j - 1, k]
                if k > 0:
                    push -= along[2, i, j, k - 1]
                before = body[i, j, k]
                after = min(_ONE, max(_ZERO, before + step * push))
                body[i, j, k] = after
                ahead[i, j, k] = after + after - before
