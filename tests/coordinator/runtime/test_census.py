"""Entries by kind, counted in slices."""

from coordinator.runtime.census import Census


def census() -> Census[str, str]:
    return Census(lambda entry: (entry[0], len(entry)))


def test_a_count_is_there_when_it_is_done() -> None:
    found = census()
    entries = ["a", "bb", "a"]
    assert found.look(entries, 2) == 0
    assert (found.counts, found.is_counting) == ({}, True)
    assert found.look(["never looked at"], 2) == 1
    assert (found.counts, found.is_counting) == ({"a": 2, "b": 1}, False)
    assert found.look(["c"], 4) == 3
    assert found.counts == {"c": 1}


def test_units_that_are_used_up_end_a_look_before_the_end_is_seen() -> None:
    found = census()
    assert found.look(["aa"], 2) == 0
    assert found.look([], 0) == 0
    assert found.counts == {}
    assert found.look([], 1) == 1
    assert found.counts == {"a": 1}
    assert found.look([], 1) == 1
    assert found.counts == {}
