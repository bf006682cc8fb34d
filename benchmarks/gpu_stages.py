"""The stages of `gpu_check.py`: each is a function of the same name, of a place and a report.

Imported once TRITON_INTERPRET is as it shall be.
"""

# Triton compiles some of its functions; their arguments are blocks of float32.
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import importlib
import importlib.util
import itertools
import math
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import gpu_entries
import numpy as np
import torch
import triton
import triton.language as tl
from gpu_check import GRACE, ROOT, Place, Report, write_json
from scenes import INSTANCES, SETUPS, TINY, Setup, Step
from torch import Tensor

from gendr._runtime.triton import mathematics
from gendr._runtime.triton.launch import Launcher
from gendr.logic import random_wiring
from gendr.logic.backends.reference import SOFT_GATES
from gendr.logic.backends.triton import backend as logic_backend
from gendr.logic.backends.wires import Wires
from gendr.mesh import icosphere
from gendr.rendering.backends.triton import tiles
from gendr.sorting.backends.triton import backend as sorting_backend
from gendr.sorting.relaxed import BitonicSort, OddEvenSort
from support import TOLERANCES, relative_l2
from support.arithmetic import ULP
from support.interpreter import quick_interpreter

TOLERANCE = TOLERANCES[torch.float32]
FAMILIES = ("uniform", "logistic", "cauchy.squared"), ("probabilistic", "max", "yager")


# -- what stages share


def warm() -> None:
    """Let Triton's interpreter read the kernels, which takes it longer than to run them here."""
    with quick_interpreter():
        step = Step(TINY[3], INSTANCES[0], "cpu")
        step()
        _lit(step)
        for wires in (OddEvenSort(backend="triton"), BitonicSort(backend="triton")):
            x = torch.zeros(1, 2, requires_grad=True)
            wires.permutation(x).sum().backward()


def prepared(place: Place) -> AbstractContextManager[None]:
    """The context of every stage: Triton's interpreter is made quick where stages are tried out."""
    return quick_interpreter() if place.dry else nullcontext()


def synchronise(place: Place) -> None:
    """Wait for the device."""
    if place.device == "cuda":
        torch.cuda.synchronize()


def milliseconds(run: Callable[[], object], place: Place, seconds: float = 0.5) -> dict[str, Any]:
    """Times of a function that has run before.

    Returns:
        alone_ms: the median of runs that are waited for; steady_ms: of runs one after the other,
        which are waited for at the end, each.
    """
    times: list[float] = []
    end = time.perf_counter() + seconds
    if place.dry:
        start = time.perf_counter()
        run()
        once = (time.perf_counter() - start) * 1e3
        return {"alone_ms": once, "steady_ms": once}
    while not times or (time.perf_counter() < end and len(times) < 200):
        synchronise(place)
        start = time.perf_counter()
        run()
        synchronise(place)
        times.append(time.perf_counter() - start)
    count = max(3, min(100, int(seconds / min(times))))
    start = time.perf_counter()
    for _ in range(count):
        run()
    synchronise(place)
    steady = (time.perf_counter() - start) / count
    return {"alone_ms": statistics.median(times) * 1e3, "steady_ms": steady * 1e3}


def same(got: tuple[Tensor, ...], want: tuple[Tensor, ...]) -> bool:
    """Whether all bits are the same."""
    return all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


def setups(place: Place) -> tuple[Setup, ...]:
    """The four scenes."""
    return TINY if place.dry else SETUPS


def _figure(width: float, height: float, columns: int) -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, columns, figsize=(width, height), squeeze=False)
    return figure, axes[0]


def _save(figure: Any, name: str, place: Place, report: Report) -> None:
    figure.tight_layout()
    figure.savefig(place.out / name, dpi=80, metadata={"Software": None})
    report.picture(name)


def command_output(command: list[str], place: Place, name: str, seconds: float, **env: str) -> int:
    """Run a command with its output in a log; its exit status, 124 if it was stopped."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]]), **env}
    with (place.out / "logs" / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, cwd=ROOT, env=environment,
            start_new_session=True,
        )  # fmt: skip
        try:
            return process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return 124


def log_of(name: str, place: Place) -> str:
    """What a command has written."""
    path = place.out / "logs" / f"{name}.log"
    return path.read_text(encoding="utf-8", errors="replace")


# -- smoke


@triton.jit
def functions_kernel(x, y, out, n, NAME: tl.constexpr, BLOCK: tl.constexpr):
    """Store a function of x, or of x and y, [n]."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    a, b = tl.load(x + i, inside, 1.0), tl.load(y + i, inside, 1.0)
    if NAME == "exp2":
        value = tl.exp2(a)
    elif NAME == "log2":
        value = tl.log2(a)
    elif NAME == "log":
        value = tl.log(a)
    elif NAME == "erf":
        value = tl.erf(a)
    elif NAME == "sqrt":
        value = tl.sqrt(a)
    elif NAME == "rsqrt":
        value = tl.rsqrt(a)
    elif NAME == "divide":
        value = a / b
    else:  # the power of 2 that `exp_parts` makes of a log(2), for an integer a
        value = mathematics.exp_parts(a * 0.6931471805599453, 0.0)[0]
    tl.store(out + i, value, inside)


