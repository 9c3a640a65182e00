"""Audit across replicas: the same batches at the same offsets, byte for byte.

Below the committed end they must be equal; on the metadata log also by Raft's log matching: equal
offset and epoch, equal prefix. A batch is compared by base offset, last offset, epoch, record
count and checksum: the checksum covers everything from the attributes on, but neither base offset
nor epoch. Compaction works on each replica by itself, so the batches of a compacted partition may
differ: then the records that both still have are compared instead.
"""

import itertools
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np

from pipeline.core.audit.cleaned_records import LogBatches, compare_records
from pipeline.core.audit.findings import (
    ERROR,
    INFO,
    WARN,
    FileReport,
    Finding,
    in_file,
    in_partition,
)
from pipeline.core.reading.discovery import PartitionFiles
from storage.log_dir.partition_metadata import PARTITION_METADATA_NAME
from wire.types import METADATA_TOPIC_NAME

MISSING: Final = "missing"
CRC: Final = "crc_diff"
EPOCH: Final = "epoch_diff"
BOUNDARY: Final = "boundary_diff"
_COMPARED: Final = ("base", "last", "crc", "epoch", "count")


class Replica(msgspec.Struct, frozen=True):
    """One copy with the reports of its segments in offset order."""

    copy: PartitionFiles
    reports: tuple[FileReport, ...]


class ReplicaDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A batch in which two replicas differ; `nodes` maps a log directory to its batch there."""

    topic: str
    partition: int
    base_offset: int
    last_offset: int
    outcome: str
    nodes: dict[str, dict[str, Any]]
    below_hw: bool | None


class Comparison(msgspec.Struct):
    """Result of comparing the replicas of one partition; `batches` counts equal pairs."""

    findings: list[Finding]
    differences: list[ReplicaDifference]
    batches: int = 0


class _Log(msgspec.Struct, frozen=True):
    """Batches of a replica as one array, sorted by base offset; `files` has the report's index."""

    replica: Replica
    digest: Any
    files: Any
    start: int
    end: int


class _Pair(msgspec.Struct, frozen=True):
    """Two replicas and the offsets up to which they must be equal.

    Below `committed` (exclusive, known to both nodes) a difference is an error. Below `inferred`
    one of them may have been away and have a tail to truncate. Up to `proven` (inclusive) Raft
    guarantees equality.
    """

    one: _Log
    two: _Log
    start: int
    end: int
    committed: int | None
    inferred: int | None
    proven: int

    def severity(self, offset: int, outcome: str) -> tuple[str, str]:
        """Return severity and name of a difference at an offset."""
        if offset <= self.proven:
            return ERROR, "log_matching"
        if self.committed is not None and offset < self.committed:
            return ERROR, f"replica_{outcome}"
        bound = self.inferred
        if bound is None and self.committed is None:
            bound = self.end
        if bound is not None and offset < bound:
            return WARN, f"replica_{outcome}"
        return INFO, "divergent_tail"

    def below_committed(self, offset: int) -> bool | None:
        bound = self.committed if self.committed is not None else self.inferred
        return None if bound is None else offset < bound


def compare_replicas(
    replicas: Sequence[Replica], inferred: int | None = None, *, differences_max: int = 10_000
) -> Comparison:
    """Compare every two replicas of one partition.

    Args:
        replicas: all of the same topic and partition; `copy.high_watermark` is the node's own.
        inferred: committed end inferred from all files, exclusive; None if unknown.
        differences_max: limit of listed differing batches; the findings cover all.
    """
    found = Comparison([], [])
    _topic_ids(replicas, found)
    logs = [_log(replica) for replica in replicas if replica.reports]
    for one, two in itertools.combinations(logs, 2):
        pair = _pair(one, two, inferred)
        if any(log.replica.copy.is_cleaned for log in (one, two)):
            _compare_records(pair, found)
        else:
            _compare_batches(pair, found, differences_max)
    return found


