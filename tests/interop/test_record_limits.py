"""Produce at its limits: a thousand connections at once, requests that stop half-way, sizes."""

import asyncio
import socket
import struct
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from tests.interop.quorum import Quorum, wait_until
from tests.interop.record_clients import AioRecords
from tests.interop.test_records import create
from tests.wire.messages.test_produce import request_bytes
from wire.api_keys import PRODUCE
from wire.batches.batch import encode_batch
from wire.errors import ErrorCode
from wire.messages import codec

CONNECTIONS = 1000
VERSION = 12
SECONDS = 60.0
NOW_MS = 1_700_000_000_000


def produce(topic: str, value: bytes) -> bytes:
    """A framed request of one record, acks=all."""
    batch = encode_batch([value], 0, -1, NOW_MS)
    header = struct.pack(">hhih", PRODUCE, VERSION, 1, 1) + b"c\0"
    payload = header + request_bytes(VERSION, None, -1, 30_000, {topic: [(0, batch)]})
    return struct.pack(">i", len(payload)) + payload


def code_of(payload: bytes) -> ErrorCode:
    _, body = codec.decode_response(PRODUCE, VERSION, payload)
    ((row,),) = (topic.partition_responses for topic in body.responses)
    return row.error_code


def leader_of(quorum: Quorum, topic: str) -> tuple[str, int]:
    admin = AdminClient({"bootstrap.servers": quorum.bootstrap, "log_level": 2})
    found: list[tuple[str, int]] = []

    def is_known() -> bool:
        metadata = admin.list_topics(topic, timeout=10)
        partition = metadata.topics[topic].partitions.get(0)
        if partition is not None and partition.leader in metadata.brokers:
            broker = metadata.brokers[partition.leader]
            found.append((broker.host, broker.port))
        return bool(found)

    wait_until(is_known, SECONDS, quorum.logs)
    assert AioRecords(quorum.bootstrap).ends(topic) == (0, 0), "the leader has its log"
    return found[0]


async def asked(address: tuple[str, int], request: bytes, begin: asyncio.Event) -> ErrorCode:
    reader, writer = await asyncio.open_connection(*address)
    await begin.wait()
    writer.write(request)
    (length,) = struct.unpack(">i", await reader.readexactly(4))
    answer = await reader.readexactly(length)
    writer.close()
    return code_of(answer)


def one(address: tuple[str, int], request: bytes) -> ErrorCode:
    async def ask() -> ErrorCode:
        begin = asyncio.Event()
        begin.set()
        return await asyncio.wait_for(asked(address, request, begin), SECONDS)

    return asyncio.run(ask())


def values_of(quorum: Quorum, topic: str, count: int) -> list[bytes | None]:
    client = AioRecords(quorum.bootstrap)
    assert client.ends(topic) == (0, count)
    return [record.value for record in client.consume(topic, count)]


def test_a_thousand_connections_that_produce_at_once(quorum: Quorum) -> None:
    topic = create(quorum, 3, retention_ms="-1", min_insync_replicas="2")
    address = leader_of(quorum, topic)
    values = [b"%d" % number for number in range(CONNECTIONS)]

    async def all_at_once() -> list[Any]:
        begin = asyncio.Event()
        asking = [asyncio.create_task(asked(address, produce(topic, v), begin)) for v in values]
        begin.set()
        return await asyncio.wait_for(asyncio.gather(*asking), SECONDS)

    assert set(asyncio.run(all_at_once())) == {ErrorCode.none}
    assert sorted(values_of(quorum, topic, CONNECTIONS)) == sorted(values)


@pytest.mark.parametrize("goes", [True, False], ids=["goes", "stays"])
def test_half_a_batch_is_appended_by_nobody(quorum: Quorum, goes: bool) -> None:
    topic = create(quorum, 3, retention_ms="-1")
    address = leader_of(quorum, topic)
    request = produce(topic, b"half" * 1000)
    with socket.create_connection(address, timeout=SECONDS) as client:
        client.sendall(request[: len(request) // 2])
        if goes:
            client.close()
        assert one(address, produce(topic, b"whole")) is ErrorCode.none
        assert values_of(quorum, topic, 1) == [b"whole"]


def test_a_batch_of_the_limit_and_one_byte_above_it(quorum: Quorum) -> None:
    limit = len(encode_batch([b"v" * 500], 0, -1, NOW_MS))
    topic = create(quorum, 3, retention_ms="-1", max_message_bytes=str(limit))
    address = leader_of(quorum, topic)
    assert one(address, produce(topic, b"v" * 501)) is ErrorCode.message_too_large
    assert one(address, produce(topic, b"v" * 500)) is ErrorCode.none
    assert values_of(quorum, topic, 1) == [b"v" * 500]
