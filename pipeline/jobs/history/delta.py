"""Tables of a history as Delta tables: `--delta DIR` keeps DIR/TABLE like the archive.

An archive's version is files of which most are those of the version before. So a Delta table is
brought up to it in one transaction: files that it lacks are added, files that are gone (the open
intervals, which each run writes anew) are taken out. Files are shared by hard links, or copied. The
transaction says to which offset it goes, so a run that is killed between two tables is gone on with
by the next one, and one that finds nothing to change commits nothing.

A file's name in the table has its time and size, by which it is known to be the archive's.
"""

import time
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.core.errors import BadInputError
from pipeline.jobs.delta_tables import Delta, DeltaCommit, DeltaFile
from pipeline.jobs.history.continuation import Archive
from pipeline.jobs.history.kept_files import link_file, parquet_rows
from pipeline.jobs.history.query import CONTROLLER_EPOCHS_ARROW
from pipeline.jobs.history.schema import RECORDS, REPORT_ARROW, SCD_ARROW

APP: Final = "kraftline.history"
_CURRENT: Final = pa.field("current", pa.bool_())
_MILLION: Final = pa.field("offset_million", pa.int64())
# columns and partition columns of each table
TABLES: Final[dict[str, tuple[pa.Schema, tuple[str, ...]]]] = {
    **{name: (schema.append(_CURRENT), ("current",)) for name, schema in SCD_ARROW.items()},
    **{name: (schema, ()) for name, schema in REPORT_ARROW.items()},
    "controller_epochs": (CONTROLLER_EPOCHS_ARROW, ()),
    "records": (RECORDS.append(_MILLION), ("offset_million",)),
}


def update_tables(archive: Archive, folder: Path) -> dict[str, int]:
    """Bring the Delta tables below a folder up to an archive's version.

    Returns:
        The rows of each table, of those that were changed.

    Raises:
        BadInputError: a table of another cluster, of a later state, of other columns, or of
            someone else; what is there stays.
    """
    tables = {name: Delta(folder / name) for name in TABLES}
    for name, delta in tables.items():
        _check(archive, delta)
        delta.check_schema(*TABLES[name])
    return {
        name: rows
        for name, delta in tables.items()
        for rows in [_update(archive, delta, name)] if rows is not None
    }  # fmt: skip


def _check(archive: Archive, delta: Delta) -> None:
    """Refuse a table that is not of this archive."""
    if not delta.exists:
        return
    if delta.number(APP) is None:
        raise BadInputError(f"{delta.root}: a Delta table that no history has begun")
    known = delta.state(APP)
    ids = known["cluster_id"], archive.log.cluster_id
    if None not in ids and ids[0] != ids[1]:
        raise BadInputError(
            f"{delta.root} is of cluster {ids[0]}, the archive {archive.name} is of cluster"
            f" {ids[1]}"
        )
    end = archive.counters["end_offset"]
    if known["end_offset"] > end:
        raise BadInputError(
            f"{delta.root} goes to offset {known['end_offset']}, the archive {archive.name} to"
            f" {end}: it is an older one, or another"
        )


def _update(archive: Archive, delta: Delta, name: str) -> int | None:
    """Make one transaction if the table differs; returns its rows, None if it does not."""
    schema, partition_by = TABLES[name]
    source = archive.root / name
    wanted = {_name_in_table(path, source): path for path in sorted(source.rglob("*.parquet"))}
    known = set(delta.files())
    if delta.exists and known == wanted.keys():
        return None
    added = [
        _added(delta.root / name_there, path, name_there)
        for name_there, path in wanted.items() if name_there not in known
    ]  # fmt: skip
    end = archive.counters["end_offset"]
    state: dict[str, Any] = {"cluster_id": archive.log.cluster_id, "end_offset": end}
    commit = DeltaCommit(
        app=APP, number=end, state=state, add=added, remove=sorted(known - wanted.keys()),
        now_ms=time.time_ns() // 1_000_000,
    )  # fmt: skip
    delta.commit(commit, schema, partition_by)
    return parquet_rows(source)


def _name_in_table(path: Path, source: Path) -> str:
    found = path.stat()
    name = f"{path.stem}-{found.st_mtime_ns // 1_000_000}-{found.st_size}.parquet"
    return str(path.relative_to(source).with_name(name))


def _added(place: Path, path: Path, name: str) -> DeltaFile:
    """Put a file of the archive at its place in the table."""
    place.parent.mkdir(parents=True, exist_ok=True)
    link_file(path, place)  # it may be there, of a run that was killed before its transaction
    about, metadata = path.stat(), pq.read_metadata(path)
    return DeltaFile(
        path=name, size_bytes=about.st_size, rows=metadata.num_rows,
        modified_ms=about.st_mtime_ns // 1_000_000, bounds=_bounds(metadata),
        partitions=dict(part.split("=", 1) for part in name.split("/")[:-1]),
    )  # fmt: skip


def _bounds(metadata: pq.FileMetaData) -> dict[str, tuple[int, int]]:
    """Lowest and highest value of each column of whole numbers, by the file's statistics."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    found: dict[str, tuple[int, int]] = {}
    for index in range(metadata.num_columns if groups else 0):
        columns = [group.column(index) for group in groups]
        name, stats = columns[0].path_in_schema, [one.statistics for one in columns]
        if "." in name or not all(one is not None and one.has_min_max for one in stats):
            continue
        low, high = min(one.min for one in stats), max(one.max for one in stats)
        if type(low) is int:  # no time, text or truth
            found[name] = low, high
    return found
