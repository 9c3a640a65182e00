"""Clusters with groups: a seed decides everything, and without groups it means what it did."""

import pytest
from msgspec.structs import replace

from simulator.campaign.arguments import parse
from simulator.campaign.draw import GROUPS_FAULTS, RECORDS_FAULTS, RECORDS_SHORT, decided
from simulator.campaign.report import command_of
from simulator.campaign.run import settings_of
from simulator.campaign.runs import marks_of, run_with
from simulator.campaign.schedule import Schedule, ScheduleError, read_schedule, write_schedule
from simulator.faults.decision import Decision
from simulator.faults.kinds import GROUPS_KINDS
from simulator.records.marks import GROUPS_MARKS

GROUPS = replace(RECORDS_SHORT, has_groups=True)
ALONE = replace(GROUPS, node_count=1, observer_count=0, duration_us=1_500_000)


def strikes(*kinds, every_us=150_000):
    """Faults one after the other, from the time on at which groups are there."""
    return [
        Decision(at_us=900_000 + number * every_us, kind=kind, targets=(1,), length_us=200_000)
        for number, kind in enumerate(kinds)
    ]


@pytest.fixture(scope="module")
def struck():
    plan = strikes("member_pause", "member_replace", "member_leave", "member_kill")
    return run_with(43, ALONE, plan=plan)


def test_members_come_back_from_whatever_befalls_them(struck):
    assert struck.invariant is None, struck.text
    there = dict.fromkeys(GROUPS_KINDS, 1)
    del there["coordinator_move"]
    assert struck.effective_faults == there
    assert struck.marks.keys() <= set(marks_of(ALONE))
    assert struck.marks["offset_committed"] > 10
    assert struck.marks["read_from_committed"] >= 3


def test_the_same_seed_gives_the_same_bytes(struck):
    assert run_with(43, ALONE, plan=struck.plan).digest == struck.digest


def test_coordinators_move_and_lose_nothing():
    options = replace(ALONE, node_count=3)
    plan = strikes("coordinator_move", "kill", "coordinator_move", "member_kill")
    plan = [replace(each, targets=(1 + n % 3,)) for n, each in enumerate(plan)]
    outcome = run_with(2, options, plan=plan)
    assert outcome.invariant is None, outcome.text
    assert outcome.effective_faults["coordinator_move"] == 2
    assert outcome.marks["offset_fetched"] >= 6


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_groups_change_no_fault_of_others(seed):
    plain, grouped = (settings_of(seed, each)[0] for each in (RECORDS_SHORT, GROUPS))
    assert (plain.has_groups, grouped.has_groups) == (False, True)
    assert not set(plain.faults) & set(GROUPS_KINDS)
    more = tuple(kind for kind in grouped.faults if kind in GROUPS_KINDS)
    assert grouped == replace(plain, faults=plain.faults + more, has_groups=True)
    assert decided(seed, GROUPS).faults == GROUPS_FAULTS == (*RECORDS_FAULTS, *GROUPS_KINDS)


def test_every_kind_is_drawn_in_some_seeds_and_in_others_not():
    drawn = [set(settings_of(seed, GROUPS)[0].faults) for seed in range(12)]
    for kind in GROUPS_KINDS:
        assert 0 < sum(kind in each for each in drawn) < len(drawn)


def test_the_command_has_groups_if_it_is_told(capsys):
    assert not parse([], has_records=True).options.has_groups
    words = ["--groups", "--short", "--faults", "member_kill,kill", "--seed", "7"]
    options = parse(words, has_records=True).options
    assert options == replace(GROUPS, faults=("member_kill", "kill"))
    assert command_of(7, GROUPS) == "kraftline sim records --seed 0x7 --groups --short"
    with pytest.raises(SystemExit):
        parse(["--faults", "kill,member_kill"], has_records=True)
    assert "--faults member_kill need --groups" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        parse(["--groups", "--schedule", "file"], has_records=True)
    assert set(marks_of(GROUPS)) - set(marks_of(RECORDS_SHORT)) == set(GROUPS_MARKS)


def test_a_schedule_may_have_faults_of_groups_where_there_are_some(tmp_path, struck):
    path = tmp_path / "schedule.jsonl"
    options = replace(ALONE, faults=("member_kill",))
    schedule = Schedule(
        seed=43, options=options, plan=struck.plan, commit="c", invariant="D6", text="gone"
    )
    write_schedule(path, schedule)
    assert read_schedule(path) == schedule
    for faults in (None, ("member_kill",)):
        without = replace(options, has_groups=False, faults=faults)
        write_schedule(path, replace(schedule, options=without))
        with pytest.raises(ScheduleError, match="unknown fault 'member_"):
            read_schedule(path)
