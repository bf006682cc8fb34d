"""Everything that a first GPU must answer, in order of importance, in one command of 25 minutes.

    python benchmarks/gpu_check.py                       # to docs/results/gpu-DEVICE
    python benchmarks/gpu_check.py --resume              # what failed or was not reached
    python benchmarks/gpu_check.py --only smoke targets  # some
    python benchmarks/gpu_check.py --dry-run --out /tmp/dry

Stages run one after the other, each in a process of its own, which may crash or hang: a stage is
stopped at the end of its time, what it has measured by then stays, and the next begins. Time that
a stage leaves goes to those after it. After every stage gpu-check.json and gpu-check.md are written
whole; logs lie beside them. The exit status is 1 if a stage failed.

{stages}

--dry-run does the same on tiny scenes on the CPU, where Triton's kernels are interpreted: it shows
that the program works, not that the GPU does. Tests are then collected and not run.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import importlib.util
import itertools
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from gendr._common.files import write_whole
from gendr.cli.command_line import Parser, above, run_program
from gendr.jobs.folders import writable_folder
from lab.pages import table

ROOT = Path(__file__).resolve().parents[1]
GRACE = 5.0  # seconds of its time that a stage leaves to its end
DONE = "passed"


@dataclass(frozen=True)
class Place:
    """Where a stage runs, and what it finds.

    Attributes:
        device: "cuda", or "cpu" in a dry run.
        out: the folder of all results.
        file: of this stage, written after each piece: a stage that is stopped loses nothing.
        seconds: until the stage must have ended.
    """

    device: str
    out: Path
    file: Path
    seconds: float

    def __post_init__(self) -> None:
        self._add()

    @property
    def dry(self) -> bool:
        """Whether scenes are tiny, and Triton's kernels interpreted."""
        return self.device == "cpu"

    def _add(self, table: str | None = None, **row: Any) -> None:
        found: dict[str, Any] = {"checks": [], "tables": {}}
        if table is not None:
            found = json.loads(self.file.read_text(encoding="utf-8"))
            rows = found if table == "checks" else found["tables"]
            rows.setdefault(table, []).append(row)
        write_json(self.file, found)

    def check(self, what: str, passed: bool, detail: object = "") -> None:
        """A question with an answer; a stage with a wrong one has failed."""
        print(f"{'passed' if passed else 'FAILED'}: {what} {detail}", flush=True)
        self._add("checks", what=what, passed=bool(passed), detail=str(detail))

    def failed(self, what: str) -> None:
        """A question that the exception in hand has answered."""
        traceback.print_exc()
        self.check(what, passed=False, detail=traceback.format_exc().strip().splitlines()[-1][:300])

    def row(self, name: str, **values: Any) -> None:
        """A row of a table."""
        print(name, values, flush=True)
        self._add(name, **values)

    def synchronise(self) -> None:
        """Wait for the device."""
        if not self.dry:
            torch.cuda.synchronize()

    def milliseconds(self, run: Callable[[], object], seconds: float = 0.5) -> float:
        """Of a run among others, after some that may compile; waited for at the end only."""
        if self.dry:
            counts = [1]
        else:
            run()
            self.synchronise()
            start = time.perf_counter()
            run()
            self.synchronise()
            once = time.perf_counter() - start
            counts = 3 * [max(1, min(100, int(seconds / 3 / once)))]
        times: list[float] = []
        for count in counts:
            start = time.perf_counter()
            for _ in range(count):
                run()
            self.synchronise()
            times.append((time.perf_counter() - start) / count * 1e3)
        return statistics.median(times)


def same(got: tuple[Tensor, ...], want: tuple[Tensor, ...]) -> bool:
    """Whether all bits are the same."""
    return all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


# -- the stages


def smoke(place: Place) -> None:
    """Is anything wrong at all?"""
    from scenes import INSTANCES, SETUPS, TINY, Step

    from gendr.sorting.relaxed import BitonicSort, OddEvenSort
    from support import TOLERANCES, relative_l2

    setup, allowed = (TINY if place.dry else SETUPS)[0], TOLERANCES[torch.float32]
    step = Step(setup, INSTANCES[0], place.device)
    first = step.outcome()
    few = replace(setup, views=2)  # the reference meets every face in every pixel
    got = tuple(x.cpu().double() for x in Step(few, INSTANCES[0], place.device).outcome())
    want = Step(few, INSTANCES[0], "cpu", "reference", torch.float64).outcome()
    plain = Step(few, INSTANCES[0], "cpu", "reference").outcome()
    apart, rounding = (float((x - want[0]).abs().max()) for x in (got[0], plain[0]))
    # Where edges are steep, float32 itself is further from float64 than most scenes allow.
    close = apart <= max(allowed.alpha, 4 * rounding)
    detail = f"{apart:.1e}; plain float32 on the CPU {rounding:.1e}"
    place.check("alpha is that of the reference", close, detail)
    apart = relative_l2(got[1], want[1])
    place.check("so is its gradient", apart <= allowed.gradient, f"{apart:.1e} relative")
    place.check("two runs have the same bits", same(step.outcome(), first))
    place.check("lit colours have the same bits twice", same(step.lit(), step.lit()))
    torch.set_default_dtype(torch.float64)
    place.check("so has a run with float64 as default", same(step.outcome(), first))
    torch.set_default_dtype(torch.float32)
    if not place.dry:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            second = step.outcome()
        busy = step.outcome()  # at the same time, on the first stream
        torch.cuda.synchronize()
        place.check("so has a second stream", same(second, first) and same(busy, first))
    sizes = ((2, 4),) if place.dry else ((100, 32), (100, 128), (7, 300), (1, 1024))
    for (batch, n), kind in itertools.product(sizes, (OddEvenSort, BitonicSort)):
        run = partial(_sorted, kind(10.0, backend="triton"), batch, n, place.device)
        equal = [same(run(), run()) for _ in range(1 if place.dry else 10)]
        place.check(f"{kind.__name__} {batch} × {n} has the same bits twice", all(equal))


