"""Mutants of votes, epochs, roles and restarts."""

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from raft import quorum, transitions
from raft.core import RaftCore
from raft.elections import flush_stall, vote
from raft.elections import initial_role as initial_role_module
from raft.elections.leader_loss import Cause
from raft.fetching.epoch_cache import LogView
from raft.fetching.progress import Progress
from raft.messages import VoteRequest
from raft.roles import Follower, Leader, Role, Unattached
from raft.state import RaftState
from simulator.mutants.registry import QUARREL, SHORT, Mutant, Patches
from storage.log_dir.quorum_state_file import ElectionState, QuorumStateFile, encode_quorum_state
from storage.vfs import Vfs
from wire.types import LeaderEpoch, Offset

Original = Callable[..., Any]


def _write_unsynced(vfs: Vfs, path: str, content: bytes) -> None:
    """Write as `write_file_atomically` does, without its two syncs."""
    file = vfs.open(path + ".tmp", create=True)
    file.truncate(0)
    file.pwrite(content, 0)
    file.close()
    vfs.rename(path + ".tmp", path)


def _unsynced_state(patches: Patches, *, of_votes: bool) -> None:
    """Write quorum-state without fsync, when it holds a vote or when it holds none."""

    def make(original: Original) -> Original:
        def write(self: QuorumStateFile, state: ElectionState, version: int = 0) -> None:
            if (state.voted_key is not None) is not of_votes:
                original(self, state, version)
                return
            content = encode_quorum_state(state, self._voters, version)
            _write_unsynced(self._vfs, self.path, content)

        return write

    patches.method(QuorumStateFile, "write", make)


def _vote_unsynced(patches: Patches) -> None:
    """Only a quorum-state with a vote is not synced."""
    _unsynced_state(patches, of_votes=True)


def _epoch_unsynced(patches: Patches) -> None:
    """Only a quorum-state without a vote is not synced."""
    _unsynced_state(patches, of_votes=False)


def _vote_in_memory(patches: Patches) -> None:
    """A vote is left out of quorum-state."""

    def make(original: Original) -> Original:
        def write(self: QuorumStateFile, state: ElectionState, version: int = 0) -> None:
            original(self, replace(state, voted_key=None), version)

        return write

    patches.method(QuorumStateFile, "write", make)


def _grant_as_if(
    patches: Patches, position: Callable[[RaftState, VoteRequest], tuple[int, int]]
) -> None:
    """Judge a candidate as if its log ended at another (epoch, offset)."""

    def make(original: Original) -> Original:
        def grant(state: RaftState, request: VoteRequest) -> Any:
            epoch, offset = position(state, request)
            seen = replace(request, last_epoch=LeaderEpoch(epoch), last_end_offset=Offset(offset))
            return original(state, seen)

        return grant

    patches.function(vote, "_grant", make)


def _no_log_comparison(patches: Patches) -> None:
    """Every candidate's log ends where the voter's does."""
    _grant_as_if(patches, lambda state, _: (state.log.last_epoch, state.log.end_offset))


def _offset_comparison(patches: Patches) -> None:
    """Every candidate's last epoch is the voter's."""
    _grant_as_if(patches, lambda state, request: (state.log.last_epoch, request.last_end_offset))


def _strict_comparison(patches: Patches) -> None:
    """Every candidate's log ends one record earlier."""
    _grant_as_if(patches, lambda _, request: (request.last_epoch, request.last_end_offset - 1))


