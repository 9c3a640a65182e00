"""A partition of transactional ids on a log in memory, for tests."""

from typing import Any

from coordinator.records.kinds import TRANSACTION_KINDS
from coordinator.runtime.shard import Shard
from coordinator.runtime.write import ProducerIdAndEpoch
from coordinator.transaction.config import TransactionsConfig
from coordinator.transaction.coordinator import EndRequest, TransactionCoordinator
from coordinator.transaction.decisions import InitRequest
from coordinator.transaction.machine import TransactionMachine
from coordinator.transaction.markers import Ending
from coordinator.transaction.metadata import TransactionMetadata, TransactionsImage
from coordinator.transaction.states import TransactionState
from network.clock import Clock, Now
from tests.coordinator.memory_log import MemoryShardLog
from wire.errors import ErrorCode
from wire.types import LeaderEpoch

S = TransactionState
NONE = ErrorCode.none
A, B = ("a", 0), ("b", 1)
CONFIG = TransactionsConfig(
    timeout_ms_max=60_000, id_expiration_ms=100_000, abort_interval_ms=100, expiry_interval_ms=700
)
TIMEOUT_MS = 30_000
"""Of writes."""


class Sent:
    """The markers that were begun, as `Markers`."""

    def __init__(self) -> None:
        self.begun: list[tuple[Ending, Any, Any]] = []
        self.cancelled: list[int] = []

    def begin(self, ending: Ending, partitions: Any, completed: Any) -> None:
        self.begun.append((ending, set(partitions), completed))

    def cancel(self, owner: int) -> None:
        self.cancelled.append(owner)

    def finish(self) -> None:
        """All leaders of the first ending have written it."""
        ending, _, completed = self.begun.pop(0)
        completed(ending)


class Coordinator:
    """Partition 3 with its log; answers are in `answers`."""

    def __init__(
        self,
        version: int = 2,
        log: MemoryShardLog | None = None,
        epoch: int = 5,
        markers: Any = None,
        now: Now = Now(0, 1_000_000),  # noqa: B008
    ) -> None:
        self.clock = Clock(now)
        self.version = version
        self.log = log or MemoryShardLog()
        self.sent = Sent()
        self.answers: list[Any] = []
        self.next_id = 70
        self.markers = self.sent if markers is None else markers(self.clock)
        self.machine = TransactionMachine(
            3,
            self.clock,
            CONFIG,
            self.markers,  # type: ignore[arg-type]
            lambda: self.version,
        )
        self.shard: Shard[TransactionsImage] = Shard(
            self.machine, self.log, self.clock, epoch=LeaderEpoch(epoch), timeout_ms=TIMEOUT_MS
        )
        self.coordinator = TransactionCoordinator(
            lambda _: self.shard.refusal() or self.shard,
            self.clock,
            CONFIG,
            new_producer_id=self.new_id,
            transaction_version=lambda: self.version,
        )
        self.log.load(self.shard)

    def new_id(self) -> int | None:
        self.next_id += 1
        return self.next_id - 1

    def init(self, name: str = "x", expected: Any = None, timeout_ms: int = 500) -> None:
        self.coordinator.init_producer_id(
            name, InitRequest(timeout_ms, expected), self.answers.append
        )

    def add(self, *partitions: Any, name: str = "x", epoch: int = 0, producer_id: int = 70) -> None:
        self.coordinator.add_partitions(
            name,
            ProducerIdAndEpoch(producer_id, epoch),
            frozenset(partitions or (A,)),
            client_version=self.version,
            answer=self.answers.append,
        )

    def end(self, *, is_commit: bool = True, name: str = "x", epoch: int = 0) -> None:
        request = EndRequest(ProducerIdAndEpoch(70, epoch), is_commit, self.version)
        self.coordinator.end_transaction(name, request, self.answers.append)

    def commit(self) -> list[Any]:
        """Raise the high watermark to the end; the answers since the last call."""
        self.log.commit(self.shard)
        return self.taken()

    def taken(self) -> list[Any]:
        answers, self.answers[:] = list(self.answers), []
        return answers

    def advance(self, ms: int) -> None:
        self.clock.set(Now(self.clock.now_ms + ms, self.clock.wall_ms + ms))
        due_ms = self.shard.next_ms()
        while due_ms is not None and due_ms <= self.clock.now_ms:
            self.shard.tick()
            due_ms = self.shard.next_ms()

    def states(self) -> list[Any]:
        """State and epoch of each record; None for a tombstone."""
        batches: Any = self.log.records(TRANSACTION_KINDS)
        values = [record.value for records in batches for record in records]
        return [
            None if value is None else (S(value.transaction_status), value.producer_epoch)
            for value in values
        ]

    def state(self, name: str = "x") -> Any:
        found = self.coordinator.find(name)
        return (
            (found.state, found.producer_epoch) if isinstance(found, TransactionMetadata) else found
        )
