"""Names, the text form both ways, the normal form of transforms, and clear errors."""

import copy
import pickle

import pytest
import torch

from gendr import distributions
from gendr.distributions import as_distribution, benchmark_distributions, from_callable, get, names
from support.cases import for_each
from support.distributions import EXAMPLES, forms


def test_the_names_are_the_table():
    assert names()[:16] == tuple(
        "heaviside uniform cubic_hermite wigner_semicircle gaussian laplace logistic "
        "hyperbolic_secant cauchy reciprocal gumbel_max gumbel_min exponential gamma levy "
        "optimal".split()
    )


@for_each(cls=distributions.standard_distributions().values())
def test_every_distribution_describes_itself(cls):
    assert cls.formula
    assert cls.__doc__.startswith("F(z) = ")
    assert cls.__module__ == f"gendr.distributions.members.{cls.name}"
    assert getattr(distributions, cls.__name__) is cls
    assert cls.__name__ in distributions.__all__
    low, high = cls.support
    assert low <= high
    for alias in cls.aliases:
        assert get(alias) == get(cls.name)
    assert get(cls.name) == cls()


@for_each(distribution=EXAMPLES)
def test_the_text_parses_back(distribution):
    for dist in forms(distribution):
        again = get(str(dist))
        assert again == dist
        assert hash(again) == hash(dist)
        assert str(again) == str(dist)
        assert pickle.loads(pickle.dumps(dist)) == dist
        assert copy.deepcopy(dist) == dist


def test_texts():
    assert str(get("gamma", shape=0.5).squared().centred().reversed()) == (
        "gamma(shape=0.5).reversed.centred.squared"
    )
    assert get("gamma(0.5)") == get("gamma(shape=0.5)") == get(" gamma( shape = 5e-1 ) ")
    assert get("gamma") == get("gamma", shape=2.0) == get("gamma", shape=2)
    assert get("gudermannian") == get("hyperbolic_secant")
    assert (
        str(get("levy.squared.shifted(-1e-3).reversed")) == "levy.reversed.shifted(-0.001).squared"
    )
    assert str(get("gamma", shape=torch.tensor(0.5))) == "gamma(shape=0.5)"
    assert str(get("gamma", shape=torch.ones(3))) == "gamma(shape=tensor[3])"
    assert str(get("logistic").shifted(torch.tensor(0.25))) == "logistic.shifted(0.25)"


def test_order_never_matters():
    levy = get("levy")
    assert levy.squared().reversed().centred() == levy.centred().squared().reversed()
    assert levy.shifted(0.5).reversed() == levy.reversed().shifted(0.5)
    assert levy.reversed().reversed() == levy
    assert levy.reversed().squared().reversed() == levy.squared()
    assert levy.centred().centred() == levy.centred()
    assert levy.art(0.0) == levy
    assert levy != levy.squared()
    assert levy != get("cauchy")


def test_the_normal_form_is_readable():
    shape = torch.tensor(0.5, requires_grad=True)
    dist = get("gamma", shape=shape).reversed().centred().squared()
    assert dist.base.name == "gamma"
    assert dist.shape_parameter is shape
    assert dist.total_shift().requires_grad
    assert dist.support[1] == pytest.approx(0.227468211559786**0.5)
    assert (dist.is_reversed, dist.is_squared, dist.art_exponent) == (True, True, 0.0)
    plain = get("cauchy")
    assert plain.base is plain
    assert (plain.shape_parameter, plain.total_shift()) == (None, 0.0)
    assert (plain.is_reversed, plain.is_squared, plain.art_exponent) == (False, False, 0.0)
    assert get("cauchy.shifted(0.5).art(0.25)").total_shift() == 0.5
    assert get("cauchy.art(0.25)").art_exponent == 0.25


def test_tensors_count_by_identity():
    a, b = torch.tensor(0.5), torch.tensor(0.5)
    assert get("gamma", shape=a) == get("gamma", shape=a)
    assert get("gamma", shape=a) != get("gamma", shape=b)
    assert {get("gamma", shape=a).squared(): 1}[get("gamma", shape=a).squared()] == 1


