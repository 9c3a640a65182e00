"""Reports of files that an earlier audit has read: an audit that goes on reads the others only.

A file is known if nothing about it has changed: path, size, times of change of itself and of the
indexes beside it, and how it was checked, by which version of this project. Then its report stands
for it, with what the comparisons need (54 bytes per batch). So damage that comes to an unchanged
file later, by the disk, is not seen: that needs a whole audit.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from pipeline.core.audit.audit import (
    AuditPlan,
    AuditTask,
    Judgement,
    Key,
    check_file_fully,
    judge_partition,
)
from pipeline.core.audit.findings import DIGEST, FileReport
from pipeline.core.reading.discovery import PartitionFiles, SegmentFile

_BESIDE: Final = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
_Marks = tuple[tuple[str, int, int], ...]


class KnownReport(msgspec.Struct, frozen=True):
    """A report as it is kept: `digest` has the bytes of its own; `marks` are those of its files."""

    marks: _Marks
    is_cleaned: bool
    is_full: bool
    report: FileReport
    digest: bytes
    tool: str

    def is_of(self, task: AuditTask, marks: _Marks, tool: str) -> bool:
        """Return True if it stands for the file of a task."""
        checked = self.is_cleaned, self.is_full
        return (
            self.report.file == task.file
            and self.marks == marks
            and checked == (task.is_cleaned, task.is_full)
            and self.tool == tool
            and len(self.digest) % DIGEST.itemsize == 0
        )

    def restored(self) -> FileReport:
        """The report as the check gave it."""
        return msgspec.structs.replace(self.report, digest=np.frombuffer(self.digest, DIGEST))


class PartitionAudit(msgspec.Struct, frozen=True):
    """All files of a partition: one item of work; `tool` is the version that checks them."""

    key: Key
    copies: tuple[PartitionFiles, ...]
    tasks: tuple[AuditTask, ...]
    tool: str

    @property
    def name(self) -> str:
        """Name of its file of reports."""
        return f"{self.key[0]}-{self.key[1]}.reports"


def partition_audits(plan: AuditPlan, tool: str) -> list[PartitionAudit]:
    """The items of a plan, in its order, for a version of this project."""
    tasks: dict[Key, list[AuditTask]] = {key: [] for key in plan.copies}
    for task in plan.tasks:
        tasks[task.key].append(task)
    return [
        PartitionAudit(key, copies, tuple(tasks[key]), tool) for key, copies in plan.copies.items()
    ]


def new_bytes(item: PartitionAudit, known: str | None) -> int:
    """Bytes of the files that no earlier audit knows."""
    reports = _read(None if known is None else Path(known), item.name)
    return sum(
        task.file.size for task in item.tasks
        if _known(reports, task, _marks(task.file), item.tool) is None
    )  # fmt: skip


def audit_partition(item: PartitionAudit, *, known: str | None, state: str) -> Judgement:
    """Check the unknown files of a partition and judge it; the reports of all are written.

    Args:
        item: the partition.
        known: folder of the reports of the audit before; None without one.
        state: folder of those of this one.
    """
    before = _read(None if known is None else Path(known), item.name)
    kept, read_bytes = [], 0
    for task in item.tasks:
        marks = _marks(task.file)  # before it is read: a change meanwhile is seen the next time
        found = _known(before, task, marks, item.tool)
        if found is None:
            report = check_file_fully(task)
            read_bytes += task.file.size
            digest = np.ascontiguousarray(report.digest).tobytes()
            bare = msgspec.structs.replace(report, digest=None)
            found = KnownReport(marks, task.is_cleaned, task.is_full, bare, digest, item.tool)
        kept.append(found)
    judged = judge_partition(item.copies, [one.restored() for one in kept])
    place = Path(state, item.name)
    place.parent.mkdir(parents=True, exist_ok=True)
    temporary = place.with_name(f".{place.name}.{os.getpid()}.tmp")
    temporary.write_bytes(msgspec.msgpack.encode(kept))
    temporary.rename(place)
    judged.read_bytes = read_bytes
    return judged


def _known(
    reports: Mapping[str, KnownReport], task: AuditTask, marks: _Marks, tool: str
) -> KnownReport | None:
    found = reports.get(task.file.path)
    return found if found is not None and found.is_of(task, marks, tool) else None


def _read(folder: Path | None, name: str) -> dict[str, KnownReport]:
    """Reports of a partition by path; none if they are not there, or of another version."""
    if folder is None:
        return {}
    try:
        kept = msgspec.msgpack.decode((folder / name).read_bytes(), type=list[KnownReport])
    except (OSError, msgspec.MsgspecError):
        return {}
    return {one.report.file.path: one for one in kept}


def _marks(file: SegmentFile) -> _Marks:
    """Size and time of change of a file and of those beside it that exist."""
    found = []
    for suffix in _BESIDE:
        path = file.path if suffix == ".log" else file.beside(suffix)
        try:
            stat = os.stat(path)  # noqa: PTH116  # one call
        except OSError:
            continue
        found.append((suffix, stat.st_size, stat.st_mtime_ns))
    return tuple(found)
