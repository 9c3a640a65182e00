"""Recovery from a lost majority: what stopped logs prove, and the voters to go on with.

A pure function of what was read of the folders. What it relies on:

- Logs with a record of one epoch at one offset are equal below it (log matching), and of all logs
  the one with the highest last epoch, then end, holds every committed record that any of them
  holds (leader completeness). Hence one source, which may be the log of an observer, a broker.
- A snapshot holds committed records only.
- Of one epoch a record is committed if a majority of its voters has it and none of them has gone on
  to another epoch: a leader of a later one needs the vote of one of them.
- Nothing committed is missing if the voters that are here meet every majority that could commit.
  Under kraft.version 0, where voters never change, it suffices that the others are no majority
  (two of four); from 1 on these could have changed the voters alone, so a majority must be here.

Source: Raft thesis 3.6, 4.1; apache/kafka: raft/.../VoterSet.java (`hasOverlappingMajority`): it
refuses a set from which more than one voter is gone. So the new set is reached in steps.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from raft.events import EpochStart
from raft.membership.voter_history import VoterHistory
from raft.membership.voters import Voter, VoterSet, replica_order
from raft.quorum import majority, majority_offset
from wire.types import EPOCH_MAX, LeaderEpoch, NodeId, Offset, OffsetAndEpoch, ReplicaKey

EPOCH_MARGIN: Final = 1000
"""Distance of the new epoch from the highest one seen.

Voters that are not here may have gone on in later epochs. Records of one epoch by two leaders would
pass for equal, so the new epoch is one that elections did not reach.
"""


class ReplicaLog(msgspec.Struct, frozen=True, kw_only=True):
    """The log of a stopped replica, and what its folder says about elections."""

    name: str
    """The folder."""
    key: ReplicaKey
    epoch: LeaderEpoch
    """The epoch of the replica: that of quorum-state, or of the last record if it is higher."""
    is_evidence: bool
    """True if it is as the replica left it: not a copy of some time, not formatted anew."""
    start_offset: Offset
    end_offset: Offset
    epochs: tuple[EpochStart, ...]
    """Epochs of its records, ascending; the first may begin below `start_offset`."""
    snapshot_id: OffsetAndEpoch | None
    """The newest one; it may be above all records, which then begin at its end."""
    voters: VoterHistory

    @property
    def epoch_ends(self) -> dict[LeaderEpoch, Offset]:
        """End offset of each epoch that it has a record of, or the end of the snapshot in it."""
        ends: dict[LeaderEpoch, Offset] = {}
        end_offset = self.end_offset
        for each in reversed(self.epochs):
            assert each.start_offset < end_offset, f"{each=} {end_offset=}"
            ends[each.epoch], end_offset = end_offset, each.start_offset
        if self.snapshot_id is not None:
            epoch, end = self.snapshot_id.epoch, self.snapshot_id.offset
            ends[epoch] = max(end, ends.get(epoch, end))
        return ends

    @property
    def position(self) -> tuple[LeaderEpoch, Offset]:
        """Last epoch and end: the larger, the more up to date."""
        return max(self.epoch_ends, default=LeaderEpoch(0)), self.end_offset


class VotersProof(msgspec.Struct, frozen=True, kw_only=True):
    """One voter set of the log: who of it is here, and the records that it proves committed."""

    offset: int | None
    """Of its record, or the last one of the snapshot that has it; -1: of the checkpoint 0-0.

    None: of the configuration.
    """
    voters: tuple[ReplicaKey, ...]
    present: tuple[ReplicaKey, ...]
    majority: int
    committed_end_offset: Offset
    """Exclusive; 0 if it proves nothing."""


class LeftBehind(msgspec.Struct, frozen=True):
    """Records of a folder, [begin, end), that the source has not: they are dropped."""

    name: str
    begin_offset: Offset
    end_offset: Offset


class RecoveryPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The way in which one node goes on as the only voter."""

    target: str
    """The folder of that node."""
    source: str
    """The folder whose log it goes on with; often the same."""
    voter: Voter
    kraft_version: int
    epoch: LeaderEpoch
    """Above all seen."""
    last_epoch: LeaderEpoch
    """Of the records of the source."""
    end_offset: Offset
    committed_end_offset: Offset
    """Below it all is proven committed, and in the source."""
    proofs: tuple[VotersProof, ...]
    """Of each voter set of the source, in the order of the log."""
    objections: tuple[str, ...]
    """Reasons why committed records may be missing; empty: it is proven that none is."""
    left_behind: tuple[LeftBehind, ...]
    voter_sets: tuple[VoterSet, ...]
    """Sets to write, each one step from the one before; empty under kraft.version 0."""
    wiped: tuple[ReplicaKey, ...]
    """Voters that must come back with empty folders, or not at all."""

    @property
    def node_id(self) -> NodeId:
        """The node that goes on."""
        return self.voter.key.id

    @property
    def is_proven(self) -> bool:
        """True if no committed record is missing."""
        return not self.objections


