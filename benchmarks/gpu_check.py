"""Everything that a first GPU must answer, in order of importance, in one command of 25 minutes.

    python benchmarks/gpu_check.py                       # to docs/results/gpu-DEVICE
    python benchmarks/gpu_check.py --resume              # what failed or was not reached
    python benchmarks/gpu_check.py --only smoke targets  # some
    python benchmarks/gpu_check.py --dry-run --out /tmp/dry

Stages run one after the other, each in a process of its own, which may crash or hang: a stage is
stopped at the end of its time, what it has measured by then is kept, and the next begins. Time that
a stage leaves goes to those after it. After every stage gpu-check.json and gpu-check.md are written
whole; logs and pictures lie beside them. The exit status is 1 if a stage failed.

{stages}

--dry-run does the same on tiny scenes on the CPU, where Triton's kernels are interpreted: it shows
that the program works, not that the GPU does. Tests are then collected and not run.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gendr._runtime.command_line import Parser, run_program
from gendr._runtime.files import writable_folder, write_whole

ROOT = Path(__file__).resolve().parents[1]
MINUTES = 25.0
TAIL = 40  # lines of the log of a stage that failed, in the report
GRACE = 5.0  # seconds of its time that a stage leaves to its end

# Minutes of each stage, in their order, and what it does.
STAGES: dict[str, tuple[float, str]] = {
    "smoke": (1.0, "arithmetic, a silhouette against the reference, float64 as torch's default, "
              "a second stream, a graph, two runs bit for bit"),
    "entries": (2.0, "what users call, once each, with everything on the GPU"),
    "tests": (4.5, "the Triton tests, on the GPU"),
    "memcheck": (1.5, "compute-sanitizer on small scenes, if it is there"),
    "repeats": (0.5, "sorting again and again, for the same bits"),
    "targets": (1.5, "the two scenes with a target, forward + backward, and a profile"),
    "sweeps": (3.5, "tiles, warps and blocks; writes the best ones"),
    "unbalanced": (1.0, "the two scenes whose work is hard to divide"),
    "graphs": (1.5, "steps of `renderer.compiled()`, and torch.compile's reduce-overhead"),
    "rendering": (3.5, "the table of benchmarks/speed.py"),
    "sorting": (1.5, "the table of benchmarks/sorting.py"),
    "logic": (1.0, "layers of gates against the reference, and the table of benchmarks/logic.py"),
    "instances": (2.0, "all 1242 renderers against the reference, as far as time allows"),
}  # fmt: skip
DONE = "passed"


@dataclass(frozen=True)
class Place:
    """Where a stage runs.

    Attributes:
        device: "cuda", or "cpu" in a dry run.
        dry: whether it is one.
        out: the folder of all results.
        seconds: until the stage must have ended.
    """

    device: str
    dry: bool
    out: Path
    seconds: float


class Report:
    """What a stage finds, written whole after each piece: a stage that is stopped loses nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.found: dict[str, Any] = {"checks": [], "tables": {}, "notes": [], "pictures": []}
        self._write()

    def _write(self) -> None:
        write_json(self._path, self.found)

    def check(self, what: str, passed: bool, detail: object = "") -> None:
        """A question with an answer; a stage with a wrong one has failed."""
        row = {"what": what, "passed": bool(passed), "detail": str(detail)}
        self.found["checks"].append(row)
        print(f"{'passed' if passed else 'FAILED'}: {what} {detail}", flush=True)
        self._write()

    def row(self, name: str, **values: Any) -> None:
        """A row of a table."""
        self.found["tables"].setdefault(name, []).append(values)
        print(name, values, flush=True)
        self._write()

    def note(self, text: str) -> None:
        """A sentence."""
        self.found["notes"].append(text)
        print(text, flush=True)
        self._write()

    def picture(self, name: str) -> None:
        """A picture in the folder of the results."""
        self.found["pictures"].append(name)
        self._write()

    @property
    def passed(self) -> bool:
        """Whether every question had the right answer."""
        return all(x["passed"] for x in self.found["checks"])


def write_json(path: Path, values: Any) -> None:
    """Plain values, whole or not at all."""
    write_whole(path, (json.dumps(values, indent=1, ensure_ascii=False) + "\n").encode())


# -- one stage


