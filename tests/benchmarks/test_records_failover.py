"""Windows of the benchmark that kills the leader of many partitions."""

import pytest

from benchmarks.records_failover import resumed


@pytest.mark.parametrize(
    ("acknowledged", "expected"),
    [
        ([8.0, 9.0, 19.0, 19.5], 19.0),
        ([9.0, 10.1, 10.2, 19.0, 19.5], 19.0),  # responses of the leader that had died
        ([9.0, 10.5, 10.75], 10.5),
    ],
)
def test_writes_resume_behind_the_longest_silence(
    acknowledged: list[float], expected: float
) -> None:
    assert resumed(acknowledged, killed_at=10.0) == expected


def test_a_partition_that_takes_no_write_has_no_window() -> None:
    with pytest.raises(AssertionError, match="no acknowledgement"):
        resumed([8.0, 9.0, 10.0], killed_at=10.0)
