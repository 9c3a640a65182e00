"""Runs whose members copy in transactions: nothing breaks, and other runs are what they were."""

import pytest
from msgspec.structs import replace

from simulator.campaign import runs
from simulator.campaign.draw import RECORDS_SHORT
from simulator.cluster.streams import Streams
from simulator.copying.drawing import TIMEOUTS_MS, copying_of
from simulator.copying.marks import COPY_MARKS
from simulator.faults.decision import Decision
from simulator.mutants.copies import COPIES, COPYING
from simulator.mutants.hunt import BASES, hunt
from simulator.records.clients import Cluster, Topic
from simulator.records.run import run_records

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
