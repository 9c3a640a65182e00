"""Groups of segments: sizes of logs and indexes, and offsets that an index can express."""

import pytest

from storage.cleaner.grouping import SourceSegment, grouped

FAR = 1 << 31


def segment(base: int, size: int = 10, index: int = 8, times: int = 12) -> SourceSegment:
    return SourceSegment(base, size, index, times, 0)


def bases(
    *segments: SourceSegment, log: int = 30, index: int = 100, end: int = 1000
) -> list[list[int]]:
    return [[each.base_offset for each in one] for one in grouped(segments, log, index, end)]


def test_as_many_as_fit() -> None:
    segments = [segment(0), segment(10), segment(20), segment(30)]
    assert bases(*segments) == [[0, 10, 20], [30]]
    assert bases(*segments, log=29) == [[0, 10], [20, 30]]
    assert bases(*segments, log=40) == [[0, 10, 20, 30]]
    assert bases() == []


def test_one_that_is_too_large_is_alone() -> None:
    assert bases(segment(0, 31), segment(10), segment(20, 31)) == [[0], [10], [20]]


@pytest.mark.parametrize("index", [(60, 0), (0, 60)])
def test_both_indexes_are_bounded(index: tuple[int, int]) -> None:
    first, second = segment(0, 1, *index), segment(10, 1, *index)
    assert bases(first, second, index=120) == [[0, 10]]
    assert bases(first, second, index=119) == [[0], [10]]


def test_relative_offsets_are_bounded_by_the_next_segment() -> None:
    end = 4 * FAR
    assert bases(segment(0), segment(5), segment(FAR), end=end) == [[0, 5], [FAR]]
    assert bases(segment(0), segment(5), segment(FAR + 1), end=end) == [[0], [5], [FAR + 1]]


def test_the_last_one_is_bounded_by_the_end_of_the_round() -> None:
    assert bases(segment(0), segment(5), end=FAR) == [[0, 5]]
    assert bases(segment(0), segment(5), end=FAR + 1) == [[0], [5]]


def test_an_empty_segment_has_no_offsets_to_express() -> None:
    assert bases(segment(0), segment(FAR, 0), end=3 * FAR) == [[0, FAR]]
