"""Bytes of subscriptions and assignments of classic clients."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.group.consumer.client_protocol import (
    MalformedProtocolError,
    Subscription,
    assignment_bytes,
    assignment_of,
    subscription_of,
    version_of,
)


def text(name: str | None) -> bytes:
    if name is None:
        return struct.pack(">h", -1)
    encoded = name.encode()
    return struct.pack(">h", len(encoded)) + encoded


def subscription(version: int, rack: str | None = "r", user: bytes | None = b"xy") -> bytes:
    parts = [struct.pack(">hi", version, 2), text("a"), text("b")]
    parts.append(struct.pack(">i", -1) if user is None else struct.pack(">i", len(user)) + user)
    if version >= 1:
        parts += [struct.pack(">i", 1), text("a"), struct.pack(">iii", 2, 0, 3)]
    if version >= 2:
        parts.append(struct.pack(">i", 7))
    if version >= 3:
        parts.append(text(rack))
    return b"".join(parts)


@pytest.mark.parametrize(
    ("version", "read_as", "owned", "rack"),
    [(0, 0, {}, None), (1, 1, {"a": (0, 3)}, None), (2, 2, {"a": (0, 3)}, None),
     (3, 3, {"a": (0, 3)}, "r"), (9, 3, {"a": (0, 3)}, "r")],
)  # fmt: skip
def test_a_subscription(version: int, read_as: int, owned: dict, rack: str | None) -> None:
    expected = Subscription(version=read_as, topics=("a", "b"), owned=owned, rack_id=rack)
    assert subscription_of(subscription(version)) == expected
    assert subscription_of(subscription(version, user=None)) == expected
    assert version_of(subscription(version)) == read_as


@pytest.mark.parametrize("rack", [None, ""])
def test_no_rack(rack: str | None) -> None:
    assert subscription_of(subscription(3, rack=rack)).rack_id is None


def test_bytes_that_end_too_early_are_no_subscription() -> None:
    whole = subscription(3)
    for end in range(len(whole)):
        with pytest.raises(MalformedProtocolError):
            subscription_of(whole[:end])
    subscription_of(whole + b"more")


@pytest.mark.parametrize(
    "content",
    [
        struct.pack(">hi", -1, 0) + struct.pack(">i", -1),  # version
        struct.pack(">hi", 0, -1),  # count of topics
        struct.pack(">hi", 0, 1 << 30),
        struct.pack(">hi", 0, 1) + text(None) + struct.pack(">i", -1),  # a topic without a name
        struct.pack(">hih", 0, 1, -2) + b"abcd",  # length of a name
        struct.pack(">hih", 0, 1, 1) + b"\xff" + struct.pack(">i", -1),  # UTF-8
        struct.pack(">hi", 0, 0) + struct.pack(">i", -2),  # length of user data
    ],
)
def test_bytes_that_are_no_subscription(content: bytes) -> None:
    with pytest.raises(MalformedProtocolError):
        subscription_of(content)


PARTITIONS = st.dictionaries(
    st.text(max_size=3), st.lists(st.integers(0, 2**31 - 1), max_size=3).map(tuple), max_size=3
)


@given(PARTITIONS, st.integers(0, 3))
def test_assignments_come_back(partitions: dict[str, tuple[int, ...]], version: int) -> None:
    content = assignment_bytes(partitions, version)
    assert version_of(content) == version
    assert assignment_of(content) == (partitions, b"")


def test_an_assignment_is_as_kafkas() -> None:
    """Of a recorded GroupMetadata (group `seed`), payload of its member's assignment."""
    assert assignment_bytes({"orders": (0, 1, 2)}, 3) == bytes.fromhex(
        "0003" "00000001" "0006" "6f7264657273"
        "00000003" "00000000" "00000001" "00000002" "ffffffff"
    )  # fmt: skip
    assert assignment_of(b"") == ({}, b"")
    user = struct.pack(">hi", 1, 0) + struct.pack(">i", 2) + b"xy"
    assert assignment_of(user) == ({}, b"xy")
    with pytest.raises(MalformedProtocolError):
        assignment_of(user[:-1])
    with pytest.raises(MalformedProtocolError):
        assignment_of(struct.pack(">h", -1) + user[2:])
