"""The image of groups and offsets: what each record and marker means."""

from random import Random

import pytest
from immutables import Map

from coordinator.group.image import (
    EMPTY,
    GroupsImage,
    OffsetAndMetadata,
    SimpleGroup,
    apply,
    apply_all,
    apply_marker,
)
from coordinator.records.codec import decode
from coordinator.records.group import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coordinator.records.kinds import GROUP_KINDS
from coordinator.records.schema import CoordinatorRecord
from coordinator.runtime.write import Applied
from tests.coordinator.golden import batches
from tests.coordinator.group.values import CLASSIC, TOPIC_ID
from wire.batches.control_records import ControlType, control_type
from wire.types import Offset


def committed(
    offset: int, *, group: str = "g", topic: str = "t", partition: int = 0, **fields: object
) -> CoordinatorRecord:
    value = {"leader_epoch": -1, "metadata": "", "commit_timestamp": 1_000} | fields
    return CoordinatorRecord(
        OffsetCommitKey(group=group, topic=topic, partition=partition),
        OffsetCommitValue(offset=offset, **value),  # type: ignore[arg-type]
    )


def removed(*, group: str = "g", topic: str = "t", partition: int = 0) -> CoordinatorRecord:
    return CoordinatorRecord(OffsetCommitKey(group=group, topic=topic, partition=partition), None)


def group_record(group: str, value: GroupMetadataValue | None = CLASSIC) -> CoordinatorRecord:
    return CoordinatorRecord(GroupMetadataKey(group=group), value)


def image_of(*records: CoordinatorRecord | tuple[int, CoordinatorRecord]) -> GroupsImage:
    """The image of records at their places; those with a producer are of its transaction."""
    image = EMPTY
    for offset, each in enumerate(records):
        producer_id, record = each if isinstance(each, tuple) else (None, each)
        image = apply(image, record, Applied(Offset(offset), 9, producer_id))
    return image


def offset_of(image: GroupsImage, group: str = "g", partition: int = 0) -> int:
    entry = image.offset(group, ("t", partition))
    assert entry is not None
    return entry.offset


def check(image: GroupsImage) -> None:
    """INV-GI-1, INV-GI-2, INV-GI-3."""
    rows = {(p, *key) for p, of_producer in image.pending.items() for key in of_producer}
    opened = {
        (p, group, *at)
        for group, of_group in image.open.items()
        for at, producers in of_group.items()
        for p in producers
    }
    assert rows == opened
    assert {*image.offsets, *image.open} <= set(image.groups)
    assert all(image.offsets.values())
    assert all(image.pending.values())
    assert all(all(of_group.values()) and of_group for of_group in image.open.values())
    assert image.offset_count == sum(map(len, image.offsets.values()))


def test_a_commit_is_kept_with_the_offset_of_its_record() -> None:
    image = image_of(
        committed(1), committed(7, leader_epoch=3, metadata="m", topic_id=TOPIC_ID)
    )  # fmt: skip
    assert image.offset("g", ("t", 0)) == OffsetAndMetadata(
        offset=7, leader_epoch=3, metadata="m", commit_timestamp_ms=1_000,
        expire_timestamp_ms=None, topic_id=TOPIC_ID, record_offset=Offset(1),
    )  # fmt: skip
    assert image.groups == Map({"g": SimpleGroup()})
    assert image.offset("g", ("t", 1)) is image.offset("other", ("t", 0)) is None


def test_what_a_commit_has_not_is_none() -> None:
    entry = image_of(committed(1, expire_timestamp=66)).offset("g", ("t", 0))
    assert entry is not None
    assert (entry.leader_epoch, entry.expire_timestamp_ms) == (None, 66)


def test_the_key_of_old_brokers_is_the_same_partition() -> None:
    old = CoordinatorRecord(
        LegacyOffsetCommitKey(group="g", topic="t", partition=0), committed(8).value
    )
    entry = image_of(committed(1), old).offset("g", ("t", 0))
    assert entry is not None
    assert entry.offset == 8


def test_a_tombstone_removes_an_offset_and_pending_ones_of_all_producers() -> None:
    image = image_of(
        committed(1), (70, committed(2)), (71, committed(3)), (70, committed(4, partition=1))
    )
    gone = apply(image, removed(), Applied(Offset(9), 0))
    check(gone)
    assert gone.offsets == Map()
    assert sorted(gone.pending) == [70]
    assert not gone.is_open("g", ("t", 0))
    assert gone.is_open("g", ("t", 1))
    assert "g" in gone.groups
    assert apply(gone, removed(), Applied(Offset(10), 0)) == gone
    assert apply(EMPTY, removed(), Applied(Offset(0), 0)) == EMPTY


def test_offsets_of_a_transaction_are_pending_until_its_marker() -> None:
    image = image_of(committed(1), (70, committed(2)), (70, committed(3, group="h", partition=4)))
    check(image)
    assert [e.offset for e in image.offsets["g"].values()] == [1]
    assert "h" not in image.offsets
    assert image.groups["h"] == SimpleGroup()
    assert image.is_open("g", ("t", 0))
    done = apply_marker(image, 70, is_commit=True)
    check(done)
    assert (offset_of(done), offset_of(done, "h", 4)) == (2, 3)
    assert (done.pending, done.open) == (Map(), Map())
    dropped = apply_marker(image, 70, is_commit=False)
    assert (dropped.offsets, dropped.pending, dropped.open) == (image.offsets, Map(), Map())
    assert apply_marker(image, 71, is_commit=True) is image


