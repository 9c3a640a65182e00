"""A growing export as a Delta table: each record once, by the table's own transactions."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipeline.cli import main
from pipeline.core.records.schema import schema_of
from tests.peers import is_missing
from tests.pipeline.segments import batch, write_partition
from tests.pipeline.test_export_append import (
    FLAGS,
    OTHER_ID,
    append,
    here,
    write_cluster_id,
    write_log,
)

__all__ = ["here"]
ROOT = Path(__file__).resolve().parent.parent.parent
DELTA = ["--format", "delta"]


@pytest.fixture(autouse=True)
def _deltalake() -> None:
    if importlib.util.find_spec("deltalake") is None:
        is_missing("the extra delta")


def table(out: Path = Path("out"), version: int | None = None) -> Any:
    from deltalake import DeltaTable

    return DeltaTable(str(out), version=version)


def rows(out: Path = Path("out"), version: int | None = None) -> list[dict[str, Any]]:
    found = pa.table(table(out, version).scan()).to_pylist()
    return sorted(found, key=lambda row: (row["topic"], row["partition"], row["offset"]))


def offsets(out: Path = Path("out"), version: int | None = None) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for row in rows(out, version):
        found.setdefault(f"{row['topic']}-{row['partition']}", []).append(row["offset"])
    return found


def data_files(out: Path) -> set[str]:
    return {str(path.relative_to(out)) for path in out.rglob("topic=*/**/*.parquet")}


def refused(capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    capsys.readouterr()
    before = table().version() if Path("out/_delta_log").exists() else None
    assert append(*DELTA, *flags) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert before is None or table().version() == before
    return line.removeprefix("pipeline export: ")


def test_each_run_is_one_commit_of_what_is_new(here: Path, capsys) -> None:
    write_log(0, 2)
    assert append(*DELTA) == 0
    write_log(0, 3)
    write_log(0, 2, "other-7")
    capsys.readouterr()
    assert append(*DELTA, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert append(*DELTA) == 0  # nothing is new: no commit
    assert table().version() == 1
    assert offsets() == {"orders-0": [0, 1, 2], "other-7": [0, 1]}
    assert offsets(version=0) == {"orders-0": [0, 1]}
    assert printed["tables"] == {"data": 5, "manifest": 3}
    assert table().metadata().partition_columns == ["topic", "partition"]
    names = [field.name for field in table().schema().fields]
    assert names == ["topic", "partition", "offset", "value", "topicId"]
    (commit,) = table().history(1)
    said = commit["kraftline"]
    assert (said["app"], said["number"]) == ("kraftline.export", 2)
    assert said["state"]["run"]["counters"] == printed["counters"]
    assert table().transaction_version("kraftline.export") == 2
    actions = pa.table(table().get_add_actions(flatten=True)).to_pylist()
    spans = [(one["min.offset"], one["max.offset"], one["num_records"]) for one in actions]
    assert sorted(spans) == [(0, 1, 2), (0, 1, 2), (2, 2, 1)]
    assert {one["path"] for one in actions} == data_files(Path("out"))


def test_days_are_a_column_too(here: Path) -> None:
    batches = [batch(at, time_ms=time) for at, time in enumerate((-1, 0, 86_400_000))]
    write_partition(Path("in"), batches)
    flags = ["--by", "date", "--columns", "offset,timestamp"]
    assert append(*DELTA, *flags) == 0
    assert [None if row["date"] is None else str(row["date"]) for row in rows()] == [
        None, "1970-01-01", "1970-01-02",
    ]  # fmt: skip


def test_all_columns_of_each_way_to_decode(here: Path) -> None:
    write_log(0, 2)
    for decode in ("records", "metadata", "raw"):
        out = Path(decode)
        flags = [*DELTA, "--decode", decode, "--columns", "full", "--output", decode]
        assert append(*flags, "--mode", "PERMISSIVE") == 0
        found = pa.table(table(out).scan())
        assert found.num_rows == 2
        assert sorted(found.column_names) == sorted(schema_of(decode, corrupt=True).names)


def test_a_table_gains_columns_and_lacks_what_is_not_read(here: Path) -> None:
    write_log(0, 1)
    assert append(*DELTA, "--columns", "offset,value") == 0
    write_log(0, 2)
    assert append(*DELTA, "--columns", "offset,value,leaderEpoch") == 0
    write_log(0, 3)
    assert append(*DELTA, "--columns", "offset") == 0
    found = [(row["offset"], row["value"], row["leaderEpoch"]) for row in rows()]
    assert found == [(0, b"value", None), (1, b"value", 1), (2, None, None)]


def test_a_column_of_another_type_is_refused(here: Path, capsys) -> None:
    from pipeline.jobs.delta_tables import Delta, DeltaCommit
    from pipeline.jobs.export.delta import APP

    write_log(0, 1)
    assert append(*DELTA, "--columns", "offset,value") == 0
    number, state = Delta(Path("out")).number(APP), Delta(Path("out")).state(APP)
    assert number == 1
    said = [("topic", pa.string()), ("partition", pa.int32())]
    schema = pa.schema([*said, ("offset", pa.int64()), ("leaderEpoch", pa.string())])
    again = DeltaCommit(app=APP, number=2, state=state)
    Delta(Path("out")).commit(again, schema, ["topic", "partition"])
    write_log(0, 2)
    line = refused(capsys, "--columns", "offset,leaderEpoch")
    assert line == "out: column leaderEpoch is string, not integer"
    assert refused(capsys, "--columns", "offset,leaderEpoch", "--dry-run") == line
    assert refused(capsys, "--columns", "timestamp", "--by", "date") == (
        "out was begun with --by segment, not date"
    )


def test_the_partition_columns_of_a_table_stay(here: Path) -> None:
    from pipeline.core.errors import BadInputError
    from pipeline.jobs.delta_tables import Delta, DeltaCommit

    delta = Delta(here / "t")
    schema = pa.schema([("a", pa.string()), ("b", pa.int32())])
    delta.commit(DeltaCommit(app="x", number=1, state={}), schema, ["a"])
    said = "t: the table is partitioned by a, not by nothing"
    with pytest.raises(BadInputError, match=said):
        delta.check_schema(schema, [])


def test_what_is_refused(here: Path, capsys) -> None:
    whole = ["export", "--input", "in", *FLAGS, *DELTA]
    write_log(0, 1)
    assert main([*whole, "--output", "out"]) == 2
    assert capsys.readouterr().err == "pipeline export: --format delta needs --append\n"
    with pytest.raises(SystemExit) as ended:
        append("--format", "csv")
    assert ended.value.code == 2
    assert "invalid choice: 'csv'" in capsys.readouterr().err
    assert append() == 0
    assert "out holds a finished run without --append, or of another --format" in refused(capsys)
    shutil.rmtree("out")
    assert append(*DELTA) == 0
    assert append() == 2
    assert "which is no part of an export of this format" in capsys.readouterr().err
    assert main([*whole[:5], "--output", "out", "--overwrite"]) == 2
    assert "out holds an export that grows" in capsys.readouterr().err
    write_cluster_id("c2")
    assert refused(capsys) == "in is of cluster c2, the export out is of cluster c1"
    write_cluster_id("c1")
    write_log(0, 2, topic_id=OTHER_ID)
    assert append(*DELTA) == 0  # created again
    assert offsets() == {"orders-0": [0, 0, 1]}


def test_a_table_of_others_is_refused(here: Path, capsys) -> None:
    from deltalake import write_deltalake

    write_log(0, 1)
    write_deltalake("out", pa.table({"offset": [1]}))
    assert refused(capsys) == "out: a Delta table that no export has begun"


def test_a_log_that_can_not_be_read_is_one_line(here: Path, capsys) -> None:
    write_log(0, 1)
    Path("out/_delta_log").mkdir(parents=True)
    Path("out/_delta_log/00000000000000000000.json").write_text("x")
    assert append(*DELTA) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("pipeline export: out: ")


def test_a_kill_before_the_first_commit_is_gone_on_behind(here: Path) -> None:
    """The log's folder comes before the commit, which is written under another name first."""
    write_log(0, 2)
    Path("out/_delta_log").mkdir(parents=True)
    Path("out/_delta_log/00000000000000000000.json#1").write_text('{"pro')
    assert append(*DELTA) == 0
    assert offsets() == {"orders-0": [0, 1]}


