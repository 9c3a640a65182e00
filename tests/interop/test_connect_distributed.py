"""Kafka Connect, distributed, at three nodes of ours: workers are a group of their own protocol.

They keep connectors, positions and states in compacted topics. With `exactly.once.source.support`
a source writes records and positions in transactions, and a worker that begins fences the one
before it (KIP-618): what a killed worker has left is neither lost nor there twice.
"""

import json
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from benchmarks.clusters import kafka_peer
from tests.interop.quorum import Quorum, free_base_port, wait_until
from tests.interop.record_clients import AioRecords

pytestmark = pytest.mark.jvm
SECONDS = 60.0
GROUP = "connect-workers"
STRING = "org.apache.kafka.connect.storage.StringConverter"


class Worker:
    """A distributed worker, asked over HTTP."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        self._url = f"http://127.0.0.1:{free_base_port(1)}"
        self._log = folder / "connect.log"
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "key.converter": STRING,
            "value.converter": STRING,
            "exactly.once.source.support": "enabled",
            "offset.flush.interval.ms": "500",
            "scheduled.rebalance.max.delay.ms": "0",
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "1000",
            "plugin.discovery": "service_load",
            "plugin.path": str(kafka_peer.file_connectors()),
            "listeners": self._url,
        }
        for kind in ("config", "offset", "status"):
            settings[f"{kind}.storage.topic"] = f"connect-{kind}"
            settings[f"{kind}.storage.replication.factor"] = "3"
        self._file = folder / "worker.properties"
        self._file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        with self._log.open("ab") as out:
            self._process = subprocess.Popen(
                kafka_peer.java(main, str(self._file)), stdout=out, stderr=out
            )

    def stop(self, sent: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(sent)
            self._process.wait(60)
            self._process = None

    def put(self, name: str, config: dict[str, str]) -> None:
        """Create a connector, as soon as the worker answers."""
        deadline = time.monotonic() + SECONDS
        request = urllib.request.Request(
            f"{self._url}/connectors/{name}/config",
            json.dumps(config).encode(),
            {"Content-Type": "application/json"},
            method="PUT",
        )
        while True:
            try:
                with urllib.request.urlopen(request, timeout=30):
                    return
            except (OSError, urllib.error.HTTPError):
                assert time.monotonic() < deadline, self.output()
                time.sleep(0.2)

    def states(self, name: str) -> list[str]:
        """States of a connector and its tasks; empty while there is no answer."""
        try:
            with urllib.request.urlopen(f"{self._url}/connectors/{name}/status", timeout=30) as got:
                status: dict[str, Any] = json.load(got)
        except (OSError, urllib.error.HTTPError):
            return []
        return [status["connector"]["state"], *(task["state"] for task in status["tasks"])]

    def output(self) -> str:
        return self._log.read_text(errors="replace")[-5000:]


def test_a_source_and_a_sink_go_on_in_the_next_worker(quorum: Quorum, tmp_path: Path) -> None:
    source, sink, topic = tmp_path / "lines.txt", tmp_path / "copied.txt", "distributed"
    lines = [f"line {number}" for number in range(300)]

    def append(some: list[str]) -> None:
        with source.open("a") as file:
            file.writelines(f"{line}\n" for line in some)

    def copied() -> list[str]:
        return sink.read_text().split("\n")[:-1] if sink.exists() else []

    creation = {f"topic.creation.default.{key}": value
                for key, value in (("replication.factor", "3"), ("partitions", "1"))}  # fmt: skip
    append(lines[:100])
    worker = Worker(tmp_path, quorum.bootstrap)
    worker.start()
    try:
        worker.put("source", {"connector.class": "FileStreamSource", "tasks.max": "1",
                              "file": str(source), "topic": topic, **creation})  # fmt: skip
        worker.put("sink", {"connector.class": "FileStreamSink", "tasks.max": "1",
                            "file": str(sink), "topics": topic})  # fmt: skip
        wait_until(lambda: set(lines[:100]) <= set(copied()), SECONDS, worker.output)
        append(lines[100:200])
        worker.stop(signal.SIGKILL)
        append(lines[200:])
        worker.start()
        wait_until(lambda: set(lines) <= set(copied()), SECONDS, worker.output)
        assert worker.states("source") == worker.states("sink") == ["RUNNING", "RUNNING"]
    finally:
        worker.stop(signal.SIGKILL)
    readers = AioRecords(quorum.bootstrap)
    found = [record.value for record in readers.consume(topic, len(lines))]
    assert found == [line.encode() for line in lines], "each once, in order"
