"""Audit of one segment or snapshot: checksums and headers of all batches, at the speed of a walk.

Each file is checked alone; segments, indexes, checkpoints and replicas are compared with each
other by the modules `check_indexes`, `check_partition` and `check_replicas` from the
`FileReport`.
"""

from collections import Counter
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from pipeline.core.audit.findings import (
    DIGEST,
    ERROR,
    INFO,
    WARN,
    FileReport,
    Finding,
    SegmentSummary,
    Transaction,
    in_file,
    worst,
)
from pipeline.core.reading.discovery import SegmentFile
from pipeline.core.reading.opening import open_segment
from pipeline.core.records.batches import BatchTable, Fault, Int64Array, scan
from pipeline.core.records.codecs import CODEC_MASK, CODEC_NAMES
from pipeline.core.records.decode import RowSelection, decode_batch_py, decode_batches
from pipeline.core.records.rows import (
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    RowContext,
)
from pipeline.core.records.schema import schema_of
from wire.batches.batch import CONTROL_BIT
from wire.batches.compression import Codec
from wire.batches.control_records import ControlType, control_type, decode_control_value
from wire.errors import CorruptBatchError
from wire.types import METADATA_TOPIC_NAME

CLEAN_SHUTDOWN_NAME: Final = ".kafka_cleanshutdown"
_RESERVED_BITS: Final = 0xFF80
_IN_ORDER: Final = TRANSACTIONAL_BIT | CONTROL_BIT
_INT32: Final = 1 << 31


def check_file(file: SegmentFile, *, is_cleaned: bool = False, full: bool = False) -> FileReport:
    """Audit one file without its neighbours.

    Args:
        file: a segment or a snapshot.
        is_cleaned: True if compaction may have removed offsets.
        full: decode all records too (counts, offsets, times against the header).
    """
    walk = _Walk(file, is_cleaned=is_cleaned, full=full)
    try:
        with open_segment(file.path) as descriptor:
            for table in scan(
                descriptor, 0, file.size, frozen_size=file.size, is_last=False, validate="crc"
            ):
                walk.table(table)
    except FileNotFoundError:
        walk.add(INFO, "vanished", 0, detail="deleted since the directory was listed")
        walk.damaged.append((0, file.size))
    except OSError as error:
        walk.add(ERROR, "unreadable", 0, detail=str(error.strerror))
        walk.damaged.append((0, file.size))
    return walk.report()


