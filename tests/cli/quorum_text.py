"""DescribeQuorum responses made from what kafka-metadata-quorum printed of them."""

import json
import re
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from kio.schema.describe_quorum.v2 import response
from kio.schema.errors import ErrorCode

from storage.meta_properties import decode_uuid
from tests.cli.golden import Recorded

HUMAN_NOW_MS = 10_000_000
"""The time for which ages were turned into instants."""


def quorum_answer(run: Recorded) -> Any:
    """The response behind an output of `describe`; None behind anything else."""
    if not run.stdout or run.exit:
        return None
    if run.stdout.startswith("ClusterId"):
        return _of_status(run.stdout)
    return _of_replication(run.stdout) if run.stdout.startswith("NodeId") else None


def voter_change(run: Recorded) -> Any:
    """The answer behind an output of adding or removing a voter of a dynamic quorum."""
    if not run.scenario.startswith("dynamic"):
        return None
    errors = {"DuplicateVoterException": 126, "VoterNotFoundException": 127}
    for name, code in errors.items():
        if name in run.stderr:
            message = run.stderr.partition(f"{name}: ")[2].partition("\n")[0]
            return SimpleNamespace(error_code=code, error_message=message)
    return SimpleNamespace(error_code=0, error_message=None)


def _state(node: int, directory: str | None, end: int = 0, caught_up: int = -1, fetch: int = -1):
    identifier = decode_uuid(directory) if directory else bytes(16)
    return response.ReplicaState(
        replica_id=node,
        replica_directory_id=UUID(bytes=identifier) if any(identifier) else None,
        log_end_offset=end,
        last_fetch_timestamp=fetch,
        last_caught_up_timestamp=caught_up,
    )


def _answer(leader: int, epoch: int, mark: int, voters, observers, nodes=()) -> Any:
    partition = response.PartitionData(
        partition_index=0,
        error_code=ErrorCode.none,
        error_message=None,
        leader_id=leader,
        leader_epoch=epoch,
        high_watermark=mark,
        current_voters=tuple(voters),
        observers=tuple(observers),
    )
    topic = response.TopicData(topic_name="__cluster_metadata", partitions=(partition,))
    return response.DescribeQuorumResponse(
        error_code=ErrorCode.none, error_message=None, topics=(topic,), nodes=tuple(nodes)
    )


def _of_status(text: str) -> Any:
    """Lags are printed of the slowest voter only, so one that is not the leader gets them."""
    fields = dict(line.split(":", 1) for line in text.splitlines() if line)
    voters = json.loads(fields["CurrentVoters"])
    leader, lag, late_ms = (
        int(fields[name]) for name in ("LeaderId", "MaxFollowerLag", "MaxFollowerLagTimeMs")
    )
    slow = next((v["id"] for v in voters if v["id"] != leader), None) if lag or late_ms else None
    states = []
    for voter in voters:
        is_slow = voter["id"] == slow
        end = 1000 - lag if is_slow or lag == 0 else 1000
        if slow is not None and lag == 0:
            end = 1000
        caught_up = (5000 - late_ms if late_ms >= 0 else -1) if is_slow else 5000
        states.append((is_slow, _state(voter["id"], voter.get("directoryId"), end, caught_up)))
    nodes = [
        response.Node(node_id=v["id"], listeners=tuple(map(_listener, v["endpoints"])))
        for v in voters
    ]
    observers = [_state(o["id"], o["directoryId"]) for o in json.loads(fields["CurrentObservers"])]
    if leader not in [voter["id"] for voter in voters]:
        observers.append(_state(leader, None, 1000, 5000))
    return _answer(
        leader,
        int(fields["LeaderEpoch"]),
        int(fields["HighWatermark"]),
        [state for _, state in states],
        observers,
        nodes,
    )


def _listener(text: str) -> Any:
    match = re.fullmatch(r"(\w+)://(.*):(\d+)", text)
    assert match
    return response.Listener(name=match[1], host=match[2], port=int(match[3]))


def _of_replication(text: str) -> Any:
    rows = [[cell.strip() for cell in line.split("\t")] for line in text.splitlines()[1:]]
    replicas: dict[str, list[Any]] = {"Leader": [], "Follower": [], "Observer": []}
    for node, directory, end, _lag, fetch, caught_up, status, *_ in filter(any, rows):
        times = [
            int(age) if age.lstrip("-").isdigit() else HUMAN_NOW_MS - int(age.split()[0])
            for age in (fetch, caught_up)
        ]
        replicas[status].append(_state(int(node), directory, int(end), times[1], times[0]))
    voters = [*replicas["Leader"], *replicas["Follower"]]
    return _answer(int(rows[0][0]), 1, 1, voters, replicas["Observer"])
