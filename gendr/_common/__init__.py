"""The ground floor: helpers that every part of the package uses, and that import none of them."""