def test_others_may_compact_and_expire_the_log(here: Path, capsys) -> None:
    from deltalake.transaction import CommitProperties

    write_log(0, 1)
    assert append(*DELTA) == 0
    write_log(0, 2)
    assert append(*DELTA) == 0
    table().optimize.compact()
    for number in range(2):  # more commits than are looked at first
        table().alter.set_table_description(
            str(number), commit_properties=CommitProperties(custom_metadata={"kraftline": number})
        )
    write_log(0, 3)
    assert append(*DELTA) == 0
    assert offsets() == {"orders-0": [0, 1, 2]}
    version = table().version()
    table().alter.set_table_description("last")
    table().create_checkpoint()
    for gone in range(version + 1):
        Path(f"out/_delta_log/{gone:020d}.json").unlink()
    write_log(0, 4)
    assert refused(capsys) == (
        "out: the log no longer has commit 3 of kraftline.export, so nothing can be added"
        " (delta.logRetentionDuration)"
    )


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"layout"', '"lay"', "the state of the last run can not be read"),
        ('"export":', '"more":', "the state of the last run can not be read"),
        ('"app":', '"by":', "the log no longer has commit 1 of kraftline.export"),
    ],
)
def test_a_state_of_another_shape_is_one_line(
    here: Path, capsys, old: str, new: str, said: str
) -> None:
    write_log(0, 1)
    assert append(*DELTA) == 0
    place = Path("out/_delta_log/00000000000000000000.json")
    assert old in place.read_text()
    place.write_text(place.read_text().replace(old, new))
    assert said in refused(capsys)


