"""Each check of records fails when what it checks is broken."""

import math

import immutables
import pytest
from msgspec.structs import replace

from simulator.checks.partitions.log_starts import LogStarts
from simulator.records.run import why_unfinished
from tests.simulator.records.worlds import (
    broken,
    follower_of,
    key_of,
    leader_of,
    quiet_records,
    replica_of,
    rested,
    segments_of,
    stored_at,
)
from wire.types import NodeId


@pytest.fixture(scope="module")
def quiet():
    """At rest; each test repairs what it breaks."""
    return rested(quiet_records(until_us=3_000_000))


def test_there_is_no_rest_before_the_leaders_of_the_image_lead(quiet, monkeypatch):
    led = replica_of(quiet, leader_of(quiet, 1), 1)
    assert why_unfinished(quiet) == ""
    epoch = led.leader_epoch
    monkeypatch.setattr(led.role, "leader_epoch", epoch + 1)
    assert f"does not lead epoch {epoch} yet" in why_unfinished(quiet)
    monkeypatch.setattr(led, "role", None)
    assert f"does not lead epoch {epoch} yet" in why_unfinished(quiet)


def promised(world, partition=0):
    topic_id, number = key_of(world, partition)
    return world.record_checks._promised[bytes(topic_id), number]


def damage(machine, position, content=b"\xff"):
    """Change a byte of the newest segment, in the header; return what undoes it."""
    path = segments_of(machine)[-1]
    before = bytes(machine.vfs.written_content(path)[position : position + len(content)])
    machine.vfs.damage(path, position, content)
    return lambda: machine.vfs.damage(path, position, before)


def test_clients_saw_records_and_all_replicas_have_them(quiet):
    values = promised(quiet).values
    assert len(values) > 20
    for machine in quiet.nodes.values():
        stored = stored_at(quiet, machine)
        assert sum(len(batch.values) for batch in stored) >= len(values)
    assert quiet.record_marks is not None
    quiet.record_checks.check_at_rest()


def test_d1_a_leader_without_a_record_that_was_promised(quiet):
    values, end = promised(quiet).values, max(promised(quiet).values) + 1
    values[end] = b"gone"
    text = broken("D1", quiet.record_checks.check_at_rest)
    assert f"offset {end}" in text
    assert "promised was b'gone'" in text
    del values[end]


def test_d1_and_d2_one_offset_has_one_value(quiet):
    checks, key = quiet.record_checks, key_of(quiet)
    offset = max(promised(quiet).values)
    late_us = quiet.scheduler.now_us
    broken("D1", lambda: checks.acknowledged(key, offset, [b"other"], late_us))
    broken("D2", lambda: checks.consumed(key, offset, [b"other"], late_us))
    checks.acknowledged(key, offset, [b"other"], promised(quiet).since_us)
    broken("D1", lambda: checks.out_of_range(key, offset + 1, late_us))
    checks.out_of_range(key, offset + 1, promised(quiet).promised_us[offset])
    checks.out_of_range(key, offset + 2, late_us)
    checks.out_of_range(key, offset + 1, promised(quiet).since_us)


def test_d2_a_high_watermark_that_falls(quiet):
    machine, checks = leader_of(quiet), quiet.record_checks
    epoch = replica_of(quiet, machine).leader_epoch
    place = (machine.id, machine.incarnation, key_of(quiet))
    known = checks._watermarks[place]
    assert known[0] == epoch
    checks._watermarks[place] = (epoch, known[1] + 1, known[2])
    assert "lowers the high watermark" in broken("D2", lambda: checks.after_step(machine))
    checks._watermarks[place] = (epoch - 1, known[1] + 1, known[2])
    checks.after_step(machine)
    assert checks._watermarks[place] == known


def test_d2_a_replica_in_sync_that_ends_below_the_high_watermark():
    world = rested()
    machine, checks, other = leader_of(world), world.record_checks, follower_of(world)
    replica_of(world, other).log.log.truncate_to(3)
    checks.after_step(machine)
    place = (machine.id, machine.incarnation, key_of(world))
    known = checks._watermarks[place]
    checks._watermarks[place] = (*known[:2], ())  # the ISR is another one by now
    assert f"node {other.id} ends at" in broken("D2", lambda: checks.after_step(machine))
    promised(world).behind.add(other.id)
    checks.after_step(machine)


def test_d3_replicas_that_differ(quiet):
    undo = damage(follower_of(quiet), 40)
    assert "differ at offset" in broken("D3", quiet.record_checks.compare_replicas)
    undo()
    quiet.record_checks.compare_replicas()


def test_d3_holds_of_what_is_not_deleted():
    world = rested()
    machine, checks = leader_of(world), world.record_checks
    damage(follower_of(world), 40)
    broken("D3", checks.compare_replicas)
    first, *_ = stored_at(world, machine)
    replica_of(world, machine).log.raise_log_start_to(first.end_offset)
    checks.compare_replicas()


