"""Layers of gates on GPUs: Triton kernels and their launch."""