def _sorted(method: Any, batch: int, n: int, device: str) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(n)
    x = torch.randn(batch, n, generator=generator).to(device).requires_grad_()
    p = method.permutation(x)
    grad = torch.randn(p.shape, generator=generator).to(device)
    return p.detach(), torch.autograd.grad(p, x, grad)[0]


def entries(place: Place) -> None:
    """Each of `gpu_entries.py`, in a dry run those that are quick on a CPU."""
    import gpu_entries

    device = torch.device(place.device)
    quick = ("silhouette", "compiled", "losses", "gates")
    for name in quick if place.dry else gpu_entries.ENTRIES:
        start = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                wrong = gpu_entries.wrong_with(gpu_entries.ENTRIES[name](device), device)
                place.synchronise()
        except Exception:  # noqa: BLE001 (the others are called)
            place.failed(name)
        else:
            place.row("seconds", entry=name, seconds=time.perf_counter() - start)
            place.check(name, passed=not wrong, detail=wrong)


_OUTCOME = re.compile(
    r"^(?:\[gw\d+\] \[ *\d+%\] )?(?:(PASSED|FAILED|ERROR|SKIPPED|XFAIL) )?"
    r"(tests/\S+::.*?)(?: (PASSED|FAILED|ERROR|SKIPPED|XFAIL)\b.*)?$"
)


def pytest_outcomes(text: str) -> dict[str, str]:
    """How tests ended, by name, from the log of `pytest -v`, with or without xdist."""
    matches = (_OUTCOME.match(line) for line in text.splitlines())
    return {m[2].strip(): m[1] or m[3] for m in matches if m and (m[1] or m[3])}


def _run_tests(place: Place, *options: str) -> None:
    """Run tests on the GPU, as many as there is time for; in a dry run only collect them."""
    # pytest-benchmark, where it is installed, does not start beside xdist.
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:benchmark"]
    command += options
    command += ["--collect-only", "-q"] if place.dry else ["-v", "--tb=short"]
    if importlib.util.find_spec("xdist") and not place.dry:
        # Compilation is the processor's work.
        command += ["-n", str(min(16, os.cpu_count() or 1)), "--dist", "worksteal"]
    log = place.out / "logs" / f"pytest-{place.file.stem}.log"
    code = _ended(command, log, place.seconds - GRACE)
    text = log.read_text(encoding="utf-8", errors="replace")
    if place.dry:
        collected = re.search(r"(\d+)(?:/\d+)? tests collected", text)
        place.check("tests can be collected", code == 0 and collected is not None)
        return
    outcomes = pytest_outcomes(text)
    wrong = sorted(x for x, outcome in outcomes.items() if outcome in ("FAILED", "ERROR"))
    passed = list(outcomes.values()).count("PASSED")
    place.row("tests", passed=passed, failed=len(wrong), all_ran=code in (0, 1))
    for test in wrong:
        place.check(test, passed=False)
    place.check("some tests passed", passed > 0)


def tests(place: Place) -> None:
    """The tests of every Triton backend, and of the renderer those that any backend has to pass."""
    files = sorted(str(x.relative_to(ROOT)) for x in (ROOT / "tests").rglob("test_triton*.py"))
    files += ["tests/rendering/test_backends.py", "tests/rendering/test_compile.py"]
    _run_tests(place, *files)


def instances(place: Place) -> None:
    """Alpha and all gradients of every renderer against the reference."""
    test = "tests/rendering/test_triton.py::test_alpha_and_all_gradients_equal_the_reference"
    _run_tests(place, test, *(() if place.dry else ("--every",)))


def targets(place: Place) -> None:
    """Milliseconds of a step, what the GPU does meanwhile, where the host waits for it."""
    from scenes import INSTANCES, SETUPS, TINY, Step

    setups = TINY[:1] if place.dry else SETUPS
    for setup, instance in itertools.product(setups, INSTANCES[: 1 if place.dry else None]):
        step = Step(setup, instance, place.device)
        row: dict[str, Any] = {"scene": setup.name, "instance": instance.name}
        row |= {"target_ms": setup.target_ms, "both_ms": place.milliseconds(step)}
        with torch.no_grad():
            row["forward_ms"] = place.milliseconds(step.alpha)
        busy, kernels = _profiled(step, place)
        stops = _waits(step, place)
        row |= {"busy_ms": busy, "launches": sum(x["launches"] for x in kernels)}
        if not place.dry:
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            step()
            row["megabytes"] = (torch.cuda.max_memory_allocated() - before) / 1e6
        place.row("steps", **row, waits=len(stops))
        for line in sorted(set(stops)):
            place.row("waits", scene=setup.name, line=line, times=stops.count(line))
        for kernel in kernels[:12]:
            place.row(f"kernels: {setup.name}, {instance.name}", **kernel)


