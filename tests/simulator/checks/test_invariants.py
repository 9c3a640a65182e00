"""Each invariant refuses a violation that was made up for it, and names itself."""

import pytest
from msgspec.structs import replace

from kernel.lifecycle.broker_lifecycle import UNREGISTERED
from kernel.quorum.snapshots import _Job
from metadata.image import Image
from metadata.record_codec import encode
from metadata.records import RemoveTopicRecord, TopicRecord
from metadata.snapshot import encode_snapshot, snapshot_records
from raft.fetching.progress import Progress
from raft.quorum import VoteTally
from raft.roles import Candidate, Follower, Leader, Resigned, Unattached
from simulator.checks.raft.log_mirror import (
    FOLDER,
    Entry,
    batches_of,
    segment_paths,
)
from simulator.checks.violation import Violation
from simulator.cluster.machine import SelfEndedError
from storage.log_dir.snapshot_files import snapshot_name
from tests.simulator.worlds import (
    append,
    broken,
    follower,
    leader,
    log_of,
    look,
    observer,
    past_of,
    quiet_world,
    state_of,
    store,
)
from wire.batches.batch import encode_batch
from wire.types import NodeId, OffsetAndEpoch, ReplicaKey

NOW_MS = 1_700_000_000_000


@pytest.fixture
def world():
    found = quiet_world()
    assert found.invariants.ledger.end_offset > 10
    assert found.invariants.elections == 1
    return found


def as_leader(machine, epoch):
    others = (number for number in (1, 2, 3) if number != machine.id)
    state_of(machine).role = Leader(
        epoch=epoch,
        leader_id=NodeId(machine.id),
        epoch_start_offset=0,
        check_quorum_deadline_ms=10**9,
        progress={ReplicaKey(number): Progress() for number in others},
        observers={},
        fetched_voters=set(),
    )


def test_nothing_is_wrong_with_a_quiet_world(world):
    for machine in world.machines.values():
        look(world, machine)
        world.invariants.compare_image(machine, machine.kernel)


def test_a_leader_that_was_paused_has_time_to_hear_its_voters_again(world):
    machine = leader(world)
    progress = state_of(machine).role.progress
    for number, voter in list(progress.items()):
        progress[number] = replace(voter, last_contact_ms=machine.now().monotonic_ms)
    world.scheduler.now_us += 10_000_000
    machine.resumed_ms = machine.now().monotonic_ms
    look(world, machine)
    machine.resumed_ms = 0
    world.scheduler.now_us += 1_000_000
    assert "no majority fetched from it in epoch 1 for 11000 ms" in broken(
        world, machine, "liveness"
    )


def replaced_unnoticed(machine, epoch):
    """The last batch is cut off and another one of its size written: the node says nothing."""
    log = log_of(machine)
    path = segment_paths(machine.vfs)[-1]
    content = bytes(machine.vfs.written_content(path))
    start, _, last = list(batches_of(bytearray(content)))[-1]
    other = bytearray(encode_batch([b"other"], last.base_offset, epoch, NOW_MS))
    file = machine.vfs.open(path)
    file.truncate(start)
    file.pwrite(bytes(other), start)
    assert log.end_offset == last.end_offset
    return last


def test_i11_a_committed_batch_is_replaced_and_nothing_told(world):
    machine = follower(world)
    replaced_unnoticed(machine, 1)
    assert "which is committed" in broken(world, machine, "I11")


def test_i5_a_leader_replaces_its_own_batch_and_tells_nothing(world):
    machine = leader(world)
    append(machine, machine.kernel.core.epoch)
    look(world, machine)
    replaced_unnoticed(machine, machine.kernel.core.epoch)
    assert "a leader cut its own" in broken(world, machine, "I5")


def test_a_short_write_that_is_taken_back_is_no_cut(world):
    machine = follower(world)
    file = machine.vfs.open(segment_paths(machine.vfs)[-1])
    size = file.size()
    file.pwrite(b"half", size)
    file.truncate(size)
    assert machine.vfs.log_changes > world.invariants._past[machine.id].log_changes
    look(world, machine)
    assert machine.vfs.log_changes == world.invariants._past[machine.id].log_changes


def test_i1_two_leaders_in_one_epoch(world):
    other = follower(world)
    as_leader(other, other.kernel.core.epoch)
    assert "is led by" in broken(world, other, "I1")


def test_i1_a_follower_of_another_leader(world):
    other = follower(world)
    role = state_of(other).role
    third = next(n for n in world.voters if n not in (other.id, leader(world).id))
    state_of(other).role = Follower(epoch=role.epoch, leader_id=third, fetch_deadline_ms=10**9)
    broken(world, other, "I1")


