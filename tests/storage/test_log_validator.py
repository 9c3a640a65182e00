"""Validation of produced batches: each answer is that of Kafka 4.3.1 to the same bytes."""

import crc32c
import pytest
from msgspec.structs import replace

from storage.logs.log_validator import (
    AppendRules,
    LogValidator,
    RecordError,
    RejectedError,
    TimestampType,
    _needs_records,
    stamp,
    validated,
)
from storage.logs.produced_records import parse_produced
from wire.batches.batch import BatchHeader, RecordView, encode_records, iterate_batches
from wire.batches.compression import Codec
from wire.errors import ErrorCode
from wire.steps import finished
from wire.types import Offset

NOW_MS = 1_795_415_837_575
HOUR_MS = 3_600_000
RULES = AppendRules()
APPEND_TIME = AppendRules(timestamp_type=TimestampType.LOG_APPEND_TIME)
TIGHT = AppendRules(before_ms_max=1000, after_ms_max=1000)
LOG_APPEND_TIME_BIT, TRANSACTIONAL_BIT, CONTROL_BIT, HORIZON_BIT = 0x08, 0x10, 0x20, 0x40


def made(
    count: int = 1,
    *,
    attributes: int = 0,
    timestamp_ms: int = NOW_MS,
    max_timestamp_ms: int | None = None,
    key: bytes | None = b"k",
    value: bytes = b"v",
    timestamps_ms: tuple[int, ...] = (),
    **fields: int,
) -> bytes:
    """A batch as a producer sends it; `fields` of its header are written as given."""
    header = BatchHeader(
        base_offset=Offset(fields.get("base_offset", 0)),
        leader_epoch=-1,
        attributes=0 if attributes & 0x07 > Codec.ZSTD else attributes & ~LOG_APPEND_TIME_BIT,
        last_offset_delta=fields.get("last_offset_delta", count - 1),
        base_timestamp_ms=timestamp_ms,
        max_timestamp_ms=timestamp_ms if max_timestamp_ms is None else max_timestamp_ms,
        producer_id=fields.get("producer_id", -1),
        producer_epoch=fields.get("producer_epoch", -1),
        base_sequence=fields.get("base_sequence", -1),
        records_count=count,
    )
    times = timestamps_ms or (timestamp_ms,) * count
    records = [
        RecordView(Offset(header.base_offset + n), times[n], key, value) for n in range(count)
    ]
    data = bytearray(encode_records(header, records))
    data[22] = attributes & 0xFF
    data[57:61] = fields.get("records_count", count).to_bytes(4, "big", signed=True)
    data[17:21] = crc32c.crc32c(bytes(data[21:])).to_bytes(4, "big")
    return bytes(data)


def judge(data: bytes, rules: AppendRules = RULES, version: int = 9):
    """The outcome, which is the same in pieces."""

    def given():
        return parse_produced(memoryview(bytearray(data)), version)

    def sliced():
        checked = finished(validator.check_in_steps(given(), NOW_MS))
        return validator.validated(checked, NOW_MS)

    validator, batch = LogValidator("t-0", rules), given()
    if _needs_records(batch.header, rules, NOW_MS):
        assert outcome(sliced) == outcome(lambda: validated(given(), rules, "t-0", NOW_MS))
    return validated(batch, rules, "t-0", NOW_MS)


def outcome(judged) -> tuple:
    try:
        batch = judged()
    except RejectedError as error:
        return error.code, str(error), error.record_errors, error.message
    return batch.header, bytes(batch.buffer)


def rejection(data: bytes, rules: AppendRules = RULES, version: int = 9) -> RejectedError:
    with pytest.raises(RejectedError) as raised:
        judge(data, rules, version)
    return raised.value


# ---- the request -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "must have at least one record batch per partition"),
        (made()[:-3], "must have at least one record batch per partition"),
        (made()[:40], "must have at least one record batch per partition"),
        (made()[:16], "must have at least one record batch per partition"),
        (made() + made(), "are only allowed to contain exactly one record batch per partition"),
        (made()[:16] + b"\1" + made()[17:], "only allowed to contain record batches with magic"),
        (made()[:16] + b"\0" + made()[17:], "only allowed to contain record batches with magic"),
    ],
)
def test_a_request_has_one_batch_of_magic_2(data, reason):
    error = rejection(data, version=8)
    assert error.code is ErrorCode.invalid_record
    assert str(error).startswith("Produce requests with version 8 ")
    assert reason in str(error)
    assert (error.message, error.record_errors) == (None, ())


@pytest.mark.parametrize(("magic", "shown"), [(3, "3"), (255, "-1"), (127, "127")])
def test_an_unknown_magic_is_the_one_refusal_with_a_message(magic, shown):
    error = rejection(made()[:16] + bytes([magic]) + made()[17:])
    assert error.code is ErrorCode.corrupt_message
    assert error.message == f"Invalid magic found in record: {shown}"


