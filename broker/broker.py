"""The records of one broker as a value: events in, effects out, no I/O but its disk.

Composition only: each part is documented in its own module. As a kernel it takes events and
settles; what the parts hand to the driver, and ask of the controller, comes back as an event.
"""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from typing import Any, Final

from broker.apis.access import Access
from broker.apis.named_partitions import NamedPartitions
from broker.awaited import Asks, Work
from broker.clients.call import Handler
from broker.clients.client_quotas import ClientQuotas
from broker.clients.front import Front
from broker.clients.request_metrics import RequestMetrics
from broker.clients.use_notes import used_interval_ms
from broker.config import RecordsConfig
from broker.coordinators.coordinator_views import CoordinatorViews
from broker.coordinators.groups import GroupCoordinator
from broker.due_parts import DueParts
from broker.effects import Effect, Log, LogLevel
from broker.event_queue import EventQueue
from broker.event_tables import front_table, later_table
from broker.events import (
    BrokerEpochChanged,
    Event,
    ImagePublished,
    Now,
    StopRequested,
    TimeAdvanced,
)
from broker.handlers import Served, group_handlers, record_handlers
from broker.largest_logs import LargestLogs
from broker.leader_links import LeaderLinks
from broker.producer_id_blocks import ProducerIdBlocks
from broker.pulse import Pulse
from broker.records_counts import (
    DelayedCount,
    RecordsCounts,
    quota_rates,
    session_count,
    topic_counts,
)
from broker.replicas.local_replicas import LocalReplicas
from broker.replicas.replica_views import LocalReplicaView, ReplicaFetchView, replica_view
from broker.services import Disk, Services
from broker.silent_configs import SilentConfigs
from broker.transaction_parts import Neighbours, TransactionParts
from metadata.image import EMPTY, Image
from metadata.image import Broker as BrokerRegistration
from network.clock import Clock
from network.memory_pool import MemoryPool
from network.turn_budget import TurnBudget, Turns
from replication.counters import Counters, is_added
from replication.follower.fetchers import Fetchers
from replication.follower.follower_broker import FollowerBroker
from replication.leader.alter_partition import AlterPartitions
from replication.leader.fetch_session import FetchSessionCache
from replication.leader.fetching import ReadRules
from replication.leader.flush_gate import Flushed
from replication.leader.leadership import Changed, LocalBroker
from replication.leader.replica_selector import ReplicaSelector, select_in_rack
from replication.replica_manager import ReplicaListener, ReplicaManager
from replication.throttle import ReplicationQuotas
from storage.cleaner.session import InlineSession, OpenSession
from storage.vfs import Vfs
from wire.api_keys import ALTER_PARTITION
from wire.random_ids import random_uuid
from wire.types import BrokerEpoch, NodeId, Rng, TopicIdPartition

NO_EPOCH: Final = BrokerEpoch(-1)
"""Epoch of a broker that has not registered."""


