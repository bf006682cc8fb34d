"""An extension of Griffe: docstrings are texts, in which `>` quotes nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import griffe

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

from building import site  # noqa: E402


class Quotations(griffe.Extension):
    """Examples at a prompt become code, `> 0` and long sources stay what they are."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = site.unquoted(obj.docstring.value)
