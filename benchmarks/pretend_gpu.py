"""A pretended GPU: what a step would launch and wait for, found without a GPU.

Tensors on the device `pretend` compute on the CPU and say that they are on a GPU. A mode sees every
operator of PyTorch on them and notes, with the line of gendr that asked for it,

- launches: one kernel for most operators, none for views, several for a sort (`KERNELS`);
- waits: whatever brings a number to the host, or copies between host and GPU.

Launches of Triton kernels are recorded with grid and arguments and then left out, or replaced by
what `launch` does instead.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

NAME = "pretend"

# Kernels of operators that are not one kernel on CUDA, to the best of our knowledge: the least that
# PyTorch's sources show for large tensors.
KERNELS = {
    "sort": 8,  # a radix sort of int32: histogram, scan, four passes, the order before and after
    "argsort": 8,
    "cumsum": 2,
    "nonzero": 3,
    "repeat_interleave": 3,
    "unique": 10,
    "index_put": 6,  # with accumulation: a sort
    "_index_put_impl": 6,
}
# Operators that only make room, or say something about a tensor.
FREE = {
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "detach", "alias",
    "detach_", "lift_fresh", "_local_scalar_dense", "sym_size", "resize_", "_reshape_alias",
    "_unsafe_view",
}  # fmt: skip
WAITS = {
    "_local_scalar_dense", "nonzero", "masked_select", "equal", "_unique2", "unique_dim",
    "repeat_interleave",
}  # fmt: skip

COMPOSITE = "CompositeImplicitAutograd"

_device: torch.device | None = None


def device() -> torch.device:
    """The pretended device, which is registered with PyTorch on first use."""
    global _device
    if _device is None:
        backend_registration._setup_privateuseone_for_python_backend(NAME)
        module: Any = torch.get_device_module(NAME)
        module.get_amp_supported_dtype = lambda: [torch.float16, torch.bfloat16]  # for autocast
        _device = torch.device(NAME, 0)
    return _device


class Pretended(Tensor):
    """A tensor on the pretended device; `elem` holds its values."""

    elem: Tensor

    @staticmethod
    def __new__(cls: type[Pretended], elem: Tensor) -> Pretended:
        """Wrap a tensor of the CPU."""
        out = Tensor._make_wrapper_subclass(
            cls, elem.shape, strides=elem.stride(), storage_offset=elem.storage_offset(),
            dtype=elem.dtype, device=device(),
        )  # fmt: skip
        out.elem = elem
        return out

    @property
    def is_cuda(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Yes, so that the host takes the paths that it takes on a GPU."""
        return True

    def tolist(self) -> Any:
        """The numbers, by way of the CPU: PyTorch refuses it for subclasses."""
        return self.detach().to("cpu").tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Outside a `Recorder`: computed, not noted."""
        return _compute(func, args, kwargs or {})[0]


def upload(x: Tensor) -> Pretended:
    """A tensor of the CPU put on the pretended device, unseen by recorders."""
    return Pretended(x.detach().clone())


def values(x: Any) -> Any:
    """What a pretended tensor holds; everything else as it is."""
    return x.elem if isinstance(x, Pretended) else x


# Operators that take tensors of the CPU beside those of a GPU: copies, and indices.
_MIXING = {
    "copy_",
    "_to_copy",
    "index",
    "index_put",
    "index_put_",
    "_index_put_impl_",
    "_copy_from",
}
_strict = False


def _refuse_mixed(func: Any, args: Any, kwargs: Any) -> None:
    found: list[Tensor] = []
    tree_map(lambda x: found.append(x) if isinstance(x, Tensor) else None, (args, kwargs))
    # A number on the CPU may be added to anything.
    there = [x for x in found if x.ndim > 0]
    name = func._schema.name.split("::")[1]
    if name not in _MIXING and len({isinstance(x, Pretended) for x in there}) == 2:
        kinds = [f"{tuple(x.shape)} on {x.device}" for x in found]
        raise RuntimeError(f"tensors are not all on the same device: {name} of {kinds}")


def _compute(func: Any, args: Any, kwargs: Any) -> tuple[Any, bool, bool]:
    """The result of an operator, whether it read the device, and whether it is on the device."""
    if _strict:
        _refuse_mixed(func, args, kwargs)
    read: list[Tensor] = []
    wanted: list[torch.device] = []

    def to_cpu(x: Any) -> Any:
        if isinstance(x, Pretended):
            read.append(x)
            return x.elem
        if isinstance(x, torch.device):
            wanted.append(x)
            return torch.device("cpu")
        return x

    inner_args, inner_kwargs = tree_map(to_cpu, args), tree_map(to_cpu, kwargs)
    out = func(*inner_args, **inner_kwargs)
    there = wanted[0].type == NAME if wanted else bool(read)
    if func._schema.is_mutable and args and isinstance(args[0], Tensor):
        # In place: the very tensor comes back.
        returned = func._schema.returns
        if len(returned) == 1 and returned[0].alias_info is not None:
            there = isinstance(args[0], Pretended)
            return args[0], bool(read), there
    if there:
        out = tree_map(lambda x: Pretended(x) if isinstance(x, Tensor) else x, out)
    return out, bool(read), there


@dataclass(frozen=True)
class Event:
    """Something that a step asked of the device.

    Attributes:
        what: the operator, or the kernel.
        where: the line of gendr, "path:line function"; backward, of what is differentiated.
        launches: of kernels.
        waits: whether the host waited.
        moved: bytes read and written, each tensor once.
        triton: whether it is a kernel of ours.
        backward: whether the backward pass asked.
    """

    what: str
    where: str
    launches: int
    waits: bool
    moved: int
    triton: bool = False
    backward: bool = False


@dataclass(frozen=True)
class Launch:
    """A launch of a Triton kernel, its tensors on the CPU."""

    kernel: Any
    grid: tuple[int, ...]
    args: tuple[Any, ...]
    constants: dict[str, Any]
    backward: bool = False

    @property
    def name(self) -> str:
        """The name of the kernel."""
        return self.kernel.fn.__name__


@dataclass
class Record:
    """What happened under a `Recorder`, in order."""

    events: list[Event] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)

    def total(self) -> tuple[int, int]:
        """Launches and waits."""
        return sum(e.launches for e in self.events), sum(e.waits for e in self.events)

    def by_line(self) -> list[tuple[str, int, int, str]]:
        """Lines of gendr, launches, waits, and operators, in the order in which they first ran."""
        lines: dict[str, list[Event]] = {}
        for e in self.events:
            lines.setdefault(("backward of " if e.backward else "") + e.where, []).append(e)
        return [
            (
                where,
                sum(e.launches for e in events),
                sum(e.waits for e in events),
                ", ".join(
                    f"{name} × {n}" if n > 1 else name
                    for name, n in Counter(e.what for e in events).items()
                ),
            )
            for where, events in lines.items()
        ]


def _bytes(x: Any) -> int:
    found: list[int] = []
    tree_map(lambda t: found.append(t.numel() * t.element_size()) if _is_there(t) else None, x)
    return sum(found)


def _is_there(x: Any) -> bool:
    return isinstance(x, Pretended)


_FRAME = re.compile(r'File "(?P<file>[^"]*)", line (?P<line>\d+), in (?P<name>\S+)')


def _line_of(file: str, line: int, name: str) -> str | None:
    """The line as text if it is one of gendr that asks for work, else None."""
    at = file.rfind("/gendr/")
    inside = at >= 0 and "site-packages" not in file and "/tests/support/" not in file
    # What only checks an argument, or launches, is not what asked: its caller is.
    if not inside or file.endswith(("_runtime/checks.py", "triton/launch.py")):
        return None
    return f"{file[at + 1 :]}:{line} {name}"


def _where() -> tuple[str, bool]:
    """The line of gendr that is running, and whether backward."""
    node: Any = torch._C._current_autograd_node()
    own = None
    frame = sys._getframe(1)
    while frame is not None and own is None:
        code = frame.f_code
        own = _line_of(code.co_filename, frame.f_lineno, code.co_name)
        frame = frame.f_back
    if node is None:
        return own or "(outside gendr)", False
    if own is not None:
        return own, True
    for text in reversed(node.metadata.get("traceback_", [])):
        match = _FRAME.search(text)
        line = match and _line_of(match["file"], int(match["line"]), match["name"])
        if line:
            return line, True
    return f"({node.name()})", True


class Recorder(TorchDispatchMode):
    """Notes what the operators on pretended tensors would launch and wait for."""

    def __init__(self, record: Record) -> None:
        super().__init__()
        self.record = record

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Note and compute."""
        kwargs = kwargs or {}
        if func.namespace == "profiler":
            return func(*args, **kwargs)
        if func.namespace not in ("aten", "prims"):
            return self._own(func, args, kwargs)
        if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), COMPOSITE):
            # Inside our own operators PyTorch has not taken these apart yet.
            with self:
                out = func.decompose(*args, **kwargs)
            if out is not NotImplemented:
                return out
        where, backward = _where()
        out, read, there = _compute(func, args, kwargs)
        name = func._schema.name.split("::")[1]
        if read or there:
            event = self._event(func, name, (args, kwargs), out, read, there)
            if event is not None:
                launches, waits = event
                moved = _bytes((args, kwargs, out)) if launches else 0
                self.record.events.append(
                    Event(name, where, launches, waits, moved, backward=backward)
                )
        return out

    def _own(self, func: Any, args: Any, kwargs: Any) -> Any:
        """An operator written in Python: what it does is seen in turn."""
        from torch._library import custom_ops

        definition = custom_ops.OPDEFS.get(func._schema.name)
        if definition is None:
            raise NotImplementedError(f"{func} is not written in Python")
        with self:
            return definition._init_fn(*args, **kwargs)

    @staticmethod
    def _event(
        func: Any, name: str, given: Any, out: Any, read: bool, there: bool
    ) -> tuple[int, bool] | None:
        """Launches and whether it waits; None for what costs nothing."""
        if name in ("_to_copy", "copy_"):
            args = given[0]
            inputs = args[:2] if name == "copy_" else args[:1]
            places = {isinstance(x, Pretended) for x in (*inputs, out) if isinstance(x, Tensor)}
            if len(places) == 2:
                # To the host without blocking: into pinned memory, which is looked at later.
                later = name == "copy_" and (args[2:3] == (True,) or given[1].get("non_blocking"))
                waits = not (later and isinstance(args[1], Pretended))
                return (1, waits) if _numel(out) else None
        if name in WAITS and read:
            return KERNELS.get(name, 0 if name in FREE else 1), True
        indexed = given[0][1] if name in ("index", "index_put_", "index_put") else ()
        if any(isinstance(x, Tensor) and x.dtype == torch.bool for x in indexed):
            return 1 + KERNELS["nonzero"], True
        view = any(r.alias_info and not r.alias_info.is_write for r in func._schema.returns)
        if view or name in FREE or not there:
            return None
        if not _numel(out) and not _bytes(given):
            return None
        accumulates = name.startswith(("index_put", "_index_put")) and any(
            x is True for x in given[0][3:4]
        )
        if name.startswith(("index_put", "_index_put")):
            return (KERNELS["index_put"] if accumulates else 1), False
        return KERNELS.get(name.rstrip("_"), 1), False


