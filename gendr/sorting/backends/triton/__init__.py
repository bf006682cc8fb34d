"""Sorting on GPUs: Triton kernels and their launch."""
