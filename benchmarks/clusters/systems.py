"""Clusters that a benchmark measures in one run: kraftline, and Apache Kafka on request."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.clusters.kafka_peer import KafkaCluster
from benchmarks.clusters.our_quorum import OurCluster


def started_systems(
    base_port: int, *, with_kafka: bool
) -> Iterator[tuple[str, OurCluster | KafkaCluster]]:
    """Yield each system by name while it runs; the previous one has stopped and its data are gone.

    Args:
        base_port: first port of ours; Kafka's is ten above.
        with_kafka: measure Kafka too.
    """
    with tempfile.TemporaryDirectory() as name:
        clusters: dict[str, OurCluster | KafkaCluster] = {
            "kraftline": OurCluster(Path(name) / "ours", base_port)
        }
        if with_kafka:
            clusters["kafka"] = KafkaCluster(Path(name) / "kafka", base_port + 10)
        for system, cluster in clusters.items():
            try:
                cluster.up()
                yield system, cluster
            finally:
                cluster.down()
