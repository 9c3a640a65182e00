"""Coverage marks of one raft core, set by looking over its shoulder: events in, effects out.

The tap replaces the bound `step` of one core object; the core does not know it and production code
is as it is.
"""

from typing import Final

from raft.core import RaftCore
from raft.effects import Effects, SendResponse, TruncateLog, WriteSnapshotChunk
from raft.events import (
    Event,
    RequestReceived,
    ResignRequested,
    ResponseReceived,
    ShutdownRequested,
)
from raft.messages import FetchResponse, VoteRequest, VoteResponse
from raft.roles import Candidate, Leader, Resigned
from simulator.ledger import Ledger
from simulator.probes import Probes

ASKED_TO_RESIGN: Final = (ResignRequested, ShutdownRequested)


class CoreTap:
    """Watches all cores of a world; `attach` once per process that starts."""

    def __init__(self, ledger: Ledger, probes: Probes) -> None:
        self._ledger = ledger
        self._probes = probes
        self._candidates: dict[int, set[int]] = {}
        self._download_began: dict[int, int] = {}

    def attach(self, number: int, core: RaftCore) -> None:
        """Look at every step of this core from now on."""
        step = core.step
        self._download_began.pop(number, None)

        def tapped(event: Event, now_ms: int) -> Effects:
            before = core.role
            epoch, kind = before.epoch, type(event)
            if type(event) is RequestReceived and type(event.request) is VoteRequest:
                position = (int(core.last_epoch), int(core.log_end_offset))
                effects = step(event, now_ms)
                self._on_vote(event, position, effects)
            else:
                effects = step(event, now_ms)
            if kind is ResponseReceived:
                self._on_response(event, epoch, effects)  # type: ignore[arg-type]
            after = core.role
            if after is not before:
                if type(after) is Candidate:
                    self._on_candidate(number, after.epoch)
                elif (
                    type(after) is Resigned
                    and type(before) is Leader
                    and kind not in ASKED_TO_RESIGN
                ):
                    self._probes.hit("leader_resigned_by_check_quorum")
            for effect in effects.persist:
                if type(effect) is WriteSnapshotChunk:
                    self._on_chunk(number, effect)
            return effects

        setattr(core, "step", tapped)  # noqa: B010 - an instance attribute hides the method

    def _on_vote(self, event: RequestReceived, position: tuple[int, int], effects: Effects) -> None:
        request = event.request
        assert type(request) is VoteRequest
        for effect in effects.send:
            if type(effect) is not SendResponse or effect.reply_token != event.reply_token:
                continue
            response = effect.response
            if type(response) is not VoteResponse or response.error_code:
                continue
            if request.pre_vote:
                granted = response.vote_granted
                self._probes.hit("pre_vote_granted" if granted else "pre_vote_refused")
            elif not response.vote_granted:
                self._probes.hit("vote_refused")
                if (request.last_epoch, request.last_end_offset) < position:
                    self._probes.hit("vote_refused_for_shorter_log")

    def _on_response(self, event: ResponseReceived, epoch: int, effects: Effects) -> None:
        response = event.response
        is_diverging = type(response) is FetchResponse and response.diverging_epoch is not None
        if is_diverging and any(type(effect) is TruncateLog for effect in effects.persist):
            self._probes.hit("truncated_by_diverging_epoch")
        leader_epoch = getattr(response, "leader_epoch", None)
        if leader_epoch is not None and 0 < leader_epoch < epoch and not effects.persist:
            self._probes.hit("stale_response_ignored")

    def _on_candidate(self, number: int, epoch: int) -> None:
        candidates = self._candidates.setdefault(epoch, set())
        candidates.add(number)
        if len(candidates) == 2:
            self._probes.hit("two_candidates_in_one_epoch")

    def _on_chunk(self, number: int, effect: WriteSnapshotChunk) -> None:
        committed = self._ledger.end_offset
        if effect.position_bytes == 0:
            self._download_began[number] = committed
        if effect.done:
            self._probes.hit("snapshot_fetched")
            if self._download_began.pop(number, committed) < committed:
                self._probes.hit("snapshot_fetched_mid_load")
