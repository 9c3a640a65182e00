"""Time from the start of a test cluster to its first consumed record.

    python -m benchmarks.testing_start [--rounds N]

Cold: in a new Python, with the import of everything, from bytecode as an installed wheel has it: it
is written below a temporary folder first. Warm: the process that forks nodes is there,
as it is for the second cluster of a test run. `first record`: produce one, and consume it with
`assign`; `group`: with `subscribe`, which makes __consumer_offsets. Beside them librdkafka's mock
cluster (`test.mock.num.brokers`), which is one thread of the client: no disk, no replicas.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from testing import Cluster, warm_up

WAIT_S = 20.0
NAMES = ("ready", "first record", "group")


def main() -> None:
    """Print the median of each measure in milliseconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--once", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once is not None:
        print(*_ours(options.once))
        return
    with tempfile.TemporaryDirectory() as bytecode:
        _cold(1, bytecode)
        for nodes in (1, 3):
            rounds = [_cold(nodes, bytecode) for _ in range(options.rounds)]
            _show(f"kraftline cold, {nodes} nodes", rounds)
    warm_up().ask("ping")
    for nodes in (1, 3):
        _show(f"kraftline warm, {nodes} nodes", [_ours(nodes) for _ in range(options.rounds)])
    for nodes in (1, 3):
        _show(f"librdkafka mock, {nodes} nodes", [_mock(nodes) for _ in range(options.rounds)])


def _cold(nodes: int, bytecode: str) -> list[float]:
    command = [sys.executable, "-m", "benchmarks.testing_start", "--once", str(nodes)]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = bytecode
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return [float(word) for word in done.stdout.split()]


def _ours(nodes: int) -> list[float]:
    started = time.perf_counter()
    with Cluster(nodes) as kafka:
        ready = time.perf_counter() - started
        return _clients(lambda **more: {"bootstrap.servers": kafka.bootstrap_servers, **more},
                        started, ready)  # fmt: skip


def _mock(nodes: int) -> list[float]:
    started = time.perf_counter()
    owner = Producer({"test.mock.num.brokers": nodes, "bootstrap.servers": "ignored:1"})
    servers = ",".join(
        f"{broker.host}:{broker.port}"
        for broker in owner.list_topics(timeout=WAIT_S).brokers.values()
    )
    ready = time.perf_counter() - started
    return _clients(lambda **more: {"bootstrap.servers": servers, **more}, started, ready)


def _clients(config: Callable[..., dict[str, Any]], started: float, ready: float) -> list[float]:
    producer = Producer(config(**{"linger.ms": 0}))
    producer.produce("first", b"x")
    assert producer.flush(WAIT_S) == 0
    reading = config(
        **{"group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    assigned = Consumer(reading)
    partitions = range(len(assigned.list_topics("first", WAIT_S).topics["first"].partitions))
    assigned.assign([TopicPartition("first", partition, 0) for partition in partitions])
    assert assigned.poll(WAIT_S) is not None
    first = time.perf_counter() - started
    subscribed = Consumer(reading)
    subscribed.subscribe(["first"])
    assert subscribed.poll(WAIT_S) is not None
    group = time.perf_counter() - started
    subscribed.close()
    assigned.close()
    return [ready, first, group]


def _show(title: str, rounds: list[list[float]]) -> None:
    medians = [statistics.median(column) * 1000 for column in zip(*rounds, strict=True)]
    cells = ", ".join(f"{name} {ms:.0f} ms" for name, ms in zip(NAMES, medians, strict=True))
    print(f"{title}: {cells}")


if __name__ == "__main__":
    main()
