"""The shards of one topic at this broker.

A partition that this broker begins to lead gets a shard, which loads its log in slices of turns;
one that it leads no longer, or that is deleted or offline, loses its shard. What the replicas do to
a partition is only noted, and acted on by `go_on`: no shard is called from inside an append.

    INV-CB-1  a shard is of a partition of the topic that this broker leads, or is about to resign

apache/kafka: coordinator-common/.../runtime/CoordinatorRuntime.java (scheduleLoadOperation,
scheduleUnloadOperation), core/.../server/metadata/BrokerMetadataPublisher.scala
"""

from collections import Counter, deque
from collections.abc import Callable
from typing import Final, Generic

import msgspec

from broker.coordinators.figures import LOOK_UNITS, LoadTimes, ShardFigures
from broker.coordinators.loading import Loading
from broker.coordinators.replica_log import ReplicaLog
from broker.effects import Log, LogLevel
from broker.services import Services
from coordinator.records.schema import CoordinatorRecordError
from coordinator.runtime.machine import ImageT, Machine
from coordinator.runtime.shard import Shard, ShardState
from coordinator.runtime.shards import Shards, partition_for
from metadata.image import Image
from replication.leader.appends import LEADER_ALONE
from replication.leader.leadership import Leadership
from replication.replica_manager import ReplicaManager
from storage.errors import CorruptLogError
from wire.batches.compression import Codec
from wire.errors import ApiError, CorruptBatchError, ErrorCode
from wire.types import TopicId, TopicIdPartition

FLUSH_UNITS: Final = 40
"""Cost of a flush: a batch is encoded and appended."""
CHANGE_UNITS: Final = 10
"""Cost of a look at a partition whose role, epoch or high watermark has changed."""
LINGER_MS: Final = 5
"""Bound of the time for which writes wait while requests come that may write to the same batches;
without such requests they do not wait. Kafka's `group.coordinator.append.linger.ms` -1, ADAPTIVE,
does so too, and waits no longer than the events that are queued."""
ADAPTIVE: Final = -1
"""Time for which writes wait as long as more come; others say how long they wait in any case."""
_NOT_COORDINATOR: Final = ApiError(ErrorCode.not_coordinator)


