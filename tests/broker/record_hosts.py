"""A broker's local replicas over a simulated disk, with lanes that run when the test says so."""

import random
from functools import partial
from itertools import count
from typing import Any

from broker.awaited import Asks, Work
from broker.config import RecordsConfig, UpkeepConfig
from broker.effects import Ask, Lane, Log, LogLevel, RunWork
from broker.replicas.local_replicas import LocalReplicas
from broker.services import Disk, Services
from metadata.features import METADATA_VERSION_MAX
from metadata.records import FeatureLevelRecord
from network.clock import Clock, Now
from network.turn_budget import TurnBudget
from replication.leader.leadership import LocalBroker
from simulator.cluster.memory_vfs import MemoryVfs
from storage.cleaner.session import InlineSession
from tests.broker.metadata_log import D1, D2, A, MetadataLog
from tests.storage.test_unified_log import produced
from wire.types import NodeId

START_MS = 1_000
SLICE_UNITS = 400
"""Budget of a turn: of 25 partitions."""
WALL_MS = 5_000_000
DIRS = {"/1": D1, "/2": D2}


class Replicas:
    """Replica manager and fetchers that note what they are told, in order."""

    def __init__(self) -> None:
        self.partitions: dict[Any, Any] = {}
        self.calls: list[tuple[Any, ...]] = []
        self.fetched: dict[Any, Any] = {}
        self.is_held = False
        self.count = 1

    def host(self, key: Any, partition: Any) -> None:
        assert key not in self.partitions
        self.partitions[key] = partition
        self.calls.append(("host", key))

    def drop(self, key: Any) -> None:
        del self.partitions[key]
        self.calls.append(("drop", key))

    def hosted(self, key: Any) -> Any:
        return self.partitions.get(key)

    def took(self, key: Any, changed: Any) -> None:
        assert key in self.partitions
        self.calls.append(("took", key, changed))

    def check(self, key: Any) -> None:
        self.calls.append(("check", key))

    def log_start_raised(self, key: Any) -> None:
        self.calls.append(("log_start_raised", key))

    def check_all(self, keys: Any) -> None:
        self.calls.append(("check_all", *keys))

    def assign(self, key: Any, topic: str, leader_id: int, leader_epoch: int) -> None:
        assert key not in self.fetched
        self.fetched[key] = (topic, leader_id, leader_epoch)

    def move(self, key: Any, topic: str, leader_epoch: int) -> None:
        self.calls.append(("move", key, topic, leader_epoch))

    def remove(self, key: Any) -> None:
        self.fetched.pop(key, None)

    def hold(self, *, is_wanted: bool) -> None:
        self.is_held = is_wanted


class Effects(list[Any]):
    """Effects; work and questions are apart, each with the function that takes its end."""

    def __init__(self) -> None:
        super().__init__()
        self.works: list[tuple[Lane, str, Any, Any]] = []
        self.asked: list[tuple[int, Any, Any]] = []
        self.work, self.asks = Work(self), Asks(self)

    def append(self, effect: Any) -> None:
        match effect:
            case RunWork():
                done = partial(self.work.on_done, effect.token)
                self.works.append((effect.lane, effect.name, effect.work, done))
            case Ask():
                answered = partial(self.asks.on_answer, effect.token)
                self.asked.append((effect.api_key, effect.body, answered))
            case _:
                super().append(effect)


