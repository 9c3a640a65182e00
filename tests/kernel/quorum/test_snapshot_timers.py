"""When slices of a fetched snapshot are read, and when retention looks at snapshots."""

from kernel.quorum.snapshot_reading import SLICE_MS, SLICE_RECORDS, SnapshotReading
from kernel.quorum.snapshots import RETENTION_CHECK_MS
from metadata.image import EMPTY
from metadata.records import TopicRecord
from metadata.snapshot import encode_snapshot
from network.clock import Clock, Now
from network.timers import NEVER_MS, RETENTION, SNAPSHOT_READING
from raft.events import ResponseReceived
from raft.messages import FetchSnapshotResponse
from tests.kernel.harness import World
from wire.types import LeaderEpoch, NodeId, Offset, OffsetAndEpoch, TopicId

START_MS = 1_000
HOLD_MS_MAX = 10
SNAPSHOT_ID = OffsetAndEpoch(Offset(1_000), LeaderEpoch(2))
TOPICS = [
    TopicRecord(name=f"t{number}", topic_id=TopicId(number.to_bytes(16)))
    for number in range(1, 3 * SLICE_RECORDS)
]
CONTENT = b"".join(
    encode_snapshot(
        TOPICS, level=25, epoch=LeaderEpoch(2), last_contained_timestamp_ms=1, timestamp_ms=2
    )
)


class Rig:
    """The reading of a snapshot that has come in one chunk."""

    def __init__(self) -> None:
        self.clock = Clock(Now(START_MS, START_MS))
        self.reading = SnapshotReading(self.clock, lambda: EMPTY, HOLD_MS_MAX)
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


def test_what_is_finished_without_its_slices_is_not_due() -> None:
    rig = Rig()
    rig.reading.finish(SNAPSHOT_ID, CONTENT)
    assert rig.at_ms == NEVER_MS
    assert rig.reading.tick() is None


def test_retention_is_checked_once_a_minute() -> None:
    world = World(1)
    world.start(1)
    at_ms = world.kernel(1)._clock.timers.at_ms
    check_ms = world.now_ms + RETENTION_CHECK_MS
    assert at_ms[RETENTION] == check_ms
    world.run_for(check_ms - 1 - world.now_ms)
    assert at_ms[RETENTION] == check_ms
    world.run_for(1)
    assert at_ms[RETENTION] == check_ms + RETENTION_CHECK_MS
