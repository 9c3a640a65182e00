"""Recovery from a lost majority: the source, what is proven, the steps to the new voters."""

import pytest
from msgspec.structs import replace

from raft.events import EpochStart
from raft.membership.lost_majority import (
    EPOCH_MARGIN,
    LeftBehind,
    RecoveryPlan,
    RecoveryRefusal,
    ReplicaLog,
    holds,
    plan_recovery,
    shared_end_offset,
    steps_to,
)
from raft.membership.voter_history import KRaftVersionAt, VoterHistory, VotersAt
from raft.membership.voters import Voter, VoterSet, static_voters, voter_set
from wire.types import (
    EPOCH_MAX,
    DirectoryId,
    Endpoint,
    LeaderEpoch,
    NodeId,
    Offset,
    OffsetAndEpoch,
    ReplicaKey,
)

OBSERVER = 101


def key(node_id: int, generation: int = 0) -> ReplicaKey:
    return ReplicaKey(NodeId(node_id), DirectoryId(bytes([node_id, generation]) * 8))


def voter(node_id: int, generation: int = 0) -> Voter:
    return Voter(key(node_id, generation), (Endpoint("CONTROLLER", "h", 9000 + node_id),), 0, 1)


def voters(*ids: int) -> VoterSet:
    return voter_set(tuple(map(voter, ids)))


def static(*ids: int) -> VoterHistory:
    named = tuple((NodeId(each), Endpoint("CONTROLLER", "h", 9000 + each)) for each in ids)
    return VoterHistory(static_voters(named))


def dynamic(*sets: tuple[int, tuple[int, ...]]) -> VoterHistory:
    """Voter sets by offset, at kraft.version 1."""
    history = VoterHistory(VoterSet({})).after(KRaftVersionAt(-1, 1))
    for offset, ids in sets:
        history = history.after(VotersAt(offset, voters(*ids)))
    return history


THREE = dynamic((-1, (1, 2, 3)))


def log(
    node_id: int,
    starts: dict[int, int],
    end: int,
    history: VoterHistory = THREE,
    *,
    epoch: int | None = None,
    snapshot: tuple[int, int] | None = None,
    is_evidence: bool = True,
    start: int | None = None,
    name: str | None = None,
) -> ReplicaLog:
    """A log by epoch -> first offset, and its end; the epoch of the replica is the last one."""
    entries = tuple(EpochStart(LeaderEpoch(e), Offset(at)) for e, at in starts.items())
    return ReplicaLog(
        name=name or f"n{node_id}",
        key=key(node_id),
        epoch=LeaderEpoch(max(starts, default=0) if epoch is None else epoch),
        is_evidence=is_evidence,
        start_offset=Offset(min(starts.values(), default=0) if start is None else start),
        end_offset=Offset(end),
        epochs=entries,
        snapshot_id=None
        if snapshot is None
        else OffsetAndEpoch(Offset(snapshot[0]), LeaderEpoch(snapshot[1])),
        voters=history,
    )


def planned(*logs: ReplicaLog, target: int = 1) -> RecoveryPlan:
    found = plan_recovery(logs, f"n{target}", voter(target))
    assert isinstance(found, RecoveryPlan), found
    return found


def refused(*logs: ReplicaLog) -> str:
    found = plan_recovery(logs, "n1", voter(1))
    assert isinstance(found, RecoveryRefusal), found
    return found.reason


