"""Every record that Kafka 4.3.1 wrote is read, written again byte for byte, printed as by Kafka."""

import json
from collections import Counter

import pytest

from coordinator.records.codec import decode, decoded, encode, key_type
from coordinator.records.json_form import content_of
from coordinator.records.kinds import KINDS
from tests.coordinator.golden import PARTITIONS, golden_records

COUNTS = {
    "OffsetCommit": 541, "GroupMetadata": 90, "ConsumerGroupMetadata": 14,
    "ConsumerGroupPartitionMetadata": 2, "ConsumerGroupMemberMetadata": 12,
    "ConsumerGroupTargetAssignmentMetadata": 9, "ConsumerGroupTargetAssignmentMember": 14,
    "ConsumerGroupCurrentMemberAssignment": 17, "ConsumerGroupRegularExpression": 3,
    "TransactionLog": 62, "ShareSnapshot": 9, "ShareUpdate": 1,
}  # fmt: skip
SHARE_AND_STREAMS = {*range(9, 16), *range(17, 24)}


def dumps(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


@pytest.mark.parametrize("partition", PARTITIONS)
def test_every_record_is_kafkas(partition: str) -> None:
    kinds = KINDS[partition.rsplit("-", 1)[0]]
    for record in golden_records(partition):
        view = record.view
        found = decoded(kinds, view.key, view.value)
        if found is None:
            assert key_type(view.key) in SHARE_AND_STREAMS
            continue
        assert encode(found.record) == (view.key, view.value)
        assert decode(kinds, view.key, view.value) == found.record
        shown = content_of(found, key_type(view.key))
        value = shown["value"]
        printed = "<DELETE>" if value is None else dumps(value)
        ours = f"key: {dumps(shown['key'])} payload: {printed}"
        theirs = record.line[record.line.index("key: {") :]
        if found.kind.name == "GroupMetadata" and value is not None and value["data"]["members"]:
            ours, theirs = ours.split('"members"', maxsplit=1)[0], theirs.split('"members"')[0]
        assert ours == theirs


def test_all_kinds_are_there() -> None:
    counts: Counter[str] = Counter()
    for partition in PARTITIONS:
        kinds = KINDS[partition.rsplit("-", 1)[0]]
        for record in golden_records(partition):
            found = decoded(kinds, record.view.key, record.view.value)
            counts["unknown" if found is None else found.kind.name] += 1
    assert counts == COUNTS | {"unknown": 55}
    assert {kind.name for kinds in KINDS.values() for kind in kinds.values()} == COUNTS.keys()
