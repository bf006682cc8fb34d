"""What `gendr fit` does before and after the shape, stage by stage, so that `--resume` goes on.

Each stage keeps a file in the output folder: while it runs, how far it has come; then its result.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor

from gendr._runtime.checkpoint import digest, load_checkpoint, save_checkpoint

__all__ = ["STAGES", "Stages"]

# The stages, in their order, and their files in the output folder.
STAGES = {"cameras": "cameras.pt", "refine": "refine.pt", "colors": "colors.pt"}
FORMAT = "gendr fit stage 1"
_NAMES = ("input", "done", "values")

T = TypeVar("T")
Values = Mapping[str, Any]


class Stages:
    """The files of the stages of one fit.

    Args:
        out: the folder that they are in.
        resume: whether they are used; otherwise those of an earlier fit are removed.
    """

    def __init__(self, out: Path, *, resume: bool) -> None:
        self.out = out
        if not resume:
            self.clear(*STAGES)

    def run(
        self,
        name: str,
        given: tuple[Tensor, ...],
        options: Values,
        compute: Callable[[Callable[[dict[str, Any]], None], Values | None], T],
        packed: Callable[[T], dict[str, Any]],
        unpacked: Callable[[Values], T],
    ) -> T:
        """The result of a stage: of an earlier run if that had the same input, or computed.

        Args:
            name: of `STAGES`.
            given: all tensors that the result depends on.
            options: and all else, as plain values.
            compute: the stage itself. It takes a function that keeps how far it has come, and what
                that was last called with by an earlier run, or None.
            packed: the result as plain values and tensors.
            unpacked: the opposite.
        """
        path = self.out / STAGES[name]
        signature = digest(*given) + json.dumps(dict(options), sort_keys=True)
        before = self._read(path, signature)
        if before is not None and before["done"]:
            return unpacked(before["values"])

        def keep(values: Values, *, done: bool = False) -> None:
            kept = {"input": signature, "done": done, "values": dict(values)}
            save_checkpoint(path, FORMAT, kept)

        result = compute(keep, None if before is None else before["values"])
        keep(packed(result), done=True)
        return result

    def clear(self, *names: str) -> None:
        """Remove the files of some stages."""
        for name in names:
            (self.out / STAGES[name]).unlink(missing_ok=True)

    def begun(self) -> bool:
        """Whether there is the file of a stage."""
        return any((self.out / file).is_file() for file in STAGES.values())

    def _read(self, path: Path, signature: str) -> Values | None:
        """What a file holds; None if there is none, or it is of another input."""
        if not path.is_file():
            return None
        found = load_checkpoint(path, FORMAT, _NAMES, "a stage of a fit")
        return found if found["input"] == signature else None
