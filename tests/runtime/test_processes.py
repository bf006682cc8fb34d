"""Processes from the fork server: what they are given and what they leave is as from a new one."""

import os
import signal
import subprocess
import sys

import pytest

from support.processes import Python, run_python

PROGRAM = """
import atexit, os, sys
atexit.register(print, "at exit")
print(sys.argv, os.environ["GIVEN"], __name__)
sys.stderr.write("an error")
sys.exit(3)
"""


def test_a_program_has_arguments_and_an_environment_and_leaves_a_status():
    done = run_python(PROGRAM, "a", 1, env={"GIVEN": "x"})
    assert done.returncode == 3
    assert done.stdout.splitlines() == ["['-c', 'a', '1'] x __main__", "at exit"]
    assert done.stderr == "an error"
    with pytest.raises(subprocess.CalledProcessError):
        run_python(PROGRAM, env={"GIVEN": "x"}, check=True)


def test_an_error_is_told():
    done = run_python("raise ArithmeticError('of the program')")
    assert done.returncode == 1
    assert "ArithmeticError: of the program" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere they are new interpreters")
def test_what_takes_long_to_import_is_there():
    program = "import sys; print({'torch', 'numba', 'gendr'} <= set(sys.modules))"
    assert run_python(program).stdout == "True\n"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere they are new interpreters")
def test_children_of_a_child_come_from_the_same_server():
    program = """
import os, pathlib, signal
from support.processes import fork_server

inner = fork_server().Process(target=signal.pause)
inner.start()
status = pathlib.Path(f"/proc/{inner.pid}/status").read_text()
inner.kill()
assert f"PPid:\\t{os.getppid()}\\n" in status, status
"""
    done = run_python(program)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_process_is_signalled_and_waited_for(tmp_path):
    process = Python("import time; print('on'); time.sleep(60)", cwd=tmp_path)
    assert process.poll() is None
    with pytest.raises(TimeoutError, match="more than 0 seconds"):
        process.wait(0)  # which kills it
    assert process.wait() == process.poll() == -signal.SIGKILL
    program = "import os, signal; print(os.getcwd(), flush=True); signal.pause()"
    process = Python(program, cwd=tmp_path)
    while not process.output()[0]:
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait() == -signal.SIGTERM
    assert process.output() == (f"{tmp_path}\n", "")