def test_i2_an_epoch_that_goes_back(world):
    other = follower(world)
    state_of(other).role = Unattached(epoch=0, election_deadline_ms=10**9)
    assert "epoch 0 after" in broken(world, other, "I2")


def test_i2_an_epoch_that_is_not_on_the_disk(world):
    other = follower(world)
    state_of(other).role = Unattached(epoch=9, election_deadline_ms=10**9)
    assert "9 in memory" in broken(world, other, "I2")


def test_i3_a_vote_that_is_not_on_the_disk(world):
    other = follower(world)
    store(other, 9)
    candidate = ReplicaKey(leader(world).id, None)
    state_of(other).role = Unattached(epoch=9, voted_key=candidate, election_deadline_ms=10**9)
    assert "the disk says" in broken(world, other, "I3")


def test_i3_two_votes_in_one_epoch(world):
    other = follower(world)
    for first, candidate in enumerate((leader(world).id, other.id)):
        store(other, 9, voted_id=candidate)
        voted = ReplicaKey(candidate, None)
        state_of(other).role = Unattached(epoch=9, voted_key=voted, election_deadline_ms=10**9)
        if first == 0:
            look(world, other)
    assert "votes in epoch 9" in broken(world, other, "I3")


def test_i4_a_vote_for_a_shorter_log(world):
    voter, candidate = leader(world), follower(world)
    mirror = world.invariants.mirrors[candidate.id]
    mirror.entries = mirror.entries[:3]
    for machine in (voter, candidate):
        store(machine, 9, voted_id=candidate.id)
    voted = ReplicaKey(candidate.id, None)
    state_of(candidate).role = Candidate(
        epoch=9,
        voted_key=voted,
        votes=VoteTally(
            frozenset(map(ReplicaKey, world.voters)), frozenset({ReplicaKey(candidate.id)})
        ),
        election_deadline_ms=10**9,
    )
    state_of(voter).role = Unattached(epoch=9, voted_key=voted, election_deadline_ms=10**9)
    assert f"votes for {candidate.id}" in broken(world, voter, "I4")


def test_i5_a_leader_that_cuts_what_it_wrote(world):
    machine = leader(world)
    end = log_of(machine).end_offset
    append(machine, machine.kernel.core.epoch)
    look(world, machine)
    log_of(machine).truncate_to(end)
    broken(world, machine, "I5")


def test_i6_two_logs_that_differ_at_one_epoch_and_offset(world):
    epoch = leader(world).kernel.core.epoch
    append(leader(world), epoch, b"one")
    look(world, leader(world))
    append(follower(world), epoch, b"other")
    assert "two logs differ" in broken(world, follower(world), "I6")


def test_i6_an_epoch_that_goes_back_within_a_log(world):
    with pytest.raises(Violation) as caught:
        world.invariants._register(leader(world), Entry(90, 91, 4, 1), Entry(89, 90, 5, 2))
    assert caught.value.invariant == "I6"


@pytest.mark.parametrize("number", [0, 1, -1])
def test_i6_a_restart_that_finds_another_batch_among_those_it_knew(world, number):
    machine = leader(world)
    known = world.invariants.mirrors[machine.id].entries
    found = list(known)
    found[number] = found[number]._replace(crc=found[number].crc ^ 1)
    world.invariants._register_others(machine, list(known), known)
    with pytest.raises(Violation, match="two logs differ"):
        world.invariants._register_others(machine, found, known)


def test_i6_a_gap_within_a_log(world):
    with pytest.raises(Violation) as caught:
        world.invariants._register(leader(world), Entry(91, 92, 5, 1), Entry(89, 90, 5, 2))
    assert caught.value.invariant == "I6"


def test_i6_a_follower_that_appends_what_its_leader_does_not_have(world):
    append(follower(world), follower(world).kernel.core.epoch)
    assert "its leader" in broken(world, follower(world), "I6")


def test_i7_a_leader_without_a_committed_batch(world):
    machine = follower(world)
    mirror = world.invariants.mirrors[machine.id]
    mirror.entries = mirror.entries[:-1]
    store(machine, 9, leader_id=machine.id)
    as_leader(machine, 9)
    assert "leads epoch 9 without" in broken(world, machine, "I7")


def test_i7_votes_of_an_earlier_epoch_may_make_a_leader_without_what_a_later_one_committed(world):
    machine = follower(world)
    mirror, ledger = world.invariants.mirrors[machine.id], world.invariants.ledger
    core, last = machine.kernel.core, mirror.entries[-1]
    mirror.entries = mirror.entries[:-1]
    ledger.committed_in[last.base_offset] = core_epoch(machine) + 1
    world.invariants._on_elected(machine, core)
    ledger.committed_in[last.base_offset] = core_epoch(machine)
    with pytest.raises(Violation, match="I7"):
        world.invariants._on_elected(machine, core)