class RecoveryRefusal(msgspec.Struct, frozen=True):
    """No plan can be made; the reason is one line."""

    reason: str


def plan_recovery(
    logs: Sequence[ReplicaLog], target: str, voter: Voter
) -> RecoveryPlan | RecoveryRefusal:
    """Return how the node of the folder `target` goes on as the only voter.

    Args:
        logs: of all folders that are left, voters' and observers', with different names.
        target: name of one of them.
        voter: the node of that folder, with its listeners.

    Returns:
        The plan, which may lose records (`objections`), or the reason why there is none.
    """
    by_name = {log.name: log for log in logs}
    assert len(by_name) == len(logs), f"{[log.name for log in logs]=}"
    assert by_name[target].key.id == voter.key.id, f"{target=} {voter=}"
    refusal = _refusal(logs)
    if refusal is not None:
        return RecoveryRefusal(refusal)
    source = max(logs, key=lambda log: (log.position, log.name == target))
    assert source.position >= by_name[target].position, f"{source=} {target=}"
    level = source.voters.kraft_version
    if level > 0 and voter.key.directory_id is None:
        return RecoveryRefusal(f"{target}: no directory id, by which its voters are known")
    if by_name[target].end_offset == 0 and by_name[target].voters.kraft_version > level:
        return RecoveryRefusal(
            f"{target} is formatted with voters of its own: format it for kraft.version {level}, "
            f"that of {source.name}"
        )
    key = voter.key if level > 0 else ReplicaKey(voter.key.id)
    voter = msgspec.structs.replace(voter, key=key)
    proofs = tuple(_proofs(source, logs))
    snapshots = [log.snapshot_id for log in logs if log.snapshot_id is not None]
    known = [each.offset for each in snapshots if holds(source, each)]
    committed = max([*known, *[proof.committed_end_offset for proof in proofs]], default=Offset(0))
    assert committed <= source.end_offset, f"{committed=} {source.end_offset=}"
    return RecoveryPlan(
        target=target,
        source=source.name,
        voter=voter,
        kraft_version=level,
        epoch=LeaderEpoch(_highest_epoch(logs) + EPOCH_MARGIN),
        last_epoch=source.position[0],
        end_offset=source.end_offset,
        committed_end_offset=committed,
        proofs=proofs,
        objections=tuple(_objections(source, proofs[-1], logs)),
        left_behind=tuple(_left_behind(source, logs)),
        voter_sets=steps_to(source.voters.latest, voter) if level > 0 else (),
        wiped=_wiped(logs, voter.key),
    )


def _refusal(logs: Sequence[ReplicaLog]) -> str | None:
    """Return why these logs allow no plan; None if they do."""
    seen: dict[NodeId, str] = {}
    for log in logs:
        if log.is_evidence and seen.setdefault(log.key.id, log.name) != log.name:
            return (
                f"{seen[log.key.id]} and {log.name} are both of node {log.key.id}: only one can be "
                "what that replica left, the other is a copy"
            )
    best = max(logs, key=lambda log: log.position)
    if best.end_offset == 0:
        return "no folder has a record: there is nothing to recover"
    if not best.voters.latest:
        return (
            f"{best.name}: kraft.version is 0, where no record names the voters: the "
            "configuration must have controller.quorum.voters as it was"
        )
    highest = _highest_epoch(logs)
    if highest + EPOCH_MARGIN > EPOCH_MAX:
        return f"epoch {highest} leaves no room for a new one below {EPOCH_MAX}"
    return None


def _highest_epoch(logs: Sequence[ReplicaLog]) -> int:
    return max(max(log.epoch, log.position[0]) for log in logs)


def shared_end_offset(one: ReplicaLog, other: ReplicaLog) -> Offset:
    """Return the end of the records that both logs have; 0 if no epoch of theirs is the same."""
    ends = one.epoch_ends
    shared = [min(ends[epoch], end) for epoch, end in other.epoch_ends.items() if epoch in ends]
    return max(shared, default=Offset(0))


def holds(log: ReplicaLog, at: OffsetAndEpoch) -> bool:
    """Return True if a log has the record before this position, or a snapshot above it."""
    if log.snapshot_id is not None and log.snapshot_id.offset > at.offset:
        return True
    return log.epoch_ends.get(at.epoch, Offset(-1)) >= at.offset


