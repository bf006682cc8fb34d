"""Learning to rank: what the script writes, what it refuses, and that losses learn real queries."""

import json
import os
from pathlib import Path

import pytest
import torch

from support.scripts import imported


@pytest.fixture
def module(monkeypatch):
    return imported(monkeypatch, "learning_to_rank")


def test_it_writes_metrics_and_a_table(module, tmp_path, capsys):
    options = [
        "--smoke",
        "--losses",
        "listmle",
        "lambdar",
        "--runs",
        "2",
        "-o",
        str(tmp_path / "a"),
    ]
    assert module.main(options) == 0
    found = json.loads((tmp_path / "a" / "results.json").read_text())
    assert [*found["results"]] == ["lambdarank", "listmle"]
    for runs in found["results"].values():
        assert [one["seed"] for one in runs] == [0, 1]
        assert all(0 <= one[name] <= 1 for one in runs for name in module.METRICS)
    table = (tmp_path / "a" / "table.md").read_text()
    assert table in capsys.readouterr().out
    assert table.startswith("| loss | NDCG@1 | NDCG@5 | NDCG@10 | MAP |")


def test_it_reads_svmlight(module, tmp_path, capsys):
    (tmp_path / "rank.train").write_text("2 1:0.5 3:1\n0 2:-1\n1\n")
    (tmp_path / "rank.train.query").write_text("1\n2\n")
    features, grades, mask = module.read_queries(tmp_path, "rank.train")
    assert features.tolist() == [
        [[0.0, 0.5, 0.0, 1.0], [0.0] * 4], [[0.0, 0.0, -1.0, 0.0], [0.0] * 4]
    ]  # fmt: skip
    assert grades.tolist() == [[2.0, 0.0], [0.0, 1.0]]
    assert mask.tolist() == [[True, False], [True, True]]
    assert module.read_queries(tmp_path, "rank.train", 2).features.shape == (2, 2, 2)
    main, out = module.main, ["-o", str(tmp_path / "out")]
    assert module.main(["--data", str(tmp_path), "--losses", "hinge", *out]) == 2
    assert "no loss is called ['hinge']" in capsys.readouterr().err
    for text, words in (("1 2:x\n", "is no svmlight file"), ("1 2:1\n", "has 1 rows, but")):
        (tmp_path / "rank.train").write_text(text)
        assert main(["--data", str(tmp_path), *out]) == 2
        assert words in capsys.readouterr().err
    assert main(["--data", str(tmp_path / "nowhere"), *out]) == 2
    assert "name its folder with --data" in capsys.readouterr().err


@pytest.mark.every
@pytest.mark.skipif("GENDR_DATA" not in os.environ, reason="GENDR_DATA names no folder of data")
def test_losses_learn_real_queries(module):
    """After a few steps, the hard NDCG@10 of test queries is above that of chance."""
    folder = Path(os.environ["GENDR_DATA"]) / "learning_to_rank"
    whole = module.read_queries(folder, "rank.train")
    test = module.read_queries(folder, "rank.test", whole.features.shape[-1])
    assert (len(whole.mask), int(whole.mask.sum())) == (201, 3005)
    assert (len(test.mask), int(test.mask.sum())) == (50, 768)
    torch.manual_seed(0)
    chance = module.mean_ndcg(torch.randn(test.grades.shape), test, 10)
    for name, (make, steepnesses) in module.LOSSES.items():
        model = torch.nn.Linear(whole.features.shape[-1], 1)
        optimizer = torch.optim.Adam(model.parameters(), 0.01)
        for _ in range(15):
            optimizer.zero_grad()
            loss = make(steepnesses[0])(model(whole.features)[..., 0], whole.grades, whole.mask)
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            assert module.mean_ndcg(model(test.features)[..., 0], test, 10) > chance + 0.05, name
