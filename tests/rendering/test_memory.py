"""Memory: what a mesh of over a million faces takes, in a process of its own."""

import json
from pathlib import Path

import pytest

from support.processes import run_python

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.every
@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="the peak is read from Linux's /proc"
)
def test_a_million_faces_at_1024_need_less_than_2_gb_on_a_cpu():
    program = "import speed; speed.main(['--device', 'cpu', '--probe', 'million/1x1024/uniform'])"
    run = run_python(program, env={"PYTHONPATH": str(BENCHMARKS)})
    assert run.returncode == 0, run.stderr
    peak = json.loads(run.stdout)
    faces = 20 * 4**8
    projected = faces * 3 * 2 * (4 + 8)  # corners in float32, and their float64 copy: must be seen
    assert projected < peak < 2e9
