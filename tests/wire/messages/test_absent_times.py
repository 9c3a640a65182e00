"""A time of -1 in a DescribeTransactions, which kio refuses."""

from datetime import UTC, datetime, timedelta

import pytest

from wire.api_keys import DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS
from wire.errors import ErrorCode
from wire.messages.absent_times import reading_class
from wire.messages.codec import decode_response, encode_response, entity_class, newest

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("ms", "expected"), [(-1, None), (0, EPOCH), (7, EPOCH + timedelta(milliseconds=7))]
)
def test_a_start_is_none_or_a_time(ms: int, expected: datetime | None) -> None:
    new = newest(DESCRIBE_TRANSACTIONS, "response")
    row = new.TransactionState(
        error_code=ErrorCode.none,
        transactional_id="x",
        transaction_state="Empty",
        transaction_timeout=timedelta(milliseconds=5),
        transaction_start_time=EPOCH + timedelta(milliseconds=ms),
        producer_id=3,
        producer_epoch=4,
        topics=(new.TopicData(topic="t", partitions=(1, 2)),),
    )
    body = new.DescribeTransactionsResponse(throttle_time=timedelta(0), transaction_states=(row,))
    frame = encode_response(DESCRIBE_TRANSACTIONS, 0, 1, body)
    _, decoded = decode_response(DESCRIBE_TRANSACTIONS, 0, frame)
    (found,) = decoded.transaction_states
    assert found.transaction_start_time == expected
    assert (found.transactional_id, found.producer_epoch, found.topics) == ("x", 4, row.topics)


def test_other_classes_are_read_as_they_are() -> None:
    for key, kind in ((LIST_TRANSACTIONS, "response"), (DESCRIBE_TRANSACTIONS, "request")):
        entity = entity_class(key, 0, kind)
        assert reading_class(entity) is entity
