"""Kafka Connect, standalone, at three nodes of ours: its source writes a file's lines."""

import signal
import subprocess
from pathlib import Path

import pytest

from benchmarks.clusters import kafka_peer
from tests.interop.quorum import Quorum, free_base_port, wait_until
from tests.interop.record_clients import AioRecords

pytestmark = pytest.mark.jvm
SECONDS = 90.0


class Worker:
    """A standalone worker with one FileStreamSource, which keeps its position in a file."""

    def __init__(self, folder: Path, bootstrap: str, **source: str) -> None:
        self.lines = folder / "lines.txt"
        self._folder = folder
        self._log = folder / "connect.log"
        string = "org.apache.kafka.connect.storage.StringConverter"
        worker = {
            "bootstrap.servers": bootstrap,
            "key.converter": string,
            "value.converter": string,
            "offset.storage.file.filename": str(folder / "offsets"),
            "offset.flush.interval.ms": "500",
            "plugin.discovery": "service_load",  # the others read every class of the class path
            "plugin.path": str(kafka_peer.file_connectors()),
            "listeners": f"http://127.0.0.1:{free_base_port(1)}",
        }
        connector = {
            "name": "lines",
            "connector.class": "FileStreamSource",
            "tasks.max": "1",
            "file": str(self.lines),
            **{key.replace("_", "."): value for key, value in source.items()},
        }
        self._files = [self._write("worker", worker), self._write("source", connector)]
        self._process: subprocess.Popen[bytes] | None = None

    def _write(self, name: str, settings: dict[str, str]) -> str:
        path = self._folder / f"{name}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return str(path)

    def append(self, lines: list[str]) -> None:
        with self.lines.open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    def start(self) -> None:
        main = "org.apache.kafka.connect.cli.ConnectStandalone"
        with self._log.open("ab") as out:
            self._process = subprocess.Popen(
                kafka_peer.java(main, *self._files), stdout=out, stderr=out
            )

    def stop(self, sent: signal.Signals = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(sent)
            self._process.wait(60)
            self._process = None

    def output(self) -> str:
        return self._log.read_text(errors="replace")[-5000:]


def values(quorum: Quorum, topic: str, count: int, worker: Worker) -> list[bytes | None]:
    """The values of a topic once it has as many."""
    readers = AioRecords(quorum.bootstrap)
    wait_until(lambda: readers.ends(topic)[1] >= count, SECONDS, worker.output)
    return [record.value for record in readers.consume(topic, readers.ends(topic)[1])]


@pytest.mark.parametrize("creates", [False, True], ids=["by the broker", "by the worker"])
def test_file_source(quorum: Quorum, tmp_path: Path, creates: bool) -> None:
    """Its topic is made by auto.create.topics.enable, or by the worker's own request."""
    topic = f"lines-{creates}"
    creation = {"topic_creation_default_replication_factor": "3",
                "topic_creation_default_partitions": "1",
                "topic_creation_default_min_insync_replicas": "2"}  # fmt: skip
    worker = Worker(tmp_path, quorum.bootstrap, topic=topic, **(creation if creates else {}))
    lines = [f"line {number}" for number in range(300)]
    expected = [line.encode() for line in lines]
    worker.append(lines[:100])
    worker.start()
    try:
        assert values(quorum, topic, 100, worker) == expected[:100]
        worker.append(lines[100:200])
        assert values(quorum, topic, 200, worker) == expected[:200]
        worker.stop()
        worker.append(lines[200:])
        worker.start()
        assert values(quorum, topic, 300, worker) == expected
    finally:
        worker.stop(signal.SIGKILL)
