"""Options and fixtures shared by all tests."""

import gc
import importlib.util
import os
from contextlib import nullcontext
from pathlib import Path

import pytest

SEED = "GENDR_TEST_SEED"

# Numba gives texts of errors colours, also of the many that say which overload does not fit.
os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")

# Programs that tests start find the packages lab and support as the tests do.
ROOT = Path(__file__).parents[1]
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(ROOT / "experiments"), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
).rstrip(os.pathsep)


def pytest_addoption(parser):
    parser.addoption(
        "--every", action="store_true", help="run all 1242 instances and all cases, not a sample"
    )
    parser.addoption(
        "--pessimistic",
        action="store_true",
        help="Triton's interpreter computes as badly as a GPU may: support.arithmetic",
    )
    parser.addoption(
        "--seed",
        type=int,
        metavar="N",
        default=int(os.environ.get(SEED, "0")),
        help=f"which samples the tests draw (default: {SEED} of the environment, else 0)",
    )


def pytest_configure(config):
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        return  # it only deals tests to workers, which start the sooner without PyTorch here
    import torch

    # Triton decides at its import whether its kernels are compiled or interpreted.
    if not torch.cuda.is_available():
        os.environ.setdefault("TRITON_INTERPRET", "1")
    # Two xdist workers share two cores; without this each would start two threads of its own.
    if hasattr(config, "workerinput"):
        torch.set_num_threads(1)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """The garbage collector need not look at modules, and at the rest of objects seldom."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000)
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config):
    if hasattr(config, "workerinput"):
        os._exit(0)  # all has been reported; to take PyTorch's modules apart takes seconds
    gc.unfreeze()  # what is never collected counts as a leak of Triton's


def pytest_terminal_summary(terminalreporter, config):
    """Say the seed at the end, because -q leaves the header out."""
    if not config.getoption("--every"):
        seed = config.getoption("--seed")
        terminalreporter.write_line(f"samples drawn with --seed {seed}")


@pytest.fixture(autouse=True)
def _seeded():
    import torch

    torch.manual_seed(0)


@pytest.fixture(autouse=True, scope="session")
def _quick_interpreter(request):
    if importlib.util.find_spec("triton") is None or os.environ.get("TRITON_INTERPRET") != "1":
        yield
        return
    from support.arithmetic import pessimistic_arithmetic
    from support.interpreter import quick_interpreter

    option = request.config.getoption
    worst = pessimistic_arithmetic(option("--seed")) if option("--pessimistic") else nullcontext()
    with quick_interpreter(), worst:
        yield


@pytest.fixture(autouse=True, scope="session")
def _kernels_compiled_once(tmp_path_factory):
    """One worker of xdist compiles a kernel: on a new machine all need the same ones."""
    if "PYTEST_XDIST_WORKER" not in os.environ or importlib.util.find_spec("fcntl") is None:
        yield
        return
    from support.compiling import no_kernel_twice

    with no_kernel_twice(tmp_path_factory.getbasetemp().parent / "kernels"):
        yield


@pytest.fixture(scope="session")
def seed(request):
    """The seed of the samples that tests draw: `--seed N`."""
    return request.config.getoption("--seed")


@pytest.fixture
def drawn(request, seed):
    """A function (cases, n) -> an n-th of the cases, others with another seed; all if `--every`."""
    every = request.config.getoption("--every")
    return lambda cases, n: [*cases] if every else [*cases][seed % n :: n]


def pytest_collection_modifyitems(config, items):
    """Leave out what runs with `--every` only, and give each worker what costs a start of its own.

    A worker gets a share of the list, from which others take at its end. So one starts processes,
    first those that take long, and another the compiler of graphs, which take seconds to start;
    and no slow test at the end leaves the other workers without work.
    """
    if not config.getoption("--every"):
        out = left_out(items, config.getoption("--seed"))
        items[:] = [item for item in items if item not in out]
        config.hook.pytest_deselected(items=list(out))
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    graphs = [item for item in items if item.get_closest_marker("graphs") is not None]
    others = [item for item in items if item.get_closest_marker("graphs") is None]
    others.sort(key=lambda item: (item.get_closest_marker("slow") is None, not starts(item)))
    place = len(items) // workers % len(items) if items else 0
    items[:] = [*others[:place], *graphs, *others[place:]]


def starts(item):
    """Whether a test is in a module that starts processes from the fork server."""
    ways = {"Python", "run_python", "fork_server", "launches_compiled"}
    return bool(ways & vars(item.module).keys())


def left_out(items, seed):
    """What runs with `--every` only: marked `every`, or no case of `rotating(n)` of this seed.

    Cases of `rotating` are dealt among those of one test, or of one group if it is named; with two
    such marks what both leave in runs.
    """
    from support.cases import dealt

    out, cases = set(), {}
    for item in items:
        if item.get_closest_marker("every") is not None:
            out.add(item)
            continue
        for mark in item.iter_markers("rotating"):
            group = mark.kwargs.get("group", item.nodeid.partition("[")[0])
            cases.setdefault((group, mark.args[0]), []).append(item)
    for (_, parts), of_one in cases.items():
        out |= {*of_one} - {*dealt(of_one, lambda item: item.nodeid, parts, seed)}
    return out


def pytest_generate_tests(metafunc):
    if "signs" in metafunc.fixturenames:  # seeds of `support.arithmetic`
        metafunc.parametrize("signs", range(4) if metafunc.config.getoption("--every") else [0])


@pytest.fixture
def nan_in_new_tensors():
    """Memory from `torch.empty` is NaN, not what happens to lie there: a kernel must write it."""
    import torch

    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def small_pictures(monkeypatch):
    """The pictures of a fit take longer than a fit of few steps."""
    from gendr.cli import fit

    monkeypatch.setattr(fit, "TILE", 48)
    monkeypatch.setattr(fit, "SHEET_TILE", 48)


@pytest.fixture
def moved(monkeypatch):
    """Names of the files that were written elsewhere and then moved to their places whole."""
    names, replace = set(), Path.replace

    def remembered(self, target):
        names.add(Path(target).name)
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", remembered)
    return names
