"""Produced batches whose records are checked in pieces: the outcome is that of one piece."""

import crc32c
import pytest

from storage.logs.log_validator import (
    SLICE,
    SMALL_BYTES_MAX,
    AppendRules,
    LogValidator,
    RejectedError,
    is_small,
)
from storage.logs.produced_records import parse_produced
from tests.storage.test_log_validator import (
    APPEND_TIME,
    HOUR_MS,
    LOG_APPEND_TIME_BIT,
    NOW_MS,
    RULES,
    TIGHT,
    judge,
    made,
    rejection,
)
from wire.batches.batch import RecordView, encode_records, iterate_batches
from wire.batches.compression import Codec
from wire.errors import ErrorCode
from wire.steps import Aside
from wire.types import Offset

MANY = 3 * SLICE + 1
COMPACTED = AppendRules(is_compacted=True)


def pieces(data: bytes, rules: AppendRules):
    """Costs of the pieces, with the work aside between them, and the outcome."""
    batch = parse_produced(memoryview(bytearray(data)), 9)
    steps, yielded = LogValidator("t-0", rules).check_in_steps(batch, NOW_MS), []
    while True:
        try:
            piece = next(steps)
        except StopIteration as end:
            return yielded, end.value
        if isinstance(piece, Aside):
            piece.run()
        yielded.append(piece)


def test_a_slice_costs_by_its_records_and_their_headers():
    yielded, checked = pieces(made(MANY), COMPACTED)
    assert yielded == [3 * SLICE] * 3 + [3]
    assert checked.refusal is None
    batch = LogValidator("t-0", COMPACTED).validated(checked, NOW_MS)
    assert batch.buffer == made(MANY)
    headers = tuple((f"h{n}", b"") for n in range(5))
    header = iterate(made(2)).header
    records = [RecordView(Offset(n), NOW_MS, b"k", b"v", headers) for n in range(2)]
    assert pieces(encode_records(header, records), COMPACTED)[0] == [16]
    assert pieces(made(), AppendRules(codec=Codec.GZIP))[0][0] == 6, "it is encoded again"


def test_records_of_a_slice_are_bounded_by_their_bytes():
    yielded, _ = pieces(made(4, value=bytes(9_000)), COMPACTED)
    assert yielded == [6, 6]


def test_only_what_has_a_codec_is_compressed_or_decompressed_aside():
    plain, packed = made(MANY), made(MANY, attributes=Codec.GZIP)
    for data, codec, at in (
        (plain, Codec.NONE, []),
        (packed, Codec.GZIP, [0]),
        (packed, Codec.NONE, [0]),
        (plain, Codec.GZIP, [-1]),
        (packed, Codec.LZ4, [0, -1]),
    ):
        rules = AppendRules(codec=codec, is_compacted=True)
        yielded, checked = pieces(data, rules)
        asides = [number for number, each in enumerate(yielded) if isinstance(each, Aside)]
        assert asides == [number % len(yielded) for number in at]
        again = LogValidator("t-0", rules).validated(checked, NOW_MS)
        assert (again.header.codec, again.crc_is_valid) == (codec, True)
        assert [each.offset for each in again.records()] == list(range(MANY))
        assert judge(data, rules).buffer == again.buffer


def test_the_errors_of_all_slices_are_told_at_the_end():
    yielded, checked = pieces(made(MANY, key=None), COMPACTED)
    assert len(yielded) == 4
    with pytest.raises(RejectedError) as raised:
        LogValidator("t-0", COMPACTED).validated(checked, NOW_MS)
    assert [each.batch_index for each in raised.value.record_errors] == list(range(MANY))
    assert raised.value is checked.refusal


@pytest.mark.parametrize("is_cut", [False, True])
def test_bytes_that_are_no_records_are_refused_whatever_slices_before_say(is_cut):
    data = bytearray(made(MANY, key=None))
    data[-1 if is_cut else 61 + 40] ^= 0x55
    data[17:21] = crc32c.crc32c(bytes(data[21:])).to_bytes(4, "big")
    assert rejection(bytes(data), COMPACTED).code is ErrorCode.unknown_server_error
    packed = bytearray(made(MANY, attributes=Codec.GZIP))
    packed[70:90] = bytes(20)
    packed[17:21] = crc32c.crc32c(bytes(packed[21:])).to_bytes(4, "big")
    assert rejection(bytes(packed), COMPACTED).code is ErrorCode.unknown_server_error


def test_other_rules_judge_a_batch_anew():
    _, checked = pieces(made(MANY, key=None), COMPACTED)
    batch = LogValidator("t-0", APPEND_TIME).validated(checked, NOW_MS)
    assert batch.header.is_log_append_time
    _, checked = pieces(made(MANY), COMPACTED)
    rules = AppendRules(is_compacted=True, batch_bytes_max=100)
    with pytest.raises(RejectedError) as raised:
        LogValidator("t-0", rules).validated(checked, NOW_MS)
    assert raised.value.code is ErrorCode.message_too_large


def test_a_batch_that_is_refused_by_its_header_has_no_slice():
    for data in (made(MANY)[:-1] + b"x", made(MANY, last_offset_delta=3)):
        yielded, checked = pieces(data, COMPACTED)
        assert yielded == []
        assert checked.refusal.code in (ErrorCode.corrupt_message, ErrorCode.invalid_record)


@pytest.mark.parametrize(
    ("rules", "attributes", "needs_records"),
    [
        (RULES, 0, False),
        (COMPACTED, 0, True),
        (AppendRules(validates_records=True), 0, True),
        (AppendRules(codec=Codec.NONE), 0, False),
        (AppendRules(codec=Codec.GZIP), 0, True),
        (AppendRules(codec=Codec.GZIP), Codec.GZIP, False),
        (APPEND_TIME, 0, False),
        (APPEND_TIME, LOG_APPEND_TIME_BIT, True),
        (RULES, LOG_APPEND_TIME_BIT, False),
    ],
)
def test_records_are_needed_where_the_header_does_not_say_all(rules, attributes, needs_records):
    header = iterate(made(attributes=attributes)).header
    assert LogValidator("t-0", rules).needs_records(header, NOW_MS) is needs_records


@pytest.mark.parametrize(
    "times", [{"timestamp_ms": NOW_MS - HOUR_MS}, {"max_timestamp_ms": NOW_MS + HOUR_MS}]
)
def test_records_are_needed_where_a_time_is_out_of_range(times):
    header = iterate(made(**times)).header
    assert LogValidator("t-0", TIGHT).needs_records(header, NOW_MS)
    assert not LogValidator("t-0", RULES).needs_records(header, NOW_MS)


@pytest.mark.parametrize(
    ("count", "bytes_count", "small"),
    [(SLICE, 0, True), (SLICE + 1, 0, False), (1, 0, True), (1, 1, False)],
)
def test_small_batches(count, bytes_count, small):
    """By their records, or by bytes beyond the bound."""
    size = SMALL_BYTES_MAX - len(made(value=bytes(60_000))) + 60_000 if count == 1 else 1
    batch = iterate(made(count, value=bytes(size + bytes_count)))
    assert count > 1 or len(batch.buffer) == SMALL_BYTES_MAX + bytes_count
    assert is_small(batch) is small


def iterate(data: bytes):
    return next(iterate_batches(memoryview(bytearray(data))))


def test_the_largest_timestamp_is_not_below_that_of_none():
    """As in Kafka, which begins with it."""
    data = made(timestamp_ms=-1, timestamps_ms=(-7,), max_timestamp_ms=-7)
    assert judge(data, COMPACTED).header.max_timestamp_ms == -1
