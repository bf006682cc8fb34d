"""The command line that all scripts share."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gendr._runtime import threads
from lab import script
from lab.studies.registry import TASKS
from support.cases import for_each
from support.scripts import imported

SCRIPTS = sorted((Path(__file__).parents[2] / "experiments").glob("*.py"))


@pytest.fixture
def parser():
    parser = script.make_parser("/some/where/try.py", "What it does.")
    script.add_device(parser)
    script.add_seed(parser)
    script.add_output(parser, "out")
    return parser


def test_it_returns_what_the_script_says(parser):
    assert script.run_script(parser, lambda args: None, []) == 0
    assert script.run_script(parser, lambda args: args.seed, ["--seed", "3"]) == 3
    assert script.run_script(parser, lambda args: None, ["--help"]) == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--seed", "-1"], "try.py: error: argument --seed: must be a whole number >= 0, got '-1'"),
        (["--seed", "some"], "try.py: error: argument --seed: must be a whole number >= 0"),
        (["--sed", "1"], "try.py: error: unrecognized arguments: --sed 1"),
        (["--device", "abacus"], "try.py: error: no device 'abacus' here; usable: cpu"),
    ],
)
def test_bad_options_end_in_one_line(parser, capsys, options, said):
    assert script.run_script(parser, lambda args: script.device_of(args) and None, options) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(said)
    assert printed.count("\n") == 1


def test_errors_of_the_script_end_in_one_line(parser, capsys):
    def fail(args):
        raise ValueError("the first line\nand the second")

    assert script.run_script(parser, fail, []) == 2
    assert capsys.readouterr().err == "try.py: error: the first line and the second\n"
    with pytest.raises(ZeroDivisionError):  # a mistake of ours keeps its traceback
        script.run_script(parser, lambda args: 1 // 0, [])


@pytest.mark.parametrize("resumes", [False, True])
def test_an_interruption_points_to_resume(parser, capsys, resumes):
    def stop(args):
        raise KeyboardInterrupt

    if resumes:
        script.add_resume(parser, "what there is")
    assert script.run_script(parser, stop, []) == 130
    assert ("--resume goes on" in capsys.readouterr().err) == resumes


def test_a_folder_that_cannot_be_written_to(parser, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    options = ["-o", str(tmp_path / "file" / "out")]
    assert script.run_script(parser, lambda args: script.output_folder(args) and None, options) == 2
    assert "choose another with -o" in capsys.readouterr().err
    assert script.output_folder(parser.parse_args(["-o", str(tmp_path / "new")])).is_dir()


def test_torch_has_one_thread_for_a_while(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    asked = []
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    with script.torch_on_one_thread():
        assert threads.num_threads() == 2
        assert asked == [1]
    assert asked == [1, 2]


@pytest.fixture
def trainer():
    """A parser with what scripts of several trainings share."""
    parser = script.make_parser("/some/where/try.py", "What it does.")
    group = parser.add_argument_group("the task")
    script.add_terrain(group)
    script.add_runs(group)
    script.add_training(group, steps="7", batch="maps", rate=None, every="3", least=2)
    script.add_terrain_training(group)
    script.add_execution(parser, "out", "the checkpoint of -o")
    return parser


def test_runs_have_seeds(trainer):
    assert script.seeds_of(trainer.parse_args([])) == range(1)
    assert script.seeds_of(trainer.parse_args(["--seed", "5", "--runs", "3"])) == range(5, 8)


def test_only_what_is_given_outweighs_settings(trainer):
    args = trainer.parse_args(["--steps", "4"])
    names = ("steps", "batch", "evaluate_every", "loss", "maps", "precision")
    assert script.given(args, *names) == {"steps": 4}
    assert not hasattr(args, "learning_rate")
    assert (args.save_every, args.resume, str(args.output)) == (60.0, False, "out")


@pytest.mark.parametrize("options", [["--batch", "1"], ["--steps", "0"], ["--runs", "0"]])
def test_counts_that_are_too_small(trainer, options):
    assert script.run_script(trainer, lambda args: None, options) == 2


def test_maps_that_were_asked_for(trainer, tmp_path):
    some = ["--size", "4", "--training-maps", "5"]
    small = script.terrain_of(trainer.parse_args(["--smoke", *some]))
    assert [tuple(part.paths.shape) for part in small] == [(5, 4, 4), (10, 4, 4), (10, 4, 4)]
    with pytest.raises(ValueError, match="name the folder of the Warcraft files with --data"):
        script.terrain_of(trainer.parse_args(["--data", str(tmp_path)]))


def test_misspelt_choices_end_in_the_nearest(capsys):
    parser = script.make_parser("/some/where/try.py", "What it does.")
    script.add_protocol(parser)
    assert script.run_script(parser, lambda args: None, ["--protocol", "papr"]) == 2
    assert "unknown protocol 'papr'; " in capsys.readouterr().err


def test_json_is_written_whole(tmp_path):
    script.write_json(tmp_path / "a.json", {"score": 0.5})
    assert json.loads((tmp_path / "a.json").read_text()) == {"score": 0.5}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_the_module_does_not_wait_for_torch():
    code = "import sys, lab.script; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


def test_every_task_has_a_target():
    assert script.TARGETS.keys() == TASKS.keys()
    for task in TASKS:
        assert script.default_target(str(SCRIPTS[0]), task).is_file()


@for_each(path=SCRIPTS)
def test_every_script_is_made_this_way(path):
    text = path.read_text()
    for part in ("script.make_parser(__file__, __doc__)", "script.run_script(make_options(), run"):
        assert part in text


@pytest.mark.parametrize("name", ["camera_pose", "shape_optimization"])
def test_what_is_no_mesh_is_refused_before_anything_is_written(name, tmp_path, capsys, monkeypatch):
    text = tmp_path / "notes.obj"
    text.write_text("nothing\n")
    for target in (str(text), "missing.obj", str(tmp_path)):
        assert imported(monkeypatch, name).main([target, "-o", str(tmp_path / "out")]) == 2
        message = capsys.readouterr().err
        assert message.startswith(f"{name}.py: error: ")
        assert message.count("\n") == 1
    assert not (tmp_path / "out").exists()
