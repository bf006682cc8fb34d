"""Puts on the path what scripts share with experiments and tests of this clone: lab, support."""

import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
sys.path[1:1] = [str(_ROOT / "experiments"), str(_ROOT / "tests")]
