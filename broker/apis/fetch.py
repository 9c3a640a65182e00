"""Fetch: reads for consumers and followers, in sessions, at once or when there is enough.

A consumer above its quota gets an empty answer with its throttle time: its session is as before.

apache/kafka: core/.../server/KafkaApis.scala (handleFetchRequest)
"""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from broker.apis.access import Access
from broker.apis.current_leaders import CurrentLeaders
from broker.apis.named_partitions import key_of, name_of
from broker.clients.call import Call
from broker.clients.request_metrics import kind_of_fetch
from broker.effects import Part
from metadata.image import Image
from network.clock import Clock
from quorum_controller.security.authorization import Operation
from replication.counters import Counters
from replication.leader.fetch_params import FetchParams
from replication.leader.fetch_session import (
    FetchContext,
    FetchManager,
    FetchPartition,
    FetchSessionRequest,
    PartitionKey,
    SessionPartition,
)
from replication.leader.fetching import PartitionRead, WantedPartition
from replication.leader.replica_selector import Reader
from replication.replica_manager import ReplicaManager
from replication.throttle import ReplicationQuota
from storage.logs.unified_log import FetchIsolation
from storage.segments.file_slice import FileSlice
from wire.errors import ErrorCode
from wire.messages.fetch_request import BrokerFetchRequest, RequestedPartition, decode_fetch_request
from wire.messages.fetch_response import (
    FetchedPartition,
    encode_fetch_response,
    response_bytes,
)
from wire.messages.fetch_versions import LEADER_VERSION, RACK_VERSION
from wire.types import BrokerEpoch, LeaderEpoch, NodeId, Offset, TopicIdPartition

_STORAGE_ERROR_VERSION: Final = 6
"""First version with KAFKA_STORAGE_ERROR."""
_OF_OTHER_LEADERS: Final = (ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch)
FUTURE_REPLICA_ID: Final = -3
"""Replica of another log directory of a broker: neither a follower nor a consumer."""


class Fetch:
    """Handler of Fetch, versions 4 to 18.

    Args:
        manager: of the partitions.
        sessions: of the fetches.
        access: READ of each topic is asked for; of followers CLUSTER_ACTION.
        image: returns the newest image.
        clock: of the broker.
        bytes_max: `fetch.max.bytes`.
        counters: of the broker.
        quota: of what followers fetch.
    """

    def __init__(
        self,
        manager: ReplicaManager,
        sessions: FetchManager,
        access: Access,
        *,
        image: Callable[[], Image],
        clock: Clock,
        bytes_max: int,
        counters: Counters,
        quota: ReplicationQuota,
    ) -> None:
        self._manager = manager
        self._sessions = sessions
        self._access = access
        self._image = image
        self._clock = clock
        self._bytes_max = bytes_max
        self._counters = counters
        self._quota = quota

    def serve(self, call: Call) -> None:
        """Read; the answer waits for what the request asks for.

        Raises:
            RemoteProtocolError: the frame is no Fetch request.
        """
        version = call.header.api_version
        request = decode_fetch_request(version, call.frame, call.position)
        context = self._sessions.new_context(
            _session_request(version, request), self._topic_name, self._clock.now_ms
        )
        wanted, refused = self._divided(call, request, context.partitions())
        call.partition_count = len(wanted) + len(refused)
        max_bytes = max(0, min(request.max_bytes, self._bytes_max))
        is_follower = request.is_from_follower
        call.kind = kind_of_fetch(is_from_follower=is_follower)
        if call.throttle is not None and not is_follower:
            max_bytes = int(min(max_bytes, call.throttle.fetch_bytes_max))
        withdraw = self._manager.fetch(
            _params(version, request, max_bytes, call.listener),
            wanted,
            max_bytes=max_bytes,
            answer=lambda reads: self._answer(
                call, context, refused, reads, is_follower=is_follower
            ),
        )
        call.park(withdraw)

    # -- the request ----------------------------------------------------------------------------

    def _topic_name(self, topic_id: bytes) -> str | None:
        return name_of(self._image(), topic_id)

    def _divided(
        self, call: Call, request: BrokerFetchRequest, partitions: Sequence[SessionPartition]
    ) -> tuple[list[WantedPartition], list[FetchedPartition]]:
        """The partitions to read, and the rows of the others."""
        is_follower = request.is_from_follower
        may_follow = is_follower and self._access.allows_cluster(
            call.caller, Operation.CLUSTER_ACTION
        )
        allowed: dict[str, bool] = {}
        wanted: list[WantedPartition] = []
        refused: list[FetchedPartition] = []
        for partition in partitions:
            name, (topic, number) = partition.topic_name, partition.key
            if name is not None and name not in allowed:
                allowed[name] = may_follow or (
                    not is_follower and self._access.allows_topic(call.caller, Operation.READ, name)
                )
            found: TopicIdPartition | ErrorCode
            if is_follower and not may_follow:
                found = ErrorCode.topic_authorization_failed
            elif name is None:
                found = ErrorCode.unknown_topic_id
            elif not allowed[name]:
                found = ErrorCode.topic_authorization_failed
            else:
                found = self._found(name, partition.key)
            if isinstance(found, ErrorCode):
                refused.append(_refused(topic, number, found))
            else:
                wanted.append(WantedPartition(found, topic, partition.request))
        return wanted, refused

    def _found(self, name: str, key: PartitionKey) -> TopicIdPartition | ErrorCode:
        """The partition of a topic that had this name when its id was looked up."""
        topic, number = key
        found = key_of(self._image(), name, number)
        if found is None:
            return ErrorCode.unknown_topic_or_partition
        if topic in (name, found[0]):
            return found
        is_here = found in self._manager.partitions
        return ErrorCode.inconsistent_topic_id if is_here else ErrorCode.not_leader_or_follower

    # -- the answer -----------------------------------------------------------------------------

    def _answer(
        self,
        call: Call,
        context: FetchContext,
        refused: Sequence[FetchedPartition],
        reads: Sequence[PartitionRead],
        *,
        is_follower: bool,
    ) -> None:
        version = call.header.api_version
        leaders = CurrentLeaders(self._image(), call.listener)
        rows = [*(_row(version, read, leaders) for read in reads), *refused]
        throttle_ms = _throttle_ms(call, context, rows, is_follower=is_follower)
        response = context.throttled() if throttle_ms else context.respond(rows, self._clock.now_ms)
        if is_follower and self._quota.is_used:
            self._record_throttled(version, response.rows, reads)
        pieces = encode_fetch_response(
            version,
            response.rows,
            throttle_time_ms=throttle_ms,
            code=response.code,
            session_id=response.session_id,
            endpoints=leaders.endpoints,
        )
        unsent: dict[PartitionKey, FileSlice] = {
            (read.row.topic, read.row.partition): read.records
            for read in reads
            if read.records is not None
        }
        parts: list[Part] = []
        call.count(response.code)
        for row, piece in zip(response.rows, pieces, strict=False):
            call.count(row.code)
            parts.append(piece)
            records = unsent.pop((row.topic, row.partition), None)
            if records is not None:
                parts.append(records)
                self._counters.sent(records.size_bytes, is_to_follower=is_follower)
        for records in unsent.values():
            records.close()
        call.answer_parts([*parts, pieces[-1]])

    def _record_throttled(
        self, version: int, rows: Sequence[FetchedPartition], reads: Sequence[PartitionRead]
    ) -> None:
        """Count what an answer has of throttled partitions, with its frame."""
        keys = {(read.row.topic, read.row.partition): read.wanted.key for read in reads}
        throttled = [
            row
            for row in rows
            if (key := keys.get((row.topic, row.partition))) is not None
            and self._quota.is_throttled(key)
        ]
        self._quota.record(response_bytes(version, throttled))


