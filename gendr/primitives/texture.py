"""Textures; to be replaced."""

from __future__ import annotations

from typing import Any

__all__ = ["texture", "texture_construct_mip"]


def texture(*_: Any, **__: Any) -> Any:
    """Not there yet."""
    raise NotImplementedError("texture is not there yet")


def texture_construct_mip(*_: Any, **__: Any) -> Any:
    """Not there yet."""
    raise NotImplementedError("texture_construct_mip is not there yet")
