"""Replicas, fetches and stored batches as lines of text.

Ends are exclusive: `[0,2)` are two records. Changes of a replica by one step are one line, a Fetch
of a follower and its answer are two; one that names no partition gives none.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from replication.leader.isr import CommittedPartitionState, PartitionState, committed_isr
from replication.leader.leadership import Leadership
from replication.partition import Partition
from replication.roles import Following
from simulator.checks.partitions.record_logs import StoredBatch, whole_batches
from simulator.cluster.network import Pipe
from wire.api_keys import FETCH
from wire.batches.batch import iterate_batches
from wire.errors import ErrorCode
from wire.messages import codec
from wire.messages.fetch_request import BrokerFetchRequest, decode_fetch_request
from wire.messages.replica_fetch import ReplicaFetchedPartition, decode_replica_fetched

LENGTH_BYTES: Final = 4
CORRELATION_AT: Final = 4
"""Position of the correlation id in a request; a response begins with it."""
RESPONSE_BODY_AT: Final = 5
"""Behind the correlation id and an empty list of tagged fields."""
NONE: Final = -1


class ReplicaView(msgspec.Struct, frozen=True, kw_only=True):
    """A replica as a scenario shows it; without a log its ends are None."""

    role: str
    leader_epoch: int
    isr: tuple[int, ...] | None
    proposed: tuple[int, ...] | None
    """ISR that the controller is asked for."""
    log_start: int | None
    high_watermark: int | None
    end: int | None


def view_of(partition: Partition) -> ReplicaView:
    """Take what is shown of a replica."""
    role, log = partition.role, partition.log
    isr: tuple[int, ...] | None = None
    proposed: tuple[int, ...] | None = None
    if isinstance(role, Leadership):
        name, isr = "leader", tuple(map(int, committed_isr(role.state)))
        proposed = _proposed(role.state)
    elif isinstance(role, Following):
        leader = role.leader_id
        name = "follower without a leader" if leader is None else f"follower of {leader}"
    else:
        name = _offline(role.code)
    return ReplicaView(
        role=name,
        leader_epoch=int(partition.leader_epoch),
        isr=isr,
        proposed=proposed,
        log_start=None if log is None else log.log_start_offset,
        high_watermark=None if log is None else log.high_watermark,
        end=None if log is None else log.end_offset,
    )


def _proposed(state: PartitionState) -> tuple[int, ...] | None:
    if isinstance(state, CommittedPartitionState):
        return None
    return tuple(int(node_id) for node_id, _ in state.proposed.isr)


def _offline(code: ErrorCode) -> str:
    return f"offline {code.name}"


def view_text(view: ReplicaView) -> str:
    """All of a replica."""
    words = [f"{view.role} epoch={view.leader_epoch}"]
    if view.isr is not None:
        words.append(f"isr={_ids(view.isr)}")
    if view.proposed is not None:
        words.append(f"proposes={_ids(view.proposed)}")
    if view.end is not None:
        words.append(f"log=[{view.log_start},{view.end}) hw={view.high_watermark}")
    return " ".join(words)


def change_text(before: ReplicaView | None, after: ReplicaView) -> str:
    """The change of a replica by one step; empty if nothing is to be told."""
    is_same_role = (
        before is not None
        and (before.role, before.leader_epoch) == (after.role, after.leader_epoch)
        and before.end is not None
        and after.end is not None
    )
    if before is None or not is_same_role:
        return "" if after.end is None else view_text(after)
    assert before.end is not None, f"{before=}"
    assert after.end is not None, f"{after=}"
    assert after.log_start is not None, f"{after=}"
    words = []
    if after.log_start > before.end:
        words.append(f"begins anew at {after.log_start}")
    elif after.end > before.end:
        words.append(f"appends [{before.end},{after.end})")
    if after.end < before.end:
        words.append(f"truncates to {after.end}")
    if before.log_start != after.log_start <= before.end:
        words.append(f"log start={after.log_start}")
    if after.high_watermark != before.high_watermark:
        words.append(f"hw={after.high_watermark}")
    if after.isr != before.isr and after.isr is not None:
        words.append(f"isr={_ids(after.isr)}")
    if after.proposed != before.proposed and after.proposed is not None:
        words.append(f"proposes={_ids(after.proposed)}")
    return " ".join(words)


def _ids(ids: Sequence[int]) -> str:
    return ",".join(map(str, sorted(ids))) or "-"


def batch_text(batch: StoredBatch) -> str:
    """A batch of a file."""
    place = f"[{batch.base_offset},{batch.end_offset}) epoch={batch.leader_epoch}"
    if batch.marker is not None:
        how = "COMMIT" if batch.marker else "ABORT"
        return f"{place} producer={batch.producer_id}/{batch.producer_epoch} {how}"
    values = " ".join(map(_value_text, batch.values))
    producer = "" if batch.producer_id < 0 else _producer_text(batch)
    return f"{place}{producer} {values}"


def _value_text(value: bytes) -> str:
    """A value; of one that is no text, as those of coordinators, its length."""
    is_text = value.isascii() and value.decode("ascii").isprintable()
    return value.decode("ascii") if is_text else f"({len(value)} bytes)"


def _producer_text(batch: StoredBatch) -> str:
    return f" producer={batch.producer_id} sequence={batch.base_sequence}"


def records_text(records: bytes) -> str:
    """Offsets and values of the whole batches of an answer; empty without any."""
    batches = list(iterate_batches(whole_batches(records)))
    if not batches:
        return ""
    values = " ".join(_value_text(r.value or b"") for batch in batches for r in batch.records())
    return f"[{batches[0].header.base_offset},{batches[-1].header.end_offset}) {values}"


class FetchTap:
    """Reads the Fetches between brokers out of the bytes that they send.

    Args:
        brokers: whose connections to each other are read.
        name_of: gives the text for a partition, by the id of its topic and its number.
    """

    def __init__(self, brokers: set[int], name_of: Callable[[bytes, int], str]) -> None:
        self._brokers = brokers
        self._name_of = name_of
        self._versions: dict[tuple[Pipe, int], int] = {}
        """(connection, correlation id) -> version of a Fetch request."""

    def lines_of(self, pipe: Pipe, data: bytes, *, to_server: bool) -> list[str]:
        """Lines for what a node sends to another."""
        client, server = pipe.hosts
        if not {client, server} <= self._brokers:
            return []
        lines: list[str] = []
        for frame in _frames(data):
            if to_server:
                lines += self._request(pipe, frame, f"{client} -> {server} Fetch")
            else:
                lines += self._response(pipe, frame, f"{server} => {client} Fetch")
        return lines

    def _request(self, pipe: Pipe, frame: bytes, who: str) -> list[str]:
        header, position = codec.split_request(frame)
        if header.api_key != FETCH:
            return []
        self._versions[pipe, header.correlation_id] = header.api_version
        request = decode_fetch_request(header.api_version, frame, position)
        return [f"{who} {text}" for text in self._rows(request)]

    def _rows(self, request: BrokerFetchRequest) -> list[str]:
        rows = []
        for row in request.partitions:
            assert isinstance(row.topic, bytes), f"{row=}"
            last_epoch = "-" if row.last_fetched_epoch == NONE else row.last_fetched_epoch
            name = self._name_of(row.topic, row.partition)
            epochs = f"last_epoch={last_epoch} epoch={row.current_leader_epoch}"
            rows.append(f"{name} offset={row.fetch_offset} {epochs}")
        return rows

    def _response(self, pipe: Pipe, frame: bytes, who: str) -> list[str]:
        correlation_id = int.from_bytes(frame[:LENGTH_BYTES], "big")
        version = self._versions.pop((pipe, correlation_id), None)
        if version is None:
            return []
        response = decode_replica_fetched(version, memoryview(frame), RESPONSE_BODY_AT)
        if response.code is not ErrorCode.none:
            return [f"{who} {response.code.name}"]
        return [f"{who} {self._answered(row)}" for row in response.partitions]

    def _answered(self, row: ReplicaFetchedPartition) -> str:
        name = self._name_of(bytes(row.key[0]), row.key[1])
        if row.code is not ErrorCode.none:
            return f"{name} {row.code.name}"
        words = [f"{name} hw={row.high_watermark}"]
        if row.diverging_epoch is not None:
            words.append(f"diverging={row.diverging_epoch.epoch}/{row.diverging_epoch.offset}")
        records = records_text(bytes(row.records))
        return " ".join([*words, *([f"records={records}"] if records else [])])


def _frames(data: bytes) -> list[bytes]:
    """Frames of a chunk, which holds whole ones."""
    frames, position = [], 0
    while position < len(data):
        end = position + LENGTH_BYTES + int.from_bytes(data[position : position + 4], "big")
        assert end <= len(data), "a frame is cut"
        frames.append(data[position + LENGTH_BYTES : end])
        position = end
    return frames


def produced_text(values: Sequence[str], body: Any) -> str:
    """The answer to a Produce."""
    what = " ".join(values)
    if body is None:
        return f"=> produce {what}: no answer"
    row = body.responses[0].partition_responses[0]
    if row.error_code is not ErrorCode.none:
        return f"=> produce {what}: {row.error_code.name}"
    return f"=> produce {what}: offset={row.base_offset}"


def consumed_text(offset: int, body: Any) -> str:
    """The answer to the Fetch of a consumer."""
    if body is None or not body.responses:
        return f"=> fetch {offset}: no answer"
    row = body.responses[0].partitions[0]
    if row.error_code is not ErrorCode.none:
        return f"=> fetch {offset}: {row.error_code.name}"
    records = records_text(bytes(row.records or b"")) or "nothing"
    return f"=> fetch {offset}: {records} hw={row.high_watermark}"
