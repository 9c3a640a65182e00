"""Runs whose members copy in transactions: nothing breaks, and other runs are what they were."""

import pytest
from immutables import Map
from msgspec.structs import replace

from coordinator.records.kinds import CONSUMER_OFFSETS
from simulator.campaign import runs
from simulator.campaign.draw import RECORDS_SHORT
from simulator.checks.partitions.copies import CopyChecks
from simulator.checks.partitions.group_images import shards_of
from simulator.checks.partitions.records import RecordChecks
from simulator.checks.partitions.transactions import STATE_TOPIC, TransactionChecks
from simulator.checks.violation import Violation
from simulator.cluster.streams import Streams
from simulator.copying.consumer import CopyingConsumer
from simulator.copying.drawing import TIMEOUTS_MS, copying_of
from simulator.copying.marks import COPY_MARKS
from simulator.faults.decision import Decision
from simulator.groups import workload as groups_workload
from simulator.groups.workload import Groups
from simulator.mutants.copies import COPIES, COPYING
from simulator.mutants.hunt import BASES, hunt
from simulator.records import run
from simulator.records.clients import Cluster, Topic
from simulator.records.run import come_to_rest, run_records
from simulator.records.world import RecordsWorld
from tests.simulator.records.worlds import broken
from tests.simulator.worlds import quiet_settings

ALONE = replace(COPYING, duration_us=2_000_000)
GROUPS = replace(ALONE, has_transactions=False)
TRANSACTIONS = replace(ALONE, has_groups=False)


def killed_at(*times_ms):
    return [
        Decision(at_us=at * 1_000, kind="member_kill", targets=(1,), length_us=300_000)
        for at in times_ms
    ]


@pytest.fixture(scope="module")
def copied():
    return run_records(3, ALONE, plan=killed_at(1_500))


def test_members_copy_each_record_once(copied):
    assert copied.invariant is None, copied.text
    assert copied.marks["copied"] >= 3
    assert copied.marks["offset_committed"] > copied.marks["copied"]
    assert copied.marks.keys() <= set(runs.marks_of(ALONE))


@pytest.fixture(scope="module")
def quiet():
    """A world at rest; nothing has befallen it."""
    settings = quiet_settings(observer_count=0, voter_count=1, hands_over=False, has_groups=True)
    world = RecordsWorld(settings, Streams(3), [], has_transactions=True)
    world.start()
    world.run(1_600_000)
    come_to_rest(world)
    return world


def test_at_rest_each_record_has_its_copy(quiet, monkeypatch):
    values = quiet.transaction_checks.committed_values()
    assert len(values) > 5
    quiet.copies.check_at_rest()
    changed = [value for value in values if value.count(b":") == 4]
    monkeypatch.setattr(TransactionChecks, "committed_values", lambda _: changed[1:])
    assert "records without a copy: [(" in broken("D4", quiet.copies.check_at_rest)
    monkeypatch.setattr(TransactionChecks, "committed_values", lambda _: changed + changed[:1])
    assert "1 records have several copies" in broken("D4", quiet.copies.check_at_rest)


@pytest.mark.parametrize("topic", ["grouped", CONSUMER_OFFSETS, "transactional", STATE_TOPIC])
def test_nothing_is_said_of_copies_where_something_may_be_lost(quiet, monkeypatch, topic):
    lost = quiet.ledger.image.topic_id_by_name[topic]
    monkeypatch.setattr(TransactionChecks, "committed_values", lambda _: [])
    broken("D4", quiet.copies.check_at_rest)
    monkeypatch.setattr(RecordChecks, "may_have_lost", lambda _, key: key[0] == lost)
    quiet.copies.check_at_rest()


def test_offsets_of_lost_decisions_are_not_waited_for(quiet, monkeypatch):
    monkeypatch.setattr(Groups, "_why_unread", lambda _, slots: slots[0].group_id)
    plain = next(slot for slot in quiet.groups.slots if slot.copies is None)
    copying = next(slot for slot in quiet.groups.slots if slot.copies is not None)
    quiet.groups.slots = [copying]
    assert copying.group_id in quiet.groups.why_unfinished()
    monkeypatch.setattr(groups_workload, "why_unstable", lambda _: "")
    monkeypatch.setattr(TransactionChecks, "is_excused", True)
    assert quiet.groups.why_unfinished() == ""
    quiet.groups.slots = [copying, plain]
    assert plain.group_id in quiet.groups.why_unfinished()


def copying_slot(world):
    return next(slot for slot in world.groups.slots if slot.copies is not None)


def test_the_end_of_a_run_looks_at_the_copies(quiet, monkeypatch):
    def wrong(_):
        raise Violation("D4", "wrong copies")

    monkeypatch.setattr(CopyChecks, "check_at_rest", wrong)
    assert broken("D4", lambda: run._check_at_rest(quiet)) == "D4: wrong copies"


