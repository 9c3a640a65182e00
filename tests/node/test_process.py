"""What is said about keys that have no effect."""

from node.process import key_warnings


def test_keys_without_effect_are_told_from_keys_that_nobody_knows() -> None:
    keys = ("queued.max.requests", "listener.name.plaintext.max.connections", "queued.max.request")
    lines = key_warnings(keys)
    assert [(line.event, line.fields["key"]) for line in lines] == [
        ("configuration_without_effect", keys[0]),
        ("configuration_without_effect", keys[1]),
        ("unknown_configuration", keys[2]),
    ]
    assert key_warnings(()) == []
