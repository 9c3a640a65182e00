"""Kafka's own clients of groups and transactions at three nodes of ours: those of its system tests,
its tools, Connect's sink, and MirrorMaker.
"""

import json
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.clusters import kafka_peer
from tests.interop.quorum import Quorum, free_base_port, wait_until
from tests.interop.record_clients import AioRecords

pytestmark = pytest.mark.jvm
SECONDS = 90.0
PROTOCOLS = ("classic", "consumer")


def write(quorum: Quorum, topic: str, count: int, partitions: int = 2) -> list[str]:
    """Make a topic with records; their values, those of the first partition first."""
    admin = AdminClient({"bootstrap.servers": quorum.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 3)])[topic].result(SECONDS)
    producer = Producer({"bootstrap.servers": quorum.bootstrap, "acks": "all"})
    for number in range(count):
        producer.produce(topic, f"value {number}", partition=number * partitions // count)
    assert producer.flush(SECONDS) == 0
    return [f"value {number}" for number in range(count)]


def committed(quorum: Quorum, group: str, topic: str) -> dict[int, int]:
    return committed_at(quorum.bootstrap, group, topic)


def committed_at(bootstrap: str, group: str, topic: str) -> dict[int, int]:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    time.sleep(0.2)  # who polls makes a client each time
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group]
    return {p.partition: p.offset for p in found.result(20).topic_partitions if p.topic == topic}


class Process:
    """A Java program whose output is read while it runs."""

    def __init__(
        self, folder: Path, main_class: str, *words: str, beside: Sequence[Path] = ()
    ) -> None:
        self._errors = folder / f"{main_class.rpartition('.')[2]}.errors"
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                kafka_peer.java(main_class, *words, beside=beside),
                stdout=subprocess.PIPE, stderr=errors, text=True,
            )  # fmt: skip
        self.lines: list[str] = []
        assert self._process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,))
        self._reader.start()

    def _read(self, output: IO[str]) -> None:
        with output:
            for line in output:
                self.lines.append(line.rstrip("\n"))

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in list(self.lines) if line.startswith("{")]

    def of(self, name: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event.get("name") == name]

    def end(self, sent: signal.Signals = signal.SIGKILL) -> int:
        self._process.send_signal(sent)
        return self.wait()

    def wait(self) -> int:
        code = self._process.wait(SECONDS)
        self._reader.join(SECONDS)
        return code

    def told(self) -> str:
        return f"{self.lines[-10:]} {self._errors.read_text(errors='replace')[-3000:]}"


@pytest.fixture
def processes() -> Iterator[list[Process]]:
    """Those of a test, which end with it."""
    started: list[Process] = []
    yield started
    for one in started:
        one.end()


# ---- verifiable consumer ---------------------------------------------------------------------


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_verifiable_consumers_share_a_group(
    quorum: Quorum, tmp_path: Path, processes: list[Process], protocol: str
) -> None:
    """Two of them; one goes, killed where sessions are short, and the other has its partition."""
    topic = group = f"verifiable-{protocol}"
    write(quorum, topic, 200)
    words = ["--bootstrap-server", quorum.bootstrap, "--topic", topic, "--group-id", group,
             "--group-protocol", protocol, "--verbose"]  # fmt: skip
    is_classic = protocol == "classic"
    if is_classic:
        words += ["--session-timeout", "6000"]
    main = "org.apache.kafka.tools.VerifiableConsumer"

    def start() -> Process:
        processes.append(Process(tmp_path, main, *words))
        return processes[-1]

    first = start()
    wait_until(lambda: read_by(first) == 200, SECONDS, first.told)
    second = start()
    wait_until(lambda: owned_by(first) | owned_by(second) == {0, 1}
               and len(owned_by(first)) == len(owned_by(second)) == 1,
               SECONDS, lambda: first.told() + second.told())  # fmt: skip
    (left,) = owned_by(second)
    second.end(signal.SIGKILL if is_classic else signal.SIGTERM)
    wait_until(lambda: owned_by(first) == {0, 1}, SECONDS, first.told)
    assert left in owned_by(first)
    wait_until(lambda: committed(quorum, group, topic) == {0: 100, 1: 100}, SECONDS, first.told)
    first.end(signal.SIGTERM)
    assert first.of("shutdown_complete")
    offsets = {(e["partition"], e["offset"]) for e in first.of("record_data")}
    assert offsets == {(partition, offset) for partition in (0, 1) for offset in range(100)}


