"""Timers of snapshots: slices that are read and written, the next snapshot, retention."""

import random

import pytest
from msgspec.structs import replace

from kernel.config import MetadataLogConfig, QuorumConfig
from kernel.kernel import Kernel
from kernel.opening import open_storage
from kernel.quorum.snapshot_reading import SLICE_MS, SLICE_RECORDS, SnapshotReading
from kernel.quorum.snapshots import RETENTION_CHECK_MS
from metadata.image import EMPTY
from metadata.records import TopicRecord
from metadata.snapshot import encode_snapshot
from network.clock import Clock, Now
from network.timers import (
    NEVER_MS,
    RETENTION,
    SNAPSHOT_INTERVAL,
    SNAPSHOT_READING,
    SNAPSHOT_WRITING,
)
from raft.events import ResponseReceived
from raft.messages import FetchSnapshotResponse
from simulator.cluster.memory_vfs import MemoryVfs
from tests.kernel.harness import CLUSTER_ID, World, config_of, create_topic_body
from wire.types import DirectoryId, LeaderEpoch, NodeId, Offset, OffsetAndEpoch, TopicId

START_MS = 1_000
HOLD_MS_MAX = 10
SNAPSHOT_ID = OffsetAndEpoch(Offset(1_000), LeaderEpoch(2))
TOPICS = [
    TopicRecord(name=f"t{number}", topic_id=TopicId(number.to_bytes(16)))
    for number in range(1, 3 * SLICE_RECORDS)
]


def encoded(topics: list[TopicRecord]) -> bytes:
    parts = encode_snapshot(
        topics, level=25, epoch=LeaderEpoch(2), last_contained_timestamp_ms=1, timestamp_ms=2
    )
    return b"".join(parts)


CONTENT = encoded(TOPICS)


class Rig:
    """The reading of a snapshot that has come in one chunk."""

    def __init__(self, quorum: QuorumConfig | None = None) -> None:
        self.clock = Clock(Now(START_MS, START_MS))
        self.reading = SnapshotReading(self.clock, lambda: EMPTY, HOLD_MS_MAX)
        if quorum is not None:
            vfs, config = MemoryVfs(), config_of(1, quorum=quorum)
            opened = open_storage(config, vfs, None, self.clock, [], installed=lambda _: None)
            self.reading = opened.reading
        response = FetchSnapshotResponse(
            snapshot_id=SNAPSHOT_ID, size_bytes=len(CONTENT), chunk=CONTENT
        )
        self.event = ResponseReceived(destination_id=NodeId(2), correlation_id=1, response=response)
        assert self.reading.hold(self.event)

    @property
    def at_ms(self) -> int:
        return self.clock.timers.at_ms[SNAPSHOT_READING]

    def tick(self) -> ResponseReceived | None:
        """Tick when it is due."""
        self.clock.set(Now(self.at_ms, self.at_ms))
        return self.reading.tick()


def test_each_slice_is_due_after_the_one_before_until_the_response_goes_on() -> None:
    rig = Rig()
    assert rig.at_ms == START_MS
    for number in range(1, 3):
        assert rig.tick() is None
        assert rig.at_ms == START_MS + number * SLICE_MS
    assert rig.reading.tick() is None, "not due"
    released = rig.tick()
    while released is None:
        released = rig.tick()
    assert released is rig.event
    assert rig.at_ms == NEVER_MS


@pytest.mark.parametrize(("fetch_timeout_ms", "hold_ms"), [(0, 25), (50, 25), (60, 30)])
def test_a_response_is_held_half_the_fetch_time_out_that_is_used(
    fetch_timeout_ms: int, hold_ms: int
) -> None:
    rig = Rig(QuorumConfig(fetch_timeout_ms=fetch_timeout_ms))
    assert rig.tick() is None
    released = {}
    for after_ms in (hold_ms - 1, hold_ms):
        rig.clock.set(Now(START_MS + after_ms, START_MS + after_ms))
        released[after_ms] = rig.reading.tick()
    assert released == {hold_ms - 1: None, hold_ms: rig.event}


def test_what_is_finished_without_its_slices_is_not_due() -> None:
    rig = Rig()
    rig.reading.finish(SNAPSHOT_ID, CONTENT)
    assert rig.at_ms == NEVER_MS
    assert rig.reading.tick() is None
    again = rig.reading.finish(SNAPSHOT_ID, CONTENT)
    assert len(again.result(EMPTY)[0].topics) == len(TOPICS), "nothing of it was fetched"


