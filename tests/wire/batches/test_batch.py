"""Record batches: Kafka's own bytes, round trips, damage."""

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.batches.batch import (
    BatchFrame,
    BatchHeader,
    RecordView,
    encode_batch,
    encode_control_batch,
    encode_records,
    iterate_batches,
    iterate_frames,
    parse_batch_header,
)
from wire.batches.compression import Codec, compress, decompress
from wire.batches.control_records import (
    ControlType,
    control_type,
    decode_control_value,
)
from wire.errors import CorruptBatchError

INT32_MAX = 2**31 - 1
LEADER_CHANGE = bytes.fromhex(
    "00000000000104000000010000000002000000000300030000000100000000020000"
)
LEADER_CHANGE_1 = bytes.fromhex(
    "0001000000010200000001000000000000000000000000000000090002000000"
    "01000000000000000000000000000000"
    "090000"
)
SNAPSHOT_HEADER = bytes.fromhex("0000000000000000004d00")
ONE_RECORD = bytes.fromhex(
    "0000000000000000000000450000000002cbaf670600000000000000000174c3846eb300000174c3846eb3"
    "ffffffffffffffffffffffffffff0000000126000000011a74657374206d6573736167653100"
)
IDEMPOTENT = bytes.fromhex(
    "000000000000000a0000004c00000002025e88175f00000000000100000000000003e800000000000003ed"
    "0000000000000fa00003000000070000000222000000046b310476310402680201026e0110000a02046b320100"
)
COMPACTED = bytes.fromhex(
    "000000000000000a0000003d00000002025fe122980040000000010000000005265fe800000000000003ed"
    "0000000000000fa0000300000007000000011600f5efb25202046b320100"
)
EMPTY = bytes.fromhex(
    "000000000000000a0000003100000002024d4e8e17000000000001ffffffffffffffff00000000000003ed"
    "0000000000000fa000030000000700000000"
)
COMMIT = bytes.fromhex(
    "000000000000000c0000004200000002028f0424c600300000000000000000000007d000000000000007d0"
    "0000000000000fa00003ffffffff000000012000000008000000010c00000000000900"
)
ABORT = bytes.fromhex(
    "000000000000000c0000004200000002027b3af28e00300000000000000000000007d000000000000007d0"
    "0000000000000fa00003ffffffff000000012000000008000000000c00000000000900"
)
GOLDEN = [ONE_RECORD, IDEMPOTENT, COMPACTED, EMPTY, COMMIT, ABORT]
SECTIONS = {
    Codec.GZIP: "1f8b0800000000000000011400ebff26000000011a74657374206d65737361676531"
    "00e6e3914114000000",
    Codec.SNAPPY: "82534e4150505900000000010000000100000016144c26000000011a74657374206d"
    "6573736167653100",
    Codec.LZ4: "04224d186040821400008026000000011a74657374206d657373616765310000000000",
    Codec.ZSTD: "28b52ffd2014a1000026000000011a74657374206d6573736167653100",
}
PLAIN_SECTION = ONE_RECORD[61:]
CRC_BY_CODEC = {
    Codec.GZIP: 0x93CFD704,
    Codec.SNAPPY: 0xECCB9FFD,
    Codec.LZ4: 0x0A88F994,
    Codec.ZSTD: 0xEE689E39,
}


def only_batch(encoded):
    (batch,) = iterate_batches(encoded)
    return batch


@pytest.mark.parametrize("encoded", GOLDEN)
def test_golden_batches_are_read_and_written_byte_for_byte(encoded):
    batch = only_batch(encoded)
    assert batch.crc_is_valid
    assert encode_records(batch.header, batch.records()) == encoded


def test_fast_path_writes_the_documented_batch():
    assert encode_batch([b"test message1"], 0, 0, 1601008070323) == ONE_RECORD


def test_fields_of_golden_batches():
    first, second = only_batch(IDEMPOTENT).records()
    assert first == RecordView(10, 1000, b"k1", b"v1", (("h", b"\x01"), ("n", None)))
    assert second == RecordView(11, 1005, b"k2", None)
    header = only_batch(COMPACTED).header
    assert header.delete_horizon_ms == 86401000
    assert (header.last_offset, header.end_offset, header.last_sequence) == (11, 12, 8)
    assert only_batch(COMPACTED).records()[0].timestamp_ms == 1005
    commit = only_batch(COMMIT)
    assert commit.header.is_control
    assert commit.header.is_transactional
    assert control_type(commit.records()[0].key) is ControlType.COMMIT
    assert control_type(only_batch(ABORT).records()[0].key) is ControlType.ABORT
    assert only_batch(EMPTY).records() == []


