"""Top-k on NVIDIA GPUs: kernels that Triton compiles."""
