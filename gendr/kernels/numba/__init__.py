"""What all kernels that Numba compiles share: compilation, calls by address, mathematics."""
