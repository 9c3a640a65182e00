"""The log lines of keys without effect, and the garbage collector of a node."""

import gc

from kernel.effects import LogLevel
from node.process import keep_loaded_objects, key_warnings


def test_keys_without_effect_are_told_from_keys_that_nobody_knows() -> None:
    keys = (
        "leader.imbalance.per.broker.percentage",
        "listener.name.plaintext.max.connections",
        "metadata.log.segment.min.bytes",
        "queued.max.requests",
    )
    wrong = ("listener.name.plaintext", "queued.max.request")
    lines = key_warnings((*keys, *wrong))
    assert [(line.level, line.event, line.fields) for line in lines] == [
        (LogLevel.WARN, "configuration_without_effect", {"keys": [*keys]}),
        (LogLevel.WARN, "unknown_configuration", {"keys": [*wrong]}),
    ]
    assert key_warnings(()) == []
    assert key_warnings(keys) == lines[:1]
    assert key_warnings(wrong) == lines[1:]


def test_the_loaded_objects_are_not_searched_for_garbage_again() -> None:
    thresholds = gc.get_threshold()
    gc.disable()
    try:
        loaded = [[] for _ in range(1000)]
        assert len(loaded) < gc.get_count()[0], "the objects of this test wait for a collection"
        keep_loaded_objects()
        assert gc.isenabled()
        assert gc.get_count()[0] < len(loaded)
        assert len(loaded) < gc.get_freeze_count()
        assert gc.get_threshold() == (100_000, 20, 50)
    finally:
        gc.set_threshold(*thresholds)
        gc.enable()
