"""Rendering on the CPU: kernels that Numba compiles, and what makes them differentiable."""
