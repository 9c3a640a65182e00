"""Runs with transactions: nothing breaks, and what they are for is met."""

import pytest
from msgspec.structs import replace

from simulator.campaign import runs
from simulator.campaign.arguments import parse
from simulator.campaign.draw import RECORDS_SHORT, RECORDS_STANDARD
from simulator.campaign.report import command_of
from simulator.cluster.streams import Streams
from simulator.faults.decision import Decision
from simulator.records.run import run_records
from simulator.records.transactions.marks import TRANSACTION_MARKS
from simulator.records.transactions.workload import draw_transactions
from simulator.records.world import RecordsWorld
from tests.selection import thinned
from tests.simulator.worlds import quiet_settings

OPTIONS = replace(
    RECORDS_STANDARD,
    node_count=3,
    observer_count=0,
    duration_us=2_500_000,
    has_transactions=True,
)


@pytest.mark.parametrize("seed", thinned(range(1, 9), every=8))
def test_a_seed_holds(seed):
    outcome = run_records(seed, OPTIONS)
    assert outcome.invariant is None, outcome.text


def test_coordinators_and_leaders_that_are_killed_lose_no_transaction():
    """The first seeds that together meet what such a run can: others after a change of a step."""
    plan = [
        Decision(at_us=900_000 + 500_000 * n, kind="kill", targets=(n,), length_us=200_000)
        for n in (1, 2, 3)
    ]
    options = replace(OPTIONS, faults=("kill",), duration_us=3_000_000)
    seldom = {"end_refused", "committed_unknowingly", "refused_unknowingly"}
    expected = set(TRANSACTION_MARKS) - seldom - {"transactions_excused"}
    met, committed_count = set(), 0
    for seed in range(24, 32):
        outcome = run_records(seed, options, plan=plan)
        assert outcome.invariant is None, outcome.text
        assert outcome.faults == {"kill": 3}
        assert "transactions_excused" not in outcome.marks
        met |= outcome.marks.keys()
        committed_count += outcome.marks.get("transaction_committed", 0)
        if met >= expected:
            break
    assert met >= expected
    assert committed_count > 5


def test_a_run_without_transactions_is_what_it_was():
    short = replace(OPTIONS, duration_us=600_000, has_transactions=False)
    plain, with_them = run_records(5, short), run_records(5, replace(short, has_transactions=True))
    assert plain.digest != with_them.digest
    assert plain.plan == with_them.plan
    assert not plain.marks.keys() & set(TRANSACTION_MARKS)


def test_the_flag_is_part_of_the_options_and_of_the_command():
    options = parse(["--transactions", "--short"], has_records=True).options
    assert options == replace(RECORDS_SHORT, has_transactions=True)
    assert command_of(7, options) == "kraftline sim records --seed 0x7 --transactions --short"
    assert parse(["--short"], has_records=True).options == RECORDS_SHORT
    with pytest.raises(SystemExit):
        parse(["--transactions"])


def test_marks_of_transactions_are_asked_for_where_there_are_some():
    assert set(TRANSACTION_MARKS) <= set(runs.marks_of(OPTIONS))
    assert not set(TRANSACTION_MARKS) & set(runs.marks_of(RECORDS_STANDARD))


def test_seeds_have_older_and_newer_clients():
    drawn = [draw_transactions(Streams(seed)) for seed in range(24)]
    assert {each.version for each in drawn} == {0, 1, 2}
    assert all(all(each.are_old) for each in drawn if each.version < 2)
    newest = [is_old for each in drawn if each.version == 2 for is_old in each.are_old]
    assert {True, False} == set(newest)
    assert all(len(each.are_old) == len(each.timeouts_ms) for each in drawn)


def test_seeds_record_flushed_ends_more_or_less_often_than_high_watermarks():
    """Of a topic with small segments; more often, a start finds snapshots above the latter."""
    drawn = [draw_transactions(Streams(seed)) for seed in range(24)]
    orders = {each.recovery_point_ms < each.high_watermark_ms for each in drawn}
    assert orders == {True, False}
    segments = [each.configs["internal_segment_bytes"] for each in drawn]
    assert set(segments) == {"700", "2000", "4000"}
    assert {each.configs["flush_messages"] for each in drawn} == {"1", "10", "40"}
    world = RecordsWorld(quiet_settings(observer_count=0), Streams(3), [], has_transactions=True)
    world.start()
    world.run(1_000_000)
    config = next(iter(world.nodes.values())).records_config()
    settings = world.rooms[0]._drawn
    assert config.upkeep.recovery_point_ms == settings.recovery_point_ms
    assert config.upkeep.high_watermark_ms == settings.high_watermark_ms
    configs = {
        key.replace(".", "_"): value
        for resource, values in world.ledger.image.configs.items()
        if "transactional" in str(resource)
        for key, value in values.items()
    }
    assert settings.configs.items() <= configs.items()
