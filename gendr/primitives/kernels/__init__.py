"""The compiled kernels of the primitives, one module for each; see `gendr/kernels/operator.py`."""

from typing import Any

__all__ = ["OPTIONS"]

# Of kernels and inner functions. Without this model a division costs a branch that looks for 0.
OPTIONS: Any = {"error_model": "numpy"}
