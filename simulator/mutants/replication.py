"""Mutants of replication: high watermark, truncation, stale messages."""

from collections.abc import Callable
from typing import Any, Final

from raft import error_codes, responses
from raft.effects import AppendFetched, Claimed
from raft.fetching import fetch_follower, fetch_leader
from raft.fetching.epoch_cache import LogView
from raft.messages import FetchRequest, FetchResponse
from raft.quorum import majority_offset
from raft.requests import RequestManager
from raft.roles import Leader
from raft.state import PendingAppend, RaftState
from simulator.mutants.registry import QUARREL, Mutant, Patches
from wire.types import LeaderEpoch, Offset, OffsetAndEpoch

Original = Callable[..., Any]


def _commits_older_epochs(patches: Patches) -> None:
    """Earlier epochs commit by counting; the claim still waits for the own epoch."""

    def make(_: Original) -> Original:
        def update_high_watermark(state: RaftState) -> None:
            role = state.role
            assert isinstance(role, Leader)
            ends: list[Offset | None] = [seen.end_offset for seen in role.progress.values()]
            reached = majority_offset([*ends, state.log.flushed_end_offset])
            if reached is None or not state.advance_high_watermark(reached):
                return
            if not role.is_claimed and reached > role.epoch_start_offset:
                role.is_claimed = True
                claimed = Claimed(epoch=role.epoch, end_offset=state.log.end_offset)
                state.effects.notify.append(claimed)
            fetch_leader.release_parked(state, 0)

        return update_high_watermark

    patches.function(fetch_leader, "update_high_watermark", make)


def _as_if_flushed(original: Original) -> Original:
    """Run with the written end in the place of the flushed one."""

    def wrapped(state: RaftState) -> None:
        log = state.log
        flushed = log.flushed_end_offset
        log.flushed_end_offset = log.written_end_offset
        try:
            original(state)
        finally:
            log.flushed_end_offset = flushed

    return wrapped


def _fetches_before_flush(patches: Patches) -> None:
    """A voter fetches from the end of what it wrote."""
    patches.function(fetch_follower, "send_fetch", _as_if_flushed)


def _counts_unflushed(patches: Patches) -> None:
    """A leader counts in the majority with the end of what it wrote."""
    patches.function(fetch_leader, "update_high_watermark", _as_if_flushed)


def _keeps_divergence(patches: Patches) -> None:
    """A follower that has to truncate does nothing."""
    patches.function(fetch_follower, "_truncate", lambda _: lambda *_: None)


def _truncates_too_little(patches: Patches) -> None:
    """The point to truncate to is one offset too high."""

    def make(original: Original) -> Original:
        def truncation_point(self: LogView, diverging: OffsetAndEpoch) -> Offset:
            return Offset(min(original(self, diverging) + 1, self.end_offset))

        return truncation_point

    patches.method(LogView, "truncation_point", make)


def _keeps_cut_epoch(patches: Patches) -> None:
    """The epoch entry that starts at the truncation point stays."""

    def make(original: Original) -> Original:
        def truncate(self: LogView, end_offset: Offset) -> None:
            kept = [entry for entry in self.epochs if entry.start_offset == end_offset]
            original(self, end_offset)
            self._epochs += kept
            self._note_last_epoch()

        return truncate

    patches.method(LogView, "truncate", make)


def _takes_stale_fetches(patches: Patches) -> None:
    """A response to a fetch of an earlier epoch is accepted, whoever led it."""

    def kept_by(connections: RequestManager) -> dict[int, FetchRequest]:
        fetches: dict[int, FetchRequest] = vars(connections).setdefault("kept_fetches", {})
        return fetches

    def make_reset(original: Original) -> Original:
        def reset(self: RequestManager) -> None:
            fetches = kept_by(self)
            for connection in self._by_id.values():
                request, correlation_id = connection.request, connection.correlation_id
                if isinstance(request, FetchRequest) and correlation_id is not None:
                    fetches[correlation_id] = request
            original(self)

        return reset

    def make_response(original: Original) -> Original:
        def on_response(state: RaftState, event: Any) -> None:
            response, role = event.response, state.role
            request = kept_by(state.request_manager).pop(event.correlation_id, None)
            is_stale = (
                request is not None
                and isinstance(response, FetchResponse)
                and response.error_code == error_codes.NONE
                and response.leader_epoch < state.epoch
                and request.fetch_offset == state.log.end_offset
            )
            if not is_stale or isinstance(role, Leader):
                original(state, event)
            elif response.records:
                state.pending_append = PendingAppend(response.high_watermark)
                state.effects.persist.append(
                    AppendFetched(
                        base_offset=state.log.end_offset,
                        epoch=role.epoch,
                        records=response.records,
                        flush=state.is_voter,
                    )
                )

        return on_response

    patches.method(RequestManager, "reset", make_reset)
    patches.function(responses, "on_response", make_response)


