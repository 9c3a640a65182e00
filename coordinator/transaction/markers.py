"""Ends of transactions on their way to the leaders of their partitions.

A transaction is complete when each of its partitions has the marker, or is gone. What cannot be
sent now waits and is routed anew, with the leaders of then: a broker has one request in flight,
which has what came together; the rest is in its queue.

    INV-MK-1  a partition of an end is at one place: in a queue, in flight, or waiting for a retry

Kafka gives an end up that a leader refuses for a newer epoch of the producer or of the coordinator,
and leaves the id prepared until the next election. Here that partition has its end: another marker
wrote it, of a newer coordinator or of an administrator; no repetition can change it.

apache/kafka: core/.../coordinator/transaction/TransactionMarkerChannelManager.scala,
TransactionMarkerRequestCompletionHandler.scala, 4.3
"""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Final, cast

import msgspec

from coordinator.runtime.write import ProducerIdAndEpoch
from coordinator.transaction.metadata import TopicPartition
from network.clock import Clock
from wire.api_keys import WRITE_TXN_MARKERS
from wire.errors import ErrorCode
from wire.messages import codec
from wire.messages.codec import Body, Entity
from wire.types import NodeId

if TYPE_CHECKING:
    from kio.schema.write_txn_markers.v2.response import WriteTxnMarkersResponse

RETRY_MS: Final = 50
"""Pause before what a leader refused, or a broker did not answer, is sent again."""
MARKERS_MAX: Final = 500
"""Ends in one request."""
LeaderOf = Callable[[TopicPartition], NodeId | ErrorCode]
"""Leader of a partition; LEADER_NOT_AVAILABLE without one, UNKNOWN_TOPIC_OR_PARTITION if gone."""
SendMarkers = Callable[[NodeId, Body, Callable[[object | None], None]], None]
"""Sends a WriteTxnMarkers to a broker, maybe this one; the function gets the response or None."""
_ENDED: Final = frozenset(
    {
        ErrorCode.none,
        ErrorCode.invalid_producer_epoch,
        ErrorCode.transaction_coordinator_fenced,
        ErrorCode.unsupported_for_message_format,
        ErrorCode.unsupported_version,
    }
)
"""Results behind which a partition needs no further marker; the last two never took a record."""


class Ending(msgspec.Struct, frozen=True):
    """A transaction that ends."""

    owner: int
    """Partition of `__transaction_state` that has it."""
    transactional_id: str
    producer: ProducerIdAndEpoch
    is_commit: bool
    coordinator_epoch: int
    transaction_version: int

    @property
    def producer_id(self) -> int:
        """Id of the producer."""
        return self.producer.producer_id

    @property
    def producer_epoch(self) -> int:
        """Epoch of the producer, as the markers have it."""
        return self.producer.producer_epoch


class _Pending:
    """An ending with the partitions whose marker is not known to be written."""

    __slots__ = ("completed", "ending", "missing")

    def __init__(
        self, ending: Ending, missing: set[TopicPartition], completed: Callable[[Ending], None]
    ) -> None:
        self.ending = ending
        self.missing = missing
        self.completed = completed


_Queue = dict[_Pending, set[TopicPartition]]


