"""What we rely on of Triton: how a kernel that it has compiled is launched without it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

TRIED = ("3.4", "3.5", "3.6", "3.7", "3.8", "3.9")
SEAMS = (
    ("triton.knobs", "runtime.launch_enter_hook"),
    ("triton.knobs", "runtime.launch_exit_hook"),
    ("triton.runtime.driver", "driver"),
    ("triton.runtime.jit", "JITFunction.run"),
    ("triton.compiler.compiler", "CompiledKernel.run"),
    ("triton.compiler.compiler", "CompiledKernel._init_handles"),
)
OLDEST, _NEWEST = (3, 4), (3, 9)  # of those whose launches we have read in their sources


def version_of(triton: Any) -> tuple[int, ...]:
    """Its version, without what is mended in it."""
    return tuple(map(int, triton.__version__.split(".")[:2]))


def knows(kernel: Any) -> bool:
    """Whether Triton launches this kernel as `Launcher` does: compiled, by a version we know."""
    made_by = import_module("triton.runtime.jit").JITFunction
    return isinstance(kernel, made_by) and OLDEST <= version_of(import_module("triton")) <= _NEWEST


def launch_of(found: Any) -> tuple[Any, ...]:
    """What launches a compiled kernel, its function on the GPU, and what Triton asks of it.

    And what holds Triton's hooks and its driver.
    """
    hooks = import_module("triton.knobs").runtime
    drivers = import_module("triton.runtime.driver").driver
    return found.run, found.function, found.packed_metadata, hooks, drivers
