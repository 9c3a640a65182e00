"""`spark.read.format("kraft-log")`: the batch source, and the entry to the stream.

There is no filter push-down on purpose: in Spark 4.3 it gives wrong answers when a DataFrame is
used twice. Options choose the range to read; option `columns` or `.schema(...)` the columns.
"""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from typing_extensions import override

from pipeline.core.reading.options import Options, parse_options, parse_stream_options
from pipeline.core.reading.reader import Piece, plan_read, read_schema, read_splits
from pipeline.sources.kraft_log_stream import KraftLogStreamReader
from pipeline.sources.spark_types import ddl, wanted_schema

FORMAT = "kraft-log"


class KraftLogDataSource(DataSource):
    """The format: options in, readers out."""

    @classmethod
    @override
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return FORMAT

    @override
    def schema(self) -> str:
        """Return the columns of the options."""
        return ddl(read_schema(parse_options(self.options)))

    @override
    def reader(self, schema: Any) -> "KraftLogReader":
        """Return the batch reader; Spark passes the schema by keyword."""
        options = parse_options(self.options)
        return KraftLogReader(options, wanted_schema(schema, options))

    @override
    def streamReader(self, schema: Any) -> KraftLogStreamReader:
        """Return the stream reader; Spark passes the schema by keyword."""
        options = parse_stream_options(self.options)
        return KraftLogStreamReader(options, wanted_schema(schema, options))


class KraftLogReader(DataSourceReader):
    """Batch reader that lists and cuts in the planner and reads in the tasks."""

    def __init__(self, options: Options, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema

    @override
    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition per task; Spark keeps this list while the DataFrame lives."""
        plan = plan_read(self._options)
        for warning in (*plan.warnings, *plan.notes, *plan.cut_tails):
            sys.stderr.write(f"{FORMAT}: {warning}\n")
        return [InputPartition(pack) for pack in plan.packs]

    @override
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task; an input without segments is one partition without value."""
        return read_task(partition.value, self._options, self._schema)


def read_task(
    pieces: Sequence[Piece] | None, options: Options, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Read in a Python worker, with one thread since Spark uses every core already."""
    pa.set_cpu_count(1)
    yield from read_splits(pieces or (), options, schema)