def read_by(consumer: Process) -> int:
    return sum(event["count"] for event in consumer.of("records_consumed"))


def owned_by(consumer: Process) -> set[int]:
    owned: set[int] = set()
    for event in consumer.events:
        numbers = {each["partition"] for each in event.get("partitions", ())}
        if event["name"] == "partitions_assigned":
            owned |= numbers
        elif event["name"] == "partitions_revoked":
            owned -= numbers
    return owned


# ---- its tools -------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_console_consumer_and_consumer_perf_test_in_a_group(quorum: Quorum, protocol: str) -> None:
    """Each goes on where the one before has committed."""
    topic = group = f"console-{protocol}"
    values = write(quorum, topic, 100, partitions=1)
    words = ("--bootstrap-server", quorum.bootstrap, "--topic", topic, "--group", group,
             "--command-property", f"group.protocol={protocol}")  # fmt: skip
    printed = kafka_peer.tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", *words, "--from-beginning",
        "--max-messages", "40",
    )  # fmt: skip
    assert printed.splitlines() == values[:40]
    assert committed(quorum, group, topic) == {0: 40}
    printed = kafka_peer.tool(
        "org.apache.kafka.tools.ConsumerPerformance", *words, "--num-records", "60",
        "--timeout", "60000",
    )  # fmt: skip
    header, row = [line for line in printed.splitlines() if "," in line]
    figures = dict(zip(re.split(r",\s*", header), re.split(r",\s*", row), strict=True))
    assert figures["data.consumed.in.nMsg"] == "60"
    assert committed(quorum, group, topic) == {0: 100}


@pytest.mark.parametrize("is_in_group", [True, False], ids=["subscribed", "assigned"])
def test_transactional_copier_of_the_system_tests(
    quorum: Quorum, tmp_path: Path, processes: list[Process], is_in_group: bool
) -> None:
    """It aborts at random, and is killed once: the output is the input."""
    source, target = f"copied-{is_in_group}", f"copy-{is_in_group}"
    values = write(quorum, source, 1000, partitions=1)
    write(quorum, target, 0, partitions=1)
    words = ["--broker-list", quorum.bootstrap, "--input-topic", source, "--input-partition", "0",
             "--output-topic", target, "--transactional-id", target, "--consumer-group", target,
             "--transaction-size", "20", "--transaction-timeout", "10000",
             "--enable-random-aborts"]  # fmt: skip
    if is_in_group:
        words += ["--group-mode", "--use-group-metadata"]
    main = "org.apache.kafka.tools.TransactionalMessageCopier"
    first = Process(tmp_path, main, *words)
    processes.append(first)
    wait_until(lambda: bool(committed(quorum, target, source)), SECONDS, first.told)
    first.end()
    second = Process(tmp_path, main, *words)
    processes.append(second)
    assert second.wait() == 0, second.told()
    assert committed(quorum, target, source) == {0: 1000}
    reader = Consumer(
        {"bootstrap.servers": quorum.bootstrap, "group.id": "reads", "enable.partition.eof": True,
         "isolation.level": "read_committed"}
    )  # fmt: skip
    reader.assign([TopicPartition(target, 0, 0)])
    found = []
    while (message := reader.poll(SECONDS)).error() is None:
        found.append(message.value().decode())
    reader.close()
    assert found == values


# ---- Connect ---------------------------------------------------------------------------------


