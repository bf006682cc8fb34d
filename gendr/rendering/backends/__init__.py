"""The implementations of rendering: `reference` in plain PyTorch, `cpu` and `triton` compiled.

`interface` says what a backend offers, `choice` picks one.
"""
