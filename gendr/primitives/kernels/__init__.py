"""The compiled kernels of the primitives, one module for each; see `gendr/_runtime/operator.py`."""

from typing import Any

__all__ = ["OPTIONS"]

# Of `njit`. Without this model a division costs a branch that looks for 0.
OPTIONS: Any = {"nogil": True, "cache": True, "error_model": "numpy"}