def _profiled(run: Callable[[], object], place: Place) -> tuple[float, list[dict[str, Any]]]:
    """Milliseconds of a run's kernels, and the kernels, the longest first."""
    from torch.profiler import ProfilerActivity, profile

    kinds = [ProfilerActivity.CPU] + ([] if place.dry else [ProfilerActivity.CUDA])
    count = 1 if place.dry else 10
    with profile(activities=kinds) as profiler:
        for _ in range(count):
            run()
        place.synchronise()
    rows = [
        {"kernel": x.key[:60], "launches": x.count / count, "us": x.device_time_total / count}
        for x in profiler.key_averages()
        if "CUDA" in str(x.device_type)
    ]
    return sum(x["us"] for x in rows) / 1e3, sorted(rows, key=lambda row: -row["us"])


def _busy(run: Callable[[], object], place: Place) -> float:
    """Milliseconds of a run's kernels; in a dry run of the run."""
    if place.dry:
        return place.milliseconds(run)
    run()  # compiles
    return _profiled(run, place)[0]


def _waits(run: Callable[[], object], place: Place) -> list[str]:
    """Lines at which a run waits for the GPU."""
    if place.dry:
        return []
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    lines = [x for x in caught if "synchroniz" in str(x.message)]
    return [f"{Path(x.filename).name}:{x.lineno}" for x in lines]


# Other values of fields of a launch, tried one field after the other.
_RENDERING = {
    "tile": ((8, 8), (8, 16), (16, 16), (16, 32), (32, 32)), "tile_warps": (1, 2, 4),
    "small_tile": ((4, 8), (8, 8), (8, 16), (16, 16)), "small_tile_warps": (1, 2, 4),
    "block_pixels": (32, 64, 128, 256), "block_warps": (1, 2, 4, 8),
    "small_block": (32, 64, 128), "small_block_warps": (1, 2, 4),
    "block_faces": (1, 2, 4, 8), "programs": (1024, 4096, 16384), "warps": (1, 2, 4, 8),
}  # fmt: skip
_SORTING = {
    "columns": (4, 8, 16, 32), "pairs": (64, 128, 256, 512), "held_back": (128, 256, 512),
    "shares": (256, 512, 1024), "programs": (512, 1024, 2048),
}  # fmt: skip
_LOGIC = {
    "batch": (64, 128, 256, 512), "elements": (128, 256, 512, 1024, 2048),
    "table_elements": (256, 512, 1024, 2048, 4096), "thread": (1, 2, 4, 8),
}  # fmt: skip


def launches(place: Place) -> None:
    """Find the best launches: numbers that were chosen without a GPU."""
    from scenes import INSTANCES, SETUPS, TINY, Step

    from gendr.logic.backends.triton import backend as logic_backend
    from gendr.rendering.backends.triton import tiles
    from gendr.sorting.backends.triton import backend as sorting_backend
    from gendr.sorting.relaxed import BitonicSort, OddEvenSort

    setups = TINY[:1] if place.dry else SETUPS[:3]
    steps = [Step(x, INSTANCES[0], place.device) for x in setups]
    sorts = [
        partial(_sorted, kind(10.0, backend="triton"), batch, n, place.device)
        for kind, batch, n in (
            ((OddEvenSort, 1, 4),)
            if place.dry
            else ((OddEvenSort, 1, 1024), (BitonicSort, 1, 1024), (OddEvenSort, 100, 128))
        )
    ]
    shapes = ((2, 8, 3),) if place.dry else ((2, 8000, 100), (6, 2000, 512))
    gates = [partial(_gates, logic_backend, *_layer(*x, torch.float32, place)) for x in shapes]
    end = time.monotonic() + place.seconds - GRACE
    for module, trials, runs, part in (
        (tiles, _RENDERING, steps, 0.6),
        (sorting_backend, _SORTING, sorts, 0.85),
        (logic_backend, _LOGIC, gates, 1.0),
    ):
        until = end - (1 - part) * place.seconds
        descend(module, trials, runs, place, until)


def descend(
    module: ModuleType, trials: dict[str, Any], runs: Sequence[Callable[[], object]],
    place: Place, until: float,
) -> Any:  # fmt: skip
    """Change one field of `module.LAUNCH` after the other; the best launch.

    What counts is the geometric mean over the runs of the milliseconds that the GPU is busy: what
    the host takes to launch is the same for all. Less than 1 % may be chance.

    Args:
        module: whose launch is changed, and left as it was.
        trials: names of fields, and their other values.
        runs: the scenes.
        place: gets a row for all that is timed, and the best launch.
        until: the time, of `time.monotonic`, after which nothing more is tried.
    """
    name = f"launches of {module.__name__.removeprefix('gendr.')}"

    def mean(launch: Any, changed: str) -> float:
        module.LAUNCH = launch  # type: ignore[attr-defined]
        try:
            times = [_busy(run, place) for run in runs]
        except Exception as error:  # noqa: BLE001 (such as too many resources: it is out)
            place.row(name, changed=changed, error=str(error)[:200])
            return float("inf")
        place.row(name, changed=changed, **{f"scene {i} ms": t for i, t in enumerate(times)})
        return statistics.geometric_mean(times)

    before: Any = module.LAUNCH
    best, least = before, mean(before, "nothing")
    try:
        for field, value in ((x, value) for x, values in trials.items() for value in values):
            if time.monotonic() > until or (place.dry and field != next(iter(trials))):
                break
            if getattr(best, field) != value:
                trial = replace(best, **{field: value})
                if (found := mean(trial, f"{field} = {value}")) < 0.99 * least:
                    best, least = trial, found
    finally:
        module.LAUNCH = before  # type: ignore[attr-defined]
    changed = {x.name: getattr(best, x.name) for x in fields(best)}
    usual = {x.name: getattr(before, x.name) for x in fields(best)}
    better = {key: value for key, value in changed.items() if value != usual[key]}
    place.row("best launches", module=module.__name__, better=str(better or "as it is"))
    return best


