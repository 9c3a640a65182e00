"""Clusters that a benchmark measures in one run: kraftline, and Apache Kafka on request."""

import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.clusters.kafka_peer import KafkaCluster
from benchmarks.clusters.our_quorum import OurCluster

Cluster = OurCluster | KafkaCluster


@contextmanager
def started_systems(
    base_port: int,
    *,
    with_kafka: bool,
    nodes: int = 3,
    settings: dict[str, str] | None = None,
    kafka_settings: dict[str, str] | None = None,
) -> Iterator[Iterator[tuple[str, Cluster]]]:
    """Give the systems by name, each while it runs: the one before has stopped then.

    Their folders are removed behind the block, which takes minutes for thousands of partitions:
    report inside it.

    Args:
        base_port: first port of ours; Kafka's is ten above.
        with_kafka: measure Kafka too.
        nodes: of each cluster.
        settings: of the nodes of either system.
        kafka_settings: of Kafka's nodes beside the usual ones.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clusters: dict[str, Cluster] = {
            "kraftline": OurCluster(folder / "ours", base_port, nodes, settings=settings),
        }
        if with_kafka:
            clusters["kafka"] = KafkaCluster(
                folder / "kafka",
                base_port + 10,
                {**(settings or {}), **(kafka_settings or {})},
                nodes=nodes,
            )
        systems = _in_turn(clusters)
        try:
            yield systems
        finally:
            systems.close()  # a measurement that fails leaves no process behind


def _in_turn(clusters: dict[str, Cluster]) -> Generator[tuple[str, Cluster], None, None]:
    for system, cluster in clusters.items():
        try:
            cluster.up()
            yield system, cluster
        finally:
            cluster.down()
