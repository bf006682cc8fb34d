"""The implementations of sorting networks: `reference`, `cpu` and `triton`.

`interface` says what a backend offers, `choice` picks one.
"""