def _numel(x: Any) -> int:
    found: list[int] = []
    tree_map(lambda t: found.append(t.numel()) if isinstance(t, Tensor) else None, x)
    return sum(found)


def _answer(answer: Any, *_: Any) -> Any:
    return answer


@contextlib.contextmanager
def triton_forced() -> Generator[None]:
    """Within it the Triton backend says that it is usable, and serves every tensor."""
    import_module("gendr.rendering.backends.triton.backend")
    with contextlib.ExitStack() as stack:
        for name, module in list(sys.modules.items()):
            if name.startswith("gendr.") and "triton" in name:
                # Plain functions: a mock takes as long as a launch when it is called.
                for function, answer in (("available", None), ("supports", True)):
                    if hasattr(module, function):
                        replacement = partial(_answer, answer)
                        stack.enter_context(mock.patch.object(module, function, replacement))
        yield


@contextlib.contextmanager
def launches_replaced(replacement: Callable[[Launch], None]) -> Generator[None]:
    """Within it `replacement` is called for every launch of a Triton kernel, which is left out."""
    from triton.runtime.jit import JITFunction

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **constants: Any) -> None:
        given = tuple(values(x) for x in args)
        if callable(grid):
            grid = grid(dict(zip(self.arg_names, given, strict=False)) | constants)
        named = {name: values(x) for name, x in constants.items()}
        _, backward = _where()
        replacement(Launch(self, tuple(int(n) for n in grid), given, named, backward))

    _launch_anew()
    with (
        mock.patch.object(JITFunction, "run", run),
        mock.patch.object(torch.cuda, "device", return_value=contextlib.nullcontext()),
    ):
        yield