def _proofs(source: ReplicaLog, logs: Sequence[ReplicaLog]) -> list[VotersProof]:
    """Return a proof for each voter set of the source, the latest last."""
    history = source.voters
    sets: list[tuple[int | None, VoterSet]] = [(each.offset, each.voters) for each in history.sets]
    begin = 0 if source.snapshot_id is None else source.snapshot_id.offset
    if history.static and (not history.sets or history.sets[0].offset >= begin):
        sets.insert(0, (None, history.static))
    proofs = []
    for index, (offset, voters) in enumerate(sets):
        limit = sets[index + 1][0] if index + 1 < len(sets) else source.end_offset
        assert limit is not None, f"only the first set has no record {sets=}"
        here = {
            key: log
            for log in logs
            if log.is_evidence and (key := voters.key_of(log.key.id, log.key.directory_id))
        }
        proofs.append(
            VotersProof(
                offset=offset,
                voters=voters.keys,
                present=tuple(sorted(here, key=replica_order)),
                majority=majority(len(voters)),
                committed_end_offset=_committed_end(source, voters, here, (offset or 0, limit)),
            )
        )
    assert proofs, f"{source.name} has no voters"
    return proofs


def _committed_end(
    source: ReplicaLog,
    voters: VoterSet,
    here: dict[ReplicaKey, ReplicaLog],
    range_: tuple[int, int],
) -> Offset:
    """Return the end of what a voter set proves committed, 0 if nothing.

    Only records of the last epoch, appended while the set was in force (in the range), are proof;
    with them all before them is committed.
    """
    if not source.epochs:
        return Offset(0)
    last = source.epochs[-1]
    begin, limit = max(range_[0], last.start_offset), range_[1]
    ends = [
        Offset(min(shared_end_offset(source, here[key]), limit))
        if key in here and here[key].epoch == last.epoch
        else None
        for key in voters.keys
    ]
    end = majority_offset(ends)
    return end if end is not None and end > begin else Offset(0)


def _objections(source: ReplicaLog, latest: VotersProof, logs: Sequence[ReplicaLog]) -> list[str]:
    """Return why a committed record may be missing from the source."""
    found = []
    present, count = len(latest.present), len(latest.voters)
    needed = latest.majority
    if source.voters.kraft_version == 0:
        needed = count - latest.majority + 1  # the others are no majority
    assert 1 <= needed <= latest.majority, f"{needed=} {latest=}"
    assert present <= count, f"{latest=}"
    if present < needed:
        found.append(
            f"{present} of {count} voters are here, {needed} are needed: the others can have "
            "committed records that no folder here has"
        )
    found += [
        f"{log.name}: its snapshot at offset {log.snapshot_id.offset} of epoch "
        f"{log.snapshot_id.epoch} is of committed records, which {source.name} does not have"
        for log in logs
        if log.snapshot_id is not None and not holds(source, log.snapshot_id)
    ]
    return found


def _left_behind(source: ReplicaLog, logs: Sequence[ReplicaLog]) -> list[LeftBehind]:
    """Return the records that only other folders have; those below a snapshot are superseded."""
    superseded = Offset(0) if source.snapshot_id is None else source.snapshot_id.offset
    found = []
    for log in logs:
        begin = max(shared_end_offset(source, log), superseded, log.start_offset)
        if begin < log.end_offset:
            found.append(LeftBehind(log.name, begin, log.end_offset))
    return found


def steps_to(voters: VoterSet, sole: Voter) -> tuple[VoterSet, ...]:
    """Return the sets on the way to one voter: each adds one at most, and removes one at most.

    The last one has only that voter. One with its id and another directory leaves first.
    """
    assert voters, "a quorum has voters"
    leaving = [key for key in voters.keys if key != sole.key]
    leaving.sort(key=lambda key: key.id != sole.key.id)
    current, steps = dict(voters.by_id), []
    for key in leaving or [sole.key]:
        current.pop(key.id, None)
        current[sole.key.id] = sole
        steps.append(VoterSet(dict(current)))
    assert steps[-1].keys == (sole.key,), f"{steps=} {sole=}"
    return tuple(steps)


def _wiped(logs: Sequence[ReplicaLog], kept: ReplicaKey) -> tuple[ReplicaKey, ...]:
    """Return the voters of any folder but the one that is kept: their folders know old voters."""
    keys = {key for log in logs for key in log.voters.latest.keys}
    unnamed = ReplicaKey(kept.id)  # the same voter, of a folder of kraft.version 0
    return tuple(sorted(keys - {kept, unnamed}, key=replica_order))
