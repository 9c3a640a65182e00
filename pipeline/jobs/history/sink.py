"""Files of a decoding task: the archive and the events, with temporary names until it is done."""

from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.core.records.schema import TIMESTAMP
from pipeline.jobs.history.partitions import bucket_of
from pipeline.jobs.history.schema import EVENTS, RECORDS
from pipeline.jobs.task_files import TaskFiles

RECORDS_NAME: Final = "records"
PARTITION_NAME: Final = "partition"
_ROWS_MAX: Final = 32_768
_BYTES_MAX: Final = 16 << 20


class EventSink:
    """Writer that collects rows by folder and writes them by Arrow.

    Events of partitions go into Arrow files whose batches belong to the buckets in turn: batch i to
    bucket i modulo their number. All others are Parquet.

    Args:
        plan: `events.EventPlan`.
        name: name of the files; names of one run sort in the order of the log.
    """

    def __init__(self, plan: Any, name: str) -> None:
        self._plan = plan
        self._name = name
        self._rows: dict[str, list[tuple[Any, ...]]] = {}
        self._sizes: dict[str, int] = {}
        self._files = TaskFiles()

    def add(self, folder: str, row: tuple[Any, ...], size: int) -> None:
        """Add one row with its approximate size in bytes."""
        rows = self._rows.get(folder)
        if rows is None:
            rows = self._rows[folder] = []
            self._sizes[folder] = 0
        rows.append(row)
        held = self._sizes[folder] = self._sizes[folder] + size
        if len(rows) >= _ROWS_MAX or held >= _BYTES_MAX:
            self._flush(folder)

    def publish(self) -> None:
        """Write the rest and give the files their names."""
        for folder in list(self._rows):
            self._flush(folder)
        self._files.publish()

    def discard(self) -> None:
        """Remove unpublished files."""
        self._files.discard()

    def _flush(self, folder: str) -> None:
        rows = self._rows.pop(folder, [])
        if not rows:
            return
        schema = RECORDS if folder.startswith(RECORDS_NAME) else EVENTS[folder]
        writer = self._files.get(folder) or self._open(folder, schema)
        arrays = [
            _column(column, field.type)
            for column, field in zip(zip(*rows, strict=True), schema, strict=True)
        ]
        batch = pa.record_batch(arrays, schema=schema)
        if folder != PARTITION_NAME:
            writer.write_batch(batch)
            return
        numbers = batch.column("partition").to_numpy()
        buckets = bucket_of(batch.column("topic_id"), numbers, self._plan.buckets)
        for bucket in range(self._plan.buckets):
            writer.write_batch(batch.take(pa.array(np.flatnonzero(buckets == bucket))))

    def _open(self, folder: str, schema: pa.Schema) -> Any:
        is_archive = folder.startswith(RECORDS_NAME)
        root = self._plan.archive if is_archive else self._plan.events
        assert root is not None
        place = Path(root, folder)
        if folder == PARTITION_NAME:
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            final = place / f"{self._name}.arrow"
            return self._files.open(
                folder, final, lambda path: pa.ipc.new_file(str(path), schema, options=options)
            )
        codec = "zstd" if is_archive else "lz4"
        make = partial(pq.ParquetWriter, schema=schema, compression=codec)
        return self._files.open(folder, place / f"{self._name}.parquet", make)


def _column(values: tuple[Any, ...], type_: pa.DataType) -> pa.Array:
    """A column; times are given as microseconds."""
    if type_ == TIMESTAMP:
        return pa.array(values, pa.int64()).view(TIMESTAMP)
    return pa.array(values, type_)
