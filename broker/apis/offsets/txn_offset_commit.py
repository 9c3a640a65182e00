"""TxnOffsetCommit: offsets of a group as part of a transaction.

They are written to the partition of `__consumer_offsets` that has the group, which is verified like
one that a producer writes to: its leader, this broker, asks the coordinator of the transaction, or
has it added there (`transaction.version` 2).

apache/kafka: core/.../server/KafkaApis.scala (handleTxnOffsetCommitRequest),
group-coordinator/.../GroupCoordinatorService.java (commitTransactionalOffsets)
"""

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from broker.apis.access import Access
from broker.apis.offsets.offset_topics import (
    OffsetTopics,
    Rows,
    all_of,
    commits_of,
    failed,
    merged,
)
from broker.clients.call import Call, forget
from broker.coordinators.groups import GroupCoordinator, machine_of
from broker.coordinators.verification import (
    TXN_OFFSET_COMMIT_OPERATIONS,
    Errors,
    Inquiry,
    Question,
    TransactionVerifier,
    operation_of,
)
from coordinator.group.image import GroupsImage
from coordinator.group.offsets.commits import commit_transactional_offsets
from coordinator.group.offsets.requests import (
    Commit,
    Committer,
    TopicCommit,
    TopicResult,
)
from coordinator.records.kinds import CONSUMER_OFFSETS
from coordinator.runtime.shards import partition_for
from coordinator.runtime.write import ProducerIdAndEpoch, Write, coordinator_error
from metadata.image import Image
from quorum_controller.bodies import NO_TIME
from quorum_controller.security.authorization import Operation, ResourceType
from replication.replica_manager import ReplicaManager
from storage.producers.producer_state import ProducerStateError
from storage.producers.verification import VerificationGuard
from wire.api_keys import TXN_OFFSET_COMMIT
from wire.batches.batch import TRANSACTIONAL_BIT, BatchHeader
from wire.errors import ApiError, ErrorCode
from wire.messages import codec
from wire.types import LeaderEpoch, Offset

Answer = Callable[[tuple[TopicResult, ...] | ApiError], None]
LOADING_VERSION_MIN: Final = 2
"""First version whose clients know that a coordinator is loading."""
NO_SEQUENCE: Final = -1
"""Records of coordinators have none."""


