"""`gendr logic`: train, run, export; what is refused."""

import os
import signal

import numpy as np
import pytest
import torch

from gendr.cli import main
from gendr.logic import Circuit
from support import commands
from support.cases import for_each
from support.commands import facts


def table(path, numbers=True, rows=300):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(rows, 5)) if numbers else generator.integers(0, 2, (rows, 5))
    y = ((x[:, 0] > 0) ^ (x[:, 1] > 0)).astype(np.int64) if numbers else x[:, 0] | x[:, 1]
    np.savez(path, x=x.astype(np.float32) if numbers else x.astype(np.uint8), y=y)
    return y


@pytest.mark.rotating(2)
@pytest.mark.parametrize("numbers", [True, False])
def test_train_run_export(tmp_path, capsys, numbers):
    y = table(tmp_path / "t.npz", numbers)
    out = tmp_path / "out"
    steps = 150 if numbers else 100
    command = f"logic train {tmp_path}/t.npz -o {out} --layers 3 --width 60 --lr 0.1"
    if numbers:
        command += " --bits 3"
    else:  # which has bits already
        assert main([*command.split(), "--bits", "3"]) == 2
        assert "--bits has no effect, as x in" in capsys.readouterr().err
    assert main([*command.split(), "--steps", str(steps)]) == 0
    said = capsys.readouterr().out
    metrics = facts(out)
    assert metrics["accuracy"] > 0.85
    assert f"test accuracy {metrics['accuracy']:.4f} on 60 rows" in said
    circuit = Circuit.load(out / "circuit.npz")
    assert circuit.features == 5
    assert main(f"logic run {out}/circuit.npz {tmp_path}/t.npz -o {out}/c.csv".split()) == 0
    classes = np.loadtxt(out / "c.csv", skiprows=1, dtype=int)
    rows = np.load(tmp_path / "t.npz")["x"]
    assert np.array_equal(classes, circuit.predict(rows))
    share = (classes == y).mean()
    assert f"accuracy {share:.4f} on 300 rows" in capsys.readouterr().err
    names = [str(out / f"net{suffix}") for suffix in (".c", ".v", ".dot", ".py", ".txt")]
    assert main(["logic", "export", str(out / "circuit.npz"), *names, "--name", "net"]) == 0
    assert "gates, depth" in capsys.readouterr().out
    space = {}
    exec((out / "net.py").read_text(), space)
    assert np.array_equal(space["net"](rows), circuit(rows))
    assert "void net_counts(" in (out / "net.c").read_text()
    assert (out / "net.txt").read_text() == f"{circuit}\n"


def interrupt_after(monkeypatch, step, number):
    """Send a signal in the middle of a step."""
    real, done = torch.optim.Adam.step, []

    def adam(self):
        done.append(1)
        if len(done) == step:
            os.kill(os.getpid(), number)
        return real(self)

    monkeypatch.setattr(torch.optim.Adam, "step", adam)


def test_an_interrupted_training_goes_on(tmp_path, monkeypatch, capsys):
    table(tmp_path / "t.npz")
    whole, out = tmp_path / "whole", tmp_path / "out"
    start = f"logic train {tmp_path}/t.npz --layers 2 --width 40 --bits 3 --quiet".split()
    command = [*start, "--steps", "30"]
    assert main([*command, "-o", str(whole)]) == 0
    with monkeypatch.context() as patch:
        interrupt_after(patch, 17, signal.SIGTERM)
        assert main([*command, "-o", str(out)]) == 130
    said = capsys.readouterr().err
    assert "stopped after step 17 of 30; the same command with --resume goes on from" in said
    assert {path.name for path in out.iterdir()} == {"checkpoint.pt"}
    # What does not fit is refused, and nothing is lost by trying.
    resumed = " ".join([*start, "--resume", "-o", str(out), "--steps"])
    assert "with learning_rate = 0.03, now it is 0.2" in refused(f"{resumed} 30 --lr 0.2", capsys)
    assert "has 17 steps, more than the 16 asked for" in refused(f"{resumed} 16", capsys)
    assert main([*command, "-o", str(out), "--resume"]) == 0
    a, b = (torch.load(each / "checkpoint.pt", weights_only=True)["state"] for each in (out, whole))
    assert all(map(torch.equal, a["model"].values(), b["model"].values()))
    a, b = (facts(each) for each in (out, whole))
    assert (a["step"], a["history"], a["accuracy"]) == (30, b["history"], b["accuracy"])
    a, b = (Circuit.load(each / "circuit.npz") for each in (out, whole))
    assert str(a) == str(b)


def refused(argv, capsys):
    return commands.refused(capsys, *argv.split())


def test_what_is_refused(tmp_path, capsys):
    table(tmp_path / "t.npz")
    rows = tmp_path / "x.npy"
    np.save(rows, np.zeros((3, 4)))
    (tmp_path / "text.npz").write_text("no arrays")
    np.savez(tmp_path / "y.npz", x=np.zeros((3, 2)), y=np.array([0, 1]))
    np.savez(tmp_path / "one.npz", x=np.zeros((3, 2)), y=np.zeros(3, int))
    np.savez(tmp_path / "nan.npz", x=np.full((3, 2), np.nan), y=np.arange(3))
    np.savez(tmp_path / "many.npz", x=np.zeros((3, 2)), y=np.array([0, 1, 10**9]))
    train = f"logic train -o {tmp_path}/o {tmp_path}/"
    assert "no such file" in refused(train + "none.npz", capsys)
    assert "must hold x [N, F] and y [N], got x" in refused(train + "x.npy", capsys)
    assert "text.npz is not a complete npy file" in refused(train + "text.npz", capsys)
    assert "y must be classes 0, 1, .. [3]" in refused(train + "y.npz", capsys)
    assert "two classes or more, got 1" in refused(train + "one.npz", capsys)
    assert "number them anew" in refused(train + "many.npz", capsys)
    assert "must be finite" in refused(train + "nan.npz", capsys)
    assert "is no circuit" in refused(f"logic run {tmp_path}/text.npz {rows}", capsys)
    small = f"{train}t.npz --steps 2 --layers 1 --width 4 --quiet".split()
    assert main(small) == 0
    circuit = f"{tmp_path}/o/circuit.npz"
    assert "[..., 5], got" in refused(f"logic run {circuit} {rows}", capsys)
    assert "must be one of .c, .v" in refused(f"logic export {circuit} net.exe", capsys)
    assert "letters, digits and _" in refused(
        f"logic export {circuit} {tmp_path}/n.c --name 1", capsys
    )
    assert not (tmp_path / "n.c").exists()
    assert "unknown ACTION 'rum'" in refused("logic rum", capsys)
    nothing = refused(f"logic train {tmp_path}/t.npz -o {tmp_path}/new --resume", capsys)
    assert "--resume: no checkpoint.pt in" in nothing
    assert not (tmp_path / "new").exists()


@for_each(dtype=["f2", "f8", ">f4", "u2", "i8"], rotating=3)
def test_numbers_of_all_types(tmp_path, dtype, capsys):
    x = np.random.default_rng(0).integers(0, 200, (60, 3)).astype(dtype)
    np.savez(tmp_path / "t.npz", x=x, y=(x[:, 0] > 100).astype(np.int64))
    command = f"logic train {tmp_path}/t.npz -o {tmp_path}/o --steps 2 --layers 1 --width 4 --quiet"
    assert main(command.split()) == 0, capsys.readouterr().err
    assert main(f"logic run {tmp_path}/o/circuit.npz {tmp_path}/t.npz --quiet".split()) == 0
