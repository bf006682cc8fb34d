"""The standard distributions, one file each."""