def test_bytes_behind_the_batch():
    """Fewer than are needed to see a magic are ignored; more have to be a batch."""
    assert judge(made() + b"\0" * 16).buffer == made()
    assert rejection(made() + b"\0" * 17).code is ErrorCode.corrupt_message


def test_zstd_needs_version_7():
    error = rejection(made(attributes=Codec.ZSTD), version=6)
    assert error.code is ErrorCode.unsupported_compression_type
    assert str(error) == (
        "Produce requests with version 6 are not allowed to use ZStandard compression"
    )
    judge(made(attributes=Codec.ZSTD), version=7)
    judge(made(attributes=Codec.GZIP), version=6)


# ---- the batch ---------------------------------------------------------------------------------


def test_the_base_offset_of_a_producer_is_0():
    error = rejection(made(base_offset=5))
    assert error.code is ErrorCode.invalid_record
    assert str(error) == (
        "The baseOffset of the record batch in the append to t-0 should be 0, but it is 5"
    )


def test_the_size_limit_is_inclusive():
    data = made(value=b"x" * 100)
    judge(data, AppendRules(batch_bytes_max=len(data)))
    error = rejection(data, AppendRules(batch_bytes_max=len(data) - 1))
    assert error.code is ErrorCode.message_too_large
    assert str(error) == (
        f"The record batch size in the append to t-0 is {len(data)} bytes which exceeds the maximum"
        f" configured value of {len(data) - 1}"
    )


def test_a_wrong_checksum():
    error = rejection(made()[:-1] + b"x")
    assert error.code is ErrorCode.corrupt_message
    assert "Record is corrupt (stored crc = " in str(error)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"records_count": 0}, "Invalid reported count for record batch: 0"),
        ({"records_count": -1}, "Invalid reported count for record batch: -1"),
        ({"records_count": 2}, "Inconsistent batch offset range [0, 0] and count of records 2"),
        ({"last_offset_delta": 5}, "Inconsistent batch offset range [0, 5] and count of records 1"),
        ({"last_offset_delta": -1}, "Batch has an invalid offset range: [0, -1]"),
        ({"attributes": CONTROL_BIT}, "Clients are not allowed to write control records"),
        (
            {"producer_id": 0, "producer_epoch": 0},
            "Invalid sequence number -1 in record batch with producerId 0",
        ),
    ],
)
def test_a_header_that_no_producer_may_send(fields, reason):
    error = rejection(made(**fields))
    assert error.code is ErrorCode.invalid_record
    assert str(error) == reason
    assert (error.message, error.record_errors) == (None, ())


@pytest.mark.parametrize(
    "data",
    [
        made(),
        made(3),
        made(producer_id=7, producer_epoch=0, base_sequence=0),
        made(attributes=HORIZON_BIT),
        made(attributes=0x80),
        made(2, attributes=Codec.LZ4),
    ],
)
def test_a_sound_batch_stays_as_it_is(data):
    assert judge(data).buffer == data


@pytest.mark.parametrize("codec_bits", [5, 6, 7])
def test_an_unknown_codec(codec_bits):
    assert rejection(made(attributes=codec_bits)).code is ErrorCode.unknown_server_error


# ---- records -----------------------------------------------------------------------------------


def test_records_are_decoded_only_where_the_topic_asks_for_it():
    nonsense = made()[:61] + b"\xff" * 20
    nonsense = nonsense[:8] + (len(nonsense) - 12).to_bytes(4, "big") + nonsense[12:]
    nonsense = nonsense[:17] + crc32c.crc32c(nonsense[21:]).to_bytes(4, "big") + nonsense[21:]
    judge(nonsense)
    judge(nonsense, APPEND_TIME)
    for rules in (
        AppendRules(is_compacted=True),
        AppendRules(validates_records=True),
        AppendRules(codec=Codec.GZIP),
    ):
        assert rejection(nonsense, rules).code is ErrorCode.unknown_server_error
    judge(nonsense, AppendRules(codec=Codec.NONE))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_compacted_topic_needs_keys(codec):
    compacted = AppendRules(is_compacted=True)
    error = rejection(made(5, attributes=codec, key=None), compacted)
    text = "Compacted topic cannot accept message without key in topic partition t-0"
    assert error.code is ErrorCode.invalid_record
    assert error.record_errors == tuple(RecordError(n, text) for n in range(5))
    shown = ", ".join(f"RecordError(batchIndex={n}, message='{text}')" for n in range(3))
    assert error.message == (
        "One or more records have been rejected due to 5 record errors in total, and only showing"
        f" the first three errors at most: [{shown}]"
    )
    judge(made(5, attributes=codec, key=b""), compacted)


# ---- timestamps --------------------------------------------------------------------------------


