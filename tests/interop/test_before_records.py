"""A folder that a version without records left behind: its topics take records from now on.

The folder is as commit 4868b36 left it after two topics and SIGTERM: a metadata log, and partition
directories that hold nothing but their topic ids.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.interop.quorum import CONTROLLER_PORT_DISTANCE, free_base_port, wait_until
from tests.interop.record_clients import SECONDS, ConfluentRecords, Record

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "golden" / "before-records" / "data"
LOG = Path("__cluster_metadata-0") / "00000000000000000000.log"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FOLDER, tmp_path / "data"))


@pytest.fixture
def bootstrap(data: Path) -> Iterator[str]:
    port = free_base_port(1)
    controller = f"127.0.0.1:{port + CONTROLLER_PORT_DISTANCE}"
    words = [sys.executable, "-m", "cli.main", "server", "start", str(data.parent / "properties")]
    (data.parent / "properties").write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        f"controller.quorum.voters=1@{controller}\n"
        f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://{controller}\n"
        f"log.dirs={data}\n"
        "offsets.topic.replication.factor=1\n"
    )
    log = data.parent / "out.log"
    with log.open("wb") as out:
        process = subprocess.Popen(words, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: b"broker_serves" in log.read_bytes(), SECONDS, log.read_text)
        yield f"127.0.0.1:{port}"
        process.terminate()
        assert process.wait(SECONDS) == 0, log.read_text()
        assert '"WARN"' not in log.read_text(), log.read_text()
    finally:
        process.kill()
        process.wait()


def test_it_starts_unchanged_and_its_topics_take_records(bootstrap: str, data: Path) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    topics = admin.list_topics(timeout=SECONDS).topics
    assert {name: len(topic.partitions) for name, topic in topics.items()} == {
        "orders": 3,
        "other": 1,
    }
    client, written = ConfluentRecords(bootstrap), [Record(b"%d" % i) for i in range(20)]
    for partition in range(3):
        wait_until(lambda at=partition: is_led(client, at), SECONDS, lambda: "no leader")
        client.produce("orders", written, partition=partition)
        found = client.consume("orders", 20, partition=partition)
        assert [record.value for record in found] == [record.value for record in written]
    before = (FOLDER / LOG).read_bytes()
    assert (data / LOG).read_bytes()[: len(before)] == before
    for old in FOLDER.rglob("partition.metadata"):
        assert (data / old.relative_to(FOLDER)).read_bytes() == old.read_bytes()


def is_led(client: ConfluentRecords, partition: int) -> bool:
    try:
        client.ends("orders", partition=partition)
    except KafkaException:
        return False
    return True
