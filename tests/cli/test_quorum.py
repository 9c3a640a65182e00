"""`quorum describe`: Kafka's printed text is read back into a response and must print the same."""

import json
import re
from pathlib import Path
from uuid import UUID

import pytest
from kio.schema.describe_quorum.v2 import response

from cli.main import main
from cli.quorum import QuorumView, replication_text, status_text
from storage.meta_properties import decode_uuid

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "cli" / "tools"
STATUS = sorted(GOLDEN.glob("*4.3.1/quorum-status-*.json"))
REPLICATION = sorted(GOLDEN.glob("*/quorum-replication*.json"))


def stdout_of(path: Path) -> str:
    return str(json.loads(path.read_text(encoding="utf-8"))["stdout"])


def state(node: int, directory: str | None, end: int = 0, caught_up: int = -1, fetch: int = -1):
    identifier = decode_uuid(directory) if directory else bytes(16)
    return response.ReplicaState(
        replica_id=node,
        replica_directory_id=UUID(bytes=identifier) if any(identifier) else None,
        log_end_offset=end,
        last_fetch_timestamp=fetch,
        last_caught_up_timestamp=caught_up,
    )


def view(leader: int, epoch: int, mark: int, voters, observers, nodes=(), cluster="c"):
    partition = response.PartitionData(
        partition_index=0,
        error_code=0,
        error_message=None,
        leader_id=leader,
        leader_epoch=epoch,
        high_watermark=mark,
        current_voters=tuple(voters),
        observers=tuple(observers),
    )
    return QuorumView(cluster, partition, tuple(nodes))


def listener(text: str):
    name, host, port = re.fullmatch(r"(\w+)://(.*):(\d+)", text).groups()
    return response.Listener(name=name, host=host, port=int(port))


@pytest.mark.parametrize("path", STATUS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_status(path: Path) -> None:
    expected = stdout_of(path)
    fields = dict(line.split(":", 1) for line in expected.splitlines() if line)
    voters = json.loads(fields["CurrentVoters"])
    leader, lag, late_ms = (
        int(fields[name]) for name in ("LeaderId", "MaxFollowerLag", "MaxFollowerLagTimeMs")
    )
    slow = next((v["id"] for v in voters if v["id"] != leader), None) if lag or late_ms else None
    states = [
        state(
            voter["id"],
            voter.get("directoryId"),
            1000 - lag if voter["id"] == slow else 1000 + (slow is not None and not lag),
            (5000 - late_ms if late_ms >= 0 else -1) if voter["id"] == slow else 5000,
        )
        for voter in voters
    ]
    if lag == 0 and slow is not None:  # behind in time only: equal ends, the slow one is first
        states = [state(s.replica_id, None, 7, s.last_caught_up_timestamp) for s in states]
        states = [
            state(voter["id"], voter.get("directoryId"), 7, s.last_caught_up_timestamp)
            for voter, s in zip(voters, states, strict=True)
        ]
    nodes = [
        response.Node(
            node_id=voter["id"],
            listeners=tuple(listener(text) for text in voter["endpoints"]),
        )
        for voter in voters
    ]
    observers = [state(o["id"], o["directoryId"]) for o in json.loads(fields["CurrentObservers"])]
    assert leader in [voter["id"] for voter in voters]
    shown = view(
        leader,
        int(fields["LeaderEpoch"]),
        int(fields["HighWatermark"]),
        states,
        observers,
        nodes,
        fields["ClusterId"].strip(),
    )
    assert status_text(shown).rstrip("\n") == expected.rstrip("\n")


@pytest.mark.parametrize("path", REPLICATION, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_replication(path: Path) -> None:
    expected = stdout_of(path)
    now_ms = 10_000_000 if "human" in path.name else None
    rows = [[cell.strip() for cell in line.split("\t")] for line in expected.splitlines()[1:]]
    replicas: dict[str, list[object]] = {"Leader": [], "Follower": [], "Observer": []}
    for node, directory, end, _lag, fetch, caught_up, status, *_ in filter(any, rows):
        times = [
            int(text) if now_ms is None else now_ms - int(text.split()[0])
            for text in (fetch, caught_up)
        ]
        replicas[status].append(state(int(node), directory, int(end), times[1], times[0]))
    voters = [*replicas["Leader"], *replicas["Follower"]]
    shown = view(int(rows[0][0]), 1, 1, voters, replicas["Observer"])
    assert replication_text(shown, now_ms=now_ms).rstrip("\n") == expected.rstrip("\n")


def test_describe_without_what(capsys: pytest.CaptureFixture[str]) -> None:
    golden = json.loads((GOLDEN / "static-4.3.1" / "quorum-describe-none.json").read_text())
    assert main(["quorum", "--bootstrap-server", "127.0.0.1:1", "describe"]) == golden["exit"]
    assert capsys.readouterr().err.strip() == golden["stderr"].strip()


def test_nobody_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quorum", "--bootstrap-server", "127.0.0.1:1", "describe", "--status"]) == 1
    assert "no node can be reached" in capsys.readouterr().err
