"""A history as Delta tables: like the archive after each run, by one transaction a table."""

import importlib.util
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from pipeline.cli import main
from pipeline.jobs.history.continuation import Archive
from tests.peers import is_missing
from tests.pipeline.metadata_histories import RandomLog, write_metadata_log
from tests.pipeline.test_engines_spark import batch_end

CONTENT = RandomLog(21, 60).content
HALF = batch_end(CONTENT, len(CONTENT) // 2)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if importlib.util.find_spec("deltalake") is None:
        is_missing("the extra delta")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "fsync", lambda _: None)
    return tmp_path


def history(end: int, *flags: str, out: str = "out", cluster: str = "c1") -> int:
    write_metadata_log(Path("in"), CONTENT[:end])
    Path("in/meta.properties").write_text(f"version=1\ncluster.id={cluster}\nnode.id=1\n")
    return main(["history", "--input", "in", "--output", out, "--append", *flags])


def table(name: str, version: int | None = None) -> Any:
    from deltalake import DeltaTable

    return DeltaTable(f"delta/{name}", version=version)


def names() -> list[str]:
    from pipeline.jobs.history.delta import TABLES

    return sorted(TABLES)


def in_order(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in rows)


def of_delta(name: str, version: int | None = None) -> list[str]:
    return in_order(pa.table(table(name, version).scan()).to_pylist())


def of_archive(name: str) -> list[str]:
    from pipeline.jobs.history.delta import TABLES

    schema, partition_by = TABLES[name]
    files = [str(path) for path in Path("out/_current/", name).rglob("*.parquet")]
    if not files:
        return []
    layout = ds.partitioning(pa.schema([schema.field(one) for one in partition_by]), flavor="hive")
    found = ds.dataset(files, schema=schema, partitioning=layout, partition_base_dir=f"out/{name}")
    return in_order(found.to_table().to_pylist())


def test_tables_are_like_the_archive_after_each_run(here: Path) -> None:
    assert history(HALF, "--delta", "delta") == 0
    assert sorted(path.name for path in Path("delta").iterdir()) == names()
    first = {name: of_archive(name) for name in names()}
    assert {name: of_delta(name) for name in names()} == first
    assert history(len(CONTENT), "--delta", "delta") == 0
    second = {name: of_archive(name) for name in names()}
    assert {name: of_delta(name) for name in names()} == second
    assert {name: of_delta(name, 0) for name in names()} == first
    assert second["partitions"] != first["partitions"]
    version = {name: table(name).version() for name in names()}
    assert set(version.values()) == {1}
    assert history(len(CONTENT), "--delta", "delta") == 0  # nothing is new
    assert {name: table(name).version() for name in names()} == version
    end = Archive(Path("out/_current"), "out").counters["end_offset"]
    assert table("partitions").transaction_version("kraftline.history") == end
    (commit,) = table("partitions").history(1)
    assert commit["kraftline"]["state"] == {"cluster_id": "c1", "end_offset": end}


def test_open_intervals_are_replaced_in_the_same_commit(here: Path) -> None:
    assert history(HALF, "--delta", "delta") == 0
    before = set(pa.table(table("topics").get_add_actions())["path"].to_pylist())
    assert history(len(CONTENT), "--delta", "delta") == 0
    log = Path(f"delta/topics/_delta_log/{1:020d}.json").read_text().splitlines()
    actions = [json.loads(line) for line in log]
    removed = [one["remove"] for one in actions if "remove" in one]
    assert {one["path"] for one in removed} == {
        path for path in before if path.startswith("current=true/")
    }
    assert all(
        one["dataChange"] and one["deletionTimestamp"] > 1_600_000_000_000 for one in removed
    )
    added = [one["add"] for one in actions if "add" in one]
    assert not {one["path"] for one in added} & before  # what is closed stays as it is
    (opened,) = (one for one in added if one["path"].startswith("current=true/"))
    assert opened["partitionValues"] == {"current": "true"}
    rows = [json.loads(row) for row in of_delta("topics")]
    starts = [row["valid_from_offset"] for row in rows if row["valid_to_offset"] is None]
    stats = json.loads(opened["stats"])
    assert stats["numRecords"] == len(starts)
    assert stats["minValues"]["valid_from_offset"] == min(starts)
    assert stats["maxValues"]["valid_from_offset"] == max(starts)
    assert set(stats["minValues"]) == set(stats["maxValues"])
    assert not {"valid_from_ts", "name", "seed"} & set(stats["minValues"])
    first = Path(f"delta/partitions/_delta_log/{0:020d}.json").read_text().splitlines()
    adds = [one["add"] for one in map(json.loads, first) if "add" in one]
    named = {name for one in adds for name in json.loads(one["stats"])["minValues"]}
    assert {"leader", "valid_from_offset"} <= named
    assert not [name for name in named if "." in name]  # of lists there are none


