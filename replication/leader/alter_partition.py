"""Proposals of ISRs to the controller, many in one AlterPartition, one in flight.

A partition has one proposal here at a time, until it is answered; the partition decides what the
answer means (`isr.outcome_of`) and may propose again. A request without an answer, or with an error
for all of it, is made again from what waits by then. There is no time-out: a proposal that the
metadata has overtaken is answered with an error, and that answer ignored.

After errors the next request waits `RETRY_MS`. Kafka waits so after errors for all of a request,
and sends a refused partition again at once.

apache/kafka: core/.../server/AlterPartitionManager.scala
"""

from typing import TYPE_CHECKING, Final
from uuid import UUID

import msgspec

from metadata.image import LEADER_RECOVERED, LEADER_RECOVERING
from replication.leader.isr import LeaderAndIsr, ProposedIsr
from wire.api_keys import ALTER_PARTITION
from wire.errors import ErrorCode
from wire.messages import codec
from wire.messages.codec import Entity
from wire.types import BrokerEpoch, LeaderEpoch, NodeId, PartitionEpoch, TopicId, TopicIdPartition

if TYPE_CHECKING:
    from kio.schema.alter_partition.v3.response import AlterPartitionResponse, PartitionData

RETRY_MS: Final = 50
PARTITIONS_PER_REQUEST: Final = 200
"""Limit of one request: the controller handles it in one step, some milliseconds."""


class AnsweredProposal(msgspec.Struct, frozen=True):
    """Answer of the controller to a proposal."""

    partition: TopicIdPartition
    proposed: ProposedIsr
    answer: LeaderAndIsr | ErrorCode


class AlterPartitions:
    """The proposals of a broker that are not answered yet."""

    def __init__(self, node_id: NodeId) -> None:
        self._node_id = node_id
        self._unanswered: dict[TopicIdPartition, ProposedIsr] = {}  # in the order of coming
        self._in_flight: list[TopicIdPartition] | None = None
        self._not_before_ms = 0

    def submit(self, partition: TopicIdPartition, proposed: ProposedIsr) -> bool:
        """Take a proposal; False, which is OPERATION_NOT_ATTEMPTED, if another is unanswered."""
        if partition in self._unanswered:
            return False
        self._unanswered[partition] = proposed
        return True

    def next_request_ms(self) -> int | None:
        """Instant of the next request; None if nothing is to be sent, or a request is in flight."""
        if self._in_flight is not None or not self._unanswered:
            return None
        return self._not_before_ms

    def take_request(self, broker_epoch: BrokerEpoch, now_ms: int) -> Entity | None:
        """The request to send now, which is in flight from here on; None if there is none."""
        due_ms = self.next_request_ms()
        if due_ms is None or now_ms < due_ms:
            return None
        self._in_flight = list(self._unanswered)[:PARTITIONS_PER_REQUEST]
        new = codec.newest(ALTER_PARTITION, "request")
        topics: dict[TopicId, list[Entity]] = {}
        for topic_id, number in self._in_flight:
            row = _row(number, self._unanswered[topic_id, number])
            topics.setdefault(topic_id, []).append(row)
        return new.AlterPartitionRequest(
            broker_id=self._node_id,
            broker_epoch=broker_epoch,
            topics=tuple(
                new.TopicData(topic_id=UUID(bytes=topic_id), partitions=tuple(rows))
                for topic_id, rows in topics.items()
            ),
        )

    def on_failure(self, now_ms: int) -> None:
        """Note that the request has no answer: the connection ended, or a version is missing."""
        assert self._in_flight is not None, "a failure without a request"
        self._in_flight = None
        self._not_before_ms = now_ms + RETRY_MS

    def on_response(
        self, response: "AlterPartitionResponse", now_ms: int
    ) -> list[AnsweredProposal]:
        """Take the response to the request in flight; return its answers, in the order sent.

        The proposals are gone from here, so that their partitions may propose again. One that the
        response leaves out is sent again, as all are after an error for the whole request
        (STALE_BROKER_EPOCH until the broker has registered anew).
        """
        assert self._in_flight is not None, "a response without a request"
        sent, self._in_flight = self._in_flight, None
        answers: dict[TopicIdPartition, LeaderAndIsr | ErrorCode] = {}
        if response.error_code is ErrorCode.none:
            for topic in response.topics:
                if topic.topic_id is None:
                    continue
                topic_id = TopicId(topic.topic_id.bytes)
                for row in topic.partitions:
                    answers[topic_id, row.partition_index] = _answer(row)
        answered = [
            AnsweredProposal(partition, self._unanswered.pop(partition), answers[partition])
            for partition in sent
            if partition in answers
        ]
        is_accepted = len(answered) == len(sent) and all(
            isinstance(one.answer, LeaderAndIsr) for one in answered
        )
        if not is_accepted:
            self._not_before_ms = now_ms + RETRY_MS
        return answered


def _row(number: int, proposed: ProposedIsr) -> Entity:
    new = codec.newest(ALTER_PARTITION, "request")
    return new.PartitionData(
        partition_index=number,
        leader_epoch=proposed.leader_epoch,
        new_isr_with_epochs=tuple(
            new.BrokerState(broker_id=member, broker_epoch=-1 if epoch is None else epoch)
            for member, epoch in proposed.isr
        ),
        leader_recovery_state=proposed.leader_recovery_state,
        partition_epoch=proposed.partition_epoch,
    )


def _answer(row: "PartitionData") -> LeaderAndIsr | ErrorCode:
    if row.error_code is not ErrorCode.none:
        return row.error_code
    if row.leader_recovery_state not in (LEADER_RECOVERED, LEADER_RECOVERING):
        return ErrorCode.unknown_server_error
    return LeaderAndIsr(
        leader_id=NodeId(row.leader_id),
        leader_epoch=LeaderEpoch(row.leader_epoch),
        partition_epoch=PartitionEpoch(row.partition_epoch),
        isr=tuple(NodeId(member) for member in row.isr),
        leader_recovery_state=row.leader_recovery_state,
    )
