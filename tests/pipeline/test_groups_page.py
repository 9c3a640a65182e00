"""The page of groups from rows written by hand: each cell, and the order of the rows."""

import re
from html import unescape
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pipeline import pictures
from pipeline.core.groups import tables
from pipeline.jobs.groups.page import ROWS_MAX, write_page
from pipeline.jobs.job import JobResult

T = 1_700_000_000_000
WHEN = "Tue 2023-11-14 22:13:20"
Cells = list[tuple[str, list[str]]]


def group(name: str, **more: Any) -> tables.Row:
    row = dict.fromkeys(tables.GROUPS.names)
    known = {"group_id": name, "state": "Stable", "members": 1, "committed_partitions": 2}
    return row | known | more


def sample(name: str, low: int, high: int, time: int = T, partition: int = 0) -> tables.Row:
    row = dict.fromkeys(tables.LAG.names)
    return row | {"group_id": name, "ts": time, "lag_min": low, "lag_max": high,
                  "point": "sample", "partition": partition}  # fmt: skip


def rebalance(name: str, **more: Any) -> tables.Row:
    row = dict.fromkeys(tables.REBALANCES.names)
    known = {"group_id": name, "epoch": 1, "ts": T, "members": 2, "joined": ["b", "a"],
             "departed": ["c"], "settled_offset": 5, "settled_ts": T + 1500}  # fmt: skip
    return row | known | more


def opened(verdict: str, **more: Any) -> tables.Row:
    row = dict.fromkeys(tables.OPEN_TRANSACTIONS.names)
    return row | {"verdict": verdict, "producer_id": 7, "producer_epoch": 1} | more


def write(root: Path, **rows: list[tables.Row]) -> str:
    schemas = {"groups": tables.GROUPS, "lag": tables.LAG, "rebalances": tables.REBALANCES,
               "open_transactions": tables.OPEN_TRANSACTIONS}  # fmt: skip
    for name, schema in schemas.items():
        (root / name).mkdir(parents=True)
        made = tables.table_of(rows.get(name, []), schema)
        pq.write_table(made, root / name / "part-0.parquet")
    counters = {"refused": 2, "damaged": 3, "undeclared": 9}
    result = JobResult(tables={"commits": 11, "rebalances": 12}, counters=counters)
    write_page(root, root / "page", result, T)
    return (root / "page" / "index.html").read_text()


def cells(text: str, table: str) -> Cells:
    part = text.partition(f"<table id={table}>")[2].partition("</table>")[0]
    found = re.findall(r'<tr class="([^"]*)">(.*?)</tr>', part)
    return [
        (style, [unescape(cell) for cell in re.findall("<td>(.*?)</td>", row)])
        for style, row in found
    ]


def test_groups_with_most_lag_come_first(tmp_path: Path) -> None:
    text = write(
        tmp_path,
        groups=[group("none", state="Dead", members=0), group("b", protocol="classic", epoch=3),
                group("zero"), group("a", last_commit_ts=T)],
        lag=[sample("b", 3, 9, time=T - 1), sample("b", 5, 5), sample("a", 3, 4),
             sample("a", 0, 5, partition=1), sample("zero", 0, 0),
             sample("none", 7, 7) | {"point": "commit"}],
    )  # fmt: skip
    assert cells(text, "groups") == [
        ("", ["a", "Stable", "", "", "1", "2", "3 to 9", WHEN]),
        ("", ["b", "Stable", "classic", "3", "1", "2", "5", ""]),
        ("", ["zero", "Stable", "", "", "1", "2", "0", ""]),
        ("", ["none", "Dead", "", "", "0", "2", "", ""]),
    ]
    assert f"{WHEN[:-2]}19 to {WHEN}" in text
    assert "4 of 4" in text


def test_rebalances_come_newest_first(tmp_path: Path) -> None:
    text = write(
        tmp_path,
        rebalances=[rebalance("old", ts=T - 1000), rebalance("never", settled_offset=None),
                    rebalance("soon", ts=T + 1000), rebalance("timeless", ts=None),
                    rebalance("unknown", ts=T + 2000, settled_ts=None)],
    )  # fmt: skip
    rows = {row[1]: row[6] for _, row in cells(text, "rebalances")}
    assert rows == {"unknown": "unknown", "soon": "500 ms", "never": "never", "old": "2.5 s",
                    "timeless": "unknown"}  # fmt: skip
    assert list(rows)[:4] == ["unknown", "soon", "never", "old"]
    first = cells(text, "rebalances")[2][1]
    assert first[:6] == [WHEN, "never", "1", "2", "b, a", "c"]