def _half_is_majority(patches: Patches) -> None:
    """Two of four voters elect and commit."""

    def make_majority(_: Original) -> Original:
        return lambda voter_count: (voter_count + 1) // 2

    def make_offset(_: Original) -> Original:
        def majority_offset(end_offsets: Any) -> Any:
            ordered = sorted([-1 if end is None else end for end in end_offsets], reverse=True)
            end = ordered[(len(ordered) + 1) // 2 - 1]
            return None if end < 0 else end

        return majority_offset

    patches.function(quorum, "majority", make_majority)
    patches.function(quorum, "majority_offset", make_offset)


def _leads_again(patches: Patches) -> None:
    """The stored leader starts as leader, with nothing of its own to commit first."""

    def make(original: Original) -> Original:
        def initial_role(*args: Any) -> Role:
            config, log, stored, _, now_ms = args
            is_ours = stored.leader_id == config.node_id and stored.epoch >= log.last_epoch
            if not is_ours:
                role: Role = original(*args)
                return role
            return Leader(
                epoch=stored.epoch,
                leader_id=config.node_id,
                epoch_start_offset=log.end_offset,
                check_quorum_deadline_ms=now_ms + config.check_quorum_ms,
                progress={voter: Progress() for voter in log.voters.others(config.node_id)},
                observers={},
                fetched_voters=set(),
            )

        return initial_role

    patches.function(initial_role_module, "initial_role", make)


def _stored_epoch_trusted(patches: Patches) -> None:
    """A stored epoch below the log's is kept, without the core's assertion, which Kafka lacks."""

    def make(original: Original) -> Original:
        def initial_role(*args: Any) -> Any:
            config, log, stored, rng, now_ms = args
            if stored.epoch >= log.last_epoch:
                return original(*args)
            start, history = Offset(0), log.voter_history
            older = LogView(start_offset=start, end_offset=start, voter_history=history)
            return original(config, older, stored, rng, now_ms)

        return initial_role

    def make_check(original: Original) -> Original:
        def check(self: RaftCore, *before: Any) -> None:
            if self.last_epoch <= self.epoch:
                original(self, *before)

        return check

    patches.function(initial_role_module, "initial_role", make)
    patches.method(RaftCore, "_check", make_check)


def _resigns_into_its_epoch(patches: Patches) -> None:
    """A leader that resigns waits in its epoch like any voter; the table of raft allows it."""

    def make(_: Original) -> Original:
        def resign(state: RaftState, *_: object) -> None:
            deadline_ms = state.new_election_deadline_ms()
            epoch, leader_id = state.role.epoch, state.role.leader_id
            state.become(
                Unattached(epoch=epoch, leader_id=leader_id, election_deadline_ms=deadline_ms)
            )

        return resign

    patches.function(vote, "resign", make)
    patches.function(transitions, "transition", lambda _: lambda _old, new, **_is_voter: new)


def _observers_forget_epochs(patches: Patches) -> None:
    """A node that is no voter writes no quorum-state."""

    def make(original: Original) -> Original:
        def persist_election(self: RaftState) -> None:
            if self.is_voter:
                original(self)

        return persist_election

    patches.method(RaftState, "persist_election", make)


def _forgets_its_leader(patches: Patches) -> None:
    """A follower is unattached after a restart, with its vote."""

    def make(original: Original) -> Original:
        def first_role(*given: Any) -> Role:
            role: Role = original(*given)
            if not isinstance(role, Follower):
                return role
            return Unattached(
                epoch=role.epoch,
                voted_key=role.voted_key,
                election_deadline_ms=role.fetch_deadline_ms,
            )

        return first_role

    patches.function(initial_role_module, "initial_role", make)


def _leads_without_flushing(patches: Patches) -> None:
    """A stalled flush is none."""
    patches.function(flush_stall, "is_stalled", lambda _: lambda _state, _role: False)


def _one_cause(patches: Patches) -> None:
    """A leader that resigns gives one cause for all."""

    def make(original: Original) -> Original:
        def note_loss(self: RaftState, cause: Cause, evidence: str) -> None:
            leads = isinstance(self.role, Leader)
            original(self, Cause.CHECK_QUORUM if leads else cause, evidence)

        return note_loss

    patches.method(RaftState, "note_loss", make)


ELECTIONS: Final = (
    Mutant(
        number=1,
        name="vote-unsynced",
        text="a vote is written to quorum-state without fsync",
        expected=("I2", "I3"),
        seeds_max=500,
        patch=_vote_unsynced,
    ),
    Mutant(
        number=2,
        name="vote-in-memory",
        text="a vote is not written at all",
        expected=("I3",),
        seeds_max=200,
        patch=_vote_in_memory,
    ),
    Mutant(
        number=3,
        name="no-log-comparison",
        text="a voter does not look at the candidate's log",
        expected=("I4", "I7"),
        seeds_max=100,
        patch=_no_log_comparison,
    ),
    Mutant(
        number=4,
        name="offset-comparison",
        text="a voter compares end offsets, not epochs",
        expected=("I4", "I7"),
        seeds_max=500,
        patch=_offset_comparison,
        options=QUARREL,
    ),
    Mutant(
        number=5,
        name="strict-comparison",
        text="a candidate needs a longer log than the voter, an equal one is refused",
        expected=("liveness",),
        seeds_max=100,
        patch=_strict_comparison,
    ),
    Mutant(
        number=6,
        name="half-is-majority",
        text="half of an even number of voters is a majority",
        expected=("I1", "I10"),
        seeds_max=200,
        patch=_half_is_majority,
        options=replace(SHORT, node_count=4),
    ),
    Mutant(
        number=17,
        name="epoch-unsynced",
        text="a new epoch is written to quorum-state without fsync",
        expected=("I2",),
        seeds_max=300,
        patch=_epoch_unsynced,
    ),
    Mutant(
        number=35,
        name="leads-again",
        text="a restarted leader is still leader of its old epoch",
        expected=("I6", "I8", "I16"),
        seeds_max=300,
        patch=_leads_again,
        options=replace(SHORT, node_count=3),
    ),
    Mutant(
        number=36,
        name="stored-epoch-trusted",
        text="a stored epoch below that of the log is kept at start",
        expected=("I2", "I3", "I16"),
        seeds_max=300,
        patch=_stored_epoch_trusted,
        options=replace(SHORT, faults=("old_quorum_state",)),
    ),
    Mutant(
        number=47,
        name="resigns-into-its-epoch",
        text="a leader that resigns becomes an unattached voter of the epoch that it led",
        expected=("I16",),
        seeds_max=50,
        patch=_resigns_into_its_epoch,
    ),
    Mutant(
        number=52,
        name="observers-forget-epochs",
        text="a node that is no voter does not write its epoch to quorum-state",
        expected=("I2",),
        seeds_max=50,
        patch=_observers_forget_epochs,
    ),
    Mutant(
        number=62,
        name="forgets-its-leader",
        text="a restarted follower does not know its leader",
        expected=("I16",),
        seeds_max=50,
        patch=_forgets_its_leader,
    ),
    Mutant(
        number=71,
        name="leads-without-flushing",
        text="a leader whose flush stalls leads on",
        expected=("liveness",),
        seeds_max=300,
        patch=_leads_without_flushing,
        options=replace(SHORT, node_count=3, faults=("slow_disk",)),
    ),
    Mutant(
        number=72,
        name="one-cause",
        text="a leader that loses its epoch gives check quorum as the cause, whatever it was",
        expected=("I16",),
        seeds_max=50,
        patch=_one_cause,
    ),
)
