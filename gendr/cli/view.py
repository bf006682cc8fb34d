"""`gendr view`: a page in the browser, and the same beside a fit that runs."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from gendr.cli.command_line import say
from gendr.cli.common import model_file
from gendr.cli.parser import View

SECONDS = 1.0  # between two looks at the files of an output folder


def run(args: View) -> int:
    """Run `gendr view` and return the exit status."""
    from gendr.photos.viewer import Subject, Viewer, read_subject
    from gendr.photos.viewer.subject import stamp

    path = Path(args.subject) if args.wait else model_file(args.subject)
    seen = stamp(path) if path.is_dir() else ()
    waiting = args.wait and not seen
    subject = Subject(path.name) if waiting else read_subject(path, args.photos)
    viewer = Viewer(subject, args.port, image_size=args.image_size)
    if not args.quiet:
        sys.stdout.write(f"{viewer.url}   (Ctrl-C ends it)\n")
        sys.stdout.flush()
    try:
        while True:
            time.sleep(SECONDS)
            try:
                if path.is_dir() and (now := stamp(path)) != seen:
                    seen = now
                    viewer.show(read_subject(path, args.photos))
            except (OSError, ValueError) as error:  # a file that is copied just now, or is gone
                say("gendr view", f"{' '.join(str(error).split())}; what was read before stays")
    except KeyboardInterrupt:
        return 0
    finally:
        viewer.close()


@contextmanager
def viewer_of(out: Path, wanted: bool) -> Generator[None]:
    """A viewer of an output folder, in a process of its own, while the body runs."""
    if not wanted:
        yield
        return
    command = [sys.executable, "-m", "gendr", "view", str(out), "--wait", "--threads", "1"]
    viewer = subprocess.Popen(command)
    try:
        yield
        if sys.stdin.isatty():
            viewer.wait()
    finally:
        viewer.terminate()
        viewer.wait()
