"""Audit of one replica: its segments as a chain, and the small files beside them.

The entries of the log directory's checkpoints for the partition are compared here too; the files
themselves are checked by `check_directory`.
"""

import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from pipeline.core.audit.check_indexes import check_producer_snapshot
from pipeline.core.audit.check_quorum_state import check_quorum_state
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
from pipeline.core.reading.index import aborted_entries
from storage.checkpoints.checkpoint_files import decode_lines
from storage.checkpoints.epoch_checkpoint import EPOCH_CHECKPOINT_NAME
from storage.checkpoints.flushed_end_file import FLUSHED_END_NAME, decode_flushed_end
from storage.errors import CorruptFileError
from storage.log_dir.partition_metadata import PARTITION_METADATA_NAME, decode_partition_metadata
from storage.log_dir.quorum_state_file import QUORUM_STATE_NAME
from storage.log_dir.snapshot_files import CHECKPOINT_SUFFIX, parse_snapshot_name
from storage.producers.producer_snapshot import PRODUCER_SNAPSHOT_SUFFIX
from wire.batches.batch import CONTROL_BIT
from wire.types import METADATA_TOPIC_ID, METADATA_TOPIC_NAME

# files of a step that a killed node did not finish; it removes them itself
LEFTOVER_SUFFIXES: Final = (".tmp", ".part", ".deleted", ".cleaned", ".swap")
_SEGMENT_SUFFIXES: Final = (".log", ".index", ".timeindex", ".txnindex", PRODUCER_SNAPSHOT_SUFFIX)
_KNOWN: Final = (
    EPOCH_CHECKPOINT_NAME, PARTITION_METADATA_NAME, QUORUM_STATE_NAME, FLUSHED_END_NAME,
)  # fmt: skip


def check_partition(
    copy: PartitionFiles, reports: Sequence[FileReport], *, is_cleaned: bool = False
) -> list[Finding]:
    """Compare the files of one replica with each other.

    Args:
        copy: the replica.
        reports: reports of its segments and snapshots, in any order.
        is_cleaned: True if any replica of the partition is known to be compacted.
    """
    logs = sorted(
        (report for report in reports if not report.file.is_snapshot),
        key=lambda report: report.file.base_offset,
    )
    snapshots = [report for report in reports if report.file.is_snapshot]
    checker = _Checker(copy, logs, is_cleaned=is_cleaned)
    checker.chain()
    checker.epoch_checkpoint()
    checker.transactions()
    checker.offsets_of_checkpoints()
    for report in snapshots:
        checker.snapshot(report)
    if copy.topic == METADATA_TOPIC_NAME and Path(copy.directory).is_dir():
        checker.metadata_log(snapshots)
    checker.names()
    return checker.findings


