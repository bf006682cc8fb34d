"""Check a source archive and a wheel, and run the README's ten lines with the wheel installed.

    python .ci/check_dist.py dist

The wheel goes into an empty virtual environment, with the versions of constraints.txt. Only the
mesh of the README comes from the repository; the package does not.
"""

from __future__ import annotations

import argparse
import email
import re
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"## Ten lines that fit a mesh.*?```python\n(.*?)```", re.S)


def only(folder: Path, pattern: str) -> Path:
    """The one file of a pattern.

    Raises:
        SystemExit: if there is none, or more than one.
    """
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise SystemExit(f"{folder} must hold one {pattern}, found {len(found)}; run `make dist`")
    return found[0]


def sources() -> set[str]:
    """The files of the package in the repository."""
    files = subprocess.run(
        ["git", "ls-files", "gendr"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return set(files.stdout.split())


def faults_of_files(kind: str, names: Iterable[str], package: set[str]) -> list[str]:
    """What is missing in an archive, and what does not belong in a wheel.

    setuptools leaves files that are no modules out without an error.
    """
    names = set(names)
    out = [f"{kind}: {name} is missing" for name in sorted(package - names)]
    if kind == "wheel":
        strange = [n for n in names - package if ".dist-info/" not in n]
        out += [f"wheel: {name} does not belong there" for name in sorted(strange)]
    else:
        wanted = {"README.md", "LICENSE", "pyproject.toml"}
        out += [f"source archive: {name} is missing" for name in sorted(wanted - names)]
    return out


def faults_of_metadata(text: str) -> list[str]:
    """What is wrong with the METADATA of a wheel."""
    data = email.message_from_string(text)
    out = [
        f"metadata: no {field}"
        for field in ("Name", "Version", "Summary", "Requires-Python", "License-Expression")
        if not data.get(field)
    ]
    if data.get("Description-Content-Type", "").partition(";")[0] != "text/markdown":
        out.append("metadata: the description is not Markdown")
    if not str(data.get_payload()).startswith("# gendr"):
        out.append("metadata: the description is not the README")
    if "torch" not in " ".join(data.get_all("Requires-Dist", [])):
        out.append("metadata: torch is not required")
    if not data.get_all("Project-URL"):
        out.append("metadata: no URLs")
    return out


def try_wheel(wheel: Path) -> None:
    """Run the ten lines of the README in an environment that has the wheel and what it requires."""
    match = BLOCK.search((ROOT / "README.md").read_text(encoding="utf-8"))
    if match is None:
        raise SystemExit("README.md has no ten lines any more; say in .ci/check_dist.py where")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder / "venv", with_pip=True)
        python = str(folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin") / "python")
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "-c", str(ROOT / "constraints.txt"), str(wheel)], check=True)
        place = folder / "elsewhere"
        place.mkdir()
        (place / "assets").symlink_to(ROOT / "assets")
        lines = f"{match[1]}\nprint(gendr.__file__, loss.item())\n"
        done = subprocess.run(
            [python, "-I", "-c", lines], cwd=place, check=True, stdout=subprocess.PIPE, text=True
        )
        where, loss = done.stdout.split()[-2:]
        if str(folder) not in where or not (place / "fit.obj").stat().st_size:
            raise SystemExit(f"the ten lines ran with {where}, not with the wheel")
        print(f"the ten lines of the README ran with the wheel: loss {float(loss):.3f}")


def main() -> None:
    """Check, and say what was found.

    Raises:
        SystemExit: if something is wrong.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files-only", action="store_true", help="do not install the wheel")
    args = parser.parse_args()
    package = sources()
    wheel, archive = only(args.folder, "*.whl"), only(args.folder, "*.tar.gz")
    with zipfile.ZipFile(wheel) as file:
        faults = faults_of_files("wheel", file.namelist(), package)
        (metadata,) = [name for name in file.namelist() if name.endswith(".dist-info/METADATA")]
        faults += faults_of_metadata(file.read(metadata).decode())
    with tarfile.open(archive) as file:
        names = [name.partition("/")[2] for name in file.getnames()]
    faults += faults_of_files("source archive", names, package)
    if faults:
        raise SystemExit("\n".join(faults))
    print(f"{wheel.name} and {archive.name} are complete")
    if not args.files_only:
        try_wheel(wheel)


if __name__ == "__main__":
    main()
