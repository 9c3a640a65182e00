"""Records tools of ours and of Kafka on one real Kafka broker: each reads what the other wrote."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.clusters import kafka_peer
from tests.interop.quorum import free_base_port, wait_until

pytestmark = pytest.mark.jvm
ROOT = Path(__file__).parents[2]
CLUSTER_ID = "Z29sZGVuLXNoYXJlZC0wMQ"
KAFKA_TOOLS = "org.apache.kafka.tools"
TRANSACTIONS = f"{KAFKA_TOOLS}.TransactionsCommand"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TOPICS = {
    "ours": 2,
    "theirs": 1,
    "gone": 1,
    "perf": 2,
    "committed": 1,
    "compact": 1,
    **dict.fromkeys(CODECS, 1),
}


class Broker(NamedTuple):
    """A Kafka node and where its log is."""

    address: str
    folder: Path

    def ours(self, *words: str, stdin: str = "", expect: int = 0) -> str:
        """Standard output of our command, with the flag of the address."""
        command = [sys.executable, "-m", "cli.main", words[0], "--bootstrap-server", self.address]
        done = subprocess.run(
            [*command, *words[1:]], cwd=ROOT, input=stdin, capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == expect, f"{words}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One combined node."""
    folder = tmp_path_factory.mktemp("records")
    port = free_base_port()
    properties = folder / "server.properties"
    lines = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{port + 1}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(folder / "data"),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }
    properties.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    kafka_peer.format_node(properties, CLUSTER_ID)
    process = kafka_peer.start_node(properties, folder / "node.log")
    try:
        broker = Broker(f"127.0.0.1:{port}", folder / "data")
        admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 2})
        wait_until(lambda: _has_brokers(admin), 60, (folder / "node.log").read_text)
        topics = [
            NewTopic(
                name, count, 1,
                config={"cleanup.policy": "compact"} if name == "compact" else {},
            )
            for name, count in TOPICS.items()
        ]  # fmt: skip
        for made in admin.create_topics(topics).values():
            made.result(timeout=30)
        yield broker
    finally:
        process.kill()
        process.wait(30)


def _has_brokers(admin: AdminClient) -> bool:
    try:
        return bool(admin.list_topics(timeout=1).brokers)
    except KafkaException:
        return False


ALL = ("--from-beginning", "--timeout-ms", "1500")
SHOWN = ("timestamp", "partition", "offset", "headers", "key")
PRINT = tuple(word for name in SHOWN for word in ("--formatter-property", f"print.{name}=true"))


def test_kafka_reads_what_ours_wrote(kafka: Broker) -> None:
    lines = [f"h:{n},g:\tkey{n}\tvalue {n}" for n in range(2000)]
    properties = ("--reader-property", "parse.key=true", "--reader-property", "parse.headers=true")
    kafka.ours("console-producer", "--topic", "ours", *properties, stdin="\n".join(lines))
    ours = kafka.ours("console-consumer", "--topic", "ours", *ALL, *PRINT).splitlines()
    theirs = kafka_peer.tool(
        f"{KAFKA_TOOLS}.consumer.ConsoleConsumer", "--bootstrap-server", kafka.address,
        "--topic", "ours", "--from-beginning", "--timeout-ms", "5000", *PRINT,
    ).splitlines()  # fmt: skip
    assert len(ours) == 2000
    assert sorted(ours) == sorted(theirs)
    ends = kafka.ours("get-offsets", "--topic", "ours")
    assert ends == kafka_peer.tool(
        f"{KAFKA_TOOLS}.GetOffsetShell", "--bootstrap-server", kafka.address, "--topic", "ours"
    )
    assert sum(int(line.rpartition(":")[2]) for line in ends.split()) == 2000


