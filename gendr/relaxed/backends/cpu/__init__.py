"""The ready-made relaxed algorithms on the CPU: kernels that Numba compiles, and their launch."""
