"""The names that users may use are those of `public_api.txt`, so that none is lost unseen.

python tests/test_public_api.py      # writes the file anew
"""

import inspect
import sys
from difflib import unified_diff
from pathlib import Path
from typing import get_args

sys.path.append(str(Path(__file__).parents[1] / "docs"))  # building, if this runs as a script
from building import site

FILE = Path(__file__).with_name("public_api.txt")


def public_names(cls):
    """Those that a class defines itself, or gets from bases of the package."""
    bases = [base for base in cls.__mro__ if base.__module__.partition(".")[0] == "gendr"]
    names = {name for base in bases for name in (*vars(base), *inspect.get_annotations(base))}
    return {name for name in names if not name.startswith("_")}


def public_api():
    """A line for each public module and class: its public bases, and the names it adds to them."""
    modules = {name: sys.modules[name] for name in site.public_modules() if "gendr" in name}
    classes, lines = {}, {name: sorted(module.__all__) for name, module in modules.items()}
    for path in {*site.home_of_names().values()}:
        module, _, name = path.rpartition(".")
        value = getattr(modules.get(module), name, None)
        if inspect.isclass(value) and not get_args(value):  # as Callable[...] of Python 3.10 is
            classes[value] = path
    for cls, path in classes.items():
        bases = [base for base in cls.__mro__[1:] if base in classes]
        names = public_names(cls).difference(*map(public_names, bases))
        above = ", ".join(base.__name__ for base in bases)
        lines[f"{path}({above})" if bases else path] = sorted(names)
    return "".join(f"{' '.join((f'{path}:', *names))}\n" for path, names in sorted(lines.items()))


def test_public_names_are_those_of_the_list():
    found = public_api()
    assert "\ngendr.mesh.Camera: ahead batch " in found  # the test sees modules and classes
    listed = FILE.read_text(encoding="utf-8")
    lines = unified_diff(listed.splitlines(), found.splitlines(), FILE.name, "found", n=0)
    changed = "\n".join(lines)
    assert not changed, f"if this is meant, run python tests/{Path(__file__).name}\n{changed}"


if __name__ == "__main__":
    sys.path.append(str(FILE.parents[1] / "experiments"))  # lab, whose pages are in the reference
    FILE.write_text(public_api(), encoding="utf-8")
