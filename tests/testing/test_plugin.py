"""The pure parts of the pytest plugin."""

from testing.plugin import merged_configs, topic_name


def test_a_topic_is_named_by_its_test():
    assert topic_name("test_a[é x.y]", "ab") == "test_a-x-y--ab"
    assert topic_name("t" * 300, "ab") == "t" * 100 + "-ab"


def test_the_nearest_marker_is_the_strongest():
    assert merged_configs([{"a": 1}, {"a": 2, "b": 3}]) == {"a": "1", "b": "3"}
    assert merged_configs([{}]) == {}
    assert merged_configs([]) is None
