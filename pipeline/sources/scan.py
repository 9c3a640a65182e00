"""Rows of a read as a DataFrame without the named source, for the jobs.

`mapInArrow` over the list of tasks is as fast as the source, lists the input at each call,
and lets any function from record batches to record batches run where the bytes are decoded.
"""

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from pipeline.core.reading.options import Options
from pipeline.core.reading.reader import plan_read, read_schema, read_splits
from pipeline.sources.spark_types import ddl

Transform = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def spark_scan(
    spark: Any,
    options: Options,
    transform: Transform | None = None,
    schema: pa.Schema | None = None,
) -> Any:
    """A DataFrame of the read, one task per pack of splits.

    Args:
        spark: a session.
        options: options of the read.
        transform: applied to each task's record batches in the worker: filter or aggregate there.
        schema: schema of the rows of `transform`; None: that of the read.
    """
    assert (transform is None) == (schema is None)
    source = read_schema(options)
    target = source if schema is None else schema
    packs = plan_read(options).packs
    tasks = [(pickle.dumps(pack),) for pack in packs]
    rows = spark.sparkContext.parallelize(tasks, max(1, len(tasks)))
    frame = spark.createDataFrame(rows, "pack binary")

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        for batch in batches:
            for content in batch.column(0).to_pylist():
                pack = pickle.loads(content)  # noqa: S301  # made by this function on the driver
                decoded = read_splits(pack, options, source)
                yield from decoded if transform is None else transform(decoded)

    return frame.mapInArrow(work, ddl(target))
