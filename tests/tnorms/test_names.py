"""Names, parameters and the one clear line when they are wrong."""

import copy
import math
import pickle

import pytest
import torch

from gendr.tnorms import as_tconorm, benchmark_tconorms, family, names, tconorm, tnorm
from support.cases import for_each
from support.tconorms import EVERY, PARAMETRIC


def test_names():
    assert set(names()) == {t.name for t in EVERY}
    for name in names():
        assert family(name).name == name
        assert family(name).formula
        assert bool(family(name).parameter) == (name in {t.name for t in PARAMETRIC})


def test_the_benchmark():
    assert " ".join(map(str, benchmark_tconorms())) == (
        "max probabilistic einstein hamacher(p=0.5) hamacher(p=4) "
        "frank(p=0.5) frank(p=2) frank(p=4) yager(p=0.5) yager(p=1) yager(p=2) yager(p=4) "
        "aczel_alsina(p=0.5) aczel_alsina(p=2) aczel_alsina(p=4) "
        "dombi(p=0.5) dombi(p=1) dombi(p=2) dombi(p=4) "
        "schweizer_sklar(p=-0.5) schweizer_sklar(p=-1) schweizer_sklar(p=-2) schweizer_sklar(p=-4)"
    )


@for_each(t=EVERY)
def test_texts_parse_back(t):
    assert as_tconorm(str(t)) == t
    assert hash(as_tconorm(str(t))) == hash(t)
    assert as_tconorm(t) is t
    assert tnorm(str(t)) == t.dual
    assert str(t.dual) == str(t)
    assert copy.deepcopy(t) == t
    assert pickle.loads(pickle.dumps(t)) == t


def test_ways_to_write_a_parameter():
    t = tconorm("yager", p=2)
    assert t == tconorm("yager", 2.0) == tconorm("yager(2)") == tconorm(" yager( p = 2.0 ) ")
    assert tconorm("max()") == tconorm("max")
    assert tconorm("Aczel-Alsina", 2) == tconorm("aczel_alsina(2)")
    assert str(tconorm("yager", 0.1 + 0.2)) == "yager(p=0.30000000000000004)"
    assert t.with_p(3) == tconorm("yager(3)")
    p = torch.tensor(2.0, requires_grad=True)
    assert tconorm("yager", p).p is p
    assert str(tconorm("yager", p)) == "yager(p=2)"


@for_each(
    "name, p, message",
    [
        ("yagr", None, "unknown T-conorm 'yagr'.*yager"),
        ("yager", None, "yager needs a parameter, p > 0"),
        ("yager", -1, r"yager needs a finite p > 0, got p = -1$"),
        ("yager", 0.0, "got p = 0"),
        ("yager", math.nan, "got p = nan"),
        ("yager", math.inf, "got p = inf"),
        ("dombi", torch.tensor(-2.0), "got p = -2"),
        ("schweizer_sklar", 1, "schweizer_sklar needs a finite p < 0, got p = 1"),
        ("frank", 1, "p != 1.*probabilistic"),
        ("frank", torch.tensor(1.0), "p != 1.*probabilistic"),
        ("probabilistic", 2, "probabilistic takes no parameter"),
        ("max(2)", None, "max takes no parameter"),
        ("yager(2)", 3, "has its parameter already"),
        ("yager(q=2)", None, r"is no T-conorm; write 'yager\(p=2\)'"),
        ("yager(two)", None, "p must be a number, got 'two'"),
        ("yager(2", None, "is no T-conorm"),
        ("", None, "is no T-conorm"),
    ],
)
def test_wrong_values(name, p, message):
    with pytest.raises(ValueError, match=message) as error:
        tconorm(name, p)
    assert "\n" not in str(error.value)


@for_each(
    "name, p, message",
    [
        (2, None, "goes by its name"),
        ("yager", "2", "a number or a 0-dim tensor, got str"),
        ("yager", True, "got bool"),
        ("yager", torch.ones(2), r"tensor of shape \(2,\)"),
        ("yager", torch.tensor(2), "0-dim floating tensor"),
    ],
)
def test_wrong_types(name, p, message):
    with pytest.raises(TypeError, match=message) as error:
        tconorm(name, p)
    assert "\n" not in str(error.value)


def test_a_tnorm_is_no_tconorm():
    with pytest.raises(TypeError, match=r"its \.dual is the T-conorm"):
        as_tconorm(tnorm("max"))
    with pytest.raises(TypeError, match="values must be a tensor, got list"):
        tconorm("max").reduce([0.1, 0.2])