def test_d3_replicas_that_lost_power_and_never_catch_up(quiet):
    undo = damage(follower_of(quiet), 40)
    promised(quiet).behind.add(follower_of(quiet).id)
    quiet.record_checks.compare_replicas()
    assert "differ at rest" in broken("D3", quiet.record_checks.check_at_rest)
    undo()
    quiet.record_checks.check_at_rest()
    assert promised(quiet).behind == set()


def test_d5_a_batch_that_is_stored_twice():
    world = rested()
    machine = leader_of(world)
    path = segments_of(machine)[-1]
    content = bytes(machine.vfs.written_content(path))
    found = stored_at(world, machine)
    again = next(b for b in reversed(found) if b.producer_id >= 0)
    world.record_checks.check_sequences()
    machine.vfs.rewrite(path, content + again.content)
    assert " and " in broken("D5", world.record_checks.check_sequences)
    promised(world).start = again.end_offset - 1
    assert " and " in broken("D5", world.record_checks.check_sequences)
    promised(world).start = again.end_offset
    world.record_checks.check_sequences()


def test_d7_two_leaders_of_an_epoch(quiet):
    machine, checks = leader_of(quiet), quiet.record_checks
    epoch = replica_of(quiet, machine).leader_epoch
    checks._leaders[key_of(quiet), epoch] = 9
    assert f"nodes 9 and {machine.id} lead" in broken("D7", lambda: checks.after_step(machine))
    checks._leaders[key_of(quiet), epoch] = machine.id
    checks.after_step(machine)


def test_d9_memory_that_is_held_at_rest(quiet):
    memory = leader_of(quiet).records.broker.memory
    memory.used_bytes += 5
    assert "(0, 0, 5)" in broken("D9", quiet.record_checks.check_at_rest)
    memory.release(5)


def test_a_power_failure_excuses_only_if_all_in_sync_had_one():
    world = quiet_records()
    checks, values = world.record_checks, promised(world).values
    count = len(values)
    for number, node in enumerate((1, 2, 3), 1):
        assert len(values) == count > 0
        checks.power_lost(node)
        assert checks.may_have_lost(key_of(world)) == (number == 3)
    assert values == {}
    assert promised(world).since_us == world.scheduler.now_us
    checks.acknowledged(key_of(world), 5, [b"asked before"], world.scheduler.now_us)
    assert values == {}
    checks.acknowledged(key_of(world), 5, [b"asked after"], world.scheduler.now_us + 1)
    assert values == {5: b"asked after"}


def test_a_leader_that_was_replaced_before_all_in_sync_lost_their_power_promises_nothing():
    """It does not know that another one leads, and serves what nobody else need have."""
    world = quiet_records()
    checks, key = world.record_checks, key_of(world)
    image = world.ledger.image
    topic = image.topics[key[0]]
    newer = replace(topic.partitions[0], leader_epoch=3)
    topic = replace(topic, partitions=topic.partitions.set(0, newer))
    checks._image = lambda: replace(image, topics=image.topics.set(key[0], topic))
    for node in (1, 2, 3):
        checks.power_lost(node)
    late_us = world.scheduler.now_us + 1
    checks.acknowledged(key, 5, [b"old"], late_us, leader_epoch=2)
    checks.consumed(key, 5, [b"old"], late_us, 700, leader_epoch=2)
    assert promised(world).values == {}
    checks.acknowledged(key, 5, [b"acknowledged"], late_us, leader_epoch=3)
    checks.consumed(key, 6, [b"read"], late_us, 800, leader_epoch=3)
    checks.consumed(key, 6, [b"old"], late_us, 700, leader_epoch=2)
    assert promised(world).values == {5: b"acknowledged", 6: b"read"}
    assert promised(world).times_ms == {6: 800}


def test_the_only_one_in_sync_loses_power_and_all_others_know_more_than_it():
    world = quiet_records()
    checks, key = world.record_checks, key_of(world)
    image = world.ledger.image
    topic = image.topics[key[0]]
    alone = replace(topic.partitions[0], isr=(NodeId(2),), replicas=(NodeId(2), NodeId(3)))
    topic = replace(topic, partitions=topic.partitions.set(0, alone))
    checks._image = lambda: replace(image, topics=image.topics.set(key[0], topic))
    checks.power_lost(2)
    assert checks.may_have_lost(key)
    assert promised(world).behind == {1, 2, 3}
    assert promised(world).values == {}


def without(world, machine, batch):
    """Take a batch out of the only segment of a replica."""
    (path,) = segments_of(machine)
    content = bytes(machine.vfs.written_content(path))
    assert content.count(batch.content) == 1
    machine.vfs.rewrite(path, content.replace(batch.content, b""))


