"""The command line that all scripts share."""

import json
import subprocess
import sys
from dataclasses import dataclass

import pytest

from gendr.cli.command_line import above, count, option
from lab import script
from lab.settings import check_options
from lab.studies.registry import TASKS
from support.cases import for_each
from support.scripts import imported


@dataclass(frozen=True)
class Settings:
    """Some settings.

    Attributes:
        steps: of Adam.
        rate: of the steps. More of it.
        method: not an option.
    """

    steps: int = option(7, count(2))
    rate: float = option(0.5, above(0))
    method: str = "plain"

    def __post_init__(self):
        check_options(self)


def call(run, *options, resumes=False):
    """The exit status of a script with what all scripts share."""

    def add_options(parser):
        script.add_settings(parser, Settings, "the training")
        script.add_terrain(parser)
        script.add_runs(parser)
        script.add_protocol(parser)
        if resumes:
            script.add_execution(parser, "out")
        else:
            script.add_device(parser)
            script.add_output(parser, "out")

    return script.program("/some/where/try.py", "What it does.", add_options, run)(options)


def test_options_outweigh_what_stands_in_place_of_defaults(capsys):
    found = []

    def run(args):
        read = script.settings_of(args, Settings, {"steps": 3, "rate": 0.25}, method="other")
        found.append((read.steps, read.rate, read.method, script.seeds_of(args)))
        return 3

    assert call(run) == call(run, "--rate", "2", "--seed", "5", "--runs", "2") == 3
    assert found == [(3, 0.25, "other", range(1)), (3, 2.0, "other", range(5, 7))]
    assert call(run, "--help") == 0
    assert "of Adam (default: 7)" in capsys.readouterr().out


@for_each(
    "options, said",
    [
        (["--seed", "-1"], "argument --seed: must be a whole number >= 0, got '-1'"),
        (["--sed", "1"], "unrecognized arguments: --sed 1"),
        (["--device", "abacus"], "no device 'abacus' here; usable: cpu"),
        (["--steps", "1"], "argument --steps: must be a whole number >= 2"),
        (["--runs", "0"], "argument --runs: must be a whole number >= 1"),
        (["--protocol", "papr"], "unknown protocol 'papr'; "),
        (["-o", "file/out"], "choose another with -o"),
    ],
)
def test_bad_options_end_in_one_line(options, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    run = lambda args: script.device_of(args) and script.output_folder(args) and None  # noqa: E731
    assert call(run, *options) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("try.py: error: ")
    assert said in printed
    assert printed.count("\n") == 1


def test_how_scripts_end(capsys):
    def fail(args):
        raise ValueError("the first line\nand the second")

    def stop(args):
        raise KeyboardInterrupt

    assert call(fail) == 2
    assert capsys.readouterr().err == "try.py: error: the first line and the second\n"
    with pytest.raises(ZeroDivisionError):  # a mistake of ours keeps its traceback
        call(lambda args: 1 // 0)
    for resumes in (False, True):
        assert call(stop, resumes=resumes) == 130
        assert ("--resume goes on" in capsys.readouterr().err) == resumes


def test_maps_that_were_asked_for(tmp_path, capsys):
    found = []
    options = ["--smoke", "--size", "4", "--training-maps", "5"]
    assert call(lambda args: found.extend(script.terrain_of(args)), *options) == 0
    assert [tuple(part.paths.shape) for part in found] == [(5, 4, 4), (10, 4, 4), (10, 4, 4)]
    assert call(script.terrain_of, "--data", str(tmp_path)) == 2
    assert "name the folder of the Warcraft files with --data" in capsys.readouterr().err


def test_small_things(tmp_path):
    script.write_json(tmp_path / "a.json", {"score": 0.5})
    assert json.loads((tmp_path / "a.json").read_text()) == {"score": 0.5}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    assert script.TARGETS.keys() == TASKS.keys()
    assert all(script.default_target(task).is_file() for task in TASKS)
    # No --help waits for torch.
    code = "import sys, lab.script; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


@pytest.mark.parametrize("name", ["camera_pose", "shape_optimization", "best_again"])
def test_bad_files_are_refused_before_anything_is_written(name, tmp_path, capsys, monkeypatch):
    (text := tmp_path / "notes.obj").write_text("nothing\n")
    more = ["shape"] if name == "best_again" else []
    for target in (str(text), "missing.obj", str(tmp_path)):
        options = [target, *more, "-o", str(tmp_path / "out")]
        assert imported(monkeypatch, name).main(options) == 2
        message = capsys.readouterr().err
        assert message.startswith(f"{name}.py: error: ")
        assert message.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_settings_are_in_the_ranges_of_their_options():
    for values, error, said in (
        ({"steps": 1}, ValueError, "steps must be >= 2, got 1"),
        ({"rate": 0.0}, ValueError, "rate must be > 0, got 0.0"),
        ({"steps": None}, TypeError, "steps must be an int, got NoneType"),
    ):
        with pytest.raises(error, match=said):
            Settings(**values)
