"""Tasks of `groups`, each one partition; a task writes the rows of its large tables itself.

`fold_log` reads a coordinator's partition, `measure` the headers of a data partition. What they
return is small but for the timelines of the commits, which the lag is made of.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol, TypeVar

import crc32c
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.core.groups.commits import Timeline
from pipeline.core.groups.data_log import Int64Array, read_data_log
from pipeline.core.groups.group_log import LogCounts, fold_group_log
from pipeline.core.groups.lag import lag_table
from pipeline.core.groups.log_records import records_of
from pipeline.core.groups.open_transactions import OpenInLog
from pipeline.core.groups.transaction_log import IdState, fold_transaction_log
from pipeline.core.reading.discovery import SegmentFile
from pipeline.core.reading.opening import input_errors
from pipeline.core.reading.reader import read_splits
from pipeline.core.records.batches import Fault
from pipeline.core.records.coordinator_records import CONSUMER_OFFSETS
from pipeline.core.stage import Stage
from pipeline.jobs.groups.plan import DataLogFiles, LogTask
from pipeline.jobs.task_files import temporary_of


class Task(Protocol):
    """Input of one task."""

    @property
    def bytes(self) -> int:
        """Bytes to read."""
        ...


_NAME_CHARACTERS_MAX: Final = 128
T = TypeVar("T", bound=Task)
R = TypeVar("R")


class Folded(msgspec.Struct, kw_only=True):
    """Result of a coordinator's partition: rows written per table, and the rest."""

    topic: str
    partition: int
    counts: LogCounts
    rows: dict[str, int]
    damage: list[str]
    timelines: list[Timeline] = []
    ids: list[IdState] = []


class MeasureTask(msgspec.Struct, frozen=True, kw_only=True):
    """A data partition, the offsets that groups committed of it, and instants to sample."""

    files: DataLogFiles
    timelines: list[Timeline]
    samples_ms: Int64Array
    delivery_ms: int | None

    @property
    def bytes(self) -> int:
        """Bytes to read."""
        return self.files.bytes


class Measured(msgspec.Struct, kw_only=True):
    """Result of a data partition."""

    opened: OpenInLog
    rows: int
    damage: list[str]


def stage_of(work: Callable[[T], R], tasks: Sequence[T]) -> Stage[T, R]:
    """All tasks as a stage."""
    return Stage(work, tuple(tasks), tuple(task.bytes for task in tasks))


@input_errors()
def fold_log(task: LogTask, folder: str) -> Folded:
    """Fold a coordinator's partition and write its tables below a folder.

    Raises:
        CorruptSegmentError: a damaged batch, in mode FAILFAST.
        BadInputError: a file cannot be read, in mode FAILFAST.
    """
    damage: list[str] = []

    def note(file: SegmentFile, fault: Fault) -> None:
        damage.append(f"{file.path}:{fault.position} {fault.reason}: {fault.detail}")

    rows = read_splits(task.pieces, task.options, on_fault=note)
    records = records_of(rows)
    timelines: list[Timeline] = []
    ids: list[IdState] = []
    if task.topic == CONSUMER_OFFSETS:
        groups = fold_group_log(records, task.partition, task.names)
        counts, timelines = groups.counts, groups.timelines
        tables = {"commits": groups.commits, "members": groups.members,
                  "rebalances": groups.rebalances, "groups": groups.groups}  # fmt: skip
    else:
        transactions = fold_transaction_log(records, task.partition)
        counts, ids = transactions.counts, transactions.ids
        tables = {"transactions": transactions.transactions}
    return Folded(
        topic=task.topic, partition=task.partition, counts=counts, damage=damage,
        rows=_write_all(folder, tables, task.partition), timelines=timelines, ids=ids,
    )  # fmt: skip


@input_errors()
def measure(task: MeasureTask, folder: str) -> Measured:
    """Read the headers of a data partition and write the lag of the groups that read it.

    Raises:
        BadInputError: a file cannot be read.
    """
    partition = task.files.partition
    log = read_data_log(partition, task.files.end)
    name, number = partition.topic, partition.partition
    count = 0
    if task.timelines:
        lag = lag_table(
            name, number, partition.topic_id, task.timelines, log.stamps,
            samples_ms=task.samples_ms, delivery_ms=task.delivery_ms,
        )  # fmt: skip
        count = write_table(Path(folder, "lag", lag_file(name, number)), lag)
    return Measured(opened=OpenInLog(name, number, log.opened), rows=count, damage=list(log.damage))


def lag_file(topic: str, partition: int) -> str:
    """Name of the file of a partition: a topic's may be as long as a file's, and is cut then."""
    if len(topic) > _NAME_CHARACTERS_MAX:
        topic = f"{topic[:_NAME_CHARACTERS_MAX]}-{crc32c.crc32c(topic.encode()):08x}"
    return f"part-{topic}-{partition}.parquet"


def _write_all(folder: str, tables: dict[str, pa.Table], partition: int) -> dict[str, int]:
    return {
        name: write_table(Path(folder, name, f"part-{partition:05d}.parquet"), table)
        for name, table in tables.items()
    }


def write_table(path: Path, table: pa.Table) -> int:
    """Write a file under a temporary name; a task that runs again writes the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_of(path)
    pq.write_table(table, temporary, compression="zstd")
    temporary.rename(path)
    return int(table.num_rows)
