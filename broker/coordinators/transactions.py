"""The coordinator of transactions of this broker: its shards, its requests, their markers."""

from collections import Counter
from collections.abc import Callable

from typing_extensions import override

from broker.coordinators.coordinator import Coordinator, ShardSettings
from broker.coordinators.figures import TransactionFigures
from broker.coordinators.verification import SendToBroker
from broker.services import Services
from coordinator.records.kinds import TRANSACTION_STATE
from coordinator.transaction.config import TransactionsConfig
from coordinator.transaction.coordinator import TransactionCoordinator
from coordinator.transaction.decisions import NewProducerId
from coordinator.transaction.machine import TransactionMachine
from coordinator.transaction.markers import Markers
from coordinator.transaction.metadata import TopicPartition, TransactionsImage
from coordinator.transaction.states import OPEN, TransactionState
from metadata.features import TRANSACTION_VERSION
from metadata.image import Image
from network.peers import Failure
from replication.leader.leadership import ALL_IN_SYNC
from replication.replica_manager import ReplicaManager
from wire.api_keys import WRITE_TXN_MARKERS
from wire.errors import ErrorCode
from wire.messages.codec import Body
from wire.types import NodeId, TopicIdPartition


class Transactions(Coordinator[TransactionsImage]):
    """The shards of `__transaction_state`.

    Args:
        config: of transactions.
        image: returns the newest image.
        send: sends requests to brokers.
        new_producer_id: gives ids.
        replicas: of the broker.
        services: of the step.
        on_failure: called with a partition whose log directory failed, and the error.
    """

    def __init__(
        self,
        config: TransactionsConfig,
        *,
        image: Callable[[], Image],
        send: SendToBroker,
        new_producer_id: NewProducerId,
        replicas: ReplicaManager,
        services: Services,
        on_failure: Callable[[TopicIdPartition, Exception], None],
    ) -> None:
        self._config = config
        self._image = image
        self._send = send
        self._clock = services.clock
        self.markers = Markers(services.clock, self._leader_of, self._send_markers)
        """Ends of transactions whose markers are not all written."""
        super().__init__(
            TRANSACTION_STATE,
            self._machine,
            replicas=replicas,
            services=services,
            settings=ShardSettings(
                timeout_ms=config.request_timeout_ms,
                load_bytes_max=config.load_bytes_max,
                required_acks=ALL_IN_SYNC,
            ),
            on_failure=on_failure,
        )
        self.requests = TransactionCoordinator(
            self.of,
            services.clock,
            config,
            new_producer_id=new_producer_id,
            transaction_version=self.transaction_version,
        )
        """The requests by transactional id."""

    def transaction_version(self) -> int:
        """transaction.version of the cluster."""
        return self._image().features.get(TRANSACTION_VERSION, 0)

    def figures(self) -> TransactionFigures:
        """Numbers of what there is."""
        shards, found, retries = self.look(), Counter[TransactionState](), 0
        for shard in shards:
            machine = shard.machine
            assert isinstance(machine, TransactionMachine), f"{machine=}"
            found.update(machine.open_counts)
            retries += machine.unwritten_count
        return TransactionFigures(
            shards=self.shard_figures(),
            ids=sum(len(shard.committed.transactions) for shard in shards),
            open={state: found[state] for state in OPEN},
            unknown_destinations=self.markers.unknown_count(),
            append_retries=retries,
        )

    def _machine(self, partition: int) -> TransactionMachine:
        return TransactionMachine(
            partition, self._clock, self._config, self.markers, self.transaction_version
        )

    def _leader_of(self, partition: TopicPartition) -> NodeId | ErrorCode:
        image, (topic, number) = self._image(), partition
        topic_id = image.topic_id_by_name.get(topic)
        found = None if topic_id is None else image.partition(topic_id, number)
        if found is None:
            return ErrorCode.unknown_topic_or_partition
        broker = image.brokers.get(found.leader) if found.has_leader else None
        if broker is None or broker.fenced:
            return ErrorCode.leader_not_available
        return broker.id

    def _send_markers(
        self, node_id: NodeId, body: Body, answered: Callable[[object | None], None]
    ) -> None:
        def take(answer: object) -> None:
            answered(None if isinstance(answer, Failure) else answer)
            self._touched |= self.markers.take_completed_owners()

        self._send(node_id, WRITE_TXN_MARKERS, body, take)

    @override
    def next_ms(self) -> int | None:
        """Instant of the next `tick`, None for none."""
        due_ms, markers_ms = super().next_ms(), self.markers.next_ms()
        if due_ms is None or markers_ms is None:
            return markers_ms if due_ms is None else due_ms
        return min(due_ms, markers_ms)

    @override
    def tick(self) -> None:
        """Run the timers of the shards, and send again the markers, that are due."""
        super().tick()
        due_ms = self.markers.next_ms()
        if due_ms is not None and due_ms <= self._clock.now_ms:
            self.markers.tick()
            self._touched |= self.markers.take_completed_owners()