def _throttle_ms(
    call: Call, context: FetchContext, rows: Sequence[FetchedPartition], *, is_follower: bool
) -> int:
    """The throttle time of an answer with these rows; followers have none."""
    throttle = call.throttle
    if throttle is None:
        return 0
    if is_follower:
        throttle.exempted()
        return 0
    return throttle.fetched(response_bytes(call.header.api_version, context.preview(rows)))


def _session_request(version: int, request: BrokerFetchRequest) -> FetchSessionRequest:
    return FetchSessionRequest(
        version=version,
        session_id=request.session_id,
        epoch=request.session_epoch,
        is_from_follower=request.is_from_follower,
        partitions={
            (each.topic, each.partition): _fetch_partition(each) for each in request.partitions
        },
        forgotten=request.forgotten,
    )


def _fetch_partition(row: RequestedPartition) -> FetchPartition:
    leader_epoch, last_epoch = row.current_leader_epoch, row.last_fetched_epoch
    start = row.log_start_offset
    return FetchPartition(
        fetch_offset=Offset(row.fetch_offset),
        max_bytes=max(0, row.max_bytes),
        current_leader_epoch=None if leader_epoch < 0 else LeaderEpoch(leader_epoch),
        last_fetched_epoch=None if last_epoch < 0 else LeaderEpoch(last_epoch),
        log_start_offset=None if start < 0 else Offset(start),
    )


def _params(
    version: int, request: BrokerFetchRequest, max_bytes: int, listener: str
) -> FetchParams:
    is_follower = request.is_from_follower
    is_consumer = not is_follower and request.replica_id != FUTURE_REPLICA_ID
    if not is_consumer:
        isolation = FetchIsolation.LOG_END
    elif request.is_committed_only:
        isolation = FetchIsolation.TXN_COMMITTED
    else:
        isolation = FetchIsolation.HIGH_WATERMARK
    return FetchParams(
        replica_id=NodeId(request.replica_id) if is_follower else None,
        replica_epoch=None if request.replica_epoch < 0 else BrokerEpoch(request.replica_epoch),
        max_wait_ms=request.max_wait_ms,
        min_bytes=min(request.min_bytes, max_bytes),
        isolation=isolation,
        is_leader_only=is_follower or (is_consumer and version < RACK_VERSION),
        reader=Reader(request.rack_id, listener) if is_consumer else None,
    )


def _refused(topic: str | bytes, number: int, code: ErrorCode) -> FetchedPartition:
    """A row without a read; it has no aborted transactions, where a read with an error has null."""
    return FetchedPartition(topic=topic, partition=number, code=code, aborted_transactions=())


def _row(version: int, read: PartitionRead, leaders: CurrentLeaders) -> FetchedPartition:
    row = read.row
    if row.code in _OF_OTHER_LEADERS and version >= LEADER_VERSION:
        return replace(row, leader=leaders.name(read.wanted.key))
    if row.code is ErrorCode.kafka_storage_error and version < _STORAGE_ERROR_VERSION:
        return replace(row, code=ErrorCode.not_leader_or_follower)
    return row
