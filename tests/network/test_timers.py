"""The deadlines of a node: set and cleared by name, and the first of them."""

import pytest

from network import timers
from network.timers import COUNT, HEARTBEAT, LINKS, NEVER_MS, RAFT, RETENTION, Timers


def test_nothing_is_set_at_first():
    made = Timers()
    assert not any(made.is_set(name) for name in range(COUNT))
    assert made.first_ms() == NEVER_MS


def test_every_name_has_a_place_of_its_own():
    names = {
        name: value
        for name, value in vars(timers).items()
        if type(value) is int and name not in ("COUNT", "NEVER_MS")
    }
    assert sorted(names.values()) == list(range(COUNT))


@pytest.mark.parametrize("name", range(COUNT))
def test_the_first_is_found_under_every_name(name):
    made = Timers()
    for other in range(COUNT):
        made.set(other, 2_000)
    made.set(name, 1_000)
    assert made.first_ms() == 1_000


def test_a_deadline_that_moves_back_leaves_the_next_as_the_first():
    made = Timers()
    made.set(RAFT, 1_000)
    made.set(LINKS, 2_000)
    made.set(RAFT, 3_000)
    assert made.first_ms() == 2_000
    made.clear(LINKS)
    assert made.first_ms() == 3_000
    made.clear(RAFT)
    assert made.first_ms() == NEVER_MS


def test_what_is_cleared_is_not_set_and_the_others_are():
    made = Timers()
    made.set(HEARTBEAT, 1_000)
    made.set(RETENTION, 1_000)
    made.clear(HEARTBEAT)
    assert (made.is_set(HEARTBEAT), made.is_set(RETENTION)) == (False, True)


@pytest.mark.parametrize(("before_ms", "after_ms"), [(999, 999), (1_001, 1_000), (NEVER_MS, 1_000)])
def test_lowering_keeps_an_earlier_deadline(before_ms, after_ms):
    made = Timers()
    made.set(LINKS, before_ms)
    made.lower(LINKS, 1_000)
    assert made.at_ms[LINKS] == after_ms == made.first_ms()


def test_of_two_nodes_each_has_its_own():
    one, other = Timers(), Timers()
    one.set(RAFT, 1_000)
    assert not other.is_set(RAFT)
