"""Differentiable sorting and ranking."""