def _launched(name: str, x: np.ndarray, y: np.ndarray, place: Place) -> np.ndarray:
    first, second = (torch.from_numpy(v.astype(np.float32)).to(place.device) for v in (x, y))
    out, n, block = torch.empty_like(first), len(x), 1024
    with np.errstate(all="ignore"):
        kernel: Any = functions_kernel[(triton.cdiv(n, block),)]
        kernel(first, second, out, n, name, block)
    return out.cpu().numpy().astype(np.float64)


def _ulp(got: np.ndarray, want: np.ndarray) -> float:
    """The largest error in units of the last place, of results that are normal numbers."""
    normal = (np.abs(want) >= 2.0**-126) & (np.abs(want) < 3e38)
    unit = np.spacing(np.abs(want).astype(np.float32)).astype(np.float64)
    return float(np.max(np.abs(got - want)[normal] / unit[normal], initial=0.0))


def arithmetic(place: Place, report: Report) -> None:
    """Whether the GPU computes as `support.arithmetic` says that it does."""
    integers = np.arange(-126.0, 128.0)
    exact = np.exp2(integers)
    wrong = _launched("exp2", integers, integers, place) != exact
    report.row("exp2 of integers", numbers=len(integers), not_exact=int(wrong.sum()))
    made = _launched("whole power", integers[:-1], integers[:-1], place)
    report.check("exp_parts makes exact powers of 2", bool((np.log2(made) % 1 == 0).all()))
    rng = np.random.default_rng(0)
    count = 2_000 if place.dry else 200_000
    wide = np.exp2(rng.uniform(-120, 120, count)).astype(np.float32).astype(np.float64)
    near = rng.uniform(-10, 10, count).astype(np.float32).astype(np.float64)
    erf = np.vectorize(math.erf)
    cases: dict[str, tuple[np.ndarray, Callable[..., np.ndarray]]] = {
        "exp2": (near * 12, lambda x, _: np.exp2(x)),
        "log2": (wide, lambda x, _: np.log2(x)),
        "log": (wide, lambda x, _: np.log(x)),
        "erf": (near, lambda x, _: erf(x)),
        "sqrt": (wide, lambda x, _: np.sqrt(x)),
        "rsqrt": (wide, lambda x, _: 1 / np.sqrt(x)),
        "divide": (near, lambda x, y: x / y),
    }
    other = rng.permutation(near)
    for name, (x, oracle) in cases.items():
        x = x.astype(np.float32).astype(np.float64)
        worst = _ulp(_launched(name, x, other, place), oracle(x, other))
        report.check(f"{name} is within {ULP} ulp", worst <= ULP, f"{worst:.2f} ulp")


def smoke(place: Place, report: Report) -> None:
    """Is anything wrong at all?"""
    arithmetic(place, report)
    sphere = TINY[0] if place.dry else Setup("sphere", lambda: icosphere(2).scaled(0.5), 2, 64)
    step = Step(sphere, INSTANCES[0], place.device)
    reference = Step(sphere, INSTANCES[0], "cpu", "reference", torch.float64)
    first, want = step.outcome(), reference.outcome()
    got = tuple(x.cpu().double() for x in first)
    apart = float((got[0] - want[0]).abs().max())
    report.check("alpha is that of the reference", apart <= TOLERANCE.alpha, f"{apart:.1e}")
    apart = relative_l2(got[1], want[1])
    report.check("so is its gradient", apart <= TOLERANCE.gradient, f"{apart:.1e} relative")
    figure, axes = _figure(7.5, 2.8, 3)
    for axis, image, title in zip(
        axes,
        (got[0][0], want[0][0], got[0][0] - want[0][0]),
        ("triton", "reference", "difference"),
        strict=True,
    ):
        shown = axis.imshow(image.numpy(), cmap="gray" if title != "difference" else "RdBu")
        axis.set(title=title, xticks=(), yticks=())
        if title == "difference":
            figure.colorbar(shown, ax=axis)
    _save(figure, "smoke.png", place, report)

    report.check("two runs have the same bits", same(step.outcome(), first))
    with _default_dtype(torch.float64):
        report.check("so has one with float64 as default", same(step.outcome(), first))
    if place.device == "cuda":
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            second = step.outcome()
        busy = step.outcome()  # at the same time, on the first stream
        torch.cuda.synchronize()
        report.check("so has a second stream", same(second, first) and same(busy, first))
    else:
        report.note("There are no streams on a CPU.")
    replayed(step, first, report)
    lit = _lit(step), _lit(step)
    report.check("lit colours and their gradients have the same bits twice", same(*lit))