def _pair(one: _Log, two: _Log, inferred: int | None) -> _Pair:
    known = [log.replica.copy.high_watermark for log in (one, two)]
    committed = None if None in known else min(one for one in known if one is not None)
    is_metadata = one.replica.copy.topic == METADATA_TOPIC_NAME
    return _Pair(
        one, two, max(one.start, two.start), min(one.end, two.end), committed, inferred,
        _proven_equal(one, two) if is_metadata else -1,
    )  # fmt: skip


def _topic_ids(replicas: Sequence[Replica], found: Comparison) -> None:
    known = [replica.copy for replica in replicas if replica.copy.topic_id is not None]
    for copy in known[1:]:
        if copy.topic_id != known[0].topic_id:
            path = f"{copy.directory}/{PARTITION_METADATA_NAME}"
            found.findings.append(
                in_partition(copy, ERROR, "topic_id_differs", path, expected=known[0].topic_id,
                             actual=copy.topic_id, detail=f"{known[0].directory} has another id")
            )  # fmt: skip


def _log(replica: Replica) -> _Log:
    digest = np.concatenate([report.digest for report in replica.reports])
    sizes = [len(report.digest) for report in replica.reports]
    files = np.repeat(np.arange(len(sizes)), sizes)
    order = np.argsort(digest["base"], kind="stable")
    start = max(replica.reports[0].file.base_offset, replica.copy.log_start or 0)
    end = int(digest["last"].max()) + 1 if len(digest) else start
    return _Log(replica, digest[order], files[order], start, end)


def _compare_batches(pair: _Pair, found: Comparison, differences_max: int) -> None:
    left, right = (_inside(log, pair.start, pair.end) for log in (pair.one, pair.two))
    shared, at_left, at_right = np.intersect1d(left["base"], right["base"], return_indices=True)
    same = np.ones(len(shared), np.bool_)
    for name in _COMPARED:
        same &= left[name][at_left] == right[name][at_right]
    found.batches += int(same.sum())
    events = [
        (int(base), _outcome(left[i], right[j]))
        for base, i, j in zip(shared[~same].tolist(), at_left[~same].tolist(),
                              at_right[~same].tolist(), strict=True)
    ]  # fmt: skip
    for mine, other in ((left, right), (right, left)):
        for base in np.setdiff1d(mine["base"], other["base"]).tolist():
            row = mine[int(np.searchsorted(mine["base"], base))]
            outcome = BOUNDARY if _overlaps(other, int(row["base"]), int(row["last"])) else MISSING
            events.append((int(base), outcome))
    events.sort()
    for base, outcome in events[: max(0, differences_max - len(found.differences))]:
        found.differences.append(_difference(pair, base, outcome))

    def kind(event: tuple[int, str]) -> tuple[str, tuple[str, str]]:
        return event[1], pair.severity(*event)

    for (outcome, named), group in itertools.groupby(events, kind):
        bases = [base for base, _ in group]
        found.findings.append(_finding(pair, outcome, named, bases))


def _inside(log: _Log, start: int, end: int) -> Any:
    digest = log.digest
    return digest[(digest["last"] >= start) & (digest["base"] < end)]


def _proven_equal(one: _Log, two: _Log) -> int:
    """The largest last offset at which both have a batch of the same epoch; -1 for none.

    By Raft's log matching everything up to there is the same in both.
    """
    left = one.digest["last"].astype("i8"), one.digest["epoch"].astype("i8")
    right = two.digest["last"].astype("i8"), two.digest["epoch"].astype("i8")
    shared, i, j = np.intersect1d(left[0], right[0], return_indices=True)
    equal = shared[left[1][i] == right[1][j]]
    return int(equal[-1]) if len(equal) else -1


