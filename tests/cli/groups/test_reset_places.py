"""Times, durations and plans that offsets are reset to, as Kafka's tool reads them."""

from pathlib import Path

import pytest

from cli.groups.reset_places import (
    PlaceError,
    csv_lines,
    duration_ms,
    plan_of_file,
    time_ms,
)
from cli.records.clients.topic_metadata import Partition

DAY_MS = 24 * 3600 * 1000


@pytest.mark.parametrize(
    ("text", "ms"),
    [("1970-01-01T00:00:00.000", 0), ("1970-01-02T00:00:00.000Z", DAY_MS),
     ("1970-01-01T00:00:01.5", 1005), ("1970-01-01T00:00:00.999", 999),
     ("1970-01-01T02:00:00.000+02:00", 0), ("1970-01-01T02:30:00.000+0230", 0),
     ("1969-12-31T22:00:00.001-02", 1), ("1969-12-31T23:59:59.999", -1),
     ("1970-1-2T3:4:5.006", DAY_MS + 3 * 3_600_000 + 4 * 60_000 + 5006),
     ("2020-02-29T12:00:00.000", 1_582_977_600_000)],
)  # fmt: skip
def test_times(text: str, ms: int) -> None:
    assert time_ms(text) == ms


@pytest.mark.parametrize("text", ["", "yesterday", "2020-01-01", "T", "2020-01-01T", "T10:00"])
def test_times_without_both_parts(text: str) -> None:
    with pytest.raises(PlaceError, match="It does not contain a 'T' according to ISO8601 format"):
        time_ms(text)


@pytest.mark.parametrize(
    "text",
    ["2020-01-01T00:00", "2020-13-01T00:00:00.000", "2020-02-30T00:00:00.000", "xT1",
     "2020-01-01T24:00:00.000", "2020-01-01T00:00:00.0000", "2020-01-01T00:00:00.000+24:00",
     "2020-01-01T00:00:00.000+2", "0000-01-01T00:00:00.000", "2020-01-01T00:00:00.000Zx"],
)  # fmt: skip
def test_times_that_there_are_not(text: str) -> None:
    with pytest.raises(PlaceError, match=r'java\.text\.ParseException: Unparseable date: "'):
        time_ms(text)


@pytest.mark.parametrize(
    ("text", "ms"),
    [("PT10M", 600_000), ("P2D", 2 * DAY_MS), ("P1DT2H3M4.5S", DAY_MS + 7_384_500),
     ("-PT1S", -1000), ("PT-1S", -1000), ("-PT-1.25S", 1250), ("pt1h", 3_600_000),
     ("PT0.000001S", 0), ("PT1,5S", 1500), ("PT1.S", 1000), ("P-1DT1H", 3_600_000 - DAY_MS),
     ("PT+7M", 420_000), ("P0D", 0), ("PT-0.5S", -500)],
)  # fmt: skip
def test_durations(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


@pytest.mark.parametrize(
    "text",
    ["", "10 minutes", "P", "PT", "P1DT", "1D", "PT1D", "P1H", "PTM", "PT1.5M", "P1W",
     "PT1S1M", "PT1.0000000001S", "P" + "9" * 19 + "D"],
)  # fmt: skip
def test_texts_that_are_no_durations(text: str) -> None:
    with pytest.raises(PlaceError, match="Text cannot be parsed to a Duration"):
        duration_ms(text)


def plan(folder: Path, text: str, *groups: str) -> dict[str, dict[Partition, int]]:
    (folder / "plan.csv").write_text(text)
    return plan_of_file(str(folder / "plan.csv"), groups)


def test_a_plan_of_one_group_has_no_name_of_it(tmp_path: Path) -> None:
    expected = {"g": {Partition("t", 0): 5, Partition("u", 1): 2**63 - 1}}
    assert plan(tmp_path, f"t,0,5\nu,1,{2**63 - 1}\n", "g") == expected


def test_a_plan_with_names(tmp_path: Path) -> None:
    expected = {"g": {Partition("t", 0): 5}, "h,1": {Partition("t", 2**31 - 1): 6}}
    text = f'g,t,0,5\n"h,1",t, {2**31 - 1} ,6\n'
    assert plan(tmp_path, text, "g") == expected
    assert plan(tmp_path, text, "g", "h") == expected
    assert plan(tmp_path, text) == expected
    assert plan(tmp_path, "", "g") == {}


@pytest.mark.parametrize(
    ("text", "groups", "said"),
    [("t,0", ["g"], "line 1 is not group,topic,partition,offset"),
     ("t,0,1\nt,0", ["g"], "line 2 is not topic,partition,offset"),
     ("t,0,1", ["g", "h"], "line 1 is not group,topic,partition,offset"),
     ("t,0,1", [], "line 1 is not group,topic,partition,offset"),
     ("t,x,1", ["g"], "line 1 is not topic,partition,offset"),
     ("t,0,-1", ["g"], "line 1 is not topic,partition,offset"),
     ("t,0,\u0661", ["g"], "line 1 is not topic,partition,offset"),
     (f"t,{2**31},1", ["g"], "line 1 is not topic,partition,offset"),
     (f"t,0,{2**63}", ["g"], "line 1 is not topic,partition,offset"),
     ("t,0," + "9" * 5000, ["g"], "line 1 is not topic,partition,offset"),
     ("g,t,0,1\n\ng,t,1,1", ["g"], "line 2 is not group,topic,partition,offset")],
)  # fmt: skip
def test_plans_that_are_refused(tmp_path: Path, text: str, groups: list[str], said: str) -> None:
    with pytest.raises(PlaceError, match=said):
        plan(tmp_path, text, *groups)


def test_a_plan_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff")
    for name in ("missing", "binary", "a\0b"):
        with pytest.raises(PlaceError, match="Unable to read file"):
            plan_of_file(str(tmp_path / name), ["g"])


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    offsets = {"g": {Partition("t", 0): 5}, 'h"x,': {Partition("u", 7): 0}}
    assert plan(tmp_path, csv_lines(offsets, has_group=True), "g", "h") == offsets
    assert csv_lines({"g": offsets["g"]}, has_group=False) == "t,0,5\n"
