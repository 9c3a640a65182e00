"""ListOffsets: offsets by time and of the ends, and each error that Kafka answers."""

import errno
from datetime import timedelta

import pytest

from broker.apis.records.list_offsets import ListOffsets
from quorum_controller.security.authorization import AccessRules, Operation
from simulator.cluster.memory_vfs import MemoryVfs
from tests.broker.apis.requests import Broker, answer_bytes, ask, recorded
from tests.broker.metadata_log import A
from tests.replication.partitions import Brokers, fetch, from_follower, led, registration
from tests.storage.test_unified_log import NOW, opened, produced
from wire.api_keys import LIST_OFFSETS
from wire.errors import ErrorCode
from wire.messages import codec

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING_UPLOAD = range(-1, -7, -1)


class Asked:
    def __init__(self, *topics, rules=None):
        self.broker = Broker(*topics or ("a",), rules=rules)
        self.disk_errors = []
        self.handler = ListOffsets(
            self.broker.partitions,
            self.broker.access,
            lambda key, error: self.disk_errors.append((key, error.errno)),
        )

    def ask(self, *rows, version=11, replica_id=-1, isolation=0):
        """Rows of topic, partition, timestamp and current leader epoch; the answered ones."""
        new = codec.newest(LIST_OFFSETS, "request")
        topics = tuple(
            new.ListOffsetsTopic(
                name=name,
                partitions=(
                    new.ListOffsetsPartition(
                        partition_index=number,
                        timestamp=timestamp,
                        current_leader_epoch=epoch[0] if epoch else -1,
                    ),
                ),
            )
            for name, number, timestamp, *epoch in rows
        )
        body = new.ListOffsetsRequest(
            replica_id=replica_id, isolation_level=isolation, topics=topics, timeout=timedelta(0)
        )
        answer = ask(self.handler, LIST_OFFSETS, version, body)
        return {
            topic.name: [
                (p.partition_index, p.error_code, p.timestamp, p.offset, p.leader_epoch)
                for p in topic.partitions
            ]
            for topic in answer.topics
        }

    def one(self, timestamp, epoch=-1, **request):
        ((_, code, *found),) = self.ask(("a", 0, timestamp, epoch), **request)["a"]
        return tuple(found) if code is ErrorCode.none else code


def timed():
    """A log with records of the times 10, 30 and 20, of epoch 1; two are committed."""
    partition = led(isr=(1, 2))
    for time in (10, 30, 20):
        partition.append_as_leader(
            produced(NOW + time), required_acks=1, wall_ms=NOW + 30, now_ms=0
        )
    fetch(partition, 2, from_follower())
    assert partition.log.high_watermark == 2
    return partition


@pytest.mark.parametrize(
    ("timestamp", "version", "found"),
    [
        (EARLIEST, 1, (-1, 0, -1)),
        (EARLIEST, 4, (-1, 0, 1)),
        (LATEST, 1, (-1, 2, -1)),
        (LATEST, 3, (-1, 2, -1)),
        (LATEST, 11, (-1, 2, 1)),
        (MAX_TIMESTAMP, 7, (NOW + 30, 1, 1)),
        (EARLIEST_LOCAL, 8, (-1, 0, 1)),
        (LATEST_TIERED, 9, (-1, -1, -1)),
        (PENDING_UPLOAD, 11, (-1, -1, -1)),
        (NOW, 11, (NOW + 10, 0, 1)),
        (NOW + 11, 11, (NOW + 30, 1, 1)),
        (NOW + 31, 11, (-1, -1, -1)),
        (0, 1, (NOW + 10, 0, -1)),
    ],
)
def test_offsets_by_time(timestamp, version, found):
    asked = Asked()
    asked.broker.host(timed())
    assert asked.one(timestamp, version=version) == found


@pytest.mark.parametrize(
    ("timestamp", "version"),
    [
        (MAX_TIMESTAMP, 6),
        (EARLIEST_LOCAL, 7),
        (LATEST_TIERED, 8),
        (PENDING_UPLOAD, 10),
        (-7, 11),
    ],
)
def test_a_timestamp_of_a_later_version_is_not_supported(timestamp, version):
    asked = Asked()
    asked.broker.host(timed())
    assert asked.one(timestamp, version=version) is ErrorCode.unsupported_version


def test_the_latest_offset_is_that_of_the_reader():
    asked = Asked()
    partition = asked.broker.host(led())
    partition.append_as_leader(
        produced(NOW, producer=7, attributes=0x10), required_acks=1, wall_ms=NOW, now_ms=0
    )
    for follower in (2, 3):
        fetch(partition, 1, from_follower(follower))
    partition.append_as_leader(produced(NOW), required_acks=1, wall_ms=NOW, now_ms=0)
    assert asked.one(LATEST)[1] == 1
    assert asked.one(LATEST, isolation=1)[1] == 0
    assert asked.one(LATEST, replica_id=2)[1] == 2
    assert asked.one(LATEST, replica_id=2, isolation=1)[1] == 2
    assert asked.one(LATEST, replica_id=-2)[1] == 2
    assert asked.one(LATEST, isolation=2) is ErrorCode.unknown_server_error


