"""Sorting on the CPU: kernels that Numba compiles, and their launch."""