def _outcome(left: Any, right: Any) -> str:
    if left["last"] != right["last"]:
        return BOUNDARY
    if left["crc"] != right["crc"] or left["count"] != right["count"]:
        return CRC if left["epoch"] == right["epoch"] else EPOCH
    return EPOCH


def _overlaps(digest: Any, base: int, last: int) -> bool:
    index = int(np.searchsorted(digest["last"], base))
    return index < len(digest) and int(digest["base"][index]) <= last


def _finding(pair: _Pair, outcome: str, named: tuple[str, str], bases: list[int]) -> Finding:
    """One finding for neighbouring differences, in the second replica if that has the first one."""
    first = bases[0]
    log = pair.two if _index(pair.two, first) is not None else pair.one
    other = pair.one if log is pair.two else pair.two
    index, theirs = _index(log, first), _index(other, first)
    assert index is not None
    row = log.digest[index]
    expected = "no batch" if theirs is None else _text(other.digest[theirs])
    reason = f"{outcome}: {len(bases)} batches from here differ from {other.replica.copy.directory}"
    if named[1] == "log_matching":
        reason += f"; both have the same epoch at offset {pair.proven}"
    return in_file(
        log.replica.reports[int(log.files[index])].file, *named, int(row["position"]),
        length=int(row["size"]), offset=first, epoch=int(row["epoch"]), expected=expected,
        actual=_text(row), detail=reason,
    )  # fmt: skip


def _text(row: Any) -> str:
    return (
        f"{int(row['base'])} to {int(row['last'])}, epoch {int(row['epoch'])},"
        f" {int(row['count'])} records, crc {int(row['crc'])}"
    )


def _index(log: _Log, base: int) -> int | None:
    index = int(np.searchsorted(log.digest["base"], base))
    found = index < len(log.digest) and int(log.digest["base"][index]) == base
    return index if found else None


def _difference(pair: _Pair, base: int, outcome: str) -> ReplicaDifference:
    nodes: dict[str, dict[str, Any]] = {}
    last = base
    for log in (pair.one, pair.two):
        index = _index(log, base)
        if index is None:
            continue
        row = log.digest[index]
        last = max(last, int(row["last"]))
        nodes[log.replica.copy.directory] = {
            "node_id": log.replica.copy.node_id, "crc": int(row["crc"]),
            "epoch": int(row["epoch"]), "count": int(row["count"]),
            "position": int(row["position"]),
            "segment": log.replica.reports[int(log.files[index])].file.name,
        }  # fmt: skip
    copy = pair.one.replica.copy
    return ReplicaDifference(
        topic=copy.topic, partition=copy.partition, base_offset=base, last_offset=last,
        outcome=outcome, nodes=nodes, below_hw=pair.below_committed(base),
    )  # fmt: skip


def _compare_records(pair: _Pair, found: Comparison) -> None:
    """Compare the records that both replicas of a compacted partition still have."""
    one, two, start, end = pair.one, pair.two, pair.start, pair.end
    if pair.committed is not None:
        end = min(end, pair.committed)
    compared = compare_records(_batches(one), _batches(two), start, end)
    found.batches += compared.batches
    if compared.first is not None:
        offset, index = compared.first
        file = two.replica.reports[int(two.files[index])].file
        found.findings.append(
            in_file(file, ERROR, "record_differs", int(two.digest["position"][index]),
                    offset=offset, detail=f"{compared.different} records that both replicas still"
                    f" have differ from {one.replica.copy.directory}")
        )  # fmt: skip
    if compared.shared < max(compared.left, compared.right):
        path = two.replica.reports[0].file
        found.findings.append(
            in_file(path, INFO, "cleaned_differs", 0, offset=start,
                    detail=f"{compared.right} records, {compared.left} in"
                    f" {one.replica.copy.directory}: compacted to different degrees")
        )  # fmt: skip


def _batches(log: _Log) -> LogBatches:
    segments = tuple(report.file for report in log.replica.reports)
    return LogBatches(log.digest, log.files, segments)
