"""Pictures of a history and of logs: a PNG each, with the CSV of its data beside it.

Every function takes plain rows, writes NAME.png and NAME.csv into a folder and returns a `Picture`.
A CSV has at most 20,000 lines: longer data is summed up, the smallest topics as `(others)`.
"""

import csv
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
import msgspec

mpl.use("Agg")

import matplotlib.dates as mdates
import matplotlib.pyplot as plt
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgba
from matplotlib.patches import Rectangle
from matplotlib.ticker import MultipleLocator

POINTS_MAX: Final = 20_000
LANES_MAX: Final = 20  # partitions in the timeline
_NOBODY: Final = "#d62728"
_GREY: Final = "#d9d9d9"
_WIDTH: Final = 11.0
_ALL_IN_SYNC: Final = "#2ca02c"
# red and green have a meaning; colours that look like red are last
_COLOURS: Final = ("#1f77b4", "#ff7f0e", "#9467bd", "#17becf", "#bcbd22", "#393b79", "#7f7f7f",
                   "#e377c2", "#637939", "#8c564b")  # fmt: skip
Row = dict[str, Any]
Measures = dict[str, Callable[[list[Any]], Any]]


class Picture(msgspec.Struct, frozen=True):
    """A picture in the folder, and the text for its reader."""

    name: str
    title: str
    text: str
    is_empty: bool


def leader_timeline(rows: Sequence[Row], folder: Path, end: datetime | None) -> Picture:
    """Draw the leader of each partition over time, and its replicas in sync.

    Args:
        rows: rows of `history.figures.busiest_states`.
        folder: folder for the files.
        end: the time at which open intervals are drawn to end.
    """
    keys = sorted({(row["topic"], row["partition"]) for row in rows})
    lanes = {key: lane for lane, key in enumerate(keys)}
    columns = ("topic", "partition", "leader", "leader_epoch", "isr", "replicas",
               "valid_from_ts", "valid_to_ts", "valid_from_offset", "states")  # fmt: skip
    figure, axes = plt.subplots(figsize=(_WIDTH, 1.6 + 0.42 * max(1, len(lanes))))
    leaders = sorted({row["leader"] for row in rows if row["leader"] >= 0})
    colours = {leader: _COLOURS[i % len(_COLOURS)] for i, leader in enumerate(leaders)}
    bars = _Bars()
    for row in rows:
        lane = lanes[row["topic"], row["partition"]]
        start = row["valid_from_ts"]
        stop = row["valid_to_ts"] or end
        if start is None or stop is None or stop <= start:
            continue
        place = _day(start), _day(stop)
        bars.add(lane - 0.25, lane + 0.25, place, colours.get(row["leader"], _NOBODY))
        missing = len(row["replicas"]) - len(row["isr"])
        share = max(0.35, missing / max(1, len(row["replicas"]))) if missing else 1.0
        bars.add(lane + 0.28, lane + 0.44, place, _NOBODY if missing else _ALL_IN_SYNC, share)
    bars.draw(axes)
    axes.set_yticks(list(lanes.values()), [f"{topic}-{number}" for topic, number in lanes])
    axes.invert_yaxis()
    _time_axis(axes)
    handles = [Rectangle((0, 0), 1, 1, color=colours[one]) for one in leaders]
    labels = [f"broker {one}" for one in leaders]
    for colour, label in ((_NOBODY, "no leader"), (_ALL_IN_SYNC, "line: all replicas in sync"),
                          (_NOBODY, "line: replicas missing")):  # fmt: skip
        handles.append(Rectangle((0, 0), 1, 0.4 if label.startswith("line") else 1, color=colour))
        labels.append(label)
    axes.legend(handles, labels, loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8)
    return _saved(
        figure, folder, ("leaders", "Leaders and replicas in sync",
        ("Each wide bar is a partition, its colour the broker that led. The thin line below it is"
        " green while all replicas were in sync and red while some were missing, the darker the"
        " more. Where there is no bar the partition did not exist. Shown are the"
        f" {LANES_MAX} partitions that changed most. Where a partition changed very often, the bar"
        " has the colour of the longest of several states.")),
        columns, rows,
    )  # fmt: skip


LEVELS: Final = {
    "under_replicated": "replicas missing",
    "below_min_isr": "below min.insync.replicas",
    "offline": "no leader",
}
_LEVEL_COLOURS: Final = ("#fdd0a2", "#fd8d3c", "#b3131b")


