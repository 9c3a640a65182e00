"""Whole nodes for scenarios of records: a controller, brokers, and no chance.

Each node is a machine with both of its values. Delays are fixed, work of the brokers takes no time,
settings are Kafka's defaults; links can be held, so that what is on them passes one by one.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final, cast

import msgspec
from msgspec.structs import replace
from typing_extensions import override

from broker.config import RecordsConfig, UpkeepConfig
from broker.effects import Effect
from broker.events import Event
from kernel.config import NodeConfig
from simulator.campaign.draw import Options, Settings, draw_settings
from simulator.checks.partitions.record_logs import StoredBatch, stored_batches
from simulator.checks.violation import Violation
from simulator.cluster.machine import DATA, Machine
from simulator.cluster.network import Direction, Pipe
from simulator.cluster.streams import Streams
from simulator.records.client_link import ClientLink
from simulator.records.machine import RecordsMachine
from simulator.records.world import RecordsWorld
from simulator.scenarios.command import ScenarioError
from simulator.scenarios.records_text import FetchTap, ReplicaView, change_text, view_of
from wire.types import TopicIdPartition

CONTROLLER: Final = 1
FIRST_BROKER: Final = 101
CLIENT_HOST: Final = 3_000
MS: Final = 1_000
SESSION_MS: Final = 9_000
START_MS_MAX: Final = 5_000
OPTIONS: Final = Options(node_count=1, observer_count=1, faults=(), write_count=0)


def settings_of(broker_count: int) -> Settings:
    """Settings of a cluster: a controller and brokers, with every delay fixed."""
    streams = Streams(1)
    drawn = draw_settings(1, streams.stream("draw"), streams.stream("rare"), OPTIONS)
    return replace(
        drawn,
        voter_count=1,
        observer_count=broker_count,
        is_combined=False,
        delay_us=200,
        delay_mean_us=0,
        flush_us=100,
        flush_mean_us=0,
        election_timeout_ms=200,
        fetch_timeout_ms=2_000,
        fetch_bytes_max=1 << 20,
        segment_bytes=1 << 30,
        record_bytes_between_snapshots=1 << 40,
        session_timeout_ms=SESSION_MS,
        request_timeout_ms=30_000,
        clock_rate_ppm_max=0,
        flush_reported_late_us=0,
        begin_epoch_late_us=0,
        has_extreme_timeouts=False,
        loses_first_vote=False,
        asks_minimal_quorum=False,
        has_lookups=False,
        hands_over=False,
    )


class BrokerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the brokers beside Kafka's defaults."""

    properties: tuple[tuple[str, str], ...] = ()
    lag_ms_max: int = 30_000
    """`replica.lag.time.max.ms`"""
    upkeep: UpkeepConfig = UpkeepConfig()


class _NoChance(Random):
    """Draws the shortest of all delays."""

    @override
    def random(self) -> float:
        return 0.0


class ScenarioMachine(RecordsMachine):
    """A node of a scenario."""

    broker_settings = BrokerSettings()

    @override
    def records_config(self) -> RecordsConfig:
        settings = self.broker_settings
        return RecordsConfig(
            node_id=self.config.node_id,
            log_dirs=(DATA,),
            directory_ids={DATA: self.directory_id},
            inter_broker_listener="PLAINTEXT",
            properties=settings.properties,
            replica_lag_ms_max=settings.lag_ms_max,
            upkeep=settings.upkeep,
        )