class _Walk:
    """One pass over the batches of a file."""

    def __init__(self, file: SegmentFile, *, is_cleaned: bool, full: bool) -> None:
        self.file = file
        self.findings: list[Finding] = []
        self.damaged: list[tuple[int, int]] = []
        self._is_cleaned = is_cleaned
        self._full = full
        self._parts: list[npt.NDArray[Any]] = []
        self._codecs: Counter[int] = Counter()
        self._min_ts: int | None = None
        # None: any offset may follow
        self._next_offset: int | None = None if file.is_snapshot else file.base_offset
        self._floor = -1  # the last offset so far
        self._run = (-1, 0, -1)  # epoch of the newest batches, where they begin, epoch before
        self._sequences: dict[int, tuple[int, int]] = {}
        self._open: dict[int, Transaction] = {}
        self._transactions: list[Transaction] = []
        self._voters: tuple[int, tuple[int, ...]] | None = None

    def add(self, severity: str, check: str, position: int, **more: Any) -> None:
        self.findings.append(in_file(self.file, severity, check, position, **more))

    def table(self, table: BatchTable) -> None:
        if len(table):
            self._digest(table)
            self._headers(table)
            self._offsets(table)
            self._epochs(table)
            self._producers(table)
            self._control(table)
            if self._full:
                self._records(table)
        if table.fault is not None:
            self._fault(table)

    def report(self) -> FileReport:
        digest = np.concatenate(self._parts) if self._parts else np.empty(0, DIGEST)
        self._transactions += self._open.values()
        self.findings.sort(key=lambda finding: finding.position)
        file = self.file
        times = digest["max_ts"]
        summary = SegmentSummary(
            node_id=file.node_id, topic=file.topic, partition=file.partition, segment=file.name,
            bytes=file.size, batches=len(digest), records=int(digest["count"].sum(dtype=np.int64)),
            codec={_codec_name(code): count for code, count in sorted(self._codecs.items())},
            first_offset=int(digest["base"][0]) if len(digest) else None,
            last_offset=int(digest["last"][-1]) if len(digest) else None,
            min_ts=self._min_ts, max_ts=int(times.max()) if len(digest) else None,
            state=worst(self.findings),
        )  # fmt: skip
        return FileReport(
            file=file, findings=self.findings, summary=summary, digest=digest,
            transactions=sorted(self._transactions, key=lambda step: step.offset),
            voters=self._voters, damaged=self.damaged,
        )  # fmt: skip

    def _digest(self, table: BatchTable) -> None:
        rows = np.empty(len(table), DIGEST)
        headers = table.headers
        rows["base"], rows["last"] = headers["base_offset"], table.last_offsets
        rows["crc"], rows["position"] = headers["crc"], table.positions + table.origin
        rows["max_ts"], rows["epoch"] = headers["max_timestamp_ms"], headers["leader_epoch"]
        rows["count"], rows["size"] = headers["records_count"], table.sizes
        rows["attributes"] = headers["attributes"]
        self._parts.append(rows)
        codes, counts = np.unique(rows["attributes"] & CODEC_MASK, return_counts=True)
        self._codecs.update(dict(zip(codes.tolist(), counts.tolist(), strict=True)))
        times = headers["base_timestamp_ms"]
        times = times[times >= 0]
        if len(times):
            least = int(times.min())
            self._min_ts = least if self._min_ts is None else min(self._min_ts, least)

    def _at(self, table: BatchTable, mask: Any) -> list[tuple[int, int, dict[str, Any]]]:
        """Return index, position, and identifying fields of each batch where the mask is true."""
        return [
            (
                index,
                int(table.positions[index]) + table.origin,
                {
                    "length": int(table.sizes[index]),
                    "offset": int(table.headers["base_offset"][index]),
                    "epoch": int(table.headers["leader_epoch"][index]),
                },
            )
            for index in np.flatnonzero(mask).tolist()
        ]

    def _headers(self, table: BatchTable) -> None:
        """Check each header alone."""
        attributes, count = table.column("attributes"), table.column("records_count")
        delta = table.column("last_offset_delta")
        for index, at, batch in self._at(table, (attributes & CODEC_MASK) > Codec.ZSTD):
            code = int(attributes[index]) & CODEC_MASK
            self.add(ERROR, "unknown_codec", at, expected="0 to 4", actual=str(code), **batch)
        for index, at, batch in self._at(table, (attributes & _RESERVED_BITS) != 0):
            actual = hex(int(attributes[index]) & 0xFFFF)
            self.add(WARN, "reserved_attr_bits", at, actual=actual, **batch)
        for index, at, batch in self._at(table, (count < 0) | (delta < count - 1) | (delta < 0)):
            self.add(
                ERROR, "last_offset_delta", at, expected=f"at least {int(count[index]) - 1}",
                actual=str(int(delta[index])), detail="fewer offsets than records", **batch,
            )  # fmt: skip
        base_ts, max_ts = table.column("base_timestamp_ms"), table.column("max_timestamp_ms")
        # elsewhere the base is the client's time, or that of the delete horizon
        plain = (attributes & (LOG_APPEND_TIME_BIT | DELETE_HORIZON_BIT)) == 0
        late = plain & (count > 0) & (max_ts >= 0) & (base_ts > max_ts)
        for index, at, batch in self._at(table, late):
            self.add(
                ERROR, "ts_gt_max", at, expected=f"at most {int(max_ts[index])}",
                actual=str(int(base_ts[index])), detail="the first time is above the largest",
                **batch,
            )  # fmt: skip

    def _offsets(self, table: BatchTable) -> None:
        base, last = table.column("base_offset"), np.maximum(table.last_offsets, 0)
        if not self.file.is_snapshot:
            for _, at, batch in self._at(table, base < self.file.base_offset):
                self.add(ERROR, "base_before_segment", at, detail="the file's name is higher",
                         expected=f"at least {self.file.base_offset}",
                         actual=str(batch["offset"]), **batch)  # fmt: skip
        floors = np.maximum.accumulate(np.concatenate(([self._floor], last)))[:-1]
        for index, at, batch in self._at(table, base <= floors):
            self.add(ERROR, "offset_not_monotone", at, expected=f"above {int(floors[index])}",
                     actual=str(batch["offset"]), detail="used before", **batch)  # fmt: skip
        before = np.concatenate(([-1], last[:-1])) + 1
        holes = base > before
        holes[0] = self._next_offset is not None and int(base[0]) > self._next_offset
        if self._next_offset is not None:
            before[0] = self._next_offset
        if not self._is_cleaned:
            severity = ERROR if self.file.topic == METADATA_TOPIC_NAME else WARN
            for index, at, batch in self._at(table, holes):
                self.add(severity, "offset_gap", at, expected=str(int(before[index])),
                         actual=str(batch["offset"]), **batch,
                         detail="offsets are missing though nothing was compacted")  # fmt: skip
        self._floor = max(self._floor, int(last.max()))
        self._next_offset = int(last[-1]) + 1

    def _epochs(self, table: BatchTable) -> None:
        """Report each run of batches whose epoch does not fit either neighbour, at its begin."""
        epochs: Int64Array = table.column("leader_epoch")
        changes = np.flatnonzero(np.diff(epochs, prepend=self._run[0]) != 0)
        for index in changes.tolist():
            epoch = int(epochs[index])
            at = int(table.positions[index]) + table.origin
            highest, began_at, before = self._run
            if epoch >= highest:
                self._run = epoch, at, highest
                continue
            outlier = before <= epoch  # the run before is the one that does not fit
            where, wrong = (began_at, highest) if outlier else (at, epoch)
            limit = f"at most {epoch}" if outlier else f"at least {highest}"
            self.add(ERROR, "epoch_decreases", where, epoch=wrong, expected=limit,
                     actual=str(wrong), offset=int(table.headers["base_offset"][index]),
                     detail=f"epoch {highest} at {began_at}, then {epoch} at {at}")  # fmt: skip
            self._run = epoch, at, before if outlier else epoch

    def _producers(self, table: BatchTable) -> None:
        attributes, ids = table.column("attributes"), table.column("producer_id")
        wanted = (ids >= 0) & ((attributes & CONTROL_BIT) == 0)
        first, delta = table.column("base_sequence"), table.column("last_offset_delta")
        epochs, bases = table.column("producer_epoch"), table.column("base_offset")
        for index in np.flatnonzero(wanted).tolist():
            producer, epoch, sequence = int(ids[index]), int(epochs[index]), int(first[index])
            known = self._sequences.get(producer)
            position = int(table.positions[index]) + table.origin
            is_next = known is None or known[0] != epoch or sequence == known[1]
            if known is not None and not (is_next or self._is_cleaned):
                self.add(INFO, "producer_seq_gap", position, expected=str(known[1]),
                         actual=str(sequence), offset=int(bases[index]),
                         detail=f"producer {producer}, epoch {epoch}")  # fmt: skip
            self._sequences[producer] = epoch, (sequence + int(delta[index]) + 1) % _INT32

    def _control(self, table: BatchTable) -> None:
        """Collect transactions and leader changes, in the order of the log."""
        attributes = table.column("attributes")
        ids = table.column("producer_id")
        for index, at, batch in self._at(table, (attributes & _IN_ORDER) != 0):
            producer = int(ids[index])
            if int(attributes[index]) & CONTROL_BIT:
                self._control_batch(table, index, at, batch)
            elif producer not in self._open:
                self._open[producer] = Transaction(producer, batch["offset"], at)

    def _control_batch(self, table: BatchTable, index: int, at: int, batch: dict[str, Any]) -> None:
        try:
            records = decode_batch_py(table, index)
            kinds = [(control_type(record.key), record) for record in records]
        except CorruptBatchError as error:
            self.add(ERROR, "bad_control_record", at, detail=str(error), **batch)
            return
        for kind, record in kinds:
            if kind in (ControlType.ABORT, ControlType.COMMIT):
                producer = int(table.headers["producer_id"][index])
                first = self._open.pop(producer, None)
                marker = "abort" if kind is ControlType.ABORT else "commit"
                step = Transaction(producer, batch["offset"], at, marker)
                self._transactions += [step] if first is None else [first, step]
            elif kind is ControlType.LEADER_CHANGE:
                self._leader_change(record, at, batch)

    def _leader_change(self, record: Any, at: int, batch: dict[str, Any]) -> None:
        try:
            change = decode_control_value(ControlType.LEADER_CHANGE, record.value or b"")
        except CorruptBatchError as error:
            self.add(ERROR, "bad_control_record", at, detail=str(error), **batch)
            return
        ids = tuple(sorted(int(voter.voter_id) for voter in change.voters))
        self._voters = int(record.offset), ids

    def _records(self, table: BatchTable) -> None:
        """Check the contents of the batches with the reader itself."""
        file = self.file
        context = RowContext(topic=file.topic, partition=file.partition, segment=file.name)
        schema = schema_of("records", "offset")
        wanted = RowSelection(include_control=True)
        for rows in decode_batches(table, schema, context, wanted, validate="full"):
            if isinstance(rows, Fault):
                self.add(ERROR, rows.reason, rows.position, length=rows.length,
                         offset=rows.base_offset, detail=rows.detail)  # fmt: skip

    def _fault(self, table: BatchTable) -> None:
        """Report bytes that are not a batch."""
        fault = table.fault
        assert fault is not None
        severity, check = ERROR, fault.reason
        if self.file.is_last and check in ("short_header", "partial_tail"):
            severity, check = INFO, "partial_tail"  # an append in progress, or cut by a crash
        elif check == "vanished":
            severity = INFO
        elif check == "zero_tail":
            severity = WARN if self._is_cut_by_a_node() else ERROR
        damaged = table.damaged
        epoch = int(damaged.headers["leader_epoch"][0]) if damaged is not None else None
        self.add(severity, check, fault.position, length=fault.length, offset=fault.base_offset,
                 epoch=epoch, detail=fault.detail)  # fmt: skip
        self.damaged.append((fault.position, fault.position + fault.length))
        self._next_offset = None
        self._sequences.clear()

    def _is_cut_by_a_node(self) -> bool:
        """Return True if a node that starts cuts zeros at the end of the file.

        Recovery does, and a clean shutdown spares a broker the recovery: it reads the zeros and
        exits. The metadata log is recovered at each start (KafkaMetadataLog).
        """
        if not self.file.is_last:
            return False
        is_metadata = self.file.topic == METADATA_TOPIC_NAME
        return is_metadata or not Path(self.file.log_directory, CLEAN_SHUTDOWN_NAME).exists()


def _codec_name(code: int) -> str:
    return CODEC_NAMES[code] if code < len(CODEC_NAMES) else str(code)


def with_findings(report: FileReport, found: list[Finding]) -> FileReport:
    """Return the report with more findings and the resulting state."""
    findings = report.findings + found
    summary = msgspec.structs.replace(report.summary, state=worst(findings))
    return msgspec.structs.replace(report, findings=findings, summary=summary)
