"""Lean classes of kio's schemas behave as those that the standard library makes."""

import copy
import dataclasses
import importlib
import inspect
import sys
import typing
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location

import pytest
from kio.schema.heartbeat import v4 as heartbeat
from kio.serial import entity_reader, entity_writer

from wire.lean_classes import _Finder, _Loader, dataclass, install
from wire.messages.conversion import default_entity

NAMES = (
    "fetch.v18.response",
    "heartbeat.v4.response",
    "list_transactions.v0.request",
    "metadata.v13.response",
)


def run_by(loader_class, name):
    """A module of a schema, run again by a loader."""
    found = importlib.import_module(name)
    loader = loader_class(name, found.__file__)
    made = module_from_spec(spec_from_file_location(name, found.__file__, loader=loader))
    loader.exec_module(made)
    return made


TWINS = {
    name: [run_by(each, f"kio.schema.{name}") for each in (_Loader, SourceFileLoader)]
    for name in NAMES
}
PAIRS = [
    pytest.param(cls, vars(plain)[key], id=f"{name} {key}")
    for name, (lean, plain) in TWINS.items()
    for key, cls in vars(lean).items()
    if dataclasses.is_dataclass(cls) and cls.__module__ == lean.__name__
]
metadata = TWINS["metadata.v13.response"][0]
BROKER = metadata.MetadataResponseBroker(node_id=1, host="h", port=3)


def test_the_schemas_are_lean():
    spec = _Finder.find_spec("kio.schema.heartbeat.v4.response", heartbeat.__path__)
    assert type(spec.loader) is _Loader
    assert len(PAIRS) > 10
    assert sys.meta_path.count(_Finder) == 1
    install()
    assert sys.meta_path.count(_Finder) == 1


@pytest.mark.parametrize(("lean", "other"), PAIRS)
def test_a_class_is_as_the_standard_library_makes_it(lean, other):
    facts = [
        (
            cls.__qualname__, cls.__module__, cls.__slots__, cls.__match_args__, cls.__bases__,
            [(f.name, repr(f.default), f.metadata, f.kw_only) for f in dataclasses.fields(cls)],
            list(typing.get_type_hints(cls)), cls.__dataclass_params__.frozen,
            {key for key in vars(cls) if not key.startswith("__") or key == "__version__"},
            inspect.signature(cls).parameters.keys(),
            [repr(p.default) for p in inspect.signature(cls).parameters.values()],
            hasattr(cls, "__dict__") and "__dict__" in vars(cls),
        )
        for cls in (lean, other)
    ]  # fmt: skip
    assert facts[0] == facts[1]
    assert "__weakref__" not in vars(lean)  # the standard library of 3.11.2 leaves a dead one


@pytest.mark.parametrize(("lean", "other"), PAIRS)
def test_an_instance_is_as_that_of_the_standard_library(lean, other):
    one, two = default_entity(lean), default_entity(other)
    assert repr(one) == repr(two)
    again = copy.copy(one)
    assert again == one
    assert hash(again) == hash(one)
    assert one.__eq__(two) is NotImplemented
    state = one.__getstate__()
    assert repr(state) == repr(two.__getstate__())
    again = object.__new__(lean)
    again.__setstate__(state)
    assert again == one
    assert copy.deepcopy(one) == one
    for field in dataclasses.fields(lean):
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field"):
            setattr(one, field.name, None)
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field"):
            delattr(one, field.name)
    with pytest.raises(TypeError):
        lean(1)
    with pytest.raises(TypeError):
        lean(nothing=1)


def test_values_count_in_comparisons_and_hashes():
    other = dataclasses.replace(BROKER, port=4)
    assert other.port == 4
    assert other != BROKER
    assert hash(other) != hash(BROKER)
    assert repr(BROKER) == "MetadataResponseBroker(node_id=1, host='h', port=3, rack=None)"
    assert hash(BROKER) == hash((1, "h", 3, None))
    assert BROKER.__match_args__ == ()


def test_a_required_field_is_required():
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'port'"):
        metadata.MetadataResponseBroker(node_id=1, host="h")


def test_kio_reads_and_writes_them():
    class Sink:
        content = b""

        def write(self, piece):
            self.content += piece

    sink = Sink()
    entity_writer(metadata.MetadataResponseBroker)(sink, BROKER)
    assert entity_reader(metadata.MetadataResponseBroker)(sink.content, 0)[0] == BROKER


def test_methods_are_made_at_their_first_use_and_stay():
    @dataclass(frozen=True, slots=True, kw_only=True)
    class One:
        """A text of its own."""

        a: int
        b: int = 2

    assert One.__doc__ == "A text of its own."
    assert all(type(vars(One)[name]).__name__ == "_Late" for name in ("__init__", "__hash__"))
    one = One(a=1)
    assert (one.a, one.b) == (1, 2)
    assert inspect.isfunction(vars(One)["__init__"])
    assert vars(One)["__init__"].__qualname__.endswith("One.__init__")
    assert vars(One)["__init__"].__module__ == __name__
    assert {one: 1}[One(a=1)] == 1
    assert inspect.isfunction(vars(One)["__eq__"])
    assert One.__init__.__annotations__ == {"a": int, "b": int, "return": None}


def test_other_options_are_left_to_the_standard_library():
    @dataclass(frozen=True)
    class One:
        a: int

    assert One(1) == One(1)
    assert not hasattr(One, "__slots__")


def with_a_default_that_is_made():
    class One:
        a: list = dataclasses.field(default_factory=list)

    return One


def with_a_check():
    class One:
        a: int = 1

        def __post_init__(self):
            raise ValueError("checked")

    return One


def with_a_field_that_does_not_count():
    class One:
        a: int = dataclasses.field(default=1, compare=False)
        b: int = dataclasses.field(default=2, repr=False)

    return One


def with_a_text_of_its_own():
    class One:
        a: int = 1

        def __repr__(self):
            return "one"

    return One


def with_a_base():
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Base:
        a: int = 1

    class One(Base):
        b: int = 2

    return One


@pytest.mark.parametrize(
    "make",
    [
        with_a_default_that_is_made, with_a_check, with_a_field_that_does_not_count,
        with_a_text_of_its_own, with_a_base,
    ],
)  # fmt: skip
def test_other_fields_and_methods_are_left_to_the_standard_library(make):
    def told(cls):
        try:
            return repr(cls()), cls() == cls(a=3)
        except ValueError as error:
            return str(error)

    lean, other = (
        each(frozen=True, slots=True, kw_only=True)(make())
        for each in (dataclass, dataclasses.dataclass)
    )
    assert told(lean) == told(other)
    assert lean.__slots__ == other.__slots__


def test_other_modules_are_not_touched():
    find = _Finder.find_spec
    assert find("kio.serial", None) is None
    assert find("wire.errors", None) is None
    assert find("kio.schema.nothing", importlib.import_module("kio.schema").__path__) is None
