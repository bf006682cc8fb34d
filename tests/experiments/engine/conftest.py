"""A file of results for every test of the engine."""

import pytest

from lab.engine.store import Store


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results.sqlite"


@pytest.fixture
def store(path):
    with Store(path, write=True) as store:
        yield store
