"""Versions, nulls, defaults, tagged fields and damage of coordinators' records."""

from typing import Any

import pytest
from msgspec.structs import replace

from coordinator.records import codec
from coordinator.records.codec import decode, decoded, encode, key_type
from coordinator.records.consumer import (
    AssignedPartitions,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    PartitionRacks,
    SubscribedTopic,
)
from coordinator.records.group import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coordinator.records.json_form import content_of, struct_to_json
from coordinator.records.kinds import GROUP_KINDS, TRANSACTION_KINDS
from coordinator.records.schema import CoordinatorRecord, CoordinatorRecordError
from coordinator.records.transaction import (
    TransactionLogKey,
    TransactionLogValue,
    TransactionPartitions,
)
from wire.primitives import encode_unsigned_varint
from wire.types import TopicId

KEY = OffsetCommitKey(group="g", topic="t", partition=7)
TOPIC_ID = TopicId(b"i" * 16)
OFFSET = OffsetCommitValue(
    offset=5, leader_epoch=3, metadata="m", commit_timestamp=6, expire_timestamp=-1,
    topic_id=TOPIC_ID,
)  # fmt: skip
HEAD = "0001" + "000167" + "000174" + "00000007"


def value_of(record: CoordinatorRecord) -> str:
    content = encode(record)[1]
    assert content is not None
    return content.hex()


def read(key: bytes, value: bytes | None, kinds: Any = GROUP_KINDS) -> CoordinatorRecord:
    found = decode(kinds, key, value)
    assert found is not None
    return found


@pytest.mark.parametrize(("version", "layout"), [
    (0, "0000 0000000000000005 00016d 0000000000000006"),
    (1, "0001 0000000000000005 00016d 0000000000000006 ffffffffffffffff"),
    (2, "0002 0000000000000005 00016d 0000000000000006"),
    (3, "0003 0000000000000005 00000003 00016d 0000000000000006"),
    (4, "0004 0000000000000005 00000003 026d 0000000000000006 01 00 10" + "69" * 16),
])  # fmt: skip
def test_every_version_of_an_offset(version: int, layout: str) -> None:
    record = CoordinatorRecord(KEY, OFFSET, version)
    key, value = encode(record)
    assert (key.hex(), value_of(record)) == (HEAD, layout.replace(" ", ""))
    found = read(key, value).value
    assert isinstance(found, OffsetCommitValue)
    assert found == replace(
        OFFSET,
        leader_epoch=3 if version >= 3 else -1,
        topic_id=TOPIC_ID if version >= 4 else bytes(16),
    )


def test_an_expiry_is_written_in_version_1_and_loses_what_that_has_not() -> None:
    record = CoordinatorRecord(KEY, replace(OFFSET, expire_timestamp=9))
    assert value_of(record)[:4] == "0001"
    assert read(*encode(record)).value == replace(
        OFFSET, expire_timestamp=9, leader_epoch=-1, topic_id=TopicId(bytes(16))
    )


def test_a_default_is_not_tagged() -> None:
    record = CoordinatorRecord(KEY, replace(OFFSET, topic_id=TopicId(bytes(16))))
    assert value_of(record).endswith("0600")


