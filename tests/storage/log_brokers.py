"""A manager of logs over log directories on a simulated disk."""

from itertools import count
from typing import Any

import msgspec

from simulator.cluster.memory_vfs import MemoryVfs
from storage.checkpoints.checkpoint_files import OffsetCheckpoint
from storage.logs.log_directory import TopicSettings
from storage.logs.log_manager import LogManager
from storage.logs.unified_log import UnifiedLog
from tests.storage.test_unified_log import produced
from wire.types import TopicId

NOW = 5_000_000
DAY_MS = 86_400_000
A, B = TopicId(b"a" * 16), TopicId(b"b" * 16)
IDS = {"a": A, "b": B}
LOG_START = "log-start-offset-checkpoint"
HIGH_WATERMARK = "replication-offset-checkpoint"


class Broker:
    """A manager of some log directories over one disk, and the settings of its topics."""

    def __init__(self, vfs: Any = None, *paths: str, clean: bool = False) -> None:
        self.vfs = MemoryVfs() if vfs is None else vfs
        self.settings: dict[str, TopicSettings] = {}
        uuids = count(1)
        self.manager = LogManager(
            self.vfs,
            lambda topic: self.settings.get(topic, TopicSettings()),
            lambda: next(uuids).to_bytes(16, "big"),
        )
        for path in paths or ("/d",):
            self.vfs.make_directory(path)
            for task in self.manager.load(path, self.is_stray, NOW, is_clean=clean):
                task.run()
                self.manager.loaded(task)

    def is_stray(self, directory: Any) -> bool:
        return directory.topic_id != IDS.get(directory.topic)

    def create(self, topic: str = "a", partition: int = 0, path: str = "/d") -> UnifiedLog:
        task = self.manager.create(topic, partition, IDS[topic], path, NOW)
        task.run()
        log = self.manager.loaded(task)
        assert log is not None
        return log

    def delete(self, topic: str, partition: int, wall_ms: int) -> None:
        task = self.manager.delete(topic, partition, wall_ms)
        task.run()
        self.manager.deleted(task)

    def log(self, topic: str = "a", partition: int = 0) -> UnifiedLog:
        log = self.manager.get(topic, partition)
        assert log is not None
        return log

    def set(self, topic: str, **changes: Any) -> None:
        before = self.settings.get(topic, TopicSettings())
        self.settings[topic] = msgspec.structs.replace(before, **changes)


def fill(log: UnifiedLog, number: int) -> None:
    for _ in range(number):
        log.append_as_leader(produced(NOW), 1, NOW)


def segments_of_one(broker: Broker, topic: str = "a") -> None:
    size = len(produced(NOW).buffer)
    config = msgspec.structs.replace(TopicSettings().log, segment_bytes=size)
    broker.set(topic, log=config)


def recorded(broker: Broker, name: str = "recovery-point-offset-checkpoint") -> dict[Any, int]:
    return dict(OffsetCheckpoint(broker.vfs, "/d", name).offsets)
