"""What numbers of a state dict mean: it is in the state dict, and compared when one is loaded.

Layers whose weights have the same shapes may differ in all else: the same weights are other gates.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

_KEY = "_extra_state"  # as torch calls it


class OfAKind(nn.Module):
    """A module whose state dict says of which kind it is; another kind is refused.

    It says so in bytes, a tensor uint8 of JSON under `_extra_state`, since files such as
    safetensors hold tensors only. A state dict without it, of an earlier version or with the key
    left out, is loaded as it is.
    """

    @abstractmethod
    def _kind(self) -> dict[str, Any]:
        """What must be equal for the same numbers to mean the same; of JSON."""

    def get_extra_state(self) -> Tensor:
        """The kind, as bytes."""
        text = json.dumps(self._kind(), sort_keys=True).encode()
        return torch.tensor(list(text), dtype=torch.uint8, device="cpu")

    def set_extra_state(self, state: Any) -> None:
        """Nothing: the kind is compared before anything is loaded."""

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load it if it is of this kind; torch makes a RuntimeError of what differs."""
        known = state_dict.get(prefix + _KEY)
        if isinstance(known, Tensor) and not known.is_meta:
            found, own = json.loads(bytes(known.tolist())), json.loads(json.dumps(self._kind()))
            differ = [
                f"{name}={found.get(name)!r} (here {own.get(name)!r})"
                for name in sorted({*found, *own})
                if found.get(name) != own.get(name)
            ]
            if differ:
                error_msgs.append(
                    f"{prefix.removesuffix('.') or type(self).__name__}: the state is that of "
                    f"another kind of layer, with {', '.join(differ)}; make a layer of that kind, "
                    f"or leave out the key {prefix + _KEY!r} if its numbers are wanted all the same"
                )
                return
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        if prefix + _KEY in missing_keys:
            missing_keys.remove(prefix + _KEY)