def run_stage(name: str, place: Place) -> int:
    """Run a stage in this process; its exit status."""
    import gpu_stages

    report = Report(place.out / "stages" / f"{name}.json")
    with gpu_stages.prepared(place):
        getattr(gpu_stages, name)(place, report)
    return 0 if report.passed else 1


def _forked(name: str, place: Place) -> int:
    """The pid of a stage that is a copy of this process, which has imported all: dry runs only.

    A GPU does not work in such a copy, and a stage that harms its process shall harm no other.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    if pid := os.fork():
        return pid
    status = 2
    try:
        os.setsid()
        log = os.open(_log(name, place), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        for stream in (1, 2):
            os.dup2(log, stream)
        status = run_stage(name, place)
    except BaseException:  # noqa: BLE001 (a copy must not go on as its original)
        os.write(2, traceback.format_exc().encode())
    finally:
        sys.stdout.flush()
        os._exit(status)


def _started(name: str, place: Place) -> int:
    """The pid of a stage in a new process."""
    command = [sys.executable, "-u", __file__, "--stage", name, "--out", str(place.out)]
    command += ["--seconds", f"{place.seconds:.0f}"]
    with _log(name, place).open("wb") as log:
        return subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True, cwd=ROOT
        ).pid


def _log(name: str, place: Place) -> Path:
    return place.out / "logs" / f"{name}.log"


def _ended(pid: int, seconds: float) -> int | None:
    """The exit status of a process, negative if a signal ended it; None if it had to be stopped."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)  # a stage takes seconds
    os.killpg(pid, signal.SIGKILL)  # the stage and what it has started
    os.waitpid(pid, 0)
    return None


def outcome_of(name: str, place: Place) -> dict[str, Any]:
    """Run a stage and say how it went: status, seconds, what it found, the end of its log."""
    written = place.out / "stages" / f"{name}.json"
    written.unlink(missing_ok=True)
    start = time.monotonic()
    code = _ended((_forked if place.dry else _started)(name, place), place.seconds)
    outcome: dict[str, Any] = {"seconds": round(time.monotonic() - start, 1)}
    found = json.loads(written.read_text(encoding="utf-8")) if written.exists() else {}
    wrong = [x for x in found.get("checks", []) if not x["passed"]]
    if code is None:
        outcome["status"] = f"stopped after {place.seconds:.0f} s"
    elif code == 0:
        outcome["status"] = DONE
    elif code == 1 and wrong:
        outcome["status"] = f"{len(wrong)} wrong"
    else:
        outcome["status"] = f"crashed with {code}"
    if outcome["status"] != DONE:
        lines = _log(name, place).read_text(encoding="utf-8", errors="replace").splitlines()
        outcome["log"] = lines[-TAIL:]
    return {**outcome, **found}


# -- all stages


