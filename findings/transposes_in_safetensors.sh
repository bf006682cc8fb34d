#!/usr/bin/env bash
# safetensors 0.8.0 (with NumPy 2.4.6): `safetensors.numpy.save_file` of a transposed matrix.
# Expected: the same array when it is read, or an error, as `safetensors.torch` has one; a docstring
#   asks for contiguous arrays, and version 0.5.3 writes others right.
# Seen: the shape of the transpose and the numbers in the order of memory, without a word.
# Who meets it: who writes weights as `W.T`, or arrays of Fortran's order (SciPy, MATLAB), of NumPy.
. "$(dirname "$0")/environment"
packages safetensors==0.8.0 numpy==2.4.6
cat > check.py <<'PY'
import sys

import numpy as np
from safetensors.numpy import load_file, save_file

matrix = np.arange(6.0, dtype=np.float32).reshape(2, 3)
save_file({"transposed": matrix.T, "fortran": np.asfortranarray(matrix)}, "a.safetensors")
read = load_file("a.safetensors")
same = np.array_equal(read["transposed"], matrix.T) and np.array_equal(read["fortran"], matrix)
print("written:", matrix.T.tolist(), "read:", read["transposed"].tolist())
print("written:", matrix.tolist(), "read:", read["fortran"].tolist())
assert read["transposed"].shape == (3, 2) and same == (sys.argv[1] == "right"), "changed"
PY
python check.py wrong
python -m pip install --quiet --disable-pip-version-check safetensors==0.5.3 && python check.py right
