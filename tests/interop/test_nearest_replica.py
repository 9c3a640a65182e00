"""A consumer of librdkafka with a rack reads from the follower there (KIP-392)."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from node.configs.records_config import RACK_SELECTOR
from tests.interop.quorum import free_base_port, wait_until
from tests.interop.record_clients import SECONDS, ConfluentRecords, Record

ROOT = Path(__file__).parents[2]
TOPIC = "near"
NODES = (1, 2, 3)
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
RECORDS = 100


@contextlib.contextmanager
def in_racks(folder: Path) -> Iterator[str]:
    """Three nodes, each in a rack of its own; gives their addresses."""
    base = free_base_port() - 1
    voters = ",".join(f"{i}@127.0.0.1:{base + 1000 + i}" for i in NODES)
    nodes = []
    try:
        for i in NODES:
            path = folder / f"{i}.properties"
            listeners = f"PLAINTEXT://127.0.0.1:{base + i},CONTROLLER://127.0.0.1:{base + 1000 + i}"
            path.write_text(
                f"node.id={i}\nprocess.roles=broker,controller\nlisteners={listeners}\n"
                f"controller.listener.names=CONTROLLER\ncontroller.quorum.voters={voters}\n"
                f"log.dirs={folder / str(i)}\nbroker.rack=rack-{i}\n"
                f"replica.selector.class={RACK_SELECTOR}\n"
            )
            words = [sys.executable, "-m", "cli.main"]
            formatted = ["storage", "format", "-t", CLUSTER_ID, "-c", str(path)]
            subprocess.run([*words, *formatted], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
            started = [*words, "server", "start", str(path)]
            silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            nodes.append(subprocess.Popen(started, cwd=ROOT, **silent))
        yield ",".join(f"127.0.0.1:{base + i}" for i in NODES)
    finally:
        for node in nodes:
            node.kill()
            node.wait()


def leader_of(bootstrap: str) -> int:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    found = admin.list_topics(TOPIC, timeout=SECONDS).topics[TOPIC].partitions
    leader: int = found[0].leader
    return leader


def test_a_consumer_reads_from_the_follower_in_its_rack(tmp_path: Path) -> None:
    with in_racks(tmp_path) as bootstrap:
        read_near(bootstrap)


def read_near(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    wait_until(
        lambda: len(admin.list_topics(timeout=SECONDS).brokers) == 3, SECONDS, lambda: "brokers"
    )
    admin.create_topics([NewTopic(TOPIC, 1, 3)])[TOPIC].result(SECONDS)
    ConfluentRecords(bootstrap).produce(TOPIC, [Record(b"v")] * RECORDS)
    follower = leader_of(bootstrap) % 3 + 1
    sources: list[int] = []

    def noted(text: str) -> None:
        topics = json.loads(text)["topics"]
        if TOPIC in topics:
            sources.append(topics[TOPIC]["partitions"]["0"]["broker"])

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "client.rack": f"rack-{follower}",
            "enable.auto.commit": False,
            "group.id": "nobody",
            "log_level": 2,
            "statistics.interval.ms": 100,
            "stats_cb": noted,
        }
    )
    read: list[int] = []

    def is_read() -> bool:
        messages = consumer.consume(RECORDS, 0.5)
        read.extend(message.offset() for message in messages if message.error() is None)
        return len(read) >= RECORDS and follower in sources

    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        wait_until(is_read, SECONDS, lambda: f"{follower=} {sources=} {len(read)=}")
        assert read == list(range(RECORDS))
    finally:
        consumer.close()