def _fit_little(room: Any, *_: int) -> None:
    """The least that lists get, and no extra programs."""
    room.entries, room.segments = min(room.most, 1 << 12), 0


def _launch_anew() -> None:
    """Have Triton launch every kernel first: no launcher knows what is compiled."""
    with contextlib.suppress(ImportError):  # a checkout from before there were launchers
        from gendr._runtime.triton.launch import forget_launches

        forget_launches()


class _Driver:
    """The part of a driver that a launch asks before it calls CUDA."""

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, _: int) -> int:
        return 0

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", 90, 32)


class _Compiled:
    """A compiled kernel that does nothing when it is launched."""

    function = packed_metadata = None

    def launch_metadata(self, *_: Any) -> None:
        """Nothing to say."""

    def run(self, *_: Any) -> None:
        """Nothing to do."""


@contextlib.contextmanager
def driver_replaced() -> Generator[None]:
    """Within it, launches of Triton kernels do all that Triton does in Python, and nothing more.

    Tensors of the CPU will do. Nothing is compiled.
    """
    from triton.runtime.driver import driver
    from triton.runtime.jit import JITFunction

    seen: list[Any] = []
    stack = contextlib.ExitStack()

    def do_compile(self: Any, key: Any, _signature: Any, number: int, *_: Any, **__: Any) -> Any:
        seen.append(self)
        return self.device_caches[number][0].setdefault(key, _Compiled())

    # What kernels that are left out would have told the host is anything: it is not read.
    with contextlib.suppress(ImportError):  # a checkout from before there was such a thing
        from gendr._runtime.later import Later

        stack.enter_context(mock.patch.object(Later, "read", partial(_answer, None)))
        from gendr.rendering.backends.triton import capacity

        stack.enter_context(mock.patch.object(capacity.Room, "fit", _fit_little))
    with (
        stack,
        mock.patch.object(driver, "_active", _Driver()),
        mock.patch.object(JITFunction, "_do_compile", do_compile),
        mock.patch.object(Tensor, "is_cuda", True),  # the host takes the paths of a GPU
        mock.patch.object(torch.cuda, "device", return_value=contextlib.nullcontext()),
    ):
        _launch_anew()
        try:
            yield
        finally:
            _launch_anew()
            for kernel in seen:
                kernel.device_caches.clear()


