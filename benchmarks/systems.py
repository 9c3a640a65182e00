"""The clusters that a benchmark measures in one run: ours, and Apache Kafka's when asked for."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.kafka_peer import KafkaCluster
from benchmarks.our_quorum import OurCluster


def started_systems(
    base_port: int, *, with_kafka: bool
) -> Iterator[tuple[str, OurCluster | KafkaCluster]]:
    """Each system by name while it runs; the one before it has stopped, its data are gone.

    Args:
        base_port: of ours; Kafka's is ten above.
        with_kafka: whether Kafka follows.
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
