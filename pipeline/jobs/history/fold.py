"""Fold of all events but those of partitions to intervals, one after the other, on the driver.

These records are few beside changes of partitions. The state of a key is kept until its next event;
of several events in one step only the last counts. Topics, configs, ACLs and the like are
whole states in JSON ("keyed"); a broker's events overlay each other.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from metadata.json_form import uuid_from_text
from metadata.records import CONFIG_BROKER, CONFIG_TOPIC
from pipeline.core.reading.options import whole_number
from pipeline.core.records.schema import TIMESTAMP
from pipeline.jobs.history.schema import EVENTS, KEYED_STATES
from pipeline.jobs.history.table_sink import TableSink

_ROWS: Final = 16_384
_FIELDS: Final = ("registration", "fenced", "in_shutdown", "log_dirs", "cordoned")
_PLACE: Final = ("visible", "offset", "idx", "batch_offset", "ts", "epoch", "api", "seed")
Row = dict[str, Any]
Range = tuple[Any, int, int | None, int]  # key, from, to or None, value
_json = msgspec.json.Decoder().decode


class Held(msgspec.Struct, gc=False):
    """State of a key since an event (None: removed), and the state before that."""

    state: Any
    place: tuple[Any, ...]  # as in _PLACE
    before: tuple[Any, tuple[Any, ...]] | None = None


class Ended(msgspec.Struct, gc=False):
    """An interval; its ends are None while it is open."""

    state: Any
    place: tuple[Any, ...]
    to_offset: int | None
    to_ts: int | None
    to_batch: int | None

    def validity(self) -> Row:
        """Return the common columns of the tables."""
        visible, offset, _, batch, ts, epoch, api, seed = self.place
        return {
            "valid_from_offset": visible, "valid_from_ts": ts, "valid_to_offset": self.to_offset,
            "valid_to_ts": self.to_ts, "cause_api": api, "cause_offset": offset,
            "batch_offset": batch, "controller_epoch": epoch, "seed": seed,
        }  # fmt: skip


class Intervals:
    """The fold of keys whose events carry whole states.

    Args:
        intra_batch: keep every state that a batch gives a key.
    """

    def __init__(self, *, intra_batch: bool) -> None:
        self._step = _PLACE.index("visible" if intra_batch else "batch_offset")
        self._held: dict[Any, Held] = {}

    def take(self, key: Any, state: Any, place: tuple[Any, ...]) -> Ended | None:
        """Apply the next event of a key; returns the interval that has ended."""
        held = self._held.get(key)
        if held is None:
            if state is not None:
                self._held[key] = Held(state, place)
            return None
        if held.place[self._step] == place[self._step]:
            held.state, held.place = state, place
            return None
        ended = _ended(held)
        before = None if held.state is None else (held.state, held.place)
        self._held[key] = Held(state, place, before)
        return ended

    def state(self, key: Any) -> Any:
        """Return the current state of a key."""
        held = self._held.get(key)
        return None if held is None else held.state

    def rest(self) -> Iterator[tuple[Any, Ended]]:
        """Yield the remaining intervals after the last event."""
        for key, held in self._held.items():
            ended = _ended(held)
            if ended is not None:
                yield key, ended
            if held.state is not None:
                yield key, Ended(held.state, held.place, None, None, None)


def _ended(held: Held) -> Ended | None:
    if held.before is None:
        return None
    visible, _, _, batch, ts, *_ = held.place
    return Ended(*held.before, visible, ts, batch)


class FoldPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of the fold; `state` is that of the archive that continues, None for a new one."""

    events: Path
    folder: Path
    label: str
    intra_batch: bool
    state: Path | None


def fold_keyed(plan: FoldPlan) -> dict[str, int]:
    """Write the keyed tables and the open intervals; returns the rows of each.

    Also writes `topics.parquet` beside the events: all topics with their ends, earlier ones too.
    """
    fold = _Keyed(plan)
    if plan.state is not None:
        for row in _rows([plan.state / "keyed" / "part-0.parquet"]):
            fold.take(row)
    for row in _rows(sorted((plan.events / "keyed").glob("*.parquet"))):
        fold.take(row)
    return fold.finish()


