"""Variable-length integers and tagged-field sections."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.errors import RemoteProtocolError
from wire.primitives import (
    encode_unsigned_varint,
    encode_varint,
    encode_varlong,
    read_unsigned_varint,
    read_varint,
    read_varlong,
    skip_tagged_fields,
)

GOLDEN = {
    0: "00",
    -1: "01",
    1: "02",
    63: "7e",
    -64: "7f",
    64: "8001",
    -65: "8101",
    150: "ac02",
    300: "d804",
    8191: "fe7f",
    8192: "808001",
    2**31 - 1: "feffffff0f",
    -(2**31): "ffffffff0f",
}
GOLDEN_LONG = {2**63 - 1: "feffffffffffffffff01", -(2**63): "ffffffffffffffffff01"}


@pytest.mark.parametrize(("value", "encoded"), GOLDEN.items())
def test_golden_varints(value, encoded):
    assert encode_varint(value).hex() == encode_varlong(value).hex() == encoded
    assert read_varint(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)


@pytest.mark.parametrize(("value", "encoded"), GOLDEN_LONG.items())
def test_golden_varlongs(value, encoded):
    assert encode_varlong(value).hex() == encoded
    assert read_varlong(bytes.fromhex(encoded), 0) == (value, 10)


@given(st.integers(-(2**31), 2**31 - 1))
def test_varints_round_trip(value):
    encoded = encode_varint(value)
    assert read_varint(b"x" + encoded + b"y", 1) == (value, 1 + len(encoded))


@given(st.integers(-(2**63), 2**63 - 1))
def test_varlongs_round_trip(value):
    assert read_varlong(encode_varlong(value), 0)[0] == value


@given(st.integers(0, 2**32 - 1))
def test_unsigned_varints_round_trip(value):
    assert read_unsigned_varint(encode_unsigned_varint(value), 0)[0] == value


def test_too_long_and_cut_numbers():
    with pytest.raises(ValueError, match="longer than 5"):
        read_varint(b"\xff" * 5 + b"\x01", 0)
    with pytest.raises(ValueError, match="longer than 10"):
        read_varlong(b"\xff" * 10 + b"\x01", 0)
    with pytest.raises(IndexError):
        read_varint(b"\xff", 0)


def test_tagged_fields_are_skipped():
    section = b"\x02\x00\x01x\x07\x02yz"
    assert skip_tagged_fields(section + b"body", 0) == len(section)
    for cut in range(len(section)):
        with pytest.raises(RemoteProtocolError):
            skip_tagged_fields(section[:cut], 0)
