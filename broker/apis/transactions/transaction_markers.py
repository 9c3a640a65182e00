"""WriteTxnMarkers: the ends of transactions at the partitions that this broker leads.

It is what coordinators ask of leaders, and what `abort` of an administrator asks for a transaction
that no coordinator ends. Each marker is one append, whose answer waits for all replicas in sync; in
`__consumer_offsets` the coordinator of groups appends it, which takes over the offsets.

apache/kafka: core/.../server/KafkaApis.scala (handleWriteTxnMarkersRequest), 4.3
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from broker.apis.access import Access
from broker.apis.named_partitions import NamedPartitions
from broker.clients.call import Call
from network.clock import Clock
from quorum_controller.security.authorization import Operation
from replication.leader.flush_gate import AppendResults
from replication.leader.leadership import ALL_IN_SYNC
from replication.replica_manager import ReplicaManager
from replication.roles import Offline
from storage.producers.producer_state import Origin
from wire.api_keys import WRITE_TXN_MARKERS
from wire.batches.transaction_markers import marker_batch
from wire.errors import ErrorCode
from wire.messages import codec
from wire.messages.codec import Body, Entity
from wire.types import TopicIdPartition

if TYPE_CHECKING:
    from kio.schema.write_txn_markers.v2.request import WritableTxnMarker, WriteTxnMarkersRequest

OFFSETS_TOPIC: Final = "__consumer_offsets"
_NOT_READY: Final = frozenset(
    {
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.not_coordinator,
    }
)
"""Errors of a coordinator of groups that the one of transactions does not know."""


class TransactionEnd(msgspec.Struct, frozen=True):
    """The end of a transaction, as its coordinator decided it."""

    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    transaction_version: int


CompleteOffsets = Callable[[int, TransactionEnd, Callable[[ErrorCode], None]], None]
"""Ends a transaction in a partition of `__consumer_offsets`; the function gets the result once."""


class _Results:
    """Results by producer id, topic and partition, until all have come."""

    def __init__(self, answered: Callable[[Entity], None]) -> None:
        self._answered = answered
        self._rows: dict[int, dict[str, dict[int, ErrorCode]]] = {}
        self._missing = 1
        """One until all are asked for."""

    def await_one(self) -> None:
        self._missing += 1

    def put(self, producer_id: int, topic: str, number: int, code: ErrorCode) -> None:
        self._rows.setdefault(producer_id, {}).setdefault(topic, {})[number] = code

    def came(self) -> None:
        """Answer with the last one."""
        self._missing -= 1
        assert self._missing >= 0, "a result came twice"
        if self._missing == 0:
            self._answered(_response(self._rows))


class WriteTxnMarkers:
    """Handler of WriteTxnMarkers, versions 1 and 2.

    Args:
        manager: of the partitions.
        partitions: the same by name.
        access: ALTER or CLUSTER_ACTION of the cluster is asked for.
        clock: of the broker.
        complete_offsets: ends transactions in `__consumer_offsets`.
        timeout_ms: `request.timeout.ms`, for which an append waits for replicas.
    """

    def __init__(
        self,
        manager: ReplicaManager,
        partitions: NamedPartitions,
        access: Access,
        clock: Clock,
        *,
        complete_offsets: CompleteOffsets,
        timeout_ms: int,
    ) -> None:
        self._manager = manager
        self._partitions = partitions
        self._access = access
        self._clock = clock
        self._complete_offsets = complete_offsets
        self._timeout_ms = timeout_ms

    def serve(self, call: Call) -> None:
        """Answer a request, maybe later; it is not throttled."""
        body = call.body()
        if call.throttle is not None:
            call.throttle.exempted()
            call.throttle = None
        caller, access = call.caller, self._access
        if access.allows_cluster(caller, Operation.ALTER) or access.allows_cluster(
            caller, Operation.CLUSTER_ACTION
        ):
            self.write(body, call.answer)
        else:
            call.answer(_refused(body, ErrorCode.cluster_authorization_failed))

    def write(self, body: Body, answered: Callable[[Entity], None]) -> None:
        """Append the markers of a request; `answered` gets the response once."""
        request: WriteTxnMarkersRequest = body
        results = _Results(answered)
        for marker in request.markers:
            self._write(marker, results)
        results.came()

    def _write(self, marker: "WritableTxnMarker", results: _Results) -> None:
        end = TransactionEnd(
            marker.producer_id,
            marker.producer_epoch,
            marker.transaction_result,
            marker.coordinator_epoch,
            marker.transaction_version,
        )
        # What no coordinator sends: apache/kafka MemoryRecordsBuilder makes no such batch.
        is_nobody = end.producer_id < 0 or end.producer_epoch < 0
        names: dict[TopicIdPartition, tuple[str, int]] = {}
        for topic in marker.topics:
            name = str(topic.name)
            for number in topic.partition_indexes:
                key = self._online(name, number)
                if key is None:
                    code = ErrorCode.unknown_topic_or_partition
                    results.put(end.producer_id, name, number, code)
                elif is_nobody:
                    code = ErrorCode.unknown_server_error
                    results.put(end.producer_id, name, number, code)
                elif name == OFFSETS_TOPIC:
                    self._complete(number, end, results)
                else:
                    names[key] = (name, number)
        if names:
            self._append(names, end, results)

    def _online(self, topic: str, number: int) -> TopicIdPartition | None:
        """Key of a partition that is hosted here, in a log directory that works."""
        key = self._partitions.key_of(topic, number)
        partition = None if key is None else self._manager.hosted(key)
        if partition is None or isinstance(partition.role, Offline):
            return None
        return key

    def _complete(self, number: int, end: TransactionEnd, results: _Results) -> None:
        results.await_one()

        def completed(code: ErrorCode) -> None:
            known = ErrorCode.not_leader_or_follower if code in _NOT_READY else code
            results.put(end.producer_id, OFFSETS_TOPIC, number, known)
            results.came()

        self._complete_offsets(number, end, completed)

    def _append(
        self,
        names: dict[TopicIdPartition, tuple[str, int]],
        end: TransactionEnd,
        results: _Results,
    ) -> None:
        results.await_one()

        def appended(found: AppendResults) -> None:
            for key, (name, number) in names.items():
                results.put(end.producer_id, name, number, found[key].code)
            results.came()

        self._manager.append(
            {
                key: marker_batch(
                    end.producer_id,
                    end.producer_epoch,
                    is_commit=end.is_commit,
                    coordinator_epoch=end.coordinator_epoch,
                    timestamp_ms=self._clock.wall_ms,
                )
                for key in names
            },
            required_acks=ALL_IN_SYNC,
            timeout_ms=self._timeout_ms,
            answer=appended,
            origin=Origin.COORDINATOR,
            transaction_version=end.transaction_version,
        )


def _refused(request: "WriteTxnMarkersRequest", code: ErrorCode) -> Entity:
    rows: dict[int, dict[str, dict[int, ErrorCode]]] = {}
    for marker in request.markers:
        for topic in marker.topics:
            found = rows.setdefault(marker.producer_id, {}).setdefault(str(topic.name), {})
            found.update(dict.fromkeys(topic.partition_indexes, code))
    return _response(rows)


def _response(rows: dict[int, dict[str, dict[int, ErrorCode]]]) -> Entity:
    new = codec.newest(WRITE_TXN_MARKERS, "response")
    return new.WriteTxnMarkersResponse(
        markers=tuple(
            new.WritableTxnMarkerResult(
                producer_id=producer_id,
                topics=tuple(
                    new.WritableTxnMarkerTopicResult(
                        name=name,
                        partitions=tuple(
                            new.WritableTxnMarkerPartitionResult(
                                partition_index=number, error_code=code
                            )
                            for number, code in sorted(partitions.items())
                        ),
                    )
                    for name, partitions in topics.items()
                ),
            )
            for producer_id, topics in rows.items()
        )
    )
