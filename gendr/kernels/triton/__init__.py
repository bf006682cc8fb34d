"""What all Triton kernels share: launching and mathematics."""
