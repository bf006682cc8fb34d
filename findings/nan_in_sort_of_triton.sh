#!/usr/bin/env bash
# triton 3.9.0 (its interpreter on a CPU; the sort is written in Triton itself, the same for a GPU), `tl.sort`
# of eight numbers, one of which is NaN.
# Expected: the eight numbers, with NaN at one end, as torch, NumPy and JAX have it, or anywhere.
# Seen: ascending all eight are NaN. Descending none is, and half of the numbers are there twice, half of
#   them not at all, without a word: both sides of a comparison with NaN take the same number.
# Who meets it: kernels for medians and top-k whose input may hold a NaN, padded or not.
. "$(dirname "$0")/environment"
packages torch==2.13.0 triton==3.9.0 numpy==2.4.6
cat > look.py <<'PY'
import torch
import triton
import triton.language as tl

@triton.jit
def both(x, found, n: tl.constexpr):
    i = tl.arange(0, n)
    numbers = tl.load(x + i)
    tl.store(found + i, tl.sort(numbers))
    tl.store(found + n + i, tl.sort(numbers, descending=True))

def sorted_twice(numbers):
    found = torch.zeros(2, 8)
    both[(1,)](torch.tensor(numbers), found, 8)
    return found

rest = [1.0, 2, 3, 0, -1, 5, 4]
assert sorted_twice([7.0, *rest]).tolist() == [sorted([7.0, *rest]), sorted([7.0, *rest], reverse=True)]
up, down = sorted_twice([float("nan"), *rest])
print("of NaN and", rest, "ascending", up.tolist(), "descending", down.tolist())
assert up.isnan().all(), "changed"
assert not down.isnan().any() and len(set(down.tolist())) == 4, "changed"
PY
TRITON_INTERPRET=1 python -W ignore look.py
