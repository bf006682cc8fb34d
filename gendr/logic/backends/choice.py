"""The choice of the backend of layers of gates: by device, or by name."""

from __future__ import annotations

from gendr.kernels.backends import Choice

_MODULES = {
    "cpu": "gendr.logic.backends.cpu.backend",
    "triton": "gendr.logic.backends.triton.backend",
}
_choice = Choice("logic", _MODULES)
choose, kernels_for = _choice.choose, _choice.kernels
