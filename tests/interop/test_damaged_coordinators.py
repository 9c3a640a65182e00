"""A real node whose logs of coordinators are damaged: one shard has no coordinator, all others do.

The node stops in good order, its disk changes a byte of a batch or loses the end of a segment, and
it starts again.
"""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from cli.connect import Cluster, newest, parse_addresses
from coordinator.records.kinds import CONSUMER_OFFSETS, TRANSACTION_STATE
from coordinator.runtime.shards import partition_for
from tests.interop.quorum import Quorum, running, wait_until
from wire.api_keys import INIT_PRODUCER_ID, OFFSET_FETCH
from wire.errors import ErrorCode

SECONDS = 15.0
PARTITIONS = 4
TOPIC = "read-by-groups"
SETTINGS = {
    "offsets.topic.num.partitions": PARTITIONS,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.num.partitions": PARTITIONS,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
}
NAMES = tuple(
    next(f"n{n}" for n in range(99) if partition_for(f"n{n}", PARTITIONS) == number)
    for number in range(PARTITIONS)
)
"""A group and transactional id of each partition."""
BROKEN, *SOUND = range(PARTITIONS)
COMMITS = (5, 6, 7)


class Node:
    """A node with the offsets of four groups, and transactions of four ids."""

    def __init__(self, quorum: Quorum) -> None:
        self.quorum = quorum
        self.address = f"127.0.0.1:{quorum.base_port}"
        self.config: dict[str, Any] = {"bootstrap.servers": self.address, "log_level": 0}
        admin = AdminClient(self.config)
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(SECONDS)
        for name in NAMES:
            for offset in COMMITS:
                wait_until(lambda: self.commits(name, offset), SECONDS, quorum.logs)  # noqa: B023
            self.transact(name)

    def commits(self, group: str, offset: int) -> bool:
        """True if the coordinator of the group takes an offset."""
        member = Consumer(self.config | {"group.id": group, "enable.auto.commit": False})
        try:
            member.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
        except KafkaException:
            return False
        finally:
            member.close()
        return True

    def transact(self, transactional_id: str) -> None:
        """Commit a transaction."""
        producer = Producer(self.config | {"transactional.id": transactional_id})
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        producer.produce(TOPIC, transactional_id)
        producer.commit_transaction(SECONDS)

    def committed(self, group: str) -> int | ErrorCode:
        """The offset that a group has committed, or the error in its place."""
        new = newest(OFFSET_FETCH)
        wanted = new.OffsetFetchRequestGroup(
            group_id=group, member_id=None, member_epoch=-1, topics=None
        )
        (row,) = self.ask(OFFSET_FETCH, new.OffsetFetchRequest(groups=(wanted,))).groups
        if row.error_code:
            return ErrorCode(row.error_code)
        return int(row.topics[0].partitions[0].committed_offset)

    def ask(self, api_key: int, body: Any) -> Any:
        """The answer of the node."""
        with Cluster(parse_addresses(self.address), is_controllers=False) as it:
            return it.call(api_key, body, 1)

    def init_producer_id(self, transactional_id: str) -> ErrorCode:
        """The error of a new producer."""
        body = newest(INIT_PRODUCER_ID).InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout=timedelta(seconds=SECONDS),
            producer_id=-1,
            producer_epoch=-1,
        )
        return ErrorCode(self.ask(INIT_PRODUCER_ID, body).error_code)

    def wait_loaded(self) -> None:
        """Wait until the sound groups have coordinators."""
        wait_until(
            lambda: all(self.committed(NAMES[n]) == COMMITS[-1] for n in SOUND),
            SECONDS,
            self.quorum.logs,
        )

    def segment(self, topic: str, number: int) -> Path:
        """The only segment of a partition."""
        (found,) = self.quorum.folder.rglob(f"{topic}-{number}/{0:020d}.log")
        return found

    def told(self, event: str) -> list[dict[str, Any]]:
        """The lines of the node about an event."""
        lines = self.quorum.run("logs", "1").stdout.splitlines()
        found = [json.loads(line) for line in lines if f'"{event}"' in line]
        return [row for row in found if row["event"] == event]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    words = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
    with running(tmp_path / "q", "--nodes", "1", *words) as quorum:
        quorum.wait_healthy()
        yield Node(quorum)


@pytest.mark.parametrize("topic", [CONSUMER_OFFSETS, TRANSACTION_STATE])
def test_a_changed_byte_takes_the_coordinator_of_its_partition_alone(
    node: Node, topic: str
) -> None:
    node.quorum.run("down")
    path = node.segment(topic, BROKEN)
    content = bytearray(path.read_bytes())
    first_end = 12 + int.from_bytes(content[8:12], "big")
    assert first_end < len(content), "the second batch is damaged, not the last"
    content[first_end + 70] ^= 1
    path.write_bytes(content)
    node.quorum.up()
    node.wait_loaded()
    wait_until(lambda: bool(node.told("coordinator_not_loaded")), SECONDS, node.quorum.logs)
    (row,) = node.told("coordinator_not_loaded")
    assert row["partition"] == f"{topic}-{BROKEN}"
    place = f"{topic}-{BROKEN}/{0:020d}.log: corrupt at position {first_end}: CRC of the batch"
    assert place in row["reason"]
    assert path.read_bytes() == content, "nothing is cut or written"
    if topic == TRANSACTION_STATE:
        assert node.init_producer_id(NAMES[BROKEN]) is ErrorCode.not_coordinator
        for number in SOUND:
            node.transact(NAMES[number])
    else:
        assert node.committed(NAMES[BROKEN]) is ErrorCode.not_coordinator
    for number in SOUND:
        assert node.committed(NAMES[number]) == COMMITS[-1]
        assert node.commits(NAMES[number], 8)
        assert node.committed(NAMES[number]) == 8


def test_a_torn_end_loses_what_was_in_it_alone(node: Node) -> None:
    node.quorum.run("kill", "1")
    path = node.segment(CONSUMER_OFFSETS, BROKEN)
    content = path.read_bytes()
    path.write_bytes(content[:-3])
    node.quorum.up()
    node.wait_loaded()
    assert node.committed(NAMES[BROKEN]) == COMMITS[-2]
    assert node.told("coordinator_not_loaded") == []
    for number in SOUND:
        assert node.committed(NAMES[number]) == COMMITS[-1]
    assert node.commits(NAMES[BROKEN], 8)
    assert node.committed(NAMES[BROKEN]) == 8
