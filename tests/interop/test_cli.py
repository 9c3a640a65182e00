"""The commands of `kraftline`, as a person runs them, against nodes that run."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.interop.quorum import CONTROLLER_PORT_DISTANCE, Quorum

TIMEOUT_S = 30
UNREACHABLE = "127.0.0.1:1"


def kraftline(*words: str, expect: int = 0) -> subprocess.CompletedProcess[str]:
    """Run one command and check its exit code."""
    command = [sys.executable, "-m", "cli", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == expect, f"{words}: {done.returncode} {done.stdout}{done.stderr}"
    return done


def topics(quorum: Quorum, *words: str, expect: int = 0) -> subprocess.CompletedProcess[str]:
    return kraftline("topics", "--bootstrap-server", quorum.bootstrap, *words, expect=expect)


def controllers(quorum: Quorum) -> str:
    first = quorum.base_port + CONTROLLER_PORT_DISTANCE
    return ",".join(f"127.0.0.1:{first + i}" for i in range(3))


@pytest.fixture
def topic(quorum: Quorum) -> Iterator[str]:
    """A topic made by the command, gone afterwards."""
    name = "cli-orders"
    words = ("--create", "--topic", name, "--partitions", "4", "--replication-factor", "3")
    assert topics(quorum, *words).stdout == f"Created topic {name}.\n"
    yield name
    topics(quorum, "--delete", "--topic", name, "--if-exists")


def test_topics_list(quorum: Quorum, topic: str) -> None:
    assert topic in topics(quorum, "--list").stdout.splitlines()


def test_topics_describe(quorum: Quorum, topic: str) -> None:
    head, *partitions = topics(quorum, "--describe", "--topic", topic).stdout.splitlines()
    assert head.startswith(f"Topic: {topic}\tTopicId: ")
    assert "PartitionCount: 4\tReplicationFactor: 3" in head
    assert len(partitions) == 4
    for index, line in enumerate(partitions):
        fields = dict(f.split(": ", 1) for f in line.strip().split("\t") if ": " in f)
        assert fields["Partition"] == str(index)
        assert sorted(fields["Replicas"].split(",")) == ["1", "2", "3"]
        assert sorted(fields["Isr"].split(",")) == ["1", "2", "3"]
        assert fields["Leader"] == fields["Replicas"].split(",")[0]


def test_topics_create_twice_is_refused(quorum: Quorum, topic: str) -> None:
    again = topics(quorum, "--create", "--topic", topic, expect=1)
    assert f"Topic '{topic}' already exists." in again.stdout + again.stderr
    topics(quorum, "--create", "--topic", topic, "--if-not-exists")


def test_topics_delete(quorum: Quorum, topic: str) -> None:
    topics(quorum, "--delete", "--topic", topic)
    assert topic not in topics(quorum, "--list").stdout.splitlines()
    gone = topics(quorum, "--delete", "--topic", topic, expect=1)
    assert f"Topic '{topic}' does not exist as expected" in gone.stdout + gone.stderr


def test_topics_describe_of_an_unknown_topic_is_refused(quorum: Quorum) -> None:
    unknown = topics(quorum, "--describe", "--topic", "cli-nowhere", expect=1)
    assert "Topic 'cli-nowhere' does not exist as expected" in unknown.stdout + unknown.stderr


@pytest.mark.parametrize("kind", ["server", "controller"])
def test_quorum_status(quorum: Quorum, kind: str) -> None:
    address = quorum.bootstrap if kind == "server" else controllers(quorum)
    done = kraftline("quorum", f"--bootstrap-{kind}", address, "describe", "--status")
    rows = [line.split(":", 1) for line in done.stdout.splitlines()]
    fields = {key: value.strip() for key, value in rows}
    assert fields["ClusterId"] == quorum.status()["cluster_id"]
    assert fields["LeaderId"] in ("1", "2", "3")
    assert int(fields["LeaderEpoch"]) >= 1
    assert [voter["id"] for voter in json.loads(fields["CurrentVoters"])] == [1, 2, 3]
    assert json.loads(fields["CurrentObservers"]) == []


def test_quorum_replication(quorum: Quorum) -> None:
    done = kraftline("quorum", "--bootstrap-server", quorum.bootstrap, "describe", "--replication")
    head, *rows = (line.split() for line in done.stdout.splitlines())
    assert head[:4] == ["NodeId", "DirectoryId", "LogEndOffset", "Lag"]
    assert sorted(row[0] for row in rows) == ["1", "2", "3"]
    assert sorted(row[-1] for row in rows) == ["Follower", "Follower", "Leader"]


@pytest.mark.parametrize("node_id", [1, 2, 3])
def test_dump_log_of_a_running_node(quorum: Quorum, topic: str, node_id: int) -> None:
    segments = sorted(quorum.metadata_log(node_id).glob("*.log"))
    assert segments
    files = ",".join(str(path) for path in segments)
    done = kraftline("dump-log", "--cluster-metadata-decoder", "--files", files)
    assert "LeaderChange" in done.stdout
    assert '"type":"REGISTER_BROKER_RECORD"' in done.stdout
    assert "isvalid: false" not in done.stdout


def test_nobody_there(quorum: Quorum) -> None:
    for words in (
        ("topics", "--bootstrap-server", UNREACHABLE, "--list"),
        ("quorum", "--bootstrap-server", UNREACHABLE, "describe", "--status"),
    ):
        done = kraftline(*words, expect=1)
        assert "no node can be reached" in done.stdout + done.stderr


def test_unknown_command() -> None:
    assert "unknown command 'bogus'" in kraftline("bogus", expect=2).stderr
