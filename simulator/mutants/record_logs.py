"""Mutants of the logs of partitions: producers, retention, offsets by time, starts and stops."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from simulator.mutants.records_mutant import (
    CLEAN_ENDS,
    by_scenario,
    by_seeds,
    returning,
    with_named,
)
from simulator.mutants.registry import Mutant, Patches
from storage.checkpoints.checkpoint_files import OffsetCheckpoint
from storage.log_dir.clean_shutdown_file import CleanShutdownFiles
from storage.logs import retention
from storage.logs.log_directory import LogDirectory
from storage.logs.recovery import BatchRules
from storage.logs.retention import RetentionRules, SegmentExtent
from storage.logs.unified_log import UnifiedLog
from storage.producers import producer_replay
from storage.producers.producer_entry import ProducerStateEntry
from storage.producers.producer_state import ProducerAppend, ProducerStates
from storage.segments import timestamp_lookup
from storage.segments.segment import Segment


def _knows_no_duplicates(patches: Patches) -> None:
    """A batch that was stored is refused when it comes again."""

    def make(_: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(self: ProducerStateEntry, header: Any) -> None:
            del self, header

        return mutated

    patches.method(ProducerStateEntry, "duplicate_of", make)


def _checks_no_sequences(patches: Patches) -> None:
    """A batch that was stored is stored again."""
    _knows_no_duplicates(patches)

    def make(_: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(self: ProducerAppend, *given: Any) -> None:
            del self, given

        return mutated

    patches.method(ProducerAppend, "_check_sequence", make)


def _forgets_producers(patches: Patches) -> None:
    """A log that is opened, or truncated, knows the producers of no snapshot."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(self: ProducerStates, entries: Any, *more: Any) -> None:
            del entries
            original(self, (), *more)

        return mutated

    patches.method(ProducerStates, "load", make)


def _knows_the_last_batch_alone(patches: Patches) -> None:
    """Of the last five batches of a producer only the newest is known when it comes again."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(self: ProducerStateEntry, header: Any) -> Any:
            found = original(self, header)
            return found if found is not None and found is self.batches[-1] else None

        return mutated

    patches.method(ProducerStateEntry, "duplicate_of", make)


def _takes_old_producer_epochs(patches: Patches) -> None:
    """A batch of an older producer epoch is appended."""
    patches.method(ProducerAppend, "_check_epoch", returning(None))
    patches.method(ProducerAppend, "_check_sequence", returning(None))


def _loses_producers_at_a_roll(patches: Patches) -> None:
    """The producers are forgotten when the log rolls."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(self: UnifiedLog, base_offset: int) -> None:
            original(self, base_offset)
            self.producers.load((), base_offset, 0)

        return mutated

    patches.method(UnifiedLog, "_rolled", make)


