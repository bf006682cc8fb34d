"""The implementations of rendering: `reference` in plain PyTorch, `cpu` and `triton` compiled.

`interface` defines what a backend must offer, `choice` selects one.
"""