def test_transactions_about_which_somebody_must_do_something_come_first(tmp_path: Path) -> None:
    in_log = {"topic": "orders", "partition": 3, "first_offset": 40, "open_ms": 1500}
    text = write(
        tmp_path,
        open_transactions=[opened("accounted", **in_log, transactional_id="tx"), opened("recent"),
                           opened("hanging", **in_log), opened("overdue", state="Ongoing")],
    )  # fmt: skip
    hanging = "its coordinator does not know it: nobody will end it"
    assert cells(text, "transactions") == [
        ("bad", ["", "7 (1)", "orders-3", "40", "", "1.5 s", hanging]),
        ("bad", ["", "7 (1)", "", "", "Ongoing", "",
                 "longer than its time-out: its coordinator should have aborted it"]),
        ("", ["", "7 (1)", "", "", "", "",
              "its coordinator does not know it; not older than the longest time-out"]),
        ("", ["tx", "7 (1)", "orders-3", "40", "", "1.5 s", "its coordinator knows it"]),
    ]  # fmt: skip
    assert f"At {WHEN}, 4 of 4." in text


@pytest.mark.parametrize("is_bad", [True, False])
def test_figures(tmp_path: Path, is_bad: bool) -> None:
    text = write(
        tmp_path,
        groups=[group("a", members=2), group("b"), group("c", state="Dead", members=4)],
        open_transactions=[opened("hanging" if is_bad else "recent"), opened("accounted")],
    )
    shown = re.findall(r'<li class="(.*?)"><b>(.*?)</b>(.*?)</li>', text)
    assert shown == [
        ("", "2", "groups now"), ("", "3", "members now"), ("", "11", "commits"),
        ("", "12", "rebalances"),
        ("bad", "1", "hanging transactions") if is_bad else ("", "0", "hanging transactions"),
        ("bad", "5", "records not readable"),
        ("", "9", "records of share and streams groups"),
    ]  # fmt: skip


def test_long_tables_are_cut(tmp_path: Path) -> None:
    count = ROWS_MAX + 1
    text = write(
        tmp_path,
        groups=[group(f"{n:03}") for n in range(count)],
        rebalances=[rebalance("g")] * count,
        open_transactions=[opened("recent")] * count,
    )
    for table in ("groups", "rebalances", "transactions"):
        assert len(cells(text, table)) == ROWS_MAX
    assert text.count(f"{ROWS_MAX} of {count}") == 3


def test_the_picture_has_the_groups_with_most_lag_and_the_sum_of_the_others(
    tmp_path: Path,
) -> None:
    lag = [sample(f"g{n}", n, 2 * n, time=T + at) for at in (1000, 0) for n in range(9)]
    write(tmp_path, lag=lag)
    lines = (tmp_path / "page" / "lag.csv").read_text().splitlines()
    assert lines[0] == "group_id,ts,lag_min,lag_max"
    assert len(lines) == 1 + 2 * 8
    rows = [line.split(",") for line in lines[1:]]
    assert [row[1] for row in rows] == sorted(row[1] for row in rows)
    found = {row[0]: (row[2], row[3]) for row in rows[:8]}
    assert found == {"(others)": ("1", "2")} | {f"g{n}": (str(n), str(2 * n)) for n in range(2, 9)}


def test_eight_groups_are_all_shown(tmp_path: Path) -> None:
    write(tmp_path, lag=[sample(f"g{n}", 0, 1) for n in range(8)])
    lines = (tmp_path / "page" / "lag.csv").read_text().splitlines()
    assert {line.partition(",")[0] for line in lines[1:]} == {f"g{n}" for n in range(8)}


def test_the_picture_names_groups_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Matplotlib leaves out a label with an underscore in front, and reads formulas in dollars."""
    figures: list[Any] = []
    monkeypatch.setattr(pictures.plt, "close", figures.append)
    names = ["_confluent", r"$\no-formula$"]
    write(tmp_path, lag=[sample(name, 0, 1) for name in names])
    monkeypatch.undo()
    legend = figures[0].axes[0].get_legend()
    pictures.plt.close(figures[0])
    assert {text.get_text() for text in legend.get_texts()} == set(names)
