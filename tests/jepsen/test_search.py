"""Traps of the search, one test each, and the budgets."""

import random

import pytest
from msgspec.structs import replace

from jepsen.linearizability import Budget, Operation, check
from jepsen.linearizability.checker import new_search, ordered_partitions
from jepsen.linearizability.history import history_of
from jepsen.linearizability.models import model_named
from jepsen.linearizability.models.register import Register
from jepsen.linearizability.search import Entry, plan_of
from tests.jepsen.sequential import RegisterObject, random_operations

PLAIN = ({}, {"prune": False})


def write(process, value, call, end):
    kind = "info" if end is None else "ok"
    return Operation(process=process, f="write", value=value, call=call, end=end, type=kind)


def read(process, value, call, end):
    return Operation(process=process, f="read", output=value, call=call, end=end)


def verdicts(operations, model="cas-register"):
    return {check(operations, model, **options).verdict for options in PLAIN}


def test_an_empty_history_is_ok():
    result = check([], "cas-register")
    assert (result.verdict, result.steps, result.partitions) == ("ok", 0, ())


def test_touching_intervals_are_concurrent():
    assert verdicts([write(0, 1, 0, 10), read(1, None, 10, 20)]) == {"ok"}
    assert verdicts([write(0, 1, 0, 10), read(1, None, 11, 20)]) == {"illegal"}


def test_an_operation_without_duration():
    assert verdicts([write(0, 1, 5, 5), read(1, 1, 5, 5), read(2, None, 5, 5)]) == {"ok"}
    assert verdicts([write(0, 1, 5, 5), read(1, None, 6, 6)]) == {"illegal"}


def test_operations_of_one_client_may_overlap_at_equal_times():
    operations = [write(0, 1, 0, 10), write(0, 2, 10, 10), read(1, 1, 11, 12)]
    assert verdicts(operations) == {"ok"}  # 2 before 1: they are concurrent


def test_taking_back_restores_the_order_of_calls():
    """Every first choice is wrong, so that the search takes everything back several times."""
    writes = [write(process, process, 0, 100) for process in range(5)]
    reads = [
        read(10 + number, 4 - number, 101 + 2 * number, 102 + 2 * number) for number in range(2)
    ]
    assert verdicts([*writes, reads[0]]) == {"ok"}
    assert verdicts([*writes, *reads]) == {"illegal"}


def test_steps_do_not_change_their_arguments():
    class Checked(Register):
        def step(self, state, given, output):
            before = (hash(state), hash(given), hash(output))
            after = super().step(state, given, output)
            assert before == (hash(state), hash(given), hash(output))
            return after

    assert check([write(0, 1, 0, 3), read(1, 1, 1, 2)], Checked()).verdict == "ok"


def test_lost_operations_may_happen_at_any_later_time_or_never():
    lost = write(0, 1, 0, None)
    assert verdicts([lost, read(1, None, 5, 6), read(1, 1, 50, 60)]) == {"ok"}
    assert verdicts([lost, read(1, None, 5, 6)]) == {"ok"}
    assert verdicts([lost, read(1, 1, 5, 6), read(1, None, 7, 8)]) == {"illegal"}
    assert verdicts([read(1, 1, 0, 1), write(0, 1, 2, None)]) == {"illegal"}  # not before its call


def test_a_lost_write_happens_once():
    operations = [
        write(0, 1, 0, None), read(1, 1, 5, 6), write(2, 2, 7, 8), read(1, 1, 9, 10),
    ]  # fmt: skip
    assert verdicts(operations) == {"illegal"}
    twice = [write(3, 1, 0, None), *operations]
    assert verdicts(twice) == {"ok"}


def test_the_window_reuses_the_places_of_returned_operations():
    entries = [Entry(10 * number, 10 * number + 5, 1, False) for number in range(1000)]
    assert plan_of(entries).width == 2  # the constant bit and one
    crowd = [Entry(number, number + 40, 1, False) for number in range(1000)]
    assert plan_of(crowd).width == 42


def test_a_search_can_be_interrupted_anywhere():
    rng = random.Random(7)
    operations = random_operations(RegisterObject(), rng, count=40, clients=6, crashes=0.2)
    model = model_named("cas-register")
    (partition,) = ordered_partitions(history_of(operations), model)
    whole = new_search(model, partition, cache_entries=1 << 20)
    while whole.is_legal is None:
        whole.advance()
    pieces = new_search(model, partition, cache_entries=1 << 20)
    while pieces.is_legal is None:
        pieces.advance(1)
    assert (pieces.is_legal, pieces.steps) == (whole.is_legal, whole.steps)
    assert pieces.linearization() == whole.linearization()
    assert pieces.seen == whole.seen