def graphs(place: Place) -> None:
    """Whether a step can be captured, what it then takes, and whether its bits are the same."""
    from scenes import INSTANCES, SETUPS, TINY, Step

    setup = (TINY if place.dry else SETUPS)[0]

    def compiled(step: Any) -> None:
        step.renderer = step.renderer.compiled()
        for _ in range(3):  # the third call of a kind is captured
            step.outcome()

    def by_torch(step: Any) -> None:
        step.alpha = torch.compile(step.alpha, mode="reduce-overhead")
        for _ in range(2):
            step.outcome()

    ways: dict[str, Callable[[Any], object]] = {"as it is": lambda step: None}
    ways |= {"compiled()": compiled} | ({} if place.dry else {"reduce-overhead": by_torch})
    for name, way in ways.items():
        step = Step(setup, INSTANCES[0], place.device)
        want = tuple(x.clone() for x in step.outcome())
        try:
            way(step)
            equal, both_ms = same(step.outcome(), want), place.milliseconds(step.outcome)
            with torch.no_grad():  # a graph that held the old vertices would give the old image
                step.vertices.mul_(0.9)
            moved = not torch.equal(step.outcome()[0], want[0])
        except Exception:  # noqa: BLE001 (whatever it is, it is the answer)
            place.failed(f"{name} works")
            continue
        place.check(f"{name} has the same bits", equal)
        place.check(f"{name} sees other vertices", moved)
        place.row("steps", scene=setup.name, way=name, both_ms=both_ms)
    for setup in () if place.dry else SETUPS[1:]:
        step = Step(setup, INSTANCES[0], place.device)
        compiled(step)
        both_ms = place.milliseconds(step.outcome)
        place.row("steps", scene=setup.name, way="compiled()", both_ms=both_ms)


def layers(place: Place) -> None:
    """Ordered joining, both passes, and steps of a training of splats; gsplat if it is installed.

    The rows are those of the targets: 20,574 triangles at 400 × 400 in 1.2 ms, a step in 3 ms.
    """
    from ordered import ours, scene

    from gendr.rendering.backends.triton import ordered as joining

    count, side = (60, 24) if place.dry else (20_574, 400)
    start = [x.detach() for x in scene(count, side)]
    grad = torch.rand(1, 4, side, side, generator=torch.Generator().manual_seed(1))
    backend = "triton" if place.dry else "auto"

    def both(device: str, sort: str, backend: str) -> tuple[Tensor, ...]:
        leaves = [x.to(device).requires_grad_() for x in start]
        found = ours(side, sort, *leaves, backend=backend)
        return found.detach(), *torch.autograd.grad(found, leaves, grad.to(device))

    for sort in ("pixel", "centroid"):
        got = both(place.device, sort, backend)
        place.check(f"{sort}: twice the same bits", same(both(place.device, sort, backend), got))
        pairs = list(zip(got, both("cpu", sort, "cpu"), strict=True))
        apart = float((pairs[0][0].cpu() - pairs[0][1]).abs().max())
        place.check(f"{sort}: the image is the CPU's", apart <= 1e-4, f"{apart:.1e}")
        errors = [float((a.cpu() - b).norm() / b.norm().clamp(min=1e-20)) for a, b in pairs[1:]]
        place.check(f"{sort}: so are gradients", max(errors) <= 1e-3, f"{max(errors):.1e} relative")
        run = partial(both, place.device, sort, backend)
        launch = joining.LAUNCH
        for tile, warps in ((launch.tile, launch.tile_warps), ((8, 8), 2), ((16, 16), 8)):
            if place.dry and tile != launch.tile:
                continue
            joining.LAUNCH = replace(launch, tile=tile, tile_warps=warps)
            try:
                row = {"sort": sort, "tile": str(tile), "both_ms": place.milliseconds(run)}
                busy, kernels = _profiled(run, place)
            finally:
                joining.LAUNCH = launch
            place.row("ordered joining", **row, busy_ms=busy, waits=len(_waits(run, place)))
        for kernel in kernels[:12]:
            place.row(f"kernels: {sort}", **kernel)
    _splat_steps(place)
    if importlib.util.find_spec("gsplat") and not place.dry:
        _gsplat(place, count, side)


def _splat_steps(place: Place) -> None:
    """Steps of a training on pictures of a ball."""
    import gendr
    from gendr.photos.splatting import Photos, SplatSettings, from_cameras
    from gendr.photos.splatting.training import SplatTraining

    side, count = (24, 60) if place.dry else (400, 20_574)
    camera = gendr.look_at(2.5, 20.0, torch.arange(8.0) * 45)
    images = gendr.Renderer(side, scale=1e-3, backend="cpu")(gendr.mesh.icosphere(3), camera).rgb
    names = tuple(map(str, range(8)))
    photos = Photos(images.detach(), None, camera, names, torch.ones(3))
    device = None if place.dry else place.device
    settings = SplatSettings(triangles=count, steps=10**6, device=device, evaluate_every=2.0)
    training = SplatTraining(photos, settings, from_cameras(photos, count))
    busy, kernels = _profiled(training.advance, place)
    step_ms = place.milliseconds(training.advance)
    waits = _waits(training.advance, place)
    launches = sum(x["launches"] for x in kernels)
    place.row("a step of splats", ms=step_ms, busy_ms=busy, launches=launches, waits=len(waits))
    for line in sorted(set(waits)):
        place.row("waits", line=line, times=waits.count(line))