def test_i8_applied_and_not_committed(world):
    machine = follower(world)
    world.invariants.ledger.entries.pop()
    past_of(world, machine).applied -= 1
    assert "committed" in broken(world, machine, "I8")


def test_i9_a_high_watermark_that_falls(world):
    machine = follower(world)
    state_of(machine).high_watermark -= 1
    broken(world, machine, "I9")


def test_i9_a_high_watermark_above_the_log(world):
    machine = follower(world)
    state_of(machine).high_watermark += 100
    assert "above the log end" in broken(world, machine, "I9")


def test_i9_a_follower_that_commits_before_any_leader(world):
    append(leader(world), leader(world).kernel.core.epoch)
    look(world, leader(world))
    machine = follower(world)
    append(machine, machine.kernel.core.epoch)
    state_of(machine).log.extend(log_of(machine).end_offset)
    state_of(machine).high_watermark = log_of(machine).end_offset
    assert "no leader has" in broken(world, machine, "I9")


def test_i10_a_commit_that_one_node_has(world):
    machine = leader(world)
    append(machine, machine.kernel.core.epoch)
    state_of(machine).log.extend(log_of(machine).end_offset)
    state_of(machine).high_watermark = log_of(machine).end_offset
    assert "durable there at the voters" in broken(world, machine, "I10")


def test_i10_a_commit_of_an_earlier_epoch_alone(world):
    machine = follower(world)
    earlier = machine.kernel.core.epoch
    store(machine, 9, leader_id=machine.id)
    as_leader(machine, 9)
    look(world, machine)
    append(machine, earlier)
    state_of(machine).log.extend(log_of(machine).end_offset)
    state_of(machine).high_watermark = log_of(machine).end_offset
    assert "of an earlier epoch" in broken(world, machine, "I10")


def test_i10_a_new_leader_that_begins_with_what_an_earlier_epoch_committed(world):
    machine = follower(world)
    store(machine, 9, leader_id=machine.id)
    as_leader(machine, 9)
    look(world, machine)
    past_of(world, machine).high_watermark = None
    assert state_of(machine).high_watermark <= world.invariants.ledger.end_offset
    assert "of an earlier epoch" in broken(world, machine, "I10")


def test_i10_a_leader_that_counts_who_does_not_know_its_epoch(world):
    machine = follower(world)
    store(machine, 9, leader_id=machine.id)
    as_leader(machine, 9)
    voter = leader(world).id
    key = ReplicaKey(voter)
    role = state_of(machine).role
    role.progress[key] = replace(role.progress[key], end_offset=3)
    assert f"it counts {voter} in epoch 9" in broken(world, machine, "I10")


def test_i11_a_committed_batch_that_is_cut(world):
    machine = follower(world)
    last = world.invariants.mirrors[machine.id].entries[-1]
    log_of(machine).truncate_to(last.base_offset)
    assert "which is committed" in broken(world, machine, "I11")


def test_i11_what_retention_removed_is_not_cut_though_raft_is_told_later(world):
    machine = leader(world)
    core, log = machine.kernel.core, machine.kernel.log
    batch = world.invariants.ledger.entries[0]
    log.log_start_offset = batch.end_offset - 1
    with pytest.raises(Violation, match="I11"):
        world.invariants._on_cut(machine, core, [batch], [])
    log.log_start_offset = batch.end_offset
    world.invariants._on_cut(machine, core, [batch], [])


def test_i11_who_still_follows_an_earlier_leader_may_cut_what_a_later_one_committed(world):
    machine = follower(world)
    last = world.invariants.mirrors[machine.id].entries[-1]
    world.invariants.ledger.committed_in[last.base_offset] = core_epoch(machine) + 1
    core = machine.kernel.core
    world.invariants._on_cut(machine, core, [last], [])
    world.invariants.ledger.committed_in[last.base_offset] = core_epoch(machine)
    with pytest.raises(Violation, match="I11"):
        world.invariants._on_cut(machine, core, [last], [])


def core_epoch(machine):
    return int(machine.kernel.core.epoch)


def test_i12_a_topic_that_came_and_went_in_one_batch_was_created(world):
    ledger, topic_id = world.invariants.ledger, b"\x02" * 16
    values = (
        encode(TopicRecord(name="brief", topic_id=topic_id), 0),
        encode(RemoveTopicRecord(topic_id=topic_id), 0),
    )
    first = ledger.end_offset
    ledger.commit(Entry(first, first + 2, 1, 0), encode_batch(values, first, 1, 0), 1)
    assert ledger.writes.created[topic_id] == ledger.writes.deleted[topic_id] == "brief"


