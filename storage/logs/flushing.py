"""Durability of a log: files not synced yet, the flushed end, and its record.

    INV-FL-1  `flushed_end_offset` <= the end offset of the log
    INV-FL-2  the recorded flushed end is lowered before bytes below it go

apache/kafka: UnifiedLog.java (`flush`), LocalLog.java (`markFlushed`, `recoveryPoint`)
"""

from typing import Protocol

from storage.logs.flush_plan import FlushPlan
from storage.logs.recovery import FileRebuilt
from storage.vfs import Vfs, VfsFile, base_name, join


class RecordedEnd(Protocol):
    """The record of the flushed end of a log: its recovery point."""

    @property
    def end_offset(self) -> int:
        """The recorded flushed end, exclusive."""
        ...

    @property
    def damage(self) -> FileRebuilt | None:
        """The damage of the record, None without; what is recorded beside it is then used."""
        ...

    def note(self, end_offset: int) -> None:
        """Take a flush; a crash may leave an earlier record."""
        ...

    def record(self, end_offset: int) -> None:
        """Record the end; one that is lower than before is durable on return."""
        ...

    def close(self) -> None:
        """Close what the record holds open."""
        ...


class Flushing:
    """The files of a log that wait for a sync, its flushed end, and when that is to be recorded.

    Args:
        vfs: of the log.
        recovery_point: the record of the flushed end, None for a log without one.
        recovery_point_bytes: flushed log between two records.
    """

    def __init__(
        self, vfs: Vfs, recovery_point: RecordedEnd | None, recovery_point_bytes: int
    ) -> None:
        self._vfs = vfs
        self._recovery_point = recovery_point
        self._recovery_point_bytes = recovery_point_bytes
        self._unrecorded_bytes = 0
        self._rolled = False
        self.unsynced: dict[str, VfsFile] = {}
        """By path: files that were written to since the last plan."""
        self.unsynced_directories: set[str] = set()
        self.outstanding: list[FlushPlan] = []
        """Plans that were not given to `done` yet, oldest first."""
        self.flushed_end_offset = 0
        self.generation = 0
        """Number of truncations; a plan made before one moves nothing."""

    def wrote(self, path: str, file: VfsFile, size_bytes: int) -> None:
        """Note bytes that were written to a file of the log."""
        assert size_bytes >= 0, f"{size_bytes=}"
        self._unrecorded_bytes += size_bytes
        if path not in self.unsynced:
            self.unsynced[path] = file.share()

    def rolled(self) -> None:
        """Note a new segment: the next flush is recorded."""
        self._rolled = True

    def forget(self, path: str) -> None:
        """Leave out a file that is removed."""
        self.unsynced.pop(path, None)

    def renamed(self, before: str, after: str) -> None:
        """Follow the new name of the directory of the log; no plan is under way."""
        assert not self.outstanding, f"{before} is being flushed"
        self.unsynced = {join(after, base_name(path)): file for path, file in self.unsynced.items()}
        renamed = {before: after}
        self.unsynced_directories = {renamed.get(path, path) for path in self.unsynced_directories}

    def truncated_to(self, end_offset: int) -> None:
        """Lower the flushed end to that of a truncated log; plans made before are stale."""
        assert end_offset >= 0, f"{end_offset=}"
        recorded = 0 if self._recovery_point is None else self._recovery_point.end_offset
        assert recorded <= end_offset, f"INV-FL-2 {recorded=} {end_offset=}"
        self.flushed_end_offset = min(self.flushed_end_offset, end_offset)
        self.generation += 1

    def plan(self, end_offset: int, last_epoch: int) -> FlushPlan:
        """The syncs for everything noted so far, up to the end of the log."""
        flushed = self.flushed_end_offset
        assert flushed <= end_offset, f"INV-FL-1 {flushed=} {end_offset=}"
        plan = FlushPlan(
            self._vfs,
            tuple(self.unsynced.values()),
            tuple(sorted(self.unsynced_directories)),
            end_offset=end_offset,
            last_epoch=last_epoch,
            generation=self.generation,
        )
        self.unsynced = {}
        self.unsynced_directories = set()
        self.outstanding.append(plan)
        return plan

    def done(self, plan: FlushPlan) -> bool:
        """Advance the flushed end to that of a plan that has run; True if it is to be recorded."""
        assert plan.is_empty, "run it first"
        outstanding = self.outstanding
        if plan not in outstanding:  # of a log that was closed, or reported before
            return False
        number = outstanding.index(plan)
        assert all(each.is_empty for each in outstanding[:number]), "run those before it first"
        del outstanding[: number + 1]
        if plan.generation != self.generation or plan.end_offset <= self.flushed_end_offset:
            return False
        self.flushed_end_offset = plan.end_offset
        if self._recovery_point is not None:
            self._recovery_point.note(plan.end_offset)
        return self._rolled or self._unrecorded_bytes >= self._recovery_point_bytes

    def record(self) -> None:
        """Record the flushed end durably.

        Raises:
            OutOfSpaceError: the record is as before.
        """
        if self._recovery_point is not None:
            self._recovery_point.record(self.flushed_end_offset)
        self._rolled = False
        self._unrecorded_bytes = 0

    def lower_record_to(self, end_offset: int) -> None:
        """Lower the record before a truncation: a start requires all below it."""
        if self._recovery_point is not None and self._recovery_point.end_offset > end_offset:
            self._recovery_point.record(end_offset)

    def close(self) -> None:
        """Close what waits for a sync, and the file of the record; plans that run may fail now."""
        self.unsynced.clear()
        for plan in self.outstanding:
            plan.abandon()
        self.outstanding.clear()
        if self._recovery_point is not None:
            self._recovery_point.close()
