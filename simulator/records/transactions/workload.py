"""Everything that a run with transactions has more: drawn, started, stopped, checked."""

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from broker.config import RecordsConfig
from coordinator.transaction.config import TransactionsConfig
from metadata.features import TRANSACTION_VERSION
from metadata.image import Image
from simulator.checks.partitions.transactions import TRANSACTIONAL, TransactionChecks
from simulator.cluster.streams import Streams
from simulator.records import requests
from simulator.records.clients import Cluster, PartitionClient, Topic
from simulator.records.consumers import RecordConsumer
from simulator.records.machine import RecordsMachine
from simulator.records.transactions.consumer import CommittedConsumer
from simulator.records.transactions.mover import Mover
from simulator.records.transactions.producer import TransactionalProducer
from simulator.records.transactions.requests import EPOCH_BUMP_VERSION
from simulator.records.transactions.session import SessionRules
from wire.errors import ErrorCode

TOPIC: Final = Topic(TRANSACTIONAL, 3)
FIRST_HOST: Final = 2_300
CREATED: Final = (ErrorCode.none, ErrorCode.topic_already_exists)
SEGMENTS: Final = ("700", "2000", "4000")
FLUSHES: Final = ("1", "10", "40")
OLDER_SHARE: Final = 0.25
"""Share of transactional ids that an older client has where newer ones may be."""


class TransactionsDraw(msgspec.Struct, frozen=True, kw_only=True):
    """Decisions of the seed about transactions."""

    version: int
    """transaction.version of the cluster."""
    timeouts_ms: tuple[int, ...]
    """`transaction.timeout.ms` of each transactional id."""
    are_old: tuple[bool, ...]
    """True for those with an older client."""
    coordinators: int
    """Partitions of `__transaction_state`."""
    configs: dict[str, str]
    """Of the topic, with `_` for each dot: small segments, flushed soon or late."""
    recovery_point_ms: int
    """`log.flush.offset.checkpoint.interval.ms`"""
    high_watermark_ms: int
    """`replica.high.watermark.checkpoint.interval.ms`"""

    def config_of(
        self, config: RecordsConfig, brokers: int, min_insync_replicas: int
    ) -> RecordsConfig:
        """The settings of a broker of the run: few coordinators, which look often.

        Where flushed ends are recorded more often than high watermarks, a start finds snapshots of
        producers above the latter.
        """
        more = {
            "transaction.state.log.num.partitions": str(self.coordinators),
            "transaction.state.log.replication.factor": str(min(3, brokers)),
            "transaction.state.log.min.isr": str(min_insync_replicas),
        }
        return replace(
            config,
            properties=tuple(sorted((dict(config.properties) | more).items())),
            transactions=TransactionsConfig(abort_interval_ms=300, request_timeout_ms=3_000),
            upkeep=replace(
                config.upkeep,
                recovery_point_ms=self.recovery_point_ms,
                high_watermark_ms=self.high_watermark_ms,
            ),
        )


def draw_transactions(streams: Streams) -> TransactionsDraw:
    """Draw what a seed has, from a stream of its own."""
    rng = streams.stream("transactions")
    version = rng.choice((0, 1, EPOCH_BUMP_VERSION, EPOCH_BUMP_VERSION))
    count = rng.choice((2, 3))
    are_old = tuple(rng.random() < OLDER_SHARE for _ in range(count))
    return TransactionsDraw(
        version=version,
        timeouts_ms=tuple(rng.choice((500, 1_500, 4_000)) for _ in range(count)),
        are_old=tuple(version < EPOCH_BUMP_VERSION or is_old for is_old in are_old),
        coordinators=rng.choice((1, 2)),
        configs={
            "internal_segment_bytes": rng.choice(SEGMENTS),
            "flush_messages": rng.choice(FLUSHES),
        },
        recovery_point_ms=rng.choice((500, 4_000)),
        high_watermark_ms=rng.choice((1_000, 3_000)),
    )


