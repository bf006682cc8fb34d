"""The router of digits: what it writes, and what the page says of it."""

import json

import pytest
import torch

from support.scripts import ROOT, imported

pytest.importorskip("sklearn")


def test_capacity_is_kept_and_the_gate_learns(monkeypatch, tmp_path, capsys):
    script = imported(monkeypatch, "router")
    threads = torch.get_num_threads()
    try:
        assert script.main(["--smoke", "--runs", "1", "-o", str(tmp_path / "a")]) == 0
    finally:
        torch.set_num_threads(threads)
    found = json.loads((tmp_path / "a" / "results.json").read_text())
    assert found.keys() == {"steps", *script.WAYS}
    torch.manual_seed(0)
    model = script.Mixture()
    logits, chosen, kept = model(torch.rand(128, 64), 20)
    assert (chosen.sum(1) == script.CHOSEN).all()
    assert kept.sum(0).max() <= 20
    assert (kept <= chosen).all()
    logits.square().sum().backward()
    assert model.gate.weight.grad.any()


def test_balance_shares_the_work():
    found = json.loads((ROOT / "docs/results/router.json").read_text())

    def of(way, name):
        return [run[name] for run in found[way]]

    assert max(of("balance", "load")) < min(of("neither", "load"))
    assert max(of("capacity, balance", "dropped")) < min(of("capacity", "dropped"))
