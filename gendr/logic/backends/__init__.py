"""The implementations of a layer of gates: `reference`, `cpu` and `triton`.

`interface` defines what a backend must offer, `choice` selects one.
"""
