"""Records of a coordinator's log as its machine applies them.

apache/kafka: coordinator-common/.../runtime/CoordinatorLoaderImpl.java
"""

from collections.abc import Iterable

from coordinator.records.codec import decode
from coordinator.records.kinds import Kinds
from coordinator.records.schema import CoordinatorRecord
from coordinator.runtime.write import Applied
from wire.batches.batch import RecordView


def decoded(
    kinds: Kinds, views: Iterable[RecordView], producer_id: int | None
) -> list[tuple[CoordinatorRecord, Applied]]:
    """Records with their places, in order; those of a type that is not known are left out.

    Args:
        kinds: that are known.
        views: of one batch.
        producer_id: of the transaction that they are part of; None if they are of none.

    Raises:
        CoordinatorRecordError: a record cannot be read.
    """
    placed = []
    for view in views:
        record = decode(kinds, view.key, view.value)
        if record is not None:
            placed.append((record, Applied(view.offset, view.timestamp_ms, producer_id)))
    return placed
