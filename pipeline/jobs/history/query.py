"""Queries of a finished history: the state at an offset or a time, and the leader of a partition.

    from pipeline.jobs.history.query import as_of, who_led
    as_of(spark, "OUT", ts=datetime(2026, 11, 17, 14, 7, tzinfo=UTC))["partitions"].show()
    who_led("OUT", "orders-3", ts=...)["text"]

"As of offset N" is half-open, as everywhere: all records below N. As of a time T: all records
before the first one that is later than T, so a clock that steps back does not hide records.
"""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from pipeline.core.errors import BadInputError
from pipeline.core.reading.options import whole_number
from pipeline.core.records.schema import TIMESTAMP
from pipeline.jobs.history.schema import (
    CONTROLLER_EPOCHS,
    INTS,
    RECORDS_DDL,
    REPORTS,
    SCD_TABLES,
)
from pipeline.jobs.job import RUN_NAME, SUCCESS_NAME
from pipeline.jobs.publishing import current_version

CONTROLLER_EPOCHS_ARROW: Final = pa.schema(
    [
        ("epoch", pa.int32()),
        ("leader", pa.int32()),
        ("start_offset", pa.int64()),
        ("end_offset", pa.int64()),
        ("start_ts", TIMESTAMP),
        ("voters", INTS),
        ("granting", INTS),
    ]
)
_TABLES: Final = {
    **SCD_TABLES,
    **REPORTS,
    "controller_epochs": CONTROLLER_EPOCHS,
    "records": RECORDS_DDL,
}
_WHY: Final = {
    "failover": "broker {from_} was fenced or gone",
    "controlled_shutdown": "broker {from_} was shutting down in good order",
    "preferred": "leadership went back to the preferred replica, the first of the list",
    "reassignment": "the replicas were being moved",
    "unclean": "no replica in sync was left, so one that may miss records was elected",
    "failover_elr": "no replica in sync was left; an eligible one (ELR) was elected, nothing lost",
    "recovery": "a replica that was in sync came back after a time without leader",
    "epoch_only": "the leader stayed, only its epoch was raised",
    "planned": "broker {from_} was alive; the controller moved the leadership",
}


def table(spark: Any, root: str, name: str) -> Any:
    """Read one table of a history as a DataFrame.

    Raises:
        BadInputError: there is no such table.
    """
    if name not in _TABLES:
        raise BadInputError(f"table {name!r} does not exist; there are: {', '.join(_TABLES)}")
    root = _pinned(root)
    if not any(Path(root, name).rglob("*.parquet")):
        return spark.createDataFrame([], _TABLES[name])
    return spark.read.schema(_TABLES[name]).parquet(str(Path(root, name))).drop("current")


def tables(spark: Any, root: str) -> dict[str, Any]:
    """Read all tables of a history by name; each is also a temporary view of that name."""
    root = _pinned(root)
    found = {name: table(spark, root, name) for name in _TABLES}
    for name, frame in found.items():
        frame.createOrReplaceTempView(name)
    return found


class AsOf(dict[str, Any]):
    """DataFrames by table; `offset` is the exclusive end that they stand for."""

    def __init__(self, frames: dict[str, Any], offset: int) -> None:
        super().__init__(frames)
        self.offset = offset


def as_of(spark: Any, root: str, *, offset: int | None = None, ts: datetime | None = None) -> AsOf:
    """Select the rows of every table that are valid at one moment.

    Each is also a temporary view NAME_asof. An offset inside a batch means the batch's start,
    unless the history was built with --intra-batch: half a batch was never visible. The result's
    `offset` is the one that was answered for.

    Args:
        spark: a session.
        root: output of `history`.
        offset: exclusive end, all records below it count.
        ts: a time with zone.

    Raises:
        BadInputError: not exactly one of the two, or a moment outside the history.
    """
    root = _pinned(root)
    end = resolve(root, offset=offset, ts=ts)
    found = {}
    for name in SCD_TABLES:
        rows = table(spark, root, name).where(
            f"valid_from_offset < {end} and (valid_to_offset is null or valid_to_offset >= {end})"
        )
        rows.createOrReplaceTempView(f"{name}_asof")
        found[name] = rows
    return AsOf(found, end)


