"""Feature levels of groups and transactions go down under running clients, as at Apache Kafka.

The same story is told of one node of ours and of one of Kafka's; it has to be the same.
"""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.clusters import kafka_peer
from tests.interop.quorum import free_base_port, running, wait_until

pytestmark = pytest.mark.jvm
ROOT = Path(__file__).parents[2]
SECONDS = 60.0
TOPIC, GROUP = "levels", "readers"
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.session.timeout.ms": "2000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


@contextlib.contextmanager
def ours(folder: Path) -> Iterator[str]:
    words = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
    with running(folder / "quorum", "--nodes", "1", *words) as quorum:
        yield f"127.0.0.1:{quorum.base_port}"


@contextlib.contextmanager
def kafkas(folder: Path) -> Iterator[str]:
    cluster = kafka_peer.KafkaCluster(folder / "kafka", free_base_port(1), SETTINGS, nodes=1)
    try:
        cluster.up()
        yield cluster.brokers[0]
    finally:
        cluster.down()


def features(bootstrap: str, *words: str) -> str:
    """Output and exit code of `kraftline features`, whose texts are kafka-features'."""
    command = [sys.executable, "-m", "cli.main", "features", "--bootstrap-server", bootstrap]
    done = subprocess.run(
        [*command, *words], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    return f"{done.stdout.strip()} ({done.returncode})"


def consumer(bootstrap: str, protocol: str) -> Consumer:
    found = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": GROUP, "group.protocol": protocol,
         "auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0,
         "isolation.level": "read_committed"}
    )  # fmt: skip
    found.subscribe([TOPIC])
    return found


def read(reader: Consumer, count: int) -> list[str]:
    """Values, which are committed then."""
    values: list[str] = []

    def done() -> bool:
        message = reader.poll(0.5)
        if message is not None and message.error() is None:
            values.append(message.value().decode())
            reader.commit(message, asynchronous=False)
        return len(values) == count

    wait_until(done, SECONDS, lambda: f"{values=}")
    return values


def refusal(reader: Consumer) -> str:
    """Text of the error with which a member of a group ends."""
    found: list[str] = []

    def done() -> bool:
        try:
            message = reader.poll(0.5)
        except KafkaException as error:
            found.append(error.args[0].str())
            return True
        error = None if message is None else message.error()
        if error is not None:
            found.append(error.str())
        return bool(found)

    wait_until(done, SECONDS, lambda: f"{found=}")
    return found[0]


def group_of(admin: AdminClient) -> tuple[str, str]:
    """Type and state of the group."""
    (row,) = [each for each in admin.list_consumer_groups().result(SECONDS).valid
              if each.group_id == GROUP]  # fmt: skip
    return row.type.name, row.state.name


def story(bootstrap: str) -> list[Any]:
    """Levels, groups and transactions, one after the other."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(SECONDS)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "levels",
                         "log_level": 0})  # fmt: skip
    producer.init_transactions(SECONDS)
    told: list[Any] = []

    def commit(number: int) -> None:
        producer.begin_transaction()
        producer.produce(TOPIC, str(number))
        producer.commit_transaction(SECONDS)

    commit(0)
    member = consumer(bootstrap, "consumer")
    told += [read(member, 1), group_of(admin)]
    told += [features(bootstrap, "downgrade", "--feature", "group.version=0")]
    told += [refusal(member), group_of(admin)]
    member.close()
    wait_until(lambda: group_of(admin)[1] == "EMPTY", SECONDS, lambda: str(group_of(admin)))
    later = consumer(bootstrap, "consumer")
    told += [group_of(admin), refusal(later)]
    later.close()
    commit(1)
    classic = consumer(bootstrap, "classic")
    told += [read(classic, 1), group_of(admin)]
    for level in (1, 0):
        producer.begin_transaction()
        producer.produce(TOPIC, f"across {level}")
        producer.flush(SECONDS)
        told += [features(bootstrap, "downgrade", "--feature", f"transaction.version={level}")]
        producer.commit_transaction(SECONDS)
        commit(10 + level)
        told += [read(classic, 2)]
    classic.close()
    told += [features(bootstrap, "upgrade", "--feature", "group.version=1",
                      "--feature", "transaction.version=2")]  # fmt: skip
    commit(3)
    again = consumer(bootstrap, "consumer")
    told += [read(again, 1), group_of(admin)]
    again.close()
    return told


def test_levels_go_down_as_at_kafka(tmp_path: Path) -> None:
    with ours(tmp_path) as bootstrap:
        told = story(bootstrap)
    with kafkas(tmp_path) as bootstrap:
        theirs = story(bootstrap)
    assert told == theirs
    assert sum("API version not supported" in line for line in told) == 2
    downgraded = [line for line in told if "downgraded" in line]
    assert downgraded == [
        "group.version was downgraded to 0. (0)",
        "transaction.version was downgraded to 1. (0)",
        "transaction.version was downgraded to 0. (0)",
    ]
