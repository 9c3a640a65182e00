"""A copy from topic to topic with the offsets of its group in the transactions: each record once.

The application is thrown away in the middle of a transaction, and the coordinator of the group is
killed; the copy goes on with the next instance.
"""

from itertools import count
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from coordinator.runtime.shards import partition_for
from tests.interop import quorum as quorums
from tests.interop.quorum import Quorum

SECONDS = 60.0
RECORDS = 300
GROUP = "copiers"
OFFSETS_PARTITIONS = 50


def consumer_of(quorum: Quorum, topic: str) -> Consumer:
    consumer = Consumer(
        {"bootstrap.servers": quorum.bootstrap, "group.id": GROUP, "enable.auto.commit": False,
         "auto.offset.reset": "earliest", "isolation.level": "read_committed", "log_level": 0,
         "session.timeout.ms": 6_000}
    )  # fmt: skip
    consumer.subscribe([topic])
    return consumer


def copy(quorum: Quorum, stop_after: int | None) -> int:
    """Copy batches; ends at the end of the input, or within the transaction behind so many."""
    producer = Producer(
        {"bootstrap.servers": quorum.bootstrap, "transactional.id": "copier", "log_level": 0}
    )
    producer.init_transactions(SECONDS)
    consumer, copied = consumer_of(quorum, "input"), 0
    for number in count(1):
        messages = [m for m in consumer.consume(20, 8.0) if m.error() is None]
        if not messages:
            break
        producer.begin_transaction()
        for message in messages:
            producer.produce("output", message.value(), partition=message.partition())
        if number == stop_after:
            producer.flush(SECONDS)
            break
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), SECONDS
        )
        producer.commit_transaction(SECONDS)
        copied += len(messages)
    consumer.close()
    return copied


def values(quorum: Quorum, topic: str) -> list[bytes]:
    """All committed values, by partition."""
    reader = Consumer(
        {"bootstrap.servers": quorum.bootstrap, "group.id": "reader", "log_level": 0,
         "isolation.level": "read_committed", "enable.partition.eof": True}
    )  # fmt: skip
    reader.assign([TopicPartition(topic, number, 0) for number in range(2)])
    found: list[bytes] = []
    ended: set[int] = set()
    while len(ended) < 2:
        message = reader.poll(SECONDS)
        assert message is not None, f"{len(found)} of {topic}"
        if message.error() is None:
            found.append(message.value())
        elif message.error().code() == KafkaError._PARTITION_EOF:
            ended.add(message.partition())
        else:
            raise KafkaException(message.error())
    reader.close()
    return found


def test_each_record_is_copied_once(tmp_path: Path) -> None:
    with quorums.running(tmp_path / "quorum") as quorum:
        copies_each_record_once(quorum)


def copies_each_record_once(quorum: Quorum) -> None:
    admin = AdminClient({"bootstrap.servers": quorum.bootstrap})
    topics = [NewTopic(name, 2, 3) for name in ("input", "output")]
    for made in admin.create_topics(topics).values():
        made.result(SECONDS)
    source = Producer({"bootstrap.servers": quorum.bootstrap, "acks": -1})
    for number in range(RECORDS):
        source.produce("input", b"%d" % number, partition=number % 2)
    assert source.flush(SECONDS) == 0
    copied = copy(quorum, stop_after=4)
    rows = admin.list_topics("__consumer_offsets", timeout=SECONDS).topics["__consumer_offsets"]
    victim = rows.partitions[partition_for(GROUP, OFFSETS_PARTITIONS)].leader
    quorum.run("kill", str(victim))
    copied += copy(quorum, stop_after=None)
    assert copied == RECORDS
    assert sorted(values(quorum, "output")) == sorted(b"%d" % n for n in range(RECORDS))
