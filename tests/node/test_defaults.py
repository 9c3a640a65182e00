"""Values of keys that are not set: Kafka's own defaults."""

import msgspec
import pytest

from metadata.config_schema import broker_configs
from node.configs.config import node_config
from node.configs.config_keys import FLAGS, NUMBERS
from tests.node.configs.test_config import COMBINED

DEFINED = [
    key
    for key in (*NUMBERS, *FLAGS)
    if key.key in broker_configs() and key.field != "segment_bytes"
]
"""All but our own; a segment of the metadata log has two keys, and one of them has no default."""


def test_most_keys_are_kafkas():
    assert len(DEFINED) > 30


@pytest.mark.parametrize("key", [key.key for key in DEFINED])
def test_a_key_that_is_not_set_has_kafkas_default(key):
    default = broker_configs()[key].default
    assert default is not None
    unset = node_config(COMBINED)
    explicit = node_config({**COMBINED, key: default})
    assert msgspec.structs.replace(explicit, properties=unset.properties) == unset
