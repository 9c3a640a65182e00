"""The transactional ids that a node coordinates, as its process has them."""

from typing import TYPE_CHECKING

from coordinator.runtime.shard import ShardState
from coordinator.transaction.metadata import TransactionMetadata

if TYPE_CHECKING:
    from simulator.records.machine import RecordsMachine


def transactional_ids(machine: "RecordsMachine") -> list[tuple[str, TransactionMetadata]]:
    """The ids of all partitions that are loaded, by name, as they are committed."""
    if machine.records is None:
        return []
    coordinator = machine.records.broker._transactions.coordinator  # noqa: SLF001
    return [
        (name, metadata)
        for _, shard in coordinator._shards  # noqa: SLF001
        if shard.state is ShardState.ACTIVE
        for name, metadata in sorted(shard.committed.transactions.items())
    ]
