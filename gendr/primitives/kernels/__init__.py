"""The compiled kernels of the primitives, one module for each; see `gendr/_runtime/operator.py`."""
