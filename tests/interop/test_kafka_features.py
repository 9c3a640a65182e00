"""Feature levels of Kafka 4.3 and real Kafka: its brokers on our controller, ours among its."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.clusters import kafka_peer
from benchmarks.clusters.protocol import ProtocolError, leader_of
from tests.interop.quorum import free_base_port, wait_until

ROOT = Path(__file__).parents[2]
CLUSTER_ID = "Z29sZGVuLXNoYXJlZC0wMQ"
OURS = 1
RECORD_COUNT = 20


def _properties(folder: Path, node_id: int, voters: dict[int, int], broker: int | None) -> Path:
    """server.properties of a controller, or of a broker if it has a port."""
    addresses = ",".join(f"{i}@127.0.0.1:{port}" for i, port in voters.items())
    listener = f"CONTROLLER://127.0.0.1:{voters.get(node_id)}"
    lines = {
        "process.roles": "controller" if broker is None else "broker",
        "node.id": str(node_id),
        "controller.quorum.voters": addresses,
        "controller.listener.names": "CONTROLLER",
        "listeners": listener if broker is None else f"PLAINTEXT://127.0.0.1:{broker}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": str(folder / f"data{node_id}"),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "group.coordinator.rebalance.protocols": "classic,consumer",
        "group.initial.rebalance.delay.ms": "0",
    }
    path = folder / f"node{node_id}.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    return path


def _run_ours(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cli.main", *words]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )


@contextlib.contextmanager
def _processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    running: list[subprocess.Popen[bytes]] = []
    try:
        yield running
    finally:
        for process in running:
            process.kill()
            process.wait(30)


def _format_ours(properties: Path, *release: str) -> None:
    done = _run_ours("storage", "format", "-t", CLUSTER_ID, "-c", str(properties), *release)
    assert done.returncode == 0, done.stderr


def _start_ours(properties: Path, log: Path, *release: str) -> subprocess.Popen[bytes]:
    _format_ours(properties, *release)
    return _start_formatted(properties, log)


def _start_formatted(properties: Path, log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as out:
        command = [sys.executable, "-m", "cli.main", "server", "start", str(properties)]
        return subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=out)


def _refusal_of_our_broker(folder: Path, voters: dict[int, int], port: int) -> str:
    """Output of a broker of ours that ends because it cannot join."""
    properties = _properties(folder, 102, voters, port)
    properties.write_text(properties.read_text() + "initial.broker.registration.timeout.ms=3000\n")
    formatted = _run_ours("storage", "format", "-t", CLUSTER_ID, "-c", str(properties))
    assert formatted.returncode == 0, formatted.stderr
    ended = _run_ours("server", "start", str(properties))
    said = ended.stdout + ended.stderr
    assert ended.returncode == 1, said
    assert "Traceback" not in said
    return said


def _leader(ports: list[int]) -> int | None:
    for port in ports:
        with contextlib.suppress(OSError, ProtocolError):
            return leader_of(f"127.0.0.1:{port}", timeout_s=1.0)[0]
    return None


def _consume(bootstrap: str) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "next-generation",
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["records"])
    values: list[bytes] = []
    try:
        for _ in range(60):
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                values.append(message.value())
            if len(values) == RECORD_COUNT:
                consumer.commit(asynchronous=False)
                break
    finally:
        consumer.close()
    return values


@pytest.mark.jvm
def test_the_new_group_protocol_works_with_a_kafka_broker_on_our_controller(tmp_path: Path) -> None:
    base = free_base_port()
    voters, bootstrap = {OURS: base + 1000}, f"127.0.0.1:{base}"
    with _processes() as running:
        ours = _properties(tmp_path, OURS, voters, None)
        running.append(_start_ours(ours, tmp_path / "ours.out", "--release-version", "4.3"))
        broker = _properties(tmp_path, 101, voters, base)
        kafka_peer.format_node(broker, CLUSTER_ID)
        running.append(kafka_peer.start_node(broker, tmp_path / "kafka.out"))
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
        topic = NewTopic("records", 2, 1)
        admin.create_topics([topic], request_timeout=120)["records"].result(120)
        producer = Producer({"bootstrap.servers": bootstrap})
        for number in range(RECORD_COUNT):
            producer.produce("records", str(number).encode())
        assert producer.flush(30) == 0
        assert sorted(_consume(bootstrap)) == sorted(str(n).encode() for n in range(RECORD_COUNT))
        words = ("features", "--bootstrap-server", bootstrap)
        raised = _run_ours(*words, "upgrade", "--feature", "kraft.version=1")
        assert raised.stdout == "kraft.version was upgraded to 1.\n"
        done = _run_ours(*words, "downgrade", "--feature", "share.version=0")
        assert done.stdout == "share.version was downgraded to 0.\n"
        text = (
            "streams.version is finalized at 1: this broker supports 0 to 0, the controller 0 to 1"
        )
        assert text in _refusal_of_our_broker(tmp_path, voters, base + 1)
        assert "Traceback" not in (tmp_path / "ours.out").read_text()


@pytest.mark.jvm
def test_our_broker_follows_a_dynamic_quorum_of_kafka(tmp_path: Path) -> None:
    base = free_base_port()
    voters = {2: base + 1000}
    with _processes() as running:
        theirs = _properties(tmp_path, 2, voters, None)
        bootstrap = (
            f"controller.quorum.voters=2@127.0.0.1:{voters[2]}",
            f"controller.quorum.bootstrap.servers=127.0.0.1:{voters[2]}",
        )
        theirs.write_text(theirs.read_text().replace(*bootstrap))
        levels = ("-f", "share.version=0", "-f", "streams.version=0")  # as brokers of ours support
        kafka_peer.format_node(theirs, CLUSTER_ID, "--standalone", *levels)
        running.append(kafka_peer.start_node(theirs, tmp_path / "kafka.out"))
        wait_until(lambda: _leader([voters[2]]) == 2, 180, lambda: "no leader")
        for node_id, port in ((102, base), (103, base + 1)):
            ours = _properties(tmp_path, node_id, voters, port)
            _format_ours(ours)
            if node_id == 103:
                ours.write_text(ours.read_text().replace(*bootstrap))
            running.append(_start_formatted(ours, tmp_path / f"ours{node_id}.out"))
            admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 2})
            topic = NewTopic(f"t{node_id}", 1, 1)
            admin.create_topics([topic], request_timeout=60)[topic.topic].result(60)
        (log,) = (tmp_path / "data103" / "__cluster_metadata-0").glob("*.log")
        assert log.stat().st_size > 0


@pytest.mark.jvm
def test_our_controller_joins_those_that_kafka_formatted(tmp_path: Path) -> None:
    base = free_base_port()
    voters = {node_id: base + 1000 + node_id - 1 for node_id in (OURS, 2, 3)}
    with _processes() as running:
        for node_id in (2, 3):
            properties = _properties(tmp_path, node_id, voters, None)
            kafka_peer.format_node(properties, CLUSTER_ID)
            running.append(kafka_peer.start_node(properties, tmp_path / f"kafka{node_id}.out"))
        log = tmp_path / "ours.out"
        wait_until(lambda: _leader([voters[2], voters[3]]) in (2, 3), 180, lambda: "no leader")
        ours = _properties(tmp_path, OURS, voters, None)
        running.append(_start_ours(ours, log))
        folder = tmp_path / "data1" / "__cluster_metadata-0"
        wait_until(
            lambda: any(b"group.version" in f.read_bytes() for f in folder.glob("*.log")),
            60, log.read_text,
        )  # fmt: skip
        # On its new disk it votes once it has caught up with what the others commit.
        wait_until(lambda: "voter_proven" in log.read_text(), 60, log.read_text)
        ports = list(voters.values())
        leader = _leader(ports)
        running[0 if leader == 2 else 1].kill()
        wait_until(lambda: _leader(ports) not in (None, leader), 60, log.read_text)
        words = ("features", "--bootstrap-controller", f"127.0.0.1:{voters[OURS]}", "describe")
        shown = _run_ours(*words).stdout.split("\n")
        assert len([line for line in shown if "FinalizedVersionLevel: 1" in line]) == 4
        assert running[2].poll() is None, log.read_text()
        assert "Traceback" not in log.read_text()
