"""ISR expansion by leaders without records: returning replicas are added with AlterPartition.

No records are appended to partitions here, so every replica of a partition with an empty log is in
sync as soon as its broker is unfenced: there is nothing to fetch. A partition whose leader found
records in its directory (written by another broker) is skipped: its followers may lag.

Without this a partition would keep the smallest ISR it ever had: after one rolling restart each
would have one replica, and after the next failure no leader. It also completes reassignments.
(apache/kafka: Partition.maybeExpandIsr, AlterPartitionManager)
"""

from collections.abc import Callable, Container
from itertools import groupby
from typing import TYPE_CHECKING, Final
from uuid import UUID

from kernel.config import NodeConfig
from kernel.lifecycle.broker_lifecycle import BrokerLifecycle
from kernel.lifecycle.controller_link import ControllerLink
from metadata.delta import MetadataDelta
from metadata.image import LEADER_RECOVERED, Image, Partition
from network.clock import Clock
from network.peers import Failure
from network.timers import ISR_EXPANSION, NEVER_MS
from quorum_controller.bodies import to_bytes
from wire.api_keys import ALTER_PARTITION
from wire.errors import ErrorCode
from wire.messages import codec
from wire.messages.codec import Entity
from wire.types import NodeId, TopicId, TopicIdPartition

if TYPE_CHECKING:
    from kio.schema.alter_partition.v3.response import AlterPartitionResponse

PARTITIONS_PER_REQUEST: Final = 200
"""Limit of one request: the controller handles it in one step, some milliseconds."""
BACKOFF_MS_MIN: Final = 50
BACKOFF_MS_MAX: Final = 2_000


