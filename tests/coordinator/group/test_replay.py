"""Replay of records from the log: whatever way a record takes, it means what `apply_all` says."""

import struct
from collections.abc import Sequence

import pytest

from coordinator.group import replay as replay_module
from coordinator.group.image import EMPTY, GroupsImage, apply_all
from coordinator.group.replay import replay
from coordinator.records.codec import decode, encode
from coordinator.records.group import (
    GroupMetadataKey,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coordinator.records.kinds import GROUP_KINDS
from coordinator.records.schema import CoordinatorRecord, CoordinatorRecordError
from coordinator.runtime.write import Applied
from tests.coordinator.group.values import CLASSIC, TOPIC_ID
from wire.batches.batch import RecordView
from wire.types import Offset


def value(offset: int = 7, **fields: object) -> OffsetCommitValue:
    filled = {"leader_epoch": 3, "metadata": "", "commit_timestamp": 1_000} | fields
    return OffsetCommitValue(offset=offset, **filled)  # type: ignore[arg-type]


def view(
    offset: int,
    of: OffsetCommitValue | None,
    *,
    version: int | None = None,
    group: str = "g",
    topic: str = "t",
    partition: int = 0,
) -> RecordView:
    key = OffsetCommitKey(group=group, topic=topic, partition=partition)
    return RecordView(Offset(offset), 50, *encode(CoordinatorRecord(key, of, version)))


def applied(views: Sequence[RecordView], producer_id: int | None = None) -> GroupsImage:
    """The image of records that are decoded one by one."""
    image = EMPTY
    for each in views:
        record = decode(GROUP_KINDS, each.key, each.value)
        if record is not None:
            at = Applied(each.offset, each.timestamp_ms, producer_id)
            image = apply_all(image, [(record, at)])
    return image


PLAIN = {
    "version 4": view(0, value()),
    "no epoch": view(0, value(leader_epoch=-1)),
    "an epoch, negative partition": view(0, value(leader_epoch=9), partition=-1),
    "a large partition": view(0, value(2**40), partition=2**31 - 1),
    "topic id": view(0, value(topic_id=TOPIC_ID)),
    "version 3": view(0, value(), version=3),
    "names that are not ASCII": view(0, value(), group="grün", topic="ß"),
    "no names": view(0, value(), group="", topic=""),
    "a name of 300 bytes": view(0, value(), group="g" * 300, topic="t" * 257),
}
OTHERS = {
    "version 4 with a text": view(0, value(metadata="text")),
    "version 3 with a text of a byte": view(0, value(metadata="x"), version=3),
    "version 2": view(0, value(leader_epoch=-1), version=2),
    "version 1 with an expiry": view(0, value(leader_epoch=-1, expire_timestamp=9), version=1),
    "version 0": view(0, value(leader_epoch=-1), version=0),
    "a text with a topic id": view(0, value(metadata="text", topic_id=TOPIC_ID)),
    "a text as long as a topic id": view(0, value(metadata="x" * 18)),
    "version 2, as long as version 4 and with its bytes where that has them": view(
        0, value(leader_epoch=-1, metadata="aa\1a", commit_timestamp=1024), version=2
    ),
    "version 2, the same with those of a topic id": view(
        0, value(leader_epoch=-1, metadata="aa\1" + 8 * "a" + "\1\0\x10" + 8 * "a"), version=2
    ),
}


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_commit_is_what_its_record_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = applied([PLAIN[name]])
    monkeypatch.setattr(replay_module, "decode", None)  # it is not asked
    assert replay(EMPTY, [PLAIN[name]], None) == expected


@pytest.mark.parametrize("name", OTHERS)
def test_other_commits_take_the_way_of_all_records(name: str) -> None:
    found = replay(EMPTY, [OTHERS[name]], None)
    assert found == applied([OTHERS[name]])
    assert found.offset_count == 1


def test_a_tag_that_is_not_the_topic_s_id_is_not_taken_for_it() -> None:
    # A text of one letter, and an unknown tag of 15 bytes: as long as a commit with a topic id.
    body = struct.pack(">hqi", 4, 7, 3) + b"\2x" + struct.pack(">q", 1_000) + b"\1\5\x0f"
    other = RecordView(Offset(0), 50, PLAIN["version 4"].key, body + bytes(15))
    (entry,) = replay(EMPTY, [other], None).offsets["g"].values()
    assert (entry.metadata, entry.topic_id) == ("x", bytes(16))
    tag = struct.pack(">hqi", 4, 7, 3) + b"\1" + struct.pack(">q", 1_000) + b"\1\5\x10" + TOPIC_ID
    (entry,) = (
        replay(EMPTY, [RecordView(Offset(0), 50, other.key, tag)], None).offsets["g"].values()
    )
    assert entry.topic_id == bytes(16)


def test_records_take_effect_in_order() -> None:
    views = [
        view(0, value(1)),
        view(0, value(0), topic="first"),
        view(1, value(2), partition=1),
        view(2, value(3), topic="u"),
        view(3, value(4), group="h"),
        view(4, None),  # a tombstone behind the commit of its partition
        view(5, value(5, metadata="text"), partition=1),
        view(5, value(2, metadata="text"), partition=2),
        view(6, value(6), partition=1),
        RecordView(Offset(7), 50, *encode(CoordinatorRecord(GroupMetadataKey(group="g"), CLASSIC))),
        view(8, value(8)),
        RecordView(Offset(9), 50, b"\0\x0fwhat coordinators of a later version write", b""),
        view(10, value(10), group="h", topic="u", partition=3),
        RecordView(
            Offset(11),
            50,
            *encode(
                CoordinatorRecord(
                    LegacyOffsetCommitKey(group="g", topic="u", partition=0), value(11)
                )
            ),
        ),
    ]
    found = replay(EMPTY, views, None)
    assert found == applied(views)
    assert [found.offsets["g"]["t", number].offset for number in (0, 1)] == [8, 6]
    assert found.offsets["g"]["u", 0].record_offset == 11
    assert found.offset_count == 7
    assert replay(replay(EMPTY, views[:6], None), views[6:], None) == found


def test_commits_of_a_transaction_are_pending() -> None:
    found = replay(EMPTY, [PLAIN["version 4"]], 77)
    assert found == applied([PLAIN["version 4"]], 77)
    assert (found.offset_count, list(found.pending)) == (0, [77])


KEY = PLAIN["version 4"].key or b""
BROKEN_KEYS = {
    "none": None,
    "empty": b"",
    "four bytes": b"\0\1\0\0",
    "a group longer than the key": b"\0\1\0\x09" + KEY[4:],
    "a group of null": b"\0\1\xff\xff" + KEY[4:],
    "a topic shorter than the key": KEY[:5] + b"\0\0" + KEY[7:],
    "a topic longer than the key": KEY[:5] + b"\0\2" + KEY[7:],
    "a type": b"\0\1",
    "a byte more": KEY + b"\0",
    "a byte less": KEY[:-1],
    "a group of a negative length": b"\0\1\x80\0" + KEY[4:],
    "a group of as many bytes as that is without a sign": b"\0\1\x80\0" + bytes(0x8000) + KEY[5:],
    "no UTF-8": b"\0\1\0\1\xff" + KEY[5:],
}


@pytest.mark.parametrize("name", BROKEN_KEYS)
def test_a_damaged_key_is_an_error_also_behind_a_sound_one(name: str) -> None:
    broken = RecordView(Offset(1), 50, BROKEN_KEYS[name], PLAIN["version 4"].value)
    with pytest.raises(CoordinatorRecordError):
        replay(EMPTY, [PLAIN["version 4"], broken], None)
    with pytest.raises(CoordinatorRecordError):
        replay(EMPTY, [broken], None)


def test_a_key_of_another_type_is_no_commit() -> None:
    other = RecordView(Offset(0), 50, b"\0\x0f" + KEY[2:], PLAIN["version 4"].value)
    assert replay(EMPTY, [other], None) is EMPTY
    with pytest.raises(CoordinatorRecordError, match="after the fields of GroupMetadataKey"):
        replay(EMPTY, [RecordView(Offset(0), 50, b"\0\2" + KEY[2:], other.value)], None)


START = struct.pack(">qi", 7, 3)
DAMAGED_VALUES = {
    "empty": b"",
    "a byte": b"\0",
    "a byte less": b"\0\4" + bytes(21),
    "version 5": b"\0\5" + START + b"\1" + bytes(9),
    "version 3, a text that is not there": b"\0\3" + START + b"\0\5" + bytes(8),
    "version 4, no text": b"\0\4" + START + b"\0" + bytes(9),
    "version 4, a tag that is not there": b"\0\4" + START + b"\1" + bytes(8) + b"\1",
    "no text, with a topic id": b"\0\4" + START + b"\0" + bytes(8) + b"\1\0\x10" + TOPIC_ID,
}


@pytest.mark.parametrize("content", DAMAGED_VALUES.values(), ids=DAMAGED_VALUES)
def test_a_damaged_value_is_an_error(content: bytes) -> None:
    with pytest.raises(CoordinatorRecordError):
        replay(EMPTY, [RecordView(Offset(0), 50, KEY, content)], None)


def test_the_id_of_a_topic_is_one_object_for_all_its_offsets() -> None:
    views = [view(n, value(topic_id=TOPIC_ID), partition=n) for n in range(2)]
    first, second = replay(EMPTY, views, None).offsets["g"].values()
    assert first.topic_id is second.topic_id
    assert replay_module._topic_id.cache_info().maxsize == 1024, "what logs hold has a bound"