def replayed(step: Step, want: tuple[Tensor, ...], report: Report) -> None:
    """Steps of `Renderer.compiled`: the third is captured, all have the bits of the renderer."""
    renderer, step.renderer = step.renderer, step.renderer.compiled()
    try:
        reason = step.renderer.why_not(step.mesh, step.camera)
        equal = [same(step.outcome(), want) for _ in range(5)]
        report.check("compiled() has the same bits", all(equal), f"{equal.count(False)} differ")
        report.check("it has made a graph", len(step.renderer) == (reason is None), reason or "")
    except RuntimeError as error:
        print(traceback.format_exc(), flush=True)
        report.check("compiled() works", passed=False, detail=str(error)[:300])
    finally:
        step.renderer = renderer


def _lit(step: Step) -> tuple[Tensor, ...]:
    step.vertices.grad = None
    out = step.renderer(step.mesh.with_vertices(step.vertices), step.camera)
    out.rgb.square().sum().backward()
    assert step.vertices.grad is not None
    return out.rgb.detach(), step.vertices.grad


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Generator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


# -- tests

_OUTCOME = re.compile(
    r"^(?:\[gw\d+\] \[ *\d+%\] )?(?:(PASSED|FAILED|ERROR|SKIPPED|XFAIL) )?"
    r"(tests/\S+::.*?)(?: (PASSED|FAILED|ERROR|SKIPPED|XFAIL)\b.*)?$"
)


def pytest_outcomes(text: str) -> dict[str, str]:
    """How tests ended, by name, from the log of `pytest -v`, with or without xdist."""
    matches = (_OUTCOME.match(line) for line in text.splitlines())
    return {m[2]: m[1] or m[3] for m in matches if m and (m[1] or m[3])}


def run_tests(place: Place, report: Report, name: str, *options: str) -> None:
    """Run tests on the GPU, as many as there is time for; in a dry run only collect them."""
    options = ("-p", "no:cacheprovider", *options)
    command = [sys.executable, "-m", "pytest", *options]
    if place.dry:
        code = collect(place, f"pytest-{name}", *options)
        found = re.search(r"(\d+)(?:/\d+)? tests collected", log_of(f"pytest-{name}", place))
        report.check("tests can be collected", code == 0 and found is not None)
        report.row("collected", tests=int(found[1]) if found else 0)
        return
    if importlib.util.find_spec("xdist"):
        # Compilation is the processor's work.
        command += ["-n", str(min(12, os.cpu_count() or 1)), "--dist", "worksteal"]
    code = command_output(
        [*command, "-v", "--tb=short", "--durations=10"], place, f"pytest-{name}",
        place.seconds - GRACE,
    )  # fmt: skip
    outcomes = pytest_outcomes(log_of(f"pytest-{name}", place))
    counts = {kind.lower(): list(outcomes.values()).count(kind) for kind in ("PASSED", "SKIPPED")}
    wrong = sorted(x for x, outcome in outcomes.items() if outcome in ("FAILED", "ERROR"))
    report.row("tests", **counts, failed=len(wrong), all_ran=code in (0, 1))
    if code == 124:
        report.note("There was no time for all of them.")
    for test in wrong:
        report.check(test, passed=False)
    report.check("some tests ran", bool(outcomes))


def collect(place: Place, name: str, *options: str) -> int:
    """Collect tests, with the names in a log, in this process: it has imported all that they do."""
    import pytest

    before = Path.cwd()
    with (place.out / "logs" / f"{name}.log").open("w", encoding="utf-8") as log:
        try:
            os.chdir(ROOT)
            with redirect_stdout(log):
                return int(pytest.main([*options, "--collect-only", "-q"]))
        finally:
            os.chdir(before)


def tests(place: Place, report: Report) -> None:
    """The tests of every Triton backend."""
    files = sorted(str(x.relative_to(ROOT)) for x in (ROOT / "tests").rglob("test_triton*.py"))
    run_tests(place, report, "tests", *files, "--ignore=tests/rendering/test_triton_compile.py")


def instances(place: Place, report: Report) -> None:
    """Alpha and all gradients of every renderer against the reference."""
    test = "tests/rendering/test_triton.py::test_alpha_and_all_gradients_equal_the_reference"
    run_tests(place, report, "instances", test, *(() if place.dry else ("--every",)))


# -- what users call


