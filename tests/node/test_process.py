"""The log lines of keys without effect, and the garbage collector of a node."""

import gc
import weakref

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


class Ring:
    """An object that only the collector frees: it refers to itself."""

    def __init__(self) -> None:
        self.next = self


def is_searched(loaded: object) -> bool:
    """True if a collection looks at the object: it is in a generation that is collected."""
    return any(one is loaded for one in gc.get_objects())


def test_the_loaded_objects_are_not_searched_for_garbage_again() -> None:
    """No counts are compared: a list from a free list is no allocation for the collector."""
    thresholds = gc.get_threshold()
    gc.disable()
    try:
        gc.set_threshold(1)
        loaded = [Ring()]
        garbage = weakref.ref(Ring())
        assert is_searched(loaded)
        assert garbage() is not None
        keep_loaded_objects()
        assert gc.isenabled()
        assert gc.get_threshold() == (100_000, 20, 50)
        assert not is_searched(loaded)
        assert garbage() is None, "it was frozen with the rest"
    finally:
        gc.set_threshold(*thresholds)
        gc.enable()
