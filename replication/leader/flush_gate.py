"""The answer of an append that waits for the flushes that `flush.messages` asks for.

Kafka flushes inside the append; here a flush has a lane of its own, and the answer waits for it.
apache/kafka: storage/.../log/UnifiedLog.java (`append`)
"""

from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from replication.leader.appending import AppendResult
from wire.errors import ErrorCode
from wire.types import TopicIdPartition

AppendResults = Mapping[TopicIdPartition, AppendResult]

Flushed = Callable[[bool], None]
"""Called at the end of a flush: True if what it was asked for is durable."""


class FlushGate:
    """Holds the results of an append until its flushes have ended."""

    def __init__(self, answer: Callable[[AppendResults], None]) -> None:
        self._answer = answer
        self._results: AppendResults | None = None
        self._waiting = 1  # for `open`
        self._lost: set[TopicIdPartition] = set()
        self.is_done = False
        """True once it is answered or cancelled."""

    def take(self, results: AppendResults) -> None:
        """Take the results, of which nothing else is to come."""
        assert self._results is None, "taken once"
        self._results = results
        self._pass()

    def wait(self, key: TopicIdPartition) -> Flushed:
        """Wait for a flush of a partition; what is returned is called at its end."""
        self._waiting += 1
        return partial(self._flushed, key)

    def _flushed(self, key: TopicIdPartition, is_durable: bool) -> None:  # noqa: FBT001
        if not is_durable:
            self._lost.add(key)
        self.open()

    def open(self) -> None:
        """Wait for one end less: of a flush, or of the appends themselves."""
        assert self._waiting > 0, f"{self._waiting=}"
        self._waiting -= 1
        self._pass()

    def cancel(self) -> None:
        """Answer nobody: its connection is closed."""
        self.is_done = True

    def _pass(self) -> None:
        if self._results is None or self._waiting > 0 or self.is_done:
            return
        self.is_done = True
        results = dict(self._results)
        for key in self._lost:
            if results[key].code is ErrorCode.none:
                failed = msgspec.structs.replace(results[key], code=ErrorCode.kafka_storage_error)
                results[key] = failed
        self._answer(results)