@pytest.mark.parametrize(
    ("fields", "version", "is_plain"),
    [
        ({}, 4, True),
        ({"offset": 2**63 - 1, "leader_epoch": -1, "commit_timestamp": -1}, 4, True),
        ({"topic_id": TopicId(bytes(16))}, 4, False),
        ({"metadata": "m"}, 4, False),
        ({"expire_timestamp": 9}, 1, False),
    ],
)
def test_what_is_written_by_one_packing_is_the_same(
    fields: dict[str, Any], version: int, is_plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = replace(OFFSET, **({"metadata": ""} | fields))
    written, same = (CoordinatorRecord(KEY, value, each) for each in (None, version))
    assert encode(written) == encode(same)
    assert (value.plain_bytes() is not None) is is_plain
    if is_plain:
        monkeypatch.setattr(codec, "_value_writer", None)
        assert encode(written)[1] == value.plain_bytes(), "nothing else is asked"


def test_the_key_of_old_brokers_has_another_type() -> None:
    old = LegacyOffsetCommitKey(group="g", topic="t", partition=7)
    key, value = encode(CoordinatorRecord(old, None))
    assert (key.hex(), value) == ("0000" + HEAD[4:], None)
    assert read(key, None) == CoordinatorRecord(old, None)
    assert type(read(key, None).key) is LegacyOffsetCommitKey
    assert (key_type(key), key_type(encode(CoordinatorRecord(KEY, None))[0])) == (0, 1)


MEMBER = MemberMetadata(
    member_id="m", group_instance_id="i", client_id="c", client_host="/h", rebalance_timeout=1,
    session_timeout=2, subscription=b"\1\2", assignment=b"",
)  # fmt: skip
GROUP = GroupMetadataValue(
    protocol_type="p", generation=4, protocol=None, leader="m", current_state_timestamp=8,
    members=(MEMBER,),
)  # fmt: skip


@pytest.mark.parametrize(("version", "lost"), [
    (0, {"group_instance_id": None, "rebalance_timeout": -1}),
    (1, {"group_instance_id": None}), (2, {"group_instance_id": None}), (3, {}), (4, {}),
])  # fmt: skip
def test_every_version_of_a_classic_group(version: int, lost: dict[str, Any]) -> None:
    record = CoordinatorRecord(GroupMetadataKey(group="g"), GROUP, version)
    found = read(*encode(record)).value
    timestamp = 8 if version >= 2 else -1
    members = (replace(MEMBER, **lost),)
    assert found == replace(GROUP, current_state_timestamp=timestamp, members=members)


def test_nulls_of_both_forms() -> None:
    for version, text in ((3, "ffff"), (4, "00")):
        record = CoordinatorRecord(
            GroupMetadataKey(group="g"), replace(GROUP, leader=None, members=()), version
        )
        rest = "00000000" if version == 3 else "0100"
        start = f"000{version}" + ("000170" if version == 3 else "0270") + "00000004"
        assert value_of(record) == start + text * 2 + "0000000000000008" + rest
        assert read(*encode(record)).value == replace(GROUP, leader=None, members=())


@pytest.mark.parametrize("version", [3, 4])
def test_a_null_where_none_may_be(version: int) -> None:
    broken = replace(GROUP, protocol_type=None)
    with pytest.raises(CoordinatorRecordError, match=r"GroupMetadataValue.protocol_type is null"):
        encode(CoordinatorRecord(GroupMetadataKey(group="g"), broken, version))
    null = "ffff" if version == 3 else "00"
    with pytest.raises(CoordinatorRecordError, match=r"GroupMetadataValue.protocol_type is null"):
        decode(GROUP_KINDS, b"\0\2\0\1g", bytes.fromhex(f"000{version}{null}00000000"))


CONSUMER = ConsumerGroupMemberMetadataValue(
    instance_id=None, rack_id=None, client_id="", client_host="", subscribed_topic_names=("a",),
    subscribed_topic_regex=None, server_assignor=None, classic_member_metadata=None,
)  # fmt: skip


@pytest.mark.parametrize(("classic", "tags"), [
    (None, "01000100"),
    (ClassicMemberMetadata(), "00"),
    (ClassicMemberMetadata(session_timeout_ms=2, supported_protocols=(
        ClassicProtocol(name="p", metadata=b"x"),)), "01000c010000000202027002780000"),
])  # fmt: skip
def test_what_a_member_said_to_join(classic: Any, tags: str) -> None:
    value = replace(CONSUMER, classic_member_metadata=classic)
    record = CoordinatorRecord(ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"), value)
    assert value_of(record).endswith("ffffffff00" + tags)
    assert read(*encode(record)).value == value
    shown = struct_to_json(value, 0)
    assert ("classicMemberMetadata" in shown) == (classic != ClassicMemberMetadata())


@pytest.mark.parametrize("epochs", [None, (), (4, 5)])
def test_the_epochs_of_partitions(epochs: Any) -> None:
    part = AssignedPartitions(topic_id=TOPIC_ID, partitions=(0, 1), assignment_epochs=epochs)
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=1, previous_member_epoch=0, state=2, assigned_partitions=(part,),
        partitions_pending_revocation=(),
    )  # fmt: skip
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m")
    assert read(*encode(CoordinatorRecord(key, value))).value == value


def test_arrays_of_texts_and_structs() -> None:
    topic = SubscribedTopic(
        topic_id=TOPIC_ID, topic_name="t", num_partitions=1,
        partition_metadata=(PartitionRacks(partition=0, racks=("r", "s")),),
    )  # fmt: skip
    value = ConsumerGroupPartitionMetadataValue(topics=(topic, topic))
    key = ConsumerGroupPartitionMetadataKey(group_id="g")
    assert read(*encode(CoordinatorRecord(key, value))).value == value


TRANSACTION = TransactionLogValue(
    producer_id=7, producer_epoch=1, transaction_timeout_ms=2, transaction_status=1,
    transaction_partitions=(TransactionPartitions(topic="t", partition_ids=(3, 4)),),
    transaction_last_update_timestamp_ms=5, transaction_start_timestamp_ms=6,
)  # fmt: skip


def test_both_versions_of_a_transaction() -> None:
    key = TransactionLogKey(transactional_id="x")
    old = CoordinatorRecord(key, TRANSACTION, 0)
    assert value_of(old) == (
        "0000" "0000000000000007" "0001" "00000002" "01" "00000001" "000174" "00000002"
        "00000003" "00000004" "0000000000000005" "0000000000000006"
    )  # fmt: skip
    assert read(*encode(old), TRANSACTION_KINDS).value == TRANSACTION
    more = replace(
        TRANSACTION, previous_producer_id=8, next_producer_id=9, next_producer_epoch=2,
        client_transaction_version=2,
    )  # fmt: skip
    new = CoordinatorRecord(key, more)
    assert value_of(new)[:4] == "0001"
    assert value_of(new).endswith("0400080000000000000008010800000000000000090202000203020002")
    assert read(*encode(new), TRANSACTION_KINDS).value == more
    none = CoordinatorRecord(key, replace(TRANSACTION, transaction_partitions=None), 0)
    assert "ffffffff" in value_of(none)
    assert read(*encode(none), TRANSACTION_KINDS).value == none.value


def test_a_field_that_the_version_cannot_carry() -> None:
    value = replace(TRANSACTION, previous_producer_id=8)
    record = CoordinatorRecord(TransactionLogKey(transactional_id="x"), value, 0)
    with pytest.raises(
        CoordinatorRecordError, match=r"previous_producer_id is set, but version 0 cannot carry it"
    ):
        encode(record)


def test_tagged_fields_of_later_versions_are_skipped() -> None:
    key, value = encode(CoordinatorRecord(KEY, OFFSET))
    assert value is not None
    with_more = value[:-19] + b"\2" + value[-18:] + b"\x05\2zz"
    assert read(key, with_more).value == OFFSET


def test_a_tagged_field_that_does_not_fill_its_size() -> None:
    key, value = encode(CoordinatorRecord(KEY, OFFSET))
    assert value is not None
    longer = value[:-17] + b"\x11" + value[-16:] + b"z"
    with pytest.raises(CoordinatorRecordError, match=r"topic_id does not fill its tagged field"):
        decode(GROUP_KINDS, key, longer)


def test_every_cut_and_every_surplus_is_an_error() -> None:
    records = [
        CoordinatorRecord(KEY, OFFSET),
        CoordinatorRecord(KEY, OFFSET, 3),
        CoordinatorRecord(GroupMetadataKey(group="g"), GROUP),
        CoordinatorRecord(GroupMetadataKey(group="g"), GROUP, 4),
    ]
    for record in records:
        key, value = encode(record)
        assert value is not None
        for end in range(len(value)):
            with pytest.raises(CoordinatorRecordError):
                decode(GROUP_KINDS, key, value[:end])
        for end in range(len(key)):
            with pytest.raises(CoordinatorRecordError):
                decode(GROUP_KINDS, key[:end], None)
        for bad in ((key + b"\0", None), (key, value + b"\0")):
            with pytest.raises(CoordinatorRecordError, match="1 bytes after the fields"):
                decode(GROUP_KINDS, *bad)


def test_lengths_beyond_the_record() -> None:
    for value in ("0003" + "7fff", "0004" + "ffffffff0f", "0003" + "000170" + "00000004" + "ffff"
                  + "ffff" + "0000000000000008" + "7fffffff"):  # fmt: skip
        with pytest.raises(CoordinatorRecordError, match="cut or damaged"):
            decode(GROUP_KINDS, b"\0\2\0\1g", bytes.fromhex(value))


def test_the_last_length_is_compared_with_what_is_left() -> None:
    """Without the comparison a shorter value would be read."""
    value = encode(CoordinatorRecord(GroupMetadataKey(group="g"), GROUP))[1]
    assert value is not None
    with pytest.raises(CoordinatorRecordError, match="5 bytes announced, 0 left"):
        decode(GROUP_KINDS, b"\0\2\0\1g", value[:-4] + b"\0\0\0\5")


def test_types_and_versions_that_are_not_known() -> None:
    assert decode(GROUP_KINDS, b"\0\x0f?", b"?") is None
    assert decoded(TRANSACTION_KINDS, b"\0\1?", b"?") is None
    for version in (-1, 5):
        head = version.to_bytes(2, "big", signed=True)
        with pytest.raises(CoordinatorRecordError, match=f"version {version} is unknown"):
            decode(GROUP_KINDS, encode(CoordinatorRecord(KEY, None))[0], head)
    with pytest.raises(CoordinatorRecordError, match="no key"):
        decode(GROUP_KINDS, None, None)
    with pytest.raises(AssertionError, match="version=5"):
        encode(CoordinatorRecord(KEY, OFFSET, 5))


def test_values_that_do_not_fit() -> None:
    plain = replace(OFFSET, metadata="")
    broken_fields = {"offset": 1 << 63}, {"topic_id": TopicId(b"short")}
    for broken in (replace(each, **fields) for each in (OFFSET, plain) for fields in broken_fields):
        with pytest.raises(CoordinatorRecordError, match=" version 4 cannot be written"):
            encode(CoordinatorRecord(KEY, broken))
    with pytest.raises(CoordinatorRecordError, match="cannot be written"):
        encode(CoordinatorRecord(KEY, replace(OFFSET, metadata="x" * 32_768), 3))


def test_the_json_of_a_tombstone_has_no_value() -> None:
    found = decoded(GROUP_KINDS, *encode(CoordinatorRecord(KEY, None)))
    assert found is not None
    assert content_of(found, 1) == {
        "key": {"type": "1", "data": {"group": "g", "topic": "t", "partition": 7}}, "value": None,
    }  # fmt: skip
    assert (found.kind.name, found.version) == ("OffsetCommit", None)


@pytest.mark.parametrize("length", [0, 126, 127, 128, 300])
def test_texts_of_every_length_are_read_as_they_were_written(length: int) -> None:
    record = CoordinatorRecord(KEY, replace(OFFSET, metadata="x" * length))
    key, value = encode(record)
    assert read(key, value) == record


def test_a_text_that_is_cut_by_one_byte_is_refused() -> None:
    key, _ = encode(CoordinatorRecord(GroupMetadataKey(group="group"), None))
    assert read(key, None).key == GroupMetadataKey(group="group")
    with pytest.raises(CoordinatorRecordError, match="5 bytes announced, 4 left"):
        decode(GROUP_KINDS, key[:-1], None)


@pytest.mark.parametrize("tag", [1, 127, 128, 255, 256])
@pytest.mark.parametrize("size", [0, 1, 127, 128, 256])
def test_tags_that_are_not_known_are_skipped_whatever_their_size(tag: int, size: int) -> None:
    key, value = encode(CoordinatorRecord(KEY, replace(OFFSET, topic_id=TopicId(bytes(16)))))
    assert value is not None
    assert value.endswith(b"\0")
    head = encode_unsigned_varint(tag) + encode_unsigned_varint(size)
    assert read(key, value[:-1] + b"\1" + head + bytes(size)) == read(key, value)
    if size:
        with pytest.raises(CoordinatorRecordError, match="cut or damaged"):
            decode(GROUP_KINDS, key, value[:-1] + b"\1" + head + bytes(size - 1))
