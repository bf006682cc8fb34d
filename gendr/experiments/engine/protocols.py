"""The names of the protocols that every task has; imports nothing, for --help."""

# Reduced, for two cores and an hour or two for all instances; as published, for a GPU.
PROTOCOLS = ("laptop", "paper")
