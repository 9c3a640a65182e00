"""The cluster of `kraftline dev`: made of its options, served until a signal."""

import json
import signal
import sys
import threading
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Final

from cli.arguments import UsageError, shortened
from testing import Cluster, ClusterError, SettingsError

LOOK_S: Final = 1.0
"""Time after which the end of a node is noticed."""


def serve_until_signal(options: Namespace) -> int:
    """Run the cluster of the options until a signal; the exit code."""
    try:
        cluster = cluster_of(options)
        ended = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: ended.set())
        return serve(cluster, ended.wait, as_json=options.json)
    except (UsageError, SettingsError, ClusterError) as error:
        sys.stderr.write(f"{error}\n")
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        sys.stderr.write(f"{where}{error.strerror or error}\n")
    return 1


def cluster_of(options: Namespace) -> Cluster:
    """The cluster of the options, not started.

    Raises:
        UsageError: a config is not KEY=VALUE.
        SettingsError: the cluster cannot have it.
    """
    configs = {}
    for entry in options.config:
        key, separator, value = entry.partition("=")
        if not separator:
            raise UsageError(f"--config {shortened(entry)} is not KEY=VALUE")
        configs[key.strip()] = value.strip()
    folder = None if options.dir is None else Path(options.dir)
    return Cluster(options.nodes, configs=configs, port=options.port, folder=folder, faults=False)


def serve(cluster: Cluster, wait: Callable[[float], bool], *, as_json: bool) -> int:
    """Start the cluster, say so, and end it when `wait` returns True or its nodes are gone."""
    with cluster:
        sys.stdout.write(
            ready_line(cluster.bootstrap_servers, str(cluster.folder), as_json=as_json)
        )
        sys.stdout.flush()
        while not wait(LOOK_S):
            if len(cluster.pids()) < cluster.nodes:
                cluster.wait_ready()  # raises, with the node's log
    return 0


def ready_line(bootstrap_servers: str, folder: str, *, as_json: bool) -> str:
    """Text that says the cluster takes clients."""
    if as_json:
        return json.dumps({"bootstrap_servers": bootstrap_servers, "folder": folder}) + "\n"
    first = bootstrap_servers.partition(",")[0]
    return (
        f"ready: bootstrap.servers={bootstrap_servers}\n"
        f"try:   kraftline console-producer --topic hello --bootstrap-server {first}\n"
        f"logs:  {folder}\n"
        "Ctrl-C ends it.\n"
    )
