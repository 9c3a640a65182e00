"""A world whose brokers serve records, with a topic of three replicas, producers and consumers."""

import zlib
from collections.abc import Sequence
from functools import cache
from random import Random
from typing import Any, Final, cast

from msgspec.structs import replace
from typing_extensions import override

from broker.config import RecordsConfig
from broker.effects import DirectoryFailed, Effect, Log, Stopped
from broker.events import Event
from kernel import effects as out
from kernel import events
from kernel.config import NodeConfig
from simulator.campaign.draw import Settings
from simulator.campaign.recording import Recording
from simulator.checks.partitions.compacted import CompactedChecks
from simulator.checks.partitions.copies import CopyChecks
from simulator.checks.partitions.groups import GroupChecks
from simulator.checks.partitions.records import LOOKED_AT_EVERY_US, RecordChecks
from simulator.checks.partitions.transactions import TransactionChecks
from simulator.cluster.machine import Machine
from simulator.cluster.streams import Streams
from simulator.cluster.world import Traced, World
from simulator.copying.drawing import copying_of
from simulator.copying.marks import COPY_MARKS
from simulator.faults.decision import Decision
from simulator.groups.settings import GROUPED, with_groups
from simulator.groups.workload import Groups
from simulator.records import requests
from simulator.records.chores import Chores
from simulator.records.client_link import ClientLink
from simulator.records.clients import Cluster, PartitionClient, Topic
from simulator.records.compacting import TOPIC as COMPACTED_TOPIC
from simulator.records.compacting import KeyedProducer
from simulator.records.consumers import RecordConsumer
from simulator.records.failing_directories import failed_directory, repair_directories
from simulator.records.machine import RecordsMachine
from simulator.records.marks import GROUPS_MARKS, RECORDS_MARKS
from simulator.records.producers import HastyProducer, ProducerKind, RecordProducer
from simulator.records.transactions.marks import TRANSACTION_MARKS
from simulator.records.transactions.workload import TransactionalWorkload, draw_transactions
from wire.batches.compression import Codec
from wire.errors import ErrorCode

TOPIC: Final = Topic("records", 2)
FIRST_HOST: Final = 2_000
MORE_LOG_DIRS: Final = ("/data2",)
RACKS: Final = ("a", "b")
PAUSES_US: Final = (80_000, 200_000, 500_000)
KINDS: Final = (
    ProducerKind(ahead=1),
    ProducerKind(ahead=3),
    ProducerKind(ahead=0),
    ProducerKind(ahead=0, acks=1),
    ProducerKind(ahead=0, acks=0),
)
FEWEST_KINDS: Final = 2
"""Of the producers of a partition, chosen by the seed."""
CREATED: Final = (ErrorCode.none, ErrorCode.topic_already_exists)
ALL_MARKS: Final = frozenset((*RECORDS_MARKS, *TRANSACTION_MARKS, *GROUPS_MARKS, *COPY_MARKS))


COMPACTED_SHARE: Final = 0.5
"""Of the runs, which have a compacted topic too."""
KEYED_HOST: Final = FIRST_HOST + 200
GROUPS_HOST: Final = FIRST_HOST + 300
MARKED_LINES: Final = {"log_moved": "replica_moved", "log_cleaned": "log_cleaned"}
ENDED_BY: Final = "Shutdown broker because"
"""Reason of a node that ends by the failure of its log directories."""


