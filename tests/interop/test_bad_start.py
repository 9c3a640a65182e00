"""Nodes that must not start: exit code 1 and one line that names the thing and its value."""

import contextlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.quorum import free_base_port, wait_until

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
OTHER_CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAg"
ROOT = Path(__file__).parents[2]
KILL_MOMENTS_S = [0.06 * number for number in range(10)]


class Node(msgspec.Struct, frozen=True):
    """One node, voter of itself, in a folder; started by its command, not by the script."""

    folder: Path
    port: int

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def segment(self) -> Path:
        return self.data / "__cluster_metadata-0" / "00000000000000000000.log"

    @property
    def log(self) -> Path:
        return self.folder / "node.log"

    def properties(self, **changes: str) -> Path:
        """Write server.properties; `__` in a name stands for a dot."""
        values = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self.port + 1000}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},"
            f"CONTROLLER://127.0.0.1:{self.port + 1000}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.data),
        } | {name.replace("__", "."): value for name, value in changes.items()}
        path = self.folder / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        return path

    def start(self, *words: str) -> "subprocess.Popen[bytes]":
        """Start the process; what it writes goes to the log."""
        with self.log.open("ab") as log:
            return subprocess.Popen(
                self.command(*words), cwd=ROOT, stdout=log, stderr=subprocess.STDOUT
            )

    def command(self, *words: str) -> list[str]:
        properties = str(self.folder / "server.properties")
        return [sys.executable, "-m", "cli.main", "server", "start", properties, *words]

    def refusal(self) -> str:
        """The one line with which the node refuses to start."""
        done = subprocess.run(
            self.command(), cwd=ROOT, capture_output=True, text=True, timeout=20, check=False
        )
        assert done.returncode == 1, done.stdout + done.stderr
        (line,) = done.stderr.splitlines()
        return line

    def wait_leads(self) -> None:
        """Wait until the node leads its quorum of one."""
        wait_until(lambda: '"leader_id": 1' in self.log.read_text(), 15, self.log.read_text)
        wait_until(lambda: self.flushed_end >= 5, 15, self.log.read_text)

    @property
    def flushed_end(self) -> int:
        """Flushed end of the metadata log, as the node records it."""
        path = self.segment.parent / "flushed-end-offset"
        return int(path.read_text().split()[1]) if path.exists() else 0

    def run_once(self) -> None:
        """Format, lead once, and stop in good order."""
        process = self.start("--format", CLUSTER_ID)
        try:
            self.wait_leads()
        finally:
            process.terminate()
            assert process.wait(15) == 0, self.log.read_text()
        self.log.unlink()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    made = Node(tmp_path, free_base_port())
    made.properties()
    return made


def test_folder_is_not_formatted(node: Node) -> None:
    assert node.refusal() == (
        f"No readable meta.properties files found in {node.data}: "
        "format it with `kraftline storage format`"
    )


def test_voters_do_not_list_this_node(node: Node) -> None:
    node.properties(controller__quorum__voters="2@127.0.0.1:1")
    line = node.refusal()
    assert "node id 1 must be included" in line
    assert "controller.quorum.voters=Set(2)" in line


def test_listeners_clash(node: Node) -> None:
    clash = f"PLAINTEXT://127.0.0.1:{node.port},CONTROLLER://127.0.0.1:{node.port}"
    node.properties(listeners=clash)
    line = node.refusal()
    assert "different port" in line
    assert clash in line


def _wrong_node_id(node: Node) -> str:
    node.properties(node__id="7", controller__quorum__voters=f"7@127.0.0.1:{node.port + 1000}")
    return "Stored node id 1 doesn't match previous node id 7"


def _damaged_meta_properties(node: Node) -> str:
    path = node.data / "meta.properties"
    path.write_text(path.read_text().replace("cluster.id", "cluster"))
    return "cluster.id was not found"