class _Keyed:
    def __init__(self, plan: FoldPlan) -> None:
        self._plan = plan
        self._intervals = Intervals(intra_batch=plan.intra_batch)
        self._owned: dict[str, dict[tuple[str, str], None]] = {}
        self._sinks = {
            kind: TableSink(kind, plan.folder / kind, plan.label) for kind in KEYED_STATES
        }
        self._topics: list[Row] = []

    def take(self, row: Row) -> None:
        kind, key, owner = row["kind"], row["key"], row["owner"]
        place = tuple(row[name] for name in _PLACE)
        if owner is not None:
            self._owned.setdefault(owner, {})[kind, key] = None
        if kind == "topics" and row["state"] is None:
            self._remove_owned(key, place)
        self._add(kind, key, row["state"], place)

    def _remove_owned(self, topic: str, place: tuple[Any, ...]) -> None:
        """Remove the configs of a topic with it."""
        text = self._intervals.state(("topics", topic))
        if text is None:
            return
        for kind, key in self._owned.pop(_json(text)["name"], {}):
            self._add(kind, key, None, place)

    def _add(self, kind: str, key: str, state: str | None, place: tuple[Any, ...]) -> None:
        ended = self._intervals.take((kind, key), state, place)
        if ended is not None:
            self._write(kind, ended)

    def _write(self, kind: str, ended: Ended) -> None:
        state = _json(ended.state)
        self._sinks[kind].add(state | ended.validity(), is_open=ended.to_offset is None)
        if kind == "topics":
            self._topics.append(state | ended.validity() | {"to_batch": ended.to_batch})

    def finish(self) -> dict[str, int]:
        owners = {key: owner for owner, keys in self._owned.items() for key in keys}
        rows: list[Row] = []
        for (kind, key), ended in self._intervals.rest():
            self._write(kind, ended)
            if ended.to_offset is not None:
                continue
            known = {"kind": kind, "key": key, "owner": owners.get((kind, key))}
            place = dict(zip(_PLACE, ended.place, strict=True))
            rows.append(known | place | {"state": ended.state})
        folder = self._plan.folder / "state" / "keyed"
        folder.mkdir(parents=True)
        pq.write_table(_event_table(rows, EVENTS["keyed"]), folder / "part-0.parquet")
        pq.write_table(_topic_table(self._topics), self._plan.events / "topics.parquet")
        return {kind: sink.close() for kind, sink in self._sinks.items()}


def fold_brokers(
    plan: FoldPlan, base: list[Row]
) -> tuple[int, list[tuple[int, int, int | None, int]]]:
    """Write the table `brokers`.

    Args:
        plan: of the fold.
        base: open rows of `brokers` in the archive.

    Returns:
        The number of rows; and (broker, from batch, to batch or None, 2 * fenced + in_shutdown).
    """
    intervals = Intervals(intra_batch=plan.intra_batch)
    sink = TableSink("brokers", plan.folder / "brokers", plan.label)
    standing: list[Range] = []

    def write(broker: int, ended: Ended) -> None:
        state = ended.state
        fenced, stopping = bool(state["fenced"]), bool(state["in_shutdown"])
        standing.append((broker, ended.place[3], ended.to_batch, 2 * fenced + stopping))
        sink.add(_broker_row(broker, state) | ended.validity(), is_open=ended.to_offset is None)

    now: dict[int, Row] = {}
    for row in base:
        now[row["broker_id"]] = state = _broker_state(row)
        intervals.take(row["broker_id"], state, _base_place(row))
    for row in _rows(sorted((plan.events / "broker").glob("*.parquet"))):
        broker = row["broker_id"]
        if not row["is_reset"] and broker not in now:
            continue  # its registration was lost with a damaged batch
        before = {} if row["is_reset"] else now[broker]
        changed = {name: row[name] for name in _FIELDS if row[name] is not None}
        now[broker] = before | changed
        whole_state = {name: now[broker].get(name) for name in _FIELDS}
        held = None if row["is_removed"] else whole_state
        ended = intervals.take(broker, held, tuple(row[name] for name in _PLACE))
        if ended is not None:
            write(broker, ended)
    for broker, ended in intervals.rest():
        write(broker, ended)
    return sink.close(), standing


