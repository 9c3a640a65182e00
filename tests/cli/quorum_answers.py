"""Answers of Kafka's metadata quorum to the recorded commands, from where they were recorded.

A verdict says which of the three it is:

- `frame`: the response that the recording proxy saw for this command (or for the command just
  before it: the verdict is then "apart from moment"). Our request must be the recorded one.
- `table`: of a `--status`, the states in the `--replication` output that was taken next; the epoch
  is that of the log at this offset, the addresses are those of the log or of server.properties.
- `is_own_text`: a `--replication` table of which no response was recorded. The states are those of
  the table itself, so only its layout and the lags are compared. Such outputs are counted apart.
"""

import json
from dataclasses import replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
from kio.schema.describe_quorum.v2 import response
from kio.schema.errors import ErrorCode

from metadata.control_records import KRaftVoters, control_type, decode_control
from storage.meta_properties import decode_uuid
from tests.cli.golden import Recorded, Verdict, outputs
from tests.metadata.golden_logs import checkpoints, log_batches, log_bytes
from tests.quorum_controller.recorded_pairs import pairs
from wire import codec
from wire.batch import iterate_batches

DESCRIBE_QUORUM, ADD_VOTER = 55, 80
PROPERTIES = Path(__file__).resolve().parent.parent / "golden" / "node" / "server_properties.jsonl"
HUMAN_NOW_MS = 1_795_256_194_923
"""When the one output with ages was printed: its row of node 1 says `129 ms ago`."""

Listeners = tuple[tuple[str, str, int], ...]


def recorded_answer(run: Recorded, held: Verdict) -> Any:
    """The response that the run's command is given; None where it asks the quorum nothing."""
    if held.frame is not None:
        pair = _pair(run, held.frame)
        frame = bytes.fromhex(pair["response_hex"])
        return codec.decode_response(pair["api_key"], pair["api_version"], frame)[1]
    if held.table is not None:
        return _of_table(outputs()[held.table])
    if held.is_own_text:
        return _answer(_states(run.stdout), epoch=1, mark=1, listeners={})
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


class States(msgspec.Struct, frozen=True):
    """What a `--replication` output says."""

    leader: int
    voters: list[Any]
    """By id, as Kafka has them."""
    observers: list[Any]


def _states(table: str) -> States:
    rows = [[cell.strip() for cell in line.split("\t")] for line in table.splitlines()[1:]]
    found: dict[str, list[Any]] = {"Leader": [], "Follower": [], "Observer": []}
    for node, directory, end, _lag, fetch, caught_up, status, *_ in filter(any, rows):
        identifier = decode_uuid(directory)
        state = response.ReplicaState(
            replica_id=int(node),
            replica_directory_id=UUID(bytes=identifier) if any(identifier) else None,
            log_end_offset=int(end),
            last_fetch_timestamp=int(fetch),
            last_caught_up_timestamp=int(caught_up),
        )
        found[status].append(state)
    (leader,) = found["Leader"]
    voters = sorted([leader, *found["Follower"]], key=lambda state: int(state.replica_id))
    return States(int(leader.replica_id), voters, found["Observer"])


def _of_table(run: Recorded) -> Any:
    states = _states(run.stdout)
    ends = sorted((int(state.log_end_offset) for state in states.voters), reverse=True)
    mark = ends[len(ends) // 2]  # what a majority has
    epoch = next(b.epoch for b in log_batches(run.scenario) if b.end_offset >= mark)
    return _answer(states, epoch=epoch, mark=mark, listeners=_listeners(run.scenario, mark))


def _answer(states: States, *, epoch: int, mark: int, listeners: dict[int, Listeners]) -> Any:
    partition = response.PartitionData(
        partition_index=0,
        error_code=ErrorCode.none,
        error_message=None,
        leader_id=states.leader,
        leader_epoch=epoch,
        high_watermark=mark,
        current_voters=tuple(states.voters),
        observers=tuple(states.observers),
    )
    topic = response.TopicData(topic_name="__cluster_metadata", partitions=(partition,))
    nodes = [
        response.Node(
            node_id=node,
            listeners=tuple(response.Listener(name=n, host=h, port=p) for n, h, p in found),
        )
        for node, found in listeners.items()
    ]
    return response.DescribeQuorumResponse(
        error_code=ErrorCode.none, error_message=None, topics=(topic,), nodes=tuple(nodes)
    )


@cache
def _voters_of_log(scenario: str) -> list[tuple[int, KRaftVoters]]:
    """(offset, record) of the KRaftVoters records of a scenario, that of the first snapshot too."""
    found = []
    contents = [content for end, _, content in checkpoints(scenario) if end == 0]
    for content in (*contents, log_bytes(scenario)):
        for batch in iterate_batches(content):
            for record in batch.records() if batch.header.is_control else ():
                known = decode_control(control_type(record.key), record.value)
                if isinstance(known, KRaftVoters):
                    found.append((batch.header.base_offset, known))
    return found


def _listeners(scenario: str, end_offset: int) -> dict[int, Listeners]:
    """The addresses of the voters: of the log, where it has them, else of server.properties."""
    known = [record for offset, record in _voters_of_log(scenario) if offset < end_offset]
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
