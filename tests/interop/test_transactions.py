"""Transactions of librdkafka on three nodes: committed ones are read whole, others never.

The coordinator of the transactional id and the leader of a partition are killed while transactions
run; an outcome that the client does not know is all or nothing.
"""

from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from coordinator.records.kinds import TRANSACTION_STATE
from coordinator.runtime.shards import partition_for
from tests.interop import quorum as quorums
from tests.interop.quorum import Quorum, wait_until

SECONDS = 30.0
TOPIC = "transfers"
PARTITIONS = 3
NAME = "transfer"


def create(quorum: Quorum) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": quorum.bootstrap})
    topic = NewTopic(TOPIC, PARTITIONS, 3, config={"min.insync.replicas": "2"})
    admin.create_topics([topic])[TOPIC].result(SECONDS)
    return admin


def producer_of(quorum: Quorum) -> Producer:
    producer = Producer(
        {"bootstrap.servers": quorum.bootstrap, "transactional.id": NAME, "log_level": 0,
         "transaction.timeout.ms": 20_000}
    )  # fmt: skip
    producer.init_transactions(SECONDS)
    return producer


def transfer(producer: Producer, number: int, *, is_commit: bool) -> None:
    """One record with the number in each partition."""
    producer.begin_transaction()
    for partition in range(PARTITIONS):
        producer.produce(TOPIC, str(number), partition=partition)
    if is_commit:
        producer.commit_transaction(SECONDS)
    else:
        producer.flush(SECONDS)
        producer.abort_transaction(SECONDS)


def read(quorum: Quorum, level: str) -> list[list[int]]:
    """The numbers in each partition, up to the end that a reader of this isolation has."""
    consumer = Consumer(
        {"bootstrap.servers": quorum.bootstrap, "group.id": f"reader {level}",
         "isolation.level": level, "enable.partition.eof": True, "log_level": 0}
    )  # fmt: skip
    found: list[list[int]] = [[] for _ in range(PARTITIONS)]
    ended: set[int] = set()
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])

    def at_end() -> bool:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            found[message.partition()].append(int(message.value()))
        elif message is not None:
            ended.add(message.partition())
        return len(ended) == PARTITIONS

    wait_until(at_end, SECONDS, lambda: f"{found=} {ended=}")
    consumer.close()
    return found


def test_committed_transactions_are_read_whole_and_aborted_ones_never(quorum: Quorum) -> None:
    create(quorum)
    producer = producer_of(quorum)
    for number in range(12):
        transfer(producer, number, is_commit=number % 3 != 1)
    committed = [number for number in range(12) if number % 3 != 1]
    assert read(quorum, "read_committed") == [committed] * PARTITIONS
    assert read(quorum, "read_uncommitted") == [list(range(12))] * PARTITIONS
    other = producer_of(quorum)
    producer.begin_transaction()
    producer.produce(TOPIC, "99", partition=0)
    with pytest.raises(KafkaException) as refused:
        producer.commit_transaction(SECONDS)
    assert refused.value.args[0].fatal()
    transfer(other, 12, is_commit=True)
    assert read(quorum, "read_committed") == [[*committed, 12]] * PARTITIONS


def test_what_is_committed_survives_killed_coordinators_and_leaders(tmp_path: Path) -> None:
    with quorums.running(tmp_path / "quorum") as cluster:
        admin = create(cluster)
        producer = producer_of(cluster)
        known: dict[int, bool] = {}
        """Transactions whose outcome the client knows."""
        number = 0
        coordinator = partition_for(NAME, 50)
        for topic, partition in ((TRANSACTION_STATE, coordinator), (TOPIC, 0)) * 2:
            leaders = admin.list_topics(topic, timeout=SECONDS).topics[topic].partitions
            killed = leaders[partition].leader
            for step in range(8):
                number += 1
                if step == 2:
                    cluster.run("kill", str(killed))
                is_commit = step % 3 != 1
                try:
                    transfer(producer, number, is_commit=is_commit)
                    known[number] = is_commit
                except KafkaException as error:
                    if error.args[0].txn_requires_abort():
                        producer.abort_transaction(SECONDS)
                        known[number] = False
                    else:
                        producer = producer_of(cluster)
            cluster.up()
            cluster.wait_healthy()
        found = read(cluster, "read_committed")
        assert found[0] == found[1] == found[2], "each is whole or not there"
        assert found[0] == sorted(set(found[0])), "in order, once"
        missing = [each for each, is_commit in known.items() if is_commit and each not in found[0]]
        extra = [each for each in found[0] if not known.get(each, True)]
        assert (missing, extra) == ([], [])
        assert len(known) > number // 2
