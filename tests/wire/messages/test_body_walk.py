"""The walk of a body: each length is compared with the bytes that are there, nulls are refused."""

import pytest

from wire.messages.body_walk import checked_body
from wire.messages.codec import entity_class

HEARTBEAT, DESCRIBE_GROUPS, INIT_PRODUCER_ID, DESCRIBE_TOPIC_PARTITIONS = 12, 15, 22, 75


def walked(api_key: int, version: int, body: bytes) -> bytes:
    return checked_body(entity_class(api_key, version, "request"), body)


PLAIN = b"\0\1g" + b"\0\0\0\5" + b"\0\2me"
COMPACT = b"\2g" + b"\0\0\0\5" + b"\3me" + b"\0" + b"\0"


@pytest.mark.parametrize(("version", "body"), [(0, PLAIN), (4, COMPACT)])
def test_each_cut_of_a_body_is_refused(version: int, body: bytes) -> None:
    assert walked(HEARTBEAT, version, body) == body
    for size in range(len(body)):
        with pytest.raises(IndexError):
            walked(HEARTBEAT, version, body[:size])


def test_a_number_that_is_cut_at_the_end() -> None:
    body = b"\xff\xff" + b"\0\0\0\1"
    assert walked(INIT_PRODUCER_ID, 0, body) == body
    with pytest.raises(IndexError):
        walked(INIT_PRODUCER_ID, 0, body[:-1])


@pytest.mark.parametrize(("version", "body"), [
    (0, b"\xff\xff" + PLAIN[3:]), (4, b"\0" + COMPACT[2:]),
])  # fmt: skip
def test_a_text_that_may_not_be_null(version: int, body: bytes) -> None:
    with pytest.raises(ValueError, match="null for a string"):
        walked(HEARTBEAT, version, body)


def test_a_null_that_may_be() -> None:
    assert walked(HEARTBEAT, 3, b"\0\1g" + b"\0\0\0\5" + b"\0\1m" + b"\xff\xff")


@pytest.mark.parametrize("count", [126, 127, 128, 255, 256])
def test_counts_and_lengths_around_those_of_one_byte(count: int) -> None:
    number = count + 1
    size = bytes([number]) if number < 128 else bytes([number & 127 | 128, number >> 7])
    for body in (size + b"\2g" * count + b"\0\0", b"\2" + size + b"g" * count + b"\0\0"):
        assert walked(DESCRIBE_GROUPS, 5, body) == body
        with pytest.raises(IndexError):
            walked(DESCRIBE_GROUPS, 5, body[:-2])


@pytest.mark.parametrize(("version", "head"), [(4, b"\0\0\0\4"), (5, b"\5")])
def test_an_item_has_a_byte_at_least(version: int, head: bytes) -> None:
    with pytest.raises(IndexError, match="array of 4 items in 3 bytes"):
        walked(DESCRIBE_GROUPS, version, head + b"\0\0\0")


@pytest.mark.parametrize(("version", "head"), [(4, b"\xff\xff\xff\xff"), (5, b"\0")])
def test_an_array_that_may_not_be_null(version: int, head: bytes) -> None:
    with pytest.raises(ValueError, match="null for a array"):
        walked(DESCRIBE_GROUPS, version, head + b"\0\0")


@pytest.mark.parametrize(("head", "is_null"), [(255, True), (128, True), (127, False), (1, False)])
def test_a_struct_is_null_behind_a_negative_byte(head: int, is_null: bool) -> None:
    topics, limit, cursor = b"\1", b"\0\0\0\7", b"\2t\0\0\0\1\0"
    body = topics + limit + bytes([head]) + (b"" if is_null else cursor) + b"\0"
    assert walked(DESCRIBE_TOPIC_PARTITIONS, 0, body) == body
    with pytest.raises(IndexError):
        walked(DESCRIBE_TOPIC_PARTITIONS, 0, body[:-1])
