"""`spark.readStream.format("kraft-log")`: micro-batches of live partitions.

Spark keeps the offsets in its checkpoint and asks for the same range again after a crash; the range
always gives the same rows (`core.stream.plan_batch`), so an idempotent sink gets each record once.
Nothing is done in `commit` or `stop`: Spark does not call them reliably.
"""

import sys
import time
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from typing_extensions import override

from pipeline.core.reading.gaps import write_gaps
from pipeline.core.reading.options import Options
from pipeline.core.reading.reader import read_splits
from pipeline.core.reading.stream import (
    Limit,
    Problem,
    StreamOffset,
    encode_offset,
    initial_offset,
    latest_offset,
    offset_count,
    plan_batch,
    replicas,
)


class KraftLogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Stream reader on the driver for the life of a query; `read` runs in tasks on a copy."""

    def __init__(self, options: Options, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema
        self._targets: dict[tuple[str, int], int] | None = None
        self._waiting_since: float | None = None

    @override
    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit per trigger from the options."""
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        return ReadAllAvailable()

    @override
    def prepareForTriggerAvailableNow(self) -> None:
        """Remember the current ends: later records are for the next run."""
        self._targets = {key: found.end.offset for key, found in replicas(self._options).items()}

    @override
    def initialOffset(self) -> StreamOffset:
        """Return the start offset of a query without a checkpoint."""
        return initial_offset(self._options)

    @override
    def latestOffset(self, start: StreamOffset, limit: ReadLimit) -> StreamOffset:
        """Return the end of the next micro-batch; `start` while there is nothing to do."""
        end, problems = latest_offset(start, self._options, self._limit(limit), self._targets)
        self._report(problems)
        if self._targets is None and self._waits(start, end):
            return start
        self._waiting_since = None
        return end

    @override
    def reportLatestOffset(self) -> StreamOffset | None:
        """Return the current ends, for the progress report."""
        end, _ = latest_offset(encode_offset({}), self._options, Limit())
        return end

    @override
    def partitions(self, start: StreamOffset, end: StreamOffset) -> Sequence[InputPartition]:
        """Return the tasks of [start, end)."""
        packs, problems = plan_batch(start, end, self._options)
        self._report(problems)
        return [InputPartition(pack) for pack in packs]

    @override
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task."""
        pa.set_cpu_count(1)
        return read_splits(partition.value or (), self._options, self._schema)

    def _limit(self, limit: ReadLimit) -> Limit:
        """Convert Spark's limit; ReadAllAvailable overrides the options."""
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        size = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        if rows is not None:
            size = self._options.max_bytes_per_trigger
        return Limit(rows, size)

    def _waits(self, start: StreamOffset, end: StreamOffset) -> bool:
        """Return True below minOffsetsPerTrigger until maxTriggerDelay has passed."""
        least = self._options.min_offsets_per_trigger
        if least is None or offset_count(start, end, self._options) >= least:
            return False
        now = time.monotonic()
        if self._waiting_since is None:
            self._waiting_since = now
        return (now - self._waiting_since) * 1000 < self._options.max_trigger_delay_ms

    def _report(self, problems: list[Problem]) -> None:
        for problem in problems:
            name = f"{problem.topic}-{problem.partition}"
            sys.stderr.write(f"kraft-log: {name}: {problem.detail}; skipped\n")
        if problems and self._options.errors_path is not None:
            write_gaps(self._options.errors_path, problems)
