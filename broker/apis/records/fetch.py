"""Fetch: reads for consumers and followers, in sessions, at once or when there is enough.

A consumer above its quota gets an empty answer with its throttle time: its session is as before.

apache/kafka: core/.../server/KafkaApis.scala (handleFetchRequest)
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from broker.apis.access import Access
from broker.apis.named_partitions import key_of, name_of
from broker.apis.records.current_leaders import CurrentLeaders
from broker.clients.call import Call
from broker.clients.request_metrics import kind_of_fetch
from broker.effects import Part
from metadata.image import Image
from network.clock import Clock
from quorum_controller.security.authorization import Operation
from replication.counters import Counters, is_added
from replication.leader.fetch_params import FetchParams
from replication.leader.fetch_session import (
    FetchContext,
    FetchManager,
    FetchPartition,
    FetchSessionRequest,
    PartitionKey,
    prepare,
)
from replication.leader.fetches import Reads
from replication.leader.fetching import PartitionRead, WantedPartition
from replication.leader.quiet_partitions import Basis, QuietPartitions
from replication.leader.replica_selector import Reader
from replication.leader.session_partition import SessionPartition
from replication.replica_manager import ReplicaManager
from replication.throttle import ReplicationQuota
from storage.logs.tail import HeldBatch
from storage.logs.unified_log import FetchIsolation
from wire.errors import ErrorCode
from wire.messages.fetch_request import (
    BrokerFetchRequest,
    RequestedPartition,
    decode_fetch_request,
    read_fetch_request,
)
from wire.messages.fetch_response import (
    FetchedPartition,
    count_response_bytes,
    response_bytes,
    write_fetch_response,
)
from wire.messages.fetch_versions import LEADER_VERSION, RACK_VERSION
from wire.steps import Steps, finished
from wire.types import BrokerEpoch, LeaderEpoch, NodeId, Offset, TopicIdPartition

SMALL_MAX: Final = 32
"""Partitions up to which a request is one piece."""
SMALL_BYTES_MAX: Final = 2048
"""Bytes of a frame up to which it is read in one piece: some more partitions."""
PIECE: Final = 128
"""Partitions that are looked up in one piece."""
_SESSION_UNITS: Final = 2
"""Cost of a partition of a request in its session."""
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
        self._known_image: Image | None = None
        self._image_number = 0
        """Of the known image, counted here: what a session found in it is found at once."""

    def serve(self, call: Call) -> None:
        """Read; the answer waits for what the request asks for.

        Raises:
            RemoteProtocolError: the frame is no Fetch request.
        """
        version = call.header.api_version
        if len(call.frame) > SMALL_BYTES_MAX:
            call.go_on(self._large(call))
            return
        request = decode_fetch_request(version, call.frame, call.position)
        context = self._sessions.new_context(
            _session_request(version, request, _fetch_partitions(request.partitions)),
            self._topic_name,
            self._clock.now_ms,
        )
        quiet = self._begin(call, request, context)
        partitions = context.partitions()
        if len(partitions) > SMALL_MAX:
            call.go_on(self._in_steps(call, request, context, partitions, quiet))
            return
        wanted, refused = self._divided(call, request, partitions)
        call.partition_count = len(wanted) + len(refused)
        max_bytes = self._max_bytes(call, request)
        call.kind = kind_of_fetch(is_from_follower=request.is_from_follower)
        follower_id = _follower_id(request)
        withdraw = self._manager.fetch(
            _params(version, request, max_bytes, call.listener),
            wanted,
            max_bytes=max_bytes,
            answer=lambda reads: finished(self._answer(call, context, refused, reads, follower_id)),
            quiet=quiet,
        )
        call.park(withdraw)

    # -- in pieces ------------------------------------------------------------------------------

    def _large(self, call: Call) -> Steps[None]:
        """Serve a request with many partitions, or with long names."""
        version = call.header.api_version
        request = yield from read_fetch_request(version, call.frame, call.position)
        partitions: dict[PartitionKey, FetchPartition] = {}
        prepared: dict[PartitionKey, SessionPartition] = {}
        for start in range(0, len(request.partitions), PIECE):
            some = _fetch_partitions(request.partitions[start : start + PIECE])
            partitions |= some
            prepared |= prepare(some, self._topic_name)
            yield len(some) * _SESSION_UNITS
        session_request = _session_request(version, request, partitions, prepared)
        context = self._sessions.new_context(session_request, self._topic_name, self._clock.now_ms)
        yield len(partitions) // 2
        quiet = self._begin(call, request, context)
        yield from self._in_steps(call, request, context, context.partitions(), quiet)

    def _in_steps(
        self,
        call: Call,
        request: BrokerFetchRequest,
        context: FetchContext,
        partitions: Sequence[SessionPartition],
        quiet: QuietPartitions | None,
    ) -> Steps[None]:
        """Read many partitions, of a request or of its session, and answer."""
        version, follower_id = call.header.api_version, _follower_id(request)
        call.kind = kind_of_fetch(is_from_follower=request.is_from_follower)
        wanted: list[WantedPartition] = []
        refused: list[FetchedPartition] = []
        for start in range(0, len(partitions), PIECE):
            some = partitions[start : start + PIECE]
            wanted_of_some, refused_of_some = self._divided(call, request, some)
            wanted += wanted_of_some
            refused += refused_of_some
            yield len(some)

        def resume(steps: Steps[Reads]) -> None:
            call.go_on(self._resumed(call, context, refused, steps, follower_id))

        max_bytes = self._max_bytes(call, request)
        reads = yield from self._manager.fetch_in_steps(
            _params(version, request, max_bytes, call.listener),
            wanted,
            max_bytes=max_bytes,
            park=call.park,
            resume=resume,
            quiet=quiet,
        )
        if reads is not None:
            yield from self._answer(call, context, refused, reads, follower_id)

    def _resumed(
        self,
        call: Call,
        context: FetchContext,
        refused: Sequence[FetchedPartition],
        steps: Steps[Reads],
        follower_id: NodeId | None,
    ) -> Steps[None]:
        """Read again behind a wait, and answer."""
        reads = yield from steps
        yield from self._answer(call, context, refused, reads, follower_id)

    # -- the request ----------------------------------------------------------------------------

    def _max_bytes(self, call: Call, request: BrokerFetchRequest) -> int:
        """Bytes of all records of the answer, unless the first batch is larger."""
        max_bytes = max(0, min(request.max_bytes, self._bytes_max))
        if call.throttle is not None and not request.is_from_follower:
            max_bytes = int(min(max_bytes, call.throttle.fetch_bytes_max))
        return max_bytes

    def _begin(
        self, call: Call, request: BrokerFetchRequest, context: FetchContext
    ) -> QuietPartitions | None:
        """The partitions that a follower's session lets its request pass by, if it may follow."""
        may_follow = request.is_from_follower and self._access.allows_cluster(
            call.caller, Operation.CLUSTER_ACTION
        )
        basis = None
        if may_follow:
            epoch = None if request.replica_epoch < 0 else BrokerEpoch(request.replica_epoch)
            basis = Basis(NodeId(request.replica_id), epoch, self._number_of_image())
        return context.begin(basis, self._clock.now_ms)

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
        number = self._number_of_image()
        for partition in partitions:
            known = partition.wanted
            if may_follow and known is not None and partition.found_in == number:
                wanted.append(known)
                continue
            name, topic = partition.topic_name, partition.key[0]
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
                refused.append(_refused(topic, partition.key[1], found))
            else:
                known = WantedPartition(found, topic, partition.request)
                wanted.append(known)
                if may_follow:
                    partition.wanted, partition.found_in = known, number
        return wanted, refused

    def _number_of_image(self) -> int:
        image = self._image()
        if image is not self._known_image:
            self._known_image = image
            self._image_number += 1
        return self._image_number

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
        follower_id: NodeId | None,
    ) -> Steps[None]:
        version, throttle_ms = call.header.api_version, 0
        leaders = CurrentLeaders(self._image(), call.listener)
        none = ErrorCode.none
        rows = [
            read.row if read.row.code is none else _row(version, read, leaders) for read in reads
        ]
        rows += refused
        if call.throttle is not None:
            if follower_id is not None:
                call.throttle.exempted()
            else:
                size_bytes = yield from count_response_bytes(version, context.preview(rows))
                throttle_ms = call.throttle.fetched(size_bytes)
        response = context.throttled() if throttle_ms else context.respond(rows, self._clock.now_ms)
        if follower_id is not None and self._quota.is_used:
            self._record_throttled(version, response.rows, reads)
        yield len(rows)
        pieces = yield from write_fetch_response(
            version,
            response.rows,
            throttle_time_ms=throttle_ms,
            code=response.code,
            session_id=response.session_id,
            endpoints=leaders.endpoints if follower_id is None else (),  # as Kafka 4 answers
        )
        unsent = {
            (read.row.topic, read.row.partition): (read.wanted.key, read.records)
            for read in reads
            if read.records is not None
        }
        parts: list[Part] = []
        call.count(response.code)
        for row, piece in zip(response.rows, pieces, strict=False):
            call.count(row.code)
            parts.append(piece)
            found = unsent.pop((row.topic, row.partition), None)
            if found is not None:
                key, records = found
                parts.append(records.content if isinstance(records, HeldBatch) else records)
                self._count(key, records.size_bytes, follower_id)
        for _, records in unsent.values():
            records.close()
        call.answer_parts([*parts, pieces[-1]])

    def _count(self, key: TopicIdPartition, records_bytes: int, follower_id: NodeId | None) -> None:
        if follower_id is None:
            self._counters.sent(records_bytes, key[0])
        else:
            added = is_added(self._image(), key, follower_id)
            self._counters.sent_to_replica(records_bytes, is_added=added)

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


def _follower_id(request: BrokerFetchRequest) -> NodeId | None:
    return NodeId(request.replica_id) if request.is_from_follower else None


def _session_request(
    version: int,
    request: BrokerFetchRequest,
    partitions: Mapping[PartitionKey, FetchPartition],
    prepared: Mapping[PartitionKey, SessionPartition] | None = None,
) -> FetchSessionRequest:
    return FetchSessionRequest(
        version=version,
        session_id=request.session_id,
        epoch=request.session_epoch,
        is_from_follower=request.is_from_follower,
        partitions=partitions,
        prepared=prepared,
        forgotten=request.forgotten,
    )


def _fetch_partitions(rows: Iterable[RequestedPartition]) -> dict[PartitionKey, FetchPartition]:
    return {(each.topic, each.partition): _fetch_partition(each) for each in rows}


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
        replica_id=_follower_id(request),
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
