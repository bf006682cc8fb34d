"""Families of classes are found by walking them."""

from abc import ABC, abstractmethod

from gendr._common.registry import members


class Base(ABC):
    @abstractmethod
    def go(self): ...


class Named(Base):
    name = "named"

    def go(self): ...


class Nameless(Named):
    pass


class Below(Nameless):
    name = "below"


class Abstract(Base):
    name = "abstract"


def test_members_say_their_own_name_and_are_not_abstract():
    assert members(Base) == {"named": Named, "below": Below}


def test_classes_of_other_packages_can_stay_out(monkeypatch):
    monkeypatch.setattr(Named, "__module__", "gendr.some.where")
    assert members(Base, package="gendr") == {"named": Named}
    monkeypatch.setattr(Below, "__module__", "gendrous.where")
    monkeypatch.setattr(Below, "name", "named")
    assert members(Base, package="gendr") == {"named": Named}  # and does not take its place
