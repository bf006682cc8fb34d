"""The CPU backend of layers of gates, compiled at run time by Numba."""
