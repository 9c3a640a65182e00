"""A member of a group that asks and never reads: it is not waited for, nor kept in memory.

The node stops to read it (broker/clients/front.py, node/records/record_sockets.py), so that its
session ends; the other member has all partitions then, and another group notices nothing.
"""

import contextlib
import re
import socket
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from cli.client import Client
from tests.interop.quorum import Quorum, running, wait_until
from wire.api_keys import HEARTBEAT, JOIN_GROUP, OFFSET_FETCH, SYNC_GROUP
from wire.errors import ErrorCode
from wire.messages import codec

SECONDS = 30.0
TOPIC, PARTITIONS, GROUP, WITH_OFFSETS = "silent", 4, "members", "offsets"
BIG = "m" * 4_000
SUBSCRIPTION = bytes.fromhex("0000 00000001 0006") + TOPIC.encode() + bytes.fromhex("ffffffff")
GROWTH_MAX_KIB = 60 * 1024
"""Of the resident memory; an answer has 16 KB, and requests come as fast as they are taken."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quorum]:
    words = ("--nodes", "1", "--set", "group.min.session.timeout.ms=1000",
             "--set", "group.initial.rebalance.delay.ms=0",
             "--set", "offsets.topic.replication.factor=1")  # fmt: skip
    with running(tmp_path_factory.mktemp("silent") / "quorum", *words) as quorum:
        address = {"bootstrap.servers": f"127.0.0.1:{quorum.base_port}"}
        admin = AdminClient(address)
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(SECONDS)
        owner = Consumer({**address, "group.id": WITH_OFFSETS})
        offsets = [TopicPartition(TOPIC, n, 7, metadata=BIG) for n in range(PARTITIONS)]
        owner.commit(offsets=offsets, asynchronous=False)
        owner.close()
        yield quorum


def joined(client: Client) -> str:
    """Join as the only member of the group; its id."""
    new: Any = codec.newest(JOIN_GROUP, "request")
    row = new.JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)
    member_id = ""
    while True:
        answer = client.call(JOIN_GROUP, new.JoinGroupRequest(
            group_id=GROUP, session_timeout=timedelta(seconds=3),
            rebalance_timeout=timedelta(seconds=3), member_id=member_id,
            protocol_type="consumer", protocols=(row,),
        ))  # fmt: skip
        if answer.error_code is ErrorCode.none:
            break
        member_id = answer.member_id
        time.sleep(0.1)
    sync: Any = codec.newest(SYNC_GROUP, "request")
    everything = sync.SyncGroupRequestAssignment(member_id=member_id, assignment=b"")
    answer = client.call(SYNC_GROUP, sync.SyncGroupRequest(
        group_id=GROUP, generation_id=answer.generation_id, member_id=member_id,
        protocol_type="consumer", protocol_name="range", assignments=(everything,),
    ))  # fmt: skip
    assert answer.error_code is ErrorCode.none
    return member_id


def resident_kib(quorum: Quorum) -> int:
    status = Path(f"/proc/{quorum.node(1)['pid']}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+)", status)
    assert found is not None
    return int(found[1])


def shout(client: Client, member_id: str, stop: threading.Event) -> None:
    """Ask for offsets, and beat, without reading one answer, until nothing more is taken."""
    fetch: Any = codec.newest(OFFSET_FETCH, "request")
    group = fetch.OffsetFetchRequestGroup(group_id=WITH_OFFSETS, topics=None)
    beat: Any = codec.newest(HEARTBEAT, "request")
    bodies = (
        (OFFSET_FETCH, fetch.OffsetFetchRequest(groups=(group,))),
        (HEARTBEAT, beat.HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=member_id)),
    )
    client._socket.settimeout(0.5)
    while not stop.is_set():
        for api_key, body in bodies:
            content = client._connection.request(api_key, body)[1]
            while content and not stop.is_set():
                with contextlib.suppress(TimeoutError):
                    content = content[client._socket.send(content) :]


def test_a_member_that_never_reads_is_left_behind(node: Quorum) -> None:
    address = f"127.0.0.1:{node.base_port}"
    silent = Client("127.0.0.1", node.base_port)
    silent._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    member_id = joined(silent)
    before_kib, stop = resident_kib(node), threading.Event()
    shouting = threading.Thread(target=shout, args=(silent, member_id, stop))
    shouting.start()
    try:
        other = Consumer({"bootstrap.servers": address, "group.id": GROUP, "log_level": 0,
                          "session.timeout.ms": 3_000,
                          "partition.assignment.strategy": "range"})  # fmt: skip
        other.subscribe([TOPIC])
        wait_until(
            lambda: other.poll(0.2) is not None or len(other.assignment()) == PARTITIONS,
            SECONDS, lambda: str(other.assignment()),
        )  # fmt: skip
        assert len(other.assignment()) == PARTITIONS
        began = time.monotonic()
        reader = Consumer({"bootstrap.servers": address, "group.id": WITH_OFFSETS})
        found = reader.committed([TopicPartition(TOPIC, 0)], timeout=SECONDS)
        assert (found[0].offset, found[0].metadata) == (7, BIG)
        assert time.monotonic() - began < 10
        assert resident_kib(node) - before_kib < GROWTH_MAX_KIB
        reader.close()
        other.close()
    finally:
        stop.set()
        shouting.join()
        silent.close()
