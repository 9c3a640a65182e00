"""Mutants of the data plane, killed by runs with records (simulator/records/run.py)."""

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from broker.front import Front
from replication import reading
from replication.follower.fetcher import Fetcher
from replication.leader import isr
from replication.leader.leadership import Leadership
from replication.log_offsets import LogOffsetMetadata
from simulator.campaign.draw import RECORDS_STANDARD, Options
from simulator.mutants.registry import Mutant, Patches
from storage.logs.unified_log import UnifiedLog
from storage.producers.producer_state import ProducerAppend, ProducerStateEntry, ProducerStates
from wire.types import Offset

MANY_ENDS: Final = replace(
    RECORDS_STANDARD,
    node_count=3,
    observer_count=0,
    faults=("kill", "terminate", "depose_leader", "partition", "kill_at_operation"),
)
"""Faults that move leaders and lose no power."""
CLEAN_ENDS: Final = replace(MANY_ENDS, faults=("terminate",))


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


def _truncates_to_the_high_watermark(patches: Patches) -> None:
    """A follower of a new leader epoch truncates to its high watermark."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(self: Fetcher, key: Any, topic: str, epoch: Any) -> None:
            original(self, key, topic, epoch)
            state = self._states[key]
            log = self._log_of(state)
            assert log is not None, "it was assigned"
            self._truncate(state, Offset(log.high_watermark))

        return mutated

    patches.method(Fetcher, "assign", make)


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


def _keeps_memory_of_requests(patches: Patches) -> None:
    """An answered request still counts for the limit of memory."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(self: Front, reply: Any) -> None:
            held_bytes = reply.queued_bytes
            original(self, reply)
            self._queued_bytes += held_bytes

        return mutated

    patches.method(Front, "_release_bytes", make)


def _mutant(
    number: int,
    patch: Callable[[Patches], None],
    *expected: str,
    options: Options = MANY_ENDS,
    scenario: str | None = None,
) -> Mutant:
    assert patch.__doc__ is not None, f"{patch=}"
    return Mutant(
        number=number,
        name=patch.__name__.strip("_").replace("_", "-"),
        text=patch.__doc__,
        expected=expected,
        seeds_max=20,
        patch=patch,
        options=options,
        scenario=scenario,
    )


RECORDS: Final = (
    _mutant(201, _high_watermark_without_followers, "D1", "D2"),
    _mutant(202, _expands_anyone, "D1", "D2"),
    _mutant(203, _fetch_acknowledges_what_it_reads, "D1", "D2"),
    _mutant(204, _no_divergence, "D3", "D7", "D1", "liveness"),
    _mutant(205, _reads_above_the_high_watermark, "D2"),
    _mutant(206, _knows_no_duplicates, "D5"),
    _mutant(207, _checks_no_sequences, "D5"),
    _mutant(208, _forgets_producers, "D5", options=CLEAN_ENDS),
    _mutant(209, _keeps_memory_of_requests, "D9"),
    _mutant(210, _truncates_to_the_high_watermark, scenario="no_loss_with_leader_epochs"),
)
"""Mutants with the seeds of `run_records`; not part of `kraftline sim mutate`, whose runs are
without records."""