class Broker:
    """The records of a broker.

    Args:
        config: its settings.
        vfs: its disk.
        rng: its source of randomness.
        now: time at start.
        clean_log_dirs: log directories that a clean shutdown left.
        guards: locks by log directory, held while its recovery points are written.
        open_session: makes a round of the log cleaner; None to run it in a lane.
        nanoseconds: the clock that times requests, for their quotas and metrics.
    """

    def __init__(
        self,
        config: RecordsConfig,
        vfs: Vfs,
        rng: Rng,
        *,
        now: Now,
        clean_log_dirs: AbstractSet[str],
        guards: Mapping[str, AbstractContextManager[object]] | None = None,
        open_session: OpenSession | None = None,
        nanoseconds: Callable[[], int] = lambda: 0,
    ) -> None:
        self.config = config
        self._effects: list[Effect] = []
        self._clock = Clock(now)
        self._deadline_ms = now.monotonic_ms
        self._image, self._epoch = EMPTY, NO_EPOCH
        self._budget = TurnBudget()
        self._work, self._asks = Work(self._effects), Asks(self._effects)
        self._services = Services(self._clock, self._effects, self._work, self._asks, self._budget)
        self._counters, self._requests = Counters(), RequestMetrics(nanoseconds)
        self._quotas = ClientQuotas(self._clock, config.quota_window, nanoseconds)
        self._throttles = ReplicationQuotas(config.node_id, config.replication_window, self._clock)
        self._silent, self._largest = SilentConfigs(config.node_id), LargestLogs()
        self._replicas = self._manager()
        self._links = LeaderLinks(
            config.node_id,
            config.inter_broker_listener,
            self._clock,
            self._effects,
            config.replica_fetch.socket_timeout_ms,
        )
        self._fetchers = Fetchers(self._follower(), self._links.send)
        disk = Disk(
            vfs=vfs,
            clean_log_dirs=clean_log_dirs,
            new_uuid=lambda: random_uuid(rng),
            rng=rng,
            open_session=open_session or (lambda _, job: InlineSession(vfs, job)),
            guards=guards or {},
        )
        self._local = self._local_replicas(disk)
        self._moves, self._cleaner = self._local.moves, self._local.cleaner
        self._groups = self._group_coordinator()
        self._access = Access(config.access, self._newest_image)
        self._partitions = NamedPartitions(self._newest_image, self._replicas.partition_of)
        self._transactions = self._transaction_parts()
        transactions = self._transactions.coordinator
        self.coordinators = CoordinatorViews(self._groups, transactions, self._replicas)
        self._sessions = FetchSessionCache(config.fetch_session_slots, rng)
        self.memory = MemoryPool(config.queued_bytes_max, nanoseconds)
        """Of the requests of clients: the driver takes it for the frames that it receives."""
        handlers = self._handlers(disk)
        self.apis = frozenset(handlers)
        """Keys of the APIs that are served here, and not by the kernel."""
        self._front = self._make_front(handlers)
        self._is_serving, self._pulse = False, Pulse(self._clock, self._effects, self._work)
        timed = (
            self._front, self._replicas, self._local, self._fetchers, self._links,
            self._groups, self._transactions.coordinator, self._transactions.verifier, self._pulse,
        )  # fmt: skip
        self._timed = DueParts(timed)
        later = later_table(self._links, self._asks, self._work)
        self._later = EventQueue(later, self._budget)
        self._takes = self._event_table(later)
        parts = (
            self._front, self._later, self._replicas, self._fetchers, self._local, self._groups,
            self._transactions.coordinator, self._local.upkeep,
        )  # fmt: skip
        self._turns = Turns(self._budget, parts)

    def _group_coordinator(self) -> GroupCoordinator:
        """Make the coordinator of groups."""
        return GroupCoordinator(
            self.config.groups,
            self._replicas,
            self._services,
            node_id=self.config.node_id,
            image=self._newest_image,
            on_failure=self._on_disk_failure,
            are_more_coming=lambda: self._front.is_busy,
        )

    def _manager(self) -> ReplicaManager:
        """Make the manager of the partitions."""
        return ReplicaManager(
            self._clock,
            self._budget,
            AlterPartitions(self.config.node_id),
            image=self._newest_image,
            lag_ms_max=self.config.replica_lag_ms_max,
            listener=ReplicaListener(
                failed=self._on_disk_failure,
                appended=self._on_appended,
                checked=lambda key: self._on_checked(key),  # noqa: PLW0108 (made later)
            ),
            counters=self._counters,
            rules=ReadRules(self._throttles.leader, self._selector()),
        )

    def _local_replicas(self, disk: Disk) -> LocalReplicas:
        """Make the replicas of this broker."""
        config = self.config
        return LocalReplicas(
            config,
            disk,
            LocalBroker(
                config.node_id, self._broker_epoch, self._broker_of, config.replica_lag_ms_max
            ),
            self._services,
            replicas=self._replicas,
            fetchers=self._fetchers,
        )

    def _selector(self) -> ReplicaSelector | None:
        """Make the choice of the replicas that consumers read from; None if it is the leader."""
        if not self.config.reads_in_rack:
            return None
        return ReplicaSelector(self.config.node_id, self._newest_image, select_in_rack)

    def _follower(self) -> FollowerBroker:
        """Return this broker as its fetchers see it."""
        return FollowerBroker(
            node_id=self.config.node_id,
            config=self.config.replica_fetch,
            clock=self._clock,
            effects=self._effects,
            budget=self._budget,
            counters=self._counters,
            is_added=lambda key: is_added(self._image, key, self.config.node_id),
            quota=self._throttles.follower,
            broker_epoch=self._broker_epoch,
            partition_of=self._replicas.hosted,
            took=self._on_replicated,
            disk_failed=self._on_disk_failure,
        )

    def _transaction_parts(self) -> TransactionParts:
        """Make the parts about transactions."""
        config = self.config
        return TransactionParts(
            config.node_id,
            config.transactions,
            Neighbours(
                image=self._newest_image,
                access=self._access,
                replicas=self._replicas,
                partitions=self._partitions,
                groups=self._groups,
                blocks=ProducerIdBlocks(
                    config.node_id, self._broker_epoch, self._clock, self._asks
                ),
                links=self._links,
                services=self._services,
                on_failure=self._on_disk_failure,
            ),
        )

    def _handlers(self, disk: Disk) -> dict[int, Handler]:
        """Make the handlers of the APIs about records."""
        served = Served(
            config=self.config,
            image=self._newest_image,
            access=self._access,
            partitions=self._partitions,
            replicas=self._replicas,
            local=self._local,
            moves=self._moves,
            groups=self._groups,
            sessions=self._sessions,
            verifier=self._transactions.verifier,
            throttles=self._throttles,
            counters=self._counters,
            services=self._services,
            vfs=disk.vfs,
            new_uuid=disk.new_uuid,
            on_failure=self._on_disk_failure,
        )
        return {
            **record_handlers(served),
            **group_handlers(served),
            **self._transactions.handlers,
        }

    def _make_front(self, handlers: Mapping[int, Handler]) -> Front:
        """Make the front of these handlers."""
        return self._front_kind()(
            handlers,
            self.memory,
            self._services,
            quotas=self._quotas,
            metrics=self._requests,
            used_interval_ms=used_interval_ms(self.config.idle_ms_max),
        )

    def _front_kind(self) -> Callable[..., Front]:
        """Return what makes a front of the arguments of `Front`."""
        return Front

    def _event_table(self, later: Iterable[type]) -> dict[type, Callable[[Any], None]]:
        """Return the function of each kind of event that a step takes at once."""
        return {
            **front_table(self._front),
            **dict.fromkeys(later, self._later.put),
            ImagePublished: self._publish,
            BrokerEpochChanged: self._on_epoch,
            StopRequested: self._stop,
            TimeAdvanced: lambda _: None,  # timers run in `settle`
        }

    # ---- the driver's side -------------------------------------------------------------------

    def take(self, events: Iterable[Event], now: Now) -> list[Effect]:
        """Take events in order, and go on with what waits: the first half of a step."""
        self._clock.set(now)
        self._budget.begin()
        self._requests.step()
        takes = self._takes
        for event in events:
            takes[type(event)](event)
        return self._taken()

    def settle(self) -> list[Effect]:
        """Run the timers that are due and set the deadline: the second half of a step."""
        self._budget.resume()
        if not self._is_serving and self._local.is_ready:
            self._is_serving = True
            self._front.serve()
            self._pulse.begin()
        first_ms = self._timed.tick(self._clock.now_ms)
        self._propose()  # what is due made the replicas tick
        is_idle = first_ms is not None and not self._turns.has_rest
        assert not (is_idle and self._effects), "what is emitted was due, or left by the first half"
        effects = [] if is_idle else self._taken()
        self._deadline_ms = self._timed.first_ms() if first_ms is None else first_ms
        if self._turns.has_rest:
            self._deadline_ms = self._clock.now_ms
        return effects

    def next_deadline_ms(self) -> int:
        """Return the latest time of the next TimeAdvanced."""
        return self._deadline_ms

    def _taken(self) -> list[Effect]:
        """Go on with what waits, as far as the budget has room; then all effects of the half."""
        self._turns.go_on()
        self._front.pause()
        effects = self._effects[:]
        self._effects.clear()
        return effects

    def _propose(self) -> None:
        """Send the ISRs that partitions propose, if no other request with some is in flight."""
        request = self._replicas.next_proposal(self._epoch)
        if request is not None:
            self._asks.ask(ALTER_PARTITION, request, self._replicas.on_proposal_answer)

    # ---- views, between two steps ------------------------------------------------------------

    def replica(self, key: TopicIdPartition) -> LocalReplicaView | None:
        """View of a replica; None if this broker hosts none."""
        partition = self._local.partition(key)
        if partition is None:
            return None
        return replica_view(
            partition,
            self.config.node_id,
            self._clock,
            log_dir=self._local.log_dir_of(key),
            future_log=self._moves.view(key),
            fetching=ReplicaFetchView(
                lag=self._fetchers.lag(key), failure=self._fetchers.failure(key)
            ),
        )

    def counts(self) -> RecordsCounts:
        """Count what this broker did and has."""
        config, replicas, local, fetchers = self.config, self._replicas, self._local, self._fetchers
        watched, delayed = replicas.watched_counts, replicas.waiting_counts
        remaining_logs, remaining_segments = local.remaining
        produce, fetch, delete_records = map(DelayedCount, watched, delayed)
        return RecordsCounts(
            counters=self._counters.of_all(),
            topics=topic_counts(self._counters, self._image),
            requests=dict(self._requests.requests),
            request_times=self._requests.kinds(),
            request_errors=dict(self._requests.errors),
            connections=self._front.connection_counts(),
            accepted=dict(self._front.accepted),
            queued_bytes=self.memory.used_bytes,
            queued_bytes_max=config.queued_bytes_max,
            depleted_ns=self.memory.depleted_ns,
            queued_requests=self._front.queued_count,
            sessions=session_count(self._sessions),
            groups=self._groups.figures(),
            transactions=self._transactions.figures(),
            offline_replicas=local.offline_count,
            failed_log_dirs=local.failed_log_dirs,
            remaining_logs=remaining_logs,
            remaining_segments=remaining_segments,
            produce=produce,
            fetch=fetch,
            delete_records=delete_records,
            replica_lag_max=fetchers.lag_max,
            failed_partitions=len(fetchers.failed),
            late_transactions=replicas.late_transaction_count(config.transactions.timeout_ms_max),
            quotas=quota_rates(self._quotas, self._throttles),
            flushes=local.flush_counts(),
            cleaner=self._cleaner.figures(),
            logs=self._largest.look(local.open_logs(), local.open_log, local.settings.log),
        )

    # ---- the node ----------------------------------------------------------------------------

    def _newest_image(self) -> Image:
        return self._image

    def _broker_epoch(self) -> BrokerEpoch:
        return self._epoch

    def _broker_of(self, node_id: NodeId) -> BrokerRegistration | None:
        return self._image.brokers.get(node_id)

    def _stop(self, _event: StopRequested) -> None:
        self._local.stop()
        self._pulse.stop()

    def _publish(self, event: ImagePublished) -> None:
        before, self._image = self._image, event.image
        self._groups.publish_change(before, event.image, event.delta)
        self._transactions.publish(event.image)
        self._links.take_brokers(event.image.brokers)
        self._quotas.publish(event.image.client_quotas)
        self._throttles.publish(event.image, event.delta)
        self._counters.forget(event.delta.topics_deleted)
        silent = self._silent.publish(event.image, event.delta)
        if silent:
            fields = {"dynamic_keys": silent}
            self._effects.append(Log(LogLevel.WARN, "configuration_without_effect", fields))
        self._local.publish(event.image, event.delta)

    def _on_epoch(self, event: BrokerEpochChanged) -> None:
        self._epoch = event.epoch

    # ---- between the parts -------------------------------------------------------------------

    def _on_disk_failure(self, key: TopicIdPartition, error: Exception) -> None:
        self._local.disk_failed(key, error)

    def _on_appended(self, key: TopicIdPartition, wait: Callable[[], Flushed]) -> None:
        self._local.appended(key, wait)

    def _on_checked(self, key: TopicIdPartition) -> None:
        self._groups.noticed(key)
        self._transactions.noticed(key)

    def _on_replicated(self, key: TopicIdPartition, is_raised: bool) -> None:  # noqa: FBT001
        """Follow an append of a fetcher; `is_raised` is the high watermark, which others await."""
        self._replicas.took(key, Changed(high_watermark_raised=is_raised))
        self._local.appended(key)
