"""Options and fixtures shared by all tests."""

import os

import pytest
import torch


def pytest_addoption(parser):
    parser.addoption("--every", action="store_true", help="run all 1242 instances, not a sample")


def pytest_configure(config):
    # Two xdist workers share two cores; without this each would start two threads of its own.
    if "PYTEST_XDIST_WORKER" in os.environ:
        torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)
