"""The implementations of rendering: `reference` in plain PyTorch, `cpu` and `triton` compiled.

`choice` says what a backend must offer, and selects one.
"""