def resolve(root: str, *, offset: int | None = None, ts: datetime | None = None) -> int:
    """The exclusive end offset of a moment; without a moment the end of the history.

    Raises:
        BadInputError: both are given, or a moment outside the history.
    """
    root = _pinned(root)
    covered = counters(root)
    start, end, log_end = (covered[name] for name in _RANGE)
    if offset is not None and ts is not None:
        raise BadInputError("as of what: an offset or a time, not both")
    if ts is not None:
        offset = _offset_of(root, ts, end)
    if offset is None:
        return end
    if not start <= offset <= log_end:
        raise BadInputError(f"offset {offset} is outside the history: {start} to {log_end}")
    return offset if covered["intra_batch"] else _batch_start(root, offset)


_RANGE: Final = ("start_offset", "end_offset", "log_end_offset")


def _pinned(root: str) -> str:
    """One version of an archive, so that a run that publishes meanwhile changes nothing."""
    return str(current_version(root))


def counters(root: str | Path) -> dict[str, int]:
    """Read the counters of the last run.

    Raises:
        BadInputError: no finished history, or its description cannot be read.
    """
    path = Path(root, RUN_NAME)
    if not path.exists() or not Path(root, SUCCESS_NAME).exists():
        raise BadInputError(f"{root}: no finished history ({RUN_NAME} and {SUCCESS_NAME})")
    try:
        found: dict[str, int] = dict(json.loads(path.read_text())["counters"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadInputError(f"{path}: not the description of a run: {error!r}") from error
    if not set(_RANGE) <= set(found):
        raise BadInputError(f"{root}: holds the output of another job")
    return found


def finished_history(inputs: tuple[str, ...]) -> str | None:
    """The input, if it is the output of a finished run of `history`."""
    if len(inputs) == 1 and Path(inputs[0], "state", "keyed").is_dir():
        root = _pinned(inputs[0])
        counters(root)
        return root
    return None


def archive_end(root: Path | None) -> int | None:
    """End offset of an archive, where it continues; None without one."""
    if root is None or not Path(root, SUCCESS_NAME).exists():
        return None
    return counters(root)["end_offset"]


def controller_epochs(root: str | Path) -> list[dict[str, Any]]:
    """Controller epochs, ascending."""
    rows = _rows(root, "controller_epochs", None)
    return sorted(rows, key=lambda row: row["start_offset"])


def moment(text: str | None) -> dict[str, Any]:
    """Parse `--at` to an argument of `as_of`.

    Raises:
        BadInputError: the text is neither an offset nor a time.
    """
    if text is None:
        return {}
    offset = whole_number(text)
    if offset is not None:
        return {"offset": offset}
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadInputError(
            f"--at is {text!r}; give an offset or a time like 2026-11-17T14:07 or"
            " 2026-11-17T14:07:30+01:00"
        ) from error
    return {"ts": found if found.tzinfo else found.replace(tzinfo=UTC)}


def who_led(
    root: str, partition: str, *, offset: int | None = None, ts: datetime | None = None
) -> dict[str, Any]:
    """Find the leader of a partition at a moment, since when, why, and until when, without Spark.

    Args:
        root: output of `history`.
        partition: TOPIC-N.
        offset: as `as_of`.
        ts: as `as_of`.

    Returns:
        topic, partition, at_offset, leader, leader_epoch, isr, since, until (rows of
        `leader_changes` or None), controller, and `text`, the answer in words.

    Raises:
        BadInputError: the partition did not exist then, or a moment outside the history.
    """
    topic, _, text = partition.rpartition("-")
    number = whole_number(text)
    if not topic or number is None:
        raise BadInputError(f"--who-led is {partition!r}; give TOPIC-N, for instance orders-3")
    root = _pinned(root)
    end = resolve(root, offset=offset, ts=ts)
    named = (pc.field("topic") == topic) & (pc.field("partition") == number)
    live = [
        row for row in _rows(root, "partitions", named)
        if row["valid_from_offset"] < end
        and (row["valid_to_offset"] is None or row["valid_to_offset"] >= end)
    ]  # fmt: skip
    if not live:
        raise BadInputError(f"{partition} did not exist at offset {end}")
    (state,) = live
    mine = named & (pc.field("topic_id") == state["topic_id"])
    changes = sorted(_rows(root, "leader_changes", mine), key=lambda row: row["offset"])
    since = next((row for row in reversed(changes) if row["offset"] < end), None)
    until = next((row for row in changes if row["offset"] >= end), None)
    epochs = [row for row in controller_epochs(root) if row["start_offset"] < end]
    found = {
        "topic": topic, "partition": int(number), "at_offset": end, "leader": state["leader"],
        "leader_epoch": state["leader_epoch"], "isr": state["isr"], "since": since,
        "until": until, "controller": epochs[-1]["leader"] if epochs else None,
    }  # fmt: skip
    text = _in_words(found, state)
    if offset is not None and offset != end:
        text += (
            f"\n  as of offset {end}, where the batch begins that holds {offset - 1} and {offset};"
            " a history built with --intra-batch answers inside batches"
        )
    return found | {"text": text}


def print_answer(answer: dict[str, Any], *, as_json: bool) -> None:
    """Print an answer of `who_led`."""
    text = json.dumps(answer, default=str) if as_json else answer["text"]
    sys.stdout.write(text + "\n")


def _in_words(found: dict[str, Any], state: dict[str, Any]) -> str:
    name = f"{found['topic']}-{found['partition']}"
    leader = f"broker {found['leader']}" if found["leader"] >= 0 else "nobody"
    in_sync = ", ".join(map(str, found["isr"]))
    lines = [
        f"{name} was led by {leader} (leader epoch {found['leader_epoch']}, in sync: {in_sync})"
    ]
    since = found["since"]
    if since is None:
        lines.append(f"since it is known, {_when(state['valid_from_ts'])} at the latest")
    else:
        before = f"broker {since['from']}" if since["from"] >= 0 else "nobody"
        why = _WHY[since["kind"]].format(from_=since["from"])
        gap = since["ms_without_leader"]
        without = f", after {gap} ms without a leader" if gap else ""
        lines.append(
            f"since {_when(since['ts'])} (offset {since['offset']}), before that by {before}:"
            f" {since['kind']}: {why}{without}"
        )
    until = found["until"]
    if until is not None:
        after = f"broker {until['to']}" if until["to"] >= 0 else "nobody"
        why = _WHY[until["kind"]].format(from_=until["from"])
        lines.append(
            f"until {_when(until['ts'])} (offset {until['offset']}), then by {after}:"
            f" {until['kind']}: {why}"
        )
    else:
        lines.append("to the end of this history")
    if found["controller"] is not None:
        lines.append(f"the active controller was node {found['controller']}")
    return "\n  ".join(lines)


def _when(moment_: datetime | None) -> str:
    if moment_ is None:
        return "an unknown time"
    return moment_.astimezone(UTC).strftime("%a %Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC"


def _rows(root: str | Path, name: str, wanted: Any) -> list[dict[str, Any]]:
    files = [str(path) for path in sorted(Path(root, name).rglob("*.parquet"))]
    if not files:
        return []
    found: list[dict[str, Any]] = ds.dataset(files).to_table(filter=wanted).to_pylist()
    return found


def _records(root: str) -> Any:
    return ds.dataset(sorted(map(str, Path(root, "records").rglob("*.parquet"))))


def _offset_of(root: str, ts: datetime, end: int) -> int:
    """Offset of the first record later than the time; the end without one.

    Raises:
        BadInputError: it is the first record, so the history begins later.
    """
    if not any(Path(root, "records").rglob("*.parquet")):
        return end
    known = pc.field("ts").is_valid()
    first = late = None
    for batch in _records(root).to_batches(columns=["offset", "ts"], filter=known):
        if not batch.num_rows:
            continue
        offsets = batch.column("offset")
        least = batch.slice(pc.index(offsets, pc.min(offsets)).as_py(), 1).to_pylist()[0]
        first = least if first is None or least["offset"] < first["offset"] else first
        mask = pc.greater(batch.column("ts"), pa.scalar(ts, TIMESTAMP))
        found = pc.min(offsets.filter(mask)).as_py()
        late = min((one for one in (late, found) if one is not None), default=None)
    if first is not None and late is not None and late <= first["offset"]:
        raise BadInputError(
            f"{_when(ts)} lies before the history, whose first record is of {_when(first['ts'])}"
        )
    return end if late is None else min(int(late), end)


def _batch_start(root: str, offset: int) -> int:
    """The offset itself, or the start of the batch that it lies in."""
    if not any(Path(root, "records").rglob("*.parquet")):
        return offset
    records = _records(root)
    near = (pc.field("offset") == offset) & (pc.field("batch_offset") < offset)
    cut = records.to_table(columns=["batch_offset"], filter=near & ~pc.field("seed"))
    return int(cut.column("batch_offset")[0].as_py()) if cut.num_rows else offset