def entries(place: Place, report: Report) -> None:
    """Each of `gpu_entries.py`, the slow ones of a CPU left out in a dry run."""
    device = torch.device(place.device)
    for name, call in gpu_entries.ENTRIES.items():
        if place.dry and name not in ("silhouette", "compiled", "losses", "gates"):
            continue
        start = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                wrong = gpu_entries.wrong_with(call(device), device)
                synchronise(place)
        except Exception as error:  # noqa: BLE001 (the others are called)
            print(traceback.format_exc(), flush=True)
            wrong = f"{type(error).__name__}: {error}"[:300]
        report.row("seconds", entry=name, seconds=time.perf_counter() - start)
        report.check(name, passed=not wrong, detail=wrong)


# -- memcheck


def small_scenes(place: Place) -> int:
    """Small scenes of all kinds, with gradients; returns how many."""
    count = 0
    laws, families = ((x[:1] if place.dry else x) for x in FAMILIES)
    setups = TINY[2:3] if place.dry else TINY
    for law in laws:
        step = None
        for family in families:
            instance = replace(INSTANCES[0], options={"dist": law, "tconorm": family})
            for setup in setups:
                step = Step(setup, instance, place.device)
                step()
                count += 1
        if step is not None:
            _lit(step)  # colours too
    for method in (OddEvenSort(10.0, backend="triton"), BitonicSort(10.0, backend="triton")):
        for n in (3,) if place.dry else (5, 33, 100):
            x = torch.randn(3, n, device=place.device, requires_grad=True)
            method.permutation(x).square().sum().backward()
            count += 1
    for fan_in in (2,) if place.dry else (1, 2, 6):
        outcome_of_gates(logic_backend, *layer_of_gates(33, fan_in, 5, torch.float32, place))
        count += 1
    synchronise(place)
    return count


def memcheck(place: Place, report: Report) -> None:
    """Small scenes under every tool of compute-sanitizer for which there is time."""
    sanitizer = None if place.dry else shutil.which("compute-sanitizer")
    if sanitizer is None:
        where = "in a dry run" if place.dry else "on PATH"
        report.note(f"There is no compute-sanitizer {where}: the small scenes ran without it.")
        report.row("small scenes", tool="none", scenes=small_scenes(place), errors=0)
        return
    small_scenes(place)  # compiled here, so that the tools need not wait for that
    end = time.monotonic() + place.seconds - GRACE
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'benchmarks')!r}); import gpu_stages as g"
    code += f"; g.small_scenes(g.Place('cuda', False, g.Path({str(place.out)!r}), 0.0))"
    for tool in ("memcheck", "racecheck", "synccheck", "initcheck"):
        left = end - time.monotonic()
        if left < 15:
            report.note(f"There was no time for {tool}.")
            continue
        command = [sanitizer, "--tool", tool, "--error-exitcode", "9", sys.executable, "-c", code]
        # Each tensor in memory of its own, so that its ends are known.
        status = command_output(command, place, tool, left, PYTORCH_NO_CUDA_MEMORY_CACHING="1")
        found = re.findall(r"ERROR SUMMARY: (\d+) error", log_of(tool, place))
        if status == 124:
            report.note(f"{tool} was stopped after {left:.0f} s.")
        else:
            said = f"exit status {status}, errors {found}"
            # PyTorch leaves some memory that it copies unwritten: initcheck only informs.
            report.check(f"{tool} finds nothing", status == 0 or tool == "initcheck", said)


# -- sorting, again and again


def repeats(place: Place, report: Report) -> None:
    """Permutations and gradients of the same values must have the same bits."""
    sizes = ((2, 4),) if place.dry else ((100, 32), (100, 128), (7, 300), (1, 1024))
    for batch, n in sizes:
        for name, kind in (("odd_even", OddEvenSort), ("bitonic", BitonicSort)):
            method = kind(10.0, backend="triton")
            generator = torch.Generator().manual_seed(n)
            x = torch.randn(batch, n, generator=generator).to(place.device).requires_grad_()
            grad = torch.randn(batch, n, n, generator=generator).to(place.device)

            def outcome(
                method: Any = method, x: Tensor = x, grad: Tensor = grad
            ) -> tuple[Tensor, Tensor]:
                p = method.permutation(x)
                return p.detach(), torch.autograd.grad(p, x, grad)[0]

            first, times = outcome(), 2 if place.dry else 20
            equal = [same(outcome(), first) for _ in range(times)]
            what = f"{name} {batch} × {n}: {times} times the same bits"
            report.check(what, all(equal), f"{equal.count(False)} differ")


# -- the two scenes with a target