def _no_fencing(patches: Patches) -> None:
    """A fetch counts as one of the leader's own epoch, whatever epoch it names."""

    def make(original: Original) -> Original:
        def leader_error(state: RaftState, epoch: LeaderEpoch) -> Any:
            return original(state, max(epoch, state.epoch))

        return leader_error

    patches.function(fetch_leader, "leader_error", make)


def _high_watermark_restarts(patches: Patches) -> None:
    """A new leader sets its high watermark to its log start."""

    def make(original: Original) -> Original:
        def become(self: RaftState, new: Any) -> None:
            original(self, new)
            if isinstance(new, Leader):
                self.high_watermark = self.log.start_offset

        return become

    patches.method(RaftState, "become", make)


def _applies_all(patches: Patches) -> None:
    """A follower takes its log end for the high watermark of a fetch response."""

    def make(original: Original) -> Original:
        def take_high_watermark(state: RaftState, high_watermark: int) -> None:
            if high_watermark >= 0:
                original(state, state.log.end_offset)

        return take_high_watermark

    patches.function(fetch_follower, "_take_high_watermark", make)


def _tracks_diverging(patches: Patches) -> None:
    """A fetch that has to truncate first counts like any other."""

    def make(original: Original) -> Original:
        def evaluate(
            state: RaftState, request: FetchRequest, wall_ms: int, connection_id: int | None
        ) -> FetchResponse:
            response: FetchResponse = original(state, request, wall_ms, connection_id)
            is_possible = request.fetch_offset <= state.log.end_offset
            if response.diverging_epoch is not None and is_possible:
                fetch_leader._track(state, request, wall_ms)  # noqa: SLF001
            return response

        return evaluate

    patches.function(fetch_leader, "_evaluate", make)


REPLICATION: Final = (
    Mutant(
        number=7,
        name="commits-older-epochs",
        text="a leader commits records of earlier epochs by counting replicas",
        expected=("I9", "I10", "I11"),
        seeds_max=1000,
        patch=_commits_older_epochs,
    ),
    Mutant(
        number=8,
        name="fetches-before-flush",
        text="a voter fetches from the end of what it wrote, flushed or not",
        expected=("I10",),
        seeds_max=300,
        patch=_fetches_before_flush,
    ),
    Mutant(
        number=9,
        name="counts-unflushed",
        text="a leader counts itself before its own flush",
        expected=("I10",),
        seeds_max=300,
        patch=_counts_unflushed,
    ),
    Mutant(
        number=10,
        name="keeps-divergence",
        text="a follower does not truncate when its log diverges",
        expected=("I6", "liveness"),
        seeds_max=200,
        patch=_keeps_divergence,
        options=QUARREL,
    ),
    Mutant(
        number=11,
        name="truncates-too-little",
        text="a follower keeps one record too many when its log diverges",
        expected=("I6", "liveness"),
        seeds_max=200,
        patch=_truncates_too_little,
        options=QUARREL,
    ),
    Mutant(
        number=12,
        name="keeps-cut-epoch",
        text="the epoch whose records were truncated stays in the epoch cache",
        expected=("I4", "I6", "I7", "liveness"),
        seeds_max=500,
        patch=_keeps_cut_epoch,
        options=QUARREL,
    ),
    Mutant(
        number=13,
        name="takes-stale-fetches",
        text="a Fetch response of a former leader is accepted in a later epoch",
        expected=("I6", "I8"),
        seeds_max=500,
        patch=_takes_stale_fetches,
        options=QUARREL,
    ),
    Mutant(
        number=14,
        name="no-fencing",
        text="a leader accepts the fetch of a follower that is in an older epoch",
        expected=("I9", "I10"),
        seeds_max=500,
        patch=_no_fencing,
    ),
    Mutant(
        number=15,
        name="high-watermark-restarts",
        text="a new leader's high watermark begins at the start of its log",
        expected=("I9",),
        seeds_max=300,
        patch=_high_watermark_restarts,
    ),
    Mutant(
        number=16,
        name="applies-all",
        text="a follower takes its log end for the high watermark",
        expected=("I8", "I9"),
        seeds_max=100,
        patch=_applies_all,
    ),
    Mutant(
        number=37,
        name="tracks-diverging",
        text="a leader counts the fetch of a voter whose log diverges",
        expected=("I8", "I10"),
        seeds_max=100,
        patch=_tracks_diverging,
        options=QUARREL,
    ),
)
