"""Deadlines by key, compared with the plain way to keep them."""

from hypothesis import given
from hypothesis import strategies as st

from coordinator.group.deadlines import Deadlines


def test_keys_come_in_the_order_of_their_deadlines() -> None:
    deadlines = Deadlines[str]()
    for key, at_ms in (("c", 20), ("a", 10), ("b", 20)):
        deadlines.set(key, at_ms)
    assert deadlines.first_ms() == 10
    assert deadlines.take_due(9) is None
    assert deadlines.take_due(20) == "a"
    assert [deadlines.take_due(20) for _ in range(3)] == ["c", "b", None]
    assert deadlines.first_ms() is None


def test_heartbeats_leave_one_entry() -> None:
    deadlines = Deadlines[str]()
    for now_ms in range(1_000):
        deadlines.set("m", now_ms + 10)
        assert deadlines.take_due(now_ms) is None
    assert len(deadlines._heap) == 1
    assert deadlines.at_ms("m") == 1_009


def test_what_was_cancelled_leaves_nothing_when_its_time_has_come() -> None:
    deadlines = Deadlines[str]()
    deadlines.set("m", 10)
    deadlines.set("m", 10)
    assert len(deadlines._heap) == 1
    deadlines.cancel("m")
    deadlines.set("m", 20)
    assert deadlines.first_ms() == 20
    assert len(deadlines._heap) == 1


STEPS = st.lists(
    st.tuples(st.sampled_from(["set", "cancel", "take"]), st.integers(0, 3), st.integers(0, 8)),
    max_size=30,
)


@given(STEPS)
def test_deadlines_are_those_that_were_set_last(steps: list[tuple[str, int, int]]) -> None:
    deadlines, plain = Deadlines[int](), dict[int, int]()
    for step, key, ms in steps:
        if step == "set":
            deadlines.set(key, ms)
            plain[key] = ms
        elif step == "cancel":
            deadlines.cancel(key)
            plain.pop(key, None)
        else:
            taken = deadlines.take_due(ms)
            if taken is None:
                assert all(at_ms > ms for at_ms in plain.values())
            else:
                assert plain[taken] == min(plain.values()) <= ms
                del plain[taken]
        assert deadlines.first_ms() == min(plain.values(), default=None)
        assert len(deadlines) == len(plain)
        assert {key: deadlines.at_ms(key) for key in plain} == plain
        assert deadlines.at_ms(9) is None
