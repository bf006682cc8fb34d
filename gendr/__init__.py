"""gendr: a family of differentiable renderers, and the algorithms that grow from the same idea."""

__version__ = "0.1.0"
