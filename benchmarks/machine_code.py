"""Machine code of launches, compiled without a GPU: its loops, what they issue, how long they take.

Times come from the code itself: ptxas writes into every instruction how many cycles its warp waits
after it and for which earlier instructions of unknown latency it waits before. What is not in the
code, the latencies of those and the rates of the units, is assumed in `Assumptions`.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pretend_gpu import Launch
from torch import Tensor

CAPABILITY = 90
TYPES = {
    torch.float32: "*fp32", torch.float64: "*fp64", torch.float16: "*fp16",
    torch.bfloat16: "*bf16", torch.int32: "*i32", torch.int64: "*i64", torch.int16: "*i16",
    torch.int8: "*i8", torch.uint8: "*u8", torch.bool: "*i1",
}  # fmt: skip


@dataclass(frozen=True)
class Assumptions:
    """What is assumed of the GPU: an H200.

    Attributes:
        sms: multiprocessors, with four schedulers each, which issue one instruction per cycle.
        ghz: of the clock.
        terabytes: per second, from and to memory.
        load_cycles: latency of a load from memory, most of which are in the L2.
        special_cycles: of exponentials, logarithms, roots, conversions.
        shared_cycles: of shared memory, shuffles, barriers.
        constant_cycles: of constants and special registers.
        kernel_us: microseconds that any kernel takes at least.
    """

    sms: int = 132
    ghz: float = 1.8
    terabytes: float = 4.8
    load_cycles: float = 250.0
    special_cycles: float = 25.0
    shared_cycles: float = 30.0
    constant_cycles: float = 40.0
    kernel_us: float = 2.0


# Cycles for which a warp's instruction keeps a unit of its scheduler busy, and its unit.
_UNITS = (
    (r"(MUFU|I2F(?!P)|F2I|F2F|FRND|POPC|FLO)", "special", 8.0),
    (r"(LD|ST|ATOM|RED|SHFL|CCTL)", "memory", 4.0),
    (r"(DFMA|DADD|DMUL|DSETP|DMNMX)", "double", 2.0),
    (r"(FFMA|FADD|FMUL|FSWZ)", "float", 1.0),
    (r"(IMAD|HFMA2|HADD2|HMUL2)", "float", 2.0),
    (r"(U[A-Z]|R2UR|S2UR)", "uniform", 2.0),
    (r"(BRA|BSSY|BSYNC|BAR|EXIT|CALL|RET|WARPSYNC|NOP|DEPBAR|S2R|CS2R|YIELD)", "control", 2.0),
    (r"", "integer", 2.0),  # also comparisons, selections, minima and logic
)


@dataclass(frozen=True)
class Instruction:
    """One instruction of machine code.

    Attributes:
        address: in bytes.
        text: without its predicate.
        target: of a branch, else None.
        conditional: whether it has a predicate.
        stall: cycles for which its warp issues nothing after it.
        sets: the barrier that it sets until its result is there, None if its latency is known.
        frees: the barrier that it sets until its operands are read, or None.
        awaits: the barriers that it waits for.
    """

    address: int
    text: str
    target: int | None = None
    conditional: bool = False
    stall: int = 1
    sets: int | None = None
    frees: int | None = None
    awaits: tuple[int, ...] = ()

    @property
    def opcode(self) -> str:
        """The name of the operation, with its suffixes."""
        return self.text.split(None, 1)[0]

    @property
    def unit(self) -> tuple[str, float]:
        """The unit on which it runs, and for how many cycles of a scheduler."""
        return _unit(self.opcode)


@cache
def _unit(opcode: str) -> tuple[str, float]:
    return next((unit, n) for pattern, unit, n in _UNITS if re.match(pattern, opcode))


_LINE = re.compile(
    r"^\s*/\*(?P<address>[0-9a-f]{4,})\*/\s+(?:(?P<predicate>@!?U?P\w+)\s+)?(?P<text>[A-Z][^;]*?)\s*;"
)
_WORD = re.compile(r"/\* 0x([0-9a-f]{16}) \*/")
_BRANCH = re.compile(r"^BRA(?:\.\S+)?\s+(?:\S+,\s*)?`?\(?(?:0x)?(?P<target>[0-9a-f]+)")


def parse(text: str) -> list[Instruction]:
    """The instructions of what `cuobjdump -sass` prints of one function."""
    out: list[Instruction] = []
    lines = text.splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        match = _LINE.match(line)
        if not match:
            continue
        high = _WORD.search(following) if not _LINE.match(following) else None
        control = int(high[1], 16) >> 41 if high else 0x7E1  # 1 cycle, no barriers
        branch = _BRANCH.match(match["text"])
        target = int(branch["target"], 16) if branch else None
        out.append(
            Instruction(
                int(match["address"], 16), match["text"], target, match["predicate"] is not None,
                control & 15, _barrier(control >> 5), _barrier(control >> 8),
                tuple(i for i in range(6) if control >> 11 >> i & 1),
            )
        )  # fmt: skip
    return out


def _barrier(bits: int) -> int | None:
    number = bits & 7
    return None if number == 7 else number


@dataclass(frozen=True)
class Stretch:
    """Instructions that run one after the other: a loop without its inner loops, or the rest.

    Attributes:
        code: as if no branch inside were taken.
        skipped: how many of them branches inside may skip.
        depth: loops around it, its own included; 0 for what is outside all.
    """

    code: tuple[Instruction, ...]
    skipped: int
    depth: int

    def busy(self) -> dict[str, float]:
        """Cycles for which a warp occupies each unit of its scheduler; "issue" is the number."""
        out: dict[str, float] = {"issue": float(len(self.code))}
        for x in self.code:
            unit, cycles = x.unit
            out[unit] = out.get(unit, 0.0) + cycles
        return out

    def alone(self, given: Assumptions) -> float:
        """Cycles that a warp takes for it if it has its scheduler for itself.

        For a loop those of a round in the long run; see the top of the file.
        """
        time, before, ready = 0.0, 0.0, [0.0] * 6
        for _ in range(3 if self.depth else 1):
            before = time
            for x in self.code:
                time = max(time, *(ready[b] for b in x.awaits)) if x.awaits else time
                if x.sets is not None:
                    ready[x.sets] = max(ready[x.sets], time + _latency(x, given))
                if x.frees is not None:
                    ready[x.frees] = max(ready[x.frees], time + 20.0)
                time += max(x.stall, 1)
        return time - before


def _latency(x: Instruction, given: Assumptions) -> float:
    op = x.opcode
    if re.match(r"(LDG|LD\.|LD$|LDL|ATOMG|ATOM\.|ATOM$)", op):
        return given.load_cycles
    if re.match(r"(LDC|S2R|CS2R|S2UR|ULDC)", op):
        return given.constant_cycles
    if re.match(r"(LDS|SHFL|ATOMS|BAR|LDSM)", op):
        return given.shared_cycles
    return given.special_cycles


def stretches(code: list[Instruction]) -> list[Stretch]:
    """The loops of a function by their address, and last what is outside all of them."""
    spans: dict[int, int] = {}
    for x in code:
        # A branch to itself pads the end of a function.
        if x.target is not None and x.target < x.address:
            spans[x.target] = max(spans.get(x.target, 0), x.address)
    out: list[Stretch] = []
    for first, last in sorted(spans.items()):
        inner = [(a, b) for a, b in spans.items() if a > first and b <= last]
        outer = [(a, b) for a, b in spans.items() if a <= first and b >= last]
        own = [
            x for x in code
            if first <= x.address <= last and not any(a <= x.address <= b for a, b in inner)
        ]  # fmt: skip
        out.append(Stretch(tuple(own), _skipped(own), len(outer)))
    rest = [x for x in code if not any(a <= x.address <= b for a, b in spans.items())]
    ends = [i for i, x in enumerate(rest) if x.opcode == "EXIT" and not x.conditional]
    rest = rest[: ends[0] + 1] if ends else rest  # subroutines and padding stand behind
    out.append(Stretch(tuple(rest), _skipped(rest), 0))
    return out


def _skipped(code: list[Instruction]) -> int:
    jumps = [x for x in code if x.target is not None and x.conditional and x.target > x.address]
    last = code[-1].address if code else 0
    return sum(
        any(j.address < x.address < j.target for j in jumps if j.target and j.target <= last)
        for x in code
    )


# -- compiled


@dataclass(frozen=True)
class Code:
    """The machine code of a launch.

    Attributes:
        parts: its loops and what is outside.
        warps: per program.
        lanes: elements of the largest block: (pixel, face) pairs of a round.
        registers: per thread.
        spills: bytes per thread.
        shared: bytes per program.
    """

    parts: tuple[Stretch, ...]
    warps: int
    lanes: int
    registers: int
    spills: int
    shared: int

    @property
    def loops(self) -> tuple[Stretch, ...]:
        """The loops, in the order of their addresses."""
        return self.parts[:-1]

    def resident(self) -> float:
        """Warps that a scheduler holds at once: registers, shared memory, 64 warps, 32 programs."""
        rounded = max(8, (self.registers + 7) // 8 * 8)
        programs = min(
            65536 // (rounded * 32 * self.warps), 64 // self.warps, 32,
            227 * 1024 // max(self.shared + 1024, 1),
        )  # fmt: skip
        return max(1, programs) * self.warps / 4


_cache: dict[str, Code] = {}


def compiled(launch: Launch, capability: int = CAPABILITY) -> Code:
    """Compile what a launch would, without launching it."""
    import triton
    from triton import knobs
    from triton.backends.compiler import GPUTarget

    source, options = _source(launch)
    key = f"{source.hash()} {options} {capability}"
    if key in _cache:
        return _cache[key]
    with tempfile.TemporaryDirectory() as folder, knobs.cache.scope():
        knobs.cache.dir = folder
        kernel = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(kernel.asm["cubin"])
        used = dict(re.findall(r"\b(REG|STACK|LOCAL):(\d+)", _said("-res-usage", file)))
        text = _said("-sass", file)
    shapes = re.findall(r"tensor<((?:\d+x)+)", str(kernel.asm["ttgir"]))
    lanes = max((int(np.prod([int(n) for n in s.split("x")[:-1]])) for s in shapes), default=1)
    _cache[key] = Code(
        tuple(stretches(parse(text))), kernel.metadata.num_warps, lanes, int(used["REG"]),
        int(used["STACK"]) + int(used["LOCAL"]), kernel.metadata.shared,
    )  # fmt: skip
    return _cache[key]


def _said(option: str, file: Path) -> str:
    from triton import knobs

    command = [knobs.nvidia.cuobjdump.path, option, str(file)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return run.stdout + run.stderr


def _source(launch: Launch) -> tuple[Any, dict[str, Any]]:
    """What Triton compiles, and the compiler's options: specialised as at a launch."""
    from triton.compiler import ASTSource

    kernel, names = launch.kernel, launch.kernel.arg_names
    given = dict(zip(names, launch.args, strict=False))
    given |= {name: x for name, x in launch.constants.items() if name in names}
    given |= {p.name: p.default for p in kernel.params if p.has_default and p.name not in given}
    types: dict[str, str] = {}
    constants: dict[str, Any] = {}
    aligned: dict[tuple[int, ...], list[Any]] = {}
    for i, parameter in enumerate(kernel.params):
        name, x = parameter.name, given[parameter.name]
        if parameter.is_constexpr or x is None:
            types[name], constants[name] = "constexpr", x
        elif isinstance(x, Tensor):
            types[name] = TYPES[x.dtype]
            if x.data_ptr() % 16 == 0 and not parameter.do_not_specialize_on_alignment:
                aligned[(i,)] = [["tt.divisibility", 16]]
        elif isinstance(x, float):
            types[name] = "fp32"
        else:
            types[name] = "i32" if -(2**31) <= x < 2**31 else "i64"
            if not parameter.do_not_specialize:
                if x == 1:
                    types[name], constants[name] = "constexpr", 1
                elif x % 16 == 0 and not parameter.do_not_specialize_on_alignment:
                    aligned[(i,)] = [["tt.divisibility", 16]]
    options = {name: x for name, x in launch.constants.items() if name not in names}
    return ASTSource(kernel, types, constants, aligned), options


