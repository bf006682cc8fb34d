#!/usr/bin/env bash
# Warp 1.19.0 (warp-lang, on a CPU): gradients of a number that a loop changes, where the number of
# rounds is an argument of the kernel.
# Expected: the derivative: of three squarings of x, x⁸, 8 x⁷ = 15.59 at 1.1; of three products, 3 x².
# Seen: 30.38 and 4.04, without a word: the way back reads the variable as it was after the last round.
#   With `range(3)`, which is unrolled, it is right. The manual names dynamic loops among the limits of
#   differentiability; neither compiling nor running says a word.
# Who meets it: iterations of a solver, alignments and marching of rays in a kernel.
. "$(dirname "$0")/environment"
packages warp-lang==1.19.0 numpy==2.4.6
cat > loops.py <<'PY'
import numpy as np
import warp as wp

wp.config.quiet = True


@wp.kernel
def squared(x: wp.array(dtype=float), rounds: int, y: wp.array(dtype=float)):
    value = x[0]
    for _i in range(rounds):
        value = value * value
    y[0] = value


@wp.kernel
def multiplied(x: wp.array(dtype=float), rounds: int, y: wp.array(dtype=float)):
    value = float(1.0)
    i = int(0)
    while i < rounds:
        value = value * x[0]
        i = i + 1
    y[0] = value


@wp.kernel
def unrolled(x: wp.array(dtype=float), rounds: int, y: wp.array(dtype=float)):
    value = x[0]
    for _i in range(3):
        value = value * value
    y[0] = value


def slope(kernel):
    x = wp.array([1.1], dtype=float, requires_grad=True, device="cpu")
    y = wp.zeros(1, dtype=float, requires_grad=True, device="cpu")
    with wp.Tape() as tape:
        wp.launch(kernel, dim=1, inputs=[x, 3], outputs=[y], device="cpu")
    tape.backward(grads={y: wp.ones(1, dtype=float, device="cpu")})
    return float(y.numpy()[0]), float(x.grad.numpy()[0])


for kernel, value, true, wrong in (
    (unrolled, 1.1**8, 8 * 1.1**7, None),
    (squared, 1.1**8, 8 * 1.1**7, 30.38),
    (multiplied, 1.1**3, 3 * 1.1**2, 4.0415),
):
    seen = slope(kernel)
    print(f"{kernel.key}: {seen[0]:.4f}, slope {seen[1]:.4f}, true {true:.4f}")
    assert np.isclose(seen[0], value, rtol=1e-5)
    assert np.isclose(seen[1], true if wrong is None else wrong, rtol=1e-3), "changed"
PY
WARP_CACHE_PATH="$PWD/cache" python loops.py
