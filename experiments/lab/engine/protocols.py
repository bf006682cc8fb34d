"""The names of the protocols that every task has; this file imports nothing, so --help is fast."""

# "laptop" is reduced: two cores need an hour or two for all instances. "paper" is as published,
# for a GPU.
PROTOCOLS = ("laptop", "paper")