def _broker_row(broker: int, state: Row) -> Row:
    cordoned = None if state["cordoned"] is None else _json(state["cordoned"])
    registration: Row = _json(state["registration"] or "{}")
    return registration | {
        "broker_id": broker, "fenced": state["fenced"], "in_shutdown": state["in_shutdown"],
        "log_dirs": state["log_dirs"], "cordoned_log_dirs": cordoned,
    }  # fmt: skip


_REGISTRATION: Final = ("broker_epoch", "incarnation", "endpoints", "rack", "features",
                        "is_migrating")  # fmt: skip


def _broker_state(row: Row) -> Row:
    registration = {name: row[name] for name in _REGISTRATION}
    registration["features"] = dict(registration["features"] or ())
    return {
        "registration": msgspec.json.encode(registration).decode(), "fenced": row["fenced"],
        "in_shutdown": row["in_shutdown"], "log_dirs": row["log_dirs"],
        "cordoned": msgspec.json.encode(row["cordoned_log_dirs"]).decode(),
    }  # fmt: skip


def _base_place(row: Row) -> tuple[Any, ...]:
    return (row["valid_from_offset"], row["cause_offset"], 0, row["batch_offset"],
            row["valid_from_ts"], row["controller_epoch"], row["cause_api"],
            row["seed"])  # fmt: skip


def _rows(files: list[Path]) -> Iterator[Row]:
    """Yield plain rows; times as integers, which are cheaper and exact."""
    for path in files:
        for batch in pq.ParquetFile(path).iter_batches(_ROWS):
            at = batch.schema.get_field_index("ts")
            yield from batch.set_column(at, "ts", batch.column(at).view(pa.int64())).to_pylist()


def broker_base(root: Path) -> list[Row]:
    """Open rows of an archive's table `brokers`, times as integers."""
    files = sorted((root / "brokers" / "current=true").glob("*.parquet"))
    rows: list[Row] = []
    for batch in ds.dataset(files).to_batches() if files else ():
        at = batch.schema.get_field_index("valid_from_ts")
        times = batch.column(at).view(pa.int64())
        rows += batch.set_column(at, "valid_from_ts", times).to_pylist()
    return rows


def min_isr_ranges(folders: list[Path]) -> list[Range]:
    """(topic or "" for the cluster, from, to, value) of every `min.insync.replicas`."""
    found: dict[tuple[str, int], Range] = {}
    kinds = pc.field("resource_type").isin([CONFIG_TOPIC, CONFIG_BROKER])
    wanted = kinds & (pc.field("name") == "min.insync.replicas")
    for folder in folders:
        files = sorted((folder / "configs").rglob("*.parquet"))
        for row in ds.dataset(files).to_table(filter=wanted).to_pylist() if files else ():
            resource = row["resource"]
            is_cluster = row["resource_type"] == CONFIG_BROKER
            value = whole_number(row["value"])
            if is_cluster != (resource == "") or value is None:
                continue  # of one broker, or not a number
            start, end = row["valid_from_offset"], row["valid_to_offset"]
            found[resource, start] = resource, start, end, value
    return list(found.values())


def _event_table(rows: list[Row], schema: pa.Schema) -> pa.Table:
    columns = []
    for field in schema:
        values = [row[field.name] for row in rows]
        if field.type == TIMESTAMP:
            columns.append(pa.array(values, pa.int64()).view(TIMESTAMP))
        else:
            columns.append(pa.array(values, field.type))
    return pa.Table.from_arrays(columns, schema=schema)


_TOPICS: Final = pa.schema(
    [
        ("topic_id", pa.string()),
        ("name", pa.string()),
        ("valid_from_offset", pa.int64()),
        ("valid_to_offset", pa.int64()),
        ("valid_to_ts", TIMESTAMP),
        ("to_batch", pa.int64()),
    ]
)


def _topic_table(rows: list[Row]) -> pa.Table:
    table = _event_table(rows, _TOPICS)
    ids = pa.array([uuid_from_text(row["topic_id"]) for row in rows], pa.binary())
    return table.append_column("id", ids)