def test_ours_reads_what_kafka_wrote(kafka: Broker, tmp_path: Path) -> None:
    kafka_peer.tool(
        f"{KAFKA_TOOLS}.ProducerPerformance", "--bootstrap-server", kafka.address, "--topic",
        "theirs", "--num-records", "5000", "--payload-monotonic", "--throughput", "-1",
        "--command-property", "compression.type=lz4",
    )  # fmt: skip
    words = "--topic", "theirs", "--partition", "0", "--offset", "10", "--max-messages", "4990"
    found = kafka.ours("console-consumer", *words).split()
    assert found == [str(number) for number in range(10, 5000)]


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec(kafka: Broker, codec: str) -> None:
    lines = "".join(f"line {number}\n" for number in range(300))
    words = ("--topic", codec, "--compression-codec", codec, "--request-required-acks", "1")
    kafka.ours("console-producer", *words, stdin=lines)
    kafka.ours("console-producer", "--topic", codec, "--request-required-acks", "0", stdin="last")
    wait_until(lambda: "301" in kafka.ours("get-offsets", "--topic", codec), 20, str)
    words = ("--topic", codec, "--from-beginning", "--max-messages", "301")
    assert kafka.ours("console-consumer", *words) == f"{lines}last\n"


def test_records_that_are_deleted_and_sizes(kafka: Broker, tmp_path: Path) -> None:
    kafka.ours("console-producer", "--topic", "gone", stdin="a\nb\nc\n")
    path = tmp_path / "offsets.json"
    path.write_text('{"partitions": [{"topic": "gone", "partition": 0, "offset": 2}]}')
    told = kafka.ours("delete-records", "--offset-json-file", str(path))
    assert told.splitlines()[-1] == "partition: gone-0\tlow_watermark: 2"
    assert kafka.ours("get-offsets", "--topic", "gone", "--time", "earliest") == "gone:0:2\n"
    words = ("--topic", "gone", "--partition", "0", "--offset", "0", "--max-messages", "1")
    early = ("--command-property", "auto.offset.reset=earliest")
    assert kafka.ours("console-consumer", *words, *early) == "c\n"
    told = kafka.ours("log-dirs", "--describe", "--topic-list", "gone")
    theirs = kafka_peer.tool(
        f"{KAFKA_TOOLS}.LogDirsCommand", "--bootstrap-server", kafka.address, "--describe",
        "--topic-list", "gone",
    )  # fmt: skip
    assert told == theirs
    assert '"partition":"gone-0","size":' in told


def test_a_record_that_is_refused(kafka: Broker) -> None:
    kafka.ours("console-producer", "--topic", "compact", "--sync", stdin="no key\n", expect=1)
    kafka.ours("console-producer", "--topic", "compact", stdin="no key\n")
    assert kafka.ours("get-offsets", "--topic", "compact") == "compact:0:0\n"


def test_load_tools(kafka: Broker) -> None:
    words = ("--topic", "perf", "--num-records", "5000", "--record-size", "100")
    told = kafka.ours("producer-perf-test", *words, "--throughput", "-1")
    assert told.startswith("5000 records sent, ")
    told = kafka.ours("verifiable-producer", "--topic", "perf", "--max-messages", "50")
    assert told.count("producer_send_success") == 50
    ends = kafka.ours("get-offsets", "--topic", "perf").split()
    assert sum(int(line.rpartition(":")[2]) for line in ends) == 5050


def test_transactions(kafka: Broker) -> None:
    """One every 100 ms or so; Kafka's tool and ours list the same."""
    words = ("--topic", "committed", "--num-records", "300", "--payload-monotonic", "--throughput")
    ids = ("--transactional-id", "tx", "--transaction-duration-ms", "100")
    assert kafka.ours("producer-perf-test", *words, "500", *ids).startswith("300 records sent, ")
    read = ("--topic", "committed", "--isolation-level", "read_committed", "--max-messages", "300")
    found = kafka.ours("console-consumer", *read, "--from-beginning").split()
    assert found == [str(number) for number in range(300)]
    ends = int(kafka.ours("get-offsets", "--topic", "committed").rpartition(":")[2])
    assert 303 <= ends <= 308, "a marker for each of the transactions"
    described = kafka.ours("transactions", "describe", "--transactional-id", "tx")
    assert "CompleteCommit" in described
    kafka.ours("transactions", "forceTerminateTransaction", "--transactionalId", "tx")
    listed = kafka.ours("transactions", "list")
    assert "Empty" in listed
    assert listed == kafka_peer.tool(TRANSACTIONS, "--bootstrap-server", kafka.address, "list")
    assert kafka.ours("transactions", "find-hanging", "--broker-id", "1").count("\n") == 1
    where = ("describe-producers", "--topic", "committed", "--partition", "0")
    theirs = kafka_peer.tool(TRANSACTIONS, "--bootstrap-server", kafka.address, *where)
    assert kafka.ours("transactions", *where) == theirs
