"""The Triton kernels of the primitives: rasterize, interpolate, texture, antialias on NVIDIA GPUs.

float32 and float64 tensors; decisions and sums in float64, as on the CPU, and no product is fused
into a sum, so that both see the same triangles. The same input gives the same bits: the only
atomics are minima of integers, whose order does not matter, and sums are those of sorted lists.
"""
