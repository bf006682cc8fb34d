#!/usr/bin/env bash
# Mitsuba 3.9.1, `perspective` with `principal_point_offset_x` and `_y`.
# Expected: the manual has it as the place of the principal point relative to the centre of the film, so
#   that 0.1 is a tenth of the width to the right of the middle, of the height below it.
# Seen: it is to the left, and above: the axis goes through 0.4 of the width. The offset of a camera with
#   the principal point (cx, cy) is (w / 2 - cx) / w.
# Who meets it: who renders with the camera of COLMAP or of OpenCV: the picture is off by twice the
#   distance of the principal point from the middle, and looks right.
. "$(dirname "$0")/environment"
packages mitsuba==3.9.1 numpy==2.4.6
python - <<'PY'
import mitsuba as mi
import numpy as np

mi.set_variant("scalar_rgb")
film = {"type": "hdrfilm", "width": 200, "height": 100, "rfilter": {"type": "box"}}
ahead = mi.ScalarTransform4f().look_at([0, 0, 0], [0, 0, 1], [0, 1, 0])


def axis(**offset):
    """Where on the film, as parts of its sides from the upper left, the axis of the camera goes through."""
    camera = mi.load_dict({"type": "perspective", "fov": 60, "to_world": ahead, "film": film, **offset})

    def slope(u, v):
        ray, _ = camera.sample_ray(0, 0.5, [u, v], [0.5, 0.5])
        return np.array([ray.d.x, ray.d.y]) / ray.d.z

    start, right, below = slope(0, 0), slope(1, 0), slope(0, 1)
    assert right[0] < start[0] and below[1] < start[1]  # looking along z with y up, x is on the left
    return np.linalg.solve(np.stack([right - start, below - start], 1), -start)


for offset, seen in (({}, (0.5, 0.5)), ({"principal_point_offset_x": 0.1}, (0.4, 0.5)),
                     ({"principal_point_offset_y": 0.1}, (0.5, 0.4))):
    place = axis(**offset)
    print(offset, "the axis is at", place.round(3))
    assert np.allclose(place, seen, atol=1e-5), "changed"
PY