class RecordsWorld(World):
    """Everything of one run; see `World`."""

    machine_type = RecordsMachine

    def __init__(
        self,
        settings: Settings,
        streams: Streams,
        plan: list[Decision],
        trace: Traced | None = None,
        recording: Recording | None = None,
        *,
        min_insync_replicas: int = 2,
        has_transactions: bool = False,
    ) -> None:
        self._delays = streams.stream("records")
        self._transactions = draw_transactions(streams) if has_transactions else None
        super().__init__(settings, streams, plan, trace, recording)
        self.nodes = cast("dict[int, RecordsMachine]", self.machines)
        self.record_checks = RecordChecks(
            self.nodes,
            lambda: self.ledger.image,
            lambda: self.scheduler.now_us,
            self.record_marks,
        )
        self.marks: dict[str, int] = {}
        self._records_steps = 0
        self._min_insync_replicas = min_insync_replicas
        self.cluster = Cluster(
            topic=TOPIC,
            nodes=tuple(n for n, m in self.machines.items() if m.config.is_broker),
            rng=streams.stream("record_clients"),
            network=self.network,
            scheduler=self.scheduler,
            connect=self._connect,
            checks=self.record_checks,
        )
        hosts = iter(range(FIRST_HOST, FIRST_HOST + 100))
        kinds = streams.stream("record_kinds")
        self.producers: list[RecordProducer | HastyProducer | KeyedProducer] = [
            self._producer(next(hosts), number, kind)
            for number in range(TOPIC.partitions)
            for kind in draw_kinds(kinds)
        ]
        self.consumers = [
            RecordConsumer(self.cluster, next(hosts), number, rack)
            for number in range(TOPIC.partitions)
            for rack in ("", kinds.choice(RACKS))
        ]
        self._creator = PartitionClient(self.cluster, next(hosts), 0)
        self.compacted = CompactedChecks(self.nodes, self.record_checks)
        drawn = streams.stream("compaction")
        if drawn.random() < COMPACTED_SHARE:
            cluster = replace(self.cluster, topic=COMPACTED_TOPIC, rng=drawn)
            host = KEYED_HOST
            self.producers.append(KeyedProducer(cluster, host, drawn, self.compacted))
        self.transaction_checks = TransactionChecks(
            self.nodes, self.record_checks, lambda: self.ledger.image
        )
        self.rooms = self._rooms()
        more = [client for room in self.rooms for client in room.clients]
        self.clients = (*self.producers, *self.consumers, self._creator, *more)
        self.chores = Chores(
            self.cluster,
            next(hosts),
            self.record_checks,
            lambda: self.ledger.image,
            self._creation,
        )
        self.copies: CopyChecks | None = None
        self.groups = self._groups() if settings.has_groups else None
        self.nemesis.more = {**self.chores.table, **(self.groups.table if self.groups else {})}

    def _groups(self) -> Groups:
        self.group_checks = GroupChecks(
            self.nodes,
            self.record_checks,
            lambda: self.ledger.image,
            lambda: self.scheduler.now_us,
            GROUPED.name,
        )
        hosts = iter(range(GROUPS_HOST, GROUPS_HOST + 100))
        copying = None
        if self._transactions is not None:
            rng, version = self.streams.stream("copying"), self._transactions.version
            copying = copying_of(self.cluster, rng, version, self.transaction_checks)
            self.group_checks.transactions = self.transaction_checks
            self.copies = CopyChecks(
                self.transaction_checks,
                self.record_checks,
                lambda: self.ledger.image,
                GROUPED.name,
            )
        return Groups(
            self.cluster,
            self.streams.stream("groups"),
            lambda: next(hosts),
            self.group_checks,
            lambda: self.ledger.image,
            copying,
        )

    def record_marks(self, name: str) -> None:
        """Count a coverage mark of records."""
        assert name in ALL_MARKS, name
        self.marks[name] = self.marks.get(name, 0) + 1

    @override
    def _machine(self, number: int, streams: Streams) -> Machine:
        machine = super()._machine(number, streams)
        assert isinstance(machine, RecordsMachine)
        machine.delays = self._delays
        machine.on_records_step = self._after_records_step
        machine.on_power_lost = lambda lost: self.record_checks.power_lost(lost.id)
        machine.adjust = self._adjusted
        return machine

    @override
    def _config(self, number: int) -> NodeConfig:
        config = super()._config(number)
        if not config.is_broker:
            return config
        broker = replace(config.broker, rack=RACKS[number % len(RACKS)])
        return replace(config, log_dirs=config.log_dirs + MORE_LOG_DIRS, broker=broker)

    def _adjusted(self, config: RecordsConfig) -> RecordsConfig:
        """The settings of a broker, as what the seed decided asks for."""
        if self._transactions is not None:
            brokers = len(self.cluster.nodes)
            config = self._transactions.config_of(config, brokers, self._min_insync_replicas)
        return with_groups(config) if self.settings.has_groups else config

    def _rooms(self) -> tuple[TransactionalWorkload, ...]:
        """Things that the run has beside its plain and compacted topics."""
        if self._transactions is None:
            return ()
        return (
            TransactionalWorkload(
                self._transactions,
                replace(self.cluster, rng=self.streams.stream("transaction_clients")),
                RACKS,
                image=lambda: self.ledger.image,
                checks=self.transaction_checks,
                create_topic=self._creation,
            ),
        )

    def _producer(
        self, host: int, partition: int, kind: ProducerKind
    ) -> RecordProducer | HastyProducer:
        make = RecordProducer if kind.acks < 0 else HastyProducer
        return make(self.cluster, host, partition, kind)

    def _connect(self, link: ClientLink) -> Any:
        machine = self.machines[link.target]
        return self.network.connect(
            link, machine.id, lambda pipe: machine.accept(pipe, "PLAINTEXT")
        )

    # ---- the run -------------------------------------------------------------------------------

    @override
    def start(self) -> None:
        super().start()
        self._create()
        for room in self.rooms:
            room.start()
        if self.groups is not None:
            self.groups.start()
        self.scheduler.after(LOOKED_AT_EVERY_US, self._look)

    def _creation(self, topic: Topic = TOPIC, **configs: str) -> Any:
        return requests.create_topic(
            topic.name,
            topic.partitions,
            min(3, len(self.cluster.nodes)),
            min_insync_replicas=str(self._min_insync_replicas),
            **configs,
        )

    def repair_directories(self) -> None:
        """Put all failed log directories right."""
        for machine in self.nodes.values():
            repair_directories(machine)

    def _create(self) -> None:
        body = self._creation()

        def answered(response: Any) -> None:
            if response is not None and response.topics[0].error_code in CREATED:
                for producer in self.producers:
                    producer.start()
                for consumer in self.consumers:
                    consumer.start()
            else:
                self._creator.later(self._create)

        self._creator.ask_any(requests.CREATE_TOPICS, body, answered)

    def _look(self) -> None:
        self.record_checks.compare_replicas()
        self.compacted.look(self.ledger.image)
        for room in self.rooms:
            room.look()
        self.scheduler.after(LOOKED_AT_EVERY_US, self._look)

    @property
    def all_producers(self) -> list[Any]:
        """Producers, with those of rooms."""
        return [*self.producers, *(each for room in self.rooms for each in room.producers)]

    # ---- watching ------------------------------------------------------------------------------

    @override
    def process_ended(self, machine: Machine, reason: str, error: BaseException | None) -> None:
        if ENDED_BY in reason and failed_directory(machine.vfs) is not None:
            self.record_marks("stopped_by_a_directory")
            error = None
        super().process_ended(machine, reason, error)

    @property
    @override
    def events_by_kind(self) -> dict[str, int]:
        return super().events_by_kind | {"Records": self._records_steps}

    @override
    def after_step(
        self, machine: Machine, event: events.Event | None, effects: list[out.Effect]
    ) -> None:
        super().after_step(machine, event, effects)
        self.record_checks.image_changed()

    def _after_records_step(
        self, machine: RecordsMachine, taken: Sequence[Event], effects: Sequence[Effect]
    ) -> None:
        self.event_count += 1
        self._records_steps += 1
        if self.event_count >= self._busy_at:
            self._look_for_a_busy_loop()
        kinds = [_number_of(type(each)) for each in (*taken, *effects)]
        step = (self.digest, self.scheduler.now_us, machine.id, len(taken), *kinds)
        self.digest = hash(step) & 0xFFFFFFFF  # of numbers alone: the same in every process
        self.record_checks.after_step(machine)
        for room in self.rooms:
            room.after_step(machine)
        if self.groups is not None:
            self.group_checks.after_step(machine)
        for effect in effects:
            if type(effect) is DirectoryFailed:
                self.record_marks("directory_failed")
            elif type(effect) is Stopped and effect.clean:
                self.record_marks("stopped_cleanly")
            elif type(effect) is Log and effect.event in MARKED_LINES:
                self.record_marks(MARKED_LINES[effect.event])


@cache
def _number_of(kind: type) -> int:
    return zlib.crc32(kind.__name__.encode())


def draw_kinds(rng: Random) -> list[ProducerKind]:
    """Draw the producers of a partition, in a fixed order; the first one is always there."""
    count = rng.randrange(FEWEST_KINDS, len(KINDS) + 1)
    chosen = {0, *rng.sample(range(1, len(KINDS)), count - 1)}
    return [
        replace(kind, codec=rng.choice(tuple(Codec)), pause_us=rng.choice(PAUSES_US))
        for number, kind in enumerate(KINDS)
        if number in chosen
    ]
