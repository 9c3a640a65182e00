"""Producers and consumers of three libraries at three nodes: what is written is read, and kept."""

import itertools
import os
import signal
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.quorum import Quorum, running, wait_until
from tests.interop.record_clients import (
    CODECS,
    OF_CLIENT,
    RECORD_CLIENTS,
    SECONDS,
    ConfluentRecords,
    Record,
    RecordClient,
)

NAMES = itertools.count()


@pytest.fixture(params=sorted(RECORD_CLIENTS))
def records(request: pytest.FixtureRequest, quorum: Quorum) -> RecordClient:
    client: RecordClient = RECORD_CLIENTS[request.param](quorum.bootstrap)
    return client


def create(quorum: Quorum, replicas: int, partitions: int = 1, **configs: str) -> str:
    name = f"records-{next(NAMES)}"
    admin = AdminClient({"bootstrap.servers": quorum.bootstrap, "log_level": 2})
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    topic = NewTopic(name, partitions, replicas, config=settings)
    admin.create_topics([topic])[name].result(SECONDS)
    return name


def numbered(count: int, start_ms: int = 1_700_000_000_000) -> list[Record]:
    return [Record(b"v%d" % i, b"k%d" % i, (("h", b"%d" % i),), start_ms + i) for i in range(count)]


def with_offsets(records: list[Record], first: int = 0) -> list[Record]:
    return [record._replace(offset=first + i) for i, record in enumerate(records)]


@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_records_are_read_as_they_were_written(
    quorum: Quorum, records: RecordClient, acks: int | str, replicas: int
) -> None:
    topic, written = create(quorum, replicas), numbered(100)
    wait_until(lambda: is_led(records, topic), SECONDS, lambda: "no leader")
    offsets = records.produce(topic, written, acks=acks)
    if acks != 0:
        assert offsets == list(range(100))
    assert records.consume(topic, 100) == with_offsets(written)
    assert records.consume(topic, 10, offset=90) == with_offsets(written)[90:]
    assert records.ends(topic) == (0, 100)


def test_a_topic_is_created_by_producing_to_it(quorum: Quorum, records: RecordClient) -> None:
    topic, written = f"auto-{next(NAMES)}", numbered(3)
    assert records.produce(topic, written) == [0, 1, 2]
    assert records.consume(topic, 3) == with_offsets(written)
    admin = AdminClient({"bootstrap.servers": quorum.bootstrap, "log_level": 2})
    (partition,) = admin.list_topics(topic, timeout=SECONDS).topics[topic].partitions.values()
    assert len(partition.replicas) == 1, "Kafka's default"


@pytest.mark.parametrize(
    ("name", "codec"),
    [(name, codec) for name in RECORD_CLIENTS for codec in OF_CLIENT.get(name, CODECS)],
)
def test_every_codec(quorum: Quorum, name: str, codec: str | None) -> None:
    topic, written = create(quorum, 3), numbered(200)
    records = RECORD_CLIENTS[name](quorum.bootstrap)
    records.produce(topic, written, codec=codec)
    assert records.consume(topic, 200) == with_offsets(written)


def test_an_idempotent_producer(quorum: Quorum, records: RecordClient) -> None:
    topic, written = create(quorum, 3), numbered(50)
    for _ in range(2):
        records.produce(topic, written, idempotent=True)
    assert records.consume(topic, 100) == with_offsets([*written, *written])


def test_offsets_by_time(quorum: Quorum, records: RecordClient) -> None:
    topic = create(quorum, 3)
    records.produce(topic, numbered(20, 1_700_000_000_000))
    assert records.offset_at(topic, 1_700_000_000_007) == 7
    assert records.offset_at(topic, 0) == 0
    assert records.offset_at(topic, 1_700_000_000_020) is None


def test_records_are_deleted_up_to_an_offset(quorum: Quorum, records: RecordClient) -> None:
    topic = create(quorum, 3)
    records.produce(topic, numbered(30))
    admin = AdminClient({"bootstrap.servers": quorum.bootstrap, "log_level": 2})
    (future,) = admin.delete_records([TopicPartition(topic, 0, 12)]).values()
    assert future.result(SECONDS).low_watermark == 12
    assert records.ends(topic) == (12, 30)


# ---- nodes that die --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quorum]:
    with running(tmp_path_factory.mktemp("mortal") / "quorum") as cluster:
        yield cluster


def test_no_acknowledged_record_is_lost_by_kill_9_of_each_node(mortal: Quorum) -> None:
    topic = create(mortal, 3, 3, min_insync_replicas="2")
    client = ConfluentRecords(mortal.bootstrap)
    written: dict[int, list[Record]] = {0: [], 1: [], 2: []}
    for victim in (1, 2, 3):
        for phase in ("before", "while", "after"):
            if phase == "while":
                os.kill(mortal.node(victim)["pid"], signal.SIGKILL)
            if phase == "after":
                mortal.run("restart", str(victim))
                mortal.wait_healthy()
            for partition, so_far in written.items():
                batch = [Record(b"%d %b %d" % (victim, phase.encode(), i)) for i in range(50)]
                client.produce(topic, batch, partition=partition, idempotent=True)
                so_far.extend(batch)
    for partition, all_written in written.items():
        found = client.consume(topic, len(all_written), partition=partition)
        assert [record.value for record in found] == [record.value for record in all_written]
        assert client.ends(topic, partition=partition) == (0, len(all_written))


def test_a_cluster_that_was_stopped_or_killed_whole_has_its_records(mortal: Quorum) -> None:
    topic, client = create(mortal, 3), ConfluentRecords(mortal.bootstrap)
    client.produce(topic, numbered(100))
    mortal.run("down")
    mortal.up()
    client.produce(topic, numbered(100))
    for node in mortal.status()["nodes"]:
        os.kill(node["pid"], signal.SIGKILL)
    mortal.up()
    # as in Kafka, a killed broker registers again when its old session has ended
    wait_until(lambda: is_led(client, topic), SECONDS, lambda: "no leader")
    assert client.consume(topic, 200) == with_offsets([*numbered(100), *numbered(100)])
    assert client.ends(topic) == (0, 200)


def is_led(client: ConfluentRecords, topic: str) -> bool:
    try:
        client.ends(topic)
    except KafkaException:
        return False
    return True
