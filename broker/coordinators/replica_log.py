"""The log of a shard: the partition that this broker leads.

apache/kafka: core/.../coordinator/group/CoordinatorPartitionWriter.scala
"""

from collections.abc import Callable
from typing import Final

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
    """

    def __init__(
        self, replicas: ReplicaManager, key: TopicIdPartition, on_buffered: Callable[[], None]
    ) -> None:
        self._replicas = replicas
        self._key = key
        self._on_buffered = on_buffered
        self._last_end = Offset(0)

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

    def append(
        self, batch: Batch, *, guard: VerificationGuard | None = None, transaction_version: int = 0
    ) -> Offset | ErrorCode:
        """Append a batch as leader, without waiting for replicas."""
        source = AppendSource(Origin.COORDINATOR, guard, transaction_version)
        result = self._replicas.append_at_once(self._key, batch, source)
        if result.code is not ErrorCode.none:
            return result.code
        self._last_end = Offset(result.end_offset)
        return self._last_end

    def buffered(self) -> None:
        """Note that the shard is to be flushed."""
        self._on_buffered()
