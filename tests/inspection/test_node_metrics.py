"""Metrics of a node's connections, log directories and disk."""

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
from prometheus_client.core import Metric

from inspection.node_metrics import connection_metrics, directory_metrics, disk_metrics
from inspection.running_node import RunningNode
from metadata.cordoned_directories import CORDONED_LOG_DIRS
from raft.membership.voter_history import KRaftVersionAt
from tests.inspection.conftest import ready_world
from tests.inspection.test_metrics import scraped_of


def samples(metrics: Any) -> dict[tuple[str, ...], float]:
    found: list[Metric] = list(metrics)
    return {(s.name, *s.labels.values()): s.value for metric in found for s in metric.samples}


def test_idle_connections_that_were_closed() -> None:
    assert samples(connection_metrics(Counter({"A": 2, "B": 3}))) == {
        ("kafka_network_socketserver_expiredconnectionskilledcount",): 5,
        ("kafka_server_socketservermetrics_expired_connections_killed_count", "A"): 2,
        ("kafka_server_socketservermetrics_expired_connections_killed_count", "B"): 3,
    }


def test_directories_that_failed_and_those_that_are_cordoned() -> None:
    world = ready_world()
    node = RunningNode(world.kernel(1), world._now)
    properties = tuple(sorted({**dict(node.config.properties), CORDONED_LOG_DIRS: "/b,/c"}.items()))
    node.config = msgspec.structs.replace(
        node.config, log_dirs=("/c", "/a", "/b"), properties=properties
    )
    manager = "kafka_log_logmanager_"
    assert samples(directory_metrics(node, frozenset({"/a"}))) == {
        (manager + "cordonedlogdirectorycount",): 2,
        (manager + "logdirectoryoffline", "/a"): 1,
        (manager + "logdirectoryoffline", "/b"): 0,
        (manager + "logdirectoryoffline", "/c"): 0,
        (manager + "logdirectorycordoned", "/a"): 0,
        (manager + "logdirectorycordoned", "/b"): 1,
        (manager + "logdirectorycordoned", "/c"): 1,
    }


def test_bytes_of_the_disk(tmp_path: Path) -> None:
    source = tmp_path / "io"
    assert samples(disk_metrics("p_", source)) == {}
    source.write_text("rchar: 1\nread_bytes: 2\nwrite_bytes: 3\ncancelled_write_bytes: 4\n")
    assert samples(disk_metrics("p_", source)) == {
        ("p_linux_disk_read_bytes",): 2,
        ("p_linux_disk_write_bytes",): 3,
    }


def test_static_voters_are_ignored_once_the_log_names_some() -> None:
    world = ready_world()
    node = RunningNode(world.kernel(1), world._now)
    names = (
        "kafka_controller_kafkacontroller_ignoredstaticvoters",
        "kafka_server_broker_metadata_metrics_ignored_static_voters",
    )
    before = scraped_of(node)
    log = world.kernel(1).core._state.log
    log.add_voters(KRaftVersionAt(log.end_offset - 1, 1))
    after = scraped_of(node)
    assert [(before[name], after[name]) for name in names] == [(0, 1), (0, 1)]
