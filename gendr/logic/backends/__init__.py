"""The operator of a layer of gates, its definition (`reference`), and its kernels.

`choice` selects them.
"""
