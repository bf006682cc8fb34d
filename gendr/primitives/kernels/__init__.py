"""The compiled kernels of the primitives, one module for each; see `gendr/kernels/operator.py`."""