class IsrExpansion:
    """ISR expansion, driven by the published image and a timer; one request is in flight.

    Args:
        records_found: partitions whose directories hold records here; None until known.
    """

    def __init__(
        self,
        config: NodeConfig,
        lifecycle: BrokerLifecycle,
        controller: ControllerLink,
        clock: Clock,
        records_found: Callable[[], Container[TopicIdPartition] | None],
    ) -> None:
        self._node_id = config.node_id
        self._timeout_ms = config.broker.session_timeout_ms
        self._lifecycle = lifecycle
        self._controller = controller
        self._clock = clock
        self._timers = clock.timers
        self._records_found = records_found
        self._image: Image | None = None
        # Insertion-ordered sets. Entries may be stale: they are checked when they are taken.
        self._ready: dict[TopicIdPartition, None] = {}
        self._absent: dict[NodeId, dict[TopicIdPartition, None]] = {}
        self._is_waiting = False
        self._not_before_ms = 0
        self._failure_count = 0

    def publish(self, before: Image, after: Image, delta: MetadataDelta) -> None:
        """Note led partitions that lack replicas, and brokers that returned."""
        self._image = after
        node_id, topics = self._node_id, after.topics
        led = [
            (topic_id, number)
            for topic_id, number in delta.partitions_changed
            if topics[topic_id].partitions[number].leader == node_id
        ]
        for key in sorted(led):
            self._note(after, key)
        for broker_id in sorted(delta.brokers):
            if _may_join(after, broker_id) and not _may_join(before, broker_id):
                self._ready |= self._absent.pop(broker_id, {})
        if led or delta.brokers:
            self.set_timer()

    def set_timer(self) -> None:
        """Set the deadline if partitions are ready, the broker runs and no request is in flight."""
        is_idle = self._is_waiting or not self._ready or not self._lifecycle.is_settled
        self._timers.set(ISR_EXPANSION, NEVER_MS if is_idle else self._not_before_ms)

    def _note(self, image: Image, key: TopicIdPartition) -> None:
        partition = image.partition(*key)
        assert partition is not None, f"{key=}"
        if _wanted_isr(image, partition) is not None:
            self._ready[key] = None
        self._note_absent(image, key, partition)

    def _note_absent(self, image: Image, key: TopicIdPartition, partition: Partition) -> None:
        for replica in partition.replicas:
            if replica not in partition.isr and not _may_join(image, replica):
                self._absent.setdefault(replica, {})[key] = None

    def tick(self) -> None:
        """Send an AlterPartition for ready partitions, up to the limit, if due."""
        if self._clock.now_ms < self._timers.at_ms[ISR_EXPANSION]:
            return
        found = self._records_found()
        if self._controller.target is None or found is None:
            self._not_before_ms = self._clock.now_ms + BACKOFF_MS_MIN
        else:
            self._ask(found)
        self.set_timer()

    def _ask(self, found: Container[TopicIdPartition]) -> None:
        asked = self._take(found)
        if asked:
            self._is_waiting = True
            keys = [key for key, _, _ in asked]
            self._controller.call(
                ALTER_PARTITION,
                self._body(asked),
                self._timeout_ms,
                lambda answer: self._on_answer(keys, answer),
            )

    def _take(
        self, found: Container[TopicIdPartition]
    ) -> list[tuple[TopicIdPartition, Partition, tuple[NodeId, ...]]]:
        """Take the next partitions that still lack a replica, each with its wanted ISR."""
        assert self._image is not None, "ready partitions come from an image"
        taken = []
        for key in list(self._ready)[:PARTITIONS_PER_REQUEST]:
            del self._ready[key]
            partition = self._image.partition(*key)
            if partition is None or partition.leader != self._node_id or key in found:
                continue
            # A replica that returned may be away again; no change of the partition tells.
            self._note_absent(self._image, key, partition)
            isr = _wanted_isr(self._image, partition)
            if isr is not None:
                taken.append((key, partition, isr))
        return taken

    def _body(self, asked: list[tuple[TopicIdPartition, Partition, tuple[NodeId, ...]]]) -> Entity:
        """Request that proposes an ISR for each partition, with the epochs of its members."""
        new = codec.newest(ALTER_PARTITION, "request")
        image = self._image
        assert image is not None

        def row(number: int, partition: Partition, isr: tuple[NodeId, ...]) -> Entity:
            return new.PartitionData(
                partition_index=number,
                leader_epoch=partition.leader_epoch,
                new_isr_with_epochs=tuple(
                    new.BrokerState(broker_id=member, broker_epoch=image.brokers[member].epoch)
                    for member in isr
                ),
                leader_recovery_state=LEADER_RECOVERED,
                partition_epoch=partition.partition_epoch,
            )

        asked = sorted(asked, key=lambda item: item[0])
        return new.AlterPartitionRequest(
            broker_id=self._node_id,
            broker_epoch=self._lifecycle.epoch,
            topics=tuple(
                new.TopicData(
                    topic_id=UUID(bytes=topic_id),
                    partitions=tuple(row(key[1], partition, isr) for key, partition, isr in rows),
                )
                for topic_id, rows in groupby(asked, key=lambda item: item[0][0])
            ),
        )

    def _on_answer(
        self, keys: list[TopicIdPartition], answer: "Failure | AlterPartitionResponse"
    ) -> None:
        """Retry refused partitions after a pause; successful changes arrive with the image."""
        self._is_waiting = False
        if isinstance(answer, Failure) or answer.error_code is not ErrorCode.none:
            again = keys
        else:
            again = [
                (TopicId(to_bytes(topic.topic_id)), row.partition_index)
                for topic in answer.topics
                for row in topic.partitions
                if row.error_code is not ErrorCode.none
            ]
        if again:
            self._ask_again(again)
        else:
            self._failure_count = 0
        self.set_timer()

    def _ask_again(self, keys: list[TopicIdPartition]) -> None:
        pause_ms = min(BACKOFF_MS_MIN << min(self._failure_count, 10), BACKOFF_MS_MAX)
        self._failure_count += 1
        self._not_before_ms = self._clock.now_ms + pause_ms
        self._ready |= dict.fromkeys(keys)


def _may_join(image: Image, broker_id: NodeId) -> bool:
    """True if the controller accepts this broker in an ISR."""
    broker = image.brokers.get(broker_id)
    return broker is not None and not broker.fenced and not broker.in_controlled_shutdown


def _wanted_isr(image: Image, partition: Partition) -> tuple[NodeId, ...] | None:
    """Return the ISR extended by the replicas that may join, at its end; None if unchanged."""
    isr = tuple(member for member in partition.isr if _may_join(image, member))
    back = tuple(
        replica
        for replica in partition.replicas
        if replica not in partition.isr and _may_join(image, replica)
    )
    is_recovered = partition.leader_recovery_state == LEADER_RECOVERED
    if partition.leader not in isr or (not back and is_recovered):
        return None
    return isr + back
