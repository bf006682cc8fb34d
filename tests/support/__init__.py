"""Helpers of tests and benchmarks: scenes, tolerances, the comparison of gradients.

| module | holds |
|---|---|
| `cases` | one test that walks through many cases |
| `scenes`, `cameras`, `tolerances` | what backends are compared on, and how far they may differ |
| `backends` | a backend of rendering held against the reference |
| `lists` | masked results, held against those of every list without what is absent |
| `layers` | faces that are joined in order, held against the definition |
| `operators`, `operator_examples` | a call of every public entry point; every operator |
| `instances` | samples of the 1242 renderers |
| `distributions`, `tconorms` | distributions and T-conorms beside their published forms in mpmath |
| `zero_one` | all inputs of zeros and ones, which prove that a network sorts |
| `ahead_of_time` | Triton kernels compiled without a GPU |
| `interpreter`, `races`, `arithmetic` | Triton's interpreter: faster, with a detector, as a GPU |
| `gltf` | files of glTF with anything in them; another decoder and the validator (`gltf.js`) |
| `photographs` | pictures of meshes as a camera would take them |
| `graphs` | graphs of `torch.compile`, held against eager calls |
| `compiling` | kernels of Numba that only one process compiles |
| `processes`, `scripts` | processes that need not import PyTorch first; scripts of the repository |
| `fake_grid`, `trainings` | a task for the grid that costs nothing; interrupted trainings |
| `strict_device` | a pretended GPU whose tensors refuse to meet those of the CPU |
"""

from support.scenes import around_the_eye, degenerate, soup, touching
from support.tolerances import TOLERANCES, Tolerance, relative_l2

__all__ = [
    "TOLERANCES",
    "Tolerance",
    "around_the_eye",
    "degenerate",
    "relative_l2",
    "soup",
    "touching",
]
