"""Every field of every request at its extremes, in every version: the node lives and answers.

The requests are built from the classes of the protocol, so a new API or field is walked too. Valid
bytes only: tests/fuzz has the others.
"""

import dataclasses
import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from kio.serial.errors import SerialError

from kernel.serving.dispatch import APIS
from metadata.config_schema import (
    RESOURCE_BROKER,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
    definitions_of,
)
from tests.kernel.harness import World
from tests.kernel.lifecycle.test_shutdown import ready_world
from tests.selection import thinned
from wire.api_table import SCHEMAS, ListenerKind, api_name
from wire.connections.framing import FrameReader, frame
from wire.errors import LocalProtocolError
from wire.messages import codec
from wire.messages.conversion import default_entity, entity_of, field_types, is_array, is_nullable

TEXTS = (
    "", "\x00", "9" * 5000, "-" + "9" * 5000, "x" * 32_767, "\u0661", "1_0", " 1 ", "1e400", "*",
    "NaN", "User:", ":", "\u4e2d" * 10_922, "..", "2147483648",
)  # fmt: skip
SKIPPED = frozenset({0, 1, 26, 27, 52, 53, 54, 55, 58, 59, 82})
"""Records and consensus: a peer's requests, which tests/fuzz feeds; Envelope holds another one."""


EXTREMES: tuple[tuple[type, tuple[Any, ...]], ...] = (
    (bool, (True, False)),
    (float, (0.0, -1.0, float("nan"), float("inf"), 1e-320)),
    (str, TEXTS),
    (bytes, (b"", b"\x00" * 3, b"\xff" * 70_000)),
    (uuid.UUID, (uuid.UUID(int=1), uuid.UUID(int=2**128 - 1))),
    (timedelta, (timedelta(0), timedelta(milliseconds=2**31 - 1))),
)


def extremes(kind: type, bits: int, *, is_signed: bool = True) -> tuple[Any, ...]:
    """Values of one type that code tends to forget."""
    found = next((values for base, values in EXTREMES if issubclass(kind, base)), ())
    if found or not issubclass(kind, int):
        return found
    if not is_signed:
        return (0, 1, 2**bits - 1)
    return (0, -1, 1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)))


def variants(entity: type, number: int) -> Iterator[Any]:
    """Bodies with all fields at their n-th extreme, then with one value at a time."""
    yield whole(entity, number)
    base = whole(entity, 0)
    types = field_types(entity)
    for field in dataclasses.fields(entity):
        nested = entity_of(types[field.name])
        if nested is None:
            continue
        for value in variants(nested, number):
            wrapped = (value,) if is_array(types[field.name]) else value
            yield dataclasses.replace(base, **{field.name: wrapped})


def whole(entity: type, number: int) -> Any:
    """A body whose every field has its n-th extreme; arrays have two elements."""
    values = {}
    base = default_entity(entity)
    for name, kind in field_types(entity).items():
        nested = entity_of(kind)
        if nested is not None:
            inner = whole(nested, number)
            values[name] = (inner, inner) if is_array(kind) else inner
            continue
        found = extremes_of(entity, name, kind)
        if found:
            value = found[number % len(found)]
            values[name] = (value, value) if is_array(kind) else value
        elif is_nullable(kind):
            values[name] = None
    return dataclasses.replace(base, **values)


def extremes_of(entity: type, name: str, kind: Any) -> tuple[Any, ...]:
    field = next(field for field in dataclasses.fields(entity) if field.name == name)
    wire_type = str(field.metadata.get("kafka_type", ""))
    bits = next((size for size in (8, 16, 32, 64) if wire_type.endswith(f"int{size}")), 32)
    parts = [kind, *getattr(kind, "__args__", ())]
    parts += [inner for part in parts for inner in getattr(part, "__args__", ())]
    is_signed = not wire_type.startswith("uint")
    found = (extremes(part, bits, is_signed=is_signed) for part in parts if isinstance(part, type))
    return next((values for values in found if values), ())


CASES = sorted(
    (listener, key)
    for listener, kind in (("PLAINTEXT", "BROKER"), ("CONTROLLER", "CONTROLLER"))
    for key in next(apis for name, apis in APIS.items() if name.name == kind)
    if key not in SKIPPED
)


@pytest.fixture(scope="module")
def world() -> World:
    return ready_world()


