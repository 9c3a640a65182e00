"""Steps at once and in pieces, with work aside."""

import pytest

from wire.steps import Aside, Steps, finished, result_of_one_piece


def doubled(number: int, pieces: int = 1) -> Steps[int]:
    for _ in range(pieces - 1):
        yield 1
    return 2 * number


def with_work() -> Steps[int]:
    yield 1
    aside = Aside(lambda: 21)
    yield aside
    return (yield from doubled(aside.result, 3))


def test_all_pieces_at_once_with_what_is_aside() -> None:
    assert finished(with_work()) == 42


def test_the_result_of_one_piece_and_none_of_more() -> None:
    assert result_of_one_piece(doubled(4)) == 8
    assert result_of_one_piece(doubled(0)) == 0
    steps = doubled(4, 2)
    assert result_of_one_piece(steps) is None
    assert finished(steps) == 8, "the rest goes on"


def test_a_first_piece_that_is_aside_would_not_be_waited_for() -> None:
    def steps() -> Steps[int]:
        yield Aside(lambda: 1)
        return 1

    with pytest.raises(AssertionError):
        result_of_one_piece(steps())
