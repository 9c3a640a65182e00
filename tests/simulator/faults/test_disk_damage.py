"""Disks that do not hold what was written: which starts and stops the simulator takes for right."""

from random import Random

import pytest

from simulator.campaign.draw import Options
from simulator.campaign.run import run_seed
from simulator.checks.raft.log_mirror import (
    FOLDER,
    QUORUM_STATE,
    batches_of,
    segment_paths,
)
from simulator.checks.violation import Violation
from simulator.cluster.memory_vfs import MemoryVfs
from simulator.faults.disk_damage import SECTOR_BYTES, _damaged
from simulator.faults.kinds import DAMAGES
from storage.errors import CorruptFileError, CorruptLogError
from storage.segments.read_check import first_damage
from tests.selection import thinned
from tests.simulator.worlds import follower, leader, quiet_world
from wire.batches.batch import encode_batch

SECOND_US = 1_000_000
ONLY_DAMAGE = Options(node_count=3, faults=DAMAGES, duration_us=6_000_000, write_count=20)


@pytest.fixture
def world():
    return quiet_world()


def strike(world, machine, kind, is_wanted=lambda damage: True):
    """Strike until the damage is of the wanted sort."""
    damages = world._damages
    for seed in range(300):
        if damages.strike(kind, machine, Random(seed)):
            found = damages._damages.get(machine.id)
            if found is not None and is_wanted(found):
                return found
            damages.restore(machine)
            if not machine.is_up:
                machine.start()
    raise AssertionError(f"no {kind} in 300 draws")


def at_rest(damage):
    return damage.is_at_rest


@pytest.mark.parametrize("kind", DAMAGES)
@pytest.mark.parametrize("suffix", [".log", "quorum-state"])
def test_a_start_on_damage_is_refused_until_the_bytes_are_back(world, kind, suffix):
    machine = follower(world)
    damage = strike(world, machine, kind, lambda d: at_rest(d) and d.path.endswith(suffix))
    assert damage.before != damage.after
    for _ in range(2):
        world.restart(machine)
        assert not machine.is_up
    assert world.probes.counts["damage_refused"] >= 2
    world._damages.restore(machine)
    world.restart(machine)
    assert machine.is_up
    world.run(world.scheduler.now_us + 2 * SECOND_US)
    assert machine.kernel.core.leader == leader(world).kernel.core.leader


@pytest.mark.parametrize("kind", DAMAGES)
def test_an_empty_file_has_nothing_to_damage(world, kind):
    machine = follower(world)
    machine.vfs.rewrite(QUORUM_STATE, b"")
    drawn = [world._damages._at_rest(kind, machine.vfs, Random(seed)) for seed in range(20)]
    assert {damage.path for damage in drawn if damage is not None} == {
        segment_paths(machine.vfs)[0]
    }


def test_a_damaged_snapshot_is_refused():
    world = quiet_world(record_bytes_between_snapshots=300)
    machine = follower(world)
    strike(world, machine, "bit_rot", lambda d: at_rest(d) and d.path.endswith(".checkpoint"))
    world.restart(machine)
    assert not machine.is_up


def test_a_leader_stops_when_it_reads_what_rots_under_it(world):
    lagging, led = follower(world), leader(world)
    lagging.kill()
    world.workload.submit(world.workload._clients[0], "create")
    world.run(world.scheduler.now_us + SECOND_US)
    damage = strike(world, led, "bit_rot", lambda d: not at_rest(d))
    assert damage.position > len(lagging.vfs.written_content(segment_paths(lagging.vfs)[-1]))
    assert led.is_up
    world.restart(lagging)
    world.run(world.scheduler.now_us + SECOND_US)
    assert world.probes.counts["damage_stopped_a_node"] == 1
    assert not led.is_up


def test_i18_a_leader_that_sends_what_rots_under_it(world, monkeypatch):
    monkeypatch.setattr("storage.logs.log_loading.first_damage", lambda *_, **__: None)
    lagging, led = follower(world), leader(world)
    lagging.kill()
    world.workload.submit(world.workload._clients[0], "create")
    world.run(world.scheduler.now_us + SECOND_US)
    strike(world, led, "bit_rot", lambda d: not at_rest(d))
    world.restart(lagging)
    with pytest.raises(Violation, match=f"I18: node {lagging.id} was sent damage: CRC"):
        world.run(world.scheduler.now_us + SECOND_US)


def test_what_rots_under_a_process_is_gone_when_it_is_killed(world):
    machine = follower(world)
    damage = strike(world, machine, "bit_rot", lambda d: not at_rest(d))
    assert machine.vfs.written_content(damage.path) == damage.after
    machine.kill()
    assert machine.vfs.written_content(damage.path) == damage.before


