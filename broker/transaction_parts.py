"""The parts of a broker that are about transactions, joined.

A coordinator sends markers to leaders, and a leader asks coordinators; both may be this broker,
whose own parts are then called without a socket.
"""

from collections.abc import Callable, Mapping

import msgspec

from broker.apis.access import Access
from broker.apis.named_partitions import NamedPartitions
from broker.apis.offsets.txn_offset_commit import TxnOffsetCommit
from broker.apis.transactions.transaction_lists import DescribeTransactions, ListTransactions
from broker.apis.transactions.transaction_markers import TransactionEnd, WriteTxnMarkers
from broker.apis.transactions.transactions import AddPartitionsToTxn, transaction_handlers
from broker.clients.call import Handler
from broker.coordinators.broker_requests import Answered, BrokerRequests, ServeLocally
from broker.coordinators.figures import TransactionFigures
from broker.coordinators.groups import GroupCoordinator
from broker.coordinators.transactions import Transactions
from broker.coordinators.verification import TransactionVerifier
from broker.leader_links import LeaderLinks
from broker.producer_id_blocks import ProducerIdBlocks
from broker.services import Services
from coordinator.runtime.write import ProducerIdAndEpoch
from coordinator.transaction.config import TransactionsConfig
from metadata.image import Image
from replication.replica_manager import ReplicaManager
from wire.api_keys import (
    ADD_PARTITIONS_TO_TXN,
    DESCRIBE_TRANSACTIONS,
    LIST_TRANSACTIONS,
    TXN_OFFSET_COMMIT,
    WRITE_TXN_MARKERS,
)
from wire.errors import ApiError, ErrorCode
from wire.messages.codec import Body
from wire.types import NodeId, TopicIdPartition


class Neighbours(msgspec.Struct, frozen=True, kw_only=True):
    """Parts of the broker beside those of transactions."""

    image: Callable[[], Image]
    access: Access
    replicas: ReplicaManager
    partitions: NamedPartitions
    groups: GroupCoordinator
    blocks: ProducerIdBlocks
    links: LeaderLinks
    services: Services
    on_failure: Callable[[TopicIdPartition, Exception], None]


class TransactionParts:
    """The coordinator of transactions with what it needs at leaders.

    Args:
        node_id: of the broker.
        config: of transactions.
        given: the other parts.
    """

    def __init__(self, node_id: NodeId, config: TransactionsConfig, given: Neighbours) -> None:
        clock = given.services.clock
        self._groups = given.groups
        self.coordinator = Transactions(
            config,
            image=given.image,
            send=self._send,
            new_producer_id=given.blocks.next_id,
            replicas=given.replicas,
            services=given.services,
            on_failure=given.on_failure,
        )
        self.verifier = TransactionVerifier(clock, given.image, self._send, config)
        """Asks coordinators on behalf of the leaders here."""
        markers = WriteTxnMarkers(
            given.replicas,
            given.partitions,
            given.access,
            clock,
            complete_offsets=self._complete_offsets,
            timeout_ms=config.request_timeout_ms,
        )
        requests = self.coordinator.requests
        local: Mapping[int, ServeLocally] = {
            WRITE_TXN_MARKERS: markers.write,
            ADD_PARTITIONS_TO_TXN: AddPartitionsToTxn(requests, given.access, given.image).add,
        }
        self._requests = BrokerRequests(node_id, given.links, config.request_timeout_ms, local)
        self.handlers: dict[int, Handler] = {
            **transaction_handlers(requests, given.blocks, given.access, given.image),
            WRITE_TXN_MARKERS: markers.serve,
            DESCRIBE_TRANSACTIONS: DescribeTransactions(requests, given.access).serve,
            LIST_TRANSACTIONS: ListTransactions(self.coordinator, given.access, clock).serve,
            TXN_OFFSET_COMMIT: TxnOffsetCommit(
                given.groups, given.access, given.image, given.replicas, self.verifier
            ).serve,
        }
        """By API key."""

    def publish(self, image: Image) -> None:
        """Take an image."""
        self.coordinator.publish(image)

    def figures(self) -> TransactionFigures:
        """Numbers of what the coordinator has."""
        return self.coordinator.figures()

    def noticed(self, key: TopicIdPartition) -> None:
        """Note that a partition has another role, epoch or high watermark."""
        self.coordinator.noticed(key)

    def _send(self, node_id: NodeId, api_key: int, body: Body, answered: Answered) -> None:
        self._requests.send(node_id, api_key, body, answered)

    def _complete_offsets(
        self, partition: int, end: TransactionEnd, done: Callable[[ErrorCode], None]
    ) -> None:
        """End a transaction in a partition of offsets, whose coordinator takes them over."""
        shard = self._groups.of_partition(partition)
        if isinstance(shard, ApiError):
            done(shard.code)
            return

        def completed(refused: ApiError | None) -> None:
            done(ErrorCode.none if refused is None else refused.code)

        shard.complete_transaction(
            ProducerIdAndEpoch(end.producer_id, end.producer_epoch),
            is_commit=end.is_commit,
            coordinator_epoch=end.coordinator_epoch,
            answer=completed,
            transaction_version=end.transaction_version,
        )