def profiled(step: Step, place: Place, count: int) -> tuple[float, list[dict[str, Any]]]:
    """Milliseconds in which the GPU is busy in a step, and its kernels, the longest first."""
    from torch._C._autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    kinds = [ProfilerActivity.CPU]
    kinds += [ProfilerActivity.CUDA] if place.device == "cuda" else []
    with profile(activities=kinds) as prof:
        for _ in range(count):
            step()
        synchronise(place)
    spans: list[tuple[float, float]] = []
    kernels: dict[str, list[float]] = {}
    for event in prof.events() or ():
        if event.device_type == DeviceType.CUDA:
            spans.append((event.time_range.start, event.time_range.end))
            kernels.setdefault(event.name, []).append(event.time_range.elapsed_us())
    busy, until = 0.0, -1.0
    for start, end in sorted(spans):
        busy += max(0.0, end - max(start, until))
        until = max(until, end)
    rows = [
        {"kernel": name[:60], "launches": len(us) / count, "us": sum(us) / count}
        for name, us in kernels.items()
    ]
    return busy / count / 1e3, sorted(rows, key=lambda row: -row["us"])


def waits(step: Step, place: Place) -> list[str]:
    """Lines at which a step waits for the GPU."""
    if place.device != "cuda":
        return []
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    lines = [x for x in caught if "synchroniz" in str(x.message)]
    return [f"{Path(x.filename).name}:{x.lineno}" for x in lines]


def targets(place: Place, report: Report) -> None:
    """Milliseconds of a step, and what the GPU does meanwhile."""
    for setup in setups(place)[:2]:
        for instance in INSTANCES[: 1 if place.dry else None]:
            step = Step(setup, instance, place.device)
            for _ in range(0 if place.dry else 5):
                step()
            found = milliseconds(step, place)
            with torch.no_grad():
                forward = milliseconds(step.alpha, place, 0.3)
            busy, kernels = profiled(step, place, 1 if place.dry else 10)
            stops = waits(step, place)
            report.row(
                "steps",
                scene=setup.name,
                instance=instance.name,
                target_ms=setup.target_ms,
                **found,
                forward_ms=forward["steady_ms"],
                busy_ms=busy,
                busy_part=busy / found["steady_ms"],
                launches=sum(row["launches"] for row in kernels),
                waits=len(stops),
            )
            for line in sorted(set(stops)):
                report.row("waits", scene=setup.name, line=line, times=stops.count(line))
            for row in kernels[:15]:
                report.row(f"kernels: {setup.name}, {instance.name}", **row)


# -- sweeps


def each(**values: tuple[Any, ...]) -> list[dict[str, Any]]:
    """A trial for every value of some fields, of one field after the other."""
    return [{name: x} for name, every in values.items() for x in every]


