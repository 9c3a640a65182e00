"""Page of `groups --report`: lag as a picture, groups by lag, rebalances, open transactions.

The page embeds its picture and needs no network; PNG and CSV are beside it.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline import pictures
from pipeline.core.groups.lag import SAMPLE
from pipeline.core.groups.open_transactions import ACCOUNTED, FINDINGS
from pipeline.jobs.job import JobResult
from pipeline.report_page import PAGE_NAME, page, scrolling_table, section, tiles, when

ROWS_MAX: Final = 200
Row = dict[str, Any]
_WORDS: Final = {
    "within_timeout": "may still go on",
    "overdue": "longer than its time-out: its coordinator should have aborted it",
    "not_completed": "ended, but not all markers are written",
    "accounted": "its coordinator knows it",
    "recent": "its coordinator does not know it; not older than the longest time-out",
    "hanging": "its coordinator does not know it: nobody will end it",
}


def write_page(root: Path, folder: Path, result: JobResult, now_ms: int) -> None:
    """Write the page and the files beside it.

    Args:
        root: folder of the tables.
        folder: folder for index.html, PNG and CSV.
        result: of the run that made the tables.
        now_ms: the time at which time-outs were judged.
    """
    folder.mkdir(parents=True, exist_ok=True)
    samples = lag_by_group(root)
    picture = pictures.group_lag(samples, folder)
    groups = pq.read_table(root / "groups").to_pylist()
    opened = pq.read_table(root / "open_transactions").to_pylist()
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    missing = "" if samples else "No data log of what the groups read is in this input."
    body = (
        _tiles(groups, opened, result)
        + section(picture, folder, missing)
        + _groups(groups, {row["group_id"]: row for row in samples})
        + _rebalances(root)
        + _opened(opened, now)
    )
    text = page("Groups", "Groups and transactions", _span(samples), body)
    (folder / PAGE_NAME).write_text(text, encoding="utf-8")


def lag_by_group(root: Path) -> list[Row]:
    """Lag of each group over all its partitions at each sampled instant, ascending by time."""
    columns = ["group_id", "ts", "lag_min", "lag_max"]
    rows = pq.read_table(root / "lag", columns=columns, filters=pc.field("point") == SAMPLE)
    summed = rows.group_by(["group_id", "ts"]).aggregate([("lag_min", "sum"), ("lag_max", "sum")])
    summed = summed.rename_columns(
        [name.removesuffix("_sum") for name in summed.column_names]
    ).sort_by([("ts", "ascending"), ("group_id", "ascending")])
    return list(summed.to_pylist())


def _span(samples: list[Row]) -> str:
    if not samples:
        return "no lag is known"
    return f"{when(samples[0]['ts'])} to {when(samples[-1]['ts'])}"


def _tiles(groups: list[Row], opened: list[Row], result: JobResult) -> str:
    alive = [row for row in groups if row["state"] != "Dead"]
    hanging = sum(row["verdict"] in FINDINGS for row in opened)
    unread = result.counters["refused"] + result.counters["damaged"]
    return tiles(
        (
            ("groups now", str(len(alive)), False),
            ("members now", str(sum(row["members"] for row in alive)), False),
            ("commits", str(result.tables["commits"]), False),
            ("rebalances", str(result.tables["rebalances"]), False),
            ("hanging transactions", str(hanging), hanging > 0),
            ("records not readable", str(unread), unread > 0),
            ("records of share and streams groups", str(result.counters["undeclared"]), False),
        )
    )


def _groups(groups: list[Row], last: dict[str, Row]) -> str:
    """The groups, those with most lag at the last sample first."""
    ordered = sorted(
        groups,
        key=lambda row: (-last.get(row["group_id"], {"lag_max": -1})["lag_max"], row["group_id"]),
    )
    columns = ("group", "state", "protocol", "epoch", "members", "partitions", "lag",
               "last commit (UTC)")  # fmt: skip
    rows = (
        ("", (
            row["group_id"], row["state"], row["protocol"] or "", _text(row["epoch"]),
            str(row["members"]), str(row["committed_partitions"]), _lag(last.get(row["group_id"])),
            when(row["last_commit_ts"]) if row["last_commit_ts"] else "",
        ))
        for row in ordered[:ROWS_MAX]
    )  # fmt: skip
    shown = min(len(ordered), ROWS_MAX)
    return (
        f"<h2>Groups</h2><p>Those with most lag first, {shown} of {len(ordered)}. Where the lag is"
        " a range, stamps of batches leave it open.</p>" + scrolling_table("groups", columns, rows)
    )


def _lag(row: Row | None) -> str:
    if row is None:
        return ""
    low, high = row["lag_min"], row["lag_max"]
    return str(high) if low == high else f"{low} to {high}"


def _text(value: int | None) -> str:
    return "" if value is None else str(value)


def _rebalances(root: Path) -> str:
    found: pa.Table = pq.read_table(root / "rebalances").sort_by([("ts", "descending")])
    columns = ("time (UTC)", "group", "epoch", "members", "joined", "departed", "settled after")
    rows = (
        ("", (
            when(row["ts"]), row["group_id"], str(row["epoch"]), str(row["members"]),
            ", ".join(row["joined"]), ", ".join(row["departed"]), _settled(row),
        ))
        for row in found.slice(0, ROWS_MAX).to_pylist()
    )  # fmt: skip
    shown = min(found.num_rows, ROWS_MAX)
    return (
        f"<h2>Rebalances</h2><p>The newest first, {shown} of {found.num_rows}. A classic group"
        " writes a record when a rebalance is over; a consumer group when it begins.</p>"
        + scrolling_table("rebalances", columns, rows)
    )


def _settled(row: Row) -> str:
    if row["settled_offset"] is None:
        return "never"
    if row["settled_ts"] is None or row["ts"] is None:
        return "unknown"
    return pictures.milliseconds((row["settled_ts"] - row["ts"]).total_seconds() * 1000)


def _opened(opened: list[Row], now: datetime) -> str:
    ordered = sorted(opened, key=lambda row: (row["verdict"] not in FINDINGS,
                                              row["verdict"] == ACCOUNTED))  # fmt: skip
    columns = ("transactional id", "producer", "partition", "first offset", "state", "open for",
               "what")  # fmt: skip
    rows = (
        ("bad" if row["verdict"] in FINDINGS else "", (
            row["transactional_id"] or "", f"{row['producer_id']} ({row['producer_epoch']})",
            "" if row["topic"] is None else f"{row['topic']}-{row['partition']}",
            _text(row["first_offset"]), row["state"] or "",
            "" if row["open_ms"] is None else pictures.milliseconds(row["open_ms"]),
            _WORDS[row["verdict"]],
        ))
        for row in ordered[:ROWS_MAX]
    )  # fmt: skip
    return (
        f"<h2>Open transactions</h2><p>At {when(now)}, {min(len(ordered), ROWS_MAX)} of"
        f" {len(ordered)}.</p>" + scrolling_table("transactions", columns, rows)
    )