@pytest.mark.parametrize(
    ("base_sequence", "last_offset_delta", "last_sequence"),
    [
        (7, 1, 8),
        (0, 0, 0),
        (INT32_MAX - 1, 1, INT32_MAX),
        (INT32_MAX, 0, INT32_MAX),
        (INT32_MAX, 1, 0),
        (INT32_MAX - 1, 3, 1),
        (INT32_MAX, INT32_MAX, INT32_MAX - 1),
        (-1, 3, -1),
    ],
)
def test_sequences_wrap_from_the_largest_int32_to_zero(
    base_sequence: int, last_offset_delta: int, last_sequence: int
) -> None:
    """DefaultRecordBatch.incrementSequence: the one after 2^31-1 is 0."""
    header = parse_batch_header(IDEMPOTENT)
    header = msgspec.structs.replace(
        header, base_sequence=base_sequence, last_offset_delta=last_offset_delta
    )
    assert header.last_sequence == last_sequence


def test_log_append_time_replaces_record_times():
    header = BatchHeader(
        base_offset=0,
        leader_epoch=0,
        attributes=8,
        last_offset_delta=0,
        base_timestamp_ms=1601008070323,
        max_timestamp_ms=1601008070999,
        records_count=1,
    )
    batch = only_batch(encode_records(header, only_batch(ONE_RECORD).records()))
    assert batch.header.crc == 0xDF2CE4F3
    assert batch.records()[0].timestamp_ms == 1601008070999


@pytest.mark.parametrize("codec", SECTIONS)
def test_golden_compressed_sections(codec):
    section = bytes.fromhex(SECTIONS[codec])
    assert decompress(codec, section) == PLAIN_SECTION
    length = len(section) + 61 - 12
    crc = CRC_BY_CODEC[codec].to_bytes(4, "big")
    attributes = int(codec).to_bytes(2, "big")
    head = ONE_RECORD[:8] + length.to_bytes(4, "big") + ONE_RECORD[12:17] + crc + attributes
    batch = only_batch(head + ONE_RECORD[23:61] + section)
    assert batch.crc_is_valid
    assert batch.records()[0].value == b"test message1"
    with pytest.raises(CorruptBatchError):
        decompress(codec, section[: len(section) // 2])


@pytest.mark.parametrize("codec", list(Codec))
@given(plain=st.binary(max_size=5000), repeat=st.integers(1, 30))
def test_compression_round_trip(codec, plain, repeat):
    assert decompress(codec, compress(codec, plain * repeat)) == plain * repeat


def test_snappy_without_framing_is_one_raw_block():
    assert decompress(Codec.SNAPPY, b"\x14\x4c" + PLAIN_SECTION) == PLAIN_SECTION


records = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=20),
        st.none() | st.binary(max_size=200),
        st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3),
        st.integers(-(2**40), 2**40),
    ),
    min_size=1,
    max_size=8,
)


@given(
    fields=records,
    base_offset=st.integers(0, 2**60),
    epoch=st.integers(0, 2**31 - 1),
    codec=st.sampled_from(list(Codec)),
)
def test_any_batch_round_trips(fields, base_offset, epoch, codec):
    views = [
        RecordView(base_offset + delta, 2**41 + time, key, value, tuple(headers))
        for delta, (key, value, headers, time) in enumerate(fields)
    ]
    header = BatchHeader(
        base_offset=base_offset,
        leader_epoch=epoch,
        attributes=codec,
        last_offset_delta=len(views) - 1,
        base_timestamp_ms=views[0].timestamp_ms,
        max_timestamp_ms=max(view.timestamp_ms for view in views),
        records_count=len(views),
    )
    batch = only_batch(encode_records(header, views))
    assert batch.crc_is_valid
    assert batch.records() == views
    assert batch.header.end_offset == base_offset + len(views)


@given(st.integers(0, 3 * len(ONE_RECORD)))
def test_cut_buffer_gives_its_whole_batches(size):
    whole = encode_batch([b"test message1"], 0, 0, 1) * 3
    assert len(list(iterate_batches(whole[:size]))) == size // len(ONE_RECORD)


def _read_until_damage(batches):
    read = []
    try:
        read.extend(batches)
    except CorruptBatchError as error:
        return read, str(error)
    return read, None


