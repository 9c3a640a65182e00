"""Check of D5 in one log: what a producer sends once, or with a sequence, is stored once.

Of a batch that was deleted before its producer had the answer (DeleteRecords, retention) the next
leader may know nothing: its copy began behind the batch, or it was started since and replayed from
the log start on. It takes the batch again. Kafka keeps such a producer in memory alone, too.

apache/kafka: storage/.../log/ProducerStateManager.java (`truncateAndReload`)
"""

from collections.abc import Collection, Sequence

from simulator.checks.partitions.record_logs import StoredBatch
from simulator.checks.violation import Violation


def check_sequences(
    number: int,
    batches: Sequence[StoredBatch],
    *,
    log_start: int,
    hasty: Collection[int],
    repeating: Collection[int],
) -> None:
    """Check the batches of a partition.

    Args:
        number: of the partition, for texts.
        batches: in the files of its log, those below the log start with them.
        log_start: highest log start of any replica; an idempotent producer may have sent again
            what is below.
        hasty: producers that send each value once.
        repeating: producers that may have sent a value twice, under another id.

    Raises:
        Violation: a batch of an idempotent producer, or a value, is stored twice.
    """
    seen: dict[tuple[int, int, int], int] = {}
    seen_values: set[bytes] = set()
    for batch in batches:
        if batch.marker is not None:
            continue
        if batch.producer_id < 0:
            if _host_of(batch) in hasty:
                if not seen_values.isdisjoint(batch.values):
                    raise Violation("D5", f"{batch.values!r} is stored twice, sent once")
                seen_values.update(batch.values)
            continue
        if batch.end_offset <= log_start:
            continue
        place = (batch.producer_id, batch.producer_epoch, batch.base_sequence)
        is_again = not seen_values.isdisjoint(batch.values)
        may_repeat = _host_of(batch) in repeating
        if place in seen or (is_again and not may_repeat):
            text = f"partition {number}: {place} at {seen.get(place)} and {batch.base_offset}"
            raise Violation("D5", text)
        seen[place] = batch.base_offset
        seen_values.update(batch.values)


def _host_of(batch: StoredBatch) -> int:
    return int(batch.values[0].split(b":")[0])
