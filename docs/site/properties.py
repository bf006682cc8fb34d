"""An extension of Griffe: images of `Output` are shown as the attributes that they are."""

from __future__ import annotations

from typing import Any

import griffe

# Decorators that make a property which is computed at first access and kept.
DECORATORS = {"_image", "lazy"}


class Properties(griffe.Extension):
    """Turn methods with one of the decorators into attributes of their class."""

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """Replace the methods of one class."""
        for name, member in list(cls.members.items()):
            if not isinstance(member, griffe.Function):
                continue
            if not DECORATORS & {str(d.value) for d in member.decorators}:
                continue
            attribute = griffe.Attribute(
                name,
                lineno=member.lineno,
                endlineno=member.endlineno,
                annotation=member.returns,
                docstring=member.docstring,
                runtime=member.runtime,
                parent=cls,
            )
            attribute.labels |= {"property"}
            cls.set_member(name, attribute)