# -- time


@dataclass(frozen=True)
class Cost:
    """What a launch costs.

    Attributes:
        programs: of the launch.
        rounds: of loops, all programs together.
        most: rounds of the program that has most.
        pairs: rounds times lanes: (pixel, face) pairs that are visited.
        per_pairs: instructions of the innermost loop per 32 pairs.
        issued: warp instructions of all programs.
        busy_us: if all units were always busy and work divided evenly.
        latency_us: if warps waited as they do alone, as many at once as there is room for.
        longest_us: of the program that takes longest.
        memory_us: if each tensor passed between memory and chip once.
        us: the estimate, the greatest of these and `Assumptions.kernel_us`.
        exact: whether the loops of the machine code are those of the text one by one.
    """

    programs: int
    rounds: int
    most: int
    pairs: int
    per_pairs: float
    issued: float
    busy_us: float
    latency_us: float
    longest_us: float
    memory_us: float
    us: float
    exact: bool


def cost(
    code: Code, trips: list[np.ndarray], programs: int, moved: int, given: Assumptions
) -> Cost:
    """What a launch costs.

    Args:
        code: of its kernel.
        trips: for each loop of the text, rounds of each program [programs].
        programs: how many there are.
        moved: bytes.
        given: what is assumed.
    """
    exact = len(trips) == len(code.loops)
    pairs_of = list(zip(code.loops, trips, strict=True)) if exact else _matched(code, trips)
    busy: dict[str, float] = {}
    alone = np.full(programs, code.parts[-1].alone(given))
    for part, rounds in [*pairs_of, (code.parts[-1], np.ones(programs, np.int64))]:
        total = float(rounds.sum()) * code.warps
        for unit, cycles in part.busy().items():
            busy[unit] = busy.get(unit, 0.0) + total * cycles
        if part.depth:
            alone = alone + rounds * part.alone(given)
    schedulers, hertz = given.sms * 4, given.ghz * 1e9
    us = {unit: 1e6 * x / schedulers / hertz for unit, x in busy.items()}
    room = min(code.resident(), max(1.0, programs * code.warps / schedulers))
    latency = 1e6 * float(alone.sum()) * code.warps / schedulers / room / hertz
    longest = 1e6 * float(alone.max(initial=0.0)) / hertz
    memory = moved / given.terabytes / 1e6
    inner = max(pairs_of, key=lambda x: int(x[1].sum()) * len(x[0].code), default=None)
    rounds = int(inner[1].sum()) if inner else 0
    per_pairs = len(inner[0].code) * code.warps * 32 / code.lanes if inner else 0.0
    return Cost(
        programs, rounds, int(inner[1].max(initial=0)) if inner else 0, rounds * code.lanes,
        per_pairs, busy["issue"], max(us.values()), latency, longest, memory,
        max(*us.values(), latency, longest, memory, given.kernel_us), exact,
    )  # fmt: skip


def _matched(code: Code, trips: list[np.ndarray]) -> list[tuple[Stretch, np.ndarray]]:
    """Where the compiler dropped, unrolled or split loops: the largest belong together."""
    large = sorted(code.loops, key=lambda x: -len(x.code))
    often = sorted(trips, key=lambda n: -int(n.sum()))
    return list(zip(large, often, strict=False))
