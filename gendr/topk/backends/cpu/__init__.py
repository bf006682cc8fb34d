"""Top-k on the CPU: kernels that Numba compiles."""