def test_the_later_record_counts_not_the_later_marker() -> None:
    image = image_of(committed(1), (70, committed(2)), committed(3))
    assert offset_of(apply_marker(image, 70, is_commit=True)) == 3
    image = image_of(committed(1), committed(3), (70, committed(2)))
    assert offset_of(apply_marker(image, 70, is_commit=True)) == 2


def test_one_of_two_producers_stays_open() -> None:
    image = image_of((70, committed(1)), (71, committed(2)))
    left = apply_marker(image, 70, is_commit=True)
    check(left)
    assert left.is_open("g", ("t", 0))
    assert left.open["g"]["t", 0] == {71}


def test_a_classic_group_is_its_record() -> None:
    image = image_of(committed(1), group_record("g"))
    assert image.groups["g"] is CLASSIC
    image = apply(image, committed(2), Applied(Offset(2), 0))
    assert image.groups["g"] is CLASSIC
    gone = apply(image, group_record("g", None), Applied(Offset(3), 0))
    assert "g" not in gone.groups
    assert apply(gone, group_record("g", None), Applied(Offset(4), 0)) == gone


def test_kafkas_log_is_loaded() -> None:
    """The last offsets of Kafka's log, with its transactions, found in another way."""
    for partition in ("__consumer_offsets-0", "__consumer_offsets-1", "__consumer_offsets-2"):
        image, last = EMPTY, {}
        pending: dict[int, dict[tuple[str, str, int], int]] = {}
        for batch in batches(partition):
            header = batch.header
            for view in batch.records():
                if header.is_control:
                    is_commit = control_type(view.key) is ControlType.COMMIT
                    image = apply_marker(image, header.producer_id, is_commit=is_commit)
                    mine = pending.pop(header.producer_id, {})
                    last.update(mine if is_commit else {})
                    continue
                record = decode(GROUP_KINDS, view.key, view.value)
                if record is None:
                    continue
                producer_id = header.producer_id if header.is_transactional else None
                image = apply(image, record, Applied(view.offset, view.timestamp_ms, producer_id))
                if isinstance(record.key, OffsetCommitKey):
                    key = record.key
                    at = (key.group, key.topic, key.partition)
                    if record.value is None:
                        last.pop(at, None)
                    else:
                        offset = record.value.offset  # type: ignore[attr-defined]
                        of = last if producer_id is None else pending.setdefault(producer_id, {})
                        of[at] = offset
            check(image)
        found = {
            (group, *at): entry.offset
            for group, of_group in image.offsets.items()
            for at, entry in of_group.items()
        }
        assert found == last
        assert len(found) > 5


@pytest.mark.parametrize("seed", range(20))
def test_any_history_agrees_with_plain_dictionaries(seed: int) -> None:
    rng, image = Random(seed), EMPTY
    offsets: dict[tuple[str, str, int], tuple[int, int]] = {}
    pending: dict[int, dict[tuple[str, str, int], tuple[int, int]]] = {}
    for place in range(120):
        key = (rng.choice("gh"), rng.choice("tu"), rng.randrange(2))
        group, topic, partition = key
        producer_id, kind = rng.choice((70, 71)), rng.randrange(10)
        at = Applied(Offset(place), 0)
        if kind < 3:
            record = committed(place, group=group, topic=topic, partition=partition)
            image = apply(image, record, at)
            offsets[key] = (place, place)
        elif kind < 7:
            record = committed(place, group=group, topic=topic, partition=partition)
            image = apply(image, record, Applied(Offset(place), 0, producer_id))
            pending.setdefault(producer_id, {})[key] = (place, place)
        elif kind == 7:
            image = apply(image, removed(group=group, topic=topic, partition=partition), at)
            offsets.pop(key, None)
            for of_producer in pending.values():
                of_producer.pop(key, None)
        else:
            image = apply_marker(image, producer_id, is_commit=kind == 8)
            for done, entry in pending.pop(producer_id, {}).items():
                if kind == 8 and entry[1] > offsets.get(done, (0, -1))[1]:
                    offsets[done] = entry
        check(image)
        assert offsets == {
            (g, *p): (e.offset, e.record_offset)
            for g, of_group in image.offsets.items()
            for p, e in of_group.items()
        }


def any_record(rng: Random, place: int) -> CoordinatorRecord:
    group, topic, partition = rng.choice("gh"), rng.choice("tu"), rng.randrange(2)
    match rng.randrange(8):
        case 0:
            return removed(group=group, topic=topic, partition=partition)
        case 1:
            return group_record(group)
        case 2:
            return group_record(group, None)
        case _:
            return committed(place, group=group, topic=topic, partition=partition)


@pytest.mark.parametrize("seed", range(20))
def test_records_at_once_and_one_after_the_other_are_the_same(seed: int) -> None:
    rng, whole, single = Random(seed), EMPTY, EMPTY
    for start in range(0, 120, 12):
        placed = [
            (any_record(rng, place), Applied(Offset(place), 0, rng.choice((None, None, 70))))
            for place in range(start, start + rng.randrange(12))
        ]
        whole = apply_all(whole, placed)
        for record, at in placed:
            single = apply(single, record, at)
        assert whole == single


def test_commits_that_follow_each_other_change_each_map_once() -> None:
    image = image_of(committed(1, group="g"))
    other = committed(4, group="h", partition=1)
    changed = apply_all(
        image,
        [
            (committed(2, group="g", partition=1), Applied(Offset(1), 0)),
            (committed(3, group="h"), Applied(Offset(2), 0)),
            (other, Applied(Offset(3), 0)),
        ],
    )
    assert changed.offset_count == 4
    assert changed.groups["h"] == SimpleGroup()
    assert {at: entry.offset for at, entry in changed.offsets["h"].items()} == {
        ("t", 0): 3, ("t", 1): 4,
    }  # fmt: skip
    assert apply_all(image, []) is image
