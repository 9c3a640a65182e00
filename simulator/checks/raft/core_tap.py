"""Tap on a raft core: it sees events and effects, and sets coverage marks.

It also checks what only the steps of a core show: pre-votes for I3 and I4
(simulator/checks/raft/pre_votes.py), changes of role for I16.

The tap replaces the bound `step` of one core object; production code is unchanged.
"""

from collections.abc import Callable
from typing import Final

from raft.core import RaftCore
from raft.effects import Effects, SendResponse, TruncateLog, WriteSnapshotChunk
from raft.elections.leader_loss import Cause
from raft.events import Event, LeaderUnreachable, RequestReceived, ResponseReceived
from raft.messages import FetchResponse, VoteRequest, VoteResponse
from raft.roles import Candidate, Follower, Leader, Prospective, Resigned, Role
from simulator.campaign.probes import Probes
from simulator.checks.metadata.ledger import Ledger
from simulator.checks.raft.causes import causes_of, wrong_cause, wrong_successor
from simulator.checks.raft.pre_votes import (
    Broken,
    LeaderContact,
    wrong_answer,
    wrong_grant,
    wrong_question,
)
from simulator.checks.raft.roles import wrong_change
from simulator.cluster.instance_methods import replace_method

MAY_END_A_LEADER: Final = (LeaderUnreachable, RequestReceived)
BRINGS_EPOCHS: Final = (RequestReceived, ResponseReceived)
MARK_OF_CAUSE: Final[dict[Cause | None, str]] = {
    Cause.CHECK_QUORUM: "leader_resigned_by_check_quorum",
    Cause.STALLED_FLUSH: "leader_resigned_by_stalled_flush",
}
"""Marks of a resignation that nobody asked for."""


