"""Races, accesses out of bounds and the order of programs, seen by Triton's interpreter.

The interpreter runs one program after the other, and each of them element by element, in order:
whatever a kernel forgets to synchronise goes well there. `checked_launches` watches every load,
store and atomic of the kernels that run inside it, and reports what a GPU would leave to chance.
`random_grid_order` lets the programs of a launch run in another order. Neither knows any kernel:
they hook the interpreter.

**The model.** A location is a race if two accesses meet there, one of them a store, that nothing
orders:

- between programs: any two programs of one launch, as nothing orders programs. Two atomics are no
  race;
- within a program: two accesses between the same two barriers (`tl.debug_barrier`) by different
  *lanes*. A lane is an element of a block: the same index in a block of the same shape. A scalar
  (a block of one element) is loaded by all lanes and stored by one.

Lanes are an assumption, as Triton spreads the elements of a block over threads as it likes: two
instructions may put the same element in different threads, and a block with fewer elements than
there are threads lies in several of them, of which one stores. Therefore a location that one
instruction stored may not be loaded or stored by *another* before a barrier, not even by the same
lane, unless `strict` is False. What the same lane loads first and then stores is no race: the value
that it stores comes from there. That does not hold if the block is smaller than a program of
several warps, whose copies of a lane may lag behind: the interpreter does not know the warps.

What Triton itself synchronises (reductions, gathers, changes of layout) does not count as a
barrier, as it need not be one.

Source: the happens-before race of Lamport, Time, Clocks, and the Ordering of Events (1978), with a
barrier for the only message.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

__all__ = ["Finding", "RaceError", "Watch", "checked_launches", "in_any_order", "random_grid_order"]

T = TypeVar("T")
Ints = npt.NDArray[np.int64]

_NOBODY, _SEVERAL = 0, -1  # instead of the number of a program, which count from 1
_EVERY_LANE, _SEVERAL_LANES, _NO_LANE = -1, -2, -3
_LANES_PER_SHAPE = 1 << 32


class RaceError(AssertionError):
    """What a launch did is left to chance on a GPU, or out of bounds."""


@dataclass(frozen=True)
class Finding:
    """Something wrong, once for every kind, argument and line.

    Attributes:
        kind: "between programs", "between lanes" or "out of bounds".
        what: the two accesses that meet, or the one that is out of bounds.
        kernel: its name.
        argument: name of the argument that the pointer came from, "?" if that is not known.
        element: of that argument, the first one concerned; it may be negative.
        line: of the second access, as file:line.
    """

    kind: str
    what: str
    kernel: str
    argument: str
    element: int
    line: str

    def __str__(self) -> str:
        return (
            f"{self.kind}: {self.what}, {self.kernel}: {self.argument}[{self.element}], {self.line}"
        )


@dataclass
class Watch:
    """What was watched so far.

    Attributes:
        kernels: name of the kernel of every launch, in order.
        programs: how many programs each launch had.
        accesses: loads, stores and atomics of each launch, counted as instructions.
    """

    kernels: list[str] = field(default_factory=list)
    programs: list[int] = field(default_factory=list)
    accesses: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class _Argument:
    """A tensor that a kernel was given: its name, and the bytes that it spans."""

    name: str
    start: int
    stop: int
    itemsize: int
    memory: _Memory


class _Memory:
    """Who touched the bytes of a storage, in granules of so many bytes.

    Attributes:
        start: address of the first byte.
        granule: bytes; all accesses are of a multiple.
        stored_by: the last program that stored, 0 for none.
        loaded_by: the program that loaded, 0 for none, -1 for several.
        added_by: the same of atomics.
        stored_at: the number of the last instruction that stored there.
        loaded_at, added_at: the same of loads and atomics.
        stored_in: the lane that stored.
        loaded_in: the lane that loaded since the last barrier, -1 for all, -2 for several.
    """

    def __init__(self, start: int, size: int, granule: int) -> None:
        self.start, self.granule = start, granule
        count = -(-size // granule)
        self.stored_by, self.loaded_by, self.added_by = (np.zeros(count, np.int64) for _ in "123")
        self.stored_at, self.loaded_at, self.added_at = (np.zeros(count, np.int64) for _ in "123")
        self.stored_in, self.loaded_in = (np.full(count, _NO_LANE, np.int64) for _ in "12")


class _Launch:
    """One launch: its arguments, and what was found."""

    def __init__(self, kernel: str, strict: bool, shared: Collection[str]) -> None:
        self.kernel, self.strict, self.shared = kernel, strict, shared
        self.names: dict[Any, str] = {}
        self.arguments: list[_Argument] = []
        self.memories: dict[int, _Memory] = {}
        self.granules: dict[int, int] = {}
        self.findings: dict[tuple[str, str, str, str], Finding] = {}
        self.program, self.programs = 0, 0
        self.now = 0  # number of the current instruction
        self.barrier = 0  # number of the last one before the last barrier
        self.shapes: dict[tuple[int, ...], int] = {}

    # -- arguments

    def name_tensors(self, names: list[str], given: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Remember the names of tensors, and the least item of each storage."""
        for name, value in [*zip(names, given, strict=False), *named.items()]:
            for tensor in value if isinstance(value, tuple) else (value,):
                if hasattr(tensor, "untyped_storage"):
                    self.names.setdefault(_view(tensor), name)

    def take(self, tensor: Any) -> _Argument:
        """The argument that a tensor on the host is."""
        storage = tensor.untyped_storage()
        key, itemsize = storage.data_ptr(), tensor.element_size()
        memory = self.memories.get(key)
        if memory is None:
            # Another view may have smaller items: bytes are always fine enough, but cost more.
            sizes = {size for _, size in self.views(key)} | {itemsize}
            granule = sizes.pop() if len(sizes) == 1 else 1
            memory = self.memories[key] = _Memory(key, storage.nbytes(), granule)
        steps = zip(tensor.shape, tensor.stride(), strict=True)
        last = sum((size - 1) * step for size, step in steps)
        span = (last + 1) * itemsize if tensor.numel() else 0
        start = tensor.data_ptr()
        name = self.names.get(_view(tensor), "?")
        found = _Argument(name, start, start + span, itemsize, memory)
        self.arguments.append(found)
        return found

    def views(self, storage: int) -> list[tuple[int, int]]:
        """(storage, bytes of an item) of the tensors that share a storage."""
        return [(view[0], view[4]) for view in self.names if view[0] == storage]

    def origin(self, address: int) -> _Argument | None:
        """The argument that an address lies in, if any, for a pointer whose origin got lost."""
        inside = (x for x in self.arguments if x.start <= address < x.stop)
        return next(inside, None)

    # -- accesses

    def access(
        self, kind: str, pointers: Any, mask: Any, itemsize: int, repeats: Any = False
    ) -> npt.NDArray[np.bool_]:
        """Note an access, and return the lanes of it that are in bounds.

        Args:
            kind: "load", "store" or "atomic".
            pointers: handle of the addresses.
            mask: of the lanes that take part.
            itemsize: bytes that each lane accesses.
            repeats: lanes that store what is there already, where that is declared to be fine.
        """
        self.now += 1
        addresses, active, repeats = np.broadcast_arrays(pointers.data, mask, repeats)
        lanes = self.lanes(addresses.shape)
        good = active.copy()
        flat = addresses.ravel().astype(np.int64)
        chosen = np.flatnonzero(active)
        given = getattr(pointers, "origin", None)
        for origin, at in self.by_origin(given, flat, chosen):
            if origin is None:
                good.ravel()[at] = False
                self.report("out of bounds", f"{kind} of no argument", "?", int(flat[at[0]]))
                continue
            outside = (flat[at] < origin.start) | (flat[at] + itemsize > origin.stop)
            if outside.any():
                wild = at[outside]
                good.ravel()[wild] = False
                element = (int(flat[wild[0]]) - origin.start) // origin.itemsize
                count = (origin.stop - origin.start) // origin.itemsize
                self.report("out of bounds", f"{kind} of {count} elements", origin.name, element)
                at = at[~outside]
            if len(at):
                self.note(kind, origin, flat[at], lanes[at], itemsize, repeats.ravel()[at])
        return good

    def by_origin(
        self, given: _Argument | None, flat: Ints, chosen: Ints
    ) -> list[tuple[_Argument | None, Ints]]:
        """The lanes that access each argument."""
        if given is not None or not len(chosen):
            return [(given, chosen)] if len(chosen) else []
        found: dict[int, tuple[_Argument | None, list[int]]] = {}
        for lane in chosen.tolist():
            origin = self.origin(int(flat[lane]))
            found.setdefault(id(origin), (origin, []))[1].append(lane)
        return [(origin, np.array(at, np.int64)) for origin, at in found.values()]

    def lanes(self, shape: tuple[int, ...]) -> Ints:
        """The number of the lane of every element of a block."""
        count = int(np.prod(shape))
        if shape in ((), (1,)):
            return np.full(count, _EVERY_LANE)
        first = self.shapes.setdefault(shape, len(self.shapes) + 1) * _LANES_PER_SHAPE
        return first + np.arange(count, dtype=np.int64)

    def note(
        self, kind: str, of: _Argument, addresses: Ints, lanes: Ints, itemsize: int, repeats: Any
    ) -> None:
        """Compare an access with what was there before, and remember it."""
        memory = of.memory
        place = (addresses - memory.start) // memory.granule
        wide = max(1, itemsize // memory.granule)
        if wide > 1:
            place = (place[:, None] + np.arange(wide)).ravel()
            lanes, repeats = lanes.repeat(wide), repeats.repeat(wide)
        if kind == "load":
            self.load(of, memory, place, lanes)
        elif kind == "store":
            # A scalar is stored by one lane, whichever it is.
            self.store(of, memory, place, np.where(lanes == _EVERY_LANE, 0, lanes), ~repeats)
        else:
            self.atomic(of, memory, place)

    def load(self, of: _Argument, m: _Memory, at: Ints, lanes: Ints) -> None:
        me = self.program
        for by, what in ((m.stored_by, "store"), (m.added_by, "atomic")):
            self.conflict("between programs", f"{what} and load", of, at, _other(by[at], me))
        recent = m.stored_at[at] > self.barrier
        apart = recent if self.strict else recent & (m.stored_in[at] != lanes)
        self.conflict("between lanes", "store and load", of, at, apart)
        recent = m.added_at[at] > self.barrier
        self.conflict("between lanes", "atomic and load", of, at, recent)

        by = m.loaded_by[at]
        m.loaded_by[at] = np.where((by == _NOBODY) | (by == me), me, _SEVERAL)
        first = m.loaded_at[at] <= self.barrier
        m.loaded_in[at[first]] = lanes[first]
        others = m.loaded_in[at] != lanes
        m.loaded_in[at[others]] = _SEVERAL_LANES
        m.loaded_at[at] = self.now

    def store(self, of: _Argument, m: _Memory, at: Ints, lanes: Ints, new: Any) -> None:
        me = self.program
        for by, what in ((m.stored_by, "store"), (m.added_by, "atomic"), (m.loaded_by, "load")):
            others = _other(by[at], me) & (new if what == "store" else True)
            self.conflict("between programs", f"{what} and store", of, at, others)
        recent = m.stored_at[at] > self.barrier
        apart = recent if self.strict else recent & (m.stored_in[at] != lanes)
        self.conflict("between lanes", "store and store", of, at, apart & new)
        recent = m.added_at[at] > self.barrier
        self.conflict("between lanes", "atomic and store", of, at, recent)
        apart = (m.loaded_at[at] > self.barrier) & (m.loaded_in[at] != lanes)
        self.conflict("between lanes", "load and store", of, at, apart)

        m.stored_by[at], m.stored_at[at], m.stored_in[at] = me, self.now, lanes
        twice = m.stored_in[at] != lanes
        self.conflict("between lanes", "store and store", of, at, twice & new)

    def atomic(self, of: _Argument, m: _Memory, at: Ints) -> None:
        me = self.program
        for by, what in ((m.stored_by, "store"), (m.loaded_by, "load")):
            self.conflict("between programs", f"{what} and atomic", of, at, _other(by[at], me))
        for when, what in ((m.stored_at, "store"), (m.loaded_at, "load")):
            recent = when[at] > self.barrier
            self.conflict("between lanes", f"{what} and atomic", of, at, recent)

        by = m.added_by[at]
        m.added_by[at] = np.where((by == _NOBODY) | (by == me), me, _SEVERAL)
        m.added_at[at] = self.now

    # -- findings

    def conflict(self, kind: str, what: str, of: _Argument, at: Ints, where: Any) -> None:
        """Report the first of the places where there is one."""
        if np.any(where):
            place = int(at[np.argmax(where)])
            address = of.memory.start + place * of.memory.granule
            self.report(kind, what, of.name, (address - of.start) // of.itemsize)

    def report(self, kind: str, what: str, argument: str, element: int) -> None:
        line = _line()
        finding = Finding(kind, what, self.kernel, argument, element, line)
        self.findings.setdefault((kind, what, argument, line), finding)


def _view(tensor: Any) -> tuple[Any, ...]:
    """What tells the views that a launch is given apart; the interpreter makes new ones."""
    storage = tensor.untyped_storage().data_ptr() if tensor.device.type == "cpu" else -1
    shape, strides = tuple(tensor.shape), tuple(tensor.stride())
    return storage, tensor.storage_offset(), shape, strides, tensor.element_size()


def _other(by: Ints, me: int) -> npt.NDArray[np.bool_]:
    return (by != _NOBODY) & (by != me)


def _line() -> str:
    """The line of a kernel, or of what it calls, that is being interpreted."""
    import triton

    frame: Any = sys._getframe()
    ours, theirs = str(Path(__file__)), str(Path(triton.__file__).parent)
    while frame is not None:
        name = frame.f_code.co_filename
        if name != ours and not name.startswith(theirs):
            return f"{Path(name).name}:{frame.f_lineno}"
        frame = frame.f_back
    return "?"


# -------------------------------------------------------------------------------------------------
# Hooks
# -------------------------------------------------------------------------------------------------

# Where a pointer goes in and a pointer to the same tensor comes out.
_KEEP_ORIGIN = (
    "create_addptr", "create_splat", "create_broadcast", "create_expand_dims", "create_reshape",
    "create_trans", "create_bitcast", "create_unsplat",
)  # fmt: skip


@contextmanager
def checked_launches(*, strict: bool = True, shared: Collection[str] = ()) -> Generator[Watch]:
    """Every launch inside raises, at its end, if it has a race or an access out of bounds.

    An access out of bounds is not made: such a load gives 0. Bounds are those of the tensor that a
    pointer comes from, a view as a rule, not those of its storage.

    Args:
        strict: whether the same element of two blocks of one shape may be in different threads.
        shared: names of arguments to which several programs or lanes may store the same value.

    Raises:
        RaceError: at the end of a launch; all that is wrong with it, one line each.
    """
    from triton.runtime import interpreter

    builder: Any = interpreter.InterpreterBuilder
    executor: Any = interpreter.GridExecutor
    watch = Watch()
    current: list[_Launch] = []

    def launch(self: Any, *args: Any, **options: Any) -> None:
        seen = _Launch(self.fn.__name__, strict, shared)
        seen.name_tensors(self.arg_names, args, options)
        current.append(seen)
        try:
            original_launch(self, *args, **options)
        finally:
            current.pop()
            watch.kernels.append(seen.kernel)
            watch.programs.append(seen.programs)
            watch.accesses.append(seen.now)
        if seen.findings:
            raise RaceError("\n".join(map(str, seen.findings.values())))

    def converted(argument: Any) -> Any:
        out = original_converted(argument)
        if current and hasattr(argument, "untyped_storage"):
            out.handle.origin = current[-1].take(argument)
        return out

    def begins(self: Any, x: int, y: int, z: int) -> None:
        original_begins(self, x, y, z)
        (_, ny, nz), (x, y, z) = self.grid_dim, self.grid_idx
        seen = current[-1]
        seen.program, seen.barrier = 1 + (x * ny + y) * nz + z, seen.now
        seen.programs += 1

    def barrier(self: Any, *args: Any) -> None:
        current[-1].barrier = current[-1].now
        original_barrier(self, *args)

    def load(self: Any, pointers: Any, mask: Any, *rest: Any, **options: Any) -> Any:
        size = _itemsize(pointers)
        return original_load(
            self, pointers, narrowed("load", pointers, mask, size), *rest, **options
        )

    def store(self: Any, pointers: Any, value: Any, mask: Any, *rest: Any, **options: Any) -> Any:
        size, repeats = _itemsize(pointers), False
        origin = getattr(pointers, "origin", None)
        if origin is not None and origin.name in shared:
            there = stored(pointers, mask.data, value.data.dtype)
            repeats = there == value.data
        good = narrowed("store", pointers, mask, size, repeats)
        return original_store(self, pointers, value, good, *rest, **options)

    def atomic(self: Any, op: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        good = narrowed("atomic", pointers, mask, _itemsize(pointers))
        return original_atomic(self, op, pointers, value, good, *rest)

    def swap(self: Any, pointers: Any, compare: Any, value: Any, *rest: Any) -> Any:
        every = np.ones(pointers.data.shape, bool)
        good = current[-1].access("atomic", pointers, every, _itemsize(pointers))
        if not good.all():
            raise RaceError("\n".join(map(str, current[-1].findings.values())))
        return original_swap(self, pointers, compare, value, *rest)

    def narrowed(kind: str, pointers: Any, mask: Any, size: int, repeats: Any = False) -> Any:
        good = current[-1].access(kind, pointers, mask.data, size, repeats)
        return interpreter.TensorHandle(good, mask.dtype)

    def stored(pointers: Any, mask: Any, dtype: Any) -> Any:
        """What is in memory now, 0 out of bounds."""
        origin, at = pointers.origin, pointers.data
        good = mask & (at >= origin.start) & (at < origin.stop)
        return interpreter._interpreter.load(at, good, np.zeros(at.shape, dtype), dtype)

    original_launch, original_converted = executor.__call__, interpreter._implicit_cvt
    original_begins, original_barrier = builder.set_grid_idx, builder.create_barrier
    original_load, original_store = builder.create_masked_load, builder.create_masked_store
    original_atomic, original_swap = builder.create_atomic_rmw, builder.create_atomic_cas
    hooks = {
        "set_grid_idx": begins,
        "create_barrier": barrier,
        "create_masked_load": load,
        "create_masked_store": store,
        "create_atomic_rmw": atomic,
        "create_atomic_cas": swap,
    }
    for name in _KEEP_ORIGIN:
        if hasattr(builder, name):
            hooks[name] = _with_origin(getattr(builder, name))
    with ExitStack() as stack:
        stack.enter_context(patch.object(executor, "__call__", launch))
        stack.enter_context(patch.object(interpreter, "_implicit_cvt", converted))
        for name, hook in hooks.items():
            stack.enter_context(patch.object(builder, name, hook))
        yield watch


def _with_origin(original: Callable[..., Any]) -> Callable[..., Any]:
    """An operation that knows the tensor which its result points to."""

    def operation(self: Any, *args: Any, **options: Any) -> Any:
        out = original(self, *args, **options)
        for argument in args:
            origin = getattr(argument, "origin", None)
            if origin is not None:
                out.origin = origin
        return out

    return operation


def _itemsize(pointers: Any) -> int:
    """Bytes of what pointers point to."""
    return max(1, pointers.get_element_ty().primitive_bitwidth // 8)


@contextmanager
def random_grid_order(seed: int) -> Generator[None]:
    """The programs of every launch inside run one after the other in a random order.

    Args:
        seed: of the orders; every launch draws one.
    """
    from triton.runtime import interpreter

    builder: Any = interpreter.InterpreterBuilder
    original_size, original_begins = builder.set_grid_dim, builder.set_grid_idx
    generator = np.random.default_rng(seed)
    order: list[Ints] = []

    def size(self: Any, nx: int, ny: int, nz: int) -> None:
        order[:] = [generator.permutation(nx * ny * nz)]
        original_size(self, nx, ny, nz)

    def begins(self: Any, x: int, y: int, z: int) -> None:
        nx, ny, nz = self.grid_dim
        turn = np.unravel_index(order[0][(x * ny + y) * nz + z], (nx, ny, nz))
        original_begins(self, *(int(i) for i in turn))

    with (
        patch.object(builder, "set_grid_dim", size),
        patch.object(builder, "set_grid_idx", begins),
    ):
        yield


def in_any_order(run: Callable[[], T], seed: int = 5) -> tuple[Watch, T]:
    """What was launched, watched by the detector and in a random order, and what `run` gave.

    Raises:
        RaceError: as of `checked_launches`.
    """
    with random_grid_order(seed), checked_launches() as watch:
        found = run()
    return watch, found