def leads_anew(world):
    """Let the checks see the leader of partition 0 as one that has just been elected."""
    machine = leader_of(world)
    del world.record_checks._leaders[key_of(world), replica_of(world, machine).leader_epoch]
    world.record_checks.after_step(machine)


def test_followers_keep_what_a_leader_lacks_since_all_in_sync_lost_their_power():
    """A power failure took the end of a segment and left the next one: in Kafka the gap stays."""
    world = rested()
    checks, key, machine = world.record_checks, key_of(world), leader_of(world)
    *_, lost, other, last = stored_at(world, machine)
    for node in (1, 2, 3):
        checks.power_lost(node)
    leads_anew(world)
    assert promised(world).lacking == set()
    (path,) = segments_of(machine)
    whole = bytes(machine.vfs.written_content(path))
    without(world, machine, lost)
    without(world, machine, last)
    assert "differ at rest" in broken("D3", checks.check_at_rest)
    leads_anew(world)
    gaps = {*range(lost.base_offset, lost.end_offset), *range(last.base_offset, last.end_offset)}
    assert promised(world).lacking == gaps
    late_us = world.scheduler.now_us + 1
    for batch in (lost, other, last):
        checks.consumed(key, batch.base_offset, batch.values, late_us)
    assert list(promised(world).values) == list(range(other.base_offset, other.end_offset))
    without(world, follower_of(world), other)
    assert "differ at rest" in broken("D3", checks.check_at_rest)
    assert promised(world).behind == {follower_of(world).id}
    promised(world).behind.clear()
    checks.check_at_rest()
    machine.vfs.rewrite(path, whole)
    leads_anew(world)
    assert promised(world).lacking == gaps  # who led before still lacks it


def test_d1_a_leader_lacks_a_record_and_only_it_lost_its_power():
    world = rested()
    machine = leader_of(world)
    world.record_checks.power_lost(machine.id)
    without(world, machine, stored_at(world, machine)[-1])
    text = broken("D1", lambda: leads_anew(world))
    assert f"node {machine.id} leads with None" in text
    assert promised(world).lacking == set()
    promised(world).forget_below(math.inf)
    leads_anew(world)
    assert promised(world).lacking == set()


def test_a_leader_lacks_nothing_below_its_log_start():
    world = rested()
    checks, machine = world.record_checks, leader_of(world)
    first, *_ = stored_at(world, machine)
    for node in (1, 2, 3):
        checks.power_lost(node)
    checks.starts.are_free = True
    without(world, machine, first)
    replica_of(world, machine).log.raise_log_start_to(first.end_offset)
    leads_anew(world)
    assert promised(world).lacking == set()


def test_d1_a_record_of_acks_1_that_its_leader_lacks(quiet):
    machine, checks, key = leader_of(quiet), quiet.record_checks, key_of(quiet)
    batch = stored_at(quiet, machine)[-1]
    reign = checks.reign_of(machine.id, key)
    assert checks.reign_of(follower_of(quiet).id, key) is None
    checks.written_at(reign, batch.base_offset, batch.values)
    wrong = (b"other", *batch.values[1:])
    assert "acks=1" in broken("D1", lambda: checks.written_at(reign, batch.base_offset, wrong))
    broken("D1", lambda: checks.written_at(reign, batch.end_offset, batch.values))
    for other in (None, reign._replace(incarnation=9), reign._replace(leader_epoch=9)):
        checks.written_at(other, batch.base_offset, wrong)


def test_d1_a_log_start_that_rises_for_no_reason():
    world = rested()
    machine, checks, key = leader_of(world), world.record_checks, key_of(world)
    replica_of(world, machine).log.raise_log_start_to(5)
    text = broken("D1", lambda: checks.after_step(machine))
    assert f"node {machine.id} begins at 5, was 0" in text
    checks.starts.note_deletion((bytes(key[0]), 0), 5)
    checks.after_step(machine)
    assert promised(world).start == 5
    assert min(promised(world).values) == 5
    assert promised(world).promised_us.keys() == promised(world).values.keys()
    checks.acknowledged(key, 4, [b"below"], world.scheduler.now_us)
    assert 4 not in promised(world).values
    replica_of(world, machine).log.raise_log_start_to(6)
    broken("D1", lambda: checks.after_step(machine))


def test_d1_a_deleted_topic_may_still_be_read_where_that_is_not_known():
    world = rested()
    machine, checks, key = leader_of(world), world.record_checks, key_of(world)
    replica_of(world, machine).log.raise_log_start_to(5)
    without = replace(world.ledger.image, topics=immutables.Map())
    checks._image = lambda: without
    checks.after_step(machine)
    assert (promised(world).start, min(promised(world).values)) == (5, 5)
    checks.out_of_range(key, 4, world.scheduler.now_us)


