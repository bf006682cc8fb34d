#!/usr/bin/env bash
# Numba 0.68.1, `math.floor`, `math.ceil` and `int` of a float beyond 2^63, inf or NaN.
# Expected: Python's numbers, OverflowError of inf and ValueError of NaN; or an error, as `math.floor`
#   gives integers of 64 bits here.
# Seen: an integer without a word, by the processor: on x86 the least one, also of large positive
#   numbers: `math.floor(1e19)` is below 0; on ARM (emulated) the nearest, and 0 of NaN.
# Who meets it: boxes of pixels, cells and bins of points far outside. NumPy's `floor` and `ceil` stay
#   floats: limit them before they become integers.
. "$(dirname "$0")/environment"
packages numba==0.68.1 numpy==2.4.6
python - <<'PY'
import math
import platform

import numba

@numba.njit
def floor(x):
    return math.floor(x)

@numba.njit
def ceil(x):
    return math.ceil(x)

@numba.njit
def integer(x):
    return int(x)

found = {}
for function in (floor, ceil, integer):
    for x in (1e19, -1e19, math.inf, math.nan):
        found[function.__name__, x] = function(x)
        print(f"{platform.machine()}: {function.__name__}({x}) is {found[function.__name__, x]}")
assert floor(1e18) == 10**18
assert all(found[name, 1e19] != 10**19 for name in ("floor", "ceil", "integer")), "changed"
if platform.machine() in ("x86_64", "AMD64"):
    assert {*found.values()} == {-(2**63)}, "changed"
PY
