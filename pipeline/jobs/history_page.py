"""`history --report`: one HTML page that a person understands without a manual.

The page holds its pictures itself and needs no network; PNG and CSV files lie beside it.
"""

from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow.dataset as ds

from pipeline import pictures
from pipeline.core.batches import scan
from pipeline.core.discovery import PartitionFiles, discover
from pipeline.core.opening import open_segment
from pipeline.jobs.compaction import known_partitions, plan_one
from pipeline.jobs.history_query import counters
from pipeline.jobs.job import SPARK_BYTES_MIN
from wire.compression import Codec

PAGE_NAME: Final = "index.html"
_CHANGES_SHOWN: Final = 200
_CODEC_BITS: Final = 7
_WORDS: Final = {
    "failover": "the old leader was fenced or gone",
    "controlled_shutdown": "the old leader was shutting down",
    "preferred": "back to the preferred replica",
    "reassignment": "replicas were being moved",
    "unclean": "unclean: records may be lost",
    "failover_elr": "an eligible replica took over, nothing lost",
    "recovery": "a replica came back after a time without leader",
    "epoch_only": "same leader, new epoch",
    "planned": "moved by the controller",
}
_STYLE: Final = """
body{font:15px/1.5 system-ui,sans-serif;max-width:1150px;margin:2rem auto;padding:0 1rem;color:#222}
h1{margin-bottom:.2rem} h2{margin-top:2.4rem;border-bottom:1px solid #ddd} img{max-width:100%}
.facts{display:flex;flex-wrap:wrap;gap:.7rem;margin:1rem 0;padding:0}
.facts li{list-style:none;background:#f4f5f7;border-radius:6px;padding:.5rem .9rem}
.facts b{display:block;font-size:1.4rem} .bad b{color:#c0201f} p.note{color:#555;margin:.3rem 0}
table{border-collapse:collapse;font-size:.87rem;width:100%}
td,th{padding:.2rem .7rem;text-align:left;border-bottom:1px solid #eee;white-space:nowrap}
td:nth-child(7){white-space:normal}
th{position:sticky;top:0;background:#fff} .scroll{max-height:26rem;
overflow:auto;border:1px solid #eee} .unclean td{background:#fde8e8}
"""
Row = dict[str, Any]