@contextlib.contextmanager
def _numbers_by_way_of_cpu() -> Generator[None]:
    """Within it `torch.tensor(..., device=...)` makes a tensor on the CPU and copies it."""
    before = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(True)
    try:
        yield
    finally:
        torch._C._set_only_lift_cpu_tensors(before)


@contextlib.contextmanager
def strict() -> Generator[None]:
    """Within it, operators refuse to mix tensors of the pretended GPU and the CPU, as CUDA does.

    The reference backends do the work: it is the code around kernels that is looked at. Backward
    passes run in this thread, which the mode sees.
    """
    global _strict
    before = _strict
    with contextlib.ExitStack() as stack:
        for system in ("rendering", "sorting", "logic"):
            module = import_module(f"gendr.{system}.backends.triton.backend")
            answer = partial(_answer, "left out")
            stack.enter_context(mock.patch.object(module, "available", answer))
        stack.enter_context(torch.autograd.set_multithreading_enabled(False))
        stack.enter_context(_numbers_by_way_of_cpu())
        stack.enter_context(Recorder(Record()))
        _strict = True
        try:
            yield
        finally:
            _strict = before


@contextlib.contextmanager
def recorded(launch: Callable[[Launch], object] | None = None) -> Generator[Record]:
    """Within it, what a step on pretended tensors would do to a GPU is noted.

    Args:
        launch: what is done in the place of a launch of a Triton kernel.
    """
    record = Record()

    def replacement(x: Launch) -> None:
        where, backward = _where()
        moved = sum(
            t.numel() * t.element_size() for t in (*x.args, *x.constants.values())
            if isinstance(t, Tensor)
        )  # fmt: skip
        record.launches.append(x)
        record.events.append(Event(x.name, where, 1, False, moved, True, backward))
        if launch is not None:
            with torch._C._DisableTorchDispatch():
                launch(x)

    # Anomaly mode keeps the line that made each node of the graph.
    with (
        _numbers_by_way_of_cpu(),
        triton_forced(),
        launches_replaced(replacement),
        torch.autograd.set_detect_anomaly(True, check_nan=False),
        Recorder(record),
    ):
        yield record


__all__ = [
    "Event", "Launch", "Pretended", "Record", "Recorder", "device", "driver_replaced",
    "launches_replaced", "recorded", "strict", "triton_forced", "upload", "values",
]  # fmt: skip
