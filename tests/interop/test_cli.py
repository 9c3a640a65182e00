"""The commands of `kraftline`, as a person runs them, against nodes that run."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

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


def command(quorum: Quorum, name: str, *words: str, expect: int = 0) -> str:
    """Output of a command that asks the brokers."""
    done = kraftline(name, "--bootstrap-server", quorum.bootstrap, *words, expect=expect)
    return done.stdout if expect == 0 else done.stdout + done.stderr


def test_topics_get_more_partitions(quorum: Quorum, topic: str) -> None:
    assert command(quorum, "topics", "--alter", "--topic", topic, "--partitions", "5") == ""
    assert "PartitionCount: 5" in command(quorum, "topics", "--describe", "--topic", topic)
    again = command(quorum, "topics", "--alter", "--topic", topic, "--partitions", "5", expect=1)
    assert "Topic already has 5 partition(s)." in again


def test_configs_of_a_topic(quorum: Quorum, topic: str) -> None:
    of_topic = ("--entity-type", "topics", "--entity-name", topic)
    done = command(quorum, "configs", "--alter", *of_topic, "--add-config", "retention.ms=86400000")
    assert done == f"Completed updating config for topic {topic}.\n"
    shown = command(quorum, "configs", "--describe", *of_topic)
    assert "  retention.ms=86400000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:" in shown
    command(quorum, "configs", "--alter", *of_topic, "--delete-config", "retention.ms")
    assert "retention.ms" not in command(quorum, "configs", "--describe", *of_topic)


@pytest.mark.parametrize("node_id", [1, 2, 3])
def test_configs_of_a_broker_are_told_by_itself(quorum: Quorum, node_id: int) -> None:
    words = ("--describe", "--all", "--entity-type", "brokers", "--entity-name", str(node_id))
    assert f"  node.id={node_id} sensitive=false" in command(quorum, "configs", *words)


def test_quotas_and_credentials(quorum: Quorum) -> None:
    of_user = ("--entity-type", "users", "--entity-name", "cli-alice")
    for change in ("producer_byte_rate=1024", "SCRAM-SHA-256=[iterations=4096,password=pw]"):
        command(quorum, "configs", "--alter", *of_user, "--add-config", change)
    assert command(quorum, "configs", "--describe", *of_user) == (
        "Quota configs for user-principal 'cli-alice' are producer_byte_rate=1024.0\n"
        "SCRAM credential configs for user-principal 'cli-alice' are "
        "SCRAM-SHA-256=iterations=4096\n"
    )
    for name in ("producer_byte_rate", "SCRAM-SHA-256"):
        command(quorum, "configs", "--alter", *of_user, "--delete-config", name)
    assert command(quorum, "configs", "--describe", *of_user) == ""


@pytest.mark.parametrize("kind", ["server", "controller"])
def test_features(quorum: Quorum, kind: str) -> None:
    addresses = quorum.bootstrap if kind == "server" else controllers(quorum)
    shown = kraftline("features", f"--bootstrap-{kind}", addresses, "describe").stdout
    assert any(line.startswith("Feature: metadata.version ") for line in shown.splitlines())
    words = ("upgrade", "--feature", "no.such.feature=3")
    refused = kraftline("features", f"--bootstrap-{kind}", addresses, *words, expect=1)
    assert refused.stdout.startswith("Could not upgrade no.such.feature to 3. ")
    assert refused.stderr == "1 out of 1 operation(s) failed.\n"


def test_partitions_move_and_are_verified(quorum: Quorum, topic: str, tmp_path: Path) -> None:
    plan = {"topic": topic, "partition": 0, "replicas": [3, 2, 1]}
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"version": 1, "partitions": [plan]}), encoding="utf-8")
    named = ("--reassignment-json-file", str(file))
    started = command(quorum, "reassign", "--execute", *named)
    assert f"Successfully started partition reassignment for {topic}-0" in started
    assert f"Reassignment of partition {topic}-0 is completed." in (
        command(quorum, "reassign", "--verify", *named)
    )
    assert command(quorum, "reassign", "--list") == "No partition reassignments found.\n"
    words = ("--election-type", "preferred", "--topic", topic, "--partition", "0")
    assert f"{topic}-0" in command(quorum, "leader-election", *words)
    words = ("--election-type", "preferred", "--topic", topic, "--partition", "9")
    assert "1 replica(s) could not be elected" in (
        command(quorum, "leader-election", *words, expect=1)
    )


def test_cluster(quorum: Quorum) -> None:
    cluster_id = quorum.status()["cluster_id"]
    done = kraftline("cluster", "cluster-id", "--bootstrap-server", quorum.bootstrap)
    assert done.stdout == f"Cluster ID: {cluster_id}\n"
    words = ("list-endpoints", "--bootstrap-controller", controllers(quorum))
    rows = kraftline("cluster", *words).stdout.splitlines()
    assert [row.split()[0] for row in rows] == ["ID", "1", "2", "3"]
    words = ("unregister", "--bootstrap-server", quorum.bootstrap, "--id", "999")
    assert kraftline("cluster", *words, expect=1).stderr == (
        "Broker ID 999 is not currently registered\n"
    )


def test_acls_without_an_authorizer_are_refused(quorum: Quorum) -> None:
    refused = command(quorum, "acls", "--list", expect=1)
    assert refused == "No Authorizer is configured on the broker\n"


@pytest.mark.parametrize("which", [0, 1, 2])
def test_any_controller_leads_to_the_leader(quorum: Quorum, which: int) -> None:
    address = controllers(quorum).split(",")[which]
    done = kraftline("quorum", "--bootstrap-controller", address, "describe", "--status")
    assert "LeaderId:" in done.stdout


def test_a_directory_that_is_no_voter_is_not_removed(quorum: Quorum) -> None:
    words = ("remove-controller", "-i", "3", "-d", "A" * 21 + "Q")
    refused = kraftline("quorum", "--bootstrap-controller", controllers(quorum), *words, expect=1)
    assert "Cannot remove voter ReplicaKey(id=3, directoryId=AAAAAAAAAAAAAAAAAAAAAQ)" in (
        refused.stderr
    )


def test_logs_of_a_running_cluster_are_whole_and_equal(quorum: Quorum, topic: str) -> None:
    folders = [str(quorum.metadata_log(node_id)) for node_id in (1, 2, 3)]
    done = kraftline("log", "verify", *folders)
    assert ": 0 errors, " in done.stdout.splitlines()[-1]
    shown = kraftline("at", "end", "topics", folders[0]).stdout
    assert f"Topic: {topic}\t" in shown
    changes = kraftline("diff", "0", "end", "--in", folders[0], expect=1).stdout
    assert f"+ topic {topic} " in changes


def test_the_past_by_a_running_node(quorum: Quorum, topic: str) -> None:
    node = f"http://127.0.0.1:{quorum.base_port + 2 * CONTROLLER_PORT_DISTANCE}"
    end = json.loads(command(quorum, "quorum", "describe", "--status", "--json"))["high_watermark"]
    assert f"name={topic} " in kraftline("at", str(end), "topics", node).stdout
    changes = kraftline("diff", "0", str(end), "--in", node, expect=1).stdout
    assert f"+ topic {topic} " in changes
    assert "only records below" in kraftline("at", "99999999", "topics", node, expect=1).stderr


def test_nobody_there(quorum: Quorum) -> None:
    for words in (
        ("topics", "--bootstrap-server", UNREACHABLE, "--list"),
        ("quorum", "--bootstrap-server", UNREACHABLE, "describe", "--status"),
    ):
        done = kraftline(*words, expect=1)
        assert "no node can be reached" in done.stdout + done.stderr


def test_unknown_command() -> None:
    assert "unknown command 'bogus'" in kraftline("bogus", expect=2).stderr
