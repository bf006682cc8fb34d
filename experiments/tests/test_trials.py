"""What is kept of trainings: the files in docs/results, by the function and by its script."""

import json
from pathlib import Path

import pytest

from lab.trials import kept_results
from support.cases import for_each
from support.scripts import imported, refusal

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results"
# With what is said to the script.
KEPT = {
    "shortest-path": ["--first-examples"],
    "newton-sorting": [],
    "newton-paths": [],
    "newton-classification": [],
    "logic-tables": [],
    "logic-mnist": [],
    "topk-silhouettes": ["--no-history"],
}


@pytest.fixture
def keep(monkeypatch):
    return imported(monkeypatch, "keep_results").main


def write_training(folder, result, **around):
    """Write a training as `run_trials` does, with rows of the history that have the loss alone."""
    rows = result.get("history", [])
    apart = {"step": 0, "loss": 9.0}
    whole = [row for k, each in enumerate(rows) for row in ([apart, each] if k else [each])]
    values = {key: whole if key == "history" else value for key, value in result.items()}
    values.setdefault("example", {})
    folder.mkdir(parents=True)
    plain = {"signature": {}, "result": values, **around}
    (folder / "result.json").write_text(json.dumps(plain))


def result_of(step=10, **more):
    rows = [{"step": 5, "loss": 2.0}, {"step": step, "loss": 1.0, "em": 0.5}]
    return {"settings": {"seed": 0}, "step": step, "history": rows, **more}


@for_each(name=KEPT)
def test_files_of_the_docs_have_this_form(keep, tmp_path, name):
    """Taken apart into trainings of commands, and joined again."""
    file = RESULTS / f"{name}.json"
    values = json.loads(file.read_text())
    around = {key: value for key, value in values.items() if key != "trainings"}
    trainings = values["trainings"]
    first = next(iter(trainings.values()))
    options = []
    for title, some in ({"": trainings} if "settings" in first else trainings).items():
        folders = []
        for label, result in some.items():
            # Trainings of different lengths come from different commands.
            plain = label.replace(f"-{result['step']}-seed", "-seed")
            folder = tmp_path / title / str(result["step"]) / plain
            example = {"example": {"outputs": []}} if name == "shortest-path" else {}
            write_training(folder, {**result, **{**example, **result}}, **around)
            folders.append(str(folder))
        options += ["--set", title, *folders] if title else folders
    made = tmp_path / "made.json"
    assert keep([*options, *KEPT[name], "-o", str(made)]) == 0
    assert json.loads(made.read_text()) == values
    assert list(json.loads(made.read_text())["trainings"]) == list(trainings)
    if name != "shortest-path":  # whose rows of numbers stand on lines
        assert made.read_text() == file.read_text()


def test_trainings_of_a_command_come_in_its_order(keep, tmp_path, capsys):
    out = tmp_path / "out"
    for name in ("a-seed0", "b-seed0", "a-seed1"):
        write_training(out / name, result_of())
    (out / "c-seed0").mkdir()  # not finished
    order = ["b-seed0", "a-seed0", "a-seed1"]
    (out / "results.json").write_text(json.dumps({"trainings": dict.fromkeys(order)}))
    made = tmp_path / "made.json"
    assert keep([str(out), "-o", str(made)]) == 0
    found = json.loads(made.read_text())
    assert list(found["trainings"]) == order
    assert found["trainings"]["b-seed0"]["history"] == [{"step": 10, "loss": 1.0, "em": 0.5}]
    assert "example" not in found["trainings"]["b-seed0"]
    assert capsys.readouterr().out == f"{made}: 3 training(s)\n"


def test_what_differs_between_commands_is_a_list(tmp_path):
    for k, threads in enumerate((1, 2, 1)):
        write_training(tmp_path / f"a-seed{k}", result_of(), threads=threads, device="cpu")
    found = kept_results([tmp_path / f"a-seed{k}" for k in range(3)])
    assert (found["device"], found["threads"]) == ("cpu", [1, 2])
    assert "version" not in found


def test_the_last_row_stays_and_no_history_has_none(tmp_path):
    rows = [{"step": 5, "loss": 2.0}, {"step": 10, "loss": 1.0}]
    write_training(tmp_path / "a-seed0", {**result_of(), "history": rows})
    (kept,) = kept_results([tmp_path])["trainings"].values()
    assert kept["history"] == rows[-1:]
    (kept,) = kept_results([tmp_path], history=False)["trainings"].values()
    assert list(kept) == ["settings", "step"]


def test_trainings_of_one_name(tmp_path):
    for folder, step in (("short", 10), ("long", 20), ("again", 10)):
        write_training(tmp_path / folder / "a-seed0", result_of(step, example={"x": step}))
    folders = [tmp_path / name for name in ("short", "long", "again")]
    assert list(kept_results(folders[:2])["trainings"]) == ["a-10-seed0", "a-20-seed0"]
    assert list(kept_results(folders[:1])["trainings"]) == ["a-seed0"]
    with pytest.raises(ValueError, match="a-10-seed0 stands twice"):
        kept_results(folders)
    by_set = kept_results({"one": folders[:1], "two": folders[2:]})["trainings"]
    assert list(by_set["two"]["a-seed0"]["example"]) == ["x"]


def test_a_set_is_added_to_a_file(keep, tmp_path, capsys):
    write_training(tmp_path / "one" / "a-seed0", result_of(), device="cpu", threads=1)
    write_training(tmp_path / "two" / "a-seed0", result_of(), device="cpu", threads=2)
    made = tmp_path / "made.json"
    add = ["--add", "-o", str(made)]
    assert keep(["--set", "two", str(tmp_path / "two"), *add]) == 2
    assert "has no trainings to add to" in refusal(capsys, "keep_results")
    assert keep(["--set", "one", str(tmp_path / "one"), "-o", str(made)]) == 0
    before = json.loads(made.read_text())
    assert keep(["--set", "two", str(tmp_path / "two"), *add]) == 0
    found = json.loads(made.read_text())
    assert list(found["trainings"]) == ["one", "two"]
    assert found["trainings"]["one"] == before["trainings"]["one"]
    assert (found["device"], found["threads"]) == ("cpu", [1, 2])
    whole = made.read_text()
    assert keep(["--set", "two", str(tmp_path / "two"), *add]) == 2
    assert "'two' stands there already" in refusal(capsys, "keep_results")
    assert keep([str(tmp_path / "two"), *add]) == 2
    assert "has sets, and so must be what is added" in refusal(capsys, "keep_results")
    assert made.read_text() == whole


@for_each(
    "options, words",
    [
        (["{}"], "has no finished training; name the folder -o"),
        ([], "name folders, or name sets"),
        (["--set", "one"], "--set 'one' needs a folder"),
        (["--set", "one", "{}", "--set", "one", "{}"], "two sets have one name"),
        (["{}", "--set", "one", "{}"], "name folders, or name sets"),
    ],
)
def test_script_says_what_is_wrong(keep, tmp_path, capsys, options, words):
    made = tmp_path / "made.json"
    assert keep([*(word.format(tmp_path) for word in options), "-o", str(made)]) == 2
    assert words in refusal(capsys, "keep_results")
    assert not made.exists()
