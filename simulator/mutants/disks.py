"""Mutants of the disk: recovery, syncs, snapshots, cleanup, the start."""

from collections.abc import Callable
from contextlib import suppress
from types import MethodType, SimpleNamespace
from typing import Any, Final

from msgspec.structs import replace

from kernel.quorum.snapshot_retention import SnapshotRetention
from kernel.quorum.snapshots import Snapshots
from simulator.faults.kinds import DAMAGES
from simulator.mutants.registry import SHORT, Mutant, Patches
from storage.checkpoints.flushed_end_file import FlushedEndFile
from storage.errors import FsyncError
from storage.log_dir.snapshot_files import PART_SUFFIX, SnapshotWriter
from storage.logs import recovery
from storage.logs.flush_plan import FlushPlan
from storage.logs.log import Log
from storage.logs.log_loading import _Loader
from storage.logs.recovery import BatchRules
from storage.segments.segment import Segment
from storage.vfs import Vfs
from wire.types import Offset

Original = Callable[..., Any]
POWER: Final = replace(
    SHORT, faults=("power_failure", "crash_at_operation", "all_down", "partition", "kill")
)
"""Seeds in which power failures are more frequent than any other fault."""

DAMAGED: Final = replace(SHORT, faults=DAMAGES, node_count=3)
"""Seeds in which disks lose or change what was written."""


def _speculative_snapshot(patches: Patches) -> None:
    """While a snapshot begins, the controller's newest image replaces the committed one."""

    def make(original: Original) -> Original:
        def begin(self: Snapshots) -> None:
            controller, loader = self._state.controller, self._loader
            if controller is None or not controller.is_active:
                original(self)
                return
            committed = loader.image
            vars(loader)["_image"] = controller.latest
            try:
                original(self)
            finally:
                vars(loader)["_image"] = committed

        return begin

    patches.method(Snapshots, "_begin", make)


def _unsynced_snapshot(patches: Patches) -> None:
    """The part file is renamed without the sync before it."""

    def make(_: Original) -> Original:
        def freeze(self: SnapshotWriter) -> None:
            self._file.close()
            self._vfs.make_read_only(self._path + PART_SUFFIX)
            self._vfs.rename(self._path + PART_SUFFIX, self._path)

        return freeze

    patches.method(SnapshotWriter, "freeze", make)


def _no_checksum_at_recovery(patches: Patches) -> None:
    """The scan of a segment accepts batches with a wrong checksum."""

    def make(original: Original) -> Original:
        def scan_segment(
            file: Any, size_bytes: int, indexes: Any, rules: BatchRules, on_epoch: Any
        ) -> Any:
            judge = rules.objection

            def objection(*batch: int, **_: bool) -> str | None:
                return judge(*batch, crc_is_valid=True)

            vars(rules)["objection"] = objection
            try:
                return original(file, size_bytes, indexes, rules, on_epoch)
            finally:
                del vars(rules)["objection"]

        return scan_segment

    patches.function(recovery, "scan_segment", make)


def _keeps_torn_tail(patches: Patches) -> None:
    """The log goes on at the right place; what is after it stays in the file."""

    def make(original: Original) -> Original:
        def scan_one(self: Any, segments: list[Segment], number: int, rules: BatchRules) -> bool:
            segment = segments[number]

            def truncate(self: Segment, size_bytes: int, _end_offset: int) -> None:
                self.size_bytes = size_bytes
                self._recent.clear()
                self.remove_index_files()

            vars(segment)["truncate"] = MethodType(truncate, segment)
            try:
                found: bool = original(self, segments, number, rules)
            finally:
                del vars(segment)["truncate"]
            return found

        return scan_one

    patches.method(_Loader, "_scan_one", make)


def _directory_unsynced(patches: Patches) -> None:
    """A new segment counts its directory as synced."""

    def make(original: Original) -> Original:
        def create_segment(self: Log, base_offset: int, wall_ms: int) -> Segment:
            segment: Segment = original(self, base_offset, wall_ms)
            self._flushing.unsynced_directories.discard(self.directory)
            return segment

        return create_segment

    patches.method(Log, "_create_segment", make)


def _sync_error_retried(patches: Patches) -> None:
    """A flush that fails runs a second time and forgets the failure."""

    def make(original: Original) -> Original:
        def run(self: FlushPlan) -> None:
            try:
                original(self)
            except FsyncError:
                self._failure = None
                original(self)

        return run

    patches.method(FlushPlan, "run", make)


