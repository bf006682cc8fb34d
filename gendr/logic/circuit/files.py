"""Saved circuits: arrays in a zip archive (npz), and a header in JSON. No pickles, no torch."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gendr._common.arrays import about_of, read_arrays, write_arrays
from gendr.logic.circuit.netlist import Netlist

if TYPE_CHECKING:
    from gendr.logic.circuit.parts import Parts

C = TypeVar("C")
FORMAT = "gendr circuit 1"
# The arrays of every file and their types.
_ARRAYS = {"ids": "uint8", "a": "int32", "b": "int32", "outputs": "int32"}


def header(circuit: Parts) -> list[str]:
    """What is around the gates, line by line, for the printed form."""
    lines: list[str] = []
    limits, sums = circuit.thresholds, circuit.sums
    if limits is not None:
        kind = "all features" if len(limits) == 1 else "each feature"
        lines.append(
            f"; {circuit.features} features, {limits.shape[1]} thresholds for {kind}: bit "
            f"t of feature f is input {limits.shape[1]} f + t"
        )
    if sums is not None:
        lines.append(f"; {sums.k} sums of groups of outputs, / {sums.tau:g} + {sums.beta:g}")
    return lines


def save(circuit: Parts, path: Path) -> None:
    """Write a circuit."""
    netlist = circuit.netlist
    sums = None if circuit.sums is None else list(circuit.sums)
    arrays: dict[str, NDArray[Any]] = {name: getattr(netlist, name) for name in _ARRAYS}
    if circuit.thresholds is not None:
        arrays["thresholds"] = circuit.thresholds
    about = {"format": FORMAT, "inputs": netlist.inputs, "sums": sums, "sha256": _digest(arrays)}
    write_arrays(path, arrays, about, compressed=True)


def load(path: Path, make: Callable[..., C]) -> C:
    """Read a circuit.

    Args:
        path: of the file.
        make: netlist, thresholds or None, and [k, tau, beta] or None -> the circuit, which is
            checked there.

    Raises:
        FileNotFoundError: if there is no file.
        ValueError: if it is no circuit, or damaged.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no circuit at {path}")
    try:
        arrays = read_arrays(path)
        about = about_of(arrays, FORMAT)
        inputs, sums, digest = about["inputs"], about["sums"], about.get("sha256")
    except (AttributeError, LookupError, OSError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is no circuit, or cut short ({error}); save it again") from None
    try:
        if digest is not None and digest != _digest(arrays):
            raise ValueError("its arrays are others")
        for name, kind in _ARRAYS.items():
            if name not in arrays:
                raise ValueError(f"it lacks {name}")
            if (arrays[name].dtype.name, arrays[name].ndim) != (kind, 1):
                raise ValueError(f"{name} is {arrays[name].dtype} {list(arrays[name].shape)}")
        if type(inputs) is not int or not (sums is None or _are_sums(sums)):
            raise ValueError(f"its header is {about}")
        netlist = Netlist(inputs, *(arrays[name] for name in _ARRAYS))
        return make(netlist, arrays.get("thresholds"), sums)
    except ValueError as error:
        raise ValueError(f"{path} is a damaged circuit ({error}); save it again") from None


def _digest(arrays: dict[str, NDArray[Any]]) -> str:
    """A digest of all arrays: the sums of the archive do not tell that one is missing."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _are_sums(values: object) -> bool:
    return (
        isinstance(values, list)
        and len(values) == 3
        and type(values[0]) is int
        and all(isinstance(x, (int, float)) for x in values[1:])
    )
