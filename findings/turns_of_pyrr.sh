#!/usr/bin/env bash
# pyrr 0.10.3, a turn by 0.5 about z as a quaternion and as a matrix, applied to x with pyrr's own products.
# Expected: `quaternion * vector` and `quaternion.matrix33 * vector` are the same point.
# Seen: the matrix turns the other way: 0.479 and -0.479. So does every way from one to the other
#   (`matrix33.create_from_quaternion`, `Quaternion.from_matrix`), and `from_z_rotation` of the two classes.
#   The matrix of a product is not the product of the matrices; of Euler angles matrix and quaternion
#   exchange two.
# Who meets it: OpenGL programs in Python: cameras turn right as matrices and wrong as quaternions.
. "$(dirname "$0")/environment"
packages pyrr==0.10.3 scipy==1.17.1 numpy==2.4.6
python -W ignore - <<'PY'
import numpy as np
from pyrr import Matrix33, Matrix44, Quaternion, Vector3
from scipy.spatial.transform import Rotation

turn, x = Quaternion.from_z_rotation(0.5), Vector3([1.0, 0, 0])
right = Rotation.from_rotvec([0, 0, 0.5]).apply([1, 0, 0])
assert np.allclose(np.array(turn), Rotation.from_rotvec([0, 0, 0.5]).as_quat())
ways = {
    "quaternion": turn * x, "its matrix": turn.matrix33 * x, "Matrix44": Matrix44.from_quaternion(turn) * x,
    "matrix about z": Matrix33.from_z_rotation(0.5) * x,
    "back from that": Quaternion.from_matrix(Matrix33.from_z_rotation(0.5)) * x,
}
ways = {name: np.array(point) for name, point in ways.items()}
for name, point in ways.items():
    print(f"{name:15}", np.round(point, 3))
mirrored = right * [1, -1, 1]
assert np.allclose(ways["quaternion"], right) and np.allclose(ways["back from that"], right)
assert all(np.allclose(ways[name], mirrored) for name in ("its matrix", "Matrix44", "matrix about z")), "changed"

other = Quaternion.from_x_rotation(0.7)
product = np.array((turn * other).matrix33)
assert np.allclose(np.array((turn * other) * x), np.array(turn * (other * x)))
assert abs(product - np.array(turn.matrix33 * other.matrix33)).max() > 0.3, "changed"
angles = [0.1, 0.2, 0.3]
two = [np.array(q) for q in (Quaternion.from_eulers(angles), Quaternion.from_matrix(Matrix33.from_eulers(angles)))]
print("Euler angles:", *two)
assert abs(two[0] - two[1]).max() > 0.06, "changed"
PY