class RawClient:
    """Counts the answers and does not read them."""

    def __init__(self, world: World, listener: str, node_id: int = 1) -> None:
        self.world = world
        self.answer_count = 0
        self._frames = FrameReader(100 * 1024 * 1024)
        self.pipe = world.open_client(node_id, listener, self._received)

    def _received(self, content: bytes) -> None:
        self._frames.feed(content)
        while self._frames.next_frame() is not None:
            self.answer_count += 1

    def ask(self, key: int, version: int, body: Any) -> None:
        """Send and wait for the answer or the end of the connection."""
        try:
            content = codec.encode_request(key, version, 7, "hostile", body)
        except (LocalProtocolError, SerialError, ValueError, OverflowError):
            return  # this version has no bytes for it
        count = self.answer_count
        self.world.send(self.pipe, frame(content))
        self.world.run_until(
            lambda: self.answer_count > count or not self.world.is_open(self.pipe), 70_000
        )


def walk(world: World, listener: str, key: int, version: int) -> Iterator[Any]:
    """Send all variants, each given back once it is answered."""
    entity = codec.entity_class(key, SCHEMAS[key].newest_version, "request")
    client = RawClient(world, listener)
    for number in range(len(TEXTS)):
        for body in variants(entity, number):
            if not world.is_open(client.pipe):
                client = RawClient(world, listener)
            client.ask(key, version, body)
            yield body


@pytest.mark.parametrize(("listener", "key"), thinned(CASES, every=3), ids=str)
def test_a_node_lives_on(world: World, listener: str, key: int) -> None:
    for version in range(SCHEMAS[key].newest_version + 1):
        try:
            codec.entity_class(key, version, "request")
        except LookupError:
            continue
        for body in walk(world, listener, key, version):
            ended = [str(node.exit) for node in world.nodes.values() if node.exit is not None]
            assert not ended, f"{api_name(key)} version {version}: {body}"[:3000]


ACL = {"resource_type": 2, "resource_name": "t", "resource_pattern_type": 3, "host": "*",
       "principal": "User:a", "operation": 3, "permission_type": 3}  # fmt: skip
CONFIG = {"name": "retention.ms", "config_operation": 0, "value": "1000"}
LIST_CONFIG = {"name": "cleanup.policy", "config_operation": 2, "value": "compact"}
BROKER_CONFIG = {"name": "log.cleaner.threads", "config_operation": 0, "value": "1"}
VALID: tuple[tuple[int, dict[str, Any]], ...] = (
    (19, {"topics": [{"name": "new", "num_partitions": 1, "replication_factor": 1,
                      "configs": [{"name": "retention.ms", "value": "5"}]}],
          "validate_only": True}),
    (19, {"topics": [{"name": "new", "num_partitions": -1, "replication_factor": -1,
                      "assignments": [{"partition_index": 0, "broker_ids": (1, 2)}]}],
          "validate_only": True}),
    (20, {"topics": [{"name": "other", "topic_id": None}]}),
    (3, {"topics": [{"name": "t", "topic_id": None}]}),
    (32, {"resources": [{"resource_type": 2, "resource_name": "t", "configuration_keys": None}]}),
    (32, {"resources": [{"resource_type": 4, "resource_name": "1", "configuration_keys": None}]}),
    (33, {"resources": [{"resource_type": 2, "resource_name": "t",
                         "configs": [{"name": "retention.ms", "value": "1000"}]}]}),
    (33, {"resources": [{"resource_type": 4, "resource_name": "1",
                         "configs": [{"name": "log.cleaner.threads", "value": "1"}]}]}),
    (44, {"resources": [{"resource_type": 2, "resource_name": "t",
                         "configs": [CONFIG, LIST_CONFIG]}]}),
    (44, {"resources": [{"resource_type": 4, "resource_name": "1", "configs": [BROKER_CONFIG]}]}),
    (44, {"resources": [{"resource_type": 4, "resource_name": "", "configs": [BROKER_CONFIG]}]}),
    (44, {"resources": [{"resource_type": 32, "resource_name": "g", "configs": [
        {"name": "consumer.session.timeout.ms", "config_operation": 0, "value": "45000"}]}]}),
    (44, {"resources": [{"resource_type": 16, "resource_name": "m", "configs": [
        {"name": "interval.ms", "config_operation": 0, "value": "1000"}]}]}),
    (30, {"creations": [ACL]}),
    (31, {"filters": [{"resource_type_filter": 2, "resource_name_filter": "t", "operation": 1,
                       "pattern_type_filter": 1, "principal_filter": "User:a",
                       "host_filter": None, "permission_type": 1}]}),
    (37, {"topics": [{"name": "t", "count": 3, "assignments": [{"broker_ids": (1, 2, 3)}]}],
          "validate_only": True}),
    (43, {"election_type": 0, "topic_partitions": [{"topic": "t", "partitions": (0,)}]}),
    (45, {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "replicas": (1, 2)}]}]}),
    (49, {"entries": [{"entity": [{"entity_type": "user", "entity_name": "u"}],
                       "ops": [{"key": "producer_byte_rate", "value": 5.0, "remove": False}]}]}),
    (49, {"entries": [{"entity": [{"entity_type": "ip", "entity_name": "10.0.0.1"}],
                       "ops": [{"key": "connection_creation_rate", "value": 5.0}]}]}),
    (48, {"components": [{"entity_type": "user", "match_type": 0, "match": "u"}], "strict": True}),
    (50, {"users": [{"name": "u"}]}),
    (51, {"upsertions": [{"name": "u", "mechanism": 1, "iterations": 4096, "salt": b"s" * 16,
                          "salted_password": b"p" * 32}]}),
    (57, {"feature_updates": [{"feature": "metadata.version", "max_version_level": 21,
                               "upgrade_type": 1}]}),
    (75, {"topics": [{"name": "t"}], "response_partition_limit": 1,
          "cursor": {"topic_name": "t", "partition_index": 0}}),
)  # fmt: skip
"""Requests that are taken, so that one wrong value in them gets as far as it can."""


