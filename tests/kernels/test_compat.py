"""What we rely on inside other libraries is where it was when we looked."""

import importlib
import importlib.metadata

import pytest

from gendr.kernels.compat import numba, torch, triton
from support.cases import for_each


@for_each(library=[numba, torch, triton])
def test_seams_stand_where_they_stood(library):
    """If one has moved: look at the new version, mend the file, and name the version in it."""
    name = library.__name__.rpartition(".")[2]
    version = ".".join(importlib.metadata.version(name).split(".")[:2])
    assert version in library.TRIED, f"{name} {version} was not tried: run all tests, add it"
    for module, place in library.SEAMS:
        found = importlib.import_module(module)
        for part in place.split("."):
            assert hasattr(found, part), f"{name} {version} has no {module}.{place}"
            found = getattr(found, part)


def test_functions_of_kernels_refuse_python():
    from gendr.kernels.numba.compilation import inner

    with pytest.raises(TypeError, match="called by compiled functions only"):
        inner(cache=False)(abs_of)(1)


def abs_of(x):
    return abs(x)
