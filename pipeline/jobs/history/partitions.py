"""One bucket of partitions: events in, intervals and reports out; the work of a folding task.

A bucket is read in log order, chunk by chunk; open states are carried to the next chunk, so a task
holds one chunk and the open states of its bucket, however long the log is. Files get their
names when the bucket is done. A chunk never ends inside a batch: of several states that one batch
gives a partition only the last counts.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.core.records.schema import TIMESTAMP
from pipeline.jobs.history import reports
from pipeline.jobs.history.overlay import (
    CHANGES,
    LISTS,
    Chunk,
    Clears,
    Frame,
    Topics,
    event_frame,
    state_frame,
    state_table,
)
from pipeline.jobs.history.packed_lists import (
    NONE,
    int_lists,
    nullable,
    numbers_of,
    uuid_lists,
    whole,
)
from pipeline.jobs.history.schema import (
    AWAY_STATE,
    CHURN,
    PARTITION_EVENTS,
    PARTITION_STATE,
    REPORT_ARROW,
    SCD_ARROW,
)
from pipeline.jobs.task_files import TaskFiles

CHUNK_ROWS: Final = 65_536
_ALL: Final = int(np.iinfo(np.int64).max)
_APIS: Final = ("PARTITION_RECORD", "PARTITION_CHANGE_RECORD", "CLEAR_ELR_RECORD")
_LABELS: Final = ("leader", "isr", "replicas", "elr", "dirs")
assert len(_LABELS) == len(CHANGES)


class BucketPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of every folding task of a run; folders as text.

    `state` is that of the archive that continues, None for a new one; `chunk_rows` are folded at
    once, and the rest of the last batch with them.
    """

    events: str
    folder: str
    label: str
    buckets: int
    intra_batch: bool
    state: str | None
    chunk_rows: int = CHUNK_ROWS


class BucketCounts(msgspec.Struct, frozen=True):
    """Numbers of rows that a task has written."""

    partitions: int = 0
    leader_changes: int = 0
    under_replicated: int = 0


def bucket_of(topic_ids: pa.Array, partitions: Any, buckets: int) -> Any:
    """Bucket of each partition, from the last bytes of its topic id and its number."""
    last = pc.binary_slice(topic_ids, 12, 16)
    content = b"".join(last.to_pylist())
    return (np.frombuffer(content, ">u4").astype(np.int64) + partitions) % buckets


def fold_bucket(bucket: int, plan: BucketPlan, around: reports.Surroundings,
                clears: Clears) -> BucketCounts:  # fmt: skip
    """Fold one bucket and write its part of `partitions` and of the reports."""
    sink = _Sink(plan, bucket)
    try:
        fold = _Bucket(bucket, plan, around, clears, sink)
        for rows, until_batch in chunks_of(plan, bucket, around.topics):
            fold.take(rows, until_batch)
        counts = fold.finish()
        sink.publish()
    finally:
        sink.discard()
    return counts


class _Bucket:
    """Fold of one bucket over its chunks."""

    def __init__(
        self, bucket: int, plan: BucketPlan, around: reports.Surroundings, clears: Clears,
        sink: "_Sink",
    ) -> None:  # fmt: skip
        self._step = "visible" if plan.intra_batch else "batch_offset"
        self._around = around
        self._clears = clears
        self._sink = sink
        self._seen_batch = NONE
        self._rows = [0, 0, 0]
        topics = around.topics
        self._ids = _binary_ids(plan.events)
        state = _stored(plan, "partitions", PARTITION_STATE, bucket)
        self._carry = state_frame(state, topics)
        self._away = reports.Away(_away_frame(_stored(plan, "away", AWAY_STATE, bucket), topics))

    def take(self, events: Frame, until_batch: int) -> None:
        """Fold the events that take effect up to a batch, and write the ended intervals."""
        carry = self._carry
        clears = self._clears.between(self._seen_batch, until_batch)
        chunk = Chunk.of(carry, events, clears, self._around.topics, until_batch=until_batch,
                         step=self._step)  # fmt: skip
        kept = chunk.folded(carry)
        self._seen_batch = until_batch
        changes = reports.leader_changes(kept, carry, self._around)
        self._write(1, "leader_changes", changes)
        self._write(2, "under_replicated", reports.under_replicated(kept, carry, self._around))
        self._sink.write("churn", reports.isr_churn(kept, self._away, self._around.topics))
        ended = kept.numbers["to_offset"] != NONE
        self._write(0, "partitions/current=false", self._table(kept.filter(ended)))
        self._carry = kept.filter(~ended)

    def finish(self) -> BucketCounts:
        """Fold the rest of the log without events, and write the open intervals."""
        self.take(self._carry.filter(np.zeros(len(self._carry), np.bool_)), _ALL)
        carry, around = self._carry, self._around
        self._write(0, "partitions/current=true", self._table(carry))
        spans = np.flatnonzero(carry.numbers["span_offset"] != NONE)
        self._write(2, "under_replicated/open", reports.span_rows(carry, spans, around))
        self._sink.write("state/partitions", state_table(carry, self._ids))
        self._sink.write("state/away", _away_table(self._away, carry, self._ids))
        return BucketCounts(*self._rows)

    def _write(self, slot: int, name: str, table: pa.Table) -> None:
        self._rows[slot] += table.num_rows
        self._sink.write(name, table)

    def _table(self, rows: Frame) -> pa.Table:
        return partition_table(rows, self._around.topics)