def about(device: str) -> dict[str, Any]:
    """Commit, device and versions, found in a process of its own: CUDA is not started here."""
    code = (
        "import json, platform, torch, triton\n"
        "cuda = torch.cuda.is_available()\n"
        "print(json.dumps({'device_name': torch.cuda.get_device_name() if cuda else 'CPU',"
        " 'capability': list(torch.cuda.get_device_capability()) if cuda else None,"
        " 'cuda': torch.version.cuda, 'torch': torch.__version__, 'triton': triton.__version__,"
        " 'python': platform.python_version()}))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if run.returncode:
        raise ValueError(run.stderr.strip().splitlines()[-1])
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    return {"commit": commit or "unknown", "device": device, **json.loads(run.stdout)}


def check(args: argparse.Namespace) -> int:
    """Run the stages."""
    dry = args.dry_run
    if dry:
        os.environ["TRITON_INTERPRET"] = "1"
    else:
        os.environ.pop("TRITON_INTERPRET", None)
    sys.path.insert(0, str(Path(__file__).parent))
    if args.stage:
        place = Place("cpu" if dry else "cuda", dry, args.out, args.seconds)
        return run_stage(args.stage, place)
    run = about("cpu" if dry else "cuda")
    if not dry and run["capability"] is None:
        raise ValueError("there is no GPU here that PyTorch can use; try --dry-run")
    name = re.sub(r"[^a-z0-9]+", "-", run["device_name"].lower()).strip("-")
    out = writable_folder(args.out or ROOT / "docs" / "results" / f"gpu-{name}", "--out")
    for folder in ("logs", "stages"):
        (out / folder).mkdir(exist_ok=True)
    report = resumed(out, run) if args.resume else {"run": run, "stages": {}}
    if dry:
        import gpu_stages

        gpu_stages.warm()  # once, before the stages are forked
    wanted = [x for x in STAGES if x in (args.only or STAGES)]
    todo = [x for x in wanted if report["stages"].get(x, {}).get("status") != DONE]
    shares = {x: STAGES[x][0] for x in todo}
    start, passed = time.monotonic(), 0.0
    for stage in todo:
        passed += shares[stage]
        until = start + args.minutes * 60 * passed / sum(shares.values())
        place = Place(run["device"], dry, out, max(1.0, until - time.monotonic()))
        outcome = outcome_of(stage, place)
        report["stages"][stage] = outcome
        write(report, out)
        print(f"{stage:11} {outcome['status']:20} {outcome['seconds']:7.1f} s", flush=True)
    write(report, out)
    print(f"written to {out}")
    return int(any(report["stages"][x]["status"] != DONE for x in wanted))


def resumed(out: Path, run: dict[str, Any]) -> dict[str, Any]:
    """The report of the last run, if it was of the same commit and device.

    Raises:
        ValueError: if it was of others.
    """
    path = out / "gpu-check.json"
    if not path.exists():
        return {"run": run, "stages": {}}
    report = json.loads(path.read_text(encoding="utf-8"))
    if report["run"] != run:
        apart = [key for key in run if run[key] != report["run"].get(key)]
        raise ValueError(f"{path} is of another {', '.join(apart)}; leave out --resume")
    return report


# -- the report


def write(report: dict[str, Any], out: Path) -> None:
    """Both files, in the order of the stages."""
    report["stages"] = {x: report["stages"][x] for x in STAGES if x in report["stages"]}
    write_json(out / "gpu-check.json", report)
    write_whole(out / "gpu-check.md", ("\n".join(markdown(report)) + "\n").encode())


def markdown(report: dict[str, Any]) -> list[str]:
    """The report as lines of Markdown."""
    from lab.pages import table  # imports torch

    run, stages = report["run"], report["stages"]
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
        lines += ["", f"## {name}: {STAGES[name][1]}"]
        if rows := stage.get("checks"):
            body = [[x["what"], "yes" if x["passed"] else "**no**", x["detail"]] for x in rows]
            lines += ["", *table(["", "passed", ""], body)]
        for title, rows in stage.get("tables", {}).items():
            head = list(dict.fromkeys(key for row in rows for key in row))
            body = [[_cell(row.get(key)) for key in head] for row in rows]
            lines += ["", f"**{title}**", "", *table(head, body)]
        for text in stage.get("notes", ()):
            lines += ["", text]
        for picture in stage.get("pictures", ()):
            lines += ["", f"![{name}]({picture})"]
        if log := stage.get("log"):
            lines += ["", "```", *log, "```"]
    return lines


def _cell(x: Any) -> str:
    if x is None:
        return ""
    if isinstance(x, float):
        return f"{x:.3g}" if abs(x) < 1000 else f"{x:,.0f}"
    return f"{x:,}" if isinstance(x, int) and not isinstance(x, bool) else str(x)


# -- the command line


def arguments() -> Parser:
    """All options."""
    stages = "\n".join(f"- {name}, {x[0]:g} min: {x[1]}" for name, x in STAGES.items())
    parser = Parser(
        description=(__doc__ or "").format(stages=stages),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="default: see above")
    parser.add_argument("--dry-run", action="store_true", help="tiny, on the CPU")
    parser.add_argument("--resume", action="store_true", help="keep the stages that passed")
    parser.add_argument("--only", nargs="+", choices=STAGES, metavar="STAGE", help="some stages")
    parser.add_argument(
        "--minutes", type=minutes, default=MINUTES, metavar="N", help="at most; default: 25"
    )
    parser.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=0.0, help=argparse.SUPPRESS)
    return parser


def minutes(text: str) -> float:
    """A number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not number > 0:
        raise argparse.ArgumentTypeError(f"must be a number > 0, got {text!r}")
    return number


def main(
    argv: Sequence[str] | None = None, run: Callable[[argparse.Namespace], int] = check
) -> int:
    """Read the options and run."""
    return run_program(arguments(), run, argv, resumes=lambda args: not args.dry_run)


if __name__ == "__main__":
    sys.exit(main())
