"""A faster Triton interpreter, for tests: without its repeated work."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np


@contextmanager
def quick_interpreter() -> Generator[None]:
    """A context in which kernels are interpreted in less than half the time, with the same results.

    To interpret a kernel, Triton replaces the functions of `triton.language`. It does so at the
    launch, and at every call of a function inside the kernel it searches for functions that are not
    replaced yet, which takes longer than the call. In this context it searches only at the first
    such call, for every module that it has to patch. Types and shapes are looked up, not made anew
    for every number, and blocks of the same shape are not broadcast to it.

    Two things are mended: Triton 3.9 makes floats of a comparison of scalars that a block is joined
    with, because it keeps the type of what was compared, and cannot join them. Triton 3.7 rounds a
    fused multiply-add twice.
    """
    with _patched_once_per_launch(), _types_kept(), _truths_kept(), _fused():
        yield


@contextmanager
def _fused() -> Generator[None]:
    from triton.runtime import interpreter

    builder: Any = interpreter.InterpreterBuilder
    multiply_add = builder.create_fma

    def create_fma(self: Any, x: Any, y: Any, z: Any) -> Any:
        if z.data.dtype != np.float32:
            return multiply_add(self, x, y, z)
        with np.errstate(all="ignore"):
            wide = x.data.astype(np.float64) * y.data + z.data
            return interpreter.TensorHandle(wide.astype(np.float32), z.dtype.scalar)

    builder.create_fma = create_fma
    try:
        yield
    finally:
        builder.create_fma = multiply_add


@contextmanager
def _truths_kept() -> Generator[None]:
    from triton.runtime import interpreter

    builder: Any = interpreter.InterpreterBuilder
    splat = builder.create_splat

    def create_splat(self: Any, kind: Any, scalar: Any) -> Any:
        out = splat(self, kind, scalar)
        if scalar.data.dtype == bool:
            out.data = out.data.astype(bool)
        return out

    builder.create_splat = create_splat
    try:
        yield
    finally:
        builder.create_splat = splat


@contextmanager
def _patched_once_per_launch() -> Generator[None]:
    from triton.runtime import interpreter

    executor: Any = interpreter.GridExecutor
    function: Any = interpreter.InterpretedFunction
    launch, call = executor.__call__, function.__call__
    patched: set[frozenset[str]] = set()

    @functools.cache
    def seen_by(function: Any) -> frozenset[str]:
        """The modules to patch for a function: those of the language among its globals."""
        modules = (interpreter.tl, interpreter.tl.core)
        names = function.__globals__.values()
        return frozenset(m.__name__ for m in modules if any(x is m for x in names))

    def quick_launch(self: Any, *args: Any, **options: Any) -> None:
        patched.clear()
        launch(self, *args, **options)

    def quick_call(self: Any, *args: Any, **options: Any) -> Any:
        seen = seen_by(self.fn)
        if seen in patched:
            return self.rewrite()(*args, **options)
        patched.add(seen)
        return call(self, *args, **options)

    executor.__call__, function.__call__ = quick_launch, quick_call
    try:
        yield
    finally:
        executor.__call__, function.__call__ = launch, call


@contextmanager
def _types_kept() -> Generator[None]:
    from triton.language import core
    from triton.language.semantic import TritonSemantic
    from triton.runtime import interpreter

    # Without their types, so that what is private may be replaced.
    replaced: list[Any] = [interpreter, TritonSemantic, core.tensor, core.block_type, core.dtype]
    runtime, semantic, tensor, block, dtype = replaced
    of_numpy, patch, broadcast = (
        runtime._get_np_dtype, runtime._patch_builtin, semantic.broadcast_impl_value
    )  # fmt: skip
    make_tensor, make_block, equal = tensor.__init__, block.__init__, dtype.__eq__
    by_name: dict[str, Any] = {}
    members: dict[Any, list[tuple[str, Any]]] = {}
    blocks: dict[tuple[Any, ...], dict[str, Any]] = {}
    shapes: dict[tuple[int, ...], tuple[Any, Any]] = {}

    def quick_dtype(of: Any) -> Any:
        found = by_name.get(of.name)
        if found is None:
            found = by_name[of.name] = of_numpy(of)
        return found

    def quick_patch(package: Any, *rest: Any) -> None:
        found = members.get(package)
        if found is None:
            every = inspect.getmembers(package)
            found = members[package] = [x for x in every if core.is_builtin(x[1])]
        for name, member in found:
            runtime._patch_attr(package, name, member, *rest)

    def quick_broadcast(self: Any, left: Any, right: Any) -> Any:
        a, b = left.type, right.type
        if a.is_block() and b.is_block() and tuple(a.shape) == tuple(b.shape):
            return left, right
        return broadcast(self, left, right)

    def quick_tensor(self: Any, handle: Any, type: Any) -> None:
        shape = tuple(type.shape) if type.is_block() else ()
        known = shapes.get(shape)
        if known is None:
            make_tensor(self, handle, type)
            shapes[shape] = self.shape, self.numel
            return
        self.handle, self.type, self.dtype = handle, type, type.scalar
        self.shape, self.numel = known

    def quick_block(self: Any, element_ty: Any, shape: Any) -> None:
        sizes = (x.value if isinstance(x, core.constexpr) else x for x in shape)
        key = (element_ty.name, *sizes)
        known = blocks.get(key)
        if known is None:
            make_block(self, element_ty, shape)
            blocks[key] = dict(self.__dict__)
            return
        self.__dict__.update(known)

    def quick_equal(self: Any, other: Any) -> bool:
        return self is other or equal(self, other)

    runtime._get_np_dtype, runtime._patch_builtin = quick_dtype, quick_patch
    semantic.broadcast_impl_value = quick_broadcast
    tensor.__init__, block.__init__, dtype.__eq__ = quick_tensor, quick_block, quick_equal
    try:
        yield
    finally:
        runtime._get_np_dtype, runtime._patch_builtin = of_numpy, patch
        semantic.broadcast_impl_value = broadcast
        tensor.__init__, block.__init__, dtype.__eq__ = make_tensor, make_block, equal
