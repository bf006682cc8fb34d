"""The scripts of trainings: what they write, how they go on, what they refuse."""

import json
import re
import signal
import sys

import pytest
import torch

from lab.data import MultiDigits, mnist
from lab.studies.ranking import Metrics, RankingTraining
from support.cases import for_each
from support.scripts import advanced, imported, refusal, signalled

SMALL = ["--size", "4", "--training-maps", "8", "--batch", "2", "--steps", "1"]
# By script: options, the names of its trainings, and what its table says.
RUNS = {
    "levenshtein": ([], ["levenshtein-01-seed0", "l1-01-seed0"], r"\| l1 \| F1 \|"),
    "relaxed_sort": (
        ["--steps", "3", "--methods", "bubble_sort", "odd_even/logistic@8", "softsort", "-n", "2"],
        ["bubble_sort-n2-seed0", "odd_even-logistic-8-n2-seed0", "softsort-n2-seed0"],
        r"\| bubble_sort \| [01]\.\d{3} \(",
    ),
    "topk_classification": (
        ["--losses", "softmax", "splitter:.5,0,0,0,.5@2", "--runs", "2"],
        [f"{loss}-seed{k}" for loss in ("softmax", "splitter-.5,0,0,0,.5@2") for k in (0, 1)],
        "8 classes, 240 / 80 / 80 examples",
    ),
    "shortest_path": (
        [*SMALL, "--samples", "2", "3", "--methods", "bellman_ford", "smoothing", "resnet"],
        ["bellman_ford-seed0", "smoothing-2-seed0", "smoothing-3-seed0", "resnet-seed0"],
        r"\| ResNet18, no algorithm \|",
    ),
    "newton_losses sorting": (
        ["--methods", "neuralsort", "resgro", "--network", "digits", "--variants", "fisher",
         "--steps", "2"],
        ["neuralsort-n-5-fisher-seed0", "resgro-n-5-resgro-seed0"],
        r"\| neuralsort, n = 5 \| NL \(Fisher\) \| 0\.01 \| 1 \| 2 \|",
    ),
    "newton_losses classification": (
        ["--models", "M5", "--optimizers", "sgd", "--variants", "hessian"],
        ["M5-sgd-hessian-seed0"], r"\| M5, sgd \| NL \(Hessian\) \|",
    ),
    "newton_losses paths": (
        ["--methods", "fenchel_young", "resgro", "--samples", "3", "--variants", "hessian", *SMALL],
        ["fenchel_young-3-samples-hessian-seed0", "resgro-3-samples-resgro-seed0"],
        r"\| fenchel_young, 3 samples \| NL \(Hessian\) \| 0\.1 \|",
    ),
    "sorting_tables": (
        ["--network", "digits", "--rows", "cauchy", "logistic-art"],
        [f"digits-odd_even-5-{row}-4steps-seed0" for row in ("cauchy", "logistic-art")],
        r"\| cauchy \| 160\.2 \| 1 \|",
    ),
    "logic_tables": (
        ["--tables", "monk-1", "adult", "--runs", "1"], ["monk-1-seed0", "adult-seed0"],
        r"\| monk-1 \| logic gate network \|",
    ),
    "logic_images": ([], ["mnist-small-seed0"], r"\| mnist, small \|"),
}  # fmt: skip


@pytest.fixture
def call(monkeypatch):
    """Calls a script, or one of its tasks, with options."""
    monkeypatch.setattr("lab.trials.has_tensorboard", lambda: False)
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)

    def call_it(name, *options):
        script, *task = name.split()
        return imported(monkeypatch, script).main([*task, *map(str, options)])

    return call_it


def results(folder):
    return json.loads((folder / "results.json").read_text())["trainings"]


@pytest.mark.rotating(4, group="study")
@for_each(name=RUNS, rotating=10)
def test_scripts_train_and_write(name, call, tmp_path, capsys):
    options, names, said = RUNS[name]
    arguments = [name, "--smoke", *options, "-o", tmp_path / "out"]
    assert call(*arguments) == 0
    found = results(tmp_path / "out")
    assert [*found] == names
    for one in found.values():
        assert {"settings", "step", "seconds", "history", "example"} <= one.keys()
        assert one.keys() & {"test", "accuracy"}
    printed = capsys.readouterr().out
    assert re.search(said, printed)
    assert (tmp_path / "out" / "table.md").read_text() in printed
    if not name.startswith("logic"):
        assert (tmp_path / "out" / "picture.png").stat().st_size > 10_000
    assert call(*arguments) == 2  # an accident must not cost a training
    assert "has trainings already; go on with --resume" in capsys.readouterr().err
    assert call(*arguments, "--resume") == 0
    assert results(tmp_path / "out") == found