def test_the_27():
    every = benchmark_distributions()
    assert len(every) == len(set(every)) == 27
    assert [str(d) for d in every[:12]] == [*names()[1:12], "exponential"]
    assert [str(d) for d in every[15:19]] == [
        "gamma(shape=0.5)",
        "gamma(shape=0.5).reversed",
        "gamma(shape=0.5).centred",
        "gamma(shape=0.5).reversed.centred",
    ]
    assert not any(d.is_squared for d in every)
    half = [d.cdf(torch.zeros(1).double()).item() for d in every if d.is_centred]
    assert half == pytest.approx([0.5] * 8, abs=1e-15)


def test_whatever_names_a_distribution():
    dist = get("logistic").squared()
    assert as_distribution(dist) is dist
    assert as_distribution("logistic.squared") == dist
    assert as_distribution(torch.sigmoid) == from_callable(torch.sigmoid)
    pair = as_distribution((torch.sigmoid, (-1, 1)))
    assert pair.support == (-1.0, 1.0)
    for wrong in (3, None, distributions.Logistic, (1, 2), ["logistic"]):
        with pytest.raises(TypeError, match="must be a name"):
            as_distribution(wrong)


@for_each(
    "text, words",
    [
        ("logstic", ["logstic", "logistic"]),
        ("logistic.revesed", ["revesed", "reversed"]),
        ("", ["cannot read"]),
        ("logistic.", ["cannot read"]),
        ("logistic..squared", ["cannot read", "..squared"]),
        ("gamma(shape=0.5", ["cannot read"]),
        ("gamma(shape=x)", ["shape", "number", "'x'"]),
        ("gamma(shape=-1)", ["shape", "> 0", "-1"]),
        ("gamma(shape=nan)", ["shape", "nan"]),
        ("gamma(size=1)", ["size", "shape"]),
        ("gamma(1, 2)", ["gamma"]),
        ("gamma(shape=1, shape=2)", ["twice"]),
        ("logistic(2)", ["logistic", "no parameters"]),
        ("logistic.shifted", ["shifted", "number"]),
        ("logistic.reversed(2)", ["reversed", "no argument"]),
        ("logistic.squared.squared", ["squared", "once"]),
        ("logistic.shifted(1).shifted(1)", ["shift"]),
        ("logistic.shifted(1).centred", ["shift"]),
        ("logistic.centred.shifted(1)", ["shift"]),
        ("logistic.shifted(inf)", ["shift", "inf"]),
        ("logistic.art(1)", ["[0, 1)", "1.0"]),
        ("logistic.art(-0.1)", ["[0, 1)"]),
        ("logistic.art(0.2).squared", ["art", "squared"]),
        ("logistic.squared.art(0.2)", ["art", "squared"]),
        ("logistic.art(0.2).art(0.2)", ["art", "already"]),
    ],
)
def test_bad_texts_say_what_is_wrong(text, words):
    with pytest.raises(ValueError, match=r".+") as caught:
        get(text)
    message = str(caught.value)
    assert "\n" not in message
    assert all(word in message for word in words), message


def test_bad_arguments_say_what_is_wrong():
    logistic = get("logistic")
    for error, word, call in (
        (TypeError, "text", lambda: get(3)),
        (TypeError, "shape", lambda: get("gamma", shape="2")),
        (TypeError, "shape", lambda: get("gamma", shape=torch.tensor(2))),
        (ValueError, "> 0", lambda: get("gamma", shape=torch.tensor([1.0, 0.0]))),
        (ValueError, "shape", lambda: get("logistic", shape=2.0)),
        (ValueError, "one place", lambda: get("gamma(shape=2)", shape=2.0)),
        (TypeError, "shift", lambda: logistic.shifted("1")),
        (TypeError, "art", lambda: logistic.art(torch.tensor(0.5))),
        (ValueError, "scale", lambda: logistic(0.5, 0.0)),
        (ValueError, "scale", lambda: logistic(0.5, float("nan"))),
        (ValueError, "scale", lambda: logistic(torch.zeros(2), torch.tensor([1.0, -1.0]))),
        (TypeError, "scale", lambda: logistic(0.5, "1px")),
        (ValueError, "scale", lambda: logistic.radius(0.0, 0.1)),
        (ValueError, "cutoff", lambda: logistic.radius(1.0, 1.0)),
    ):
        with pytest.raises(error, match=word) as caught:
            call()
        assert "\n" not in str(caught.value)
