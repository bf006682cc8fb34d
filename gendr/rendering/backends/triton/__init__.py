"""Rendering on GPUs: Triton kernels, and the operators of PyTorch that launch them."""