def hard_history(count=16):
    """Appends that are all concurrent, and a read that no order explains."""
    appends = [
        Operation(
            process=process, f="append", value=process, call=0, end=100, output=[process, None]
        )
        for process in range(count)
    ]
    impossible = [*range(count - 1), count - 2]
    return [*appends, Operation(process=99, f="read", call=101, end=102, output=impossible)]


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        (Budget(steps=20_000), "20000 steps are done"),
        (Budget(cache_entries=20_000), "the cache of 20000 configurations is full"),
    ],
)
def test_a_spent_budget_is_unknown_never_ok(budget, reason):
    result = check(hard_history(), "append-log", budget=budget, clock=None)
    assert (result.verdict, result.reason) == ("unknown", reason)
    assert result.cache_size <= budget.cache_entries + (1 << 14)


def test_a_spent_time_limit_is_unknown():
    ticks = iter(range(1_000_000))
    result = check(
        hard_history(), "append-log", budget=Budget(seconds=5), clock=lambda: float(next(ticks))
    )
    assert (result.verdict, result.reason) == ("unknown", "5 seconds are over")


def test_a_refuted_key_ends_the_race_though_another_is_undecided():
    hard = [replace(each, key="hard") for each in hard_history()]
    easy = [
        Operation(process=200 + n, f="append", value=n, call=n, end=n, key="easy", output=[n, 0])
        for n in range(2)
    ]
    result = check([*hard, *easy], "append-log", budget=Budget(steps=200_000), clock=None)
    assert result.verdict == "illegal"
    assert {each.keys: each.verdict for each in result.partitions} == {
        ("easy",): "illegal",
        ("hard",): "unknown",
    }


def test_a_full_cache_gives_up_one_key_and_goes_on_with_the_others():
    hard = [replace(each, key="hard") for each in hard_history()]
    chain = [Operation(process=300 + n % 20, f="append", value=n, call=20 * (n // 20), key="long",
                       end=20 * (n // 20) + 19, output=[n, n]) for n in range(4000)]  # fmt: skip
    budget = Budget(cache_entries=8_000, steps=10_000_000)
    result = check([*hard, *chain], "append-log", budget=budget, clock=None)
    assert result.verdict == "unknown"
    assert {each.keys: each.verdict for each in result.partitions} == {
        ("hard",): "unknown",
        ("long",): "ok",
    }


def test_the_witness_is_a_legal_order():
    rng = random.Random(3)
    sequential = RegisterObject()
    operations = random_operations(sequential, rng, count=60, clients=5)
    result = check(operations, "cas-register")
    assert result.verdict == "ok"
    history = history_of(operations).operations
    (partition,) = result.partitions
    assert partition.witness is not None
    state = sequential.start()
    for position, index in enumerate(partition.witness):
        operation = history[index]
        (state,) = sequential.apply(state, operation, history)
        later = [history[other] for other in partition.witness[position + 1 :]]
        assert all(other.end is None or other.end >= operation.call for other in later)
    done = set(partition.witness)
    assert all(history[i].end is None or i in done for i in partition.operations)


def test_a_long_refutation_goes_on_in_little_memory():
    """Rounds of concurrent writes, a wrong read at the end: every order of every round counts."""
    rounds = [
        write(client, client, 100 * n, 100 * n + 50) for n in range(75) for client in range(6)
    ]
    operations = [*rounds, read(0, 99, 99_999, 99_999)]
    whole = check(operations, "register", clock=None)
    assert (whole.verdict, whole.engine) == ("illegal", "wing-gong-lowe")
    small = check(operations, "register", budget=Budget(cache_entries=2_000), clock=None)
    assert (small.verdict, small.reason) == ("illegal", None)
    assert small.engine == "just-in-time, subsets"
    legal = check(rounds, "register", budget=Budget(cache_entries=100), clock=None)
    assert legal.verdict == "ok"


def test_a_wide_refutation_goes_on_in_little_memory():
    """Writes that never return keep the window open: too wide for sets as bits of one int."""
    lost = [write(100 + n, 99, n, None) for n in range(13)]
    rounds = [
        write(client, client, 100 * n, 100 * n + 50) for n in range(30) for client in range(5)
    ]
    wrong = [*lost, *rounds, read(0, 99, 88_888, 88_888), read(0, 77, 99_999, 99_999)]
    small = check(wrong, "register", budget=Budget(cache_entries=5_000), clock=None)
    assert (small.verdict, small.engine, small.reason) == ("illegal", "just-in-time", None)


@pytest.mark.long
def test_a_narrow_refutation_at_the_end_of_a_long_history_takes_few_steps():
    rounds = [
        write(client, client, 100 * n, 100 * n + 50) for n in range(6_000) for client in range(5)
    ]
    result = check([*rounds, read(0, 99, 999_999, 999_999)], "register", clock=None)
    assert (result.verdict, result.engine) == ("illegal", "just-in-time, subsets")
    assert result.steps < 5_000_000
