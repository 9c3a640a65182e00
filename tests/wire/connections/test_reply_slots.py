"""Responses leave in the order of their requests, whatever the order in which they are ready."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.connections.reply_slots import ReplySlots


@given(order=st.permutations(range(6)))
def test_contents_leave_in_order_and_as_soon_as_they_can(order: list[int]) -> None:
    slots = ReplySlots[int]()
    assert [slots.take() for _ in order] == list(range(6))
    left: list[int] = []
    for count, slot in enumerate(order, start=1):
        left += slots.release(slot, slot)
        first = next(i for i in range(7) if i not in order[:count])
        assert left == list(range(first)), "everything before the first that is not filled"
        assert (slots.oldest, slots.in_flight_count) == (first, 6 - first)
    assert (slots.oldest, slots.next_slot) == (6, 6)


def test_slots_are_taken_while_others_wait() -> None:
    slots = ReplySlots[str]()
    slots.take()
    slots.take()
    assert slots.release(1, "b") == []
    assert slots.take() == 2
    assert slots.in_flight_count == 3
    assert slots.release(0, "a") == ["a", "b"]
    assert slots.in_flight_count == 1


def test_a_slot_is_filled_once_and_only_in_flight() -> None:
    slots = ReplySlots[str]()
    slots.take()
    slots.take()
    slots.release(1, "b")
    with pytest.raises(AssertionError, match="once"):
        slots.release(1, "again")
    with pytest.raises(AssertionError, match="slot=2 is not in flight"):
        slots.release(2, "never taken")
    slots.release(0, "a")
    with pytest.raises(AssertionError, match="slot=0 is not in flight"):
        slots.release(0, "again")


def test_what_waits_can_be_dropped() -> None:
    slots = ReplySlots[str]()
    for _ in range(3):
        slots.take()
    slots.release(1, "b")
    slots.release(2, "c")
    assert slots.drop() == ["b", "c"]
    assert slots.drop() == []
