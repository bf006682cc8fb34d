"""Processes that run a text of Python and need not import PyTorch first.

A new interpreter spends seconds on imports before it does what a test is about. Here a fork server
has made them, once in a run of the tests, and its children start in milliseconds. They differ from
a new interpreter in what is imported already (`PRELOADED`) and in libraries that read the
environment while they are loaded; tests of these start an interpreter.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing import forkserver, get_context
from multiprocessing.context import ForkServerContext
from pathlib import Path
from unittest import mock

# Nothing that starts threads, which a child would lack.
PRELOADED = (
    "torch", "torch._dynamo", "torch.nn.parallel", "numba", "gendr.cli.fit",
    "lab.reconstruction.commands.train",
    "lab.engine.executors", "lab.engine.store",
    "lab.reconstruction.making", "gendr.rendering.backends.cpu.softmax",
    "gendr.sorting.backends.cpu.backend",
)  # fmt: skip


def fork_server() -> ForkServerContext:
    """The context of `multiprocessing` whose children have `PRELOADED`.

    Triton, which comes with them, compiles there: it reads TRITON_INTERPRET when it is imported.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    with mock.patch.dict(os.environ, TRITON_INTERPRET="0"):
        forkserver.ensure_running()
    return context


def _run(code: str, argv: list[str], env: dict[str, str], folder: str, files: list[str]) -> None:
    """Set up in the child what the interpreter would have, then run the code."""
    for stream, file in enumerate(files, start=1):
        written = os.open(file, os.O_WRONLY)
        os.dup2(written, stream)
        os.close(written)
    # For children of its own, `multiprocessing` would start another server.
    forkserver.ensure_running = forkserver._forkserver.ensure_running = lambda: None
    os.environ.clear()
    os.environ.update(env)
    os.chdir(folder)
    sys.argv = ["-c", *argv]
    sys.path[:0] = [path for path in env.get("PYTHONPATH", "").split(os.pathsep) if path]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
    finally:
        atexit._run_exitfuncs()  # which `multiprocessing` leaves out


class Python:
    """A process that runs a text of Python, with the part of `subprocess.Popen` that tests use.

    Where there is no fork server that is safe (on macOS libraries of the system do not survive a
    fork), it is a new interpreter.

    Args:
        code: the program.
        argv: its arguments.
        env: variables of its environment beside those of this process.
        cwd: its working directory; by default this one.
    """

    def __init__(
        self,
        code: str,
        *argv: object,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
    ) -> None:
        self.args = [str(a) for a in argv]
        folder = tempfile.mkdtemp(prefix="gendr-process-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        files = [Path(folder) / name for name in ("stdout", "stderr")]
        for file in files:
            file.touch()
        self._stdout, self._stderr = files
        environment, where = {**os.environ, **(env or {})}, str(cwd or Path.cwd())
        if sys.platform == "linux":
            names = [str(file) for file in files]
            arguments = (code, self.args, environment, where, names)
            self._process = fork_server().Process(target=_run, args=arguments)
            self._process.start()
        else:
            with self._stdout.open("wb") as out, self._stderr.open("wb") as err:
                command = [sys.executable, "-c", code, *self.args]
                self._process = subprocess.Popen(
                    command, stdout=out, stderr=err, env=environment, cwd=where
                )
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """The exit status, negative after a signal; None while the process runs."""
        if isinstance(self._process, subprocess.Popen):
            return self._process.poll()
        return self._process.exitcode

    def wait(self, timeout: float = 300.0) -> int:
        """Wait for the end.

        Raises:
            TimeoutError: if the process still runs; it is killed.
        """
        if isinstance(self._process, subprocess.Popen):
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout)
        else:
            self._process.join(timeout)
        code = self.poll()
        if code is None:
            self._process.kill()
            raise TimeoutError(f"a process of the tests ran for more than {timeout:g} seconds")
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal."""
        assert self.pid is not None
        os.kill(self.pid, number)

    def kill(self) -> None:
        """End the process if it still runs."""
        self._process.kill()

    def output(self) -> tuple[str, str]:
        """What the process has written to stdout and stderr until now."""
        return self._stdout.read_text(encoding="utf-8"), self._stderr.read_text(encoding="utf-8")


def run_python(
    code: str,
    *argv: object,
    env: Mapping[str, str] | None = None,
    timeout: float = 300.0,
    check: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Do what `subprocess.run([sys.executable, "-c", code, *argv], text=True)` does, and capture.

    Raises:
        subprocess.CalledProcessError: if `check` and the exit status is not 0.
    """
    process = Python(code, *argv, env=env)
    done = subprocess.CompletedProcess(process.args, process.wait(timeout), *process.output())
    if check:
        done.check_returncode()
    return done
