#!/usr/bin/env bash
# Warp 1.19.0 (CPU), `//` and `%` of negative numbers in a kernel, which is written in Python.
# Expected: Python's: both are rounded down, and a = (a // b) b + a % b; or C's, both towards zero.
# Seen: one of each: `//` is rounded down as Python's, `%` is C's (its manual: "floor division", "modulo
#   operation using truncated division"), so that −7 // 2 is −4, −7 % 2 is −1, and together they make −9.
# Who meets it: cells of grids and wrapped indices, i // n with i % n, left of the origin.
. "$(dirname "$0")/environment"
packages warp-lang==1.19.0 numpy==2.4.6
export HOME=$folder
cat > look.py <<'PY'
import numpy as np
import warp as wp

@wp.kernel
def divide(a: wp.array(dtype=int), b: wp.array(dtype=int), found: wp.array(dtype=int, ndim=2)):
    i = wp.tid()
    found[i, 0] = a[i] // b[i]
    found[i, 1] = a[i] % b[i]

@wp.kernel
def divide_floats(a: wp.array(dtype=float), b: wp.array(dtype=float), found: wp.array(dtype=float, ndim=2)):
    i = wp.tid()
    found[i, 0] = a[i] // b[i]
    found[i, 1] = a[i] % b[i]

for kernel, kind in ((divide, int), (divide_floats, float)):
    a, b = np.array([-7, 7, -7, 7], kind), np.array([2, -2, -2, 2], kind)
    found = wp.zeros((4, 2), dtype=kind, device="cpu")
    wp.launch(kernel, 4, [wp.array(a, dtype=kind, device="cpu"), wp.array(b, dtype=kind, device="cpu"), found], device="cpu")
    quotients, remainders = found.numpy().T
    print("a // b", quotients, "a % b", remainders, "in Python", a // b, a % b, "together", quotients * b + remainders)
    assert (quotients == a // b).all() and (remainders == np.fmod(a, b)).all(), "changed"
    assert (quotients * b + remainders == [-9, 9, -7, 7]).all(), "changed"
PY
python -W ignore look.py > log
grep "a //" log
