"""Findings of an audit with file, position and reason, and one summary per segment."""

from typing import Any, Final

import msgspec
import numpy as np

from pipeline.core.reading.discovery import PartitionFiles, SegmentFile

ERROR: Final = "error"  # written data cannot be trusted, or is lost
WARN: Final = "warn"  # nothing is lost, but a node would repair it or complain
INFO: Final = "info"  # legal, and worth knowing
SEVERITIES: Final = (ERROR, WARN, INFO)


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One defect, or something worth knowing, at a place of a file.

    `position` is the byte in the file at `path`; `length` the number of bytes concerned, if known.
    """

    severity: str
    check: str
    path: str
    position: int = 0
    length: int | None = None
    node_id: int | None = None
    topic: str | None = None
    topic_id: str | None = None
    partition: int | None = None
    segment: str | None = None
    offset: int | None = None
    epoch: int | None = None
    expected: str | None = None
    actual: str | None = None
    detail: str = ""

    def line(self) -> str:
        """Return one line for people."""
        place = f"{self.path}:{self.position}"
        partition = "" if self.topic is None else f" {self.topic}-{self.partition}"
        offset = "" if self.offset is None else f" offset {self.offset}"
        against = ""
        if self.expected is not None or self.actual is not None:
            against = f" (expected {self.expected}, found {self.actual})"
        return f"{self.severity} {place} {self.check}{partition}{offset}: {self.detail}{against}"


class SegmentSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One row for a segment or a snapshot; offsets are inclusive, times in ms since 1970.

    `state` is the worst severity found in the file and its indexes, `ok` for none above info.
    """

    node_id: int | None
    topic: str
    partition: int
    segment: str
    bytes: int
    batches: int = 0
    records: int = 0
    codec: dict[str, int] = {}
    first_offset: int | None = None
    last_offset: int | None = None
    min_ts: int | None = None
    max_ts: int | None = None
    state: str = "ok"


class Transaction(msgspec.Struct, frozen=True, gc=False):
    """A step of a producer's transaction: `marker` is commit, abort, or None for its first data.

    `offset` and `position` are those of the batch.
    """

    producer_id: int
    offset: int
    position: int
    marker: str | None = None


DIGEST: Final = np.dtype(
    [
        ("base", np.int64), ("last", np.int64), ("crc", np.int64), ("position", np.int64),
        ("max_ts", np.int64), ("epoch", np.int32), ("count", np.int32), ("size", np.int32),
        ("attributes", np.int16),
    ]
)  # fmt: skip


class FileReport(msgspec.Struct, kw_only=True):
    """Results of one file: `digest` (dtype DIGEST) has a row for each sound batch in file order."""

    file: SegmentFile
    findings: list[Finding]
    summary: SegmentSummary
    digest: Any
    transactions: list[Transaction] = []
    voters: tuple[int, tuple[int, ...]] | None = None  # offset and ids of the last leader change
    damaged: list[tuple[int, int]] = []  # [start, end) in the file: no batches there

    @property
    def end_offset(self) -> int:
        """End offset, exclusive; the base offset without batches."""
        return int(self.digest["last"].max()) + 1 if len(self.digest) else self.file.base_offset


def in_file(file: SegmentFile, severity: str, check: str, position: int, **more: Any) -> Finding:
    """A finding in a segment or beside it; `path` in `more` names a file other than its own."""
    known: dict[str, Any] = {
        "path": file.path, "node_id": file.node_id, "topic": file.topic,
        "topic_id": file.topic_id, "partition": file.partition, "segment": file.name,
    }  # fmt: skip
    return Finding(severity=severity, check=check, position=position, **(known | more))


def in_partition(
    copy: PartitionFiles, severity: str, check: str, path: str, **more: Any
) -> Finding:
    """A finding in a file of a partition directory."""
    known: dict[str, Any] = {
        "path": path, "node_id": copy.node_id, "topic": copy.topic,
        "topic_id": copy.topic_id, "partition": copy.partition,
    }  # fmt: skip
    return Finding(severity=severity, check=check, **(known | more))


def worst(findings: list[Finding]) -> str:
    """The worst severity of the findings: `error`, `warn` or `ok`."""
    found = {finding.severity for finding in findings}
    return next((severity for severity in (ERROR, WARN) if severity in found), "ok")
