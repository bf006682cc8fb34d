"""The definitions of the primitives in plain torch, where they are not a few lines."""
