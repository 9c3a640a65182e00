"""Comparison of a snapshot with the history at the offset at which the snapshot ends.

Both sides are states, not histories, so this needs no fold: rows as text, compared as sets.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow.compute as pc
import pyarrow.dataset as ds

from metadata.json_form import uuid_text
from pipeline.core.reading.discovery import SegmentFile
from pipeline.jobs.history.events import EventPlan, write_events
from pipeline.jobs.history.input import snapshot_options, snapshot_pieces
from pipeline.jobs.history.packed_lists import UUID_BYTES, unpack
from pipeline.jobs.history.partitions import read_partition_events
from pipeline.jobs.history.schema import KEYED_STATES, VALIDITY

_ROWS_SHOWN: Final = 20
_LINES_SHOWN: Final = 5
_COMPARED_BYTES_MAX: Final = 256 << 20  # of snapshots
# A snapshot has no previous values, and not the broker that took the last block of producer ids.
_NOT_STATE: Final = {
    *(part.split()[0] for part in VALIDITY.split(", ")),
    "prev_leader", "prev_isr", "prev_replicas", "prev_elr", "change", "current",
}  # fmt: skip
_ALSO_NOT: Final = {"producer_ids": {"broker_id"}}
_MAPS: Final = ("features", "entity")
_encode = msgspec.json.Encoder(order="deterministic").encode

Row = dict[str, Any]


class Compared(msgspec.Struct, frozen=True):
    """Rows of the table `findings`, and names of the snapshots that agree."""

    rows: list[dict[str, str]]
    agreeing: tuple[str, ...]


def compare_snapshots(
    snapshots: Sequence[SegmentFile], root: Path, events: Path, end: int, *, reveal: bool
) -> Compared:
    """Compare snapshots with the history, newest first, 256 MiB of them at most.

    Args:
        snapshots: of the log; those above `end` are left out.
        root: folder of the tables of the history.
        events: folder for the events decoded from them.
        end: the exclusive end offset of the history.
        reveal: True if the history shows secrets.
    """
    rows: list[dict[str, str]] = []
    agreeing = []
    left = _COMPARED_BYTES_MAX
    for file in sorted(snapshots, key=lambda one: -one.base_offset):
        if file.base_offset > end:
            continue
        left -= file.size
        if left < 0:
            break
        place = str(events / f"snapshot-{file.name}")
        plan = EventPlan(events=place, archive=None, snapshot_end=file.base_offset, reveal=reveal)
        write_events(snapshot_pieces(file), snapshot_options(file), plan)
        found = compare_snapshot(str(root), place, file.name, file.base_offset)
        rows += found
        agreeing += [] if found else [file.name]
    return Compared(rows, tuple(agreeing))


def print_differences(rows: Sequence[dict[str, str]]) -> None:
    """Print the first findings to stderr."""
    for row in rows[:_LINES_SHOWN]:
        sys.stderr.write("error {snapshot} {check}: only the {side} has a row of {table_name}:"
                         " {row}\n".format(**row))  # fmt: skip
    if len(rows) > _LINES_SHOWN:
        sys.stderr.write(f"and {len(rows) - _LINES_SHOWN} more findings\n")


def compare_snapshot(root: str, events: str, name: str, end: int) -> list[dict[str, str]]:
    """Findings `snapshot_mismatch`: rows that only one side has, at most 20 per table and side.

    Args:
        root: folder of the tables of the history.
        events: folder of the snapshot's events.
        name: name of the snapshot's file.
        end: its exclusive end offset.
    """
    theirs = _snapshot_states(events)
    found = []
    for table in ("partitions", "brokers", *KEYED_STATES):
        mine = _texts(table, states_at(root, table, end))
        other = _texts(table, theirs.get(table, []))
        for side, rows in (("history", mine - other), ("snapshot", other - mine)):
            found += [
                {"check": "snapshot_mismatch", "table_name": table, "snapshot": name,
                 "side": side, "row": row}
                for row in sorted(rows)[:_ROWS_SHOWN]
            ]  # fmt: skip
    return found


def states_at(root: str, table: str, end: int) -> Iterator[Row]:
    """Yield the rows of an SCD table that are valid at an offset (exclusive)."""
    files = [str(path) for path in sorted(Path(root, table).rglob("*.parquet"))]
    if not files:
        return
    to = pc.field("valid_to_offset")
    holds = (pc.field("valid_from_offset") < end) & (to.is_null() | (to >= end))
    for batch in ds.dataset(files).to_batches(filter=holds):
        yield from batch.to_pylist()


def _texts(table: str, rows: Iterable[Row]) -> set[str]:
    # Kafka writes the state of a migration that never ran (0) into snapshots, not into the log.
    return {_text(table, row) for row in rows if table != "zk_migration" or row["state"]}


def _text(table: str, row: Row) -> str:
    hidden = _NOT_STATE | _ALSO_NOT.get(table, set())
    shown = {name: value for name, value in row.items() if name not in hidden}
    for name in _MAPS:
        if isinstance(shown.get(name), list):
            shown[name] = dict(shown[name])
    return _encode(shown).decode()


def _snapshot_states(events: str) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in _event_rows(events, "keyed"):
        found.setdefault(row["kind"], []).append(msgspec.json.decode(row["state"]))
    names = {row["topic_id"]: row["name"] for row in found.get("topics", [])}
    same = ("topic_id", "partition", "leader", "replicas", "isr", "elr", "last_known_elr",
            "adding", "removing", "directories", "recovery")  # fmt: skip
    found["partitions"] = [
        _plain({name: row[name] for name in same})
        | {"topic": names.get(uuid_text(row["topic_id"])), "leader_epoch": row["base_leader_epoch"],
           "partition_epoch": row["base_partition_epoch"]}
        for row in read_partition_events(events)
    ]  # fmt: skip
    found["brokers"] = [
        {name: row[name] for name in ("broker_id", "fenced", "in_shutdown", "log_dirs")}
        | msgspec.json.decode(row["registration"])
        | {"cordoned_log_dirs": msgspec.json.decode(row["cordoned"])}
        for row in _event_rows(events, "broker")
    ]
    return found


def _plain(row: Row) -> Row:
    """Unpack the lists of a row."""
    found = {
        name: list(unpack(value)) if isinstance(value, bytes) else value
        for name, value in row.items() if name not in ("topic_id", "directories")
    }  # fmt: skip
    held = row["directories"]
    places = [held[at : at + UUID_BYTES] for at in range(0, len(held), UUID_BYTES)]
    ids = {"topic_id": uuid_text(row["topic_id"]), "directories": list(map(uuid_text, places))}
    return found | ids


def _event_rows(events: str, kind: str) -> Iterator[Row]:
    files = [str(path) for path in sorted(Path(events, kind).glob("*.parquet"))]
    if files:
        for batch in ds.dataset(files).to_batches():
            yield from batch.to_pylist()