class CoreTap:
    """Taps on all cores of a world; call `attach` once per process that starts."""

    def __init__(self, ledger: Ledger, probes: Probes) -> None:
        self._ledger = ledger
        self._probes = probes
        self.broken: Broken | None = None
        """First breach of I3 or I4 by a pre-vote, or of I16 by a change of role or its cause."""
        self.note: Callable[[str], None] | None = None
        """Called with new roles, votes granted and commits of a leader; None: no trace."""
        self._candidates: dict[int, set[int]] = {}
        self._download_began: dict[int, int] = {}

    def attach(self, number: int, core: RaftCore) -> None:
        """Watch every step of this core from now on."""
        step, contact = core.step, LeaderContact()
        raft = core._state  # noqa: SLF001 - the property that gives its role costs more
        self._download_began.pop(number, None)

        def tapped(event: Event, now_ms: int) -> Effects:
            before, kind = raft.role, type(event)
            if type(event) is ResponseReceived:
                epoch = before.epoch
                deadline_ms = before.fetch_deadline_ms if type(before) is Follower else None
                effects = step(event, now_ms)
                contact.on_response(event, deadline_ms, raft.role)
                self._on_response(event, epoch, effects)
            elif type(event) is RequestReceived and type(event.request) is VoteRequest:
                effects = self._voting(core, step, event, now_ms, contact)
            else:
                effects = step(event, now_ms)
                if kind in MAY_END_A_LEADER:
                    contact.on_other(event)
            after = raft.role
            if after is not before:
                self._on_role(number, before, core, kind, effects)
                if type(after) is Prospective and kind not in BRINGS_EPOCHS:
                    self.broken = self.broken or wrong_question(before, after, effects)
            for effect in effects.persist:
                if type(effect) is WriteSnapshotChunk:
                    self._on_chunk(number, effect)
            return effects

        replace_method(core, "step", tapped)
        if self.note is not None:
            self._trace_steps(number, core, self.note)

    def _trace_steps(self, number: int, core: RaftCore, note: Callable[[str], None]) -> None:
        """Trace new roles, votes granted, commits of a leader; no line for an idle fetch."""
        step = core.step
        note(f"node {number}: starts as {_named(core.role)}")

        def traced(event: Event, now_ms: int) -> Effects:
            before, committed = core.role, core.high_watermark
            effects = step(event, now_ms)
            after, reached = core.role, core.high_watermark
            if (type(after), after.epoch) != (type(before), before.epoch):
                note(f"node {number}: {type(before).__name__} -> {_named(after)}")
            if type(event) is RequestReceived and type(event.request) is VoteRequest:
                for text in _votes_given(event.request, effects):
                    note(f"node {number}: {text}")
            if type(after) is Leader and reached not in (None, committed):
                note(f"node {number}: commits up to {reached}")
            return effects

        replace_method(core, "step", traced)

    def _on_role(
        self, number: int, before: Role, core: RaftCore, kind: type, effects: Effects
    ) -> None:
        after, is_sole = core.role, len(core.voters) == 1
        wrong = wrong_change(before, after, is_sole=is_sole)
        raft = core._state  # noqa: SLF001 - what no driver needs
        is_transferred = raft.transfer is not None
        wrong = wrong or wrong_cause(before, after, kind, effects, is_transferred=is_transferred)
        if type(after) is Resigned:
            ends = core.log_end_offset, raft.high_watermark_highest
            wrong = wrong or wrong_successor(before, kind, effects, raft.transfer, ends)
        if wrong is not None:
            self.broken = self.broken or ("I16", wrong)
        if type(after) is Candidate:
            self._on_candidate(number, after.epoch)
        elif type(after) is Resigned and type(before) is Leader:
            for cause in causes_of(effects):
                if cause in MARK_OF_CAUSE:
                    self._probes.hit(MARK_OF_CAUSE[cause])

    def _voting(
        self,
        core: RaftCore,
        step: Callable[[Event, int], Effects],
        event: RequestReceived,
        now_ms: int,
        contact: LeaderContact,
    ) -> Effects:
        """Take and check a step that answers a request for a vote or a pre-vote.

        A resigned leader whose time-out ends in that very step leaves its epoch at any request.
        """
        request, before = event.request, core.role
        assert type(request) is VoteRequest
        position = (int(core.last_epoch), int(core.log_end_offset))
        leaves = type(before) is Resigned and before.election_deadline_ms <= now_ms
        effects = step(event, now_ms)
        is_granted = self._on_vote(event, request, position, effects)
        if request.pre_vote:
            if is_granted:
                is_led = contact.is_held_by(before)
                wrong = wrong_grant(request, before, position, is_led=is_led)
                self.broken = self.broken or wrong
            if not leaves:
                self.broken = self.broken or wrong_answer(request, before, core.role, effects)
        return effects

    def _on_vote(
        self,
        event: RequestReceived,
        request: VoteRequest,
        position: tuple[int, int],
        effects: Effects,
    ) -> bool:
        """Set the marks of the answer; return True if it grants the vote."""
        is_granted = False
        for effect in effects.send:
            if type(effect) is not SendResponse or effect.reply_token != event.reply_token:
                continue
            response = effect.response
            if type(response) is not VoteResponse or response.error_code:
                continue
            is_granted = response.vote_granted
            if request.pre_vote:
                self._probes.hit("pre_vote_granted" if is_granted else "pre_vote_refused")
            elif not response.vote_granted:
                self._probes.hit("vote_refused")
                if (request.last_epoch, request.last_end_offset) < position:
                    self._probes.hit("vote_refused_for_shorter_log")
        return is_granted

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


def _named(role: Role) -> str:
    """`Follower of 2 in epoch 3`."""
    of = f" of {role.leader_id}" if type(role) is Follower else ""
    return f"{type(role).__name__}{of} in epoch {role.epoch}"


def _votes_given(request: VoteRequest, effects: Effects) -> list[str]:
    """Lines for the vote or pre-vote that an answer grants, if it does."""
    what = "a pre-vote" if request.pre_vote else "its vote"
    return [
        f"gives {what} to {request.replica_id} in epoch {request.replica_epoch}"
        for effect in effects.send
        if type(effect) is SendResponse
        and type(effect.response) is VoteResponse
        and effect.response.vote_granted
    ]
