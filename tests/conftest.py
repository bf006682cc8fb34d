"""Options and fixtures shared by all tests."""

import os

import pytest
import torch

# Triton decides at its import whether its kernels are compiled or interpreted.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")


def pytest_addoption(parser):
    parser.addoption("--every", action="store_true", help="run all 1242 instances, not a sample")


def pytest_configure(config):
    # Two xdist workers share two cores; without this each would start two threads of its own.
    if "PYTEST_XDIST_WORKER" in os.environ:
        torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


def instance_sample(config):
    """All instances with --every, else a covering set and a seeded tenth of the rest.

    Every distribution meets one T-conorm and every T-conorm at least two distributions.
    """
    import random

    from gendr import instances

    every = list(instances())
    if config.getoption("--every"):
        return every
    families = len({str(i.tconorm) for i in every})
    laws = len(every) // families
    cover = {law * families + (law * 5) % families for law in range(laws)}
    rest = [k for k in range(len(every)) if k not in cover]
    tenth = random.Random(20260101).sample(rest, len(rest) // 10)
    return [every[k] for k in sorted(cover | set(tenth))]


def pytest_generate_tests(metafunc):
    if "any_instance" in metafunc.fixturenames:
        sample = instance_sample(metafunc.config)
        metafunc.parametrize("any_instance", sample, ids=[i.name for i in sample])