def test_file_sink(quorum: Quorum, tmp_path: Path, processes: list[Process]) -> None:
    """It reads in a group of its own, and goes on after SIGTERM and after SIGKILL."""
    values = write(quorum, "sunk", 300, partitions=1)
    string = "org.apache.kafka.connect.storage.StringConverter"
    worker = {
        "bootstrap.servers": quorum.bootstrap,
        "key.converter": string,
        "value.converter": string,
        "offset.storage.file.filename": str(tmp_path / "offsets"),
        "offset.flush.interval.ms": "500",
        "plugin.discovery": "service_load",
        "plugin.path": str(kafka_peer.file_connectors()),
        "listeners": f"http://127.0.0.1:{free_base_port(1)}",
    }
    sunk = tmp_path / "sunk.txt"
    sink = {"name": "sink", "connector.class": "FileStreamSink", "tasks.max": "1",
            "topics": "sunk", "file": str(sunk)}  # fmt: skip
    files = []
    for name, settings in (("worker", worker), ("sink", sink)):
        files.append(tmp_path / f"{name}.properties")
        files[-1].write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    producer = Producer({"bootstrap.servers": quorum.bootstrap, "acks": "all"})
    main = "org.apache.kafka.connect.cli.ConnectStandalone"
    for sent in (signal.SIGTERM, signal.SIGKILL, signal.SIGTERM):
        process = Process(tmp_path, main, *map(str, files))
        processes.append(process)
        end = len(values)
        wait_until(
            lambda e=end: committed(quorum, "connect-sink", "sunk") == {0: e},  # type: ignore[misc]
            SECONDS,
            process.told,
        )
        process.end(sent)
        assert sunk.read_text().splitlines() == values
        values.append(f"value {end}")
        producer.produce("sunk", values[-1], partition=0)
        assert producer.flush(SECONDS) == 0


# ---- MirrorMaker -----------------------------------------------------------------------------


def test_mirror_maker(quorum: Quorum, tmp_path: Path, processes: list[Process]) -> None:
    """It copies a topic under another name, and the offsets of a group with it."""
    values = write(quorum, "mirrored", 200)
    reader = Consumer({"bootstrap.servers": quorum.bootstrap, "group.id": "followed"})
    places = [TopicPartition("mirrored", partition, 100) for partition in (0, 1)]
    reader.commit(offsets=places, asynchronous=False)
    reader.close()
    settings = {
        "clusters": "here, there",
        "here.bootstrap.servers": quorum.bootstrap,
        "there.bootstrap.servers": quorum.bootstrap,
        "here->there.enabled": "true",
        "there->here.enabled": "false",
        "here->there.topics": "mirrored",
        "here->there.groups": "followed",
        "replication.factor": "3",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
        "emit.checkpoints.interval.seconds": "1",
        "offset.lag.max": "0",
        "tasks.max": "2",
        "dedicated.mode.enable.internal.rest": "false",
    }
    file = tmp_path / "mirror.properties"
    file.write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))
    main = "org.apache.kafka.connect.mirror.MirrorMaker"
    process = Process(tmp_path, main, str(file), beside=[kafka_peer.mirror_maker()])
    processes.append(process)
    copies = AioRecords(quorum.bootstrap)

    admin = AdminClient({"bootstrap.servers": quorum.bootstrap})

    def has_all() -> bool:
        if "here.mirrored" not in admin.list_topics(timeout=20).topics:
            return False
        return [copies.ends("here.mirrored", partition=p)[1] for p in (0, 1)] == [100, 100]

    wait_until(has_all, 2 * SECONDS, process.told)
    found = [
        record.value.decode()
        for partition in (0, 1)
        for record in copies.consume("here.mirrored", 100, partition=partition)
        if record.value is not None
    ]
    assert found == values
    wait_until(
        lambda: set(committed(quorum, "followed", "here.mirrored").values()) == {100},
        2 * SECONDS,
        process.told,
    )
