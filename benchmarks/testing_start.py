"""Time from the start of a test cluster to its first consumed record.

    python -m benchmarks.testing_start [--rounds N] [--kfake] [--kafka]

Cold: in a new Python, with the import of everything, from bytecode as an installed wheel has it: it
is written below a temporary folder first. pytest: in a run of pytest, from where the fixture is set
up; the import of a node begins when pytest does (first run: when it has collected the tests), and
overlaps with the test's own. Warm: the process that forks nodes is there, as it is for the second
cluster of a test run. `first record`: produce one, and consume it with `assign`; `group`: with
`subscribe`, which makes __consumer_offsets. Beside them what else a test can start
(benchmarks/testing_peers.py): librdkafka's mock, kfake, Apache Kafka (one round).
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks import testing_peers
from testing import Cluster, warm_up

WAIT_S = 30.0
NAMES = ("ready", "first record", "group")
FIXTURES = {1: "kafka", 3: "kafka_cluster"}
ROOT = Path(__file__).resolve().parent.parent
PYTEST_FILE = """
import time
import pytest
from benchmarks.testing_start import clients

@pytest.fixture
def begun():
    return time.perf_counter()

def test_it(begun, {fixture}):
    ready = time.perf_counter() - begun
    print("took", *clients({fixture}.bootstrap_servers, begun, ready))
"""


def main() -> None:
    """Print the median of each measure in milliseconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--kfake", action="store_true", help="franz-go's kfake too")
    parser.add_argument("--kafka", action="store_true", help="Apache Kafka too")
    parser.add_argument("--once", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once is not None:
        print(*_warm(options.once))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _cold(1, folder)
        _rows("kraftline cold", lambda nodes: _cold(nodes, folder), options.rounds)
        for run, is_first in (("first", True), ("later", False)):
            measure = partial(_pytest, folder, is_first=is_first)
            _rows(f"kraftline in pytest, {run} run", measure, options.rounds)
    warm_up().ask("ping")
    _rows("kraftline warm", _warm, options.rounds)
    _rows("librdkafka mock", partial(_peer, testing_peers.mock), options.rounds)
    if options.kfake:
        testing_peers.kfake_binary()
        _rows("kfake", partial(_peer, testing_peers.kfake), options.rounds)
    if options.kafka:
        testing_peers.jars()
        _rows("Apache Kafka", partial(_peer, testing_peers.apache_kafka), 1)


def _rows(title: str, measure: Callable[[int], list[float]], rounds: int) -> None:
    """Print the medians of one node and of three."""
    for nodes in FIXTURES:
        took = [measure(nodes) for _ in range(rounds)]
        medians = [statistics.median(column) * 1000 for column in zip(*took, strict=True)]
        cells = ", ".join(f"{name} {ms:.0f} ms" for name, ms in zip(NAMES, medians, strict=True))
        print(f"{title}, {nodes} nodes: {cells}", flush=True)


def _run(command: list[str], folder: Path, **more: Any) -> str:
    """Output of a process that finds its bytecode below a folder."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, *command],
        capture_output=True, text=True, check=True, env=environment, **more,
    )  # fmt: skip
    return str(done.stdout)


def _cold(nodes: int, folder: Path) -> list[float]:
    output = _run(["-m", "benchmarks.testing_start", "--once", str(nodes)], folder)
    return [float(word) for word in output.split()]


def _pytest(folder: Path, nodes: int, *, is_first: bool) -> list[float]:
    """A run of pytest in a folder of its own, as the first there or as a later one."""
    fixture = FIXTURES[nodes]
    tests = folder / fixture
    tests.mkdir(exist_ok=True)
    (tests / "test_it.py").write_text(PYTEST_FILE.format(fixture=fixture))
    plugins = ["-p", "testing.plugin", "-p", "no:kraftline", "-p", "no:schemathesis"]
    command = ["-m", "pytest", "-q", "-s", "-c", os.devnull, "--rootdir", str(tests), *plugins]
    first = ["--cache-clear"] if is_first else []
    output = _run([*command, *first, str(tests)], folder, cwd=tests)
    return [float(word) for word in output.partition("took ")[2].split()[: len(NAMES)]]


def _warm(nodes: int) -> list[float]:
    started = time.perf_counter()
    with Cluster(nodes) as kafka:
        return clients(kafka.bootstrap_servers, started, time.perf_counter() - started)


def _peer(start: Callable[[int], AbstractContextManager[str]], nodes: int) -> list[float]:
    started = time.perf_counter()
    with start(nodes) as servers:
        return clients(servers, started, time.perf_counter() - started)


def clients(servers: str, started: float, ready: float) -> list[float]:
    """Seconds since `started` as NAMES has them: one record, read without and with a group."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0, "log_level": 3})
    producer.produce("first", b"x")
    assert producer.flush(WAIT_S) == 0
    reading = {
        "bootstrap.servers": servers,
        "group.id": "g",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "log_level": 3,
    }
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


if __name__ == "__main__":
    main()
