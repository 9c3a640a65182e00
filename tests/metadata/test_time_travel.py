"""From where an old image is built: at the edges of what snapshots and log still hold."""

import pytest

from metadata.loader import CommittedBatch
from metadata.records import BeginTransactionRecord, EndTransactionRecord, NoOpRecord, Record
from metadata.time_travel import OffsetGoneError, Replay, oldest_offset, starting_point
from wire.types import LeaderEpoch, Offset, OffsetAndEpoch


def snapshots(*offsets: int) -> list[OffsetAndEpoch]:
    return [OffsetAndEpoch(Offset(offset), LeaderEpoch(1)) for offset in offsets]


@pytest.mark.parametrize(
    ("offset", "log_start", "kept", "expected"),
    [
        (10, 10, (10,), 10),  # the snapshot that the log starts at: every retention leaves this one
        (11, 10, (10,), 10),
        (19, 10, (10, 20), 10),
        (20, 10, (10, 20), 20),
        (25, 10, (20, 10), 20),
        (7, 10, (7, 10), 7),  # below the log start, but exactly there
        (10, 10, (7, 10), 10),
        (9, 0, (10,), None),
        (0, 0, (), None),
    ],
)
def test_the_newest_snapshot_that_the_log_continues(
    offset: int, log_start: int, kept: tuple[int, ...], expected: int | None
) -> None:
    found = starting_point(Offset(offset), Offset(log_start), snapshots(*kept))
    assert (None if found is None else found.offset) == expected


@pytest.mark.parametrize(
    ("offset", "log_start", "kept", "oldest"),
    [(9, 10, (10, 20), 10), (8, 10, (7, 10), 10), (15, 20, (7, 20), 20), (9, 10, (7,), 10)],
)
def test_what_is_gone_names_the_oldest_that_is_kept(
    offset: int, log_start: int, kept: tuple[int, ...], oldest: int
) -> None:
    assert oldest_offset(Offset(log_start), snapshots(*kept)) == oldest
    with pytest.raises(OffsetGoneError, match=f"offset {offset} is gone: .* is {oldest}$") as gone:
        starting_point(Offset(offset), Offset(log_start), snapshots(*kept))
    assert (gone.value.offset, gone.value.oldest) == (offset, oldest)


def test_a_whole_log_reaches_back_to_its_first_record() -> None:
    assert oldest_offset(Offset(0), snapshots(10)) == 0


def batch(base_offset: int, *records: Record) -> CommittedBatch:
    end = Offset(base_offset + len(records))
    return CommittedBatch(Offset(base_offset), end, LeaderEpoch(1), 7, records)


@pytest.mark.parametrize(
    ("offset", "complete", "may_be_continued"),
    [
        (2, True, True),  # at the end of the first batch
        (3, True, False),  # in the middle of the second
        (4, True, True),
        (5, True, False),  # a transaction is open
        (7, True, True),
        (8, False, True),
    ],
)
def test_an_image_goes_on_where_no_batch_is_cut_and_no_transaction_is_open(
    offset: int, complete: bool, may_be_continued: bool
) -> None:
    replay = Replay(Offset(offset))
    replay.take(
        [
            batch(0, NoOpRecord(), NoOpRecord()),
            batch(2, NoOpRecord(), NoOpRecord()),
            batch(4, BeginTransactionRecord(name="creation")),
            batch(5, NoOpRecord(), EndTransactionRecord()),
        ]
    )
    assert replay.is_complete is complete
    assert replay.may_be_continued is may_be_continued
    assert replay.image.provenance.end_offset == min(offset, 7)