@pytest.mark.rotating(4, group="study")
def test_script_goes_on_after_a_signal(call, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)  # a picture takes long
    options = ["relaxed_sort", "--smoke", "--methods", "bubble_sort", "odd_even"]
    options += ["--steps", "3", "--batch", "2", "-o"]
    assert call(*options, tmp_path / "whole") == 0
    handlers = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]
    with signalled(RankingTraining, lambda t: t.step == 2 and t.settings.method == "odd_even"):
        assert call(*options, tmp_path / "out") == 130
    assert "--resume goes on" in capsys.readouterr().err
    assert [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)] == handlers
    with advanced(RankingTraining) as steps:
        assert call(*options, tmp_path / "out", "--resume") == 0
    assert steps == [2]  # the first method is not trained again, the second goes on
    whole, rest = results(tmp_path / "whole"), results(tmp_path / "out")
    for name, one in rest.items():
        for key in ("history", "test", "example", "settings", "best_step"):
            assert one[key] == whole[name][key]
    assert call(*options, tmp_path / "out", "--resume", "--steps", "2") == 2
    assert "has 3 steps, more than the 2 asked for" in capsys.readouterr().err


def test_script_without_matplotlib(call, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    options = ["--smoke", "--losses", "softmax", "-o", tmp_path / "out"]
    assert call("topk_classification", *options) == 0
    assert "no picture, which needs Matplotlib" in capsys.readouterr().out
    assert not (tmp_path / "out" / "picture.png").exists()


@pytest.mark.every
def test_what_is_known_is_not_trained_again(call, tmp_path, capsys):
    options = ["sorting_tables", "--smoke", "--network", "digits", "--rows", "cauchy"]
    assert call(*options, "-o", tmp_path / "first") == 0
    known = ["--known", tmp_path / "first" / "results.json"]
    more = ["--runs", "2", "--factors", "1", "0.5", "-o", tmp_path / "second"]
    assert call(*options, *known, *more) == 0
    assert len(results(tmp_path / "second")) == 3
    assert not {*results(tmp_path / "first")} & {*results(tmp_path / "second")}
    assert "| cauchy | 160.2 | 2 |" in capsys.readouterr().out  # the known seed and the new one


@pytest.mark.every
def test_curves_of_tensorboard(tmp_path, monkeypatch):
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    options = ["--smoke", "--steps", "3", "--methods", "bubble_sort", "-o", str(tmp_path / "out")]
    assert imported(monkeypatch, "relaxed_sort").main(options) == 0
    folder = tmp_path / "out" / "bubble_sort-n3-seed0"
    events = EventAccumulator(str(folder / "tensorboard")).Reload()
    rows = json.loads((folder / "result.json").read_text())["result"]["history"]
    values = {event.step: event.value for event in events.Scalars("loss")}
    assert values == pytest.approx({row["step"]: row["loss"] for row in rows})


NOWHERE = ["--data", "nowhere"]


@for_each(
    "name, options, words",
    [
        ("levenshtein", NOWHERE, "no train-images-idx3-ubyte.gz .* add --download"),
        ("levenshtein", ["--alphabets", "0"], "two different digits or more, .* got '0'"),
        ("levenshtein", ["--alphabets", "0x"], "two different digits or more, .* got '0x'"),
        ("levenshtein", ["--alphabets", "01", "01"], "named twice"),
        ("levenshtein", ["--methods", "hamming"], "hamming"),
        ("levenshtein", ["--length", "3"], "must be a whole number >= 4"),
        ("levenshtein", ["--device", "abacus"], "no device 'abacus' here"),
        ("levenshtein", ["--threads", "0"], "--threads must be >= 1"),
        ("relaxed_sort", ["--methods", "quicksort"], "quicksort"),
        ("relaxed_sort", ["--methods", "odd_even@steep"], "of 'odd_even@steep' must be a number"),
        ("relaxed_sort", ["--methods", "odd_even/gaussian"], "no published steepness for gaussian"),
        ("relaxed_sort", ["--methods", "odd_even", "odd_even"], "named twice"),
        ("relaxed_sort", ["-n", "1"], "must be a whole number >= 2"),
        ("topk_classification", ["--cifar", "x"], "name the data with one of"),
        ("topk_classification", ["--losses", "hinge"], "a loss must be one of softmax"),
        ("topk_classification", ["--losses", "softmax", "softmax"], "named twice"),
        ("topk_classification", ["--losses", "splitter:.5,.6"], "sum to 1"),
        ("topk_classification", ["--losses", "splitter:.5,,.5"], "must be numbers"),
        ("shortest_path", NOWHERE, r"there is no train_maps\.npy .* with --data"),
        ("shortest_path", ["--samples", "3", "3"], "named twice"),
        ("shortest_path", ["--samples", "1"], "must be a whole number >= 2"),
        ("shortest_path", ["--steepness", "-1"], "steepness.* must be > 0"),
        ("shortest_path", ["--dist", "levy"], "symmetric"),
        ("newton_losses sort", [], "invalid choice|unknown"),
        ("newton_losses sorting", ["--variants", "newton"], "newton"),
        ("newton_losses sorting", ["--methods", "bubble_sort"], "permutation matrix"),
        ("newton_losses sorting", ["--methods", "softsort", "softsort"], "named twice"),
        ("newton_losses paths", ["--methods", "bellman_ford", "--variants", "hessian"],
         "no method has one"),
        ("sorting_tables", ["--factors", "1", "1"], "--factors must be different numbers > 0"),
        ("sorting_tables", ["--known", "nothing.json"], "nothing.json has no trainings with"),
        ("sorting_tables", ["--rows", "sigmoid"], "unknown ROW 'sigmoid'; allowed: cauchy"),
        ("logic_images", ["--network", "huge"], "must be one of small, normal"),
        ("newton_directions", ["--batch", "1"], "--batch"),
    ],
    rotating=3,
)  # fmt: skip
def test_scripts_say_what_is_wrong(name, options, words, call, tmp_path, capsys):
    output = [] if name == "newton_directions" else ["-o", tmp_path / "out"]
    assert call(name, "--smoke", *options, *output) == 2
    assert re.search(words, refusal(capsys, name.split()[0]))
    assert not (tmp_path / "out" / "results.json").exists()


@for_each(name=["logic_tables", "logic_images"])
def test_scripts_without_data(name, call, tmp_path, capsys):
    assert call(name, "--data", tmp_path, "-o", tmp_path / "out") == 2
    assert re.search("there is no .*--data", capsys.readouterr().err)


def test_directions_are_written(call, tmp_path, capsys):
    out = tmp_path / "new.json"
    assert call("newton_directions", "--smoke", "--methods", "neuralsort", "-o", out) == 0
    rows = json.loads(out.read_text(encoding="utf-8"))["rows"]
    assert [(row["method"], row["step"]) for row in rows] == [("neuralsort", 0), ("neuralsort", 2)]
    assert "hessian_cosine" in capsys.readouterr().out


# -- sorting_mnist


@pytest.fixture
def sort(call, monkeypatch, tmp_path):
    """Calls sorting_mnist on a small data set in the files of MNIST, not compressed."""
    monkeypatch.setattr(mnist, "VALIDATION", 10)
    folder = tmp_path / "data"
    folder.mkdir()
    for part, count in (("train", 30), ("t10k", 10)):
        labels = torch.arange(count).byte() % 10
        some = MultiDigits((labels[:, None, None] * 27).repeat(1, 4, 4), labels, digits=1)
        for kind, tensor in (("images-idx3", some.images), ("labels-idx1", some.labels)):
            header = b"\0\0\x08" + bytes([tensor.ndim])
            header += b"".join(n.to_bytes(4, "big") for n in tensor.shape)
            (folder / f"{part}-{kind}-ubyte").write_bytes(header + tensor.numpy().tobytes())
    common = ["--data", folder, "-o", tmp_path / "out", "--batch", "2", "-n", "3"]
    common += ["--lists", "10", "--test-lists", "10", "--evaluate-every", "2"]
    return lambda *options: call("sorting_mnist", *common, *options)


def test_the_sorting_script_goes_on_and_stops_in_time(sort, tmp_path, capsys):
    def found():
        return json.loads((tmp_path / "out" / "results.json").read_text())

    assert sort("--method", "softsort", "--steps", "6") == 0
    whole, out = found(), capsys.readouterr().out
    assert whole["finished"]
    assert [row["step"] for row in whole["history"]] == [1, 2, 3, 4, 5, 6]
    assert str(Metrics(**whole["test"])) in out.splitlines()[1]
    assert whole["sorter"] in out
    for file in (tmp_path / "out").iterdir():
        file.unlink()
    with signalled(RankingTraining, lambda training: training.step == 3):
        assert sort("--method", "softsort", "--steps", "6") == 130
    assert "--resume goes on" in capsys.readouterr().err
    assert sort("--method", "softsort", "--steps", "6") == 2
    assert "has a training already" in capsys.readouterr().err
    assert sort("--method", "softsort", "--steps", "6", "--resume") == 0
    assert all(found()[name] == whole[name] for name in ("history", "test", "best_step", "step"))
    (tmp_path / "out" / "checkpoint.pt").unlink()
    assert sort("--smoke", "--minutes", "0.002") == 0
    assert not found()["finished"]
    assert found()["settings"]["batch"] == 2  # what is given outweighs --smoke
    assert found()["settings"]["steps"] == 200_000


@for_each(
    "options, words",
    [
        (["--method", "quicksort"], "quicksort"),
        (["--method", "softsort", "--art", "0.5"], "for sorting networks"),
        (["--steps", "0"], "must be a whole number >= 1"),
        (["--minutes", "0"], "--minutes must be > 0"),
        (["--resume"], "no checkpoint to resume from"),
        (["--task", "svhn"], "no train.tar.gz"),
    ],
)
def test_the_sorting_script_says_what_is_wrong(sort, tmp_path, capsys, options, words):
    assert sort(*options) == 2
    assert re.search(words, refusal(capsys, "sorting_mnist"))
    assert not (tmp_path / "out" / "checkpoint.pt").exists()