def test_a_follower_answers_who_debugs_it():
    asked = Asked()
    partition = asked.broker.host(led(1))
    partition.make_follower(registration(leader=2, epoch=2), 0)
    assert asked.one(LATEST) is ErrorCode.not_leader_or_follower
    assert asked.one(LATEST, replica_id=3) is ErrorCode.not_leader_or_follower
    assert asked.one(LATEST, replica_id=-2) == (-1, 1, 2)


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(0, ErrorCode.fenced_leader_epoch), (2, ErrorCode.unknown_leader_epoch), (1, None)],
)
def test_the_current_leader_epoch_is_compared(epoch, code):
    asked = Asked()
    asked.broker.host(led(1, isr=(1,)))
    assert asked.one(LATEST, epoch) == (code or (-1, 1, 1))


@pytest.mark.parametrize(
    ("version", "code"),
    [(5, ErrorCode.offset_not_available), (4, ErrorCode.leader_not_available)],
)
def test_a_new_leader_may_not_know_the_end(version, code):
    asked = Asked()
    log = opened(MemoryVfs())
    log.append_as_leader(produced(NOW), 0, NOW)
    asked.broker.host(led(log=log, brokers=Brokers()))
    assert asked.one(LATEST, version=version) is code
    assert asked.one(NOW, version=version) is code
    assert asked.one(NOW + 1, version=version) is code
    assert asked.one(EARLIEST, version=version)[1] == 0
    assert asked.one(LATEST, version=version, replica_id=2)[1] == 1


def test_partitions_that_are_not_here():
    asked = Asked()
    asked.broker.host(led()).mark_offline()
    rows = asked.ask(("a", 0, LATEST), ("a", 1, LATEST), ("a", 9, LATEST), ("x", 0, LATEST))
    codes = {(name, row[0]): row[1] for name, found in rows.items() for row in found}
    assert codes == {
        ("a", 0): ErrorCode.kafka_storage_error,
        ("a", 1): ErrorCode.not_leader_or_follower,
        ("a", 9): ErrorCode.unknown_topic_or_partition,
        ("x", 0): ErrorCode.unknown_topic_or_partition,
    }
    assert {row[2:] for found in rows.values() for row in found} == {(-1, -1, -1)}


def test_a_partition_that_is_asked_for_twice_is_refused_once():
    asked = Asked("a", "b")
    asked.broker.host(led(1, isr=(1,)), 1)
    rows = asked.ask(("a", 0, LATEST), ("b", 0, LATEST), ("a", 1, LATEST), ("a", 0, EARLIEST))
    assert rows == {
        "a": [(0, ErrorCode.invalid_request, -1, -1, -1), (1, ErrorCode.none, -1, 1, 1)],
        "b": [(0, ErrorCode.not_leader_or_follower, -1, -1, -1)],
    }


def test_topics_that_the_caller_may_not_describe():
    asked = Asked("a", "b", rules=AccessRules())
    asked.broker.allow(Operation.DESCRIBE, "b")
    rows = asked.ask(("a", 0, LATEST), ("a", 0, LATEST), ("b", 0, LATEST), ("x", 0, LATEST))
    assert {name: [row[1] for row in found] for name, found in rows.items()} == {
        "a": [ErrorCode.topic_authorization_failed],
        "b": [ErrorCode.not_leader_or_follower],
        "x": [ErrorCode.topic_authorization_failed],
    }


def test_a_read_that_fails_takes_its_directory_offline():
    asked = Asked()
    vfs = MemoryVfs()
    asked.broker.host(led(1, isr=(1,), log=opened(vfs)))
    vfs.failing = lambda kind, path: errno.EIO if kind == "read" else None
    assert asked.one(NOW) is ErrorCode.kafka_storage_error
    assert asked.disk_errors == [((A, 0), errno.EIO)]


def test_a_damaged_batch_is_answered_as_one():
    asked = Asked()
    vfs = MemoryVfs()
    asked.broker.host(led(1, isr=(1,), log=opened(vfs)))
    vfs.damage("/d/p-0/00000000000000000000.log", 16, b"\x09")
    assert asked.one(NOW) is ErrorCode.corrupt_message
    assert asked.disk_errors == []


@pytest.mark.parametrize("number", ["164", "199", "222", "241", "242", "305"])
def test_recorded_answers_of_kafka(number):
    request, response = recorded(f"static-4.3.1-00{number}")
    header, position = codec.split_request(request)
    body = codec.read_request(LIST_OFFSETS, header.api_version, request, position)
    (topic,) = codec.decode_response(LIST_OFFSETS, header.api_version, response)[1].topics
    assert [asked.name for asked in body.topics] == [topic.name]
    asked = Asked(topic.name)
    topic_id = asked.broker.image().topic_id_by_name[topic.name]
    for row in topic.partitions:
        partition = led(row.offset, isr=(1,), epoch=0)
        asked.broker.host(partition, row.partition_index, topic_id)
    assert answer_bytes(asked.handler, request) == response