def _keeps_producers_of_truncated_records(patches: Patches) -> None:
    """Batches that were truncated are still known as stored."""

    def make(_: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(self: UnifiedLog, wall_ms: int) -> None:
            del wall_ms
            self.producers.end_offset = self.end_offset
            self.set_high_watermark(self.high_watermark)

        return mutated

    patches.method(UnifiedLog, "_truncated", make)


def _replays_no_producers(patches: Patches) -> None:
    """A log that is opened knows the producers of its newest snapshot, and none behind it."""

    def make(_: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(states: ProducerStates, batch: Any) -> None:
            states.note_end(batch.header.end_offset)

        return mutated

    patches.function(producer_replay, "replay", make)


def _leaves_less_than_retention_bytes(patches: Patches) -> None:
    """A segment is deleted as soon as the log is larger than retention.bytes."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(
            segments: Sequence[SegmentExtent], rules: RetentionRules, *given: Any, **named: Any
        ) -> int:
            left = rules.retention_bytes - segments[0].size_bytes + 1
            fewer = replace(rules, retention_bytes=max(0, left))
            used = fewer if rules.retention_bytes >= 0 else rules
            return int(original(segments, used, *given, **named))

        return mutated

    patches.function(retention, "deletable_count", make)


def _deletes_by_the_first_timestamp(patches: Patches) -> None:
    """Retention by time looks at the first record of a segment, not at its newest."""

    def make(_: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(self: Segment) -> int:
            return self.indexes.first_timestamp_ms

        return mutated

    patches.method(Segment, "largest_timestamp_ms", make)


def _deletes_what_is_not_committed(patches: Patches) -> None:
    """Retention deletes segments above the high watermark, which rises with the log start."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(self: UnifiedLog, *given: Any, **named: Any) -> Any:
            self.set_high_watermark(self.end_offset)
            return original(self, *given, **named)

        return mutated

    patches.method(UnifiedLog, "delete_old_segments", make)


def _forgets_checkpoints(patches: Patches) -> None:
    """A start does not read the high watermarks and log starts that were recorded."""

    def make(_: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(self: OffsetCheckpoint) -> dict[Any, int]:
            del self
            return {}

        return mutated

    patches.method(OffsetCheckpoint, "offsets", make)


def _trusts_damaged_records(patches: Patches) -> None:
    """A start does not look at the checksums of batches."""
    patches.method(BatchRules, "objection", with_named(crc_is_valid=True))


def _takes_every_stop_for_clean(patches: Patches) -> None:
    """A start checks no log, as if the process before had shut down cleanly."""
    patches.method(LogDirectory, "__init__", with_named(is_clean=True))


def _records_no_clean_shutdown(patches: Patches) -> None:
    """A clean shutdown leaves no .kafka_cleanshutdown."""
    patches.method(CleanShutdownFiles, "write_into", returning(None))


def _searches_times_one_segment_later(patches: Patches) -> None:
    """The search by time begins with the second segment."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(segments: Sequence[Segment], *given: Any) -> Any:
            return original(segments[1:] or segments, *given)

        return mutated

    patches.function(timestamp_lookup, "first_at_or_after", make)


def _looks_for_the_largest_time_at_the_end(patches: Patches) -> None:
    """The largest timestamp is looked for in the last segment alone."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(segments: Sequence[Segment], *given: Any) -> Any:
            return original(segments[-1:], *given)

        return mutated

    patches.function(timestamp_lookup, "with_max_timestamp", make)


def _begins_at_zero(patches: Patches) -> None:
    """The earliest offset is that of the first segment, not the log start."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(self: UnifiedLog) -> Any:
            return replace(original(self), offset=self.log.segments[0].base_offset)

        return mutated

    patches.method(UnifiedLog, "earliest", make)


LOGS: Final[tuple[Mutant, ...]] = (
    by_seeds(206, _knows_no_duplicates, "D5"),
    by_seeds(207, _checks_no_sequences, "D5"),
    by_seeds(208, _forgets_producers, "D5", options=CLEAN_ENDS),
    by_scenario(241, _knows_the_last_batch_alone, "duplicates"),
    by_scenario(242, _takes_old_producer_epochs, "duplicates"),
    by_scenario(243, _loses_producers_at_a_roll, "duplicates"),
    by_scenario(244, _keeps_producers_of_truncated_records, "truncated_batch_comes_again"),
    by_scenario(245, _replays_no_producers, "duplicates"),
    by_scenario(246, _leaves_less_than_retention_bytes, "retention_by_size"),
    by_scenario(247, _deletes_by_the_first_timestamp, "retention_by_time"),
    by_scenario(248, _deletes_what_is_not_committed, "retention_by_size"),
    by_scenario(249, _forgets_checkpoints, "high_watermark_checkpoint"),
    by_scenario(250, _records_no_clean_shutdown, "controlled_shutdown"),
    by_scenario(251, _searches_times_one_segment_later, "offsets_by_time"),
    by_scenario(252, _looks_for_the_largest_time_at_the_end, "offsets_by_time"),
    by_scenario(254, _trusts_damaged_records, "damaged_tail"),
    by_scenario(255, _takes_every_stop_for_clean, "damaged_tail"),
    by_scenario(253, _begins_at_zero, "delete_records"),
)
