"""The cluster of all workers of a test run, as a worker sees it: another process started it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from typing_extensions import override

from testing.cluster import RUNNING, Cluster
from testing.errors import ClusterError

NOT_HERE: Final = (
    "the cluster is that of all workers (--kafka-shared): kafka_factory or the marker kafka make "
    "one that is this test's"
)


def told(cluster: Cluster) -> dict[str, Any]:
    """Facts of a cluster that is up, for a worker: as JSON has them."""
    return {
        "nodes": cluster.nodes,
        "bootstrap_servers": cluster.bootstrap_servers,
        "folder": str(cluster.folder),
    }


class SharedCluster(Cluster):
    """A cluster to connect to; what would disturb others is refused.

    Args:
        found: as `told` says.
    """

    def __init__(self, found: Mapping[str, Any]) -> None:
        super().__init__(found["nodes"])
        self._bootstrap_servers: str = found["bootstrap_servers"]
        self._folder = Path(found["folder"])
        RUNNING.append(self)  # for its logs, as long as this worker

    @property
    @override
    def bootstrap_servers(self) -> str:
        return self._bootstrap_servers

    @override
    def start(self) -> None:
        raise ClusterError(NOT_HERE)

    @override
    def stop(self) -> None:
        raise ClusterError(NOT_HERE)

    @override
    def _asked(self) -> Any:
        raise ClusterError(NOT_HERE)

    @override
    def _pid_of(self, node_id: int) -> int:
        raise ClusterError(NOT_HERE)
