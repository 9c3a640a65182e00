"""The log of a shard: the partition that this broker leads.

Kafka flushes inside the append where `flush.messages` asks for it. Here a flush has a lane of its
own: what was appended is committed behind its end.

apache/kafka: core/.../coordinator/group/CoordinatorPartitionWriter.scala
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from replication.leader.appends import LEADER_ALONE
from replication.leader.flush_gate import Flushed
from replication.replica_manager import ReplicaManager
from storage.logs.log_validator import AppendRules
from storage.producers.append_source import AppendSource
from storage.producers.producer_state import Origin
from storage.producers.verification import VerificationGuard
from wire.batches.batch import Batch
from wire.errors import ErrorCode
from wire.types import Offset, TopicIdPartition

BATCH_BYTES_MAX: Final = AppendRules().batch_bytes_max


class ReplicaLog:
    """The log of one partition, as `coordinator.runtime.machine.ShardLog`.

    Args:
        replicas: of the broker.
        key: of the partition.
        on_buffered: called when the shard has records for the end of the turn.
        on_flushed: called when a flush has ended that something waited for.
        required_acks: of the appends, -1 for none while too few replicas are in sync.
    """

    def __init__(
        self,
        replicas: ReplicaManager,
        key: TopicIdPartition,
        on_buffered: Callable[[], None],
        on_flushed: Callable[[], None],
        required_acks: int = LEADER_ALONE,
    ) -> None:
        self._replicas = replicas
        self._required_acks = required_acks
        self._key = key
        self._on_buffered = on_buffered
        self._on_flushed = on_flushed
        self._last_end = Offset(0)
        self._unflushed: dict[Offset, None] = {}
        """Begins of the appends whose flushes have not ended, ascending; one that failed stays."""

    @property
    def end_offset(self) -> Offset:
        """Offset of the next record; the last one known while the log is offline."""
        partition = self._replicas.hosted(self._key)
        if partition is not None and partition.log is not None:
            self._last_end = Offset(partition.log.end_offset)
        return self._last_end

    @property
    def batch_bytes_max(self) -> int:
        """`max.message.bytes` of the topic; Kafka's default while the log is offline."""
        partition = self._replicas.hosted(self._key)
        validator = None if partition is None else partition.validator
        return BATCH_BYTES_MAX if validator is None else validator.rules.batch_bytes_max

    @property
    def unflushed_offset(self) -> Offset | None:
        """First offset that waits for a flush; None without one."""
        return next(iter(self._unflushed), None)

    def append(
        self, batch: Batch, *, guard: VerificationGuard | None = None, transaction_version: int = 0
    ) -> Offset | ErrorCode:
        """Append a batch as leader, without waiting for replicas."""
        source = AppendSource(Origin.COORDINATOR, guard, transaction_version)
        wait = partial(self._await_flush, self.end_offset)
        result = self._replicas.append_at_once(
            self._key, batch, source, wait, required_acks=self._required_acks
        )
        if result.code is not ErrorCode.none:
            return result.code
        self._last_end = Offset(result.end_offset)
        return self._last_end

    def _await_flush(self, base_offset: Offset) -> Flushed:
        self._unflushed[base_offset] = None
        return partial(self._flushed, base_offset)

    def _flushed(self, base_offset: Offset, is_durable: bool) -> None:  # noqa: FBT001
        if is_durable:
            del self._unflushed[base_offset]
            self._on_flushed()

    def buffered(self) -> None:
        """Note that the shard is to be flushed."""
        self._on_buffered()
