"""The silhouette of triangles by three edges, thesis section 2.5."""

from gendr.relaxed import Scalar, Vector, Volume, relax


@relax
def silhouette(triangles: Volume, x: Scalar, y: Scalar):
    """Whether a pixel lies inside one of some triangles.

    Args:
        triangles: [..., F, 3, 2], corners in counterclockwise order.
        x: [...], where the centre of the pixel is; a grid of pixels is a batch.
        y: the same, upwards.

    Returns:
        1 inside, 0 outside.
    """
    image = 0.0
    for a, b, c in triangles:
        if beyond(a, b, x, y) > 0:
            if beyond(b, c, x, y) > 0:
                if beyond(c, a, x, y) > 0:
                    image = 1.0
    return image


def beyond(p: Vector, q: Vector, x: Scalar, y: Scalar):
    """The signed distance to the line from p to q, positive on its left."""
    dx, dy = q[0] - p[0], q[1] - p[1]
    return (dx * (y - p[1]) - dy * (x - p[0])) / (dx * dx + dy * dy) ** 0.5