@pytest.mark.parametrize(("age_ms", "is_refused"), [(1000, False), (1001, True)])
@pytest.mark.parametrize("direction", [1, -1])
def test_timestamps_have_a_range(age_ms, is_refused, direction):
    data = made(2, timestamp_ms=NOW_MS - direction * age_ms)
    if not is_refused:
        assert judge(data, TIGHT).buffer == data
        return
    error = rejection(data, TIGHT)
    assert error.code is ErrorCode.invalid_timestamp
    assert error.message == "One or more records have been rejected due to invalid timestamp"
    assert [each.batch_index for each in error.record_errors] == [0, 1]
    assert error.record_errors[1].message == (
        f"Timestamp {NOW_MS - direction * age_ms} of message with offset 1 is out of range. The"
        f" timestamp should be within [{NOW_MS - 1000}, {NOW_MS + 1000}]"
    )


def test_only_the_records_out_of_range_are_named():
    data = made(
        3,
        timestamps_ms=(NOW_MS, NOW_MS + 5000, NOW_MS),
        max_timestamp_ms=NOW_MS + 5000,
    )
    error = rejection(data, TIGHT)
    assert [each.batch_index for each in error.record_errors] == [1]


def test_a_record_that_is_older_than_the_first_is_found():
    data = made(3, timestamps_ms=(NOW_MS, NOW_MS - 1001, NOW_MS))
    assert [each.batch_index for each in rejection(data, TIGHT).record_errors] == [1]
    assert judge(data).buffer == data, "without a bound of the age no record is decoded"


def test_the_second_of_two_records_may_be_the_older_one():
    data = made(2, timestamps_ms=(NOW_MS, NOW_MS - 1001))
    assert [each.batch_index for each in rejection(data, TIGHT).record_errors] == [1]


def test_of_a_single_record_the_header_says_all():
    nonsense = bytearray(made())
    nonsense[61] ^= 0x40
    nonsense[17:21] = crc32c.crc32c(bytes(nonsense[21:])).to_bytes(4, "big")
    assert judge(bytes(nonsense), TIGHT).buffer == nonsense


def test_the_default_range_is_an_hour_ahead_and_everything_behind():
    judge(made(timestamp_ms=0))
    judge(made(timestamp_ms=NOW_MS + HOUR_MS))
    error = rejection(made(timestamp_ms=NOW_MS + HOUR_MS + 1))
    shown = f"within [-9223370241438938232, {NOW_MS + HOUR_MS}]"
    assert shown in error.record_errors[0].message


def test_the_shown_range_wraps_as_a_java_long():
    rules = AppendRules(before_ms_max=1000, after_ms_max=(1 << 63) - 1)
    error = rejection(made(timestamp_ms=NOW_MS - 1001), rules)
    assert f"within [{NOW_MS - 1000}, -9223370241438938234]" in error.record_errors[0].message


def test_no_timestamp_is_in_every_range():
    assert judge(made(timestamp_ms=-1), TIGHT).header.max_timestamp_ms == -1


def test_a_largest_timestamp_out_of_range_that_no_record_has_is_corrected():
    batch = judge(made(max_timestamp_ms=NOW_MS + 5000), TIGHT)
    assert batch.header.max_timestamp_ms == NOW_MS
    assert batch.crc_is_valid


def test_the_largest_timestamp_is_that_of_the_records_where_they_are_decoded():
    data = made(max_timestamp_ms=NOW_MS + 50)
    assert judge(data).header.max_timestamp_ms == NOW_MS + 50
    assert judge(data, AppendRules(validates_records=True)).header.max_timestamp_ms == NOW_MS


def test_a_leader_stamps_its_own_time():
    batch = judge(made(2, timestamp_ms=NOW_MS - 9 * HOUR_MS), APPEND_TIME)
    assert batch.header.is_log_append_time
    assert batch.header.max_timestamp_ms == NOW_MS
    assert batch.header.base_timestamp_ms == NOW_MS - 9 * HOUR_MS, "records stay as they are"
    assert batch.crc_is_valid
    assert [record.timestamp_ms for record in batch.records()] == [NOW_MS, NOW_MS]


def test_a_producer_may_not_claim_the_time_of_the_leader():
    error = rejection(made(attributes=LOG_APPEND_TIME_BIT), APPEND_TIME)
    assert error.code is ErrorCode.invalid_timestamp
    assert error.record_errors == (
        RecordError(
            0,
            f"Invalid timestamp type in message DefaultRecord(offset=0, timestamp={NOW_MS}, key=1"
            " bytes, value=1 bytes). Producer should not set timestamp type to LogAppendTime.",
        ),
    )


