"""The pure parts of the pytest plugin."""

from types import SimpleNamespace

import pytest

from testing import plugin
from testing.plugin import merged_configs, topic_name


def test_a_topic_is_named_by_its_test():
    assert topic_name("test_a[é x.y]", "ab") == "test_a-x-y--ab"
    assert topic_name("t" * 300, "ab") == "t" * 100 + "-ab"


def test_the_nearest_marker_is_the_strongest():
    assert merged_configs([{"a": 1}, {"a": 2, "b": 3}]) == {"a": "1", "b": "3"}
    assert merged_configs([{}]) == {}
    assert merged_configs([]) is None


def own():
    """A fixture of somebody else."""


def node():
    """A fixture of the plugin."""


node.__module__ = plugin.__name__


@pytest.mark.parametrize(
    ("defined", "wants"),
    [
        ({}, False),
        ({"kafka": [node]}, True),
        ({"kafka_factory": [node], "tmp_path": [own]}, True),
        ({"kafka_topic": [node]}, False),
        ({"kafka": [node, own]}, False),
        ({"kafka": [own, node]}, True),
    ],
)
def test_a_node_is_imported_for_fixtures_of_the_plugin_alone(defined, wants):
    definitions = {
        name: tuple(SimpleNamespace(func=func) for func in functions)
        for name, functions in defined.items()
    }
    item = SimpleNamespace(_fixtureinfo=SimpleNamespace(name2fixturedefs=definitions))
    assert plugin._wants_node(item) is wants
    assert not plugin._wants_node(SimpleNamespace())