def partition_table(rows: Frame, topics: Topics) -> pa.Table:
    """Kept states as rows of the table `partitions`."""
    n = rows.numbers
    topic = pa.array(n["topic"])
    named = {
        "topic_id": topics.ids, "topic": topics.names,
    }  # fmt: skip
    columns: dict[str, pa.Array] = {name: column.take(topic) for name, column in named.items()}
    columns |= {name: int_lists(rows.packed[name]) for name in LISTS if name != "directories"}
    columns |= {name: int_lists(rows.packed[name]) for name in rows.packed if "prev_" in name}
    columns["directories"] = uuid_lists(rows.packed["directories"])
    columns["change"] = _CHANGE_LABELS.take(pa.array(n["change"]))
    columns["cause_api"] = _API_NAMES.take(pa.array(n["api"]))
    numbers = {
        "valid_from_offset": "visible", "valid_from_ts": "ts", "valid_to_offset": "to_offset",
        "valid_to_ts": "to_ts", "cause_offset": "offset", "controller_epoch": "epoch",
    }  # fmt: skip
    schema = SCD_ARROW["partitions"]
    made = [
        columns[field.name].cast(field.type) if field.name in columns
        else nullable(n[numbers.get(field.name, field.name)], field.type)
        for field in schema
    ]  # fmt: skip
    return pa.Table.from_arrays(made, schema=schema)


_CHANGE_LABELS: Final = pa.array(
    [[name for bit, name in enumerate(_LABELS) if mask >> bit & 1] for mask in range(32)],
    pa.list_(pa.string()),
)
_API_NAMES: Final = pa.array(_APIS)


def chunks_of(plan: BucketPlan, bucket: int, topics: Topics) -> Iterator[tuple[Frame, int]]:
    """Yield the bucket's events in parts that end with a batch, and that batch."""
    held: list[Frame] = []
    rows = 0
    for batch in _event_batches(plan, bucket):
        held.append(event_frame([batch], topics))
        rows += len(held[-1])
        while rows >= plan.chunk_rows:
            frame = Frame.concat(held)
            cut, until_batch = _cut(frame, plan.chunk_rows)
            if not cut:
                held = [frame]
                break  # all of it belongs to one batch
            everything = np.arange(rows)
            yield frame.take(everything[:cut]), until_batch
            held, rows = [frame.take(everything[cut:])], rows - cut
    if rows:
        frame = Frame.concat(held)
        yield frame, int(frame.numbers["batch_offset"][-1])


def _cut(frame: Frame, rows: int) -> tuple[int, int]:
    """Number of rows, at least `rows`, after which a chunk can end (0: none); its last batch."""
    batches = frame.numbers["batch_offset"]
    is_seed = frame.numbers["seed"] == 1
    ends = np.flatnonzero((batches[1:] != batches[:-1]) | is_seed[1:]) + 1
    ends = ends[ends >= rows]
    if not len(ends):
        return 0, NONE
    cut = int(ends[0])
    # seeds share one offset: while they are read nothing of the log itself has been folded
    return cut, int(batches[cut - 1]) - int(is_seed[cut])


def _event_batches(plan: BucketPlan, bucket: int) -> Iterator[pa.RecordBatch]:
    for path in sorted(Path(plan.events, "partition").glob("*.arrow")):
        with pa.OSFile(str(path)) as source:
            reader = pa.ipc.open_file(source)
            for index in range(bucket, reader.num_record_batches, plan.buckets):
                yield reader.get_batch(index)


