#!/usr/bin/env bash
# Taichi 1.7.4: the gradient of `ti.atomic_max` and `ti.atomic_min` over a field.
# Expected: 1 for the largest number and 0 for the others, or an error, as for `while` and `break`.
# Seen: 1 for every number, as if it were a sum, without a word. `ti.max` of two numbers is right.
# Who meets it: losses by the worst case, pooling, depth of the nearest.
. "$(dirname "$0")/environment"
packages taichi==1.7.4 numpy==2.4.6
cat > check.py <<'PY'
import taichi as ti

ti.init(arch=ti.cpu, default_fp=ti.f64, log_level=ti.ERROR, offline_cache=False)
x = ti.field(ti.f64, shape=4, needs_grad=True)
y = ti.field(ti.f64, shape=(), needs_grad=True)


@ti.kernel
def largest():
    for i in x:
        ti.atomic_max(y[None], x[i])


@ti.kernel
def least():
    for i in x:
        ti.atomic_min(y[None], x[i])


@ti.kernel
def larger():
    y[None] += ti.max(x[0], x[1])


def slopes(kernel, start):
    for i, value in enumerate((3.0, 1.0, 2.0, 0.5)):
        x[i] = value
    y[None] = start
    with ti.ad.Tape(y, clear_gradients=True):
        y[None] = start
        kernel()
    print(kernel.__name__, y[None], x.grad.to_numpy())
    return y[None], x.grad.to_numpy().tolist()


assert slopes(larger, 0.0) == (3.0, [1, 0, 0, 0])
assert slopes(largest, 0.0) == (3.0, [1, 1, 1, 1]), "changed"
assert slopes(least, 9.0) == (0.5, [1, 1, 1, 1]), "changed"
PY
python check.py
