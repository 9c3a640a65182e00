"""OffsetCommit read at once: as kio reads it, or not at all."""

from typing import Any
from uuid import UUID

import pytest

from wire.messages import codec
from wire.messages.offset_commit_request import (
    CommittedTopic,
    PartitionCommit,
    PlainCommit,
    read_plain_commit,
)
from wire.types import TopicId

OFFSET_COMMIT = 8
HEAD = b"head"
ROWS = ((0, 5, 3, ""), (1 << 30, (1 << 62) + 1, -1, None))


def body_of(
    version: int,
    *topics: tuple[str, Any],
    group: str = "g\u00e9",
    member: str = "m",
    instance: str | None = None,
) -> bytes:
    """The bytes of a request; of a topic from version 10 on the id has its name 16 times."""
    new: Any = codec._module(OFFSET_COMMIT, version, "request")
    made = new.OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=7,
        member_id=member,
        group_instance_id=instance,
        topics=tuple(
            new.OffsetCommitRequestTopic(
                **(
                    {"topic_id": UUID(bytes=name.encode() * 16)}
                    if version >= 10
                    else {"name": name}
                ),
                partitions=tuple(
                    new.OffsetCommitRequestPartition(
                        partition_index=number,
                        committed_offset=offset,
                        committed_leader_epoch=epoch,
                        committed_metadata=text,
                    )
                    for number, offset, epoch, text in rows
                ),
            )
            for name, rows in topics
        ),
    )
    frame = codec.encode_request(OFFSET_COMMIT, version, 1, None, made)
    return frame[codec.split_request(frame)[1] :]


def read(version: int, body: bytes) -> PlainCommit | None:
    return read_plain_commit(version, bytearray(HEAD + body), len(HEAD))


def topic(version: int, name: str, *rows: tuple[int, int, int]) -> CommittedTopic:
    named = (None, TopicId(name.encode() * 16)) if version >= 10 else (name, None)
    return CommittedTopic(*named, tuple(PartitionCommit(*row) for row in rows))


@pytest.mark.parametrize("version", [8, 9, 10])
@pytest.mark.parametrize("instance", [None, "", "static"])
def test_a_plain_request(version: int, instance: str | None) -> None:
    body = body_of(version, ("t", ROWS), ("u", ROWS[:1]), ("v", ()), instance=instance)
    assert read(version, body) == PlainCommit(
        group_id="g\u00e9",
        generation_id_or_member_epoch=7,
        member_id="m",
        group_instance_id=instance,
        topics=(
            topic(version, "t", *(row[:3] for row in ROWS)),
            topic(version, "u", ROWS[0][:3]),
            topic(version, "v"),
        ),
    )
    assert read(version, body + b"left over") == read(version, body)
    assert read(version, body_of(version, group="", member="")) == PlainCommit(
        group_id="",
        generation_id_or_member_epoch=7,
        member_id="",
        group_instance_id=None,
        topics=(),
    )


@pytest.mark.parametrize("version", [8, 9, 10])
def test_a_cut_request_is_none(version: int) -> None:
    body = body_of(version, ("t", ROWS), instance="i")
    assert all(read(version, body[:size]) is None for size in range(len(body)))


@pytest.mark.parametrize("version", [8, 9, 10])
def test_every_changed_byte_is_read_as_by_kio_or_not_at_all(version: int) -> None:
    body = body_of(version, ("t", ROWS[:1]), ("u", ROWS[:1]), instance="i")
    for position in range(len(body)):
        for value in (0, 1, 2, 3, 127, 128, 200, 255):
            changed = body[:position] + bytes([value]) + body[position + 1 :]
            found = read(version, changed)
            if found is not None:
                assert found == of_kio(version, changed), f"{position=} {value=}"


def of_kio(version: int, body: bytes) -> PlainCommit:
    known = codec.decode_body_as_sent(OFFSET_COMMIT, version, body)
    return PlainCommit(
        group_id=known.group_id,
        generation_id_or_member_epoch=known.generation_id_or_member_epoch,
        member_id=known.member_id,
        group_instance_id=known.group_instance_id,
        topics=tuple(
            CommittedTopic(
                getattr(each, "name", None),
                TopicId((each.topic_id or UUID(int=0)).bytes) if version >= 10 else None,
                tuple(
                    PartitionCommit(
                        row.partition_index, row.committed_offset, row.committed_leader_epoch
                    )
                    for row in each.partitions
                ),
            )
            for each in known.topics
        ),
    )


@pytest.mark.parametrize(
    "body",
    [
        body_of(9, ("t", ROWS), group="g" * 127),
        body_of(9, ("t", ROWS), member="m" * 127),
        body_of(9, ("t", ROWS), instance="i" * 127),
        body_of(9, ("t" * 127, ROWS)),
        body_of(9, ("t", [(0, 5, -1, "m")])),
        body_of(9, ("t", [(number, 5, -1, "") for number in range(127)])),
        body_of(9, *[(str(number), ROWS) for number in range(127)]),
    ],
    ids=["group", "member", "instance", "topic", "text", "rows", "topics"],
)
def test_what_is_not_plain_is_none(body: bytes) -> None:
    assert read(9, body) is None


def test_the_longest_that_is_plain() -> None:
    rows = [(number, 5, -1, "") for number in range(126)]
    long = "x" * 126
    body = body_of(
        9, *[(long, rows[:1])] * 125, (long, rows), group=long, member=long, instance=long
    )
    assert read(9, body) == of_kio(9, body)


def test_older_versions_are_none() -> None:
    assert read(7, body_of(9, ("t", ROWS))) is None


GROUP, GENERATION, MEMBER, NULL, NONE = b"\2g", b"\0\0\0\7", b"\2m", b"\0", b"\1"
LONG = b"\xc8" + b"x" * 199
"""A text with a length of one byte that says that it has two."""
HEADS = GROUP + GENERATION + MEMBER + NULL


@pytest.mark.parametrize(
    "body",
    [
        NULL + GENERATION[1:] + MEMBER + NULL + NONE + b"\0",
        GROUP + GENERATION + NULL + NONE + b"\0",
        HEADS + NULL + b"\0",
        LONG + GENERATION + MEMBER + NULL + NONE + b"\0",
        GROUP + GENERATION + LONG + NULL + NONE + b"\0",
        GROUP + GENERATION + MEMBER + LONG + NONE + b"\0",
        HEADS + b"\xc8" + (b"\2t" + NONE + b"\0") * 199 + b"\0",
        HEADS + b"\2" + LONG + NONE + b"\0\0",
        HEADS + b"\2" + NULL + b"\0\0",
        HEADS + b"\2" + b"\x1f" + bytes(30) + NULL + b"\0\0",
        HEADS + b"\2\2t\xc8" + bytes(18) * 199 + b"\0\0",
    ],
    ids=[
        "no group", "no member", "no topics", "a long group", "a long member", "a long instance",
        "many topics", "a long name", "no name", "no partitions", "many partitions",
    ],
)  # fmt: skip
def test_lengths_that_only_look_like_plain_ones(body: bytes) -> None:
    """They would fit if each length was taken for a byte."""
    assert read(9, body) is None
