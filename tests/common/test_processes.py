"""Processes from the fork server: what they are given and what they leave is as from a new one."""

import os
import signal
import subprocess

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


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_process_is_signalled_and_waited_for(tmp_path):
    process = Python("import time; print('on'); time.sleep(60)", cwd=tmp_path)
    assert process.poll() is None
    with pytest.raises(TimeoutError, match="more than 0 seconds"):
        process.wait(0)  # which kills it
    assert process.wait() == process.poll() == -signal.SIGKILL
    program = "import os, signal; print(os.getcwd(), flush=True); signal.pause()"
    process = Python(program, cwd=tmp_path)
    while not process.output()[0].endswith("\n"):  # the end of a line may come by itself
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait() == -signal.SIGTERM
    assert process.output() == (f"{tmp_path}\n", "")
