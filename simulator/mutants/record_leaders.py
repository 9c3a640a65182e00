"""Mutants of partitions at their leaders: ISR, high watermark, Produce, Fetch, sessions."""

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from broker.clients.front import Front
from replication import reading
from replication.leader import delayed, isr
from replication.leader.delayed_fetch import DelayedFetch
from replication.leader.leadership import Leadership
from replication.leader.replica import ReplicaState
from replication.leader.session_partition import SessionPartition
from replication.log_offsets import LogOffsetMetadata
from replication.replica_manager import ReplicaManager
from simulator.mutants.records_mutant import by_scenario, by_seeds, returning, with_named
from simulator.mutants.registry import Mutant, Patches
from storage.logs import log_validator
from storage.logs.unified_log import FetchIsolation, UnifiedLog
from wire.errors import ErrorCode


def _high_watermark_without_followers(patches: Patches) -> None:
    """The high watermark is the leader's log end."""

    def make(_: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(
            state: Any, current: Any, log_end: LogOffsetMetadata, *__: Any, **___: Any
        ) -> LogOffsetMetadata | None:
            del state
            return log_end if log_end.offset > current.offset else None

        return mutated

    patches.function(isr, "high_watermark", make)


def _expands_anyone(patches: Patches) -> None:
    """A follower joins the ISR with its first fetch, wherever its log ends."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(*given: Any, **named: Any) -> Any:
            named |= {"high_watermark": 0, "epoch_start_offset": 0}
            return original(*given, **named)

        return mutated

    patches.function(isr, "needs_expansion", make)


def _fetch_acknowledges_what_it_reads(patches: Patches) -> None:
    """A fetch counts as if the follower had what the answer will bring."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(self: Leadership, replica_id: Any, start: Any, *more: Any, **named: Any) -> Any:
            end = LogOffsetMetadata(named["leader_end_offset"])
            return original(self, replica_id, max(start, end, key=_offset), *more, **named)

        return mutated

    patches.method(Leadership, "record_fetch", make)


def _offset(of: LogOffsetMetadata) -> int:
    return int(of.offset)


def _no_divergence(patches: Patches) -> None:
    """A leader never tells followers that their logs diverge."""

    def make(_: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(log: Any, request: Any) -> None:
            del log, request

        return mutated

    patches.function(reading, "diverging_epoch", make)


def _reads_above_the_high_watermark(patches: Patches) -> None:
    """Consumers read up to the log end."""

    def make(_: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(self: UnifiedLog, isolation: Any) -> int:
            del isolation
            return self.end_offset

        return mutated

    patches.method(UnifiedLog, "bound", make)


def _keeps_memory_of_requests(patches: Patches) -> None:
    """An answered request still counts for the limit of memory."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(self: Front, reply: Any) -> None:
            held_bytes = reply.queued_bytes
            original(self, reply)
            self._memory.used_bytes += held_bytes

        return mutated

    patches.method(Front, "_release_bytes", make)


def _expands_below_the_epoch_start(patches: Patches) -> None:
    """A follower joins the ISR of a new leader with less than the log had when its epoch began."""
    patches.function(isr, "needs_expansion", with_named(epoch_start_offset=0))


def _high_watermark_below_min_isr(patches: Patches) -> None:
    """The high watermark moves while the ISR is smaller than min.insync.replicas."""
    patches.function(isr, "high_watermark", with_named(min_isr=0))


def _answers_before_the_high_watermark(patches: Patches) -> None:
    """A Produce with acks=all is answered as soon as the leader has the records."""
    patches.function(delayed, "produce_code", returning(ErrorCode.none))


def _takes_acks_all_below_min_isr(patches: Patches) -> None:
    """A Produce with acks=all is not refused while the ISR is below min.insync.replicas."""
    patches.method(Leadership, "is_under_min_isr", returning(False))  # noqa: FBT003


def _stamps_the_epoch_before(patches: Patches) -> None:
    """A leader stamps batches with the epoch before its own."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(batch: Any, base_offset: int, leader_epoch: int) -> Any:
            return original(batch, base_offset, max(0, leader_epoch - 1))

        return mutated

    patches.function(log_validator, "stamp", make)


def _begins_no_epoch(patches: Patches) -> None:
    """A new leader notes its epoch only with its first record."""
    patches.method(UnifiedLog, "assign_epoch", returning(None))


def _leads_from_its_log_end(patches: Patches) -> None:
    """A new leader takes its log end for the high watermark."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(self: Leadership, broker: Any, log: UnifiedLog, *given: Any, **n: Any) -> None:
            log.set_high_watermark(log.end_offset)
            original(self, broker, log, *given, **n)

        return mutated

    patches.method(Leadership, "__init__", make)


def _wakes_no_fetch(patches: Patches) -> None:
    """A Fetch that waits is not answered when records come, but when its time is over."""
    patches.method(DelayedFetch, "try_complete", returning(None))


def _never_shrinks(patches: Patches) -> None:
    """A follower that lags stays in the ISR."""
    patches.function(isr, "out_of_sync_replicas", returning(()))


def _deletes_without_followers(patches: Patches) -> None:
    """The low watermark of DeleteRecords is the leader's log start."""

    def make(_: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(log_start_offset: Any, *_: object) -> Any:
            return log_start_offset

        return mutated

    patches.function(isr, "low_watermark", make)


def _session_answers_records_alone(patches: Patches) -> None:
    """An incremental Fetch response leaves out partitions without records."""

    def make(_: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(self: SessionPartition, row: Any) -> bool:
            del self
            return bool(row.records_bytes > 0)

        return mutated

    patches.method(SessionPartition, "is_changed", make)


def _session_forgets_what_is_asked(patches: Patches) -> None:
    """A fetch session keeps the first row of a partition, whatever later requests say."""
    patches.method(SessionPartition, "ask", returning(None))


def _lists_offsets_above_the_high_watermark(patches: Patches) -> None:
    """The search by time tells consumers of records that are not committed."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(log: UnifiedLog, timestamp_ms: int, *_: Any, **named: Any) -> Any:
            return original(log, timestamp_ms, FetchIsolation.LOG_END, **named)

        return mutated

    patches.function(reading, "offset_for_timestamp", make)


def _counts_fetches_of_older_registrations(patches: Patches) -> None:
    """A follower that registered again counts by what its process before fetched."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(self: ReplicaState, broker: Any) -> bool:
            return bool(original(replace(self, broker_epoch=None), broker))

        return mutated

    patches.method(ReplicaState, "is_eligible", make)


def _keeps_requests_of_a_lost_leadership(patches: Patches) -> None:
    """Requests that wait at a leader go on waiting when another one leads."""
    patches.method(ReplicaManager, "check_all", returning(None))


LEADERS: Final[tuple[Mutant, ...]] = (
    by_seeds(201, _high_watermark_without_followers, "D1", "D2"),
    by_seeds(202, _expands_anyone, "D1", "D2"),
    by_seeds(203, _fetch_acknowledges_what_it_reads, "D1", "D2"),
    by_seeds(204, _no_divergence, "D3", "D7", "D1", "liveness"),
    by_seeds(205, _reads_above_the_high_watermark, "D2"),
    by_seeds(209, _keeps_memory_of_requests, "D9"),
    by_scenario(211, _expands_below_the_epoch_start, "isr_expansion"),
    by_scenario(212, _high_watermark_below_min_isr, "min_insync_replicas"),
    by_seeds(213, _answers_before_the_high_watermark, "D1", "D2", "D8"),
    by_scenario(214, _takes_acks_all_below_min_isr, "min_insync_replicas"),
    by_scenario(215, _stamps_the_epoch_before, "hard_kill"),
    by_scenario(216, _begins_no_epoch, "two_rounds_of_divergence"),
    by_scenario(217, _leads_from_its_log_end, "no_loss_with_leader_epochs"),
    by_scenario(218, _wakes_no_fetch, "fetch_session"),
    by_scenario(219, _never_shrinks, "min_insync_replicas"),
    by_scenario(220, _counts_fetches_of_older_registrations, "replica_of_an_older_registration"),
    by_scenario(221, _deletes_without_followers, "delete_records"),
    by_scenario(222, _session_answers_records_alone, "fetch_session"),
    by_scenario(223, _session_forgets_what_is_asked, "fetch_session"),
    by_scenario(225, _keeps_requests_of_a_lost_leadership, "produce_waits_at_a_leader_that_stops"),
    by_scenario(224, _lists_offsets_above_the_high_watermark, "offsets_by_time"),
)