def _gsplat(place: Place, count: int, side: int) -> None:
    """As many Gaussians of the same size and depth by gsplat, both passes: its public function."""
    gsplat: Any = importlib.import_module("gsplat")
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator).to(place.device)

    eye = torch.eye(4, device=place.device)[None]
    lens = torch.tensor([[side * 1.5, 0, side / 2], [0, side * 1.5, side / 2], [0, 0, 1.0]])
    means = torch.cat([random(count, 2) * 2 - 1, 3 + random(count, 1)], 1).requires_grad_()
    turns = random(count, 4).requires_grad_()
    sizes = (0.01 * torch.ones(count, 3, device=place.device)).requires_grad_()
    leaves = [
        means,
        turns,
        sizes,
        random(count).requires_grad_(),
        random(count, 3).requires_grad_(),
    ]

    def run() -> None:
        image = gsplat.rasterization(*leaves, eye, lens[None].to(place.device), side, side)[0]
        torch.autograd.grad(image.sum(), leaves)

    row = {"both_ms": place.milliseconds(run), "busy_ms": _profiled(run, place)[0]}
    place.row("ordered joining", sort=f"gsplat {gsplat.__version__}", **row)


def rendering(place: Place) -> None:
    """`speed.py`, the most wanted scenes first, so that those are there if time runs out."""
    wanted = "sphere_40k/1x1024", "sphere_642/.*x64/", "sphere_642/.*x1024/", "million/.*/uniform"
    for pattern in ("sphere_642/1x32/uniform",) if place.dry else wanted:
        file = place.out / f"speed-{re.sub('[^a-z0-9]+', '-', pattern)}.json"
        _benchmark("speed", place, "--scenes", pattern, "--json", str(file))


def sorting(place: Place) -> None:
    """`sorting.py`."""
    some = ("--cases", "bitonic/3x8") if place.dry else ()
    _benchmark("sorting", place, "--out", str(place.out), *some)


def _benchmark(module: str, place: Place, *options: str) -> None:
    quick = ("--quick", "--repeat", "1") if place.dry else ()
    try:
        importlib.import_module(module).main(["--device", place.device, *options, *quick])
    except (Exception, SystemExit):  # noqa: BLE001 (the other parts are run)
        place.failed(" ".join(options))
    else:
        place.check(" ".join(options), passed=True)


def _layer(
    fan_in: int, width: int, batch: int, dtype: torch.dtype, place: Place
) -> tuple[Tensor, Any, Tensor]:
    """Features, wires and tables of a layer as wide as what it reads, the same in every call."""
    from gendr.logic import random_wiring
    from gendr.logic.backends.wires import Wires

    generator = torch.Generator().manual_seed(2)
    x, tables = (torch.rand(width, n, generator=generator) for n in (batch, 1 << fan_in))
    wires = random_wiring(width, width, fan_in, seed=1).to(place.device)
    x, tables = (t.to(place.device, dtype).requires_grad_() for t in (x, tables))
    return x, Wires(wires, width), tables


def _gates(kernels: Any, x: Tensor, wires: Any, tables: Tensor) -> tuple[Tensor, ...]:
    """Outputs and gradients."""
    from gendr.logic.backends.reference import SOFT_GATES

    y = SOFT_GATES(kernels, wires, x, tables)
    grad = torch.linspace(-1, 2, y.numel()).to(y).reshape(y.shape)
    return y.detach(), *torch.autograd.grad(y, (x, tables), grad)


def logic(place: Place) -> None:
    """Layers of gates against the reference, twice each, and `logic.py`."""
    from gendr.logic.backends.triton import backend
    from gendr.logic.backends.wires import Wires
    from support import relative_l2

    limits = {torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 1e-2}
    shapes = ((2, 8, 3),) if place.dry else ((2, 8000, 100), *((k, 500, 257) for k in range(1, 7)))
    for shape, (dtype, limit) in itertools.product(shapes, limits.items()):
        x, wires, tables = _layer(*shape, dtype, place)
        first = _gates(backend, x, wires, tables)
        doubles = [t.detach().cpu().double().requires_grad_() for t in (x, tables)]
        want = _gates(None, doubles[0], Wires(wires.inputs.cpu(), shape[1]), doubles[1])
        apart = max(relative_l2(a.cpu().double(), b) for a, b in zip(first, want, strict=True))
        what = f"inputs, gates, batch {shape}, {dtype}"
        place.check(f"{what}: as the reference", apart <= limit, f"{apart:.1e} relative")
        place.check(f"{what}: twice the same bits", same(_gates(backend, x, wires, tables), first))
    _benchmark("logic", place, "--out", str(place.out))