def under_replication(
    points: Sequence[Row], folder: Path, begin: datetime | None, end: datetime | None
) -> Picture:
    """Draw the numbers of partitions with missing replicas, below min ISR, and without leader.

    Args:
        points: points of `history.figures.levels`.
        folder: folder for the files.
        begin: begin of the time axis, None for the first point.
        end: end of the time axis, None for the last point.
    """
    figure, axes = plt.subplots(figsize=(_WIDTH, 3.2))
    times = [point["ts"] for point in points]
    for (name, label), colour in zip(LEVELS.items(), _LEVEL_COLOURS, strict=True):
        values = [point[name] for point in points]
        axes.fill_between(times, values, step="post", color=colour, linewidth=0, label=label)
    axes.set_ylabel("partitions")
    axes.set_ylim(0, 1.1 * max((point[name] for point in points for name in LEVELS), default=1))
    if begin is not None and end is not None and begin < end:
        axes.set_xlim(left=_day(begin), right=_day(end))
    _time_axis(axes)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8)
    return _saved(
        figure, folder, ("under_replication", "Under-replicated partitions",
        ("How many partitions had fewer replicas in sync than they should (pale), too few to accept"
        " writes with acks=all (orange), or nobody to lead them (red).")),
        ("ts", *LEVELS), points,
    )  # fmt: skip


def group_lag(rows: Sequence[Row], folder: Path) -> Picture:
    """Draw the lag of groups over time, the largest ones and the sum of the others.

    Args:
        rows: group_id, ts, lag_min, lag_max, ascending by ts; a group has one row for an instant.
        folder: folder for the files.
    """
    most: dict[str, int] = {}
    for row in rows:
        most[row["group_id"]] = max(row["lag_max"], most.get(row["group_id"], 0))
    ordered = sorted(most, key=lambda name: (-most[name], name))
    shown = ordered if len(ordered) <= _GROUPS_MAX else ordered[: _GROUPS_MAX - 1]
    named = [row if row["group_id"] in shown else row | {"group_id": "(others)"} for row in rows]
    points = _summed(named, ("group_id", "ts"), {"lag_min": sum, "lag_max": sum})
    points.sort(key=lambda row: row["ts"])
    figure, axes = plt.subplots(figsize=(_WIDTH, 3.8))
    lines, names = [], list(dict.fromkeys([*shown, *(row["group_id"] for row in points)]))
    for index, name in enumerate(names):
        mine = [row for row in points if row["group_id"] == name]
        times, colour = [row["ts"] for row in mine], _COLOURS[index % len(_COLOURS)]
        lows, highs = ([row[key] for row in mine] for key in ("lag_min", "lag_max"))
        axes.fill_between(times, lows, highs, step="post", color=colour, alpha=0.2, linewidth=0)
        lines += axes.step(times, highs, where="post", color=colour, linewidth=1.3)
    axes.set_ylabel("records not yet committed")
    axes.set_ylim(bottom=0)
    if points:
        _time_axis(axes)
        # given as lists: a label with an underscore in front would be left out
        legend = axes.legend(lines, names, loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8)
        for text in legend.get_texts():
            text.set_parse_math(False)  # a name with two dollars is no formula
    return _saved(
        figure, folder, ("lag", "Lag of groups",
        ("How many records of all its partitions a group had not committed. The line is the most it"
         " can have been, the shade reaches down to the least: where a producer stamped the"
         " batches, its stamp does not say when they arrived.")),
        ("group_id", "ts", "lag_min", "lag_max"), points,
    )  # fmt: skip


def batch_sizes(rows: Sequence[Row], folder: Path) -> Picture:
    """Draw batches by size: rows of topic, codec, bucket (a power of two), batches, bytes."""
    figure, axes = plt.subplots(figsize=(_WIDTH, 3.4))
    buckets = _unbroken({row["bucket"] for row in rows}, 2)
    groups = _largest_groups(rows, "batches")
    floor = [0.0] * len(buckets)
    bars = []
    for index, group in enumerate(groups):
        counts = [
            sum(
                row["batches"]
                for row in rows
                if row["bucket"] == one and _group(row, groups) == group
            )
            for one in buckets
        ]
        bars.append(
            axes.bar(range(len(buckets)), counts, bottom=floor,
                     color=_COLOURS[index % len(_COLOURS)])
        )  # fmt: skip
        floor = [a + b for a, b in zip(floor, counts, strict=True)]
    axes.set_xticks(range(len(buckets)), [_bytes(one) for one in buckets])
    axes.set_xlabel("size of a batch, from this size to twice of it")
    axes.set_ylabel("batches")
    axes.set_ylim(0, 1.1 * max(floor, default=1.0))
    if groups:  # given as lists: a label with an underscore in front would be left out
        axes.legend(bars, groups, loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8)
    return _saved(
        figure, folder, ("batch_sizes", "Sizes of batches",
        ("How large the batches in the logs are, by topic and compression. Many small batches cost"
        " more than few large ones: each has a header of 61 bytes and is handled on its own.")),
        ("topic", "codec", "bucket", "batches", "bytes"),
        _fewer(rows, ("codec", "bucket"), {"batches": sum, "bytes": sum}),
    )  # fmt: skip