class TransactionalWorkload:
    """The clients of one run, in a topic of their own.

    Args:
        drawn: what the seed decides.
        cluster: as the clients of records reach it, with their source of chance.
        racks: of consumers.
        image: gives the newest committed image.
        checks: told what the clients do.
        create_topic: makes the body that creates a topic, with some configs.
    """

    def __init__(
        self,
        drawn: TransactionsDraw,
        cluster: Cluster,
        racks: tuple[str, ...],
        *,
        image: Callable[[], Image],
        checks: TransactionChecks,
        create_topic: Callable[..., Any],
    ) -> None:
        self._drawn = drawn
        self._checks = checks
        self._create_topic = create_topic
        cluster, rng = replace(cluster, topic=TOPIC), cluster.rng
        hosts = iter(range(FIRST_HOST, FIRST_HOST + 100))
        self._starter = PartitionClient(cluster, next(hosts), 0)
        self.producers = [
            TransactionalProducer(
                cluster,
                SessionRules(
                    transactional_id=f"id-{number}",
                    host=next(hosts),
                    is_old=is_old,
                    timeout_ms=drawn.timeouts_ms[number],
                ),
                checks,
            )
            for number, is_old in enumerate(drawn.are_old)
        ]
        self.consumers: list[RecordConsumer] = [
            CommittedConsumer(cluster, next(hosts), number, rng.choice(("", *racks)), checks)
            for number in range(TOPIC.partitions)
        ]
        self.consumers.append(RecordConsumer(cluster, next(hosts), 0))
        self._mover = Mover(cluster, next(hosts), image, checks.hit)
        self.clients: tuple[TransactionalProducer | PartitionClient, ...] = (
            *self.producers,
            *self.consumers,
            self._starter,
            self._mover,
        )

    # ---- the run -------------------------------------------------------------------------------

    def start(self) -> None:
        """Raise the feature, create the topic, and start all clients."""
        version = self._drawn.version

        def raised(response: Any) -> None:
            if response is not None and response.error_code is ErrorCode.none:
                self._create()
            else:
                self._starter.later(self.start)

        if version == 0:
            self._create()
            return
        body = requests.upgrade_feature(TRANSACTION_VERSION, version)
        self._starter.ask_any(requests.UPDATE_FEATURES, body, raised)

    def _create(self) -> None:
        def answered(response: Any) -> None:
            if response is None or response.topics[0].error_code not in CREATED:
                self._starter.later(self._create)
                return
            for producer in self.producers:
                producer.start()
            for consumer in self.consumers:
                consumer.start()
            self._mover.start()
            for is_old in self._drawn.are_old:
                self._checks.hit("older_client" if is_old else "newer_client")

        body = self._create_topic(TOPIC, **self._drawn.configs)
        self._starter.ask_any(requests.CREATE_TOPICS, body, answered)

    def after_step(self, machine: RecordsMachine) -> None:
        """Check D4 behind a step of a broker."""
        self._checks.after_step(machine)

    def look(self) -> None:
        """Check D4 of all replicas."""
        self._checks.look()

    # ---- its end -------------------------------------------------------------------------------

    def stop_writing(self) -> None:
        """Let the clients end behind their last transactions."""
        self._mover.is_stopped = True
        for producer in self.producers:
            producer.stop()

    def why_unfinished(self) -> str:
        """Describe what is not done; empty when nothing."""
        if not all(producer.is_idle for producer in self.producers):
            return "a process with a transactional id is in a transaction"
        if self._checks.is_excused:
            return ""  # a decision that is lost leaves a transaction without an end
        return self._checks.why_open() or self._checks.why_unread(self.consumers)

    def stop_reading(self) -> None:
        """Let the consumers end."""
        for consumer in self.consumers:
            consumer.is_stopped = True

    def why_waiting(self) -> str:
        """Describe who waits for an answer; empty when nobody."""
        waiting = [each.host for each in self.consumers if each.is_waiting]
        return f"consumers {waiting} are not answered" if waiting else ""

    def check_at_rest(self) -> None:
        """Check D4 when all is quiet."""
        self._checks.check_at_rest()
