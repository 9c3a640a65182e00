"""Values of a broker's records for the main thread, made on the thread that owns them.

What is asked runs between two turns of the data loop. If that is held up, who asks is refused after
a time, and others at once while too many wait: the main thread goes on.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from msgspec.structs import replace

from broker.coordinators.coordinator_views import CoordinatorViews
from broker.records_counts import RecordsCounts
from broker.replicas.replica_views import LocalReplicaView
from inspection.records_side import RecordsStalledError
from node.records.longest_turn import LongestTurn
from node.records.thread_use import ThreadUse
from wire.types import TopicIdPartition

ANSWER_S: Final = 1.0
WAITING_MAX: Final = 16
"""Questions that the data loop has not answered; each takes it a millisecond at most."""
Answer = TypeVar("Answer")


class Viewed(Protocol):
    """The records as a value: `broker.broker.Broker`."""

    @property
    def coordinators(self) -> CoordinatorViews:
        """Groups and transactions."""
        ...

    def replica(self, key: TopicIdPartition) -> LocalReplicaView | None:
        """View of a replica; None if the broker hosts none."""
        ...

    def counts(self) -> RecordsCounts:
        """Count what the broker did and has."""
        ...


class RecordsReader:
    """The records of a broker, asked on the main thread (`inspection.records_side.RecordsSide`).

    Args:
        records: asked on their own thread only.
        loop: of the main thread.
        run: runs a function, which raises nothing, on the thread of the records.
        longest_turn: of that thread.
        use: of that thread.
        answer_s: time for an answer.
    """

    def __init__(
        self,
        records: Viewed,
        loop: asyncio.AbstractEventLoop,
        run: Callable[[Callable[[], None]], None],
        longest_turn: LongestTurn,
        use: ThreadUse,
        *,
        answer_s: float = ANSWER_S,
    ) -> None:
        self._records = records
        self._loop = loop
        self._run = run
        self._longest_turn = longest_turn
        self._use = use
        self._answer_s = answer_s
        self._waiting = 0

    async def replica(self, key: TopicIdPartition) -> LocalReplicaView | None:
        """View of a replica; None if the broker hosts none."""
        return await self._ask(partial(self._records.replica, key))

    async def counts(self) -> RecordsCounts:
        """Count what the broker did and has."""
        return await self._ask(self._counts)

    async def coordinators(self, question: Callable[[CoordinatorViews], Answer]) -> Answer:
        """Answer a question about groups and transactions."""
        return await self._ask(lambda: question(self._records.coordinators))

    def _counts(self) -> RecordsCounts:
        """Those of the records, with the longest turn and the idle time of their thread."""
        longest, idle = self._longest_turn, self._use.idle()
        return replace(
            self._records.counts(),
            longest_turn_ns=longest.newest_ns(),
            longest_turn_ever_ns=longest.cpu_ns,
            idle_of_turns=idle.turns,
            idle_of_cpu=idle.cpu,
        )

    async def _ask(self, question: Callable[[], Answer]) -> Answer:
        if self._waiting >= WAITING_MAX:
            raise RecordsStalledError(f"{self._waiting} questions wait")
        self._waiting += 1
        answer: asyncio.Future[Answer] = self._loop.create_future()
        self._run(partial(self._make, question, answer))
        try:
            async with asyncio.timeout(self._answer_s):
                return await answer
        except TimeoutError as error:
            raise RecordsStalledError(f"no answer in {self._answer_s} s") from error

    def _make(self, question: Callable[[], Any], answer: "asyncio.Future[Any]") -> None:
        """Make a value, on the thread of the records; an error is the asker's."""
        result: Any = None
        failure: Exception | None = None
        try:
            result = question()
        except Exception as error:  # noqa: BLE001 - it is raised at the asker
            failure = error
        with suppress(RuntimeError):  # the loop is closed: the node ends
            self._loop.call_soon_threadsafe(self._hand_over, answer, result, failure)

    def _hand_over(
        self, answer: "asyncio.Future[Any]", result: object, failure: Exception | None
    ) -> None:
        self._waiting -= 1
        if answer.done():  # the time is over, or the client is gone
            return
        if failure is None:
            answer.set_result(result)
        else:
            answer.set_exception(failure)
