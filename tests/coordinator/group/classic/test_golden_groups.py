"""Kafka's own log of groups loads into what its tools printed while it was written."""

import json
import struct
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from coordinator.group.classic.record import group_record, loaded_group
from coordinator.group.classic.room import ClassicRoom
from coordinator.group.classic.settings import ClassicSettings
from coordinator.group.machine import GroupMachine, OffsetsConfig
from coordinator.records.codec import decode, encode
from coordinator.records.group import GroupMetadataKey, GroupMetadataValue
from coordinator.records.kinds import GROUP_KINDS
from coordinator.runtime.shard import Shard
from network.clock import Clock, Now
from tests.coordinator.golden import batches, golden_records
from tests.coordinator.memory_log import MemoryShardLog
from wire.types import LeaderEpoch, Offset

PRINTED = Path(__file__).resolve().parents[3] / "golden" / "coordinator" / "classic-groups.json"
PARTITIONS = [f"__consumer_offsets-{number}" for number in range(3)]
PRINTED_MS = 1_795_394_800_000
"""Between the last change before the tools ran and the first after."""
CLASSIC = (
    "g-classic",
    "g-librdkafka",
    "g-meta",
    "g-static",
    "g-txn-offsets",
    "g-txn-second",
    "seed",
)


def rows(name: str) -> list[dict[str, str]]:
    """The table that a tool printed, by the names of its columns."""
    lines = [line for line in json.loads(PRINTED.read_text())[name]["stdout"] if line.strip()]
    columns = lines[0].split()
    return [dict(zip(columns, line.split(), strict=True)) for line in lines[1:]]


@cache
def rooms(until_ms: int) -> tuple[tuple[Shard[Any], ClassicRoom], ...]:
    """The shards of all partitions, loaded up to a time."""
    found = []
    for partition in PARTITIONS:
        clock = Clock(Now(0, until_ms))
        room = ClassicRoom(clock, ClassicSettings())
        machine = GroupMachine(clock, OffsetsConfig(), room.rules, (room,))
        shard = Shard(machine, MemoryShardLog(), clock, epoch=LeaderEpoch(1), timeout_ms=5_000)
        for batch in batches(partition):
            views = list(batch.records())
            if batch.header.max_timestamp_ms <= until_ms:
                end_offset = Offset(views[-1].offset + 1)
                shard.replay(batch.header, views, high_watermark=end_offset)
        shard.activate()
        found.append((shard, room))
    return tuple(found)


def seen(group_id: str, find: str) -> Any:
    (found,) = (
        row for _, room in rooms(PRINTED_MS) if (row := getattr(room, find)(group_id)) is not None
    )
    return found


def test_list_of_groups() -> None:
    states = {row["GROUP"]: row["STATE"] for row in rows("consumer-groups-list-state")}
    types = {row["GROUP"]: row["TYPE"] for row in rows("consumer-groups-list-type")}
    listed = {
        group_id: room.listed(group_id)
        for shard, room in rooms(PRINTED_MS)
        for group_id in shard.committed.groups
        if room.listed(group_id) is not None
    }
    for group_id in CLASSIC:
        assert listed[group_id].group_state == states[group_id]
        assert listed[group_id].group_type.capitalize() == types[group_id]


@pytest.mark.parametrize("name", ["classic", "static"])
def test_state_of_a_group(name: str) -> None:
    (row,) = rows(f"consumer-groups-describe-{name}-state-verbose")
    group = seen(f"g-{name}", "described")
    assert group.protocol_data == row["ASSIGNMENT-STRATEGY"]
    assert group.group_state == row["STATE"]
    assert str(len(group.members)) == row["#MEMBERS"]


@pytest.mark.parametrize("name", ["classic", "static"])
def test_members_of_a_group(name: str) -> None:
    printed = {
        (
            row["CONSUMER-ID"],
            row.get("GROUP-INSTANCE-ID"),
            row["HOST"],
            row["CLIENT-ID"],
            row["CURRENT-ASSIGNMENT"],
        )
        for row in rows(f"consumer-groups-describe-{name}-members-verbose")
    }
    group = seen(f"g-{name}", "described")
    assert {
        (
            member.member_id,
            member.group_instance_id,
            member.client_host,
            member.client_id,
            assigned(member.member_assignment),
        )
        for member in group.members
    } == printed


def assigned(assignment: bytes) -> str:
    """Topics and partitions of a consumer's assignment as the tool prints them."""
    (count,) = struct.unpack_from(">i", assignment, 2)
    position, found = 6, []
    for _ in range(count):
        (size,) = struct.unpack_from(">h", assignment, position)
        position += 2 + size
        topic = assignment[position - size : position].decode()
        (partition_count,) = struct.unpack_from(">i", assignment, position)
        partitions = struct.unpack_from(f">{partition_count}i", assignment, position + 4)
        position += 4 + 4 * partition_count
        found.append(f"{topic}:{','.join(map(str, partitions))}")
    return ";".join(sorted(found))


def test_every_record_of_a_classic_group_is_written_again_as_it_was() -> None:
    count = 0
    for partition in PARTITIONS:
        for golden in golden_records(partition):
            key, value = golden.view.key, golden.view.value
            if key is None or value is None or key[:2] != b"\0\2":
                continue
            record = decode(GROUP_KINDS, key, value)
            assert record is not None
            assert isinstance(record.key, GroupMetadataKey)
            assert isinstance(record.value, GroupMetadataValue)
            again = group_record(loaded_group(record.key.group, record.value))
            assert encode(again) == (key, value)
            count += 1
    assert count > 60
