"""Two processes with one node id, in different folders: the second one gives up and says why."""

import subprocess
import sys
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.quorum import CONTROLLER_PORT_DISTANCE, running

ROOT = Path(__file__).parents[2]
BROKER_ID = 101


def test_a_second_broker_with_the_id_of_a_living_one(tmp_path: Path) -> None:
    with running(tmp_path / "q", "--nodes", "1", "--brokers", "1") as quorum:
        first = quorum.folder / f"node{BROKER_ID}" / "server.properties"
        second = tmp_path / "second.properties"
        second.write_text(
            first.read_text()
            + f"log.dirs={tmp_path / 'data'}\n"
            + f"listeners=PLAINTEXT://127.0.0.1:{quorum.base_port + 5}\n"
            + "initial.broker.registration.timeout.ms=500\n"
            + "broker.session.timeout.ms=600\nbroker.heartbeat.interval.ms=100\n"
            + f"inspection.listener=127.0.0.1:{quorum.base_port + 2005}\n"
        )
        cluster_id = quorum.status()["cluster_id"]
        command = [sys.executable, "-m", "cli.main", "server", "start", str(second)]
        done = subprocess.run(
            [*command, "--format", cluster_id],
            cwd=ROOT, capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
        assert done.returncode == 1, done.stdout + done.stderr
        assert f"node.id={BROKER_ID} is used by another broker" in done.stdout + done.stderr
        assert quorum.node(BROKER_ID)["state"] == "running"
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{quorum.base_port}"})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(10)


def test_a_second_controller_with_the_id_of_a_living_one(tmp_path: Path) -> None:
    """It wants the address that the voters' list gives to its id, which is taken."""
    with running(tmp_path / "q", "--nodes", "3") as quorum:
        first = quorum.folder / "node1" / "server.properties"
        second = tmp_path / "second.properties"
        second.write_text(first.read_text() + f"log.dirs={tmp_path / 'data'}\n")
        done = subprocess.run(
            [sys.executable, "-m", "cli.main", "server", "start", str(second),
             "--format", quorum.status()["cluster_id"]],
            cwd=ROOT, capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        assert f"127.0.0.1:{quorum.base_port + CONTROLLER_PORT_DISTANCE}" in line
        assert "is taken by another process" in line
