"""The implementations of sorting networks: `reference`, `cpu` and `triton`.

`interface` defines what a backend must offer, `choice` selects one.
"""