class TxnOffsetCommit:
    """Handler of TxnOffsetCommit, versions 0 to 5.

    Args:
        groups: the coordinator.
        access: WRITE of the transactional id, READ of the group and of each topic is asked for.
        image: returns the newest image.
        replicas: of the broker, for the partition of the group.
        verifier: asks coordinators of transactions.
    """

    def __init__(
        self,
        groups: GroupCoordinator,
        access: Access,
        image: Callable[[], Image],
        replicas: ReplicaManager,
        verifier: TransactionVerifier,
    ) -> None:
        self._groups = groups
        self._access = access
        self._image = image
        self._topics = OffsetTopics(access, image)
        self._replicas = replicas
        self._verifier = verifier

    def serve(self, call: Call) -> None:
        """Answer a request, maybe later."""
        body: Any = call.body()
        names = [str(topic.name) for topic in body.topics]
        asked = [
            (name, self._topics.id_of(name), commits_of(topic.partitions))
            for name, topic in zip(names, body.topics, strict=True)
        ]
        code = self._refusal(call, body)
        if code is not None:
            rows = [
                all_of(name, topic_id, [each.partition for each in commits], code)
                for name, topic_id, commits in asked
            ]
            call.answer(_answered(rows))
            return
        refused, topics = self._topics.to_commit(call, asked, has_id=False)

        def answer(result: tuple[TopicResult, ...] | ApiError) -> None:
            if isinstance(result, ApiError):
                result = failed(topics, _for_version(result.code, call.header.api_version))
            call.answer(_answered(merged(refused, result)))

        if topics:
            self._commit(call, body, _commit_of(call, body, topics), answer)
        else:
            answer(())

    def _refusal(self, call: Call, body: Any) -> ErrorCode | None:
        """The error of all offsets of a request."""
        caller, access, group_id = call.caller, self._access, str(body.group_id)
        kind, name = ResourceType.TRANSACTIONAL_ID, str(body.transactional_id)
        if not access.allows(caller, Operation.WRITE, kind, name):
            return ErrorCode.transactional_id_authorization_failed
        if not access.allows(caller, Operation.READ, ResourceType.GROUP, group_id):
            return ErrorCode.group_authorization_failed
        return None

    def _commit(self, call: Call, body: Any, commit: Commit, answer: Answer) -> None:
        """Verify the partition of the group, then write."""
        producer = ProducerIdAndEpoch(int(body.producer_id), int(body.producer_epoch))
        operation = operation_of(call.header.api_version, TXN_OFFSET_COMMIT_OPERATIONS)
        if not commit.group_id:
            answer(ApiError(ErrorCode.invalid_group_id))
            return
        if producer.producer_id < 0 or producer.producer_epoch < 0:
            answer(ApiError(ErrorCode.invalid_producer_id_mapping))
            return
        shard = self._groups.of(commit.group_id)
        if isinstance(shard, ApiError):
            answer(shard)
            return
        number = partition_for(commit.group_id, self._groups.partition_count)
        guard = self._guard(
            number, producer, shard.clock.wall_ms, bumps=operation is Inquiry.ADD_PARTITION
        )
        if isinstance(guard, ApiError):
            answer(guard)
            return
        if guard is None:
            self._write(commit, producer, None, answer)
            call.park(forget)
            return
        release = call.hold()

        def verified(errors: Errors) -> None:
            code = next(iter(errors.values()), ErrorCode.none)
            if code is ErrorCode.none:
                self._write(commit, producer, guard, answer)
            else:
                answer(coordinator_error(code))
            call.park(forget)
            release(forget)

        place = frozenset({(CONSUMER_OFFSETS, number)})
        self._verifier.ask(
            Question(str(body.transactional_id), producer, place, operation), verified
        )

    def _guard(
        self, number: int, producer: ProducerIdAndEpoch, wall_ms: int, *, bumps: bool
    ) -> VerificationGuard | ApiError | None:
        """Begin the verification of a partition of offsets; None if it needs none."""
        key = self._image().topic_id_by_name[CONSUMER_OFFSETS], number
        partition = self._replicas.partition_of(key)
        if isinstance(partition, ErrorCode):
            return coordinator_error(partition)
        try:
            guard = partition.begin_verification(
                _header(producer), wall_ms, supports_epoch_bump=bumps
            )
        except ProducerStateError as error:
            return ApiError(error.code)
        return coordinator_error(guard) if isinstance(guard, ErrorCode) else guard

    def _write(
        self,
        commit: Commit,
        producer: ProducerIdAndEpoch,
        guard: VerificationGuard | None,
        answer: Answer,
    ) -> None:
        shard = self._groups.of(commit.group_id)
        if isinstance(shard, ApiError):
            answer(shard)
            return
        rules, clock = machine_of(shard).rules, shard.clock
        metadata_max = self._groups.config.offsets.metadata_max

        def decide(groups: GroupsImage) -> Write[tuple[TopicResult, ...]] | ApiError:
            decided = commit_transactional_offsets(
                groups, commit, rules, producer, metadata_max=metadata_max, wall_ms=clock.wall_ms
            )
            return decided if isinstance(decided, ApiError) else replace(decided, guard=guard)

        shard.write(decide, answer)


def _header(producer: ProducerIdAndEpoch) -> BatchHeader:
    """The header of a batch that is not made yet, for its verification."""
    return BatchHeader(
        base_offset=Offset(0),
        leader_epoch=LeaderEpoch(-1),
        attributes=TRANSACTIONAL_BIT,
        last_offset_delta=0,
        base_timestamp_ms=-1,
        max_timestamp_ms=-1,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=NO_SEQUENCE,
        records_count=1,
    )


def _commit_of(call: Call, body: Any, topics: list[TopicCommit]) -> Commit:
    return Commit(
        group_id=str(body.group_id),
        committer=Committer(
            member_id=str(body.member_id),
            group_instance_id=body.group_instance_id,
            generation_id=int(body.generation_id),
            api_version=call.header.api_version,
            is_transactional=True,
        ),
        topics=tuple(topics),
    )


def _for_version(code: ErrorCode, version: int) -> ErrorCode:
    """Producers of old versions end with COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""
    if version < LOADING_VERSION_MIN and code is ErrorCode.coordinator_load_in_progress:
        return ErrorCode.coordinator_not_available
    return code


def _answered(rows: Rows) -> Any:
    new: Any = codec.newest(TXN_OFFSET_COMMIT, "response")
    return new.TxnOffsetCommitResponse(
        throttle_time=NO_TIME,
        topics=tuple(
            new.TxnOffsetCommitResponseTopic(
                name=row.name,
                partitions=tuple(
                    new.TxnOffsetCommitResponsePartition(partition_index=number, error_code=code)
                    for number, code in row.codes
                ),
            )
            for row in rows
        ),
    )
