"""Mutants of transactions: coordinators, markers, verification, and what leaders know of them."""

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from broker.coordinators import verification as questions
from coordinator.runtime.write import ProducerIdAndEpoch
from coordinator.transaction import decisions, markers, transitions
from coordinator.transaction.machine import TransactionMachine
from coordinator.transaction.metadata import TransactionMetadata
from replication.leader.appends import LEADER_ALONE, Appends
from simulator.mutants.records_mutant import MANY_ENDS, by_scenario, by_seeds, returning
from simulator.mutants.registry import Mutant, Patches
from storage.logs.log_producers import LogProducers
from storage.logs.unified_log import FetchIsolation, UnifiedLog
from storage.producers import leader_append, producer_state
from storage.producers.producer_state import Origin, ProducerAppend, ProducerStates
from storage.producers.verification import Verifications
from wire.errors import ErrorCode

Function = Callable[..., Any]
TRANSACTIONS: Final = replace(MANY_ENDS, has_transactions=True, duration_us=6_000_000)
"""Seeds with transactions, in which nothing loses its power."""


# ---- the coordinator ---------------------------------------------------------------------------


def _leaves_what_an_election_finds_prepared(patches: Patches) -> None:
    """A coordinator that is elected sends no markers of transactions that have ended before."""
    patches.method(TransactionMachine, "_await_commit", returning(None))


def _fences_without_a_new_epoch(patches: Patches) -> None:
    """The abort of an open transaction for another process, or by time, keeps the epoch."""

    def make(original: Function) -> Function:
        def mutated(before: TransactionMetadata, *given: Any) -> TransactionMetadata:
            after: TransactionMetadata = original(before, *given)
            return replace(after, producer_epoch=before.producer_epoch)

        return mutated

    patches.function(transitions, "fenced", make)


def _never_times_out(patches: Patches) -> None:
    """A transaction whose time is over stays open."""
    patches.function(decisions, "is_timed_out", returning(False))  # noqa: FBT003


def _commits_what_was_aborted(patches: Patches) -> None:
    """An end is answered as done, whichever end the transaction had."""

    def make(_: Function) -> Function:
        def mutated(before: Any, *, is_commit: bool, producer: ProducerIdAndEpoch) -> Any:
            del before, is_commit
            return decisions.Change(producer=producer)

        return mutated

    patches.function(decisions, "_again", make)


def _keeps_the_epoch_of_an_end(patches: Patches) -> None:
    """A transaction of a newer client ends in its own epoch."""

    def make(original: Function) -> Function:
        def mutated(*given: TransactionMetadata, **named: Any) -> TransactionMetadata:
            after: TransactionMetadata = original(*given, **named)
            return replace(after, producer_epoch=given[0].producer_epoch)

        return mutated

    patches.function(transitions, "prepared", make)


def _adds_partitions_of_a_fenced_producer(patches: Patches) -> None:
    """A coordinator adds partitions for any epoch of the producer."""

    def make(original: Function) -> Function:
        def mutated(before: Any, producer: ProducerIdAndEpoch) -> Any:
            if before is not None:
                producer = replace(producer, producer_epoch=before.producer_epoch)
            return original(before, producer)

        return mutated

    patches.function(decisions, "_refusal", make)


# ---- markers -----------------------------------------------------------------------------------


def _takes_any_answer_to_a_marker(patches: Patches) -> None:
    """A marker that its leader refused counts as written."""

    def make(original: Function) -> Function:
        def mutated(response: Any) -> Any:
            return dict.fromkeys(original(response), ErrorCode.none)

        return mutated

    patches.function(markers, "_codes", make)


def _answers_markers_before_followers_have_them(patches: Patches) -> None:
    """A leader answers for a marker that only it has."""

    def make(original: Function) -> Function:
        def mutated(*given: Any, **named: Any) -> Any:
            if named.get("origin") is Origin.COORDINATOR:
                named["required_acks"] = LEADER_ALONE
            return original(*given, **named)

        return mutated

    patches.method(Appends, "append", make)


def _takes_markers_of_former_coordinators(patches: Patches) -> None:
    """A leader takes a marker of a coordinator that another one has followed."""

    def make(original: Function) -> Function:
        def mutated(self: ProducerAppend, *given: Any, **named: Any) -> Any:
            self.updated.coordinator_epoch = -1
            return original(self, *given, **named)

        return mutated

    patches.method(ProducerAppend, "end_transaction", make)


def _takes_markers_of_older_epochs(patches: Patches) -> None:
    """A leader takes records and markers of a producer whose newer epoch it knows."""
    patches.method(ProducerAppend, "_check_epoch", returning(None))