def test_a_number_without_its_watermarks_is_refused(here: Path, capsys) -> None:
    from deltalake.transaction import CommitProperties, Transaction

    write_log(0, 1)
    assert append(*DELTA) == 0
    other = CommitProperties(app_transactions=[Transaction("kraftline.export", 9)])
    table().alter.set_table_description("x", commit_properties=other)
    assert "the log no longer has commit 9 of kraftline.export" in refused(capsys)


def test_the_extra_that_is_missing_is_named(here: Path, capsys, monkeypatch) -> None:
    write_log(0, 1)
    monkeypatch.delitem(sys.modules, "pipeline.jobs.export.delta", raising=False)
    monkeypatch.delitem(sys.modules, "pipeline.jobs.delta_tables", raising=False)
    monkeypatch.setitem(sys.modules, "deltalake", None)
    assert append(*DELTA) == 2
    assert capsys.readouterr().err == (
        "pipeline: deltalake is not installed; install it in the source tree with: "
        "pip install -e '.[delta]'\n"
    )
    assert not Path("out").exists()


KILLED = """
import os, sys
from pipeline.cli import main
left = int(sys.argv[1])
def count(event, arguments):
    global left
    left -= event == "os.rename"
    if left < 0:
        os._exit(9)
sys.addaudithook(count)
main(sys.argv[2:])
"""


@pytest.mark.long
def test_a_kill_leaves_each_record_once(here: Path) -> None:
    """Before each rename; another process, since deltalake does not survive a fork."""
    write_log(0, 2)
    assert append(*DELTA, "--output", "before") == 0
    write_log(0, 3)
    write_log(0, 1, "other-0")
    seen = []
    for at in range(100):
        out = Path(f"killed{at}")
        shutil.copytree("before", out)
        flags = ["--input", "in", "--output", str(out), "--append", *FLAGS, *DELTA]
        command = [sys.executable, "-c", KILLED, str(at), "export", *flags]
        done = subprocess.run(command, check=False, env=os.environ | {"PYTHONPATH": str(ROOT)})
        seen.append(sum(map(len, offsets(out).values())))
        assert append(*DELTA, "--output", str(out)) == 0
        assert offsets(out) == {"orders-0": [0, 1, 2], "other-0": [0]}
        files = {*pa.table(table(out).get_add_actions())["path"].to_pylist()}
        assert data_files(out) == files
        assert not (out / "_tmp").exists()
        if done.returncode != 9:
            break
    assert seen == [2] * (len(seen) - 1) + [4]
    assert len(seen) > 5  # and what the interpreter moves itself, as compiled modules


def test_a_kill_behind_the_commit_keeps_its_files(here: Path) -> None:
    """The list of what was moved is still there, and so is the commit."""
    write_log(0, 2)
    assert append(*DELTA) == 0
    (name,) = data_files(Path("out"))
    Path("out/_tmp").mkdir()
    for number, kept in ((1, True), (2, False)):
        moving = {"number": number, "files": [name]}
        Path("out/_tmp").mkdir(exist_ok=True)
        Path("out/_tmp/moving.json").write_text(json.dumps(moving))
        assert append(*DELTA) == 0
        assert Path("out", name).exists() is kept