def _deletes_too_much(patches: Patches) -> None:
    """The log start goes up to what is flushed, not to the snapshot."""

    def make(original: Original) -> Original:
        def clean(self: SnapshotRetention, wall_ms: int, flushed_end_offset: int) -> Any:
            log = self._log
            raise_to = log.raise_log_start_to

            def raise_too_far(self: Log, offset: int) -> Any:
                del offset
                return raise_to(min(flushed_end_offset, self.flushed_end_offset))

            vars(log)["raise_log_start_to"] = MethodType(raise_too_far, log)
            try:
                return original(self, wall_ms, flushed_end_offset)
            finally:
                del vars(log)["raise_log_start_to"]

        return clean

    patches.method(SnapshotRetention, "clean", make)


def _names_snapshot_too_low(patches: Patches) -> None:
    """The id of a snapshot is one below its end, where that is inside a batch."""

    def make(original: Original) -> Original:
        def begin(self: Snapshots) -> None:
            loader, log = self._loader, self._log
            image = loader.image
            last = image.provenance.end_offset - 1
            if log.log_start_offset <= last and _base_offset_at(log, last) < last:
                lower = replace(image.provenance, end_offset=Offset(last))
                vars(self)["_loader"] = SimpleNamespace(
                    image=replace(image, provenance=lower),
                    transaction_start=loader.transaction_start,
                )
            try:
                original(self)
            finally:
                self._loader = loader

        return begin

    patches.method(Snapshots, "_begin", make)


def _base_offset_at(log: Log, offset: int) -> int:
    """Base offset of the batch that holds an offset."""
    content = log.read(Offset(offset), 1, Offset(offset + 1))
    return int.from_bytes(content[:8], "big")


def _takes_no_snapshots(patches: Patches) -> None:
    """A snapshot that is due is not begun."""
    patches.method(Snapshots, "_begin", lambda _: lambda _: None)


def _starts_unread(patches: Patches) -> None:
    """A file of the flushed end that cannot be read is taken for one without a value."""

    def make(original: Original) -> Original:
        def begin(self: FlushedEndFile, vfs: Vfs, partition_directory: str) -> None:
            with suppress(OSError):
                original(self, vfs, partition_directory)

        return begin

    patches.method(FlushedEndFile, "__init__", make)


DISKS: Final = (
    Mutant(
        number=23,
        name="speculative-snapshot",
        text="a snapshot holds what the controller computed, committed or not",
        expected=("I13",),
        seeds_max=300,
        patch=_speculative_snapshot,
    ),
    Mutant(
        number=24,
        name="unsynced-snapshot",
        text="a snapshot gets its final name before it is synced",
        expected=("I13", "I18"),
        seeds_max=300,
        patch=_unsynced_snapshot,
        options=POWER,
    ),
    Mutant(
        number=25,
        name="no-checksum-at-recovery",
        text="recovery does not look at the checksums of batches",
        expected=("I18",),
        seeds_max=200,
        patch=_no_checksum_at_recovery,
        options=DAMAGED,
    ),
    Mutant(
        number=26,
        name="keeps-torn-tail",
        text="recovery stops at a torn batch and leaves its bytes in the file",
        expected=("I6", "I18"),
        seeds_max=200,
        patch=_keeps_torn_tail,
        options=POWER,
    ),
    Mutant(
        number=27,
        name="directory-unsynced",
        text="the name of a new segment is not synced",
        expected=("I10", "I12", "I18"),
        seeds_max=500,
        patch=_directory_unsynced,
    ),
    Mutant(
        number=28,
        name="sync-error-retried",
        text="a failed fsync is retried, and its success trusted",
        expected=("I10", "I12"),
        seeds_max=200,
        patch=_sync_error_retried,
        options=replace(SHORT, faults=("sync_error",)),
    ),
    Mutant(
        number=34,
        name="deletes-too-much",
        text="cleanup moves the log start past the newest snapshot",
        expected=("I13",),
        seeds_max=200,
        patch=_deletes_too_much,
    ),
    Mutant(
        number=40,
        name="names-snapshot-too-low",
        text="a snapshot is named one offset below its end, inside a batch",
        expected=("I13",),
        seeds_max=50,
        patch=_names_snapshot_too_low,
    ),
    Mutant(
        number=42,
        name="takes-no-snapshots",
        text="a snapshot that is due is not begun",
        expected=("liveness",),
        seeds_max=50,
        patch=_takes_no_snapshots,
    ),
    Mutant(
        number=64,
        name="starts-unread",
        text="a start goes on without the record of the flushed end that it could not read",
        expected=("I18",),
        seeds_max=50,
        patch=_starts_unread,
        options=replace(SHORT, faults=("start_read_error",)),
    ),
)
