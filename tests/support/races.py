"""Races, accesses out of bounds and the order of programs, seen by Triton's interpreter.

The interpreter runs one program after the other, and each of them element by element, in order:
whatever a kernel forgets to synchronise goes well there. `checked_launches` notes every load, store
and atomic of the kernels that run inside it, and reports what a GPU would leave to chance.
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
instructions may put the same element in different threads. Therefore a location that one
instruction stored may not be loaded or stored by *another* before a barrier, not even by the same
lane. What the same lane loads first and then stores is no race: the value that it stores comes from
there. That does not hold if the block is smaller than a program of several warps, whose copies of a
lane may lag behind: the interpreter does not know the warps.

What Triton itself synchronises (reductions, gathers, changes of layout) does not count as a
barrier, as it need not be one.

Source: the happens-before race of Lamport, Time, Clocks, and the Ordering of Events (1978), with a
barrier for the only message.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Ints = npt.NDArray[np.int64]

LOAD, STORE, ATOMIC = range(3)
KINDS = ("load", "store", "atomic")
ALL_LANES = -1
LANES_OF_A_SHAPE = 1 << 32


class RaceError(AssertionError):
    """What a launch did is left to chance on a GPU, or out of bounds; one line for each."""


@dataclass
class Watch:
    """What was watched so far.

    Attributes:
        kernels: name of the kernel of every launch, in order.
        programs: how many programs each launch had.
    """

    kernels: list[str] = field(default_factory=list)
    programs: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class _Argument:
    """A tensor that a kernel was given: its name, and the bytes that it spans."""

    name: str
    start: int
    stop: int
    itemsize: int

    @classmethod
    def of(cls, name: str, tensor: Any) -> _Argument:
        start, itemsize = tensor.data_ptr(), tensor.element_size()
        steps = zip(tensor.shape, tensor.stride(), strict=True)
        last = sum((size - 1) * step for size, step in steps)
        return cls(name, start, start + (last + 1) * itemsize * (tensor.numel() > 0), itemsize)


@dataclass(frozen=True)
class _Access:
    """An instruction of a program: the first bytes that its lanes access, and the lanes."""

    kind: int
    of: _Argument
    size: int  # bytes for each lane
    line: str
    program: int
    epoch: int  # counts barriers; no two programs share one
    addresses: Ints
    lanes: Ints


class _Launch:
    """One launch: its arguments, its accesses, and what is wrong with them."""

    def __init__(self, kernel: str, names: dict[Any, str]) -> None:
        self.kernel, self.names = kernel, names
        self.accesses: list[_Access] = []
        self.wrong: dict[str, None] = {}
        self.shapes: dict[tuple[int, ...], int] = {}
        self.programs, self.epoch = 0, 0

    def access(self, kind: int, pointers: Any, mask: Any) -> npt.NDArray[np.bool_]:
        """Note an access, and return the lanes of it that are in bounds."""
        of: _Argument = pointers.origin
        size = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        addresses, active = np.broadcast_arrays(pointers.data.astype(np.int64), mask)
        good = active & (addresses >= of.start) & (addresses + size <= of.stop)
        line = _line()
        if (active & ~good).any():
            element = (int(addresses[active & ~good][0]) - of.start) // of.itemsize
            count = (of.stop - of.start) // of.itemsize
            text = f"out of bounds: {KINDS[kind]} of {count} elements"
            self.wrong[f"{text}, {self.kernel}: {of.name}[{element}], {line}"] = None
        lanes = self.lanes(addresses.shape)[good.ravel()]
        lanes = np.maximum(lanes, 0) if kind == STORE else lanes  # one lane stores a scalar
        self.accesses.append(
            _Access(kind, of, size, line, self.programs, self.epoch, addresses[good], lanes)
        )
        return good

    def lanes(self, shape: tuple[int, ...]) -> Ints:
        """The number of the lane of every element of a block."""
        if shape in ((), (1,)):
            return np.full(1, ALL_LANES)
        first = self.shapes.setdefault(shape, len(self.shapes) + 1) * LANES_OF_A_SHAPE
        return first + np.arange(np.prod(shape), dtype=np.int64)

    def races(self) -> None:
        """Find them among the accesses."""
        if not self.accesses:
            return
        unit = int(np.gcd.reduce([x.size for x in self.accesses]))
        places, instructions = [], []
        for number, x in enumerate(self.accesses):
            place = x.addresses[:, None] + np.arange(0, x.size, unit)
            places.append(place.ravel())
            instructions.append(np.full(place.size, number))
        instruction = np.concatenate(instructions)
        lane = np.concatenate([x.lanes.repeat(x.size // unit) for x in self.accesses])
        kind, program, epoch = (
            np.array([getattr(x, name) for x in self.accesses])[instruction]
            for name in ("kind", "program", "epoch")
        )
        place = np.concatenate(places)
        _, key = np.unique(place, return_inverse=True)
        programs = [_ends(program, key, kind == k) for k in range(3)]
        for a, b in combinations_with_replacement(range(3), 2):
            if STORE in (a, b) or a != b:
                apart = _differ(programs[a], programs[b])
                self.report("between programs", (a, b), apart[key], place, instruction)

        _, key = np.unique(key * (epoch.max() + 1) + epoch, return_inverse=True)
        lanes, times = (
            [_ends(values, key, kind == k) for k in range(3)] for values in (lane, instruction)
        )
        loaded, stored, added = times
        found = {
            (STORE, STORE): _differ(stored, stored) | _differ(lanes[STORE], lanes[STORE]),
            (STORE, LOAD): loaded[1] > stored[0],
            (LOAD, STORE): (loaded[0] < stored[1]) & _differ(lanes[LOAD], lanes[STORE]),
            (LOAD, ATOMIC): (loaded[1] >= 0) & (added[1] >= 0),
            (STORE, ATOMIC): (stored[1] >= 0) & (added[1] >= 0),
        }
        for pair, where in found.items():
            self.report("between lanes", pair, where[key], place, instruction)

    def report(
        self, what: str, pair: tuple[int, int], where: Any, place: Ints, instruction: Ints
    ) -> None:
        """Report the first of the accesses where there is one."""
        at = np.flatnonzero(where)
        if len(at):
            of = self.accesses[instruction[at[0]]].of
            meeting = {*instruction[at[place[at] == place[at[0]]]].tolist()}
            lines = sorted({self.accesses[i].line for i in meeting})
            element = (int(place[at[0]]) - of.start) // of.itemsize
            first, second = (KINDS[k] for k in pair)
            text = f"{what}: {first} and {second}, {self.kernel}: {of.name}[{element}]"
            self.wrong[f"{text}, {', '.join(lines)}"] = None


def _ends(values: Ints, key: Ints, where: Any) -> tuple[Ints, Ints]:
    """The least and the greatest value of each key; of none, the greatest number and -2."""
    count = key.max() + 1
    low, high = np.full(count, np.iinfo(np.int64).max), np.full(count, -2)
    np.minimum.at(low, key[where], values[where])
    np.maximum.at(high, key[where], values[where])
    return low, high


def _differ(a: tuple[Ints, Ints], b: tuple[Ints, Ints]) -> npt.NDArray[np.bool_]:
    """Where there are some of both, and they are not all the same."""
    same = (a[0] == a[1]) & (b[0] == b[1]) & (a[0] == b[0])
    return (a[1] > -2) & (b[1] > -2) & ~same


def _line() -> str:
    """The line of a kernel, or of what it calls, that is being interpreted."""
    import triton

    frame: Any = sys._getframe()
    ours, theirs = str(Path(__file__)), str(Path(triton.__file__).parent)
    while frame.f_code.co_filename == ours or frame.f_code.co_filename.startswith(theirs):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


# -------------------------------------------------------------------------------------------------
# Hooks
# -------------------------------------------------------------------------------------------------

# Where a pointer goes in and a pointer to the same tensor comes out.
_KEEP_ORIGIN = (
    "create_addptr", "create_splat", "create_broadcast", "create_expand_dims", "create_reshape",
    "create_trans", "create_bitcast", "create_unsplat",
)  # fmt: skip


@contextmanager
def checked_launches() -> Generator[Watch]:
    """Every launch inside raises, at its end, if it has a race or an access out of bounds.

    An access out of bounds is not made: such a load gives 0. Bounds are those of the tensor that a
    pointer comes from, a view as a rule, not those of its storage.

    Raises:
        RaceError: at the end of a launch; all that is wrong with it, one line each.
    """
    from triton.runtime import interpreter

    builder: Any = interpreter.InterpreterBuilder
    executor: Any = interpreter.GridExecutor
    watch = Watch()
    current: list[_Launch] = []

    def launch(self: Any, *args: Any, **options: Any) -> None:
        named = [*zip(self.arg_names, args, strict=False), *options.items()]
        names = {_key(x): name for name, x in reversed(named) if hasattr(x, "data_ptr")}
        current.append(_Launch(self.fn.__name__, names))
        try:
            original_launch(self, *args, **options)
        finally:
            seen = current.pop()
            watch.kernels.append(seen.kernel)
            watch.programs.append(seen.programs)
        seen.races()
        if seen.wrong:
            raise RaceError("\n".join(seen.wrong))

    def converted(argument: Any) -> Any:
        out = original_converted(argument)
        if current and hasattr(argument, "data_ptr"):
            name = current[-1].names.get(_key(argument), "?")
            out.handle.origin = _Argument.of(name, argument)
        return out

    def begins(self: Any, *place: int) -> None:
        original_begins(self, *place)
        current[-1].programs += 1
        current[-1].epoch += 1

    def barrier(self: Any, *args: Any) -> None:
        current[-1].epoch += 1
        original_barrier(self, *args)

    def masked(kind: int, original: Callable[..., Any], pointers: int, mask: int) -> Any:
        """An access with the lanes that are in bounds, by the places of two arguments."""

        def operation(self: Any, *args: Any, **options: Any) -> Any:
            good = current[-1].access(kind, args[pointers], args[mask].data)
            narrowed = interpreter.TensorHandle(good, args[mask].dtype)
            return original(self, *args[:mask], narrowed, *args[mask + 1 :], **options)

        return operation

    original_launch, original_converted = executor.__call__, interpreter._implicit_cvt
    original_begins, original_barrier = builder.set_grid_idx, builder.create_barrier
    hooks: dict[str, Callable[..., Any]] = {
        "set_grid_idx": begins,
        "create_barrier": barrier,
        "create_masked_load": masked(LOAD, builder.create_masked_load, 0, 1),
        "create_masked_store": masked(STORE, builder.create_masked_store, 0, 2),
        "create_atomic_rmw": masked(ATOMIC, builder.create_atomic_rmw, 1, 3),
    }
    kept = (name for name in _KEEP_ORIGIN if hasattr(builder, name))
    hooks |= {name: _with_origin(getattr(builder, name)) for name in kept}
    with ExitStack() as stack:
        stack.enter_context(patch.object(executor, "__call__", launch))
        stack.enter_context(patch.object(interpreter, "_implicit_cvt", converted))
        for name, hook in hooks.items():
            stack.enter_context(patch.object(builder, name, hook))
        yield watch


def _key(tensor: Any) -> tuple[Any, ...]:
    """What tells the views that a launch is given apart; the interpreter makes new ones."""
    return tensor.data_ptr(), tuple(tensor.shape), tensor.element_size()


def _with_origin(original: Callable[..., Any]) -> Callable[..., Any]:
    """An operation that knows the tensor which its result points to."""

    def operation(self: Any, *args: Any, **options: Any) -> Any:
        out = original(self, *args, **options)
        for argument in args:
            if hasattr(argument, "origin"):
                out.origin = argument.origin
        return out

    return operation


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


def in_any_order(run: Callable[[], Iterable[Tensor]], seed: int = 5) -> Watch:
    """What `run` launched, watched by the detector; it gives the same bits in a random order.

    Raises:
        RaceError: as of `checked_launches`, or the order of programs shows in a tensor.
    """
    with random_grid_order(seed), checked_launches() as watch:
        shuffled = run()
    for place, (got, want) in enumerate(zip(shuffled, run(), strict=True)):
        if not torch.equal(got, want):
            raise RaceError(f"tensor {place} of {', '.join(watch.kernels)} depends on the order")
    return watch