def write_snapshot(machine, snapshot_id, image):
    path = f"{FOLDER}/{snapshot_name(snapshot_id)}"
    content = b"".join(
        encode_snapshot(
            snapshot_records(image),
            level=image.metadata_version,
            epoch=snapshot_id.epoch,
            last_contained_timestamp_ms=0,
            timestamp_ms=0,
        )
    )
    file = machine.vfs.open(path, create=True)
    file.pwrite(content, 0)


def test_i13_a_snapshot_of_what_is_not_committed(world):
    machine = follower(world)
    epoch = machine.kernel.core.epoch
    write_snapshot(machine, OffsetAndEpoch(10_000, epoch), machine.kernel.cache.image)
    assert "not committed" in broken(world, machine, "I13")


def test_i13_a_snapshot_that_is_not_the_image_at_its_offset(world):
    machine = follower(world)
    image = machine.kernel.cache.image
    poor = replace(image, brokers=Image().brokers)
    write_snapshot(machine, image.provenance.snapshot_id, poor)
    assert "brokers" in broken(world, machine, "I13")


def test_i13_a_log_start_without_a_snapshot(world):
    machine = follower(world)
    wrong = world.invariants._snapshots.broken(machine, 5)
    assert wrong == ("I13", "the log starts at 5, snapshots: []")


def test_i13_a_snapshot_from_before_the_log_start(world):
    machine = follower(world)
    image = machine.kernel.cache.image
    ends = [end for end, kept in world.invariants.ledger.images.items() if kept is not None]
    early = world.invariants.ledger.images[ends[-2]]
    for each in (early, image):
        write_snapshot(machine, each.provenance.snapshot_id, each)
    start = image.provenance.end_offset
    wrong = world.invariants._snapshots.broken(machine, start)
    assert wrong is not None
    assert f"the log starts at {start}, snapshots: " in wrong[1]
    ended_late = _Job(early.provenance.snapshot_id, None, None, is_obsolete=True)
    machine.kernel.snapshots._job = ended_late  # the node has not heard of its end
    assert world.invariants._snapshots.broken(machine, start) is None


def test_i14_two_active_controllers_in_one_epoch(world):
    machine = leader(world)
    world.invariants._active[machine.kernel.state.controller.epoch] = 99
    assert "a second controller" in broken(world, machine, "I14")


def test_i14_an_active_controller_that_does_not_lead(world):
    machine = leader(world)
    role = state_of(machine).role
    state_of(machine).role = Resigned(
        epoch=role.epoch,
        leader_id=role.leader_id,
        preferred_candidates=(),
        unacknowledged=set(),
        tried=set(),
        election_deadline_ms=10**9,
    )
    broken(world, machine, "I14")


def test_i16_an_observer_that_stands(world):
    machine = observer(world)
    as_leader(machine, 9)
    assert "an observer is Leader" in broken(world, machine, "I16")


def test_i16_a_node_that_follows_itself(world):
    machine = follower(world)
    world.invariants._leaders[9] = machine.id
    state_of(machine).role = Follower(epoch=9, leader_id=machine.id, fetch_deadline_ms=10**9)
    assert "follows itself" in broken(world, machine, "I16")


def test_i17_an_image_that_is_not_what_the_log_says(world):
    machine = follower(world)
    image = machine.kernel.cache.image
    machine.kernel.cache.image = replace(image, topics=Image().topics)
    with pytest.raises(Violation, match=r"I17.*topics"):
        world.invariants.compare_image(machine, machine.kernel)


def test_i18_a_durable_log_that_is_shorter_after_a_restart(world):
    machine = follower(world)
    machine.power_off()
    world.invariants._past[machine.id].durable_end += 5
    with pytest.raises(Violation, match=r"I18.*ended durably"):
        machine.start()


def test_i18_damage_that_is_served(world):
    machine = follower(world)
    path = segment_paths(machine.vfs)[-1]
    machine.vfs.damage(path, machine.vfs.size(path) - 3, b"\xff\xff")
    with pytest.raises(Violation, match=r"I18.*checksum"):
        world.invariants._started(machine, machine.kernel)


def test_i20_an_error_that_no_fault_explains(world):
    with pytest.raises(Violation, match="I20"):
        world.process_ended(follower(world), "stopped", OSError(5, "out of the blue"))


def test_liveness_a_broker_that_no_controller_registers(world):
    """Its exit is in order, as Kafka's; that nobody led for so long is the finding."""
    reason = f"exit 1: {UNREGISTERED} within a minute, and nobody asked it to end"
    with pytest.raises(Violation, match=r"liveness: node \d+ exit 1: the broker could not"):
        world.process_ended(follower(world), reason, SelfEndedError(reason))