@given(st.data())
def test_frames_are_the_batches_of_a_cut_and_damaged_buffer(data):
    whole = IDEMPOTENT + ONE_RECORD + COMPACTED + EMPTY + ABORT
    buffer = bytearray(whole[: data.draw(st.integers(0, len(whole)))])
    for position in data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=2)):
        buffer[position : position + 1] = data.draw(st.binary(max_size=1))

    def frames():
        for batch in iterate_batches(buffer):
            end, header = batch.position + batch.header.size_bytes, batch.header
            offsets = header.base_offset, header.last_offset, header.leader_epoch
            yield BatchFrame(batch.position, end, *offsets, header.crc, header.max_timestamp_ms)

    assert _read_until_damage(iterate_frames(buffer)) == _read_until_damage(frames())


@given(st.data())
def test_damaged_batches_are_detected(data):
    damaged = bytearray(IDEMPOTENT)
    position = data.draw(st.integers(21, len(damaged) - 1))
    damaged[position] ^= data.draw(st.integers(1, 255))
    assert not only_batch(damaged).crc_is_valid


@given(st.binary(max_size=40))
def test_damaged_records_raise_nothing_else(section):
    encoded = bytearray(IDEMPOTENT)
    encoded[61 : 61 + len(section)] = section[: len(encoded) - 61]
    with contextlib.suppress(CorruptBatchError):
        only_batch(encoded[: len(IDEMPOTENT)]).records()


@pytest.mark.parametrize(
    ("position", "content"),
    [(8, b"\0\0\0\0"), (8, b"\xff\xff\xff\xff"), (16, b"\x01"), (16, b"\x03")],
)
def test_impossible_length_or_magic(position, content):
    damaged = bytearray(ONE_RECORD)
    damaged[position : position + len(content)] = content
    with pytest.raises(CorruptBatchError):
        list(iterate_batches(damaged))
    with pytest.raises(CorruptBatchError):
        parse_batch_header(damaged)


@pytest.mark.parametrize(("encoded", "length"), [(0x1E, 15), (0x03, -2)])
def test_a_field_is_not_longer_than_its_record(encoded, length):
    damaged = bytearray(ONE_RECORD)
    assert damaged[66] == 13 << 1
    damaged[66] = encoded
    with pytest.raises(CorruptBatchError, match=f"field of {length} bytes does not fit"):
        only_batch(damaged).records()


def test_short_header_and_unknown_codec():
    with pytest.raises(CorruptBatchError):
        parse_batch_header(ONE_RECORD[:60])
    damaged = bytearray(ONE_RECORD)
    damaged[22] = 5
    with pytest.raises(CorruptBatchError, match="codec 5"):
        only_batch(damaged).records()


def test_control_batch_of_a_leader_change():
    encoded = encode_control_batch([(ControlType.LEADER_CHANGE, LEADER_CHANGE)], 4, 2, 99)
    batch = only_batch(encoded)
    assert batch.crc_is_valid
    assert batch.header.is_control
    (record,) = batch.records()
    assert control_type(record.key) is ControlType.LEADER_CHANGE
    message = decode_control_value(ControlType.LEADER_CHANGE, record.value)
    assert [voter.voter_id for voter in message.voters] == [1, 2, 3]
    assert [voter.voter_id for voter in message.granting_voters] == [1, 2]
    assert encode_records(batch.header, [record]) == encoded


def test_control_values():
    one = decode_control_value(ControlType.LEADER_CHANGE, LEADER_CHANGE_1)
    assert one.voters[0].voter_directory_id.bytes == bytes(15) + b"\x09"
    header = decode_control_value(ControlType.SNAPSHOT_HEADER, SNAPSHOT_HEADER)
    assert header.version == 0
    footer = decode_control_value(ControlType.SNAPSHOT_FOOTER, bytes.fromhex("000000"))
    assert footer.version == 0
    level = decode_control_value(ControlType.KRAFT_VERSION, bytes.fromhex("0000000100"))
    assert level.k_raft_version == 1
    with pytest.raises(CorruptBatchError):
        decode_control_value(ControlType.LEADER_CHANGE, b"\0")
    with pytest.raises(CorruptBatchError, match="items in 0 bytes"):
        decode_control_value(ControlType.LEADER_CHANGE, bytes.fromhex("000000000001ffffffff0f"))
    with pytest.raises(CorruptBatchError):
        control_type(None)
    assert control_type(b"\0\0\0\x63") is None
