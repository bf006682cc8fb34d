"""The benchmark of logic gate networks: what it compares, what it says, how it refuses."""

import importlib
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def logic():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        yield importlib.import_module("logic")


def test_implementations_agree_and_are_timed(logic):
    rows = logic.train(2, 40, 1, "cpu")
    names = [row["implementation"] for row in rows]
    assert names == ["gendr", logic.ALONE, "four numbers", "sixteen gates"]
    assert all(0 < row["min_s"] <= row["median_s"] for row in rows)


def test_implementations_that_differ_are_not_timed(logic, monkeypatch):
    monkeypatch.setattr(logic, "AGREEMENT", 0.0)
    with pytest.raises(SystemExit, match=r"off gendr"):
        logic.train(2, 40, 1, "cpu")


@pytest.mark.parametrize(
    ("options", "match"), [(["--docs"], "--docs writes what the CPU does"), ([], "no GPU here")]
)
def test_refusals(logic, options, match, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: bool(options))
    with pytest.raises(SystemExit):
        logic.main(["--device", "cuda", *options])
    assert match in capsys.readouterr().err
