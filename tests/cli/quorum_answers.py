"""Answers of Kafka's metadata quorum to the recorded commands, from where they were recorded.

A verdict says which of the two it is:

- `frame`: the response that the recording proxy saw for this command (or for the command just
  before it: the verdict is then "apart from moment"). Our request must be the recorded one.
- `table`: no response was recorded. Leader, epoch, voters, observers, directory ids, ends and
  addresses are those of Kafka's log at the times that a `--replication` output has. The answer to
  `--status` takes the times of the `--replication` output that was taken next. That output is its
  own table: its two columns of times say where in the log each row was. They are compared only as
  far as the log goes: who fetched at its end was caught up at that very time.

The order of the observers is that of a Java hash map: `--status` is given that of its table, a
table that of its `--status` output.
"""

import json
from dataclasses import replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

from kio.schema.describe_quorum.v2 import response
from kio.schema.errors import ErrorCode

from metadata.control_records import KRaftVoters, LeaderChange, control_type, decode_control
from tests.cli.golden import Recorded, Verdict, outputs
from tests.cli.recorded_cluster import states
from tests.metadata.golden_logs import checkpoints, log_batches, log_bytes
from tests.wire.recorded_pairs import pairs
from wire.batches.batch import iterate_batches
from wire.messages import codec

DESCRIBE_QUORUM, ADD_VOTER = 55, 80
PROPERTIES = Path(__file__).resolve().parent.parent / "golden" / "node" / "server_properties.jsonl"
HUMAN_NOW_MS = 1_795_256_194_923
"""Time of the one output with ages: its row of node 1 says `129 ms ago`."""

LINGER_MS = 25
"""controller.quorum.append.linger.ms of the recorded nodes: from a batch's time stamp until the
leader appends it; control batches are appended at once."""

Listeners = tuple[tuple[str, str, int], ...]


def recorded_answer(run: Recorded, held: Verdict) -> Any:
    """The response that the run's command is given; None where it asks the quorum nothing."""
    if held.frame is not None:
        pair = _pair(run, held.frame)
        frame = bytes.fromhex(pair["response_hex"])
        return codec.decode_response(pair["api_key"], pair["api_version"], frame)[1]
    if held.table is not None:
        return answer_of_log(run, outputs()[held.table])
    return None


def recorded_request(run: Recorded, held: Verdict) -> Any:
    """The request of the run's frame, in the newest shape, without its timeout."""
    assert held.frame is not None
    pair = _pair(run, held.frame)
    header, position = codec.split_request(bytes.fromhex(pair["request_hex"]))
    body = memoryview(bytes.fromhex(pair["request_hex"]))[position:]
    return without_timeout(codec.decode_request(header.api_key, header.api_version, body))


def without_timeout(body: Any) -> Any:
    """A request without the time that is left of the client's thirty seconds."""
    return replace(body, timeout=timedelta(0)) if hasattr(body, "timeout") else body


def _pair(run: Recorded, ms: int) -> dict[str, Any]:
    key = run.scenario, ms
    (pair,) = [p for p in pairs() if (p["scenario"], p["ms"]) == key and p["api_key"] in _ASKED]
    return pair  # type: ignore[no-any-return]


_ASKED = (DESCRIBE_QUORUM, ADD_VOTER, ADD_VOTER + 1)


def _end_offset_at(scenario: str, ms: int) -> int:
    """The end of the leader's log at a time; -1 for a replica that never fetched from it."""
    if ms < 0:
        return -1
    headers = [batch.header for batch in iterate_batches(log_bytes(scenario))]
    lingers = [0 if header.is_control else LINGER_MS for header in headers]
    return max(
        int(header.end_offset)
        for header, linger in zip(headers, lingers, strict=True)
        if header.max_timestamp_ms + linger <= ms
    )


def _times(table: Recorded) -> list[tuple[int, int]]:
    """(last fetch, last caught up) of each row: the leader, other voters by id, observers."""
    rows = [line.split("\t") for line in table.stdout.splitlines()[1:]]
    return [(int(fetched), int(caught_up)) for *_, fetched, caught_up, _, _ in filter(any, rows)]


def _observers(run: Recorded, table: Recorded) -> list[int]:
    """Ids of the observers in the order of the other output of that moment."""
    if run is not table:
        rows = [line.split("\t") for line in table.stdout.splitlines()]
        return [int(row[0]) for row in rows if row[6].strip() == "Observer"]
    status = outputs()[run.name.replace("replication", "status")].stdout
    (line,) = [line for line in status.splitlines() if line.startswith("CurrentObservers:")]
    return [node["id"] for node in json.loads(line.partition(":")[2])]