@pytest.mark.parametrize("spoil", [_wrong_node_id, _damaged_meta_properties])
def test_meta_properties_say_something_else(node: Node, spoil: Callable[[Node], str]) -> None:
    node.run_once()
    expected = spoil(node)
    line = node.refusal()
    assert expected in line
    assert str(node.data / "meta.properties") in line


def test_folders_of_two_clusters(node: Node) -> None:
    second = node.folder / "second"
    node.properties(log__dirs=f"{node.data},{second}")
    node.run_once()
    path = second / "meta.properties"
    path.write_text(path.read_text().replace(CLUSTER_ID, OTHER_CLUSTER_ID))
    line = node.refusal()
    assert CLUSTER_ID in line
    assert OTHER_CLUSTER_ID in line
    assert str(second) in line


def test_two_nodes_with_one_folder(node: Node) -> None:
    first = node.start("--format", CLUSTER_ID)
    try:
        node.wait_leads()
        line = node.refusal()
        assert line.startswith(f"{node.data}: locked by another process")
        assert first.poll() is None
    finally:
        first.terminate()
        assert first.wait(15) == 0


def test_torn_last_batch_is_cut_with_a_warning(node: Node) -> None:
    process = node.start("--format", CLUSTER_ID)
    try:
        node.wait_leads()
    finally:
        process.kill()
        process.wait(15)
    node.log.unlink()
    with node.segment.open("r+b") as segment:  # a batch whose write the SIGKILL cut, never flushed
        torn = segment.read(80)
        segment.seek(0, 2)
        segment.write(torn)

    process = node.start()
    try:
        node.wait_leads()
    finally:
        process.terminate()
        assert process.wait(15) == 0
    (warning,) = [line for line in node.log.read_text().splitlines() if "log_repaired" in line]
    assert '"level": "WARN"' in warning
    assert "batch is cut" in warning
    assert str(node.segment) in warning


def test_a_flushed_batch_that_is_torn_after_a_sigkill_stops_the_node(node: Node) -> None:
    process = node.start("--format", CLUSTER_ID)
    try:
        node.wait_leads()
    finally:
        process.kill()
        process.wait(15)
    size = 170  # inside the second batch, which begins at 91
    with node.segment.open("r+b") as segment:
        segment.truncate(size)
    line = node.refusal()
    assert line.startswith(str(node.segment))
    assert "batch is cut" in line
    assert "position" in line
    assert node.segment.stat().st_size == size


def test_damage_below_the_flushed_end_stops_the_node(node: Node) -> None:
    node.run_once()
    content = bytearray(node.segment.read_bytes())
    content[200] ^= 0xFF
    node.segment.write_bytes(content)
    line = node.refusal()
    assert line.startswith(str(node.segment))
    assert "CRC of the batch at offset" in line
    assert "position" in line
    assert node.segment.read_bytes() == content


def test_log_shorter_than_flushed_stops_the_node(node: Node) -> None:
    node.run_once()
    with node.segment.open("r+b") as segment:
        segment.truncate(node.segment.stat().st_size - 3)
    line = node.refusal()
    assert line.startswith(str(node.segment))
    assert "batch is cut" in line


def test_killed_at_any_moment_of_its_start(node: Node) -> None:
    for moment_s in KILL_MOMENTS_S:
        process = node.start("--format", CLUSTER_ID)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(moment_s)
        process.kill()
        process.wait(15)
    node.log.unlink()
    node.run_once()


def test_killed_at_any_moment_of_its_end(node: Node) -> None:
    """Acknowledged topics are there after the kill, and the next start needs no help."""
    created = []
    process = node.start("--format", CLUSTER_ID)
    try:
        for number, moment_s in enumerate(KILL_MOMENTS_S):
            admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{node.port}", "log_level": 2})
            name = f"killed-{number}"
            admin.create_topics([NewTopic(name, 1, 1)])[name].result(15)
            created.append(name)
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(moment_s / 4)
            process.kill()
            process.wait(15)
            process = node.start()
            assert set(created) <= set(admin.list_topics(timeout=15).topics), node.log.read_text()
    finally:
        process.kill()
        process.wait(15)
