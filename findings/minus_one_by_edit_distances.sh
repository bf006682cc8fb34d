#!/usr/bin/env bash
# editdistance 0.8.1 and rapidfuzz 3.14.6 (with NumPy 2.4.6): sequences that have -1 and -2.
# Expected: 1 between [3, -1] and [3, -2], as any two numbers that differ are one substitution.
# Seen: 0, in editdistance for integers, in both for floats, arrays of NumPy and tuples of these: they
#   compare hashes alone, and CPython's hash of -1 is -2 (that of 2**61 + 4 is 5). rapidfuzz has an
#   exception for integers of Python from -1 to 2**61.
# Who meets it: error rates of labels, tokens or quantised values where -1 and -2 have a meaning.
. "$(dirname "$0")/environment"
packages editdistance==0.8.1 rapidfuzz==3.14.6 numpy==2.4.6
python - <<'PY'
import editdistance
import numpy as np
from rapidfuzz.distance import Levenshtein

pairs = {
    "integers": ([3, -1], [3, -2]),
    "floats": ([3.0, -1.0], [3.0, -2.0]),
    "an array": (np.array([3, -1]), np.array([3, -2])),
    "others": ([3, -1], [3, -4]),
}
seen = {}
for name, (a, b) in pairs.items():
    seen[name] = editdistance.eval(a, b), Levenshtein.distance(a, b)
    print(f"{name}, {list(map(float, a))} and {list(map(float, b))}:", seen[name])
assert seen == {"integers": (0, 1), "floats": (0, 0), "an array": (0, 0), "others": (1, 1)}
PY