def test_coordinators_say_which_offsets_wait_for_a_marker(quiet, monkeypatch):
    group_id, seen = copying_slot(quiet).group_id, {}
    images = quiet.group_checks._images
    monkeypatch.setattr(
        images, "_expected", lambda place, *_, is_open: seen.update({place: is_open})
    )
    (shard,) = [each for _, each in shards_of(quiet.nodes[1]) if group_id in each.image.groups]
    waiting = Map({group_id: Map({("grouped", 1): frozenset({7})})})
    monkeypatch.setattr(shard, "image", replace(shard.image, open=waiting))
    images.check_all()
    assert {place for place, is_open in seen.items() if is_open} == {(group_id, 1)}
    assert len(seen) > 3


def test_a_process_names_what_it_copies_and_is_fenced_with(quiet, monkeypatch):
    session = copying_slot(quiet).consumer.session
    monkeypatch.setattr(session, "_work", {0: range(4, 6), 1: range(3, 3)})
    first, second = (value.split(b":") for value in session._new_values(0))
    assert (first[3:], second[3:]) == ([b"0", b"4"], [b"0", b"5"])
    assert first[:3] == second[:3]
    assert [session._new_values(number)[0].split(b":")[3:] for number in (1, 2)] == [[b"late"]] * 2


def test_partitions_are_given_up_when_the_offsets_are_taken(quiet, monkeypatch):
    consumer, given_up = copying_slot(quiet).consumer, []
    monkeypatch.setattr(consumer, "_is_over", False)
    monkeypatch.setattr(consumer, "readers", {0: object()})
    for position, work in ((3, {}), (5, {0: range(3, 5)}), (1, {0: range(1, 1)})):
        monkeypatch.setattr(CopyingConsumer, "positions", [(0, position, 3)])
        assert consumer.take() == work
        consumer._commit(frozenset({0}), lambda at=position: given_up.append(at))
        assert given_up == ([] if work else [3]), "not between its writes and its offsets"
        consumer.offsets_taken()
        assert given_up.pop() == position
        consumer._taken = {}


def test_behind_the_faults_nothing_is_held_open_for_ever(quiet, monkeypatch):
    consumer = copying_slot(quiet).consumer
    session, ended, stalled = consumer.session, [], []
    assert quiet.groups._calm_us == 1_600_000 + groups_workload.CALM_US
    monkeypatch.setattr(session, "_end", lambda *, is_commit: ended.append(is_commit))
    monkeypatch.setattr(consumer, "stall", stalled.append)
    monkeypatch.setattr(quiet.groups, "_calm_us", quiet.scheduler.now_us)
    for _ in range(40):
        session._finish()
        session._end_some_time()
    assert (ended, stalled) == ([True] * 40, [])
    monkeypatch.setattr(quiet.groups, "_calm_us", quiet.scheduler.now_us + 1)
    for _ in range(40):
        session._finish()
        session._end_some_time()
    assert len(ended) == 40
    assert stalled


@pytest.mark.long
def test_the_same_seed_gives_the_same_bytes(copied):
    assert run_records(3, ALONE, plan=copied.plan).digest == copied.digest


def test_offsets_that_are_committed_too_early_are_found():
    found = hunt(COPIES[1].number, BASES[0], seconds_max=60.0)
    assert (found.seeds, found.invariant) == (1, "D6"), found


@pytest.mark.parametrize("options", [GROUPS, TRANSACTIONS])
def test_a_run_with_one_of_the_flags_copies_nothing(options):
    short = replace(options, duration_us=300_000)
    outcome = run_records(5, short, plan=[])
    assert outcome.invariant is None, outcome.text
    assert not outcome.marks.keys() & set(COPY_MARKS)
    assert not set(COPY_MARKS) & set(runs.marks_of(options))


def test_marks_are_asked_for_where_there_are_both():
    assert set(COPY_MARKS) <= set(runs.marks_of(ALONE))
    both = replace(RECORDS_SHORT, has_groups=True, has_transactions=True)
    assert set(runs.marks_of(both)) == {
        *runs.marks_of(replace(both, has_groups=False)),
        *runs.marks_of(replace(both, has_transactions=False)),
        *COPY_MARKS,
    }


def test_members_have_older_and_newer_clients_where_both_may_be():
    def drawn(version):
        cluster = Cluster(Topic("grouped", 3), (1,), None, None, None, None, None)
        rngs = [Streams(seed).stream("copying") for seed in range(12)]
        rules = [copying_of(cluster, rng, version, None).rules_of(7) for rng in rngs]
        assert {each.timeout_ms for each in rules} == set(TIMEOUTS_MS)
        return {each.is_old for each in rules}

    assert drawn(0) == drawn(1) == {True}
    assert drawn(2) == {True, False}
