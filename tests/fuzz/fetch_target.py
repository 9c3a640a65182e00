"""Fetch requests of consumers and followers: what the reader accepts, kio reads the same."""

import importlib
from functools import cache
from operator import attrgetter
from random import Random
from typing import Any
from uuid import UUID

from kio.serial import entity_reader
from kio.serial.errors import SerialError

from tests.fuzz.engine import Target
from tests.wire.messages import test_fetch_request
from tests.wire.recorded_pairs import of_key
from wire.api_keys import FETCH
from wire.errors import RemoteProtocolError
from wire.messages.body_walk import checked_body
from wire.messages.codec import split_request
from wire.messages.fetch_request import (
    BrokerFetchRequest,
    RequestedPartition,
    decode_fetch_request,
)
from wire.messages.fetch_versions import TOPIC_ID_VERSION, VERSION_MAX, VERSION_MIN

LATER_FIELDS = ("current_leader_epoch", "last_fetched_epoch", "log_start_offset")
"""Fields of a partition that came with later versions."""
LATER = attrgetter(*LATER_FIELDS)
ABSENT = -1


@cache
def _recorded() -> tuple[bytes, ...]:
    """Requests of real clients and brokers: a byte of the version, then the body."""
    found = []
    for pair in of_key(FETCH):
        frame = bytes.fromhex(pair["request_hex"])
        _, position = split_request(frame)
        found.append(bytes([pair["api_version"]]) + frame[position:])
    return tuple(found)


def _drawn(rng: Random) -> bytes:
    version = rng.randrange(VERSION_MIN, VERSION_MAX + 1)

    def row() -> RequestedPartition:
        return RequestedPartition(
            topic="",
            partition=rng.randrange(9),
            fetch_offset=rng.randrange(2**63),
            max_bytes=rng.randrange(2**31),
            current_leader_epoch=rng.randrange(-1, 9),
            last_fetched_epoch=rng.randrange(-1, 9),
        )

    topics = {name: [row() for _ in range(rng.randrange(3))] for name in "ab"[: rng.randrange(3)]}
    forgotten = {"c": [rng.randrange(9)]} if rng.random() < 0.5 else {}
    values = {
        "replica_id": rng.randrange(-1, 4), "session_id": rng.randrange(9),
        "max_wait_ms": rng.randrange(2**31), "isolation_level": rng.randrange(2),
        "rack_id": rng.choice(("", "r\u00fcck")),
    }  # fmt: skip
    body = test_fetch_request.request_bytes(version, topics, forgotten, **values)
    return bytes([version]) + body


def _read(data: bytes) -> BrokerFetchRequest:
    if not data or not VERSION_MIN <= data[0] <= VERSION_MAX:
        raise RemoteProtocolError("not a version of it")
    return decode_fetch_request(data[0], data, 1)


def _topic(version: int, each: Any) -> str | bytes:
    if version < TOPIC_ID_VERSION:
        return str(each.topic)
    return (each.topic_id or UUID(int=0)).bytes


def _as_kio_reads_it(value: BrokerFetchRequest, data: bytes, _rng: Random) -> None:
    version = data[0]
    entity = importlib.import_module(f"kio.schema.fetch.v{version}.request").FetchRequest
    try:
        kio, _ = entity_reader(entity)(checked_body(entity, data[1:]), 0)
    except (SerialError, ValueError, IndexError):
        return  # for what the reader skips in tagged fields, as the cluster's id
    found = [
        (each.topic, each.partition, each.fetch_offset, each.max_bytes, *LATER(each))
        for each in value.partitions
    ]
    assert found == [
        (
            _topic(version, topic), each.partition, each.fetch_offset, each.partition_max_bytes,
            *(getattr(each, name, ABSENT) for name in LATER_FIELDS),
        )
        for topic in kio.topics
        for each in topic.partitions
    ]  # fmt: skip
    assert value.forgotten == tuple(
        (_topic(version, topic), number)
        for topic in getattr(kio, "forgotten_topics_data", ())
        for number in topic.partitions
    )
    assert (value.min_bytes, value.max_bytes) == (kio.min_bytes, kio.max_bytes)
    assert value.is_committed_only == (kio.isolation_level == 1)
    assert value.session_id == getattr(kio, "session_id", 0)
    assert value.session_epoch == getattr(kio, "session_epoch", ABSENT)
    assert value.rack_id == getattr(kio, "rack_id", "")
    replica = kio.replica_state if hasattr(kio, "replica_state") else kio
    assert value.replica_id == replica.replica_id


def targets() -> list[Target]:
    """All of this file."""
    return [
        Target(
            "fetch-requests", _recorded(), _read, (RemoteProtocolError,), _as_kio_reads_it, _drawn
        )
    ]
