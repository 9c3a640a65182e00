"""What is said about keys that have no effect."""

from kernel.effects import LogLevel
from node.process import key_warnings


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
