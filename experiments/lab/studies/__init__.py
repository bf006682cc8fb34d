"""The studies: shape optimisation, camera pose, learning to rank, and what they have in common."""
