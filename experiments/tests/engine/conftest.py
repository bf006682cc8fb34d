"""A file of results for every test of the engine."""

import sqlite3

import pytest

from lab.engine.store import Store


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results.sqlite"


@pytest.fixture
def store(path):
    with Store(path, write=True) as store:
        yield store


@pytest.fixture
def claims(path):
    """How many instances are claimed, by all processes together."""

    def count():
        with sqlite3.connect(path) as db:
            (number,) = db.execute("SELECT count(*) FROM claims").fetchone()
        db.close()
        return number

    return count
