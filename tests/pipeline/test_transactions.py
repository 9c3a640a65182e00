"""Transactions as a reader of committed data needs them: of several batches, interleaved, open."""

from pathlib import Path

import pytest

from pipeline.core.reading.discovery import SegmentFile
from pipeline.core.reading.transactions import TransactionState, transaction_state
from tests.pipeline.segments import batch, marker, write_partition

WRITER, OTHER = 7, 8


def inside(offset: int, producer: int, sequence: int, count: int = 1) -> bytes:
    """A batch of a transaction."""
    values = [b"value"] * count
    return batch(offset, values, attributes=0x10, producer=(producer, 0, sequence))


ABORTED = [
    inside(0, WRITER, 0, 2),
    inside(2, OTHER, 0),
    inside(3, WRITER, 2),
    batch(4),
    inside(5, WRITER, 3, 3),
    marker(8, WRITER, commit=False),
    inside(9, OTHER, 1),
]
"""One of three batches; the other producer's is open since 2."""
AFTER = [
    inside(10, WRITER, 6),
    marker(11, OTHER, commit=True),
    inside(12, WRITER, 7),
    inside(13, OTHER, 2),
]
"""The first producer's next one is open since 10."""


def state(root: Path, *segments: list[bytes]) -> TransactionState:
    """Of a partition with these segments."""
    files, end = [], 0
    for number, batches in enumerate(segments):
        path = write_partition(root, batches, base_offset=end)
        last = number == len(segments) - 1
        files.append(
            SegmentFile(
                path=str(path),
                topic="orders",
                partition=0,
                base_offset=end,
                size=path.stat().st_size,
                is_last=last,
            )
        )
        end += 10
    return transaction_state(files)


def test_an_aborted_transaction_begins_at_its_first_batch(tmp_path: Path) -> None:
    found = state(tmp_path, ABORTED)
    assert found == TransactionState(aborted=((WRITER, 0, 8),), last_stable_offset=2)


@pytest.mark.parametrize("segments", [(ABORTED + AFTER,), (ABORTED, AFTER)])
def test_a_producer_that_goes_on_opens_another_one(
    tmp_path: Path, segments: tuple[list[bytes], ...]
) -> None:
    found = state(tmp_path, *segments)
    assert found == TransactionState(aborted=((WRITER, 0, 8),), last_stable_offset=10)


def test_a_transaction_may_span_segments(tmp_path: Path) -> None:
    end = [inside(10, OTHER, 2), marker(11, OTHER, commit=False)]
    found = state(tmp_path, ABORTED, end)
    assert found.aborted == ((WRITER, 0, 8), (OTHER, 2, 11))
    assert found.last_stable_offset is None


def test_a_marker_without_a_transaction_aborts_nothing(tmp_path: Path) -> None:
    lone = [batch(0), marker(1, WRITER, commit=False), marker(2, WRITER, commit=True)]
    assert state(tmp_path, lone) == TransactionState(aborted=(), last_stable_offset=None)