class ShardSettings(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Settings of shards: time-out of writes (ms), bound of reads at loading, batches."""

    timeout_ms: int = 5_000
    load_bytes_max: int = 5 * 1024 * 1024
    codec: Codec = Codec.NONE
    linger_ms: int = ADAPTIVE
    """Time for which writes are gathered for a batch."""
    required_acks: int = LEADER_ALONE
    """-1: nothing is written while fewer replicas than the minimum are in sync."""


def _none_comes() -> bool:
    return False


class Coordinator(Generic[ImageT]):
    """The coordinator of a topic.

    Args:
        topic: its name.
        make_machine: makes what the shard of a partition runs, for each leadership.
        replicas: of the broker.
        services: of the step.
        settings: of the shards.
        on_failure: called with a partition whose log directory failed, and the error.
        are_more_coming: says if requests wait to be taken, for which what is written waits.
    """

    def __init__(
        self,
        topic: str,
        make_machine: Callable[[int], Machine[ImageT]],
        *,
        replicas: ReplicaManager,
        services: Services,
        settings: ShardSettings,
        on_failure: Callable[[TopicIdPartition, Exception], None],
        are_more_coming: Callable[[], bool] = _none_comes,
    ) -> None:
        self.topic = topic
        self._make_machine = make_machine
        self._replicas = replicas
        self._services = services
        self._clock, self._budget = services.clock, services.budget
        self._settings = settings
        self._on_failure = on_failure
        self._shards: Shards[ImageT] = Shards()
        self._topic_id: TopicId | None = None
        self._partition_count = 0
        self._changed: dict[int, None] = {}
        """Partitions that are to be looked at, in the order in which they changed."""
        self._buffered: dict[int, None] = {}
        """Partitions whose shards are to be flushed."""
        self._buffered_ms = 0
        """Instant (monotonic ms) from which the first of them waits."""
        self._are_more_coming = are_more_coming
        self._loadings: deque[Loading[ImageT]] = deque()
        self._load_times = LoadTimes()
        self._looked = -1
        """Partition at which the last look ended."""
        self._due: dict[int, int] = {}
        """Instants of the next tick by partition."""
        self._touched: set[int] = set()
        """Partitions whose next tick may be another."""

    # -- what others ask ------------------------------------------------------------------------

    @property
    def partition_count(self) -> int:
        """Number of partitions of the topic; 0 if there is none."""
        return self._partition_count

    def of(self, key: str) -> Shard[ImageT] | ApiError:
        """The active shard of a group or transactional id.

        NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS otherwise.
        """
        if not self._partition_count:
            return _NOT_COORDINATOR
        return self.of_partition(partition_for(key, self._partition_count))

    def of_partition(self, number: int) -> Shard[ImageT] | ApiError:
        """The active shard of a partition; errors as `of`."""
        self._touched.add(number)
        return self._shards.of(number)

    def active(self) -> list[Shard[ImageT]]:
        """All active shards, by partition."""
        self.touch_all()
        return self._shards.active()

    def committed_images(self) -> dict[int, ImageT]:
        """The committed image of each active shard, by partition."""
        return {
            number: shard.committed
            for number, shard in self._shards
            if shard.state is ShardState.ACTIVE
        }

    def touch_all(self) -> None:
        """Look at the timers of all shards again: something was written that no request asked."""
        self._touched.update(number for number, _ in self._shards)

    @property
    def loading_count(self) -> int:
        """Number of shards that load."""
        return len(self._loadings)

    def shard_figures(self) -> ShardFigures:
        """The shards by state, and the times that they took to load."""
        average_ms, longest_ms = self._load_times.average_and_max_ms(self._clock.now_ms)
        return ShardFigures(
            states=Counter(shard.state for _, shard in self._shards),
            load_ms_average=average_ms,
            load_ms_max=longest_ms,
        )

    def look(self) -> list[Shard[ImageT]]:
        """Count what the active shards have, some of it; return them."""
        shards = [(n, each) for n, each in self._shards if each.state is ShardState.ACTIVE]
        begin = next((i for i, (n, _) in enumerate(shards) if n >= self._looked), 0)
        units = LOOK_UNITS
        for number, shard in shards[begin:] + shards[:begin]:
            self._looked = number
            units = shard.machine.look(units)
            if not units:
                break
        return [shard for _, shard in shards]

    # -- images and replicas --------------------------------------------------------------------

    def publish(self, image: Image) -> None:
        """Take the topic of the newest image; its roles follow, partition by partition."""
        topic_id = image.topic_id_by_name.get(self.topic)
        if topic_id != self._topic_id:
            self._topic_id = topic_id
            self._changed.update(dict.fromkeys(number for number, _ in self._shards))
        self._partition_count = 0 if topic_id is None else len(image.topics[topic_id].partitions)

    def noticed(self, key: TopicIdPartition) -> None:
        """Note that a partition has another role, epoch or high watermark."""
        if key[0] == self._topic_id:
            self._changed[key[1]] = None

    # -- the turn -------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """True if something is to be flushed, looked at or loaded."""
        return bool(self._changed or self._loadings or (self._buffered and not self._lingers))

    def go_on(self) -> None:
        """Flush what was written, follow partitions that changed, load some records."""
        budget = self._budget
        while self._buffered and budget.has_room and not self._lingers:
            number = next(iter(self._buffered))
            del self._buffered[number]
            shard = self._shards.find(number)
            if shard is not None:
                shard.flush()
                self._touched.add(number)  # a failed one is tried again by a timer of the machine
            budget.spend(FLUSH_UNITS)
        while self._changed and budget.has_room:
            number = next(iter(self._changed))
            del self._changed[number]
            self._follow(number)
            budget.spend(CHANGE_UNITS)
        while self._loadings and budget.has_room:
            budget.spend(self._load(self._loadings[0]))

    def next_ms(self) -> int | None:
        """Instant of the next `tick`, None for none."""
        for number in self._touched:
            shard = self._shards.find(number)
            due_ms = None if shard is None else shard.next_ms()
            if due_ms is None:
                self._due.pop(number, None)
            else:
                self._due[number] = due_ms
        self._touched.clear()
        due_ms = min(self._due.values(), default=None)
        if self._buffered and self._settings.linger_ms > 0:
            flush_ms = self._buffered_ms + self._settings.linger_ms
            return flush_ms if due_ms is None else min(due_ms, flush_ms)
        return due_ms

    def tick(self) -> None:
        """Run the timers of the shards that are due."""
        now_ms = self._clock.now_ms
        for number in [number for number, due_ms in self._due.items() if due_ms <= now_ms]:
            self._touched.add(number)
            shard = self._shards.find(number)
            if shard is not None:
                shard.tick()

    # -- inside ---------------------------------------------------------------------------------

    @property
    def _lingers(self) -> bool:
        """True while writes are gathered for larger batches: see `ADAPTIVE` and `LINGER_MS`."""
        linger_ms = self._settings.linger_ms
        if linger_ms != ADAPTIVE:
            return self._clock.now_ms < self._buffered_ms + linger_ms
        return self._clock.now_ms < self._buffered_ms + LINGER_MS and self._are_more_coming()

    def _buffer(self, number: int) -> None:
        """Note that a shard is to be flushed."""
        if not self._buffered:
            self._buffered_ms = self._clock.now_ms
        self._buffered[number] = None

    def _leadership(self, number: int) -> Leadership | None:
        if self._topic_id is None:
            return None
        partition = self._replicas.hosted((self._topic_id, number))
        leader = None if partition is None else partition.leadership
        return leader if isinstance(leader, Leadership) else None

    def _follow(self, number: int) -> None:
        """Elect or resign the shard of a partition, or tell it of the high watermark."""
        self._touched.add(number)
        leader, shard = self._leadership(number), self._shards.find(number)
        if leader is None:
            self._resign(number)
            return
        has_failed = shard is not None and shard.state is ShardState.FAILED
        if shard is None or (has_failed and shard.epoch < leader.leader_epoch):
            self._resign(number)
            self._elect(number, leader)
            return
        shard.epoch = leader.leader_epoch  # who goes on to lead has the image already
        shard.advance(leader.high_watermark)

    def _elect(self, number: int, leader: Leadership) -> None:
        assert self._topic_id is not None, "INV-CB-1"
        key = (self._topic_id, number)
        shard = Shard(
            self._make_machine(number),
            ReplicaLog(
                self._replicas,
                key,
                lambda: self._buffer(number),
                lambda: self.noticed(key),
                self._settings.required_acks,
            ),
            self._clock,
            epoch=leader.leader_epoch,
            timeout_ms=self._settings.timeout_ms,
            codec=self._settings.codec,
        )
        self._shards.put(number, shard)
        now_ms, bytes_max = self._clock.now_ms, self._settings.load_bytes_max
        self._loadings.append(Loading(shard, number, bytes_max, now_ms))

    def _resign(self, number: int) -> None:
        shard = self._shards.find(number)
        if shard is not None:
            self._buffered.pop(number, None)
            self._loadings = deque(each for each in self._loadings if each.shard is not shard)
            self._shards.resign(number)

    def _load(self, loading: Loading[ImageT]) -> int:
        """Do a piece of a loading; the units that it took."""
        number = loading.number
        leader = self._leadership(number)
        if leader is None:
            self._resign(number)
            return CHANGE_UNITS
        assert self._topic_id is not None, "INV-CB-1"
        key = (self._topic_id, number)
        partition = self._replicas.hosted(key)
        assert partition is not None, "it is led"
        assert partition.log is not None, "it is led"
        try:
            units = loading.step(partition.log)
        except (CoordinatorRecordError, CorruptBatchError, CorruptLogError) as error:
            self._loadings.popleft()
            if loading.shard.state is ShardState.LOADING:
                loading.shard.fail()
            self._log(LogLevel.ERROR, "coordinator_not_loaded", number, reason=str(error))
            return CHANGE_UNITS
        except OSError as error:
            self._on_failure(key, error)
            self._resign(number)
            return CHANGE_UNITS
        if units is not None:
            return units
        self._loadings.popleft()
        self._touched.add(number)
        loading.shard.activate()
        now_ms = self._clock.now_ms
        self._load_times.add(now_ms - loading.started_ms, now_ms)
        loading.shard.advance(leader.high_watermark)
        self._log(LogLevel.INFO, "coordinator_loaded", number, records=loading.record_count)
        return CHANGE_UNITS

    def _log(self, level: LogLevel, event: str, number: int, **fields: object) -> None:
        named = {"partition": f"{self.topic}-{number}", **fields}
        self._services.emit(Log(level, event, named))
