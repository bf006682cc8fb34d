"""The implementations of sorting networks: `reference`, `cpu` and `triton`.

`reference` has the definitions of the operators, the others their kernels; `choice` selects one.
"""
