"""Delayed operations: tried at events of their keys, completed once, or by their deadline."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.leader.purgatory import DEAD_MAX, Purgatory


class Wait:
    """Complete when `is_ready` is set; counts how often it was tried."""

    def __init__(self, name="", *, is_ready=False):
        self.name = name
        self.is_ready = is_ready
        self.changed = []

    @property
    def tries(self):
        return len(self.changed)

    def try_complete(self, changed):
        self.changed.append(tuple(changed))
        return self.is_ready


def filled(*names, keys=("k",), deadline_ms=100):
    purgatory = Purgatory()
    operations = [Wait(name) for name in names]
    for operation in operations:
        assert purgatory.try_complete_else_watch(operation, keys, deadline_ms) is not None
    return purgatory, operations


def counts(purgatory):
    return purgatory.delayed_count, purgatory.watched_count


def test_a_complete_operation_is_not_watched():
    purgatory = Purgatory()
    assert purgatory.try_complete_else_watch(Wait(is_ready=True), (), 10) is None
    assert counts(purgatory) == (0, 0)
    assert purgatory.next_deadline_ms() is None


def test_an_operation_waits_for_something():
    with pytest.raises(AssertionError, match="without keys"):
        Purgatory().try_complete_else_watch(Wait(), (), 10)


def test_an_event_completes_what_is_ready_in_the_order_of_coming():
    purgatory, (first, second, third) = filled("a", "b", "c")
    third.is_ready = first.is_ready = True
    assert purgatory.check("k") == [first, third]
    assert purgatory.check("k") == []
    assert (first.tries, second.tries, third.tries) == (2, 3, 2)
    assert counts(purgatory) == (1, 1)


def test_an_event_of_many_keys_tries_each_operation_once():
    purgatory, (first, second) = filled("a", "b", keys=("k", "l", "m"))
    second.is_ready = True
    assert purgatory.check_all(["m", "k", "other"]) == [second]
    assert first.changed == second.changed == [("k", "l", "m"), ("m", "k")]
    first.is_ready = True
    third = Wait("c", is_ready=False)
    purgatory.try_complete_else_watch(third, ("z",), 100)
    third.is_ready = True
    assert purgatory.check_all(["z", "m"]) == [first, third], "in the order of coming"
    assert counts(purgatory) == (0, 0)


def test_an_event_of_another_key_tries_nothing():
    purgatory, (only,) = filled("a")
    only.is_ready = True
    assert purgatory.check("other") == []
    assert only.tries == 1


def test_one_of_several_keys_is_enough_and_the_others_are_left():
    purgatory, (only,) = filled("a", keys=("x", "y", "x"))
    other = Wait("b")
    purgatory.try_complete_else_watch(other, ["y"], 50)
    assert counts(purgatory) == (2, 3)
    only.is_ready = True
    assert purgatory.check("y") == [only]
    assert purgatory.check("x") == []
    assert only.changed == [("x", "y"), ("y",)]
    assert counts(purgatory) == (1, 1)


def test_a_deadline_ends_an_operation_once_the_earliest_first():
    purgatory, (late,) = filled("late", deadline_ms=30)
    early, last = Wait("early"), Wait("last")
    purgatory.try_complete_else_watch(early, ["k"], 20)
    purgatory.try_complete_else_watch(last, ["k"], 31)
    assert purgatory.next_deadline_ms() == 20
    assert purgatory.expire(19) == []
    assert purgatory.expire(30) == [early, late]
    assert purgatory.expire(30) == []
    assert early.tries == 1
    early.is_ready = late.is_ready = True
    assert purgatory.check("k") == []
    assert counts(purgatory) == (1, 1)
    assert purgatory.next_deadline_ms() == 31


def test_equal_deadlines_end_in_the_order_of_coming():
    purgatory, operations = filled("a", "b", "c")
    assert purgatory.expire(100) == operations


def test_a_completed_operation_does_not_expire():
    purgatory, (first, second) = filled("a", "b")
    first.is_ready = True
    assert purgatory.check("k") == [first]
    assert purgatory.expire(100) == [second]
    assert counts(purgatory) == (0, 0)
    assert purgatory.next_deadline_ms() is None


def test_the_next_deadline_is_that_of_one_that_waits():
    purgatory, (first,) = filled("a", deadline_ms=10)
    first.is_ready = True
    purgatory.try_complete_else_watch(Wait(), ["other"], 20)
    purgatory.check("k")
    assert purgatory.next_deadline_ms() == 20


def test_a_cancelled_operation_is_neither_tried_nor_expired():
    purgatory = Purgatory()
    only = Wait()
    watched = purgatory.try_complete_else_watch(only, ["k"], 10)
    for _ in range(2):
        purgatory.cancel(watched)
        assert counts(purgatory) == (0, 0)
    only.is_ready = True
    assert purgatory.check("k") == []
    assert purgatory.expire(10) == []
    assert only.tries == 1


def test_a_completed_operation_cannot_be_cancelled():
    purgatory = Purgatory()
    only = Wait()
    watched = purgatory.try_complete_else_watch(only, ["k"], 10)
    only.is_ready = True
    assert purgatory.check("k") == [only]
    purgatory.cancel(watched)
    assert counts(purgatory) == (0, 0)


def test_an_operation_that_ends_twice_is_an_error():
    purgatory = Purgatory()
    watched = purgatory.try_complete_else_watch(Wait(), ["k"], 10)
    purgatory._end(watched)
    with pytest.raises(AssertionError, match="ends twice"):
        purgatory._end(watched)


def test_the_deadlines_of_completed_operations_do_not_pile_up():
    purgatory = Purgatory()
    stays = Wait()
    purgatory.try_complete_else_watch(stays, ["other"], 7)
    sizes = []
    for number in range(DEAD_MAX + 10):
        done = Wait()
        purgatory.try_complete_else_watch(done, ["k"], number)
        done.is_ready = True
        assert purgatory.check("k") == [done]
        sizes.append(len(purgatory._deadlines))
    # one waits: made anew at the DEAD_MAX + 2nd deadline that is dead
    assert max(sizes) == DEAD_MAX + 2
    assert sizes[-1] == 9
    assert purgatory.next_deadline_ms() == 7
    assert purgatory.expire(7) == [stays]


def test_deadlines_stay_in_order_when_the_heap_is_made_anew():
    purgatory = Purgatory()

    def watch(deadline_ms, *, is_done):
        operation = Wait()
        purgatory.try_complete_else_watch(operation, [deadline_ms], deadline_ms)
        operation.is_ready = is_done
        return operation

    watch(0, is_done=True)
    late, early = watch(50, is_done=False), watch(2, is_done=False)  # without the first: 50, 2
    for deadline_ms in range(100, 102 + DEAD_MAX):
        watch(deadline_ms, is_done=True)
        purgatory.check(deadline_ms)
    purgatory.check(0)
    assert len(purgatory._deadlines) == 2
    assert purgatory.next_deadline_ms() == 2
    assert purgatory.expire(2) == [early]
    assert purgatory.expire(50) == [late]


def test_the_heap_is_made_anew_as_often_as_kafka_purges():
    assert DEAD_MAX == 1_000


actions = st.lists(
    st.one_of(
        st.tuples(st.just("watch"), st.sets(st.integers(0, 3), min_size=1), st.integers(0, 9)),
        st.tuples(st.just("ready"), st.integers(0, 30), st.none()),
        st.tuples(st.just("check"), st.integers(0, 3), st.none()),
        st.tuples(st.just("pass"), st.integers(0, 4), st.none()),
    ),
    max_size=40,
)


@given(actions)
def test_every_operation_ends_once_at_its_first_event_or_deadline(run):
    purgatory = Purgatory()
    waiting = []  # of (operation, keys, deadline)
    now_ms = 0
    made = 0
    for kind, value, wait_ms in run:
        if kind == "watch":
            operation, made = Wait(made), made + 1
            purgatory.try_complete_else_watch(operation, sorted(value), now_ms + wait_ms)
            waiting.append((operation, value, now_ms + wait_ms))
        elif kind == "ready":
            for operation, _, _ in waiting:
                operation.is_ready |= operation.name == value
        else:
            if kind == "check":
                ended = [one for one in waiting if value in one[1] and one[0].is_ready]
                answered = purgatory.check(value)
            else:
                now_ms += value
                due = [one for one in waiting if one[2] <= now_ms]
                ended = sorted(due, key=lambda one: (one[2], one[0].name))
                answered = purgatory.expire(now_ms)
            assert answered == [operation for operation, _, _ in ended]
            waiting = [one for one in waiting if one not in ended]
        assert counts(purgatory) == (len(waiting), sum(len(keys) for _, keys, _ in waiting))
        deadlines = [deadline for _, _, deadline in waiting]
        assert purgatory.next_deadline_ms() == min(deadlines, default=None)
    purgatory.expire(now_ms + 9)
    assert counts(purgatory) == (0, 0)
    assert purgatory._by_key == {}


# -- operations whose keys come one after the other ------------------------------------------------


def opened(*keys, is_ready=False):
    purgatory, operation = Purgatory(), Wait(is_ready=is_ready)
    watched = purgatory.open(operation)
    for key in keys:
        purgatory.watch(watched, [key])
    return purgatory, operation, watched


def test_an_open_operation_looks_at_its_keys_as_they_come_and_ends_when_it_is_closed():
    purgatory, operation, watched = opened("a", "b", is_ready=True)
    assert operation.changed == [("a",), ("b",)]
    assert purgatory.check("a") == []
    assert counts(purgatory) == (1, 2)
    assert purgatory.close(watched, 10)
    assert operation.changed[2:] == [("a",), ()]
    assert counts(purgatory) == (0, 0)
    assert purgatory.next_deadline_ms() is None


def test_a_closed_operation_waits_for_its_keys_until_its_deadline():
    purgatory, operation, watched = opened("a", "b")
    assert purgatory.next_deadline_ms() is None
    assert not purgatory.close(watched, 10)
    assert purgatory.next_deadline_ms() == 10
    operation.is_ready = True
    assert purgatory.check("b") == [operation]
    purgatory, operation, watched = opened("a")
    purgatory.close(watched, 10)
    assert purgatory.expire(10) == [operation]
    assert counts(purgatory) == (0, 0)


def test_an_open_operation_can_be_cancelled():
    purgatory, _, watched = opened("a", "b")
    purgatory.cancel(watched)
    assert counts(purgatory) == (0, 0)


def test_what_is_closed_has_keys_and_gets_no_more():
    purgatory, _, watched = opened()
    with pytest.raises(AssertionError, match="without keys"):
        purgatory.close(watched, 10)
    for again in (lambda: purgatory.close(watched, 1), lambda: purgatory.watch(watched, ["a"])):
        with pytest.raises(AssertionError, match="number"):
            again()