class ScenarioWorld(RecordsWorld):
    """A cluster that does nothing by itself but what brokers do; lines say what changes.

    The invariants of records (simulator/checks/partitions/records.py) are checked as in every run:
    the first one that breaks is a line, and they rest from then on.

    Args:
        broker_count: ids are 101, 102 and so on.
        broker_settings: of all of them.
    """

    machine_type = ScenarioMachine

    def __init__(self, broker_count: int, broker_settings: BrokerSettings) -> None:
        self._broker_settings = broker_settings
        super().__init__(settings_of(broker_count), Streams(1), [])
        self.record_checks.let_logs_start_anywhere()
        self.lines: list[str] = []
        self._topics: dict[bytes, str] = {}
        """Id -> name."""
        self._counted_up_to = 0
        self._links: dict[tuple[int, int], ClientLink] = {}
        self._views: dict[tuple[int, TopicIdPartition], ReplicaView] = {}
        self._is_broken = False
        self.brokers = [number for number, each in self.nodes.items() if each.config.is_broker]
        self._fetch_tap = FetchTap(set(self.brokers), self.name_of)
        self.network.on_sent = self._on_sent

    @override
    def _machine(self, number: int, streams: Streams) -> Machine:
        machine = super()._machine(number, streams)
        assert isinstance(machine, ScenarioMachine), f"{machine=}"
        machine.broker_settings = self._broker_settings
        machine.delays = _NoChance()
        machine.clock_offset_ms = 0
        return machine

    @override
    def _config(self, number: int) -> NodeConfig:
        return replace(super()._config(number), log_dirs=(DATA,))

    @override
    def _create(self) -> None:
        """Create no topic, and start none of the clients of drawn runs."""

    # ---- time ----------------------------------------------------------------------------------

    def advance(self, time_ms: int) -> None:
        """Let time pass."""
        self.run(self.scheduler.now_us + time_ms * MS)

    def start_up(self) -> None:
        """Start all nodes, until every broker serves."""
        self.start()
        brokers = self.settings.observer_count

        def is_serving() -> bool:
            known = self.ledger.image.brokers
            return sum(not each.fenced for each in known.values()) == brokers

        if not self.run_until(is_serving, START_MS_MAX * MS):
            raise ScenarioError("the brokers do not come up")
        self.lines.clear()

    # ---- network -------------------------------------------------------------------------------

    def link_to(self, target: int, api_key: int) -> ClientLink:
        """The client's connection to a node for one API, so that none waits behind another."""
        link = self._links.get((target, api_key))
        if link is None or link.is_closed:
            link = ClientLink(
                CLIENT_HOST, target, self.network, self.scheduler, self.cluster.connect
            )
            self._links[target, api_key] = link
        return link

    def pass_one(self, source: int, target: int) -> bool:
        """Let the oldest of what is held arrive; False if nothing is."""
        return self.network.pass_one(source, target)

    def hold(self, source: int, target: int) -> None:
        """Let wait what two nodes send each other."""
        self.network.cut(source, target)
        self.network.cut(target, source)

    def release(self, source: int, target: int) -> None:
        """Let all that waits arrive, and nothing wait from now on."""
        self.network.heal(source, target)
        self.network.heal(target, source)

    @override
    def _on_sent(self, pipe: Pipe, direction: Direction, due_us: int, data: bytes) -> None:
        del due_us
        self.lines += self._fetch_tap.lines_of(pipe, data, to_server=direction is pipe.to_server)

    # ---- watching ------------------------------------------------------------------------------

    def note_acknowledged(
        self, key: tuple[bytes, int], base_offset: int, values: Sequence[bytes], sent_us: int
    ) -> None:
        """Check from now on that these records stay, which a producer was promised."""
        self._checked(lambda: self.record_checks.acknowledged(key, base_offset, values, sent_us))

    def note_consumed(
        self, key: tuple[bytes, int], base_offset: int, values: Sequence[bytes], sent_us: int
    ) -> None:
        """Check from now on that these records stay, which a consumer read."""
        self._checked(lambda: self.record_checks.consumed(key, base_offset, values, sent_us))

    @property
    def now_us(self) -> int:
        """Time since the start."""
        return self.scheduler.now_us

    def say(self, line: str) -> None:
        """Add a line to the output of the command."""
        self.lines.append(line)

    def take_lines(self) -> list[str]:
        """The lines since the last time."""
        taken, self.lines = self.lines, []
        return taken

    def add_topic(self, topic_id: bytes, name: str) -> None:
        """Name a new topic, also in the lines that were said before."""
        self._topics[topic_id] = name
        self.lines = [line.replace(topic_id.hex(), name) for line in self.lines]

    def name_of(self, topic_id: bytes, number: int) -> str:
        """The name of a partition, as `t-0`."""
        return f"{self._topics.get(topic_id, topic_id.hex())}-{number}"

    def key_of(self, name: str) -> TopicIdPartition:
        """The partition with a name.

        Raises:
            ScenarioError: there is none.
        """
        topic, _, number = name.rpartition("-")
        for topic_id, known in self._topics.items():
            if known == topic and number.isdigit():
                return cast("TopicIdPartition", (topic_id, int(number)))
        raise ScenarioError(f"no partition {name!r}")

    def node(self, number: int) -> RecordsMachine:
        """A machine.

        Raises:
            ScenarioError: there is none.
        """
        if number not in self.nodes:
            raise ScenarioError(f"no node {number}")
        return self.nodes[number]

    def views(self, number: int) -> dict[str, ReplicaView]:
        """All replicas at a node, by the name of their partition; none while no process runs."""
        hosted = self.record_checks.partitions_at(number).items()
        named = [(self.name_of(bytes(key[0]), key[1]), partition) for key, partition in hosted]
        return {name: view_of(partition) for name, partition in sorted(named, key=_first)}

    def stored(self, number: int, name: str) -> list[StoredBatch]:
        """Batches in the files of a partition."""
        topic, _, partition = name.rpartition("-")
        return stored_batches(self.node(number).vfs, topic, int(partition))

    def leaders(self) -> list[str]:
        """Leader, epoch and ISR of every partition, as the controller has them."""
        lines = []
        for topic_id, topic in self.ledger.image.topics.items():
            for number, row in topic.partitions.items():
                name = self.name_of(bytes(topic_id), number)
                isr = ",".join(map(str, row.isr))
                leader = int(row.leader) if row.has_leader else "-"
                elr = "".join(f" elr={','.join(map(str, ids))}" for ids in (row.elr,) if ids)
                lines.append(f"{name} leader={leader} epoch={row.leader_epoch} isr={isr}{elr}")
        return sorted(lines)

    def largest_batch(self) -> int:
        """Records of the largest batch of metadata since the last time."""
        since, self._counted_up_to = self._counted_up_to, self.ledger.end_offset
        return self.ledger.largest_batch(since)

    @override
    def _after_records_step(
        self, machine: RecordsMachine, taken: Sequence[Event], effects: Sequence[Effect]
    ) -> None:
        for key, partition in self.record_checks.partitions_at(machine.id).items():
            place, view = (machine.id, key), view_of(partition)
            text = change_text(self._views.get(place), view)
            self._views[place] = view
            if text:
                self.say(f"{machine.id} {self.name_of(bytes(key[0]), key[1])} {text}")
        after = super()._after_records_step
        self._checked(lambda: after(machine, taken, effects))

    @override
    def process_ended(self, machine: Machine, reason: str, error: BaseException | None) -> None:
        ended = super().process_ended
        self._checked(lambda: ended(machine, reason, error))

    @override
    def _look(self) -> None:
        self._checked(super()._look)

    def _checked(self, check: Callable[[], None]) -> None:
        """Check, unless an invariant is broken already; say so if one is."""
        if self._is_broken:
            return
        try:
            check()
        except Violation as violation:
            self._break(violation)

    def _break(self, violation: Violation) -> None:
        self._is_broken = True
        text = str(violation)
        for topic_id, name in self._topics.items():
            text = text.replace(topic_id.hex()[:8], name)
        self.say(f"breaks {text}")

    def forget_views(self, number: int) -> None:
        """Show all of a node's replicas again: its process ended."""
        for place in [place for place in self._views if place[0] == number]:
            del self._views[place]


def _first(row: tuple[str, object]) -> str:
    return row[0]
