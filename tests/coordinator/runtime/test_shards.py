"""The shards of a topic, and the partition of a group."""

import pytest

from coordinator.records.codec import decode
from coordinator.records.kinds import KINDS
from coordinator.records.transaction import TransactionLogKey
from coordinator.runtime.shard import Shard
from coordinator.runtime.shards import (
    KEPT_LENGTH_MAX,
    Shards,
    _kept_partition,
    java_hash,
    partition_for,
    partition_of_key,
)
from tests.coordinator.golden import PARTITIONS, golden_records
from tests.coordinator.runtime.test_shard import LOAD_IN_PROGRESS, NOT_COORDINATOR, Setup


@pytest.mark.parametrize(("text", "number"), [
    ("", 0), ("a", 97), ("seed", 3526257),
    ("polygenelubricants", -(1 << 31)), ("\U0001f600", 0xD83D * 31 + 0xDE00),
])  # fmt: skip
def test_the_hash_is_javas(text: str, number: int) -> None:
    assert java_hash(text) == number


def test_the_smallest_hash_is_partition_zero() -> None:
    assert partition_for("polygenelubricants", 50) == 0
    assert partition_for("\U0001f600", 50) == abs(java_hash("\U0001f600")) % 50


@pytest.mark.parametrize("name", [name for name in PARTITIONS if "share" not in name])
def test_kafka_has_put_each_group_in_the_same_partition(name: str) -> None:
    topic, number = name.rsplit("-", 1)
    count = sum(other.startswith(topic) for other in PARTITIONS)
    keys = set()
    for record in golden_records(name):
        found = decode(KINDS[topic], record.view.key, record.view.value)
        if found is not None:
            key = found.key
            keys.add(
                key.transactional_id
                if isinstance(key, TransactionLogKey)
                else getattr(key, "group", None) or key.group_id  # type: ignore[attr-defined]
            )
    assert len(keys) > 2
    assert {partition_for(key, count) for key in keys} == {int(number)}


def test_a_partition_is_found_when_it_is_active() -> None:
    s, other = Setup(), Setup()
    shards: Shards[tuple[str, ...]] = Shards()
    shards.put(7, s.shard)
    shards.put(3, other.shard)
    assert (shards.of(7), shards.of(2)) == (LOAD_IN_PROGRESS, NOT_COORDINATOR)
    assert shards.find(7) is s.shard
    s.shard.activate()
    assert shards.of(7) is s.shard
    assert shards.active() == [s.shard]
    other.shard.activate()
    assert shards.active() == [other.shard, s.shard]
    assert [partition for partition, _ in shards] == [3, 7]
    shards.resign(7)
    shards.resign(7)
    assert (shards.of(7), shards.find(7)) == (NOT_COORDINATOR, None)
    assert s.machine.calls[-1] == "resigned"
    assert shards.active() == [other.shard]


def test_all_shards_flush_and_tick() -> None:
    s, other = Setup(), Setup()
    shards: Shards[tuple[str, ...]] = Shards()
    assert shards.next_ms() is None
    for number, setup in enumerate((s, other)):
        shard: Shard[tuple[str, ...]] = setup.shard
        shards.put(number, shard)
        shard.activate()
        setup.machine.due_ms = 1_000 + number
        setup.write("a")
    shards.flush()
    assert [len(setup.log.batches) for setup in (s, other)] == [1, 1]
    assert shards.next_ms() == 1_000
    shards.tick()
    assert ["tick" in setup.machine.calls for setup in (s, other)] == [True, False]


def test_the_partitions_of_short_ids_alone_are_kept() -> None:
    before = _kept_partition.cache_info().currsize
    short, long = "k" * KEPT_LENGTH_MAX, "k" * (KEPT_LENGTH_MAX + 1)
    found = [partition_for(each, 50) for each in (long, short, long, short)]
    assert found == [partition_of_key(each, 50) for each in (long, short)] * 2
    assert _kept_partition.cache_info().currsize == before + 1