def _ends_the_next_transaction_too(patches: Patches) -> None:
    """A marker that comes again ends the transaction behind the one that it is of."""

    def make(original: Function) -> Function:
        def mutated(self: ProducerAppend, epoch: int, offset: int, **_: Any) -> None:
            original(self, epoch, offset, is_bumped=False)

        return mutated

    patches.method(ProducerAppend, "_check_epoch", make)


# ---- verification ------------------------------------------------------------------------------


def _appends_without_the_guard(patches: Patches) -> None:
    """A leader appends a batch whatever became of its verification."""
    patches.function(leader_append, "_is_verified", returning(True))  # noqa: FBT003


def _verifies_beyond_a_marker(patches: Patches) -> None:
    """A verification goes on behind the marker that ended its transaction."""
    patches.method(Verifications, "end_with", returning(None))


def _takes_any_answer_of_a_coordinator(patches: Patches) -> None:
    """A leader appends what the coordinator said is in no transaction."""
    patches.function(questions, "_known_errors", returning({}))


def _begins_with_any_sequence(patches: Patches) -> None:
    """The first batch of a transaction may have any sequence where nothing is known of it."""
    patches.function(producer_state, "_sequence_max", returning(1 << 31))


# ---- what readers see --------------------------------------------------------------------------


def _reads_open_transactions(patches: Patches) -> None:
    """A reader of what is committed reads up to the high watermark."""

    def make(original: Function) -> Function:
        def mutated(self: UnifiedLog, isolation: FetchIsolation) -> int:
            if isolation is FetchIsolation.TXN_COMMITTED:
                isolation = FetchIsolation.HIGH_WATERMARK
            bound: int = original(self, isolation)
            return bound

        return mutated

    patches.method(UnifiedLog, "bound", make)


def _is_stable_behind_a_marker_that_may_be_lost(patches: Patches) -> None:
    """The last stable offset passes a transaction whose marker is above the high watermark."""

    def make(_: Function) -> Function:
        def mutated(self: ProducerStates) -> Any:
            return self.first_undecided_offset

        return mutated

    patches.method(ProducerStates, "first_unstable_offset", make)


def _indexes_no_abort(patches: Patches) -> None:
    """Readers are not told of aborted transactions."""
    patches.method(LogProducers, "note_aborted", returning(None))


def _forgets_open_transactions_of_a_snapshot(patches: Patches) -> None:
    """A start forgets the transactions that its snapshot of producers has open."""

    def make(original: Function) -> Function:
        def mutated(self: ProducerStates, entries: Any, *given: Any) -> None:
            closed = [replace(each, current_transaction_first_offset=-1) for each in entries]
            original(self, closed, *given)

        return mutated

    patches.method(ProducerStates, "load", make)


def _forgets_what_ended_above_the_high_watermark(patches: Patches) -> None:
    """A start forgets the transactions that ended between its high watermark and its snapshot."""
    patches.method(LogProducers, "_load_ended", returning(None))


TRANSACTIONAL: Final[tuple[Mutant, ...]] = (
    by_scenario(301, _leaves_what_an_election_finds_prepared, "transaction_coordinator_killed"),
    by_scenario(302, _fences_without_a_new_epoch, "transaction_fencing"),
    by_scenario(303, _never_times_out, "transaction_timeout"),
    by_scenario(304, _commits_what_was_aborted, "transaction_commit"),
    by_scenario(305, _keeps_the_epoch_of_an_end, "transaction_commit"),
    by_scenario(306, _adds_partitions_of_a_fenced_producer, "transaction_late_write"),
    by_scenario(307, _takes_any_answer_to_a_marker, "transaction_marker_to_a_reassigned_partition"),
    by_scenario(308, _answers_markers_before_followers_have_them, "transaction_leader_killed"),
    by_scenario(
        309, _takes_markers_of_former_coordinators, "transaction_late_write_of_an_older_client"
    ),
    by_scenario(310, _takes_markers_of_older_epochs, "transaction_late_write_of_an_older_client"),
    by_scenario(311, _ends_the_next_transaction_too, "transaction_late_write"),
    by_scenario(312, _appends_without_the_guard, "transaction_late_write_of_an_older_client"),
    by_scenario(313, _verifies_beyond_a_marker, "transaction_late_write_of_an_older_client"),
    by_scenario(314, _takes_any_answer_of_a_coordinator, "transaction_of_an_older_client"),
    by_scenario(315, _begins_with_any_sequence, "transaction_late_write"),
    by_seeds(316, _reads_open_transactions, "D4", options=TRANSACTIONS),
    by_scenario(317, _is_stable_behind_a_marker_that_may_be_lost, "transaction_leader_killed"),
    by_seeds(318, _indexes_no_abort, "D4", options=TRANSACTIONS),
    by_scenario(319, _forgets_open_transactions_of_a_snapshot, "transaction_restart"),
    by_scenario(
        320, _forgets_what_ended_above_the_high_watermark, "transaction_above_the_high_watermark"
    ),
)