class _Checker:
    """Checks of one replica, with their findings."""

    def __init__(self, copy: PartitionFiles, logs: list[FileReport], *, is_cleaned: bool) -> None:
        self.copy = copy
        self.logs = logs
        self.findings: list[Finding] = []
        self._is_cleaned = is_cleaned or copy.is_cleaned
        self._is_metadata = copy.topic == METADATA_TOPIC_NAME
        self.end = logs[-1].end_offset if logs else 0
        self._is_damaged = any(report.damaged for report in logs)

    def add(self, severity: str, check: str, name: str, **more: Any) -> None:
        path = f"{self.copy.directory}/{name}"
        self.findings.append(in_partition(self.copy, severity, check, path, **more))

    def chain(self) -> None:
        """Check that each segment begins at the end of the one before, with no smaller epoch."""
        for before, after in itertools.pairwise(self.logs):
            end, base = before.end_offset, after.file.base_offset
            if base < end:
                self.findings.append(
                    in_file(after.file, ERROR, "segment_overlap", 0, offset=base,
                            expected=f"at least {end}", actual=str(base),
                            detail=f"{before.file.name} reaches to {end - 1}")
                )  # fmt: skip
            elif self._is_gap(before, after):
                self.findings.append(
                    in_file(after.file, ERROR, "segment_gap", 0, offset=end, expected=str(end),
                            actual=str(base), detail=f"{before.file.name} ends at {end}")
                )  # fmt: skip
            if len(before.digest) and len(after.digest):
                epochs = int(before.digest["epoch"][-1]), int(after.digest["epoch"][0])
                if epochs[1] < epochs[0]:
                    self.findings.append(
                        in_file(after.file, ERROR, "epoch_decreases", 0, epoch=epochs[1],
                                offset=base, expected=f"at least {epochs[0]}",
                                actual=str(epochs[1]))
                    )  # fmt: skip

    def _is_gap(self, before: FileReport, after: FileReport) -> bool:
        """Return True if offsets are missing between two segments without a known reason."""
        end, base = before.end_offset, after.file.base_offset
        cut = any(stop >= before.file.size for _, stop in before.damaged)
        below_start = base <= (self.copy.log_start or 0)
        return base > end and not (self._is_cleaned or cut or below_start)

    def epoch_checkpoint(self) -> None:
        """Check that `leader-epoch-checkpoint` has the epoch of each batch."""
        if not self.logs:
            return
        name = EPOCH_CHECKPOINT_NAME
        path = f"{self.copy.directory}/{name}"
        try:
            content = Path(path).read_bytes()
        except OSError:
            if any(len(report.digest) for report in self.logs):
                self.add(WARN, "epoch_checkpoint_missing", name, detail="there is no such file")
            return
        try:
            lines = [(int(one), int(two)) for one, two in decode_lines(content, path)]
        except (CorruptFileError, ValueError) as error:
            self.add(ERROR, "epoch_checkpoint_garbled", name, detail=_reason(error))
            return
        rows = content.split(b"\n")
        places = [sum(len(row) + 1 for row in rows[: 2 + at]) for at in range(len(lines))]
        self._epoch_entries(lines, places)
        self._epochs_of_batches(lines)

    def _epoch_entries(self, lines: list[tuple[int, int]], places: list[int]) -> None:
        for at, (epoch, start) in enumerate(lines):
            entry: dict[str, Any] = {"position": places[at], "epoch": epoch, "offset": start}
            if at and (epoch <= lines[at - 1][0] or start < lines[at - 1][1]):
                self.add(ERROR, "epoch_checkpoint_not_increasing", EPOCH_CHECKPOINT_NAME, **entry)
            elif start > self.end and not self._grew():
                self.add(ERROR, "epoch_checkpoint_beyond_end", EPOCH_CHECKPOINT_NAME, **entry,
                         expected=f"at most {self.end}", actual=str(start))  # fmt: skip
        first = self.logs[0].file.base_offset
        if lines and lines[0][1] < first:
            self.add(ERROR, "epoch_checkpoint_before_log", EPOCH_CHECKPOINT_NAME,
                     position=places[0], epoch=lines[0][0], offset=lines[0][1],
                     expected=f"at least {first}", actual=str(lines[0][1]),
                     detail="the first segments are missing")  # fmt: skip

    def _epochs_of_batches(self, lines: list[tuple[int, int]]) -> None:
        epochs = np.array([-1] + [epoch for epoch, _ in lines])
        starts = np.array([start for _, start in lines], np.int64)
        known_from = self._epochs_known_from(lines)
        for report in self.logs:
            digest = report.digest
            expected = epochs[np.searchsorted(starts, digest["base"], "right")]
            wrong = (expected != digest["epoch"]) & (digest["epoch"] >= 0)
            wrong &= digest["base"] >= known_from
            changes = np.diff(digest["epoch"], prepend=-2) != 0
            begins = wrong & (np.diff(wrong, prepend=False) | changes)
            for index in np.flatnonzero(begins).tolist():
                self._wrong_epoch(report, index, int(expected[index]), lines)

    def _wrong_epoch(
        self, report: FileReport, index: int, expected: int, lines: list[tuple[int, int]]
    ) -> None:
        """Report an epoch that the checkpoint does not have; after its last entry it only lags."""
        row = report.digest[index]
        base, epoch = int(row["base"]), int(row["epoch"])
        is_late = not lines or (base > lines[-1][1] and epoch > lines[-1][0])
        severity, check = (
            (WARN, "epoch_checkpoint_behind") if is_late else (ERROR, "epoch_checkpoint_mismatch")
        )
        self.findings.append(
            in_file(
                report.file, severity, check, int(row["position"]), offset=base, epoch=epoch,
                length=int(row["size"]), expected=str(expected), actual=str(epoch),
                detail=f"{EPOCH_CHECKPOINT_NAME} has another epoch at this offset",
            )
        )  # fmt: skip

    def _epochs_known_from(self, lines: list[tuple[int, int]]) -> int:
        """Return the offset from which epochs are known: earlier ones are dropped with the log."""
        first = lines[0][1] if lines else 0
        moved_to = max(
            [self.copy.log_start or 0, *(file.base_offset for file in self.copy.snapshots)]
        )
        return first if first <= moved_to else 0

    def transactions(self) -> None:
        """Check that each aborted transaction with data is in the index of its segment."""
        if self._is_cleaned or self._is_damaged:
            return
        opened: set[int] = set()
        for report in self.logs:
            listed: set[tuple[int, int]] | None = None
            for step in report.transactions:
                if step.marker is None:
                    opened.add(step.producer_id)
                    continue
                had_data = step.producer_id in opened
                opened.discard(step.producer_id)
                if step.marker == "abort" and had_data:
                    if listed is None:
                        entries = aborted_entries(report.file)
                        listed = {(entry.producer_id, entry.last_offset) for entry in entries}
                    if (step.producer_id, step.offset) not in listed:
                        self.findings.append(
                            in_file(report.file, ERROR, "txnindex_missing_entry", step.position,
                                    offset=step.offset, detail="the transaction index does not"
                                    f" hold this abort of producer {step.producer_id}")
                        )  # fmt: skip

    def offsets_of_checkpoints(self) -> None:
        """Check that high watermark and log start lie in the log."""
        if not self.logs:
            return
        home = self.copy.directory.rpartition("/")[0]
        self._flushed_end()
        first = self.logs[0].file.base_offset
        for name, offset in (
            ("replication-offset-checkpoint", self.copy.high_watermark),
            ("log-start-offset-checkpoint", self.copy.log_start),
            ("recovery-point-offset-checkpoint", _recovery_point(home, self.copy)),
        ):
            if offset is None:
                continue
            if offset > self.end and not self._grew():
                self.findings.append(
                    in_partition(self.copy, ERROR, "checkpoint_beyond_end", f"{home}/{name}",
                                 offset=offset, expected=f"at most {self.end}", actual=str(offset))
                )  # fmt: skip
        if self.copy.log_start is not None and self.copy.log_start < first:
            self.findings.append(
                in_partition(self.copy, ERROR, "log_start_gap",
                             f"{home}/log-start-offset-checkpoint", offset=self.copy.log_start,
                             expected=f"at least {first}", actual=str(self.copy.log_start),
                             detail="the first segments are missing")
            )  # fmt: skip

    def _flushed_end(self) -> None:
        """Check that nothing is missing below the end that kraftline flushed."""
        try:
            content = Path(self.copy.directory, FLUSHED_END_NAME).read_bytes()
        except OSError:
            return
        flushed = decode_flushed_end(content)
        if flushed is None:
            self.add(WARN, "flushed_end_garbled", FLUSHED_END_NAME,
                     detail="not a record of a flushed end")  # fmt: skip
        elif flushed > self.end and not self._grew():
            self.add(ERROR, "checkpoint_beyond_end", FLUSHED_END_NAME, offset=flushed,
                     expected=f"at most {self.end}", actual=str(flushed),
                     detail="flushed records are missing")  # fmt: skip

    def snapshot(self, report: FileReport) -> None:
        """Check that a snapshot has its header and footer at the ends, and lies in the log."""
        file, digest = report.file, report.digest
        if not file.size:
            self.findings.append(in_file(file, ERROR, "snapshot_empty", 0, detail="no bytes"))
            return
        parsed = parse_snapshot_name(file.name)
        if parsed is None:
            return  # bootstrap.checkpoint has neither
        control = (digest["attributes"] & CONTROL_BIT) != 0
        if not len(digest) or not bool(control[0]) or int(digest["position"][0]) != 0:
            self.findings.append(in_file(file, ERROR, "snapshot_no_header", 0))
        tail = file.size - (int(digest["position"][-1] + digest["size"][-1]) if len(digest) else 0)
        if len(digest) < 2 or not bool(control[-1]) or tail:
            at = file.size - tail
            self.findings.append(
                in_file(file, ERROR, "snapshot_no_footer", at, detail="it was cut off")
            )
        if self.logs and parsed.offset > self.end and not self._grew():
            self.findings.append(
                in_file(file, ERROR, "snapshot_ahead_of_log", 0, offset=parsed.offset,
                        expected=f"at most {self.end}", actual=str(parsed.offset),
                        detail="its end offset is beyond the end of the log")
            )  # fmt: skip

    def metadata_log(self, snapshots: list[FileReport]) -> None:
        """Check the parts that only the metadata log has: snapshots of its begin, quorum-state."""
        first = self.logs[0].file.base_offset if self.logs else 0
        ends = sorted(report.file.base_offset for report in snapshots
                      if parse_snapshot_name(report.file.name))  # fmt: skip
        at = self.logs[0].file if self.logs else None
        if at is not None and first > 0 and not any(end >= first for end in ends):
            self.findings.append(
                in_file(at, ERROR, "snapshot_missing", 0, offset=first,
                        detail=f"the log begins at {first} and no snapshot reaches it")
            )  # fmt: skip
        for end in ends:
            if end < first and at is not None:
                self.findings.append(
                    in_file(at, ERROR, "log_start_gap", 0, offset=end, expected=f"at most {end}",
                            actual=str(first), detail=f"a snapshot ends at {end}; the segments"
                            " that follow it are missing")
                )  # fmt: skip
        voters = max((report.voters for report in self.logs if report.voters), default=None)
        last = [report for report in self.logs if len(report.digest)]
        epoch = int(last[-1].digest["epoch"][-1]) if last else None
        self.findings += check_quorum_state(self.copy, voters and voters[1], epoch)

    def names(self) -> None:
        """Check for files that are missing, left over, or of no known kind."""
        try:
            names = sorted(os.listdir(self.copy.directory))  # noqa: PTH208  # names, not paths
        except OSError:
            return  # a file was given directly, or it is gone
        listed = {Path(report.file.path).name for report in self.logs}
        if not any(name.endswith((".log", CHECKPOINT_SUFFIX)) for name in names):
            listed = set()
        bases = {name.removesuffix(".log") for name in names if name.endswith(".log")}
        for name in names:
            stem, suffix = os.path.splitext(name)  # noqa: PTH122  # a name, not a path
            if name.endswith(LEFTOVER_SUFFIXES):
                self.add(INFO, "left_over", name, detail="of a step that was not finished")
            elif suffix in (".index", ".timeindex", ".txnindex") and stem not in bases and listed:
                self.add(WARN, "index_without_segment", name, detail=f"{stem}.log is missing")
            elif suffix == PRODUCER_SNAPSHOT_SUFFIX and stem.isdigit() and self.logs:
                path = f"{self.copy.directory}/{name}"
                self.findings += check_producer_snapshot(path, self.logs[-1].file)
            elif not self._is_known(name, suffix):
                severity = ERROR if self._stops_a_node(name) else INFO
                self.add(severity, "unknown_file", name, detail="nothing that a node writes")
        if PARTITION_METADATA_NAME not in names:
            if self.logs and len(self.logs) == len(bases):
                # the metadata log's id is known without it; a broker takes others for stray ones
                severity, detail = (
                    (WARN, "a node writes it anew") if self._is_metadata
                    else (ERROR, "the topic id is not known: a broker renames the directory -stray")
                )  # fmt: skip
                self.add(severity, "partition_metadata_missing", PARTITION_METADATA_NAME,
                         detail=detail)  # fmt: skip
            return
        self._partition_metadata()

    def _is_known(self, name: str, suffix: str) -> bool:
        if suffix == CHECKPOINT_SUFFIX:
            return parse_snapshot_name(name) is not None
        is_segment_file = suffix in _SEGMENT_SUFFIXES and name[:20].isdigit()
        return is_segment_file or name in _KNOWN

    def _stops_a_node(self, name: str) -> bool:
        """Return True for a snapshot's suffix behind what is no snapshot id: Kafka exits there.

        Of the name only the places of offset and epoch are read (org.apache.kafka.snapshot
        .Snapshots.parse).
        """
        if not self._is_metadata or not name.endswith(CHECKPOINT_SUFFIX):
            return False
        return not (name[:20].isdigit() and name[21:31].isdigit())

    def _partition_metadata(self) -> None:
        name = PARTITION_METADATA_NAME
        path = f"{self.copy.directory}/{name}"
        try:
            topic_id = decode_partition_metadata(Path(path).read_bytes(), path)
        except CorruptFileError as error:
            self.add(ERROR, "partition_metadata_garbled", name, detail=_reason(error))
            return
        except OSError:
            return
        if self._is_metadata and topic_id != METADATA_TOPIC_ID:
            self.add(ERROR, "topic_id_differs", name, expected=str(self.copy.topic_id),
                     detail="the directory is named as the metadata log")  # fmt: skip

    def _grew(self) -> bool:
        """Return True if a node has appended since the sizes were taken."""
        file = self.logs[-1].file
        try:
            names = os.listdir(self.copy.directory)  # noqa: PTH208  # names, not paths
            newer = max((name for name in names if name.endswith(".log")), default=file.name)
            return newer > file.name or Path(file.path).stat().st_size > file.size
        except OSError:
            return True


def _recovery_point(home: str, copy: PartitionFiles) -> int | None:
    path = f"{home}/recovery-point-offset-checkpoint"
    try:
        for topic, partition, offset in decode_lines(Path(path).read_bytes(), path):
            if (topic, partition) == (copy.topic, str(copy.partition)):
                return int(offset)
    except (OSError, CorruptFileError, ValueError):
        pass  # `check_directory` reports it
    return None


def _reason(error: Exception) -> str:
    return error.reason if isinstance(error, CorruptFileError) else str(error)
