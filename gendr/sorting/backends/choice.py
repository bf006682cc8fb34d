"""The choice of the backend of sorting: by device, or by name."""

from __future__ import annotations

from gendr.kernels.backends import Choice

_MODULES = {
    "cpu": "gendr.sorting.backends.cpu.backend",
    "triton": "gendr.sorting.backends.triton.backend",
}
_choice = Choice("sorting", _MODULES)
choose, kernels_for = _choice.choose, _choice.kernels
