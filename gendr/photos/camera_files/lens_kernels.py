"""The compiled interpolation of straightened photos."""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false, reportIndexIssue=false

from __future__ import annotations

from gendr.kernels.numba.compilation import kernel


@kernel()
def interpolate(planes, first, height, x, y, out, start, stop):
    """Fill in the rows start .. stop - 1 of `out` [C, R, W].

    `planes` [C, S, W] are rows of a photo of so many, from row `first` on, all that are asked for.
    `x` and `y` [R, W] are places in it, the first centre at 0; beyond its border counts what is on
    the border.
    """
    channels, width = planes.shape[0], planes.shape[2]
    for i in range(start, stop):
        for j in range(out.shape[2]):
            u, v = min(max(x[i, j], 0.0), width - 1.0), min(max(y[i, j], 0.0), height - 1.0)
            left, above = min(int(u), max(width - 2, 0)), min(int(v), max(height - 2, 0))
            right, below = min(left + 1, width - 1), min(above + 1, height - 1)
            u, v, above, below = u - left, v - above, above - first, below - first
            for c in range(channels):
                top = planes[c, above, left] * (1 - u) + planes[c, above, right] * u
                bottom = planes[c, below, left] * (1 - u) + planes[c, below, right] * u
                out[c, i, j] = top * (1 - v) + bottom * v