def test_d2_a_look_up_by_time_finds_the_first(quiet):
    checks, key, of = quiet.record_checks, key_of(quiet), promised(quiet)
    late_us, (first, second) = quiet.scheduler.now_us, sorted(of.times_ms)[:2]
    time_ms = of.times_ms[first]
    checks.looked_up(key, time_ms, time_ms, first, late_us)
    text = broken("D2", lambda: checks.looked_up(key, time_ms, time_ms + 1, second, late_us))
    assert f"found {second} of {time_ms + 1}, and {first} is before it" in text
    checks.looked_up(key, time_ms, time_ms + 1, second, of.promised_us[first])
    checks.looked_up(key, time_ms, time_ms + 1, second, of.since_us)
    broken("D2", lambda: checks.looked_up(key, time_ms + 1, time_ms, first, late_us))


def test_d2_deleted_records_are_below_the_low_watermark(quiet):
    checks, key = quiet.record_checks, key_of(quiet)
    checks.deleted(key, 7, 7)
    checks.deleted(key, -1, 7)
    assert "below 8 asked, 7 answered" in broken("D2", lambda: checks.deleted(key, 8, 7))


def test_d5_a_value_that_was_sent_once_is_stored_once():
    world = rested()
    machine, checks = leader_of(world), world.record_checks
    path = segments_of(machine)[-1]
    content = bytes(machine.vfs.written_content(path))
    hasty = [b for b in stored_at(world, machine) if b.producer_id < 0]
    machine.vfs.rewrite(path, content + hasty[-1].content)
    checks._hasty.clear()
    checks.check_sequences()
    checks.note_hasty(int(hasty[-1].values[0].split(b":")[0]))
    assert "sent once" in broken("D5", checks.check_sequences)
    promised(world).start = hasty[-1].end_offset
    assert "sent once" in broken("D5", checks.check_sequences)


def test_a_replica_that_is_behind_counts_while_it_is_a_replica(quiet):
    promised(quiet).behind.add(77)
    quiet.record_checks.check_at_rest()
    promised(quiet).behind.discard(77)


@pytest.mark.parametrize(
    ("asked", "config", "left", "wall_ms", "reason"),
    [
        (5, None, 0, 0, "asked"),
        (4, None, 0, 0, ""),
        (-1, None, 0, 0, "asked"),
        (0, ("retention.bytes", 100), 100, 0, "size"),
        (0, ("retention.bytes", 100), 99, 0, ""),
        (0, ("retention.ms", 10), 99, 30, ""),
        (0, ("retention.ms", 10), 99, 31, "time"),
    ],
)
def test_reasons_of_a_log_start(asked, config, left, wall_ms, reason):
    starts, place = LogStarts(), (b"topic", 1)
    starts.note_deletion(place, asked)
    starts.note_deletion(place, 0)
    if config is not None:
        starts.note_retention(b"topic", *config)
        starts.note_retention(b"topic", config[0], 1_000)
    times_ms = {4: 20, 5: 90}
    found = starts.reason(place, 5, times_ms, bytes_left=left, wall_ms=wall_ms)
    assert found == reason
    if not reason:
        starts.are_free = True
        assert starts.reason(place, 5, times_ms, bytes_left=left, wall_ms=wall_ms) == "asked"


def test_a_retention_that_is_asked_for_is_that_of_any_topic_until_its_answer():
    starts = LogStarts()

    def reason():
        return starts.reason((b"new", 0), 5, {}, bytes_left=99, wall_ms=0)

    starts.note_retention(b"old", "retention.bytes", 90)
    assert reason() == ""
    starts.ask_retention("retention.bytes", 90)
    assert reason() == "size"
    starts.answer_retention("retention.bytes", 90)
    assert reason() == ""


@pytest.mark.parametrize(("asked", "is_allowed"), [(4, False), (5, True), (-1, True)])
def test_a_deletion_that_is_asked_for_is_that_of_any_topic_until_its_answer(asked, is_allowed):
    starts = LogStarts()

    def reason(number=1):
        return starts.reason((b"new", number), 5, {}, bytes_left=99, wall_ms=0)

    starts.ask_deletion(1, asked)
    assert bool(reason()) is is_allowed
    assert reason(number=0) == ""
    starts.answer_deletion(1, asked)
    assert reason() == ""


def test_what_is_stored_is_in_the_directory_of_the_running_log():
    world = quiet_records(until_us=1_000_000)
    machine = leader_of(world)
    stored, log = stored_at(world, machine), replica_of(world, machine).log.log
    assert stored
    moved = f"{log.directory}.{'0' * 32}-future"
    machine.vfs.rename(log.directory, moved)
    log.renamed_to(moved)
    assert stored_at(world, machine) == stored
    machine.kill()
    assert stored_at(world, machine) == []
    machine.vfs.rename(moved, moved.partition(".")[0])
    assert stored_at(world, machine) == stored
