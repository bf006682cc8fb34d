#!/usr/bin/env bash
# DracoPy 2.2.0 (Draco 1.5), encode and decode at the defaults.
# Expected: a compressed mesh has its vertices in their order, rounded to 14 bits.
# Seen: the same vertices in another order; those that no face uses are gone. `preserve_order=True`
#   keeps both.
# Who meets it: everything that is kept beside a mesh by the number of its vertex: weights of
#   skins, labels, deformations, a fit that continues from a compressed file.
. "$(dirname "$0")/environment"
packages DracoPy==2.2.0 numpy==2.4.6
python - <<'PY'
import DracoPy
import numpy as np

n = 8
grid = np.stack([*np.meshgrid(np.arange(n), np.arange(n)), np.zeros((n, n))], -1).reshape(-1, 3)
i = np.arange(n * n).reshape(n, n)
corners = (i[:-1, :-1], i[1:, :-1], i[1:, 1:], i[:-1, :-1], i[1:, 1:], i[:-1, 1:])
faces = np.stack(corners, -1).reshape(-1, 3)
vertices = np.vstack([grid, [[3.5, 3.5, 0.0]]]).astype(np.float32)  # the last one is in no face


def trip(**options):
    return np.asarray(DracoPy.decode(DracoPy.encode(vertices, faces, **options)).points)


default, kept = trip(), trip(preserve_order=True)
print("vertices", len(vertices), "->", len(default), "order kept:", bool(np.allclose(default, grid, atol=1e-3)))
assert len(default) == len(grid) and not np.allclose(default, grid, atol=1e-3), "changed"
assert np.allclose(sorted(map(tuple, default)), sorted(map(tuple, grid)), atol=1e-3), "changed"
assert kept.shape == vertices.shape and np.allclose(kept, vertices, atol=1e-3), "changed"
PY
