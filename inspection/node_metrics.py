"""Metrics of a node's connections, log directories and disk (table: docs/running.md)."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric

from inspection.running_node import RunningNode
from metadata.cordoned_directories import cordoned_paths

SOCKETS: Final = "kafka_network_socketserver_"
LISTENERS: Final = "kafka_server_socketservermetrics_"
DIRECTORIES: Final = "kafka_log_logmanager_"
PROCESS_IO: Final = Path("/proc/self/io")
DISK: Final = {"read_bytes": "linux_disk_read_bytes", "write_bytes": "linux_disk_write_bytes"}


def connection_metrics(expired: Mapping[str, int]) -> Iterator[Metric]:
    """Connections that were closed because nothing moved on them (`connections.max.idle.ms`)."""
    text = "closed because they were idle, since the start"
    name = SOCKETS + "expiredconnectionskilledcount"
    yield GaugeMetricFamily(name, text, float(sum(expired.values())))
    family = GaugeMetricFamily(
        LISTENERS + "expired_connections_killed_count", text, labels=["listener"]
    )
    for listener, count in sorted(expired.items()):
        family.add_metric([listener], float(count))
    yield family


def directory_metrics(node: RunningNode, failed: frozenset[str]) -> Iterator[Metric]:
    """Log directories of a broker that are offline or cordoned."""
    config = node.config
    cordoned = (
        cordoned_paths(node.image, config.node_id, dict(config.properties), config.log_dirs)
        or frozenset[str]()
    )
    text = "log directories that get no new replicas"
    yield GaugeMetricFamily(DIRECTORIES + "cordonedlogdirectorycount", text, float(len(cordoned)))
    for name, text, chosen in (
        ("logdirectoryoffline", "1 for one that failed", failed),
        ("logdirectorycordoned", "1 for one that gets no new replicas", cordoned),
    ):
        family = GaugeMetricFamily(DIRECTORIES + name, text, labels=["logDirectory"])
        for path in sorted(config.log_dirs):
            family.add_metric([path], float(path in chosen))
        yield family


def disk_metrics(prefix: str, source: Path = PROCESS_IO) -> Iterator[Metric]:
    """Bytes that this process read from disks and wrote to them; none where Linux does not say."""
    try:
        lines = source.read_text(encoding="ascii").splitlines()
    except OSError:
        return
    for name, _, value in (line.partition(": ") for line in lines):
        if name in DISK:
            yield GaugeMetricFamily(prefix + DISK[name], "of this process", float(value))