def test_what_was_read_in_slices_is_not_read_again() -> None:
    rig = Rig()
    rig.tick()
    begun = rig.reading._loading
    loading = rig.reading.finish(SNAPSHOT_ID, CONTENT)
    assert loading is begun
    assert len(loading.result(EMPTY)[0].topics) == len(TOPICS)


def test_behind_a_damaged_chunk_no_further_one_is_held() -> None:
    damaged = bytearray(CONTENT)
    damaged[30] ^= 0xFF
    half = len(CONTENT) // 2
    reading = SnapshotReading(clock := Clock(Now(START_MS, START_MS)), lambda: EMPTY, HOLD_MS_MAX)

    def is_held(position: int, end: int) -> bool:
        response = FetchSnapshotResponse(
            snapshot_id=SNAPSHOT_ID,
            size_bytes=len(CONTENT),
            position_bytes=position,
            chunk=bytes(damaged[position:end]),
        )
        event = ResponseReceived(destination_id=NodeId(2), correlation_id=1, response=response)
        return reading.hold(event)

    assert is_held(0, half)
    clock.set(Now(START_MS, START_MS))
    assert reading.tick() is not None, "the damage ends the wait"
    assert not is_held(half, len(CONTENT))
    assert is_held(0, half), "from its beginning it is read again"


@pytest.mark.parametrize(
    ("offset", "name"), [(SNAPSHOT_ID.offset, "x1"), (SNAPSHOT_ID.offset + 1, "t1")]
)
def test_another_file_than_was_fetched_is_read_from_its_beginning(offset: int, name: str) -> None:
    rig = Rig()
    rig.tick()
    snapshot_id = OffsetAndEpoch(Offset(offset), LeaderEpoch(2))
    content = encoded([replace(TOPICS[0], name=name), *TOPICS[1:]])
    assert len(content) == len(CONTENT)
    image, _ = rig.reading.finish(snapshot_id, content).result(EMPTY)
    assert image.provenance.end_offset == offset
    assert name in image.topic_id_by_name


def test_retention_is_checked_once_a_minute() -> None:
    world = World(1)
    made = Kernel(
        config_of(1, 1),
        world.nodes[1].vfs,
        random.Random(0),
        cluster_id=CLUSTER_ID,
        directory_ids={"/data": DirectoryId(bytes(16))},
        now=Now(START_MS, START_MS),
    )
    assert made._clock.timers.at_ms[RETENTION] == START_MS + RETENTION_CHECK_MS
    world.start(1)
    at_ms = world.kernel(1)._clock.timers.at_ms
    check_ms = world.now_ms + RETENTION_CHECK_MS
    assert at_ms[RETENTION] == check_ms
    world.run_for(check_ms - 1 - world.now_ms)
    assert at_ms[RETENTION] == check_ms
    world.run_for(1)
    assert at_ms[RETENTION] == check_ms + RETENTION_CHECK_MS


def test_a_snapshot_is_written_a_slice_each_millisecond() -> None:
    growth = MetadataLogConfig(
        record_bytes_between_snapshots=20_000, snapshot_interval_ms_max=0, idle_interval_ms_max=0
    )
    world = World(1, metadata_log=growth)
    world.start_all()
    world.run_until(world.is_ready)
    at_ms = world.kernel(1)._clock.timers.at_ms
    world.client(1).send(19, create_topic_body("a", partitions=3 * SLICE_RECORDS))
    world.run_until(lambda: at_ms[SNAPSHOT_WRITING] != NEVER_MS)
    job = world.kernel(1).snapshots._job
    assert job is not None
    assert job.writer.size_bytes == 0
    begin_ms, slices = world.now_ms, 0
    while at_ms[SNAPSHOT_WRITING] != NEVER_MS:
        slices += 1
        assert at_ms[SNAPSHOT_WRITING] == begin_ms + slices * SLICE_MS
        world.run_for(SLICE_MS)
    assert slices > 3


def test_where_nothing_is_new_the_next_snapshot_is_an_interval_later() -> None:
    hourly = MetadataLogConfig(snapshot_interval_ms_max=3_600_000, idle_interval_ms_max=0)
    world = World(1, metadata_log=hourly)
    world.start_all()
    at_ms = world.kernel(1)._clock.timers.at_ms
    first_ms = world.now_ms + 3_600_000
    assert at_ms[SNAPSHOT_INTERVAL] == first_ms
    world.run_for(3_600_010)
    assert len(world.kernel(1).snapshot_files.list()) == 1
    for number in (1, 2, 3):
        assert at_ms[SNAPSHOT_INTERVAL] == first_ms + number * 3_600_000
        world.run_for(3_600_000)
    assert len(world.kernel(1).snapshot_files.list()) == 1
