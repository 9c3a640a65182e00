"""Page of `history --report`: one HTML page with pictures, readable without a manual.

The page embeds its pictures and needs no network; PNG and CSV files are beside it.
"""

import glob
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from pipeline import pictures
from pipeline.core.compaction.chosen import data_partitions, known_partitions
from pipeline.core.compaction.partition import PartitionPlan, plan_one
from pipeline.core.reading.discovery import PartitionFiles, discover
from pipeline.core.reading.opening import open_segment
from pipeline.core.records.batches import BatchTable, scan
from pipeline.core.stage import SPARK_BYTES_MIN
from pipeline.jobs.history import figures as history_figures
from pipeline.jobs.history.figures import Facts
from pipeline.jobs.history.packed_lists import Numbers
from pipeline.jobs.job import RUN_NAME
from pipeline.report_page import PAGE_NAME, page, scrolling_table, section, tiles, when
from wire.batches.compression import Codec

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
Row = dict[str, Any]


def write_page(
    session: Callable[[], Any] | None, root: str, folder: str, inputs: Sequence[str] | None = None
) -> None:
    """Write the page and the files beside it.

    Args:
        session: returns Spark for partitions that are too large to plan in this process.
        root: output of `history`.
        folder: folder for index.html, PNG and CSV files.
        inputs: logs below them are read for batch sizes and compaction; None for those that
            the history was fed from, if they still exist: else the page says so.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    facts = history_figures.facts(root)
    begin = history_figures.first_state(root)
    there, gone = _split_inputs(fed_from(root) if inputs is None else inputs)
    sizes, lags = _batches(there)
    drawn = [
        pictures.leader_timeline(
            history_figures.busiest_states(root, begin, facts.end), target, facts.end
        ),
        pictures.under_replication(
            history_figures.levels(root, facts.end), target, begin, facts.end
        ),
        pictures.batch_sizes(sizes, target),
        pictures.append_lag(lags, target),
        pictures.compaction_picture(_compaction(there, session), target),
    ]
    notes = dict.fromkeys((one.name for one in drawn[2:]), _missing_note(gone))
    changes = history_figures.latest_changes(root)
    text = _page(facts, drawn, changes, target, notes, damage_section(root, facts.damaged))
    (target / PAGE_NAME).write_text(text, encoding="utf-8")


def fed_from(root: str) -> list[str]:
    """Paths given to the last run of a history."""
    run = json.loads(Path(root, RUN_NAME).read_text())
    if "paths" in run:
        return list(run["paths"])
    files = (Path(one["path"]) for one in run.get("inputs", ()))
    return sorted({str(path.parent.parent) for path in files})


def _split_inputs(inputs: Sequence[str]) -> tuple[list[str], list[str]]:
    """Existing and missing paths."""
    there: list[str] = []
    gone: list[str] = []
    for path in inputs:
        (there if glob.glob(path) else gone).append(path)  # noqa: PTH207  # may be absolute
    return there, gone


def _missing_note(gone: list[str]) -> str:
    if not gone:
        return ""
    return f"The logs at {', '.join(gone)} are not there any more; name copies with --logs."


def _batches(inputs: Sequence[str]) -> tuple[list[Row], list[Row]]:
    """Batches by size and by lag, from the headers of all logs below the inputs."""
    sizes: dict[tuple[str, str, int], Numbers] = {}
    lags: dict[tuple[str, int], tuple[int, int]] = {}
    for partition in discover(inputs, strict=False).partitions:
        newest = -1
        for table in _headers(partition):
            for codec, bucket, row in _size_rows(table):
                key = partition.topic, codec, bucket
                sizes[key] = sizes.get(key, 0) + row
            times = table.column("max_timestamp_ms")
            before = np.maximum.accumulate(np.concatenate([[newest], times]))
            newest = int(before[-1])
            lag = np.where(times >= 0, np.maximum(0, before[:-1] - times), 0)
            buckets, inverse = np.unique(_decade(lag), return_inverse=True)
            most = np.zeros(len(buckets), np.int64)
            np.maximum.at(most, inverse, lag)
            found = zip(buckets.tolist(), np.bincount(inverse).tolist(), most.tolist(), strict=True)
            for decade, count, largest in found:
                known = lags.get((partition.topic, decade), (0, 0))
                lags[partition.topic, decade] = known[0] + count, max(known[1], largest)
    by_size = [
        {"topic": topic, "codec": codec, "bucket": bucket, "batches": int(count),
         "bytes": int(total)}
        for (topic, codec, bucket), (count, total) in sorted(sizes.items())
    ]  # fmt: skip
    by_lag = [
        {"topic": topic, "bucket_ms": bucket, "batches": count, "max_ms": most}
        for (topic, bucket), (count, most) in sorted(lags.items())
    ]
    return by_size, by_lag


def _size_rows(table: BatchTable) -> Iterator[tuple[str, int, Numbers]]:
    """Codec, bucket (a power of two) and the pair of batches and bytes, one per group."""
    codecs = table.column("attributes") & _CODEC_BITS
    bits = np.frexp(table.sizes.astype(np.float64))[1] - 1
    groups, inverse = np.unique(codecs << 32 | bits, return_inverse=True)
    counts = np.bincount(inverse)
    totals = np.zeros(len(groups), np.int64)
    np.add.at(totals, inverse, table.sizes)
    for group, count, total in zip(groups.tolist(), counts, totals, strict=True):
        codec = group >> 32
        name = Codec(codec).name.lower() if codec <= Codec.ZSTD else "?"
        yield name, 1 << (group & 0xFFFFFFFF), np.array([count, total])


def _decade(lag: Numbers) -> Numbers:
    """The power of ten at or below each number; 0 for 0."""
    powers = 10 ** np.arange(19, dtype=np.int64)
    return np.where(lag > 0, powers[np.searchsorted(powers, lag, "right") - 1], 0)


def _headers(partition: PartitionFiles) -> Iterator[BatchTable]:
    for file in partition.segments:
        with open_segment(file.path) as descriptor:
            for table in scan(descriptor, 0, file.size, frozen_size=file.size, validate="header",
                              is_last=file.is_last):  # fmt: skip
                if len(table):
                    yield table


def _compaction(inputs: Sequence[str], session: Callable[[], Any] | None) -> list[Row]:
    partitions = known_partitions(data_partitions(tuple(inputs)))
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    rows = []
    for one in partitions:
        large = sum(file.size for file in one.segments) >= SPARK_BYTES_MIN
        if large and session is not None:
            rows += _planned_by_spark(one, now_ms, session()).rows
        else:
            rows += plan_one(one, now_ms, []).rows
    return [msgspec.structs.asdict(row) for row in rows]


def _planned_by_spark(copy: PartitionFiles, now_ms: int, spark: Any) -> PartitionPlan:
    from pipeline.sources.compaction_tasks import plan_by_spark  # noqa: PLC0415  # needs pyspark

    return plan_by_spark([copy], now_ms, [], spark)[0]


def _tiles(facts: Facts) -> str:
    return tiles(
        (
            ("partitions now", str(facts.partitions), False),
            ("changes of leaders", str(facts.changes), False),
            ("unclean elections", str(facts.unclean), facts.unclean > 0),
            ("without leader now", str(facts.offline), facts.offline > 0),
            ("under-replicated now", str(facts.under_replicated), facts.under_replicated > 0),
            ("damaged places left out", str(facts.damaged), facts.damaged > 0),
            ("offsets covered", f"{facts.start_offset} to {facts.end_offset}", False),
        )
    )


def damage_section(root: str, damaged: int) -> str:
    """The damage that the last run read around or left out, and what is lost; empty without any."""
    lines = json.loads(Path(root, RUN_NAME).read_text()).get("bypassed", [])
    if not lines and not damaged:
        return ""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    rows = "".join(
        f"<tr><td>{escape(row['path'])}</td><td>{row['position']}</td><td>{row['offset']}</td>"
        f"<td>{escape(row['reason'])}</td><td>{escape(row['detail'])}</td></tr>"
        for row in history_figures.damaged_places(root)
    )
    table = (
        "<div class=scroll><table><tr><th>file</th><th>position</th><th>offset</th><th>reason</th>"
        f"<th>detail</th></tr>{rows}</table></div>"
        if rows
        else ""
    )
    lost = (
        f"<p>{damaged} damaged places of the log are in no other copy and left out: states may be"
        " missing or last too long.</p>"
        if damaged
        else "<p>Nothing is lost: something else held the same, or a node cuts it too.</p>"
    )
    return (
        f'<section id="damage"><h2>Damage in what was read</h2>{lost}<ul>{items}</ul>{table}'
        "</section>"
    )


def _page(
    facts: Facts, drawn: list[pictures.Picture], changes: list[Row], folder: Path,
    notes: dict[str, str], damage: str,
) -> str:  # fmt: skip
    sections = "".join(section(one, folder, notes.get(one.name, "")) for one in drawn)
    has_times = facts.begin is not None
    span = f"{when(facts.begin)} to {when(facts.end)}" if has_times else "an empty log"
    return page(
        "Metadata history", "History of the cluster's metadata", span,
        f"{_tiles(facts)}{damage}{_table(changes, facts.changes)}{sections}"
        "<h2>Who led a partition, and why?</h2><p>Ask the tables this page was made of:</p>"
        "<pre>scripts/pipeline history --input HISTORY --who-led orders-3"
        " --at 2026-11-17T14:07</pre>",
    )  # fmt: skip


def _table(changes: list[Row], count: int) -> str:
    columns = ("time (UTC)", "offset", "partition", "from", "to", "leader epoch", "why",
               "without leader for")  # fmt: skip
    rows = (
        (row["kind"], (
            when(row["ts"]), str(row["offset"]), f"{row['topic']}-{row['partition']}",
            _broker(row["from"]), _broker(row["to"]), str(row["epoch"]), _WORDS[row["kind"]],
            _duration(row["ms_without_leader"]),
        ))
        for row in reversed(changes)
    )  # fmt: skip
    return (
        f"<h2>Changes of leaders</h2><p>The newest first, {len(changes)} of {count}.</p>"
        + scrolling_table("changes", columns, rows)
    )


def _duration(milliseconds: int | None) -> str:
    return "" if milliseconds is None else pictures.milliseconds(milliseconds)


def _broker(number: int) -> str:
    return f"broker {number}" if number >= 0 else "nobody"