def primitives(place: Place) -> None:
    """Rasterize, interpolate, antialias and texture against the CPU; nvdiffrast where it is.

    Both passes. "all" is one picture: the three of them, with colours and a mask.
    """
    import primitives as pictures
    import textures

    from gendr import primitives as ours
    from support import relative_l2

    peer: Any = None
    if not place.dry and importlib.util.find_spec("nvdiffrast"):
        peer = importlib.import_module("nvdiffrast.torch")
    for faces, side in ((40, 12),) if place.dry else ((40_000, 512), (1_000_000, 1024)):
        pos, colors, tri = pictures.ball(faces)
        there = [x.to(place.device).requires_grad_() for x in (pos, colors)]
        here = [x.clone().requires_grad_() for x in (pos, colors)]
        index, backend = tri.to(place.device), "triton"
        got = _picture(ours, side, index, *there, backend=backend)
        want = _picture(ours, side, tri, *here, backend="cpu")
        what = f"{faces} faces, {side}²"
        place.check(f"{what}: the CPU's triangles", torch.equal(got[0].cpu(), want[0]))
        for name, a, b, limit in zip(
            ("picture", "positions", "colours"), got[1:], want[1:], (1e-6, 1e-5, 1e-5), strict=True
        ):
            apart = relative_l2(a.cpu(), b)
            place.check(f"{what}: the CPU's {name}", apart <= limit, f"{apart:.1e} relative")
        again = _picture(ours, side, index, *there, backend=backend)
        place.check(f"{what}: twice the same bits", same(again, got))
        runs: dict[str, Callable[[], object]] = {
            "gendr": partial(_picture, ours, side, index, *there, backend=backend)
        }
        if peer is not None:
            runs["nvdiffrast"] = partial(_picture, peer, side, index, *there)
        for name, run in runs.items():
            _timed(place, f"all, {what}", name, run)
        with torch.no_grad():
            rast, _ = ours.rasterize(None, there[0], index, (side, side), backend=backend)
            color = torch.rand(1, side, side, 4, device=place.device)
        size, named = (side, side), {"backend": backend}
        parts: dict[str, Callable[..., Any]] = {
            "rasterize": partial(_rasterized, ours, size, index, **named),
            "interpolate": partial(_interpolated, ours, rast, index, **named),
            "antialias": partial(_antialiased, ours, color, rast, index, **named),
        }
        for name, part in parts.items():
            _timed(place, f"{name}, {what}", "gendr", partial(_both_passes, part, there))
    side = 8 if place.dry else 1024
    tex = torch.rand(1, side, side, 3, generator=torch.Generator().manual_seed(0))
    uv, uv_da = textures.floor(side)
    inputs = [x.to(place.device).requires_grad_() for x in (tex, uv, uv_da)]
    mode: dict[str, Any] = {"filter_mode": "linear-mipmap-linear"}
    lookup = partial(ours.texture, backend="triton", **mode)
    got = _both_passes(lookup, inputs)
    here = [x.clone().requires_grad_() for x in (tex, uv, uv_da)]
    want = _both_passes(partial(ours.texture, backend="cpu", **mode), here)
    apart = max(relative_l2(a.cpu(), b) for a, b in zip(got, want, strict=True))
    what = f"texture trilinear {side}²"
    place.check(f"{what}: as on the CPU", apart <= 1e-5, f"{apart:.1e} relative")
    place.check(f"{what}: twice the same bits", same(_both_passes(lookup, inputs), got))
    _timed(place, what, "gendr", partial(_both_passes, lookup, inputs))
    if peer is not None:
        run = partial(_both_passes, partial(peer.texture, **mode), inputs)
        _timed(place, what, "nvdiffrast", run)


def _picture(
    library: Any, side: int, tri: Tensor, pos: Tensor, colors: Tensor, **backend: str
) -> tuple[Tensor, ...]:
    """The triangles of a picture, the picture, and the gradients of positions and colours."""
    context = library.RasterizeCudaContext() if not backend else None
    rast, _ = library.rasterize(context, pos, tri, (side, side), **backend)
    color, _ = library.interpolate(colors, rast, tri, **backend)
    color = torch.cat([color, (rast[..., 3:] > 0).to(color.dtype)], -1)
    image = library.antialias(color, rast, pos, tri, **backend)
    grads = torch.autograd.grad(image, (pos, colors), _spread(image))
    return rast[..., 3].detach(), image.detach(), *grads


def _rasterized(
    library: Any, size: tuple[int, int], tri: Tensor, pos: Tensor, _: Tensor, **backend: str
) -> Tensor:
    return library.rasterize(None, pos, tri, size, **backend)[0]


def _interpolated(
    library: Any, rast: Tensor, tri: Tensor, _: Tensor, colors: Tensor, **backend: str
) -> Tensor:
    return library.interpolate(colors, rast, tri, **backend)[0]


def _antialiased(
    library: Any, color: Tensor, rast: Tensor, tri: Tensor, pos: Tensor, _: Tensor, **backend: str
) -> Tensor:
    return library.antialias(color, rast, pos, tri, **backend)


def _both_passes(part: Callable[..., Tensor], inputs: list[Tensor]) -> tuple[Tensor, ...]:
    """A result and the gradients of the inputs, zeros of those that it does not depend on."""
    found = part(*inputs)
    grads = torch.autograd.grad(found, inputs, _spread(found), materialize_grads=True)
    return found.detach(), *grads


def _spread(like: Tensor) -> Tensor:
    """Upstream gradients of all signs, the same on every device."""
    return (torch.arange(like.numel(), device=like.device) % 7 - 3.0).view_as(like)