def write_page(spark: Any, root: str, folder: str, inputs: Sequence[str]) -> None:
    """Write the page and what is beside it.

    Args:
        spark: for partitions that are too large to plan in this process.
        root: output of `history`.
        folder: gets index.html, PNG and CSV files.
        inputs: of the run: logs below them are looked at for batch sizes and compaction.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    end = _last_time(root)
    intervals = _rows(root, "partitions", columns=_TIMELINE)
    missing = _rows(root, "under_replicated")
    sizes, lags = _batches(inputs)
    drawn = [
        pictures.leader_timeline(intervals, target, end),
        pictures.under_replication(missing, target, _first_time(intervals), end),
        pictures.batch_sizes(sizes, target),
        pictures.append_lag(lags, target),
        pictures.compaction_picture(_compaction(inputs, spark), target),
    ]
    changes = sorted(_rows(root, "leader_changes"), key=lambda row: row["offset"])
    facts = _facts(root, intervals, changes, missing)
    (target / PAGE_NAME).write_text(_page(root, facts, drawn, changes, target), encoding="utf-8")


_TIMELINE: Final = ["topic", "partition", "leader", "leader_epoch", "isr", "replicas",
                    "valid_from_ts", "valid_to_ts", "valid_from_offset"]  # fmt: skip


def _rows(root: str, name: str, columns: list[str] | None = None) -> list[Row]:
    files = sorted(map(str, Path(root, name).rglob("*.parquet")))
    if not files:
        return []
    found: list[Row] = ds.dataset(files).to_table(columns=columns).to_pylist()
    return found


def _first_time(intervals: list[Row]) -> datetime | None:
    times = [row["valid_from_ts"] for row in intervals if row["valid_from_ts"] is not None]
    return min(times, default=None)


def _last_time(root: str) -> datetime | None:
    times = [row["ts"] for row in _rows(root, "records", ["ts"]) if row["ts"] is not None]
    return max(times, default=None)


def _batches(inputs: Sequence[str]) -> tuple[list[Row], list[Row]]:
    """Batches by size and by lag, from the headers of all logs below the inputs."""
    listing = discover(inputs, strict=False)
    sizes: dict[tuple[str, str, int], list[int]] = {}
    lags: dict[tuple[str, int], list[int]] = {}
    for partition in listing.partitions:
        newest = -1
        for size, codec, newest_ms in _headers(partition):
            known = sizes.setdefault((partition.topic, codec, 1 << (size.bit_length() - 1)), [0, 0])
            known[0] += 1
            known[1] += size
            lag = max(0, newest - newest_ms) if newest_ms >= 0 else 0
            newest = max(newest, newest_ms)
            bucket = 10 ** (len(str(lag)) - 1) if lag else 0
            late = lags.setdefault((partition.topic, bucket), [0, 0])
            late[0] += 1
            late[1] = max(late[1], lag)
    by_size = [
        {"topic": topic, "codec": codec, "bucket": bucket, "batches": count, "bytes": total}
        for (topic, codec, bucket), (count, total) in sorted(sizes.items())
    ]
    by_lag = [
        {"topic": topic, "bucket_ms": bucket, "batches": count, "max_ms": most}
        for (topic, bucket), (count, most) in sorted(lags.items())
    ]
    return by_size, by_lag


def _headers(partition: PartitionFiles) -> Any:
    for file in partition.segments:
        with open_segment(file.path) as descriptor:
            for table in scan(descriptor, 0, file.size, frozen_size=file.size, validate="header",
                              is_last=file.is_last):  # fmt: skip
                codecs = (table.column("attributes") & _CODEC_BITS).tolist()
                times = table.column("max_timestamp_ms").tolist()
                for size, codec, newest in zip(table.sizes.tolist(), codecs, times, strict=True):
                    yield size, Codec(codec).name.lower() if codec <= Codec.ZSTD else "?", newest


def _compaction(inputs: Sequence[str], spark: Any) -> list[Row]:
    partitions = known_partitions(tuple(inputs))
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    rows = []
    for one in partitions:
        large = sum(file.size for file in one.segments) >= SPARK_BYTES_MIN
        rows += plan_one(one, now_ms, [], spark if large else None).rows
    return [msgspec.structs.asdict(row) for row in rows]


def _facts(
    root: str, intervals: list[Row], changes: list[Row], missing: list[Row]
) -> list[tuple[str, str, bool]]:
    covered = counters(root)
    now = [row for row in intervals if row["valid_to_ts"] is None]
    unclean = sum(row["kind"] == "unclean" for row in changes)
    offline = sum(row["leader"] < 0 for row in now)
    short = sum(row["to_ts"] is None for row in missing)
    return [
        ("partitions now", str(len(now)), False),
        ("changes of leaders", str(len(changes)), False),
        ("unclean elections", str(unclean), unclean > 0),
        ("without leader now", str(offline), offline > 0),
        ("under-replicated now", str(short), short > 0),
        ("offsets covered", f"{covered['start_offset']} to {covered['end_offset']}", False),
    ]


def _page(
    root: str, facts: list[tuple[str, str, bool]], drawn: list[pictures.Picture],
    changes: list[Row], folder: Path,
) -> str:  # fmt: skip
    tiles = "".join(
        f'<li class="{"bad" if bad else ""}"><b>{escape(value)}</b>{escape(label)}</li>'
        for label, value, bad in facts
    )
    sections = "".join(_section(one, folder) for one in drawn)
    records = _rows(root, "records", ["ts"])
    times = sorted(row["ts"] for row in records if row["ts"] is not None)
    span = f"{_when(times[0])} to {_when(times[-1])}" if times else "an empty log"
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f"<title>Metadata history</title><style>{_STYLE}</style></head><body>"
        f"<h1>History of the cluster's metadata</h1><p class=note>{escape(span)}</p>"
        f"<ul class=facts>{tiles}</ul>{_table(changes)}{sections}"
        "<h2>Who led a partition, and why?</h2><p>Ask the tables this page was made of:</p>"
        "<pre>scripts/pipeline history --input HISTORY --who-led orders-3"
        " --at 2026-11-17T14:07</pre>"
        "</body></html>"
    )


def _section(picture: pictures.Picture, folder: Path) -> str:
    image = b64encode((folder / f"{picture.name}.png").read_bytes()).decode()
    note = " There is nothing of it in this input." if picture.is_empty else ""
    return (
        f'<section id="{picture.name}"><h2>{escape(picture.title)}</h2>'
        f"<p>{escape(picture.text + note)}</p>"
        f'<img alt="{escape(picture.title)}" src="data:image/png;base64,{image}">'
        f'<p class=note>The figures: <a href="{picture.name}.csv">{picture.name}.csv</a>, the'
        f' picture alone: <a href="{picture.name}.png">{picture.name}.png</a></p></section>'
    )


def _table(changes: list[Row]) -> str:
    latest = changes[-_CHANGES_SHOWN:][::-1]
    rows = "".join(
        f'<tr class="{row["kind"]}"><td>{_when(row["ts"])}</td><td>{row["offset"]}</td>'
        f"<td>{escape(str(row['topic']))}-{row['partition']}</td><td>{_broker(row['from'])}</td>"
        f"<td>{_broker(row['to'])}</td><td>{row['epoch']}</td>"
        f"<td>{escape(_WORDS[row['kind']])}</td>"
        f"<td>{_duration(row['ms_without_leader'])}</td></tr>"
        for row in latest
    )
    return (
        f"<h2>Changes of leaders</h2><p>The newest first, {len(latest)} of {len(changes)}.</p>"
        "<div class=scroll><table id=changes><thead><tr><th>time (UTC)<th>offset<th>partition"
        "<th>from<th>to<th>leader epoch<th>why<th>without leader for</tr></thead>"
        f"<tbody>{rows}</tbody></table></div>"
    )


def _duration(milliseconds: int | None) -> str:
    return "" if milliseconds is None else pictures.milliseconds(milliseconds)


def _broker(number: int) -> str:
    return f"broker {number}" if number >= 0 else "nobody"


def _when(moment: datetime | None) -> str:
    if moment is None:
        return "unknown"
    return moment.astimezone(UTC).strftime("%a %Y-%m-%d %H:%M:%S")
