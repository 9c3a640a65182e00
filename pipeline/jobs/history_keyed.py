"""Intervals with JSON states to the typed tables of a history, by Arrow, batch by batch."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pipeline.jobs.history_schema import EVENTS, KEYED_STATES, SCD_TABLES, VALIDITY

_ROWS: Final = 16_384
_VALIDITY: Final = [part.split()[0] for part in VALIDITY.split(", ")]


def write_keyed_tables(intervals: str, folder: Path, state: Path, label: str) -> dict[str, int]:
    """One folder per keyed table below `folder`, split by whether the interval is open.

    Args:
        intervals: what `history_tables.Fold` wrote.
        folder: gets the tables.
        state: gets what is open, as events: the base of the next fold.
        label: part of the file names; differs between runs that feed one archive.

    Returns:
        rows per table.
    """
    source = ds.dataset(sorted(map(str, Path(intervals).glob("*.parquet"))))
    rows = {kind: _write_table(source, kind, folder / kind, label) for kind in KEYED_STATES}
    state.mkdir(parents=True)
    open_now = pc.field("valid_to_offset").is_null()
    with pq.ParquetWriter(state / "part-0.parquet", EVENTS["keyed"]) as sink:
        for batch in source.to_batches(
            columns=EVENTS["keyed"].names, filter=open_now, batch_size=_ROWS
        ):
            sink.write_batch(batch.cast(EVENTS["keyed"]))
    return rows


def arrow_schema(table: str) -> pa.Schema:
    """The Arrow schema of an SCD table."""
    schema: pa.Schema = to_arrow_schema(StructType.fromDDL(SCD_TABLES[table]), timezone="UTC")
    return schema


def _write_table(source: Any, kind: str, folder: Path, label: str) -> int:
    schema = arrow_schema(kind)
    count = 0
    for is_open in (True, False):
        to = pc.field("valid_to_offset")
        wanted = (pc.field("kind") == kind) & (to.is_null() if is_open else to.is_valid())
        place = folder / f"current={str(is_open).lower()}"
        place.mkdir(parents=True)
        with pq.ParquetWriter(
            place / f"{kind}-{label}.parquet", schema, compression="zstd"
        ) as sink:
            for batch in source.to_batches(
                columns=["state", *_VALIDITY], filter=wanted, batch_size=_ROWS
            ):
                rows = list(_typed(batch.to_pylist(), schema))
                sink.write_batch(pa.RecordBatch.from_pylist(rows, schema))
                count += len(rows)
    return count


def _typed(rows: list[dict[str, Any]], schema: pa.Schema) -> Iterator[dict[str, Any]]:
    maps = [field.name for field in schema if pa.types.is_map(field.type)]
    for row in rows:
        state = msgspec.json.decode(row.pop("state"))
        for name in maps:
            state[name] = list(state[name].items())
        yield state | row
