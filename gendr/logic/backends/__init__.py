"""The implementations of a layer of gates: `reference` and `cpu`.

`interface` defines what a backend must offer, `choice` selects one.
"""
