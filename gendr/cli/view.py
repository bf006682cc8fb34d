"""`gendr view`: a page in the browser."""

from __future__ import annotations

import sys
import time

from gendr.cli.command_line import say
from gendr.cli.common import model_file
from gendr.cli.parser import View

SECONDS = 1.0  # between two looks at the files of an output folder


def run(args: View) -> int:
    """Run `gendr view` and return the exit status."""
    from gendr.photos.viewer import Viewer, read_subject
    from gendr.photos.viewer.subject import stamp

    path = model_file(args.subject)
    seen = stamp(path) if path.is_dir() else ()
    viewer = Viewer(read_subject(path, args.photos), args.port, image_size=args.image_size)
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
