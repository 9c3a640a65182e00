"""A real Kafka controller sits in the quorum as a voter beside two of ours (smoke test).

Ours hands its leadership over to it, which is what EndQuorumEpoch with a chosen successor does.
"""

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.clusters import kafka_peer
from benchmarks.clusters.protocol import ProtocolError, leader_of
from tests.interop.quorum import Quorum, running, wait_until

KAFKA_NODE = 3
ROOT = Path(__file__).parents[2]


def _controllers(quorum: Quorum) -> list[str]:
    return [f"127.0.0.1:{quorum.base_port + 1000 + i}" for i in range(3)]


def _leader(quorum: Quorum) -> int | None:
    for address in _controllers(quorum):
        with contextlib.suppress(OSError, ProtocolError):
            return leader_of(address, timeout_s=1.0)[0]
    return None


def _kafka_properties(quorum: Quorum, home: Path) -> Path:
    voters = ",".join(f"{i + 1}@{a}" for i, a in enumerate(_controllers(quorum)))
    properties = home / "kafka.properties"
    properties.write_text(
        f"process.roles=controller\nnode.id={KAFKA_NODE}\n"
        f"controller.quorum.voters={voters}\n"
        f"listeners=CONTROLLER://{_controllers(quorum)[KAFKA_NODE - 1]}\n"
        "controller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
        f"log.dirs={home / 'data'}\n"
    )
    return properties


@contextlib.contextmanager
def _mixed(folder: Path) -> Iterator[tuple[Quorum, dict[str, subprocess.Popen[bytes]], Path]]:
    """Nodes 1 and 2 ours (brokers too), node 3 Kafka's; all formatted at our default levels."""
    with running(folder / "quorum", "--static") as quorum:
        cluster_id = quorum.status()["cluster_id"]
        quorum.run("down")
        # All begin anew: with its folder alone node 3 would forget for whom it has voted.
        for data in quorum.folder.glob("node*/data"):
            shutil.rmtree(data)
            data.mkdir()
        home = folder / "kafka"
        home.mkdir()
        properties = _kafka_properties(quorum, home)
        names = ("group", "share", "streams", "transaction")  # our brokers serve level 0 of them
        zeros = [word for name in names for word in ("--feature", f"{name}.version=0")]
        kafka_peer.format_node(properties, cluster_id, *zeros)
        kafka = {"node": kafka_peer.start_node(properties, home / "kafka.out")}
        try:
            quorum.run("restart", "1")
            quorum.run("restart", "2")
            yield quorum, kafka, home
        finally:
            for process in kafka.values():
                process.kill()
                process.wait(30)


def _transfer(quorum: Quorum, target: int) -> str:
    """Return the line of `quorum transfer-leader`."""
    words = ["quorum", "--bootstrap-controller", ",".join(_controllers(quorum)), "transfer-leader"]
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", *words, "--to", str(target)],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return f"{done.stdout}{done.stderr}"


def _create(quorum: Quorum, name: str) -> None:
    """Create as a plain client does: one request, whatever happened to the leader just before."""
    bootstrap = ",".join(f"127.0.0.1:{quorum.base_port + i}" for i in range(2))
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    admin.create_topics([NewTopic(name, 2, 2)])[name].result(timeout=30)


def _log_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))


@pytest.mark.jvm
def test_kafka_controller_is_a_voter(tmp_path: Path) -> None:
    with _mixed(tmp_path) as (quorum, kafka, home):
        wait_until(lambda: _leader(quorum) is not None, 60, quorum.logs)
        _create(quorum, "first")

        # Make Kafka lead: ours hands over to it. Its own controller cannot.
        theirs = home / "data" / "__cluster_metadata-0"
        if _leader(quorum) == KAFKA_NODE:  # it was elected first
            kafka["node"].kill()
            kafka["node"].wait(30)
            wait_until(lambda: _leader(quorum) in (1, 2), 60, quorum.logs)
            kafka["node"] = kafka_peer.start_node(home / "kafka.properties", home / "kafka.out")
            _create(quorum, "between")
            wait_until(lambda: b"between" in _log_bytes(theirs), 60, quorum.logs)
        wait_until(lambda: b"first" in _log_bytes(theirs), 60, quorum.logs)
        assert _transfer(quorum, KAFKA_NODE).startswith(f"Node {KAFKA_NODE} leads epoch ")
        wait_until(lambda: _leader(quorum) == KAFKA_NODE, 60, quorum.logs)
        assert "it is Kafka's" in _transfer(quorum, 1)
        quorum.run("kill", "1")
        quorum.run("restart", "1", expect=None)
        wait_until(lambda: _leader(quorum) == KAFKA_NODE, 60, quorum.logs)
        _create(quorum, "second")

        # And ours again, after Kafka's controller dies.
        kafka["node"].kill()
        kafka["node"].wait(30)
        wait_until(lambda: _leader(quorum) in (1, 2), 60, quorum.logs)
        _create(quorum, "third")
        kafka["node"] = kafka_peer.start_node(home / "kafka.properties", home / "kafka.out")
        ours = quorum.metadata_log(1)
        wait_until(lambda: b"third" in _log_bytes(theirs), 60, quorum.logs)
        shortest = min(len(_log_bytes(theirs)), len(_log_bytes(ours)))
        assert _log_bytes(theirs)[:shortest] == _log_bytes(ours)[:shortest]
        dump = kafka_peer.dump_metadata_log(theirs)
        assert all(f'"name":"{name}"' in dump for name in ("first", "second", "third"))
