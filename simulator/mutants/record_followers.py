"""Mutants of partitions at their followers: what they append, and where they truncate to."""

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from replication.follower import following
from replication.follower.fetcher import Fetcher
from replication.reading import LATEST
from simulator.mutants.records_mutant import by_scenario, returning
from simulator.mutants.registry import Mutant, Patches
from storage.checkpoints.epoch_checkpoint import EpochCache
from storage.logs.unified_log import UnifiedLog
from wire.types import Offset, OffsetAndEpoch


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


def _truncates_one_too_few(patches: Patches) -> None:
    """A follower whose log diverges keeps one record too many."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(log: UnifiedLog, diverging: OffsetAndEpoch) -> Offset:
            return Offset(min(original(log, diverging) + 1, log.end_offset))

        return mutated

    patches.function(following, "truncation_offset", make)


def _truncates_by_the_offset_alone(patches: Patches) -> None:
    """A follower truncates to the end of the leader's epoch, whether it knows that epoch or not."""

    def make(_: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(log: UnifiedLog, diverging: OffsetAndEpoch) -> Offset:
            return Offset(min(diverging.offset, log.end_offset))

        return mutated

    patches.function(following, "truncation_offset", make)


def _keeps_epochs_of_truncated_records(patches: Patches) -> None:
    """The epochs of truncated records stay in the epoch cache."""
    patches.method(EpochCache, "truncate_from_end", returning(False))  # noqa: FBT003


def _commits_what_it_appends(patches: Patches) -> None:
    """A follower takes its log end for the high watermark."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(log: UnifiedLog, *given: Any) -> Any:
            appended = original(log, *given)
            log.set_high_watermark(log.end_offset)
            return replace(appended, high_watermark_raised=True)

        return mutated

    patches.function(following, "append_fetched", make)


def _ignores_the_leaders_log_start(patches: Patches) -> None:
    """A follower keeps its log start when that of the leader rises."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(log: UnifiedLog, fetched: Any, *given: Any) -> Any:
            return original(log, replace(fetched, log_start_offset=Offset(0)), *given)

        return mutated

    patches.function(following, "append_fetched", make)


def _follows_the_old_epoch(patches: Patches) -> None:
    """A follower asks with the leader epoch before the one that it knows."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(self: Fetcher, key: Any, topic: str, epoch: int) -> None:
            original(self, key, topic, max(0, epoch - 1))

        return mutated

    patches.method(Fetcher, "assign", make)


def _never_truncates_below_the_high_watermark(patches: Patches) -> None:
    """A follower keeps what is below its high watermark, though a leader was elected without it."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(log: UnifiedLog, diverging: OffsetAndEpoch) -> Offset:
            return Offset(max(original(log, diverging), log.high_watermark))

        return mutated

    patches.function(following, "truncation_offset", make)


def _asks_for_the_log_end_alone(patches: Patches) -> None:
    """A follower out of range never asks where the log of its leader begins."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(self: Fetcher, state: Any, timestamp: int) -> None:
            del timestamp
            original(self, state, LATEST)

        return mutated

    patches.method(Fetcher, "_ask", make)


FOLLOWERS: Final[tuple[Mutant, ...]] = (
    by_scenario(210, _truncates_to_the_high_watermark, "no_loss_with_leader_epochs"),
    by_scenario(231, _truncates_one_too_few, "divergence_is_truncated"),
    by_scenario(232, _truncates_by_the_offset_alone, "two_rounds_of_divergence"),
    by_scenario(233, _keeps_epochs_of_truncated_records, "two_rounds_of_divergence"),
    by_scenario(234, _commits_what_it_appends, "no_loss_with_leader_epochs"),
    by_scenario(235, _ignores_the_leaders_log_start, "delete_records"),
    by_scenario(236, _follows_the_old_epoch, "hard_kill"),
    by_scenario(
        237, _never_truncates_below_the_high_watermark, "committed_truncation_by_an_unclean_leader"
    ),
    by_scenario(238, _asks_for_the_log_end_alone, "follower_below_the_log_start"),
)