def read_partition_events(events: str) -> Iterator[dict[str, Any]]:
    """Yield all events of a folder as plain rows."""
    for path in sorted(Path(events, "partition").glob("*.arrow")):
        with pa.OSFile(str(path)) as source:
            yield from pa.ipc.open_file(source).read_all().to_pylist()


def _stored(plan: BucketPlan, name: str, schema: pa.Schema, bucket: int) -> pa.Table:
    """The bucket's part of an open state in the archive."""
    if plan.state is None:
        return schema.empty_table()
    files = sorted(Path(plan.state, name).glob("*.parquet"))
    parts = [schema.empty_table()]
    for path in files:
        table = pq.read_table(path, schema=schema)
        numbers = numbers_of(whole(table.column("partition")))
        mine = bucket_of(whole(table.column("topic_id")), numbers, plan.buckets) == bucket
        parts.append(table.filter(pa.array(mine)))
    return pa.concat_tables(parts)


def _binary_ids(events: str) -> pa.Array:
    return whole(pq.read_table(Path(events, "topics.parquet"), columns=["id"]).column("id"))


def _away_frame(table: pa.Table, topics: Topics) -> Frame:
    number = topics.numbers(whole(table.column("topic_id")))
    names = ("partition", "broker", "ts")
    numbers = {name: numbers_of(whole(table.column(name))) for name in names}
    fixed = {"visible": np.full(len(number), NONE), "out": np.ones(len(number), np.int64)}
    return Frame(numbers | fixed | {"topic": number}, {}).filter(number >= 0)


def _away_table(away: reports.Away, carry: Frame, ids: pa.Array) -> pa.Table:
    """Brokers that are away from ISRs of existing partitions."""
    n = away.rows.numbers
    lives = np.isin(n["topic"], carry.numbers["topic"])
    n = away.rows.filter(lives).numbers
    columns = [
        ids.take(pa.array(n["topic"])), nullable(n["partition"], pa.int32()),
        nullable(n["broker"], pa.int32()), nullable(n["ts"], TIMESTAMP),
    ]  # fmt: skip
    return pa.Table.from_arrays(columns, schema=AWAY_STATE)


class _Sink:
    """Parquet files of one bucket, with temporary names until `publish`."""

    def __init__(self, plan: BucketPlan, bucket: int) -> None:
        self._name = f"{plan.label}-{bucket:04d}"
        self._plan = plan
        self._files = TaskFiles()

    def write(self, name: str, table: pa.Table) -> None:
        """Add rows to a file; a file without rows is made only for some names."""
        if not table.num_rows and name not in _ALWAYS:
            return
        schema = _SCHEMAS[name]
        writer = self._files.get(name) or self._open(name, schema)
        writer.write_table(table.cast(schema))

    def publish(self) -> None:
        """Give the files their names."""
        self._files.publish()

    def discard(self) -> None:
        """Remove unpublished files."""
        self._files.discard()

    def _open(self, name: str, schema: pa.Schema) -> Any:
        if name == "churn":
            final = Path(self._plan.events, name, f"{self._name}.parquet")
        elif name == "under_replicated/open":
            final = Path(self._plan.folder, "under_replicated", f"open-{self._name}.parquet")
        else:
            stem = f"{name.partition('/')[0]}-{self._name}"
            final = Path(self._plan.folder, name, f"{stem}.parquet")
        make = partial(pq.ParquetWriter, schema=schema, compression="zstd")
        return self._files.open(name, final, make)


_SCHEMAS: Final = {
    "partitions/current=false": SCD_ARROW["partitions"],
    "partitions/current=true": SCD_ARROW["partitions"],
    "leader_changes": REPORT_ARROW["leader_changes"],
    "under_replicated": REPORT_ARROW["under_replicated"],
    "under_replicated/open": REPORT_ARROW["under_replicated"],
    "state/partitions": PARTITION_STATE,
    "state/away": AWAY_STATE,
    "churn": CHURN,
}
_ALWAYS: Final = {"partitions/current=true", "leader_changes", "under_replicated/open",
                  "state/partitions", "state/away"}  # fmt: skip
assert {field.name for field in PARTITION_EVENTS} >= {"topic_id", "partition", "visible"}
