"""Distributions and T-conorms of a user's own: every backend computes what their class says."""

import gc
import importlib
import importlib.util
import linecache
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

import gendr
from gendr.distributions import StandardDistribution, get
from gendr.tnorms import TConorm, tconorm
from support.scenes import soup

BACKENDS = ["cpu"]
if importlib.util.find_spec("triton") is not None and os.environ.get("TRITON_INTERPRET") == "1":
    BACKENDS += ["triton"]

DISTRIBUTION = '''
@dataclass(frozen=True, eq=False, repr=False)
class {cls}(Symmetric, StandardDistribution):
    """F(z) = logistic(rate z)."""

    name = "{name}"
    formula = "1/(1 + e^(-rate z))"
    {functions}

    def _cdf(self, z):
        return torch.sigmoid({rate} * z)

    def _pdf(self, z):
        return {rate} * torch.sigmoid({rate} * z) * torch.sigmoid(-{rate} * z)

    def _icdf_lower(self, q):
        return torch.logit(q) / {rate}
'''
DISTRIBUTION_FUNCTIONS = """
def {prefix}tail(z):
    return 1.0 / (1.0 + exp({rate} * fabs(z)))

def {prefix}tails(z):
    return two_sided(z, {prefix}tail(z))

def {prefix}density(z):
    t = {prefix}tail(z)
    return {rate} * t * (1.0 - t)
"""
NORM = '''
@dataclass(frozen=True)
class {cls}(Archimedean):
    """g(a) = (a / (1 - a))^rate."""

    name = "{name}"
    formula = "none"
    {functions}

    def generator(self, a, s):
        return (a / s) ** {rate}

    def inverse(self, t):
        return 1 - 1 / (1 + t ** (1 / {rate})), 1 / (1 + t ** (1 / {rate}))

    def _weight(self, a, s, A, S):
        return (a * S / (s * A)) ** ({rate} - 1) * (S / s) ** 2

    def slope_at_one(self, b, s):
        return torch.ones_like(b)
'''
NORM_FUNCTIONS = """
def {prefix}generator(a, s):
    return power(a / s, {rate})

def {prefix}inverse(t):
    return parts_from_odds(power(t, 1.0 / {rate}))

def {prefix}weight(a, s, A, S):
    return power(a / s / (A / S), {rate} - 1.0) * (S / s) * (S / s)
"""
HEAD = """
from dataclasses import dataclass
import torch
from gendr.kernels.vocabulary import exp, fabs, parts_from_odds, power, two_sided
from gendr.distributions import StandardDistribution, Symmetric
from gendr.tnorms.base import Archimedean
"""
KINDS = {
    "distribution": (DISTRIBUTION, DISTRIBUTION_FUNCTIONS, ("tails", "density")),
    "T-conorm": (NORM, NORM_FUNCTIONS, ("generator", "inverse", "weight")),
}


def source(kind, cls, name, rate, *, own=False):
    """A class and its kernel functions, beside it or named by it."""
    text, functions, names = KINDS[kind]
    prefix = f"{name}_" if own else ""
    own = ", ".join(f'"{word}": {prefix}{word}' for word in names) if own else ""
    given = f"kernel_functions = {{{own}}}" if own else ""
    return functions.format(prefix=prefix, rate=rate) + text.format(
        cls=cls, name=name, rate=rate, functions=given
    )


def subclasses(cls):
    """All that derive from a class."""
    return {below for each in cls.__subclasses__() for below in (each, *subclasses(each))}


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Write a module and import it, anew if it is there; its members are forgotten at the end."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # by the stamp, Python would read it
    modules = set()

    def write(name, *parts):
        file = Path(tmp_path, f"{name}.py")
        file.write_text("\n".join((HEAD, *parts)))
        os.utime(file, (1, 1))  # as a copy that keeps its time: a cache on disk sees no change
        linecache.clearcache()  # which Triton reads by that stamp, too
        importlib.invalidate_caches()
        modules.add(name)
        known = sys.modules.get(name)
        return importlib.reload(known) if known else importlib.import_module(name)

    before = {*subclasses(StandardDistribution), *subclasses(TConorm)}
    yield write
    for cls in {*subclasses(StandardDistribution), *subclasses(TConorm)} - before:
        if "name" in vars(cls):
            del cls.name
    for name in modules:
        sys.modules.pop(name, None)


def drawn(member, backend):
    """Alpha and its gradient, by a distribution or a T-conorm."""
    triangles = soup(1, 5, 1, torch.float32).requires_grad_()
    how = {"dist": member} if isinstance(member, StandardDistribution) else {"tconorm": member}
    alpha = gendr.silhouette(
        triangles, 9, **{"dist": "logistic", **how}, scale=0.1, cutoff=0.0, backend=backend
    )
    (grad,) = torch.autograd.grad((alpha * torch.linspace(0, 1, 9)).sum(), triangles)
    return alpha.detach(), grad


