"""`--json` of every command that asks a cluster: one object, with what the lines say."""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.recorded_cluster import RecordedCluster

S = ["--bootstrap-server", "h:1", "--json"]
OFFSET = 209
PLAN = {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [101, 102]}]}

CASES: list[tuple[str, list[str], dict[str, Any]]] = [
    ("topics", ["--create", "--topic", "fresh"], {"created": ["fresh"]}),
    ("topics", ["--create", "--topic", "orders", "--if-not-exists"], {"created": []}),
    ("topics", ["--delete", "--topic", "s-rd-.*"], {"deleted": ["s-rd-one", "s-rd-two"]}),
    ("configs", ["--alter", "--topic", "orders", "--add-config", "retention.ms=1"],
     {"completed": {"type": "topics", "name": "orders"}}),
    ("configs", ["--describe", "--topic", "missing"], {"resources": []}),
    ("features", ["upgrade", "--feature", "no.such=3"],
     {"dry_run": False, "features": [{"name": "no.such", "level": 3, "error":
      "The update failed for all features since the following feature had an error: Invalid "
      "update version 3 for feature no.such. Local controller 3 does not support this feature."}]}),
    ("acls", ["--add", "--allow-principal", "User:x", "--operation", "Read", "--topic", "t"],
     {"added": [{"resource_type": "TOPIC", "name": "t", "pattern_type": "LITERAL",
                 "principal": "User:x", "host": "*", "operation": "READ",
                 "permission": "ALLOW"}]}),
    ("acls", ["--remove", "--force", "--topic", "never"], {"removed": []}),
    ("reassign", ["--list"], {"reassignments": []}),
    ("reassign", ["--execute", "--reassignment-json-file", "plan.json"],
     {"started": ["orders-0"], "moves": []}),
    ("reassign", ["--cancel", "--reassignment-json-file", "plan.json"],
     {"cancelled": [], "moves": []}),
    ("leader-election", ["--election-type", "preferred", "--topic", "nope", "--partition", "0"],
     {"elected": [], "already_elected": [], "failed": {"nope-0":
      "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: No such topic as nope"}}),
    ("cluster", ["cluster-id"], {"cluster_id": "Z29sZGVuLXNoYXJlZC0wMQ"}),
]  # fmt: skip


@pytest.mark.parametrize(("command", "words", "expected"), CASES, ids=lambda v: str(v)[:40])
def test_one_object(
    command: str, words: list[str], expected: dict[str, Any], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.json").write_text(json.dumps(PLAN))
    module = importlib.import_module(f"cli.admin.{command.replace('-', '_')}")
    flags = [*words, *S] if words[0][0] != "-" and command != "features" else [*S, *words]
    if command == "features":
        flags = [*S[:2], *words, "--json"]
    module.run(flags, RecordedCluster("static-4.3.1", OFFSET).opened)
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == expected


def answer(command: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> Any:
    module = importlib.import_module(f"cli.admin.{command}")
    assert module.run(words, RecordedCluster("static-4.3.1", OFFSET).opened) == 0
    return json.loads(capsys.readouterr().out)


def test_described_configs_have_types_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*S, "--describe", "--all", "--entity-type", "topics", "--entity-name", "orders"]
    (resource,) = answer("configs", words, capsys)["resources"]
    by_name = {config["name"]: config for config in resource["configs"]}
    assert by_name["cleanup.policy"]["sensitive"] is False
    assert by_name["segment.bytes"]["source"] == "DEFAULT_CONFIG"
    assert list(by_name) == sorted(by_name)


def test_users_have_quotas_and_credentials(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer("configs", [*S, "--describe", "--entity-type", "users"], capsys)
    assert {"user": "alice"} in [row["entity"] for row in found["quotas"]]
    assert "alice-boot" in [user["user"] for user in found["scram"]]


def test_features_are_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer("features", [*S[:2], "describe", "--json"], capsys)
    by_name = {row["name"]: row for row in found["features"]}
    assert by_name["metadata.version"]["finalized"] == 30
    assert found["epoch"] == OFFSET - 1


def test_endpoints_have_ports(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer("cluster", ["list-endpoints", *S], capsys)
    assert found["type"] == "broker"
    assert all(isinstance(node["port"], int) for node in found["nodes"])


def test_listed_acls(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer("acls", [*S, "--list", "--principal", "User:ops"], capsys)
    assert [row["operation"] for row in found["acls"]] == ["ALTER"]


def test_a_proposal_is_two_plans(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "topics.json"
    path.write_text(json.dumps({"topics": [{"topic": "orders"}]}))
    words = ["--generate", "--topics-to-move-json-file", str(path), "--broker-list", "101,102,103"]
    found = answer("reassign", [*S, *words], capsys)
    assert len(found["current"]["partitions"]) == len(found["proposed"]["partitions"]) == 6
