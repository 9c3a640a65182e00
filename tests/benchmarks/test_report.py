"""Figures of benchmark reports."""

import pytest

from benchmarks.report import percentile, summary_ms


@pytest.mark.parametrize(
    ("count", "percent", "expected"),
    [
        (100, 99, 99),
        (101, 99, 100),
        (99, 99, 99),
        (100, 7, 7),
        (100, 1, 1),
        (4, 50, 2),
        (5, 50, 3),
        (1, 1, 1),
        (3, 100, 3),
    ],
)
def test_a_percentile_is_the_nearest_rank(count: int, percent: int, expected: int) -> None:
    assert percentile([float(value) for value in range(count, 0, -1)], percent) == expected


def test_the_p99_of_a_hundred_is_not_the_maximum() -> None:
    seconds = [value / 1000 for value in range(1, 101)]
    assert summary_ms(seconds) == {"p50_ms": 50.5, "p99_ms": 99.0, "max_ms": 100.0}
