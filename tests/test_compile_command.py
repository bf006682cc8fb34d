"""`gendr compile`."""

import os
import subprocess
import sys

import pytest

from gendr.cli import compile as module
from gendr.cli import main
from gendr.cli.parser import KERNELS


def test_it_runs_each_part_and_says_what_failed(monkeypatch, capsys, tmp_path):
    here = tmp_path / "here"
    program = f"import os; open({str(here)!r}, 'a').write(os.getcwd() + '\\n')"
    monkeypatch.setattr(module, "PROGRAMS", dict.fromkeys(KERNELS, program))
    assert main(["compile", "--jobs", "2"]) == 0
    assert capsys.readouterr().out == f"compiled: {', '.join(KERNELS)}\n"
    folders = here.read_text().split()
    assert len(set(folders)) == len(KERNELS)  # of their own, and gone
    assert not any(map(os.path.exists, folders))
    assert main(["compile", "sort", "--quiet"]) == 0
    assert len(here.read_text().split()) == len(KERNELS) + 1
    monkeypatch.setitem(module.PROGRAMS, "sort", "raise SystemExit('no luck')")
    assert main(["compile", "sort", "--quiet"]) == 2
    assert "compiling sort failed (1): no luck" in capsys.readouterr().err
    assert main(["compile", "sorts"]) == 2
    assert "unknown part 'sorts'; allowed: sort" in capsys.readouterr().err


@pytest.mark.every
@pytest.mark.parametrize("part", KERNELS)
def test_nothing_is_compiled_afterwards(part, tmp_path):
    """The same once more writes no file."""
    cold = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    sizes = []
    for _ in range(2):
        command = [sys.executable, "-m", "gendr", "compile", part, "--quiet"]
        assert subprocess.run(command, env=cold).returncode == 0
        sizes.append(sorted((p, p.stat().st_mtime_ns) for p in tmp_path.rglob("*.nb[ci]")))
    assert sizes[0]
    assert sizes[0] == sizes[1]
    if part == "photos":  # though so few pixels agree about nothing
        assert any(p.name.startswith("stereo_kernels.fuse") for p, _ in sizes[0])