def check(*members):
    """Every backend gives what the reference does, whichever member it has met before."""
    for backend in BACKENDS:
        for member in members:
            for got, want in zip(drawn(member, backend), drawn(member, "reference"), strict=True):
                torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-4)


@pytest.mark.rotating(3, group="own members")
@pytest.mark.rotating(2)
@pytest.mark.parametrize("kind", KINDS)
def test_two_in_one_file(kind, written):
    both = [("First", "first", 1.0), ("Second", "second", 4.0)]
    told = written("told", *(source(kind, *args, own=True) for args in both))
    check(told.First(), told.Second())
    untold = written("untold", *(source(kind, *args) for args in both))
    for cls in (untold.First, untold.Second):
        with pytest.raises(
            ValueError, match=r"First and Second share the file .*its own `kernel_functions`"
        ):
            drawn(cls(), "cpu")
    assert drawn(untold.First(), "reference")[0].isfinite().all()


@pytest.mark.rotating(3, group="own members")
@pytest.mark.rotating(2)
@pytest.mark.parametrize("kind", KINDS)
def test_edited_and_loaded_again(kind, written):
    find = get if kind == "distribution" else tconorm
    for rate in (1.0, 4.0, 1.0):  # text of the same length: the disk cache sees a stamp
        module = written("edited", source(kind, "Mine", "mine", rate))
        check(module.Mine(), find("mine"))
        assert type(find("mine")) is module.Mine
    old = module.Mine()
    written("edited", source(kind, "Mine", "mine", 2.0))
    check(old)  # has its kernels, not those of the class that took its place
    never = written("edited", source(kind, "Mine", "mine", 3.0)).Mine()
    written("edited", source(kind, "Mine", "mine", 2.0))
    with pytest.raises(ValueError, match="Mine was defined anew"):
        drawn(never, "cpu")
    if "triton" in BACKENDS:
        mine = written("edited", source(kind, "Mine", "mine", 5.0)).Mine()
        Path(module.__file__).write_text(HEAD + source(kind, "Mine", "mine", 6.0))
        with pytest.raises(ValueError, match="was edited after it was imported"):
            drawn(mine, "triton")


@pytest.mark.rotating(3, group="own members")
def test_cells_of_a_notebook(monkeypatch, written):
    """No file, a class that stays while its function changes, and a helper that changes alone."""
    notebook = ModuleType("notebook")
    monkeypatch.setitem(sys.modules, "notebook", notebook)
    cells = vars(notebook)
    exec(HEAD + source("distribution", "Mine", "mine", 1.0), cells)
    mine = cells["Mine"]()
    want = drawn(mine, "reference")[0]
    assert (drawn(mine, "cpu")[0] - want).abs().max() < 1e-5
    exec("def tail(z):\n    return 1.0 / (1.0 + exp(4.0 * fabs(z)))\n", cells)
    changed = drawn(mine, "cpu")[0]
    assert (changed - want).abs().max() > 0.01
    exec(HEAD + source("distribution", "Mine", "mine", 4.0), cells)
    assert (drawn(cells["Mine"](), "reference")[0] - changed).abs().max() < 1e-5
    assert (drawn(get("mine"), "cpu")[0] - changed).abs().max() < 1e-5
    if "triton" in BACKENDS:
        with pytest.raises(ValueError, match="source text of tail"):
            drawn(get("mine"), "triton")


@pytest.mark.rotating(3, group="own members")
def test_helpers_in_other_files(written):
    """The kernels on disk are those of the helpers, too."""
    text = source("distribution", "Mine", "mine", 4.0).replace("exp(4.0 *", "exp(2.0 * half *")
    for half in (1.0, 2.0):
        written("helper", f"half = {half}")
        mine = written("asks", "from helper import half", text).Mine()
        error = (drawn(mine, "cpu")[0] - drawn(mine, "reference")[0]).abs().max()
        assert (error < 1e-5) == (half == 2.0)


@pytest.mark.rotating(3, group="own members")
def test_names_of_the_package_are_kept(written):
    for kind, name, find in (
        ("distribution", "uniform", get), ("distribution", "gudermannian", get),
        ("T-conorm", "max", tconorm), ("T-conorm", "probabilistic", tconorm),
    ):  # fmt: skip
        before = type(find(name))
        text = source(kind, "Mine", name, 4.0)
        with pytest.raises(ValueError, match=rf"{name!r}.*{before.__name__}.*replace=True"):
            written("taken", text)
        assert type(find(name)) is before
        base = "StandardDistribution" if kind == "distribution" else "Archimedean"
        mine = written(f"takes_{name}", text.replace(f"{base})", f"{base}, replace=True)")).Mine
        assert type(find(name)) is mine
        if name == "uniform":
            check(find(name), before())
        del mine.name
        gc.collect()
        assert type(find(name)) is before