class Markers:
    """The endings of all partitions of `__transaction_state` that this broker coordinates.

    Args:
        clock: of the broker.
        leader_of: leaders in the newest image.
        send: sends requests.
    """

    def __init__(self, clock: Clock, leader_of: LeaderOf, send: SendMarkers) -> None:
        self._clock = clock
        self._leader_of = leader_of
        self._send = send
        self._pending: dict[tuple[int, str], _Pending] = {}
        self._queues: dict[NodeId, _Queue] = {}
        self._in_flight: dict[NodeId, _Queue] = {}
        self._retries: _Queue = {}
        self._retry_ms: int | None = None
        self._completed_owners: set[int] = set()

    def __len__(self) -> int:
        """The number of transactions whose markers are not all written."""
        return len(self._pending)

    def unknown_count(self) -> int:
        """The number of transactions that wait for a partition to have a leader."""
        return sum(
            any(self._leader_of(each) is ErrorCode.leader_not_available for each in partitions)
            for partitions in self._retries.values()
        )

    def begin(
        self,
        ending: Ending,
        partitions: Iterable[TopicPartition],
        completed: Callable[[Ending], None],
    ) -> None:
        """Send the markers of a transaction; `completed` is called once, unless it is cancelled."""
        pending = _Pending(ending, set(partitions), completed)
        self._forget(self._pending.get((ending.owner, ending.transactional_id)))
        self._pending[ending.owner, ending.transactional_id] = pending
        self._route({pending: set(pending.missing)})
        self._end_if_complete(pending)

    def cancel(self, owner: int) -> None:
        """Send no more markers of a partition that this broker coordinates no longer."""
        for key, pending in list(self._pending.items()):
            if key[0] == owner:
                self._forget(pending)

    def _forget(self, pending: _Pending | None) -> None:
        if pending is None:
            return
        ending = pending.ending
        del self._pending[ending.owner, ending.transactional_id]
        for queue in (self._retries, *self._queues.values()):
            queue.pop(pending, None)

    # -- sending --------------------------------------------------------------------------------

    def _route(self, queue: _Queue) -> None:
        """Put partitions to the brokers that lead them now, and send what can be sent."""
        nodes: dict[NodeId, None] = {}
        for pending, partitions in queue.items():
            for partition in sorted(partitions):
                leader = self._leader_of(partition)
                if leader is ErrorCode.unknown_topic_or_partition:
                    pending.missing.discard(partition)  # its topic was deleted
                elif isinstance(leader, ErrorCode):
                    self._retry(pending, {partition})
                else:
                    of_node = self._queues.setdefault(leader, {})
                    of_node.setdefault(pending, set()).add(partition)
                    nodes[leader] = None
        for node_id in nodes:
            self._send_to(node_id)

    def _retry(self, pending: _Pending, partitions: set[TopicPartition]) -> None:
        self._retries.setdefault(pending, set()).update(partitions)
        if self._retry_ms is None:
            self._retry_ms = self._clock.now_ms + RETRY_MS

    def _send_to(self, node_id: NodeId) -> None:
        queue = self._queues.get(node_id)
        if not queue or node_id in self._in_flight:
            return
        sent = dict(islice(queue.items(), MARKERS_MAX))
        for pending in sent:
            del queue[pending]
        self._in_flight[node_id] = sent
        body = _request(sent)
        self._send(node_id, body, lambda answer: self._answered(node_id, answer))

    def _answered(self, node_id: NodeId, answer: object | None) -> None:
        sent = self._in_flight.pop(node_id)
        codes = {} if answer is None else _codes(cast("WriteTxnMarkersResponse", answer))
        for pending, partitions in sent.items():
            ending = pending.ending
            if self._pending.get((ending.owner, ending.transactional_id)) is not pending:
                continue
            producer_id = ending.producer_id
            refused = {
                partition
                for partition in partitions
                if codes.get((producer_id, partition)) not in _ENDED
            }
            pending.missing -= partitions - refused
            if refused:
                self._retry(pending, refused)
            self._end_if_complete(pending)
        self._send_to(node_id)

    def _end_if_complete(self, pending: _Pending) -> None:
        """End a transaction, once: an answer may come while its request is sent."""
        ending = pending.ending
        is_open = self._pending.get((ending.owner, ending.transactional_id)) is pending
        if is_open and not pending.missing:
            self._forget(pending)
            self._completed_owners.add(ending.owner)
            pending.completed(ending)

    def take_completed_owners(self) -> set[int]:
        """Partitions of `__transaction_state` of which a transaction completed since the last."""
        owners, self._completed_owners = self._completed_owners, set()
        return owners

    # -- time -----------------------------------------------------------------------------------

    def next_ms(self) -> int | None:
        """Instant of the next `tick`, None for none."""
        return self._retry_ms

    def tick(self) -> None:
        """Route what waits for a retry."""
        if self._retry_ms is None or self._clock.now_ms < self._retry_ms:
            return
        self._retry_ms = None
        retries, self._retries = self._retries, {}
        self._route(retries)
        for pending in retries:
            self._end_if_complete(pending)


def _request(sent: _Queue) -> Entity:
    new = codec.newest(WRITE_TXN_MARKERS, "request")
    markers = []
    for pending, partitions in sent.items():
        ending = pending.ending
        numbers: dict[str, list[int]] = {}
        for topic, number in sorted(partitions):
            numbers.setdefault(topic, []).append(number)
        markers.append(
            new.WritableTxnMarker(
                producer_id=ending.producer_id,
                producer_epoch=ending.producer_epoch,
                transaction_result=ending.is_commit,
                topics=tuple(
                    new.WritableTxnMarkerTopic(name=topic, partition_indexes=tuple(found))
                    for topic, found in numbers.items()
                ),
                coordinator_epoch=ending.coordinator_epoch,
                transaction_version=ending.transaction_version,
            )
        )
    return new.WriteTxnMarkersRequest(markers=tuple(markers))


def _codes(
    response: "WriteTxnMarkersResponse",
) -> dict[tuple[int, TopicPartition], ErrorCode]:
    return {
        (int(marker.producer_id), (str(topic.name), int(row.partition_index))): row.error_code
        for marker in response.markers
        for topic in marker.topics
        for row in topic.partitions
    }