@pytest.mark.parametrize(("count", "here", "level", "is_proven"), [
    (3, 1, 0, False), (3, 2, 0, True), (3, 1, 1, False), (3, 2, 1, True),
    (2, 1, 0, True), (2, 1, 1, False), (2, 2, 1, True),
    (4, 1, 0, False), (4, 2, 0, True), (4, 2, 1, False), (4, 3, 1, True),
    (5, 2, 0, False), (5, 3, 0, True), (5, 2, 1, False), (1, 1, 0, True), (1, 1, 1, True),
])  # fmt: skip
def test_nothing_is_missing_where_the_others_could_not_commit_alone(
    count: int, here: int, level: int, *, is_proven: bool
) -> None:
    """Voters that can change without us need a majority here; static ones half of an even set."""
    ids = tuple(range(1, count + 1))
    history = static(*ids) if level == 0 else dynamic((-1, ids))
    plan = planned(*[log(each, {1: 0}, 10, history) for each in ids[:here]])
    assert plan.is_proven is is_proven
    assert plan.kraft_version == level
    needed = {0: count - (count // 2 + 1) + 1, 1: count // 2 + 1}[level]
    said = f"{here} of {count} voters are here, {needed} are needed: the others can have committed"
    assert all(objection.startswith(said) for objection in plan.objections)
    assert len(plan.objections) == (not is_proven)


def test_the_most_up_to_date_log_is_the_source_also_an_observers() -> None:
    behind, longer = log(1, {1: 0}, 90), log(2, {1: 0}, 99)
    newest = log(OBSERVER, {1: 0, 2: 50}, 60)
    plan = planned(behind, longer, newest)
    assert (plan.source, plan.end_offset, plan.last_epoch) == (newest.name, 60, 2)
    assert plan.left_behind == (
        LeftBehind("n1", Offset(50), Offset(90)),
        LeftBehind("n2", Offset(50), Offset(99)),
    )
    assert plan.is_proven, "a majority is here, so what it has not is not committed"
    assert planned(behind, longer).source == "n2"


def test_of_equal_logs_the_targets_own_is_the_source() -> None:
    for target in (1, 2):
        plan = planned(log(1, {1: 0}, 10), log(2, {1: 0}, 10), target=target)
        assert plan.source == plan.target == f"n{target}"


def test_the_epoch_is_above_all_seen_by_a_margin() -> None:
    plan = planned(log(1, {3: 0}, 10), log(OBSERVER, {3: 0}, 10, epoch=8))
    assert plan.epoch == 8 + EPOCH_MARGIN
    highest = EPOCH_MAX - EPOCH_MARGIN
    assert planned(log(1, {3: 0}, 10, epoch=highest)).epoch == EPOCH_MAX
    assert refused(log(1, {3: 0}, 10, epoch=highest + 1)).startswith(f"epoch {highest + 1} leaves")


@pytest.mark.parametrize(("logs", "committed"), [
    ((log(1, {1: 0}, 10), log(2, {1: 0}, 8)), 8),
    ((log(1, {1: 0}, 10),), 0),
    ((log(1, {1: 0}, 10), log(2, {1: 0}, 8, is_evidence=False)), 0),
    ((log(1, {1: 0}, 10), log(2, {1: 0}, 8, epoch=2)), 0),  # may have voted for another log
    ((log(1, {1: 0, 2: 5}, 10), log(2, {1: 0}, 5)), 0),  # none of the last epoch
    ((log(1, {1: 0, 2: 5}, 10), log(2, {1: 0, 2: 5}, 6)), 6),
    ((log(1, {1: 0, 2: 5}, 10), log(2, {1: 0}, 5, epoch=2)), 0),
    ((log(1, {1: 0}, 10), log(OBSERVER, {1: 0}, 10)), 0),
    ((log(1, {1: 0}, 10, snapshot=(7, 1)),), 7),
    ((log(1, {1: 0}, 10), log(OBSERVER, {1: 0}, 9, snapshot=(9, 1))), 9),
    ((log(1, {}, 9, snapshot=(9, 4)), log(2, {}, 9, snapshot=(9, 4))), 9),
    ((log(1, {1: 0, 2: 5}, 10, snapshot=(3, 1)), log(2, {1: 0}, 9, snapshot=(8, 1))), 3),
])  # fmt: skip
def test_what_is_proven_committed(logs: tuple[ReplicaLog, ...], committed: int) -> None:
    assert planned(*logs).committed_end_offset == committed


def test_each_voter_set_proves_the_records_of_its_time() -> None:
    history = dynamic((-1, (1, 2, 3)), (20, (1, 2, 3, 4)), (30, (1, 2, 3, 4, 5)))
    plan = planned(*[log(each, {1: 0}, 40, history) for each in (1, 2)])
    assert [(each.offset, each.majority) for each in plan.proofs] == [(-1, 2), (20, 3), (30, 3)]
    assert [len(each.voters) for each in plan.proofs] == [3, 4, 5]
    assert [each.committed_end_offset for each in plan.proofs] == [20, 0, 0]
    assert [each.present for each in plan.proofs] == [(key(1), key(2))] * 3
    plan = planned(*[log(each, {1: 0}, 40, history) for each in (1, 2, 5)])
    assert [each.committed_end_offset for each in plan.proofs] == [20, 0, 40]
    raised = static(1, 2, 3).after(KRaftVersionAt(20, 1)).after(VotersAt(21, voters(1, 2, 3)))
    plan = planned(*[log(each, {1: 0}, 40, raised) for each in (1, 2)])
    assert [(each.offset, each.committed_end_offset) for each in plan.proofs] == [
        (None, 21), (21, 40),
    ]  # fmt: skip


def test_the_configuration_is_no_voter_set_beside_a_checkpoint_0_0() -> None:
    history = replace(THREE, static=static(1, 2).static)
    assert [each.offset for each in planned(log(1, {1: 0}, 9, history)).proofs] == [-1]


@pytest.mark.parametrize(("offset", "expected"), [(29, [29]), (30, [None, 30])])
def test_the_configuration_is_none_beside_a_snapshot_with_voters(
    offset: int, expected: list[int | None]
) -> None:
    """The voters before its end are not known; all that is there is committed."""
    history = replace(dynamic((offset, (1, 2, 3))), static=static(1, 2, 3).static)
    plan = planned(log(1, {1: 0}, 40, history, snapshot=(30, 1)))
    assert [each.offset for each in plan.proofs] == expected


def test_a_voter_set_that_nobody_else_has_proves_nothing() -> None:
    """The record at the very end is held by its writer alone; the others have what is before."""
    history = dynamic((-1, (1, 2, 3)), (20, (1, 2, 3, 4)))
    plan = planned(log(1, {1: 0}, 21, history), log(2, {1: 0}, 20), log(3, {1: 0}, 20))
    assert [each.committed_end_offset for each in plan.proofs] == [20, 0]


def test_a_snapshot_that_the_source_lacks_is_lost_data() -> None:
    plan = planned(log(1, {1: 0, 2: 5}, 10), log(2, {1: 0}, 9, snapshot=(8, 1)))
    assert plan.objections == (
        "n2: its snapshot at offset 8 of epoch 1 is of committed records, which n1 does not have",
    )


def test_logs_that_snapshots_cut() -> None:
    whole, cut = log(1, {1: 0, 3: 40}, 90), log(2, {3: 60}, 80, snapshot=(60, 3))
    assert shared_end_offset(whole, cut) == shared_end_offset(cut, whole) == 80
    empty = log(3, {}, 60, snapshot=(60, 3), start=60)
    assert shared_end_offset(empty, whole) == 60
    assert shared_end_offset(log(4, {}, 0), whole) == 0
    assert empty.position == (3, 60)
    assert log(4, {}, 0).position == (0, 0)
    behind_snapshot = log(5, {1: 0}, 20)
    plan = planned(log(1, {3: 60}, 80, snapshot=(60, 3)), behind_snapshot)
    assert plan.left_behind == (), "the snapshot has what was committed of it"
    assert holds(cut, OffsetAndEpoch(Offset(20), LeaderEpoch(1)))
    assert not holds(whole, OffsetAndEpoch(Offset(41), LeaderEpoch(1)))
    assert not holds(cut, OffsetAndEpoch(Offset(60), LeaderEpoch(2)))
    assert holds(cut, OffsetAndEpoch(Offset(60), LeaderEpoch(3)))
    other = log(OBSERVER, {1: 40}, 45, snapshot=(40, 1))
    assert planned(log(1, {2: 0}, 9), other).left_behind == (
        LeftBehind("n101", Offset(40), Offset(45)),
    )
    assert holds(whole, OffsetAndEpoch(Offset(40), LeaderEpoch(1)))


def test_the_voters_that_must_come_back_empty() -> None:
    old = static(1, 2, 3)
    newer = dynamic((-1, (1, 2)), (5, (1, 2, 4)))
    plan = planned(log(1, {1: 0}, 10, newer), log(OBSERVER, {1: 0}, 3, old))
    assert plan.wiped == (
        ReplicaKey(NodeId(2)), key(2), ReplicaKey(NodeId(3)), key(4),
    )  # fmt: skip
    assert planned(log(1, {1: 0}, 10, old)).wiped == (ReplicaKey(NodeId(2)), ReplicaKey(NodeId(3)))


def test_static_voters_are_no_records() -> None:
    plan = planned(log(1, {1: 0}, 10, static(1, 2)))
    assert plan.voter_sets == ()
    assert plan.voter.key == ReplicaKey(NodeId(1))


@pytest.mark.parametrize(("before", "sole", "expected"), [
    ((1, 2, 3), voter(1), [[1, 3], [1]]),
    ((1,), voter(1), [[1]]),
    ((1, 2, 3), voter(4), [[2, 3, 4], [3, 4], [4]]),
    ((1, 2, 3), voter(2, generation=1), [[1, 2, 3], [2, 3], [2]]),
])  # fmt: skip
def test_steps_that_kafka_takes(
    before: tuple[int, ...], sole: Voter, expected: list[list[int]]
) -> None:
    """Kafka refuses a set that more than one voter has left, or more than one is new in."""
    last = voters(*before)
    steps = steps_to(last, sole)
    assert [list(each.ids) for each in steps] == expected
    for step in steps:
        assert len(set(last.keys) - set(step.keys)) <= 1
        assert len(set(step.keys) - set(last.keys)) <= 1
        last = step
    assert last.by_id == {sole.key.id: sole}


def test_what_cannot_be_planned() -> None:
    empty = log(1, {}, 0, VoterHistory(VoterSet({})))
    assert refused(empty) == "no folder has a record: there is nothing to recover"
    unnamed = replace(empty, end_offset=Offset(3), epochs=(EpochStart(LeaderEpoch(1), Offset(0)),))
    assert "must have controller.quorum.voters" in refused(unnamed)
    twice = log(2, {1: 0}, 9), log(2, {1: 0}, 7, name="other")
    assert refused(log(1, {1: 0}, 9), *twice).startswith("n2 and other are both of node 2: ")
    assert planned(log(1, {1: 0}, 9), twice[0], replace(twice[1], is_evidence=False)).is_proven
    formatted = log(1, {}, 0, is_evidence=False)
    assert refused(formatted, log(OBSERVER, {1: 0}, 9, static(2, 3))) == (
        "n1 is formatted with voters of its own: format it for kraft.version 0, that of n101"
    )
    assert planned(formatted, log(OBSERVER, {1: 0}, 9)).source == "n101"
    raised = log(1, {1: 0}, 12, static(1, 2, 3).after(KRaftVersionAt(10, 1)))
    assert planned(raised, log(OBSERVER, {1: 0, 2: 10}, 11, static(1, 2, 3))).kraft_version == 0
    anonymous = replace(voter(1), key=ReplicaKey(NodeId(1)))
    found = plan_recovery([log(1, {1: 0}, 9)], "n1", anonymous)
    assert found == RecoveryRefusal("n1: no directory id, by which its voters are known")
