"""What the renderer asks of a backend: its table of kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from gendr.kernels.backends import AnyBackend
from gendr.rendering.backends import reference

# Its table has kernels of some functions of `reference`, by "rendering." and their names; for the
# others the definition runs. Kernels of alpha are not asked for CDFs of the user's, which torch
# evaluates on the pairs that are listed.
Backend: TypeAlias = AnyBackend


def operation(backend: Backend, name: str) -> Callable[..., Any]:
    """What computes a part of a picture: the kernels of a backend, or else the definition.

    Args:
        backend: by `choose`.
        name: of a function of `gendr.rendering.backends.reference`, whose arguments and results
            it has.
    """
    found = backend.KERNELS.get(f"rendering.{name}")
    return getattr(reference, name) if found is None else found
