"""Nothing acknowledged is lost: creates go on while leaders are killed and nodes are restarted."""

import re
import threading
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.clusters import kafka_peer
from tests.interop.quorum import Quorum, running, wait_until
from wire.batches.batch import iterate_batches

CREATES = 1000
KILLS = 5


class Creator:
    """Creates numbered topics in a thread until told to stop; remembers what was acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
        self.acknowledged: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            names = [f"load-{number + i}" for i in range(4)]
            number += len(names)
            futures = self._admin.create_topics(
                [NewTopic(name, num_partitions=1, replication_factor=1) for name in names],
                operation_timeout=5,
                request_timeout=8,
            )
            for name, future in futures.items():
                try:
                    future.result()
                except KafkaException:
                    continue  # indeterminate or refused: nothing was promised
                self.acknowledged.add(name)

    def stop(self) -> set[str]:
        self._stop.set()
        self._thread.join(30)
        return self.acknowledged


def _kill_leader(quorum: Quorum, creator: Creator) -> None:
    before = len(creator.acknowledged)
    leader = quorum.wait_healthy()["leader_id"]
    quorum.run("kill", str(leader))
    wait_until(lambda: len(creator.acknowledged) > before + 20, 20, quorum.logs)
    quorum.run("restart", str(leader))


def _load(quorum: Quorum) -> set[str]:
    creator = Creator(quorum.bootstrap)
    try:
        for _ in range(KILLS):
            _kill_leader(quorum, creator)
        for node_id in (1, 2, 3):  # rolling restart
            quorum.wait_healthy()
            quorum.run("restart", str(node_id))
        wait_until(lambda: len(creator.acknowledged) >= CREATES, 90, quorum.logs)
    finally:
        acknowledged = creator.stop()
    quorum.wait_healthy()
    return acknowledged


def _segments(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.log"))}


def _batches(folder: Path) -> list[tuple[int, bytes]]:
    """Leader epoch and bytes of every batch."""
    log = b"".join(_segments(folder).values())
    found = [(batch.position, batch.header) for batch in iterate_batches(log)]
    return [(head.leader_epoch, log[at : at + head.size_bytes]) for at, head in found]


def _assert_prefixes(quorum: Quorum) -> None:
    """After a stop the logs are equal but for a tail of an older epoch.

    Its leader stopped before a majority had it, and the others went on without it.
    """
    logs = [_batches(quorum.metadata_log(n)) for n in (1, 2, 3)]
    newest = max(logs, key=lambda log: (log[-1][0], len(log)))
    for log in logs:
        pairs = enumerate(zip(log, newest, strict=False))
        same = next((i for i, (one, other) in pairs if one != other), min(map(len, (log, newest))))
        assert same > 0, "metadata logs differ from the start"
        epochs = {epoch for epoch, _ in log[same:]}
        assert not epochs or max(epochs) < newest[same][0], (
            f"metadata logs differ: {same=} {epochs=}"
        )


@pytest.mark.jvm
def test_acknowledged_topics_are_in_every_log_as_kafka_reads_it(tmp_path: Path) -> None:
    with running(tmp_path / "quorum") as quorum:
        acknowledged = _load(quorum)
        assert len(acknowledged) >= CREATES
        quorum.run("down")
        _assert_prefixes(quorum)
        for node_id in (1, 2, 3):
            dump = kafka_peer.dump_metadata_log(quorum.metadata_log(node_id))
            topics = set(re.findall(r'"type":"TOPIC_RECORD".*?"name":"([^"]+)"', dump))
            assert acknowledged <= topics, (
                f"node {node_id} lacks {sorted(acknowledged - topics)[:5]}"
            )


def test_killed_leader_loses_nothing_acknowledged(tmp_path: Path) -> None:
    with running(tmp_path / "quorum") as quorum:
        creator = Creator(quorum.bootstrap)
        try:
            wait_until(lambda: len(creator.acknowledged) > 20, 20, quorum.logs)
            _kill_leader(quorum, creator)
        finally:
            acknowledged = creator.stop()
        quorum.wait_healthy()
        for port in range(quorum.base_port, quorum.base_port + 3):
            admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 2})
            wait_until(
                lambda admin=admin: acknowledged <= set(admin.list_topics(timeout=5).topics),
                10,
                quorum.logs,
            )
