"""Configs that a broker refuses by itself: it cannot change to them from its present values."""

import pytest
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

from metadata.image import EMPTY
from metadata.node_configs import NodeConfigs
from quorum_controller.configs.alter_configs import DELETE, SET
from quorum_controller.configs.broker_config_rules import broker_refusals
from wire.api_keys import INCREMENTAL_ALTER_CONFIGS
from wire.errors import ErrorCode

PROPERTIES = {
    "node.id": "1",
    "num.io.threads": "5",
    "log.cleaner.threads": "5",
    "log.dirs": "/a,/b",
}


def refusal(name, value, operation=SET, broker="1"):
    """The text of the refusal, None if the broker passes the change on."""
    config = AlterableConfig(name=name, config_operation=operation, value=value)
    resource = AlterConfigsResource(resource_type=4, resource_name=broker, configs=(config,))
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    node = NodeConfigs(EMPTY, 1, PROPERTIES)
    (error,) = broker_refusals(INCREMENTAL_ALTER_CONFIGS, request, EMPTY, node)
    if error is None:
        return None
    assert error.code == ErrorCode.invalid_request
    return error.message


@pytest.mark.parametrize(
    ("threads", "reason"),
    [
        (1, "should be at least half the current value 5"),
        (2, None),
        (5, None),
        (10, None),
        (11, "should not be greater than double the current value 5"),
    ],
)
def test_a_pool_at_most_halves_or_doubles(threads, reason):
    text = refusal("num.io.threads", str(threads))
    assert text is None if reason is None else reason in text


@pytest.mark.parametrize(
    ("threads", "reason"),
    [
        (1, "cannot be reduced to less than half the current value 5"),
        (2, None),
        (5, None),
        (10, None),
        (11, "cannot be increased to more than double the current value 5"),
    ],
)
def test_cleaner_threads_at_most_halve_or_double(threads, reason):
    text = refusal("log.cleaner.threads", str(threads))
    assert text is None if reason is None else reason in text


@pytest.mark.parametrize(
    ("folders", "reason"),
    [
        ("/a", None),
        ("/b, /a", None),
        ("*", None),
        ("", None),
        ("*,/a", "it must not contain other values"),
        ("/a,/c,/d", "Missing entries : /c, /d"),
    ],
)
def test_only_own_folders_are_cordoned(folders, reason):
    text = refusal("cordoned.log.dirs", folders)
    assert text is None if reason is None else text.endswith(reason)


@pytest.mark.parametrize(("operation", "is_refused"), [(SET, True), (DELETE, False)])
def test_only_a_deletion_has_no_value(operation, is_refused):
    text = refusal("num.io.threads", None, operation)
    assert text == ("Null value not supported for : num.io.threads" if is_refused else None)


ZEROS = "0" * 5_000


@pytest.mark.parametrize("text", [ZEROS + "5", "\x015"])
def test_a_number_is_read_as_java_reads_it(text):
    assert refusal("num.io.threads", text) is None
    assert refusal("log.cleaner.threads", text) is None
    assert "half the current value 5" in refusal("num.io.threads", text[:-1] + "1")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (ZEROS + "1", None),
        ("2", "Unexpected broker id"),
        (ZEROS + "2", "Unexpected broker id"),
        ("-2147483648", "Unexpected broker id"),
        ("2147483648", "must be an integer"),
        ("-2147483649", "must be an integer"),
        ("0_1", "must be an integer"),
        (" 1", "must be an integer"),
    ],
)
def test_a_broker_is_named_by_an_int32(name, reason):
    text = refusal("num.io.threads", "5", broker=name)
    assert text is None if reason is None else reason in text