def body_of(entity: type, values: dict[str, Any]) -> Any:
    """An entity with these fields; lists hold fields of entities."""
    types = field_types(entity)
    fields = {}
    for name, value in values.items():
        nested = entity_of(types[name])
        if nested is None:
            fields[name] = value
        elif isinstance(value, list):
            fields[name] = tuple(body_of(nested, element) for element in value)
        else:
            fields[name] = body_of(nested, value)
    return dataclasses.replace(default_entity(entity), **fields)


def around(body: Any) -> Iterator[Any]:
    """The body, and each body that differs from it in one value."""
    entity = type(body)
    for name, kind in field_types(entity).items():
        value, nested = getattr(body, name), entity_of(kind)
        if nested is None:
            for extreme in extremes_of(entity, name, kind):
                put = (extreme, extreme) if is_array(kind) else extreme
                yield dataclasses.replace(body, **{name: put})
        elif isinstance(value, tuple):
            for index, element in enumerate(value):
                for changed in around(element):
                    put = (*value[:index], changed, *value[index + 1 :])
                    yield dataclasses.replace(body, **{name: put})
            yield dataclasses.replace(body, **{name: value * 2})
        elif value is not None:
            for changed in around(value):
                yield dataclasses.replace(body, **{name: changed})


@pytest.fixture(scope="module")
def filled() -> World:
    world = ready_world()
    assert world.client(1).create_topic("t", 2, 3).error_code == 0
    return world


@pytest.mark.parametrize("node_id", thinned([1, 2, 3], every=3))
@pytest.mark.parametrize(("key", "values"), VALID, ids=lambda value: str(value)[:50])
def test_one_wrong_value_in_a_right_request(
    filled: World, key: int, values: dict[str, Any], node_id: int
) -> None:
    newest = SCHEMAS[key].newest_version
    valid = body_of(codec.entity_class(key, newest, "request"), values)
    oldest = next(api.min_version for api in APIS[ListenerKind.BROKER].values() if api.key == key)
    for version in {newest, oldest}:
        client = RawClient(filled, "PLAINTEXT", node_id)
        for body in (valid, *around(valid)):
            if not filled.is_open(client.pipe):
                client = RawClient(filled, "PLAINTEXT", node_id)
            client.ask(key, version, body)
            ended = [str(node.exit) for node in filled.nodes.values() if node.exit is not None]
            assert not ended, f"{api_name(key)} version {version}: {body}"[:3000]


@pytest.mark.parametrize(
    "kind", thinned([RESOURCE_GROUP, RESOURCE_TOPIC, RESOURCE_BROKER], every=3)
)
def test_every_config_at_its_extremes(filled: World, kind: int) -> None:
    """Set in one request after the other; what is taken can be described."""
    definitions = definitions_of(kind)
    assert definitions
    name = {RESOURCE_TOPIC: "t", RESOURCE_BROKER: "", RESOURCE_GROUP: "g"}[kind]
    client = RawClient(filled, "PLAINTEXT", 1)
    entity = codec.entity_class(44, 1, "request")
    for config in definitions:
        for text in (*TEXTS, "0", "-1", "1"):
            rows = [{"name": config, "config_operation": 0, "value": text}]
            resource = {"resource_type": kind, "resource_name": name, "configs": rows}
            client.ask(44, 1, body_of(entity, {"resources": [resource]}))
            ended = [str(node.exit) for node in filled.nodes.values() if node.exit is not None]
            assert not ended, f"{config}={text[:100]}"