def test_a_run_that_was_killed_between_tables_is_gone_on_with(here: Path) -> None:
    assert history(HALF, "--delta", "delta") == 0
    assert history(len(CONTENT)) == 0
    for name in ("topics", "partitions"):  # the ones that it did not come to
        shutil.copytree(f"delta/{name}", f"kept/{name}")
    assert history(len(CONTENT), "--delta", "delta") == 0
    expected = {name: of_delta(name) for name in names()}
    for name in ("topics", "partitions"):
        shutil.rmtree(f"delta/{name}/_delta_log")  # and files without their transaction
        shutil.move(f"kept/{name}/_delta_log", f"delta/{name}/_delta_log")
    shutil.rmtree("delta/records")
    assert history(len(CONTENT), "--delta", "delta") == 0
    assert {name: of_delta(name) for name in names()} == expected
    assert table("topics").version() == 1
    assert table("records").version() == 0
    assert all(path.stat().st_nlink > 1 for path in Path("delta/topics").rglob("*.parquet"))


def test_what_others_compact_is_replaced_by_the_archives_files(here: Path) -> None:
    assert history(HALF, "--delta", "delta") == 0
    assert history(len(CONTENT), "--delta", "delta") == 0
    expected = of_delta("topics")
    files = sorted(pa.table(table("topics").get_add_actions())["path"].to_pylist())
    table("topics").optimize.compact()
    assert sorted(pa.table(table("topics").get_add_actions())["path"].to_pylist()) != files
    assert history(len(CONTENT), "--delta", "delta") == 0
    assert sorted(pa.table(table("topics").get_add_actions())["path"].to_pylist()) == files
    assert of_delta("topics") == expected


def test_a_finished_history_gets_its_tables_later_and_elsewhere(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert history(HALF) == 0

    def refuse(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    assert main(["history", "--input", "out", "--delta", "delta", "--dry-run"]) == 0
    assert not Path("delta").exists()
    assert main(["history", "--input", "out", "--delta", "delta"]) == 0
    assert {name: of_delta(name) for name in names()} == {
        name: of_archive(name) for name in names()
    }
    assert all(path.stat().st_nlink == 1 for path in Path("delta").rglob("*.parquet"))
    assert not list(Path("delta").rglob(".*.tmp"))


def test_tables_of_something_else_are_refused(here: Path, capsys) -> None:
    from deltalake import write_deltalake

    assert history(len(CONTENT), "--delta", "delta") == 0

    def refused(end: int, out: str, cluster: str = "c1") -> str:
        versions = {name: table(name).version() for name in names()}
        capsys.readouterr()
        assert history(end, "--delta", "delta", out=out, cluster=cluster) == 2
        assert {name: table(name).version() for name in names()} == versions
        return capsys.readouterr().err.splitlines()[-1].removeprefix("pipeline history: delta/")

    said = refused(len(CONTENT), "out2", cluster="c2")
    assert said == "partitions is of cluster c1, the archive out2 is of cluster c2"
    said = refused(HALF, "older")
    assert said.startswith("partitions goes to offset ")
    assert said.endswith(": it is an older one, or another")
    shutil.rmtree("delta/topics")
    write_deltalake("delta/topics", pa.table({"name": ["a"]}))
    assert refused(len(CONTENT), "out") == "topics: a Delta table that no history has begun"


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        ("out/delta", "--delta out/delta lies in the archive out"),
        ("in/delta", "--delta in/delta lies in the log directory in; nothing is written into"),
        ("file", "file: Not a directory"),
    ],
)
def test_a_place_of_the_tables_that_is_refused(here: Path, capsys, folder: str, said: str) -> None:
    Path("file").touch()
    assert history(HALF, "--delta", folder) == 2
    assert said in capsys.readouterr().err
    assert not Path("out").exists()


def test_the_tables_do_not_lie_in_the_archive_that_is_read(here: Path, capsys) -> None:
    assert history(HALF) == 0
    assert main(["history", "--input", "out", "--delta", "out"]) == 2
    assert "--delta out lies in the archive out" in capsys.readouterr().err


def test_the_extra_that_is_missing_is_named(here: Path, capsys, monkeypatch) -> None:
    for name in ("pipeline.jobs.history.delta", "pipeline.jobs.delta_tables"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "deltalake", None)
    assert history(HALF, "--delta", "delta") == 2
    assert "pipeline: deltalake is not installed; install it in " in capsys.readouterr().err
