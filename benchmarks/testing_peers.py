"""Other Kafkas that a test can start, each from nothing to its addresses and back.

librdkafka's mock cluster is a thread of the client, franz-go's kfake a process in memory: no disk,
no replicas, no elections. Apache Kafka is a process a node, formatted first as ours are. kfake
needs Go, Apache Kafka Java and Maven.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from benchmarks.clusters.kafka_peer import KafkaCluster, jars

KFAKE: Final = "github.com/twmb/franz-go/pkg/kfake"
KFAKE_VERSION: Final = "v0.0.0-20260918054303-01f206a7e32c"
CLIENT: Final = "github.com/twmb/franz-go v1.22.3"
"""Needed by that kfake, which says an older one."""
WAIT_S: Final = 60.0


@contextlib.contextmanager
def mock(nodes: int) -> Iterator[str]:
    """The mock of librdkafka, as long as the client that owns it."""
    owner = Producer({"test.mock.num.brokers": nodes, "bootstrap.servers": "ignored:1"})
    brokers = owner.list_topics(timeout=WAIT_S).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    del owner


@contextlib.contextmanager
def kfake(nodes: int) -> Iterator[str]:
    """A process of kfake; it is built once, before the first time that counts."""
    command = [str(kfake_binary()), str(nodes)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate()


def kfake_binary() -> Path:
    """The built program, in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "kraftline"
    binary = cache / f"kfake-{KFAKE_VERSION}" / "kfake"
    if not binary.exists():
        assert shutil.which("go"), "go is needed to build kfake"
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            shutil.copy(Path(__file__).parent / "kfake_cluster.go", folder / "main.go")
            wanted = f"require {KFAKE} {KFAKE_VERSION}\nrequire {CLIENT}\n"
            (folder / "go.mod").write_text(f"module peer\n{wanted}")
            environment = {**os.environ, "GOFLAGS": "-mod=mod"}
            build = ["go", "build", "-o", str(binary), "."]
            subprocess.run(build, cwd=folder, env=environment, check=True)
    return binary


@contextlib.contextmanager
def apache_kafka(nodes: int) -> Iterator[str]:
    """Apache Kafka, with the settings of a cluster for tests that matter here."""
    replicas = str(nodes)
    settings = {
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "offsets.topic.num.partitions": "3",
        "group.initial.rebalance.delay.ms": "0",
    }
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        cluster = KafkaCluster(Path(name) / "kafka", 25400, settings, nodes=nodes)
        try:
            cluster.up()
            yield ",".join(cluster.brokers)
        finally:
            cluster.down()


__all__ = ["apache_kafka", "jars", "kfake", "kfake_binary", "mock"]