class Host:
    """One broker's local replicas; work waits until `work` runs it."""

    def __init__(
        self,
        log: MetadataLog,
        vfs: Any = None,
        *,
        clean: tuple[str, ...] = (),
        dirs: tuple[str, ...] = ("/1", "/2"),
        upkeep: UpkeepConfig | None = None,
        **properties: str,
    ) -> None:
        self.log = log
        self.vfs = MemoryVfs() if vfs is None else vfs
        for path in dirs:
            self.vfs.make_directory(path)
        self.clock = Clock(Now(START_MS, WALL_MS))
        self.effects = Effects()
        self.budget = TurnBudget(SLICE_UNITS)
        self.works, self.asked = self.effects.works, self.effects.asked
        self.replicas = Replicas()
        uuids = count(1)
        properties.setdefault("log_cleaner_enable", "false")  # its looks would be among the others
        config = RecordsConfig(
            node_id=NodeId(1),
            log_dirs=dirs,
            directory_ids={path: DIRS[path] for path in dirs},
            inter_broker_listener="PLAINTEXT",
            properties=tuple(sorted((k.replace("_", "."), v) for k, v in properties.items())),
            upkeep=upkeep or UpkeepConfig(),
        )
        self.local = LocalReplicas(
            config,
            Disk(
                vfs=self.vfs,
                clean_log_dirs=frozenset(clean),
                new_uuid=lambda: next(uuids).to_bytes(16, "big"),
                rng=random.Random(1),
                open_session=lambda _, job: InlineSession(self.vfs, job),
            ),
            LocalBroker(NodeId(1), lambda: 7, self._broker, 30_000),
            Services(self.clock, self.effects, self.effects.work, self.effects.asks, self.budget),
            replicas=self.replicas,
            fetchers=self.replicas,
        )

    def _broker(self, node_id: Any) -> Any:
        return self.log.image.brokers.get(node_id)

    def work_one(self, number: int = 0) -> None:
        _, _, work, done = self.works.pop(number)
        error = None
        try:
            work()
        except Exception as raised:  # noqa: BLE001 - as a driver does
            error = raised
        done(error)
        self.apply()

    def apply(self) -> None:
        """Apply what was published, slice by slice; returns when nothing is left to apply."""
        while self.local.is_busy:
            self.turn()

    def turn(self) -> None:
        """One turn, in which nothing else happens."""
        self.budget.begin()
        self.local.go_on()

    def next_ms(self) -> int | None:
        """Instant of the next `tick`."""
        return self.clock.now_ms if self.local.upkeep.is_busy else self.local.next_ms()

    @property
    def is_due(self) -> bool:
        """True if a `tick` is due now."""
        return self.next_ms() == self.clock.now_ms

    def begin(self) -> None:
        """Let all upkeep begin that is due."""
        while min(self.local.upkeep._due_ms.values()) <= self.clock.now_ms:
            self.local.upkeep.tick()

    def tick(self) -> None:
        """One turn, in which timers run and the upkeep goes on."""
        self.budget.begin()
        self.local.tick()
        while self.local.upkeep.is_busy and self.budget.has_room:
            self.local.upkeep.go_on()

    def work(self) -> None:
        while self.works:
            self.work_one()

    def publish(self) -> None:
        self.local.publish(*self.log.take())
        self.apply()

    def started(self) -> "Host":
        self.publish()
        self.work()
        return self

    def called(self, name: str) -> list[tuple[Any, ...]]:
        """Calls of this name to replicas and fetchers."""
        return [call for call in self.replicas.calls if call[0] == name]

    def update(self) -> None:
        self.publish()
        self.work()

    def pass_ms(self, ms: int) -> None:
        """Let time pass, with a tick at each instant that is asked for."""
        end = self.clock.now_ms + ms
        while (due := self.next_ms()) is not None and due <= end:
            self._set(max(due, self.clock.now_ms))
            self.tick()
            self.work()
        self._set(end)

    def _set(self, now_ms: int) -> None:
        self.clock.set(Now(now_ms, WALL_MS + now_ms - START_MS))

    def partition(self, number: int = 0, topic_id: bytes = A) -> Any:
        return self.replicas.partitions[topic_id, number]

    def append(self, records: int = 1, number: int = 0, topic_id: bytes = A) -> None:
        for _ in range(records):
            self.partition(number, topic_id).append_as_leader(
                produced(self.clock.wall_ms),
                required_acks=1,
                wall_ms=self.clock.wall_ms,
                now_ms=self.clock.now_ms,
            )
            self.local.appended((topic_id, number))
            self.work()

    def taken(self, kind: type) -> list[Any]:
        found = [each for each in self.effects if isinstance(each, kind)]
        self.effects[:] = [each for each in self.effects if not isinstance(each, kind)]
        return found

    def logged(self, event: str) -> list[Any]:
        found = [each for each in self.effects if isinstance(each, Log) and each.event == event]
        assert all(isinstance(each.level, LogLevel) for each in found)
        return [each.fields for each in found]

    def leave(self) -> None:
        """Begin to stop: all partitions are left."""
        self.local.stop()
        self.apply()

    def stop(self) -> Any:
        self.leave()
        self.work()
        return self.effects[-1]


def registered() -> MetadataLog:
    log = MetadataLog()
    log.write(FeatureLevelRecord(name="metadata.version", feature_level=METADATA_VERSION_MAX))
    log.register()
    return log


def with_topics(*names: str, **fields: object) -> MetadataLog:
    log = registered()
    for name in names:
        log.topic(name, **fields)  # type: ignore[arg-type]
    return log
