"""A real process whose disk fails an fsync: it says so and ends, and what it answered is there."""

import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.quorum import free_base_port
from tests.interop.test_bad_start import CLUSTER_ID, ROOT, Node

PROGRAM = """
import errno, os, sys

flag, real = sys.argv[1], os.fdatasync

def fdatasync(number):
    if os.path.exists(flag) and os.readlink(f"/proc/self/fd/{number}").endswith(".log"):
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    real(number)

os.fdatasync = fdatasync
from cli.main import main
sys.exit(main(sys.argv[2:]))
"""
"""A node on a machine whose kernel answers EIO to fdatasync of a segment while a file exists."""


def test_a_failed_fsync_ends_the_node_with_an_error(tmp_path: Path) -> None:
    node = Node(tmp_path, free_base_port())
    node.properties()
    flag = tmp_path / "disk-fails"
    words = [sys.executable, "-c", PROGRAM, str(flag), *node.command("--format", CLUSTER_ID)[3:]]
    with node.log.open("ab") as log:
        process = subprocess.Popen(words, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
    try:
        node.wait_leads()
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{node.port}", "log_level": 0})
        admin.create_topics([NewTopic("before", 1, 1)])["before"].result(15)
        flag.touch()
        created = admin.create_topics([NewTopic("after", 1, 1)], request_timeout=3)["after"]
        assert process.wait(15) == 1
        with pytest.raises(KafkaException):
            created.result(15)
    finally:
        process.kill()
        process.wait(15)
    (line,) = [line for line in node.log.read_text().splitlines() if "node_failed" in line]
    assert str(node.segment) in line
    assert "Input/output error" in line

    flag.unlink()
    process = node.start()
    try:
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{node.port}", "log_level": 0})
        assert "before" in admin.list_topics(timeout=15).topics
    finally:
        process.terminate()
        assert process.wait(15) == 0