def test_what_rotted_is_gone_though_what_follows_was_cut_and_written_anew(world):
    machine = follower(world)

    def end_of_batch(damage):
        batches = batches_of(bytearray(damage.before))
        return next(end for _, end, _ in batches if end > damage.position)

    def is_just_before_another(damage):
        end = end_of_batch(damage)
        return not at_rest(damage) and end - 32 < damage.position < end < len(damage.before)

    damage = strike(world, machine, "bit_rot", is_just_before_another)
    cut = end_of_batch(damage)
    file = machine.vfs.open(damage.path)
    file.truncate(cut)
    file.pwrite(bytes(40), cut)
    machine.kill()
    assert machine.vfs.written_content(damage.path) == damage.before[:cut] + bytes(40)


def test_a_minority_of_the_voters_is_damaged(world):
    strike(world, follower(world), "lost_write")
    for number in world.voters:
        assert not world._damages.strike("lost_write", world.machines[number], Random(1))
    assert world.machines[101].is_up
    strike(world, world.machines[101], "lost_write")


def broken(world, machine, error):
    with pytest.raises(Violation) as caught:
        world.process_ended(machine, f"refused to start: {error}", error)
    assert caught.value.invariant == "I18"
    return str(caught.value)


def test_i18_a_stop_without_damage(world):
    path = segment_paths(follower(world).vfs)[0]
    error = CorruptLogError(path, 0, "made up")
    assert "its disk is not damaged" in broken(world, follower(world), error)


def test_i18_a_stop_at_the_wrong_place(world):
    machine = follower(world)
    damage = strike(world, machine, "bit_rot", lambda d: at_rest(d) and d.path.endswith(".log"))
    error = CorruptLogError(damage.path, damage.batch_position + 1, "made up")
    assert f"batch is at position {damage.batch_position}" in broken(world, machine, error)
    assert "damaged is" in broken(world, machine, CorruptFileError(QUORUM_STATE, "made up"))


def test_i18_a_refused_start_that_changes_the_file(world):
    machine = follower(world)
    damage = strike(world, machine, "bit_rot", lambda d: at_rest(d) and d.path.endswith(".log"))
    machine.vfs.rewrite(damage.path, damage.after[: damage.batch_position])
    error = CorruptLogError(damage.path, damage.batch_position, "made up")
    assert f"it changed {FOLDER}" in broken(world, machine, error)


def test_i18_a_start_on_damage(world):
    machine = follower(world)
    damage = strike(world, machine, "misdirected_write", at_rest)
    machine.vfs.rewrite(damage.path, damage.before)  # so that the node finds nothing
    with pytest.raises(Violation, match=r"I18: .* it started with"):
        world.restart(machine)


def batch_of(size, offset):
    """A batch of so many bytes."""
    values = (bytes(length) + bytes([offset]) for length in range(size))
    batches = (encode_batch((value,), offset, 1, 0) for value in values)
    return next(batch for batch in batches if len(batch) == size)


def test_a_batch_that_became_another_whole_one_is_left_alone():
    """A sector that begins behind offset and length of a batch holds the whole rest of it."""
    sizes = (SECTOR_BYTES - 11, *[SECTOR_BYTES] * 4)
    batches = [batch_of(size, offset) for offset, size in enumerate(sizes)]
    vfs = MemoryVfs()
    file = vfs.open("/log", create=True)
    file.pwrite(b"".join(batches), 0)
    ranges = [(sum(sizes[:n]), sum(sizes[: n + 1])) for n in range(len(sizes))]
    drawn = [
        _damaged("misdirected_write", "/log", vfs, ranges, Random(seed), is_segment=True)
        for seed in range(200)
    ]
    found = [damage for damage in drawn if damage is not None and damage.before != damage.after]
    assert len(found) > 50
    for damage in found:
        told = first_damage(damage.after, 0, contiguous=True)
        assert told is not None
        assert told[0] == damage.batch_position


def test_what_no_checksum_of_a_snapshot_covers_is_left_alone():
    """The last sector is so short that it replaces nothing but a base offset."""
    size = 3 * SECTOR_BYTES + 8
    vfs = MemoryVfs()
    vfs.open("/snapshot", create=True).pwrite(batch_of(size, 7), 0)
    drawn = [
        _damaged("misdirected_write", "/snapshot", vfs, [(0, size)], Random(seed), is_segment=False)
        for seed in range(200)
    ]
    found = [damage for damage in drawn if damage is not None and damage.before != damage.after]
    assert 50 < len(found) < 200
    for damage in found:
        assert first_damage(damage.after, 0, contiguous=False) is not None


@pytest.mark.parametrize("seed", thinned([3, 1, 2, 4], every=4))
def test_seeds_with_nothing_but_damage_hold(seed):
    outcome = run_seed(seed, ONLY_DAMAGE)
    assert outcome.invariant is None, outcome.text
