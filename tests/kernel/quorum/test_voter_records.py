"""Control records of a Kafka 4.3.1 quorum with dynamic voters, as values and back."""

from itertools import pairwise
from pathlib import Path

import pytest

from kernel.quorum.voter_records import (
    epoch_start_batch,
    membership_of,
    membership_records,
    voter_records,
)
from metadata.control_records import LeaderChange, control_type, decode_control
from metadata.snapshot import decode_snapshot
from raft.effects import AppendLeaderChange, SendRequest
from raft.membership.voter_history import KRaftVersionAt, Membership, VoterHistory, VotersAt
from raft.membership.voters import Voter, VoterSet, voter_set
from raft.messages import EndQuorumEpochRequest
from tests.kernel.quorum.test_disk_faults import leader_of
from tests.kernel.test_kernel import ready_world
from wire.batches.batch import iterate_batches
from wire.types import Endpoint, ReplicaKey

GOLDEN = Path("tests/golden/metadata/dynamic-4.3.1")
LOG = (GOLDEN / "00000000000000000000.log").read_bytes()
CONTROL = [batch for batch in iterate_batches(LOG) if batch.header.is_control]
CHECKPOINT = "00000000000000000000-0000000000"


def controls(name):
    return decode_snapshot((GOLDEN / f"{name}.checkpoint").read_bytes()).control_records


def test_the_first_batch_of_kafka_is_ours():
    first = CONTROL[0]
    level, found = voter_records([first])
    assert (level, found.offset) == (KRaftVersionAt(1, 1), 2)
    change = next(decode_control(control_type(r.key), r.value) for r in first.records())
    assert isinstance(change, LeaderChange)
    effect = AppendLeaderChange(
        base_offset=0,
        epoch=1,
        leader_id=change.leader_id,
        voters=tuple(each.voter_id for each in change.voters),
        granting_voters=tuple(each.voter_id for each in change.granting_voters),
        membership=Membership(1, found.voters),
    )
    ours = epoch_start_batch(effect, first.header.base_timestamp_ms)
    assert ours == LOG[: len(ours)]


def test_the_history_of_the_log_is_that_of_its_snapshots():
    history = VoterHistory(VoterSet({}))
    for record in voter_records(CONTROL):
        history = history.after(record)
    assert membership_of(controls(CHECKPOINT)) == history.before(3)
    for end, epoch in ((63, 1), (114, 3)):
        found = controls(f"{end:020d}-{epoch:010d}")
        assert membership_of(found) == history.before(end)
        again = membership_records(history.before(end))
        assert membership_of(again) == history.before(end), "Kafka's has no order of voters"
    changes = [each.voters.ids for each in history.sets]
    assert changes[0] == (1, 2, 3)
    steps = pairwise(changes)
    assert all(len(set(a) ^ set(b)) <= 1 for a, b in steps)
    assert len(changes) > 3


@pytest.mark.parametrize("level", [0, 1])
def test_level_0_has_no_records_and_a_level_needs_no_voters(level):
    assert len(membership_records(Membership(level, None))) == level
    assert membership_of(membership_records(Membership(level, None))) == Membership(level, None)


def test_a_voter_without_directory_has_the_zero_id():
    one = Membership(1, voter_set((Voter(ReplicaKey(1), (), 0, 1),)))
    assert membership_of(membership_records(one)) == one
    assert VotersAt(2, one.voters).voters.keys == (ReplicaKey(1),)


def test_what_a_leader_writes_it_tells_the_core():
    world = ready_world()
    kernel = world.kernel(leader_of(world))
    end = kernel.log.end_offset
    membership = membership_of(controls(CHECKPOINT))
    effect = AppendLeaderChange(
        base_offset=end,
        epoch=kernel.core.epoch,
        leader_id=1,
        voters=(1,),
        granting_voters=(1,),
        membership=membership,
    )
    told = kernel.writer.perform(effect, kernel.core)
    assert told.end_offset == end + 3
    assert told.voter_records == (
        KRaftVersionAt(end + 1, 1),
        VotersAt(end + 2, membership.voters),
    )


def test_a_request_goes_where_the_core_says():
    world = ready_world()
    leader_id = leader_of(world)
    kernel = world.kernel(leader_id)
    other = min(i for i in world.alive if i != leader_id)
    request = EndQuorumEpochRequest(
        cluster_id=None, leader_id=leader_id, leader_epoch=1, preferred_candidates=()
    )
    for endpoint, address in ((None, None), (Endpoint("C", "moved", 7), ("moved", 7))):
        before = kernel.peers._addresses[other]
        effect = SendRequest(
            destination_id=other, correlation_id=9, request=request, endpoint=endpoint
        )
        kernel.replica._send(effect)
        assert kernel.peers._addresses[other] == (address or before)