def answer_of_log(run: Recorded, table: Recorded) -> Any:
    """The answer for the output of a run, from the log at the times of a table."""
    scenario, times = run.scenario, _times(table)
    end = _end_offset_at(scenario, times[0][1])
    (*_, change) = _controls(scenario, LeaderChange, end)
    leader = int(change.leader_id)
    voters = _voters(scenario, end, change)
    known = _directories(scenario, end)
    observers = sorted(known.keys() - voters, key=_observers(run, table).index)
    replicas = [leader, *sorted(voters.keys() - {leader}), *observers]
    found = [
        _state(scenario, voters.get(node, known.get(node)), node, row)
        for node, row in zip(replicas, times, strict=True)
    ]
    (now_ms, leader_ms), *others = times
    assert now_ms == leader_ms, "the leader is caught up with itself"
    assert all(caught_up <= fetched <= now_ms for fetched, caught_up in others)
    states = sorted(found[: len(voters)], key=lambda state: int(state.replica_id))
    ends = sorted((int(state.log_end_offset) for state in states), reverse=True)
    partition = response.PartitionData(
        partition_index=0,
        error_code=ErrorCode.none,
        error_message="",
        leader_id=leader,
        leader_epoch=next(b.epoch for b in log_batches(scenario) if b.end_offset >= end),
        high_watermark=ends[len(ends) // 2],  # what a majority has
        current_voters=tuple(states),
        observers=tuple(found[len(voters) :]),
    )
    return _answer(partition, _listeners(scenario, end))


def _state(scenario: str, directory: UUID | None, node: int, times: tuple[int, int]) -> Any:
    """A replica's state: who fetched at the end of the leader's log was caught up just then."""
    fetched, caught_up = times
    end = _end_offset_at(scenario, caught_up)
    return response.ReplicaState(
        replica_id=node,
        replica_directory_id=directory,
        log_end_offset=end,
        last_fetch_timestamp=caught_up if _end_offset_at(scenario, fetched) == end else fetched,
        last_caught_up_timestamp=caught_up,
    )


def _voters(scenario: str, end_offset: int, change: LeaderChange) -> dict[int, UUID | None]:
    """Ids of the voters with their directory ids, which a static quorum does not know."""
    known = _controls(scenario, KRaftVoters, end_offset)
    if not known:
        return {int(voter.voter_id): None for voter in change.voters}
    return {int(v.voter_id): UUID(bytes=v.voter_directory_id) for v in known[-1].voters}


def _directories(scenario: str, end_offset: int) -> dict[int, UUID]:
    """The directory that has the metadata, of each broker and controller that has registered.

    A controller is registered without it; each that is no voter was or became one. Of a broker with
    two directories it is the second.
    """
    image = states(scenario)[max(end for end in states(scenario) if end <= end_offset)]
    found = {int(broker.id): UUID(bytes=broker.log_dirs[-1]) for broker in image.brokers.values()}
    for record in _controls(scenario, KRaftVoters):
        for voter in record.voters:
            if voter.voter_id in image.controllers:
                found[int(voter.voter_id)] = UUID(bytes=voter.voter_directory_id)
    return found


def _answer(partition: Any, listeners: dict[int, Listeners]) -> Any:
    topic = response.TopicData(topic_name="__cluster_metadata", partitions=(partition,))
    nodes = [
        response.Node(
            node_id=node,
            listeners=tuple(response.Listener(name=n, host=h, port=p) for n, h, p in found),
        )
        for node, found in listeners.items()
    ]
    return response.DescribeQuorumResponse(
        error_code=ErrorCode.none, error_message="", topics=(topic,), nodes=tuple(nodes)
    )


@cache
def _control_records(scenario: str) -> list[tuple[int, Any]]:
    """(offset, record) of the control records of a scenario, those of the first snapshot too."""
    contents = [content for end, _, content in checkpoints(scenario) if end == 0]
    return [
        (int(batch.header.base_offset), decode_control(control_type(record.key), record.value))
        for content in (*contents, log_bytes(scenario))
        for batch in iterate_batches(content)
        for record in (batch.records() if batch.header.is_control else ())
    ]


def _controls(scenario: str, kind: type, end_offset: int | None = None) -> list[Any]:
    """The control records of a kind, of the whole log or up to an offset."""
    return [
        record
        for offset, record in _control_records(scenario)
        if isinstance(record, kind) and (end_offset is None or offset < end_offset)
    ]


def _listeners(scenario: str, end_offset: int) -> dict[int, Listeners]:
    """The addresses of the voters: of the log, where it has them, else of server.properties."""
    known = _controls(scenario, KRaftVoters, end_offset)
    if known:
        return {
            voter.voter_id: tuple((e.name, e.host, e.port) for e in voter.endpoints)
            for voter in known[-1].voters
        }
    for line in PROPERTIES.read_text().splitlines():
        node = json.loads(line)
        if node["scenario"] == scenario:
            text = dict(part.split("=", 1) for part in node["text"].splitlines() if "=" in part)
            voters = [v.split("@") for v in text["controller.quorum.voters"].split(",")]
            addresses = {int(v): address.rpartition(":") for v, address in voters}
            return {v: (("CONTROLLER", h, int(p)),) for v, (h, _, p) in addresses.items()}
    raise AssertionError(f"{scenario=} has no addresses")