def _tiles(prefix: str, *sizes: tuple[int, int]) -> list[dict[str, Any]]:
    """Tiles with four or more pixels for every thread."""
    return [
        {f"{prefix}tile": x, f"{prefix}tile_warps": max(1, min(4, x[0] * x[1] // 128))}
        for x in sizes
    ]


def _blocks(pixels: str, warps: str, *sizes: int) -> list[dict[str, Any]]:
    """Blocks with a pixel for every thread."""
    return [{pixels: n, warps: n // 32} for n in sizes]


# What is tried: other values of fields of a launch, in this order.
RENDERING_TRIALS = [
    *_tiles("", (8, 8), (8, 16), (16, 16), (16, 32), (32, 32)),
    *_tiles("small_", (4, 8), (8, 8), (8, 16), (16, 16)),
    *_blocks("block_pixels", "block_warps", 32, 64, 128, 256),
    *_blocks("small_block", "small_block_warps", 32, 64, 128),
    *each(
        tile_warps=(1, 2, 4),
        small_tile_warps=(1, 2, 4),
        block_warps=(1, 2, 4, 8),
        small_block_warps=(1, 2, 4),
        block_faces=(1, 2, 4, 8),
        programs=(1024, 4096, 16384),
        warps=(1, 2, 4, 8),
    ),
]
SORTING_TRIALS = each(
    columns=(4, 8, 16, 32),
    pairs=(64, 128, 256, 512),
    held_back=(128, 256, 512),
    shares=(256, 512, 1024),
    programs=(512, 1024, 2048),
)
LOGIC_TRIALS = each(
    batch=(64, 128, 256, 512),
    held=(128, 256, 512, 1024, 2048),
    held_tables=(256, 512, 1024, 2048, 4096),
    thread=(1, 2, 4, 8),
)

Launched = list[tuple[Any, ...]]  # kernels with their grids, constants and options


@contextmanager
def recorded(seen: Launched) -> Generator[None]:
    """Within it, a list gets all that is launched."""
    launch = Launcher.__call__

    def recording(launcher: Launcher, grid: tuple[int, ...], *args: Any) -> None:
        seen.append((launcher.kernel, grid, *launcher.constants.items()))
        launch(launcher, grid, *args)

    with mock.patch.object(Launcher, "__call__", recording):
        yield


def descend(
    module: Any,
    trials: list[dict[str, Any]],
    runs: dict[str, Callable[[], object]],
    place: Place,
    report: Report,
    until: float,
) -> Any:
    """Change one field of `module.LAUNCH` after the other, and keep what is fastest.

    What counts is the mean over the scenes of the logarithm of the time. Scenes for which a trial
    launches nothing else are not timed again, and trials that do so for none are passed over.

    Args:
        module: whose launches are changed, and left as they were.
        trials: other values of fields.
        runs: the scenes.
        place: where.
        report: gets a row for everything that is timed.
        until: the time, of `time.monotonic`, after which nothing more is tried.

    Returns:
        The best launch.
    """
    before = module.LAUNCH
    tables = f"sweep of {module.__name__.removeprefix('gendr.')}"
    # Of the best launch: milliseconds of each scene, and what is launched.
    milliseconds_of: dict[str, float] = {}
    launched: dict[str, Launched] = {}

    def better(launch: Any, changed: str) -> bool:
        module.LAUNCH = launch
        row: dict[str, Any] = {"changed": changed}
        found: dict[str, Launched] = {}
        try:
            for name, run in runs.items():
                found[name] = []
                with recorded(found[name]):
                    if place.dry:
                        row[name] = milliseconds(run, place)["steady_ms"]
                    else:
                        run()  # compiles
                if found[name] == launched.get(name):
                    row[name] = milliseconds_of[name]
                elif not place.dry:
                    row[name] = milliseconds(run, place, 0.1)["steady_ms"]
        except Exception as error:  # noqa: BLE001 (such as too many resources: it is out)
            synchronise(place)
            report.row(tables, **row, error=f"{type(error).__name__}: {error}"[:200])
            return False
        finally:
            module.LAUNCH = before
        if found == launched:
            return False
        report.row(tables, **row)
        if launched:
            slower = statistics.fmean(math.log(row[x] / milliseconds_of[x]) for x in runs)
            if slower >= -0.01:  # less than 1 % faster may be chance
                return False
        milliseconds_of.update({name: row[name] for name in runs})
        launched.update(found)
        return True

    best = before
    if not better(before, "nothing"):
        return best
    others = (x for x in trials if any(getattr(best, name) != value for name, value in x.items()))
    for values in itertools.islice(others, 1 if place.dry else None):
        if time.monotonic() > until:
            report.note(f"There was no time for all of {module.__name__}.")
            return best
        trial = replace(best, **values)
        if better(trial, ", ".join(f"{name} = {value}" for name, value in values.items())):
            best = trial
    return best


def line_of(launch: Any) -> str:
    """A launch as the code that makes it."""
    values = {x.name: getattr(launch, x.name) for x in fields(launch)}
    usual = type(launch)()
    text = (f"{name}={x!r}" for name, x in values.items() if x != getattr(usual, name))
    return f"{type(launch).__name__}({', '.join(text)})"


def sweeps(place: Place, report: Report) -> None:
    """Find the best launches; they are written as JSON, and as the line for the code."""
    start, seconds = time.monotonic(), place.seconds - GRACE
    step_of = {
        x.name: Step(x, INSTANCES[0], place.device) for x in setups(place)[: 1 if place.dry else 3]
    }
    sorts: dict[str, Callable[[], object]] = {}
    for kind, batch, n in (
        ((OddEvenSort, 1, 4),)
        if place.dry
        else ((OddEvenSort, 1, 1024), (BitonicSort, 1, 1024), (OddEvenSort, 100, 128))
    ):
        method = kind(10.0, backend="triton")
        x = torch.randn(batch, n, device=place.device, requires_grad=True)
        sorts[f"{kind.__name__} {batch} × {n}"] = lambda method=method, x=x: (
            method.permutation(x).square().sum().backward()
        )
    gates: dict[str, Callable[[], object]] = {}
    for fan_in, batch, width in ((2, 3, 8),) if place.dry else ((2, 100, 8000), (6, 512, 2000)):
        given = layer_of_gates(width, fan_in, batch, torch.float32, place)
        name = f"{width} gates of {fan_in} inputs × {batch}"
        gates[name] = partial(outcome_of_gates, logic_backend, *given)
    chosen: dict[str, Any] = {}
    for module, trials, runs, part in (
        (tiles, RENDERING_TRIALS, step_of, 0.65),
        (sorting_backend, SORTING_TRIALS, sorts, 0.9),
        (logic_backend, LOGIC_TRIALS, gates, 1.0),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            best = descend(module, trials, runs, place, report, start + part * seconds)  # type: ignore[arg-type]
        chosen[module.__name__] = {x.name: getattr(best, x.name) for x in fields(best)}
        report.note(f"Best in `{module.__name__}`: `{line_of(best)}`")
        write_json(place.out / "launch.json", chosen)
    _draw_sweeps(place, report)


def _draw_sweeps(place: Place, report: Report) -> None:
    tables = {k: v for k, v in report.found["tables"].items() if k.startswith("sweep")}
    figure, axes = _figure(6 * len(tables), 5, len(tables))
    for axis, (name, rows) in zip(axes, tables.items(), strict=True):
        rows = [row for row in rows if "error" not in row]
        for scene in [key for key in rows[0] if key != "changed"] if rows else ():
            relative = [row[scene] / rows[0][scene] for row in rows]
            axis.plot(relative, range(len(rows)), "o", ms=4, label=scene)
        axis.set_yticks(range(len(rows)), [row["changed"] for row in rows], fontsize=6)
        axis.set(title=name, xlabel="time / now")
        axis.axvline(1, color="0.7", lw=0.8)
        axis.legend(fontsize=7, frameon=False)
    _save(figure, "sweeps.png", place, report)


# -- unbalanced scenes


def unbalanced(place: Place, report: Report) -> None:
    """Steps of scenes whose work is hard to divide, beside their memory."""
    figure, axes = _figure(6, 3, 2)
    for setup, axis in zip(setups(place)[2:], axes, strict=True):
        image = torch.empty(0)
        for instance in INSTANCES[: 1 if place.dry else None]:
            step = Step(setup, instance, place.device)
            for _ in range(0 if place.dry else 3):
                step()
            synchronise(place)
            row: dict[str, Any] = milliseconds(step, place)
            busy, kernels = profiled(step, place, 1 if place.dry else 5)
            if place.device == "cuda":
                torch.cuda.reset_peak_memory_stats()
                before = torch.cuda.memory_allocated()
                step()
                row["megabytes"] = (torch.cuda.max_memory_allocated() - before) / 1e6
            row["busy_ms"] = busy
            if kernels:
                row |= {"longest_kernel": kernels[0]["kernel"], "its_us": kernels[0]["us"]}
            report.row("steps", scene=setup.name, instance=instance.name, **row)
            with torch.no_grad():
                image = step.alpha()[0].cpu()
        axis.imshow(image.numpy(), cmap="gray", vmin=0, vmax=1)
        axis.set_title(setup.name, fontsize=7)
        axis.set(xticks=(), yticks=())
    _save(figure, "unbalanced.png", place, report)


# -- graphs


def captured(step: Step) -> Callable[[], tuple[Tensor, Tensor]]:
    """A step of `Renderer.compiled`, as CUDA graphs."""
    step.renderer = step.renderer.compiled()
    for _ in range(3):
        step.outcome()
    return step.outcome


def compiled(step: Step, **options: Any) -> Callable[[], tuple[Tensor, Tensor]]:
    """A step whose forward pass is compiled by PyTorch."""
    forward = torch.compile(step.alpha, **options)

    def run() -> tuple[Tensor, Tensor]:
        step.vertices.grad = None
        alpha = forward()
        alpha.backward(step.grad)
        assert step.vertices.grad is not None
        return alpha.detach(), step.vertices.grad

    return run


def graphs(place: Place, report: Report) -> None:
    """Whether a step can be captured, what it then takes, and whether its bits are the same."""
    setup = setups(place)[0]
    ways: dict[str, Callable[[Step], Callable[[], tuple[Tensor, Tensor]]]] = {
        "as it is": lambda step: step.outcome,
        "compiled()": captured,
        "torch.compile, reduce-overhead": lambda step: compiled(step, mode="reduce-overhead"),
    }
    if place.device != "cuda":
        report.note("There are no CUDA graphs on a CPU, and reduce-overhead makes them.")
        del ways["torch.compile, reduce-overhead"]
    for name, way in ways.items():
        step = Step(setup, INSTANCES[0], place.device)
        want = step.outcome()
        want = want[0].clone(), want[1].clone()
        try:
            run = way(step)
            for _ in range(0 if place.dry else 2):
                run()
            equal = same(run(), want)
            found = milliseconds(run, place)
            # Other vertices: a graph that kept the old ones would give the old image.
            with torch.no_grad():
                step.vertices.mul_(0.9)
            moved = not torch.equal(run()[0], want[0])
        except Exception:  # noqa: BLE001 (whatever it is, it is the answer)
            print(traceback.format_exc(), flush=True)
            said = traceback.format_exc().strip().splitlines()[-1][:300]
            report.check(f"{name} works", passed=False, detail=said)
            continue
        report.check(f"{name} has the same bits", equal)
        report.check(f"{name} sees other vertices", moved)
        report.row("steps", scene=setup.name, way=name, **found)


# -- the tables of the other benchmarks


def _benchmark(module: str, place: Place, report: Report, calls: dict[str, list[str]]) -> None:
    """Call a benchmark's main function once for each part; a part that fails leaves the others."""
    program = importlib.import_module(module)
    for part, options in calls.items():
        try:
            with _without_limits() if place.dry else nullcontext():
                program.main(options)
        except (Exception, SystemExit) as error:  # noqa: BLE001 (the other parts are run)
            print(traceback.format_exc(), flush=True)
            report.check(part, passed=False, detail=f"{type(error).__name__}: {error}"[:300])
        else:
            report.check(part, passed=True)


@contextmanager
def _without_limits() -> Generator[None]:
    """One distribution and nothing to compare it with: a CPU measures the others for long."""
    import speed

    limits = speed.Limits(1e9, 1e9, 1.0)
    one = {"uniform": speed.SCALES["uniform"]}
    with (
        mock.patch.object(speed.Limits, "of", return_value=limits),
        mock.patch.object(speed, "SCALES", one),
        mock.patch.dict(speed.MOST_DENSE, cpu=0),
        mock.patch.object(speed, "peak_memory", return_value=None),  # of another process
    ):
        yield


def rendering(place: Place, report: Report) -> None:
    """`speed.py`, the most wanted scenes first, so that those are there if time runs out."""
    device = ["--device", place.device]
    if place.dry:
        patterns, more = {"quick": "sphere_642/1x32/uniform"}, ["--quick", "--repeat", "1"]
    else:
        more = ["--repeat", "10"]
        patterns = {
            "sphere_40k": "sphere_40k/1x1024",
            "sphere_642-64": "sphere_642/.*x64/",
            "sphere_642": "sphere_642/.*x(256|1024)/",
            "teapot": "teapot/",
            "million": "million/.*/uniform",
        }
    calls = {
        name: [*device, *more, "--scenes", pattern, "--json", str(place.out / f"speed-{name}.json")]
        for name, pattern in patterns.items()
    }
    if not place.dry:
        calls["sphere_642-64"] += ["--plot", str(place.out / "speed.png")]
    _benchmark("speed", place, report, calls)


def sorting(place: Place, report: Report) -> None:
    """`sorting.py`."""
    options = ["--device", place.device, "--out", str(place.out)]
    options += ["--quick", "--cases", "bitonic/3x8", "--repeat", "1"] if place.dry else []
    _benchmark("sorting", place, report, {"all cases": options})


# -- logic gate networks


def layer_of_gates(
    width: int, fan_in: int, batch: int, dtype: torch.dtype, place: Place
) -> tuple[Tensor, Wires, Tensor]:
    """Features, wires and tables of a layer as wide as what it reads, the same in every call."""
    generator = torch.Generator().manual_seed(2)
    x, tables = (torch.rand(width, n, generator=generator) for n in (batch, 1 << fan_in))
    wires = random_wiring(width, width, fan_in, seed=1).to(place.device)
    x, tables = (t.to(place.device, dtype).requires_grad_() for t in (x, tables))
    return x, Wires(wires, width), tables


def outcome_of_gates(kernels: Any, x: Tensor, wires: Wires, tables: Tensor) -> tuple[Tensor, ...]:
    """Outputs and gradients."""
    y = SOFT_GATES(kernels, wires, x, tables)
    grad = torch.linspace(-1, 2, y.numel()).to(y).reshape(y.shape)
    return y.detach(), *torch.autograd.grad(y, (x, tables), grad)


def logic(place: Place, report: Report) -> None:
    """Layers of gates against the reference, twice each, and `logic.py`."""
    cases = (
        ((2, 8, 3), (3, 8, 3))
        if place.dry
        else ((2, 8000, 100), *((k, 500, 257) for k in range(1, 7)))
    )
    limits = {torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 1e-2}
    for (fan_in, width, batch), (dtype, limit) in itertools.product(cases, limits.items()):
        x, wires, tables = layer_of_gates(width, fan_in, batch, dtype, place)
        first = outcome_of_gates(logic_backend, x, wires, tables)
        doubles = (t.detach().cpu().double().requires_grad_() for t in (x, tables))
        there = Wires(wires.inputs.cpu(), width)
        want = outcome_of_gates(None, next(doubles), there, next(doubles))
        apart = max(relative_l2(a.cpu().double(), b) for a, b in zip(first, want, strict=True))
        what = f"{width} gates of {fan_in} inputs × {batch}, {str(dtype).removeprefix('torch.')}"
        report.check(f"{what}: that of the reference", apart <= limit, f"{apart:.1e} relative")
        again = outcome_of_gates(logic_backend, x, wires, tables)
        report.check(f"{what}: twice the same bits", same(again, first))
    options = ["--device", place.device, "--out", str(place.out)]
    options += ["--quick", "--repeat", "1"] if place.dry else []
    _benchmark("logic", place, report, {"a training step": options})
