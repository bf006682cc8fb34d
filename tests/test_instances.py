"""The 1242 renderers and their names."""

import pytest

from gendr.distributions import benchmark_distributions
from gendr.rendering.instances import Instance, instance, instances
from gendr.tnorms import benchmark_tconorms


def test_there_are_1242_in_order():
    every = instances()
    assert len(every) == 1242
    assert len({one.name for one in every}) == 1242
    tconorms, laws = benchmark_tconorms(), benchmark_distributions()
    for i, one in enumerate(every):
        law = laws[i // 46]
        assert one.tconorm == tconorms[i % 23]
        assert str(one.dist) == str(law if i % 46 < 23 else law.squared())
    names = [every[i].name for i in (0, 1, 23, -1)]
    assert names == [
        "uniform/max",
        "uniform/probabilistic",
        "uniform.squared/max",
        "levy.reversed.centred.squared/schweizer_sklar(p=-4)",
    ]


def test_names_parse_back():
    for one in instances():
        again = instance(one.name)
        assert again == one
        assert again.name == str(one) == one.name


def test_any_two_members_go_together():
    one = instance("gamma(shape=0.5).squared / yager(3)")
    assert isinstance(one, Instance)
    assert one.name == "gamma(shape=0.5).squared/yager(p=3)"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("logistic", "'logistic' is no instance; write a distribution and a T-conorm"),
        ("logstic/max", "logistic"),
        ("logistic/yagr(2)", "yager"),
        ("logistic/yager", "yager needs a parameter"),
        ("logistic/max/max", "is no T-conorm"),
    ],
)
def test_wrong_names(name, message):
    with pytest.raises(ValueError, match=message) as error:
        instance(name)
    assert "\n" not in str(error.value)


def test_wrong_type():
    with pytest.raises(TypeError, match="goes by its name, got int"):
        instance(3)
