"""The pending change of the voters at a leader: its response, its commit, its time-out (KIP-853).

INV-VOTERS-2: one change at a time; the next one waits until the record of the last is committed.
Source: apache/kafka: raft/.../LeaderState.java, internals/{Add,Remove}VoterHandlerState.java
"""

from typing import Final

from raft import error_codes
from raft.effects import AppendVoters, VotersAppended
from raft.membership.voters import VoterSet
from raft.messages import AddVoterResponse, RemoveVoterResponse
from raft.roles import Leader, VoterChange
from raft.state import RaftState
from wire.types import Offset

LEVEL_RECORDS: Final = 2
"""KRaftVersionRecord and VotersRecord."""


def append_voters(state: RaftState, voters: VoterSet) -> Offset:
    """Append a VotersRecord and return its offset; the voters hold from its write on."""
    base_offset = _append(state, voters, None)
    end_offset = state.log.end_offset
    state.effects.notify.append(
        VotersAppended(epoch=state.epoch, base_offset=base_offset, end_offset=end_offset)
    )
    return base_offset


def append_level(state: RaftState, voters: VoterSet, level: int) -> None:
    """Append a KRaftVersionRecord and a VotersRecord; whoever asked for it counts their offsets."""
    _append(state, voters, level)


def _append(state: RaftState, voters: VoterSet, level: int | None) -> Offset:
    role, log = state.role, state.log
    assert isinstance(role, Leader), f"{role=}"
    assert voters, "a quorum needs a voter"
    base_offset = log.end_offset
    log.extend(Offset(base_offset + (1 if level is None else LEVEL_RECORDS)))
    state.effects.persist.append(
        AppendVoters(base_offset=base_offset, epoch=role.epoch, voters=voters, kraft_version=level)
    )
    return base_offset


def answer_change(
    state: RaftState, change: VoterChange, error_code: int, error_message: str | None = None
) -> None:
    """Answer the request of a change, unless that was done when its record was appended."""
    if change.reply_token is None:
        return
    make = RemoveVoterResponse if change.added is None else AddVoterResponse
    response = make(error_code=error_code, error_message=error_message)
    state.answer(change.reply_token, response)


def end_change(state: RaftState, error_code: int, error_message: str | None = None) -> None:
    """End the pending change, if there is one, with this answer."""
    role = state.role
    assert isinstance(role, Leader), f"{role=}"
    change, role.voter_change = role.voter_change, None
    if change is not None:
        answer_change(state, change, error_code, error_message)


def note_commit(state: RaftState) -> None:
    """End the pending change if its record is committed."""
    role = state.role
    assert isinstance(role, Leader), f"{role=}"
    change = role.voter_change
    if change is None or change.record_offset is None:
        return
    assert change.record_offset < state.log.end_offset, f"{change=} {state.log.describe()}"
    if change.record_offset < (state.high_watermark or 0):
        end_change(state, error_codes.NONE)


def expire_change(state: RaftState, role: Leader) -> None:
    """End a change whose time is over; its record, if it is written, may still be committed."""
    change = role.voter_change
    if change is not None and change.deadline_ms <= state.now_ms:
        end_change(state, error_codes.REQUEST_TIMED_OUT)