def append_lag(rows: Sequence[Row], folder: Path) -> Picture:
    """Draw batches by lag behind the newest time: rows of topic, bucket_ms, batches, max_ms."""
    figure, axes = plt.subplots(figsize=(_WIDTH, 3.2))
    buckets = _unbroken({row["bucket_ms"] for row in rows}, 10)
    counts = [sum(r["batches"] for r in rows if r["bucket_ms"] == one) for one in buckets]
    axes.bar(range(len(buckets)), counts, color="#1f77b4")
    axes.set_xticks(range(len(buckets)), [milliseconds(one) for one in buckets])
    axes.set_yscale("symlog")
    axes.set_ylim(0, 3 * max(counts, default=1))
    axes.set_xlabel("how far behind, from this to ten times of it")
    axes.set_ylabel("batches")
    return _saved(
        figure, folder, ("append_lag", "Append lag",
        ("How far the newest record of a batch lies behind the newest one already in the log."
        " Zero is in order. Much lag means late producers or clocks that disagree; in the metadata"
        " log, a new controller whose clock runs behind.")),
        ("topic", "bucket_ms", "batches", "max_ms"),
        _fewer(rows, ("bucket_ms",), {"batches": sum, "max_ms": max}),
    )  # fmt: skip


def compaction_picture(rows: Sequence[Row], folder: Path) -> Picture:
    """Draw bytes before and after cleaning per partition: rows of a compaction plan."""
    totals: dict[str, list[int]] = {}
    for row in rows:
        known = totals.setdefault(f"{row['topic']}-{row['partition']}", [0, 0])
        known[0] += row["bytes_before"]
        known[1] += row["bytes_after"]
    largest = sorted(totals.items(), key=lambda item: item[1][1] - item[1][0])[:LANES_MAX]
    figure, axes = plt.subplots(figsize=(_WIDTH, 1.4 + 0.4 * max(1, len(largest))))
    for lane, (_, (before, after)) in enumerate(largest):
        axes.barh(lane, before, height=0.6, color=_GREY)
        axes.barh(lane, after, height=0.6, color="#1f77b4")
        saved = 100 * (1 - after / before) if before else 0
        axes.text(before, lane, f"  {saved:.0f} % of {_bytes(before)}", va="center", fontsize=8)
    axes.set_yticks(range(len(largest)), [name for name, _ in largest])
    axes.set_ylim(max(1, len(largest)) - 0.4, -0.6)
    axes.margins(x=0.2)
    widest = max((before for _, (before, _) in largest), default=1)
    axes.xaxis.set_major_locator(MultipleLocator(1 << max(0, (widest // 4).bit_length() - 1)))
    axes.xaxis.set_major_formatter(lambda value, _: _bytes(value))
    columns = ("topic", "partition", "node_id", "segment", "bytes_before", "bytes_after",
               "records_before", "records_after", "action")  # fmt: skip
    measures: Measures = dict.fromkeys(columns[4:8], sum)
    if len(rows) > POINTS_MAX:
        rows = _summed(rows, ("topic", "partition", "node_id", "action"), measures)
    return _saved(
        figure, folder, ("compaction", "What compaction would free",
        ("Grey is what a compacted partition holds on disk, blue what is left after cleaning; the"
        " percentage is what would be freed.")),
        columns, _fewer(rows, ("node_id", "action"), measures),
    )  # fmt: skip


def _unbroken(buckets: set[int], factor: int) -> list[int]:
    """All buckets from the smallest to the largest, empty ones included; 0 comes first."""
    positive = sorted(buckets - {0})
    found = [0] if 0 in buckets else []
    one = positive[0] if positive else 0
    while positive and one <= positive[-1]:
        found.append(one)
        one *= factor
    return found


class _Bars:
    """Rectangles drawn as one collection: a patch for each takes a millisecond."""

    def __init__(self) -> None:
        self._corners: list[list[tuple[float, float]]] = []
        self._colours: list[Any] = []

    def add(
        self, low: float, high: float, place: tuple[float, float], colour: str, alpha: float = 1.0
    ) -> None:
        """Add one from `low` to `high`, and from left to right as in `place`."""
        left, right = place
        self._corners.append([(left, low), (right, low), (right, high), (left, high)])
        self._colours.append(to_rgba(colour, alpha))

    def draw(self, axes: Any) -> None:
        """Draw all and let the axes fit them."""
        if self._corners:
            axes.add_collection(
                PolyCollection(self._corners, facecolors=self._colours, edgecolors="white",
                               linewidths=0.3)
            )  # fmt: skip
            axes.autoscale_view()


def _fewer(rows: Sequence[Row], keys: Sequence[str], measures: Measures) -> Sequence[Row]:
    """Rows that fit a CSV: topics with the least of the first measure are summed as `(others)`."""
    if len(rows) <= POINTS_MAX:
        return rows
    first = next(iter(measures))
    weights: dict[str, int] = {}
    counts: dict[str, int] = {}
    for row in rows:
        weights[row["topic"]] = weights.get(row["topic"], 0) + row[first]
        counts[row["topic"]] = counts.get(row["topic"], 0) + 1
    room, kept = POINTS_MAX // 2, set()
    for topic in sorted(weights, key=lambda topic: (-weights[topic], topic)):
        if counts[topic] <= room:
            room -= counts[topic]
            kept.add(topic)
    found = [row for row in rows if row["topic"] in kept]
    others = _summed([row for row in rows if row["topic"] not in kept], keys, measures)
    return [*found, *({"topic": "(others)"} | row for row in others)]


def _summed(rows: Sequence[Row], keys: Sequence[str], measures: Measures) -> list[Row]:
    """Sum the measures, a row per distinct keys."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return [
        dict(zip(keys, group, strict=True))
        | {name: put([row[name] for row in members]) for name, put in measures.items()}
        for group, members in groups.items()
    ]


def _largest_groups(rows: Sequence[Row], measure: str) -> list[str]:
    sums: dict[str, int] = {}
    for row in rows:
        name = _name(row)
        sums[name] = sums.get(name, 0) + row[measure]
    ordered = sorted(sums, key=lambda name: -sums[name])
    return ordered if len(ordered) <= _GROUPS_MAX else [*ordered[: _GROUPS_MAX - 1], _OTHERS]


_GROUPS_MAX: Final = 8
_OTHERS: Final = "others"


def _name(row: Row) -> str:
    return f"{row['topic']} ({row['codec']})"


def _group(row: Row, groups: Sequence[str]) -> str:
    name = _name(row)
    return name if name in groups else _OTHERS


def _day(moment: datetime) -> float:
    dates: Any = mdates  # its functions have no types
    return float(dates.date2num(moment))


def _time_axis(axes: Any) -> None:
    axes.xaxis_date(tz="UTC")
    dates: Any = mdates  # its functions have no types
    locator = dates.AutoDateLocator(tz="UTC")
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, tz="UTC"))
    axes.set_xlabel("time (UTC)")


def _saved(
    figure: Any, folder: Path, words: tuple[str, str, str], columns: Sequence[str],
    rows: Sequence[Row],
) -> Picture:  # fmt: skip
    """Write PNG and CSV; the words are name, title and text."""
    name, title, text = words
    assert len(rows) <= POINTS_MAX, (name, len(rows))
    if not rows:
        figure.clf()
        figure.set_size_inches(_WIDTH, 1.2)
        axes = figure.add_subplot()
        axes.set_axis_off()
        axes.text(0.5, 0.5, "nothing to show", ha="center", va="center", color="grey")
    figure.savefig(folder / f"{name}.png", dpi=110, bbox_inches="tight")
    plt.close(figure)
    with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows({key: _cell(row.get(key)) for key in columns} for row in rows)
    return Picture(name, title, text, not rows)


def _cell(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return " ".join(map(str, value)) if isinstance(value, list) else value


def _scaled(steps: Sequence[tuple[int, str]]) -> Callable[[float], str]:
    def text(value: float) -> str:
        for size, unit in steps:
            if value >= size:
                shown = value / size
                return f"{shown:.3g} {unit}" if shown < 1000 else f"{shown:.0f} {unit}"
        return f"{value:.0f} {steps[-1][1]}"

    return text


_bytes = _scaled(((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B")))
milliseconds = _scaled(
    ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"), (1, "ms"))
)
