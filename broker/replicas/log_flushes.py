"""Flushes of logs, each in the lane of its log directory, and those who wait for them.

apache/kafka: storage/.../log/UnifiedLog.java (`append`, `flush`)
"""

from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from broker.effects import Lane
from broker.replicas.stored_logs import StoredLogs
from replication.leader.flush_gate import Flushed
from storage.checkpoints.recovery_points import TopicAndPartition
from storage.logs.flush_plan import FlushPlan
from storage.logs.log_manager import ERRORS
from storage.logs.unified_log import UnifiedLog

KEPT: Final = 1024
"""Times of flushes that are kept; Kafka's histograms keep 1,028."""


class FlushCounts(msgspec.Struct, frozen=True, gc=False):
    """Flushes of logs that succeeded: Kafka's LogFlushStats."""

    count: int = 0
    """Since the start."""
    newest_ms: tuple[int, ...] = ()
    """Their times, from the hand-over to the lane to the step that took the end; 1,024 at most."""


class LogFlushes:
    """The flushes of all logs of a broker.

    Args:
        logs: of the broker.
        failed: takes a log directory offline.
    """

    def __init__(self, logs: StoredLogs, failed: Callable[[str, BaseException], None]) -> None:
        self._manager, self._services = logs.manager, logs.services
        self._failed = failed
        self._awaited: dict[UnifiedLog, list[Flushed]] = {}
        """Those who wait for flushes that are handed out: a log that is replaced has none."""
        self._held: dict[TopicAndPartition, list[Flushed]] = {}
        """Those who wait for a flush of a log whose directory has another name still."""
        self._count = 0
        self._newest_ms: deque[int] = deque(maxlen=KEPT)

    def counts(self) -> FlushCounts:
        """Count the flushes, with the newest times."""
        return FlushCounts(self._count, tuple(self._newest_ms))

    def appended(self, name: TopicAndPartition, wait: Callable[[], Flushed] | None = None) -> None:
        """Hand out the flush that an append asks for, if it does.

        Args:
            name: of the partition.
            wait: called where `flush.messages` asks for it; what it returns is called at the end
                of the flush. The flush of a roll is waited for by nobody, as in Kafka.
        """
        if self._manager.is_settling(name):
            self._held[name] = self._held.get(name, []) + self._awaiting(name, wait)
            return
        plan = self._manager.flush_after_append(*name)
        if plan is not None:
            awaited = self._awaiting(name, wait)
            self._flush(name, plan, awaited)

    def _awaiting(
        self, name: TopicAndPartition, wait: Callable[[], Flushed] | None
    ) -> list[Flushed]:
        return [wait()] if wait is not None and self._manager.has_flush_due(*name) else []

    def hold(self, name: TopicAndPartition) -> None:
        """Leave the flushes of a log that its copy replaces: they prove nothing of the copy."""
        log = self._manager.get(*name)
        assert log is not None, f"{name=}"
        self._held[name] = self._awaited.pop(log, [])

    def settled(self, name: TopicAndPartition) -> None:
        """Flush a log that replaced another, as it was asked for since; its directory has its name.

        Those who wait are told that nothing is durable if it is gone.
        """
        held, log = self._held.pop(name, []), self._manager.get(*name)
        if log is None:
            for flushed in held:
                flushed(False)  # noqa: FBT003
        elif held:
            self._flush(name, log.flush_plan(), held)
        else:
            self.appended(name)

    def flush_if_old(self, name: TopicAndPartition) -> None:
        """Hand out the flush that `flush.ms` asks for, if it does."""
        plan = self._manager.flush_if_old(*name, self._services.wall_ms)
        if plan is not None:
            self._flush(name, plan, [])

    def _flush(self, name: TopicAndPartition, plan: FlushPlan, awaited: list[Flushed]) -> None:
        log, path = self._manager.get(*name), self._manager.log_dir_of(*name)
        assert log is not None, f"{name=}"
        assert path is not None, f"{name=}"
        if awaited:
            self._awaited[log] = self._awaited.get(log, []) + awaited
        began_ms = self._services.now_ms

        def done(error: BaseException | None) -> None:
            if error is None:
                self._count += 1
                self._newest_ms.append(self._services.now_ms - began_ms)
            is_open = self._manager.get(*name) is log  # not deleted, offline or closed meanwhile
            is_durable = is_open and self._flush_ended(name, plan, error)
            left = self._awaited.get(log, [])
            told = [each for each in awaited if each in left]  # none if the log was replaced
            for flushed in told:
                left.remove(flushed)
            if not left:
                self._awaited.pop(log, None)
            for flushed in told:  # who may append at once, and wait for the next flush
                flushed(is_durable)

        self._services.run(Lane.FLUSH, path, plan.run, done)

    def _flush_ended(
        self, name: TopicAndPartition, plan: FlushPlan, error: BaseException | None
    ) -> bool:
        """Take the end of a flush of a log that is still open here; True if it is durable."""
        path = self._manager.log_dir_of(*name)
        assert path is not None, f"{name=}"
        try:
            if error is not None:
                raise error
            self._manager.flushed(name, plan, self._services.wall_ms)
        except ERRORS as reason:
            self._failed(path, reason)
            return False
        return True