@pytest.mark.parametrize(
    ("codec", "to", "shown"),
    [
        (Codec.GZIP, None, "PartialDefaultRecord(offset=0, timestamp=%d, key=-1 bytes"),
        (Codec.GZIP, Codec.GZIP, "PartialDefaultRecord(offset=0, timestamp=%d, key=-1 bytes"),
        (Codec.GZIP, Codec.LZ4, "DefaultRecord(offset=0, timestamp=%d, key=0 bytes"),
        (Codec.NONE, None, "DefaultRecord(offset=0, timestamp=%d, key=0 bytes"),
    ],
)
def test_keys_of_a_compressed_batch_that_keeps_its_codec_are_not_read(codec, to, shown):
    rules = AppendRules(timestamp_type=TimestampType.LOG_APPEND_TIME, codec=to)
    error = rejection(made(attributes=codec | LOG_APPEND_TIME_BIT, key=None), rules)
    text = f"Invalid timestamp type in message {shown % NOW_MS}, value=1 bytes). Producer"
    assert error.record_errors[0].message.startswith(text)


def test_on_a_topic_of_create_time_the_claim_is_taken_out():
    batch = judge(made(attributes=LOG_APPEND_TIME_BIT))
    assert not batch.header.is_log_append_time
    assert batch.header.max_timestamp_ms == NOW_MS
    assert batch.crc_is_valid


# ---- codecs and stamps -------------------------------------------------------------------------


@pytest.mark.parametrize("of_batch", [Codec.NONE, Codec.ZSTD, Codec.SNAPPY])
@pytest.mark.parametrize("of_topic", [Codec.NONE, Codec.GZIP])
def test_another_codec_than_that_of_the_topic(of_batch, of_topic):
    data = made(3, attributes=of_batch | TRANSACTIONAL_BIT, producer_id=7, base_sequence=4)
    batch = judge(data, AppendRules(codec=of_topic))
    assert batch.header.codec is of_topic
    assert batch.crc_is_valid
    before = next(iterate_batches(data))
    assert batch.records() == before.records()
    kept = {"attributes": 0, "crc": 0, "batch_length": 0}
    assert replace(batch.header, **kept) == replace(before.header, **kept)
    assert batch.header.is_transactional


def test_the_level_of_another_codec():
    data = made(5, value=b"".join(b"%d;" % (number * number % 7919) for number in range(2_000)))
    sizes = [
        judge(data, AppendRules(codec=Codec.GZIP, level=level)).header.size_bytes
        for level in (1, None, 9)
    ]
    assert sizes[0] > sizes[1] >= sizes[2]


def test_a_batch_that_another_codec_makes_too_large():
    """A small batch may unfold to more than the topic takes; the bound holds for what is kept."""
    data = made(5, value=bytes(10_000), attributes=Codec.GZIP)
    size_bytes = judge(data, AppendRules(codec=Codec.NONE)).header.size_bytes
    assert len(data) < 1_000 < size_bytes
    assert judge(data, AppendRules(codec=Codec.NONE, batch_bytes_max=size_bytes))
    error = rejection(data, AppendRules(codec=Codec.NONE, batch_bytes_max=size_bytes - 1))
    assert (error.code, error.message) == (ErrorCode.message_too_large, None)
    assert str(error) == (
        f"Message batch size is {size_bytes} bytes in append to partition t-0 which exceeds the"
        f" maximum configured size of {size_bytes - 1}."
    )


def test_another_codec_and_the_time_of_the_leader():
    rules = AppendRules(codec=Codec.GZIP, timestamp_type=TimestampType.LOG_APPEND_TIME)
    batch = judge(made(2, timestamp_ms=5), rules)
    assert batch.header.is_log_append_time
    assert batch.header.max_timestamp_ms == NOW_MS
    assert batch.header.base_timestamp_ms == 5
    assert batch.crc_is_valid


def test_stamps_leave_the_checksum_as_it_is():
    batch = judge(made(3))
    header = stamp(batch, 1_000_000_000_000, 9)
    assert (header.base_offset, header.last_offset) == (1_000_000_000_000, 1_000_000_000_002)
    assert header.leader_epoch == 9
    assert header.crc == batch.header.crc
    assert next(iterate_batches(batch.buffer)).crc_is_valid


@pytest.mark.parametrize("delta", [-1, 0, 7])
def test_records_that_are_encoded_again_get_offsets_that_follow_each_other(delta):
    """As Kafka's builder gives them; those of a producer may be any, also negative."""
    data = bytearray(made(2, key=None, value=b""))
    position = data.rindex(b"\x02\x01\0\0")  # offset delta 1, no key, no value, no headers
    data[position] = 2 * delta if delta >= 0 else -2 * delta - 1
    data[17:21] = crc32c.crc32c(bytes(data[21:])).to_bytes(4, "big")
    batch = judge(bytes(data), AppendRules(codec=Codec.GZIP))
    assert [record.offset for record in batch.records()] == [0, 1]