def lists(place: Place) -> None:
    """Soft ranks by the permutahedron, masks and losses of top-k against the CPU; torchsort."""
    from gendr import sorting as sorts
    from gendr.topk import TopKCrossEntropy, soft_topk_mask
    from support import relative_l2

    def ranks(x: Tensor, kind: str, backend: str) -> Tensor:
        return sorts.soft_rank(
            x, "permutahedron", steepness=1.0, regularization=kind, backend=backend, check=False
        )

    def mask(x: Tensor, dist: str, backend: str) -> Tensor:
        return soft_topk_mask(x, min(10, x.shape[1] // 2), dist, check=False, backend=backend)

    def loss(x: Tensor, _: str, backend: str) -> Tensor:
        labels = torch.arange(len(x), device=x.device) % x.shape[1]
        found = TopKCrossEntropy([0.5, 0, 0, 0, 0.5], check=False, backend=backend).to(x.device)
        return found(x, labels)

    peer: Any = None
    if not place.dry and importlib.util.find_spec("torchsort"):
        peer = importlib.import_module("torchsort")
    long = [] if place.dry else [("ranks", ranks, "l2", (1, 100_000))]
    cases = [
        ("ranks", ranks, "l2", (100, 1000)), ("ranks", ranks, "entropic", (100, 1000)), *long,
        ("mask", mask, "laplace", (100, 1000)), ("mask", mask, "logistic", (100, 1000)),
        ("top-k loss", loss, "", (100, 1000)),
    ]  # fmt: skip
    for name, function, kind, shape in cases:
        start = torch.randn((2, 6) if place.dry else shape)
        leaf, here = start.to(place.device).requires_grad_(), start.double().requires_grad_()
        run = partial(_both_passes, lambda x, f=function, k=kind: f(x, k, "triton"), [leaf])
        got = run()
        want = _both_passes(lambda x, f=function, k=kind: f(x, k, "cpu"), [here])
        what = " ".join([name, *([kind] if kind else []), str(tuple(start.shape))])
        apart = max(relative_l2(a.cpu(), b) for a, b in zip(got, want, strict=True))
        place.check(f"{what}: as on the CPU", apart <= 2e-5, f"{apart:.1e} relative")
        place.check(f"{what}: twice the same bits", same(run(), got))
        _timed(place, what, "gendr", run, "lists")
        if peer is not None and function is ranks:
            strength = {"regularization": "kl" if kind == "entropic" else "l2"}
            theirs = partial(peer.soft_rank, regularization_strength=1.0, **strength)
            _timed(place, what, "torchsort", partial(_both_passes, theirs, [leaf]), "lists")


def _timed(
    place: Place, case: str, library: str, run: Callable[[], object], table: str = "primitives"
) -> None:
    """A row of milliseconds on the clock and of the GPU, of launches, and of waits of the host."""
    wall = place.milliseconds(run)
    busy, kernels = _profiled(run, place)
    launched, waits = sum(x["launches"] for x in kernels), len(_waits(run, place))
    place.row(
        table, case=case, library=library, wall_ms=wall, busy_ms=busy, launches=launched,
        waits=waits,
    )  # fmt: skip


# In their order: minutes of each, and what it does.
STAGES: dict[str, tuple[float, Callable[[Place], None], str]] = {
    "smoke": (1.5, smoke, "a silhouette and gradients against the reference, the same bits twice"),
    "entries": (2.0, entries, "what users call, once each, with everything on the GPU"),
    "tests": (5.0, tests, "the Triton tests, on the GPU"),
    "targets": (2.5, targets, "scenes with a target and scenes hard to divide, with a profile"),
    "launches": (3.5, launches, "tiles, warps and blocks: which are best"),
    "graphs": (1.5, graphs, "steps of `renderer.compiled()`, and torch.compile's reduce-overhead"),
    "layers": (2.0, layers, "ordered joining and a step of splats against their targets"),
    "rendering": (3.5, rendering, "the table of benchmarks/speed.py"),
    "sorting": (1.5, sorting, "the table of benchmarks/sorting.py"),
    "logic": (1.0, logic, "layers of gates against the reference, table of benchmarks/logic.py"),
    "primitives": (2.0, primitives, "rasterize, interpolate, texture, antialias; nvdiffrast"),
    "lists": (1.0, lists, "ranks by the permutahedron, masks, losses of top-k; torchsort"),
    "instances": (3.0, instances, "all 1242 renderers against the reference, as time allows"),
}  # fmt: skip


# -- running them


def run_stage(name: str, place: Place) -> int:
    """Run a stage in this process; its exit status."""
    from support.interpreter import quick_interpreter

    with quick_interpreter() if place.dry else nullcontext():
        STAGES[name][1](place)
    return int(not all(x["passed"] for x in json.loads(place.file.read_text())["checks"]))


def _ended(command: list[str], log: Path, seconds: float) -> int | None:
    """The exit status of a command with its output in a file; None if it had to be stopped."""
    path = os.pathsep.join([str(ROOT), *sys.path[1:]])
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, stdout=file, stderr=subprocess.STDOUT, cwd=ROOT, start_new_session=True,
            env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        try:
            return process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # the stage and what it has started
            process.wait()
            return None


def outcome_of(name: str, device: str, out: Path, seconds: float) -> dict[str, Any]:
    """Run a stage and say how it went: status, seconds, what it found, the end of its log."""
    file, log = out / "stages" / f"{name}.json", out / "logs" / f"{name}.log"
    file.unlink(missing_ok=True)
    start = time.monotonic()
    command = [sys.executable, "-u", __file__, "--stage", name, "--out", str(out)]
    command += ["--seconds", f"{seconds:.0f}", *(["--dry-run"] if device == "cpu" else [])]
    code = _ended(command, log, seconds)
    found = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    wrong = sum(not x["passed"] for x in found.get("checks", []))
    if code is None:
        status = f"stopped after {seconds:.0f} s"
    elif code == 1 and wrong:
        status = f"{wrong} wrong"
    else:
        status = f"crashed with {code}" if code else DONE
    outcome = {"status": status, "seconds": round(time.monotonic() - start, 1), **found}
    if status != DONE:
        outcome["log"] = log.read_text(encoding="utf-8", errors="replace").splitlines()[-40:]
    return outcome


def about(device: str) -> dict[str, Any]:
    """Commit, device and versions.

    Raises:
        ValueError: there is no GPU, and this is no dry run.
    """
    import speed
    import triton

    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("there is no GPU here that PyTorch can use; try --dry-run")
    run = speed.about_run(speed.Place(device, speed.KERNELS[device], None))
    wanted = ("commit", "device", "device_name", "torch", "python")
    return {"triton": triton.__version__, **{key: run[key] for key in wanted}}


def check(args: argparse.Namespace) -> int:
    """Run the stages."""
    device = "cpu" if args.dry_run else "cuda"
    if args.stage:
        file = args.out / "stages" / f"{args.stage}.json"
        return run_stage(args.stage, Place(device, args.out, file, args.seconds))
    run = about(device)
    name = re.sub(r"[^a-z0-9]+", "-", run["device_name"].lower()).strip("-")
    out = writable_folder(args.out or ROOT / "docs" / "results" / f"gpu-{name}", "--out")
    for folder in ("logs", "stages"):
        (out / folder).mkdir(exist_ok=True)
    report = {"run": run, "stages": {}}
    if args.resume and (out / "gpu-check.json").exists():
        report = json.loads((out / "gpu-check.json").read_text(encoding="utf-8"))
        if report["run"] != run:
            raise ValueError(f"{out} has another commit, device or version; leave out --resume")
    wanted = [x for x in STAGES if x in (args.only or STAGES)]
    todo = [x for x in wanted if report["stages"].get(x, {}).get("status") != DONE]
    total, passed, start = sum(STAGES[x][0] for x in todo), 0.0, time.monotonic()
    for stage in todo:
        passed += STAGES[stage][0]
        until = start + args.minutes * 60 * passed / total
        outcome = outcome_of(stage, device, out, max(1.0, until - time.monotonic()))
        report["stages"][stage] = outcome
        write_json(out / "gpu-check.json", report)
        write_whole(out / "gpu-check.md", ("\n".join(markdown(report)) + "\n").encode())
        print(f"{stage:11} {outcome['status']:20} {outcome['seconds']:7.1f} s", flush=True)
    print(f"written to {out}")
    return int(any(report["stages"][x]["status"] != DONE for x in wanted))


def write_json(path: Path, values: Any) -> None:
    """Plain values, whole or not at all."""
    write_whole(path, (json.dumps(values, indent=1, ensure_ascii=False) + "\n").encode())


def markdown(report: dict[str, Any]) -> list[str]:
    """The report as lines of Markdown, in the order of the stages."""
    run = report["run"]
    stages = {x: report["stages"][x] for x in STAGES if x in report["stages"]}
    lines = [
        "# What a GPU answered", "",
        f"Made by `benchmarks/gpu_check.py` at commit {run['commit']} on {run['device_name']}, "
        f"torch {run['torch']}, Triton {run['triton']}.", "",
        *table(
            ["stage", "status", "seconds"],
            [[name, x["status"], f"{x['seconds']:.1f}"] for name, x in stages.items()],
        ),
    ]  # fmt: skip
    for name, stage in stages.items():
        lines += ["", f"## {name}: {STAGES[name][2]}"]
        if rows := stage.get("checks"):
            body = [[x["what"], "yes" if x["passed"] else "**no**", x["detail"]] for x in rows]
            lines += ["", *table(["", "passed", ""], body)]
        for title, rows in stage.get("tables", {}).items():
            head = list(dict.fromkeys(key for row in rows for key in row))
            body = [[_cell(row.get(key)) for key in head] for row in rows]
            lines += ["", f"**{title}**", "", *table(head, body)]
        if log := stage.get("log"):
            lines += ["", "```", *log, "```"]
    return lines


def _cell(x: Any) -> str:
    if isinstance(x, float):
        return f"{x:.3g}" if abs(x) < 1000 else f"{x:,.0f}"
    return "" if x is None else str(x)


def arguments() -> Parser:
    """All options."""
    stages = "\n".join(f"- {name}, {x[0]:g} min: {x[2]}" for name, x in STAGES.items())
    parser = Parser(
        description=(__doc__ or "").format(stages=stages),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="default: see above")
    parser.add_argument("--dry-run", action="store_true", help="tiny, on the CPU")
    parser.add_argument("--resume", action="store_true", help="keep the stages that passed")
    parser.add_argument("--only", nargs="+", choices=STAGES, metavar="STAGE", help="some stages")
    parser.add_argument("--minutes", type=above(0), default=25.0, metavar="N", help="at most; 25")
    parser.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=0.0, help=argparse.SUPPRESS)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Read the options and run."""
    if "--dry-run" in (sys.argv[1:] if argv is None else argv):
        os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported
    else:
        os.environ.pop("TRITON_INTERPRET", None)
    return run_program(arguments(), check, argv, resumes=lambda args: not args.dry_run)


if __name__ == "__main__":
    sys.exit(main())
