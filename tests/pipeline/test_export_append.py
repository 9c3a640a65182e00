"""An export that grows: each record once, whatever happens to the log or to a run."""

import json
import os
import shutil
from pathlib import Path
from typing import Any, NoReturn

import pyarrow.parquet as pq
import pytest

from pipeline.cli import main
from pipeline.jobs.publishing import locked_output
from tests.pipeline.segments import GOLDEN, batch, marker, write_high_watermark, write_partition

OTHER_ID = "BBBBBBBBBBBBBBBBBBBBBg"
FLAGS = ["--columns", "offset,value,topicId"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "fsync", lambda _: None)  # a killed process loses nothing of the cache
    write_cluster_id("c1")
    return tmp_path


def write_cluster_id(cluster_id: str) -> None:
    Path("in").mkdir(exist_ok=True)
    Path("in/meta.properties").write_text(f"version=1\ncluster.id={cluster_id}\nnode.id=1\n")


def write_log(first: int, end: int, name: str = "orders-0", epoch: int = 1, **more: Any) -> Path:
    """A partition of one segment, a record a batch."""
    batches = [batch(at, epoch=epoch) for at in range(first, end)]
    return write_partition(Path("in"), batches, name=name, base_offset=first, **more)


def append(*flags: str) -> int:
    return main(["export", "--input", "in", "--output", "out", "--append", *FLAGS, *flags])


def refused(capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    """The one line of a run that is refused; it must have changed nothing."""
    before = tree()
    capsys.readouterr()
    assert append(*flags) == 2
    told = capsys.readouterr()
    (line,) = told.err.splitlines()
    assert (told.out, tree()) == ("", before)
    return line.removeprefix("pipeline export: ")


def tree() -> dict[str, bytes]:
    root = Path("out")
    return {str(path): path.read_bytes() for path in root.rglob("*")
            if path.is_file() and path.name != "_lock"}  # fmt: skip


def manifest(out: Path = Path("out")) -> list[dict[str, Any]]:
    if not (out / "manifest").exists():
        return []
    return [row for path in sorted((out / "manifest").iterdir())
            for row in pq.ParquetFile(path).read().to_pylist()]  # fmt: skip


def offsets_of(row: dict[str, Any], out: Path = Path("out")) -> list[tuple[str, int]]:
    found = pq.ParquetFile(out / "data" / row["file"]).read().to_pylist()
    where = f"{row['topic']}-{row['partition']}"
    if {one["topicId"] for one in found} == {OTHER_ID}:
        where += "'"
    return [(where, one["offset"]) for one in found]


def exported(out: Path = Path("out")) -> dict[str, list[int]]:
    """Offsets by partition, by the manifest; by the folder there must be the same files."""
    rows = manifest(out)
    there = {str(path.relative_to(out / "data")) for path in (out / "data").rglob("*.parquet")}
    assert there == {row["file"] for row in rows}
    found: dict[str, list[int]] = {}
    for row in rows:
        offsets = offsets_of(row, out)
        assert len(offsets) == row["rows"] > 0
        assert (offsets[0][1], offsets[-1][1] + 1) == (row["start_offset"], row["end_offset"])
        for name, offset in offsets:
            found.setdefault(name, []).append(offset)
    return found


def test_each_run_adds_what_is_new(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_log(0, 3)
    assert append("--json") == 0
    first = tree()
    write_log(0, 5)  # the segment has grown
    write_log(5, 7)  # the next one
    write_log(0, 2, "other-1")
    capsys.readouterr()
    assert append("--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["tables"] == {"data": 9, "manifest": 4}
    counters = printed["counters"]
    assert (counters["new_records"], counters["new_files"]) == (6, 3)
    assert counters["bytes"] == 6 * len(batch(0))
    assert exported() == {"orders-0": [*range(7)], "other-1": [0, 1]}
    after = tree()
    changed = {"out/run.json"}
    assert {name for name in first if first[name] != after[name]} == changed
    assert json.loads(Path("out/run.json").read_text())["counters"] == counters
    assert append("--json") == 0
    assert json.loads(capsys.readouterr().out)["counters"]["new_records"] == 0
    assert tree() == after
    assert not Path("out/_tmp").exists()


def test_the_first_run_has_what_an_export_has(here: Path) -> None:
    """Of logs of Kafka's: compacted, with transactions, with gaps."""
    for flags in (["--columns", "offset,value,topicId"], ["--decode", "metadata"]):
        command = ["export", "--input", str(GOLDEN / "data-log"), *flags]
        assert main([*command, "--output", "whole", "--overwrite"]) == 0
        assert main([*command, "--output", "grown", "--append"]) == 0
        whole = pq.read_table("whole/manifest.parquet").to_pylist()
        keys = ("topic", "partition", "segment", "start", "end", "rows", "crc_of_crcs")
        found = [
            sorted(tuple(row[key] for key in keys) for row in rows if row["rows"])
            for rows in (whole, manifest(Path("grown")))
        ]
        assert found[0] == found[1] != []
        shutil.rmtree("grown")


def test_a_long_segment_is_cut_where_batches_begin(here: Path) -> None:
    write_log(0, 3)
    assert append() == 0
    write_log(0, 8)
    size = len(batch(0))
    assert append("--target-file-size", str(2 * size)) == 0
    rows = manifest()[1:]
    assert [row["start"] for row in rows] == [3 * size, 4 * size, 6 * size]
    assert exported() == {"orders-0": [*range(8)]}


def test_only_what_is_committed_is_added(here: Path) -> None:
    write_log(0, 5)
    write_high_watermark(Path("in"), 3)
    assert append() == 0
    assert exported() == {"orders-0": [0, 1, 2]}
    write_high_watermark(Path("in"), 2)  # of a node that is behind: nothing is new
    assert append() == 0
    write_high_watermark(Path("in"), 4)
    assert append() == 0
    assert exported() == {"orders-0": [0, 1, 2, 3]}
    assert append("--until", "end") == 0
    assert exported() == {"orders-0": [*range(5)]}


def test_a_high_watermark_that_is_asked_for_must_be_known(here: Path, capsys) -> None:
    write_log(0, 5)
    assert "no high watermark is known" in refused(capsys, "--until", "high_watermark")


def test_topics_chosen_later_begin_at_their_start(here: Path, capsys) -> None:
    write_log(0, 2)
    write_log(0, 2, "other-0")
    assert append("--subscribe", "orders") == 0
    write_log(0, 3)
    assert append("--subscribe", "other") == 0
    assert capsys.readouterr().err == ""  # orders is not asked for, and not gone
    assert exported() == {"orders-0": [0, 1], "other-0": [0, 1]}
    assert append() == 0
    assert exported() == {"orders-0": [0, 1, 2], "other-0": [0, 1]}


def test_a_deleted_topic_is_told_once_and_its_records_stay(here: Path, capsys) -> None:
    write_log(0, 2)
    write_log(0, 1, "other-0")
    assert append() == 0
    shutil.move("in/other-0", "kept")
    capsys.readouterr()
    assert append() == 0
    assert capsys.readouterr().err == "other-0: not there any more; its records stay\n"
    assert append("--subscribe", "orders,other") == 0
    assert capsys.readouterr().err == ""
    shutil.move("kept", "in/other-0")  # it was only not given
    write_log(0, 2, "other-0")
    assert append() == 0
    assert exported() == {"orders-0": [0, 1], "other-0": [0, 1]}


def test_a_topic_created_again_is_read_from_its_start(here: Path, capsys) -> None:
    write_log(0, 3)
    write_log(0, 1, "orders-1")
    assert append() == 0
    shutil.rmtree("in/orders-1")
    write_log(0, 2, topic_id=OTHER_ID)
    capsys.readouterr()
    assert append() == 0
    told = capsys.readouterr().err
    assert "orders-0: topic id" in told
    assert told.endswith(f"became {OTHER_ID}: another topic of this name, read from its start\n")
    assert exported() == {"orders-0": [0, 1, 2], "orders-0'": [0, 1], "orders-1": [0]}
    write_log(0, 3, topic_id=OTHER_ID)
    write_log(0, 1, "orders-1", topic_id=OTHER_ID)  # this one too, as far in as the old one
    assert append() == 0
    assert exported() == {"orders-0": [0, 1, 2], "orders-0'": [0, 1, 2], "orders-1": [0],
                          "orders-1'": [0]}  # fmt: skip


def test_a_partition_without_a_topic_id_is_read_and_gets_its_id_later(here: Path) -> None:
    """As copied folders have it, and those of old brokers."""
    path = write_log(0, 2)
    known = Path(path.parent, "partition.metadata")
    text = known.read_text()
    known.unlink()
    assert append() == 0
    write_log(0, 3)
    known.unlink()
    assert append() == 0
    assert exported() == {"orders-0": [0, 1, 2]}
    write_log(0, 4)
    known.write_text(text)
    assert append() == 0
    assert exported() == {"orders-0": [0, 1, 2, 3]}
    known.write_text(text.replace(text.split()[-1], OTHER_ID))
    assert append() == 0
    assert exported()["orders-0'"] == [0, 1, 2, 3], "the id is known from the run before on"


def test_another_topic_id_needs_a_known_cluster(here: Path, capsys) -> None:
    write_log(0, 3)
    assert append() == 0
    write_log(0, 3, topic_id=OTHER_ID)
    Path("in/meta.properties").unlink()
    line = refused(capsys)
    assert f"became {OTHER_ID}" in line
    assert line.endswith("or another cluster's: no meta.properties says which")


def test_a_copy_of_another_topic_does_not_take_the_place_of_the_known_one(
    here: Path, capsys
) -> None:
    write_log(0, 3)
    assert append() == 0
    batches = [batch(at) for at in range(9)]
    stale = write_partition(Path("in/old"), batches, topic_id=OTHER_ID)
    write_log(0, 4)
    capsys.readouterr()
    assert append() == 0
    assert f"{stale.parent}: of topic id {OTHER_ID}, left out" in capsys.readouterr().err
    assert exported() == {"orders-0": [*range(4)]}


def test_another_cluster_is_refused_by_both_ids(here: Path, capsys) -> None:
    write_log(0, 3)
    assert append() == 0
    Path("in/meta.properties").unlink()
    write_log(0, 4)
    assert append() == 0  # its files do not say of which one they are
    write_cluster_id("c2")
    assert refused(capsys) == "in is of cluster c2, the export out is of cluster c1"


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ((0, 2), "offset 3 is above the log's end 2: truncation"),
        ((0, 4, "orders-0", 2), "leader epoch 2, not 1: the log was replaced by another history"),
        ((5, 7), "offset 3 is below the log's start 5: retention"),
    ],
)
def test_a_log_that_does_not_continue_is_refused(
    here: Path, capsys, log: tuple[Any, ...], said: str
) -> None:
    write_log(0, 3)
    assert append() == 0
    shutil.rmtree("in/orders-0")
    write_log(*log)
    assert said in refused(capsys)
    if "retention" not in said:
        assert said in refused(capsys, "--skip-lost")


def test_lost_records_are_passed_over_if_one_says_so(here: Path, capsys) -> None:
    write_log(0, 3)
    assert append() == 0
    shutil.rmtree("in/orders-0")
    write_log(5, 7)
    write_log(9, 10)  # and a missing segment before it
    assert refused(capsys).startswith("orders-0: offset 3 is below the log's start 5")
    capsys.readouterr()
    assert append("--skip-lost") == 1
    told = capsys.readouterr()
    assert "below the log's start 5: retention, passed over" in told.err
    assert "the next segment begins at 9, passed over" in told.err
    assert "lost_ranges 2" in told.out
    assert exported() == {"orders-0": [0, 1, 2, 5, 6, 9]}
    assert append() == 0


def test_damage_is_left_out_by_mode_and_counted(here: Path, capsys) -> None:
    path = write_log(0, 1)
    bad = bytearray(batch(1))
    bad[70] ^= 1
    assert append("--mode", "DROPMALFORMED") == 0
    path.write_bytes(batch(0) + bytes(bad) + batch(2))
    assert "bad_crc" in refused(capsys)
    assert append("--mode", "DROPMALFORMED") == 1
    assert "bad_crc" in capsys.readouterr().err
    assert exported() == {"orders-0": [0, 2]}


def test_small_files_that_are_damaged_count_by_mode(here: Path, capsys) -> None:
    write_log(0, 3)
    Path("in/replication-offset-checkpoint").write_text("x")
    assert "replication-offset-checkpoint" in refused(capsys)
    assert append("--mode", "DROPMALFORMED") == 1
    told = capsys.readouterr()
    assert "in/replication-offset-checkpoint" in told.err
    assert "findings 1" in told.out
    assert exported() == {"orders-0": [0, 1, 2]}


def test_a_segment_that_is_gone_is_named(here: Path, capsys) -> None:
    write_log(0, 3)
    assert append("--mode", "DROPMALFORMED") == 0
    Path("in/orders-0", f"{3:020d}.log").symlink_to("nowhere")
    line = refused(capsys, "--mode", "DROPMALFORMED")
    assert line.startswith(f"in/orders-0/{3:020d}.log")
    assert line.endswith("vanished since it was listed")


def test_a_segment_that_goes_while_it_is_read_is_not_passed_over(
    here: Path, capsys, monkeypatch
) -> None:
    """In no mode: it may be sound, for a task on another machine, or on the next run."""
    path = write_log(0, 3)
    with monkeypatch.context() as patch:

        def gone(path: str) -> NoReturn:
            raise FileNotFoundError(2, "No such file or directory", path)

        patch.setattr("pipeline.core.reading.reader.open_segment", gone)
        line = refused(capsys, "--mode", "DROPMALFORMED")
    assert line == f"{path}:0: vanished since it was listed; nothing was added"
    assert append("--mode", "DROPMALFORMED") == 0
    assert exported() == {"orders-0": [0, 1, 2]}


def test_markers_alone_move_the_watermark_and_leave_no_file(here: Path) -> None:
    path = write_log(0, 1)
    assert append() == 0
    path.write_bytes(batch(0) + marker(1, 7, commit=True))
    assert append() == 0
    assert exported() == {"orders-0": [0]}
    path.write_bytes(batch(0) + marker(1, 7, commit=True) + batch(2))
    assert append() == 0
    assert exported() == {"orders-0": [0, 2]}
    assert manifest()[-1]["start"] == path.stat().st_size - len(batch(2))


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--decode", "json", "--columns", "offset"], "out was begun with --decode records, not"),
        (["--by", "date", "--columns", "offset,value,topicId,timestamp"], "with --by segment, not"),
        (["--columns", "offset,value"], "out has other columns (topicId): --columns and --mode"),
        (["--columns", "value,offset,topicId"], "out has other columns (value, offset, topicId)"),
        (["--mode", "PERMISSIVE"], "out has other columns (_corrupt_batch)"),
        (["--replicas", "all"], "--append needs --replicas one: a watermark is of one log"),
        (["--overwrite"], "--overwrite removes what --append goes on with"),
        (["--subscribe", "nosuch"], "in: no partition of nosuch"),
        (["--output", "in/orders-0"], "nothing is written into what is read"),
    ],
)
def test_flags_that_do_not_go_with_it(here: Path, capsys, flags: list[str], said: str) -> None:
    write_log(0, 3)
    assert append() == 0
    write_log(0, 4)
    assert said in refused(capsys, *flags)


def test_outputs_of_another_kind(here: Path, capsys) -> None:
    write_log(0, 3)
    whole = ["export", "--input", "in", *FLAGS]
    assert main([*whole, "--output", "whole"]) == 0
    assert append("--output", "whole") == 2
    assert (
        "holds a finished run without --append, or of another --format" in capsys.readouterr().err
    )
    Path("mine").mkdir()
    Path("mine/notes.txt").touch()
    assert append("--output", "mine") == 2
    assert "mine holds notes.txt, which is no part of an export" in capsys.readouterr().err
    assert append() == 0
    for flags in ([], ["--overwrite"]):
        assert main([*whole, "--output", "out", *flags]) == 2
        assert "out holds an export that grows; go on with it by" in capsys.readouterr().err
    assert main([*whole, "--output", "new", "--skip-lost"]) == 2
    assert "--skip-lost needs --append" in capsys.readouterr().err
    shutil.rmtree("out/manifest")
    Path("out/_SUCCESS").unlink()
    assert append() == 2
    assert "of no published run" in capsys.readouterr().err


def test_files_outside_any_partition_have_no_watermark(here: Path, capsys) -> None:
    path = write_log(0, 1)
    shutil.move(path, "in")
    shutil.rmtree("in/orders-0")
    assert append() == 2
    assert "outside any partition directory have no watermark" in capsys.readouterr().err
    shutil.rmtree("in")
    Path("in").mkdir()
    assert append() == 2
    assert "in: no segments" in capsys.readouterr().err


def test_a_manifest_that_can_not_be_read_ends_the_run(here: Path, capsys) -> None:
    write_log(0, 1)
    assert append() == 0
    Path("out/manifest/0000000001.parquet").write_bytes(b"x")
    capsys.readouterr()
    assert append() == 2
    assert "can not be read, so nothing can be appended" in capsys.readouterr().err


def test_manifests_of_another_name_say_nothing(here: Path) -> None:
    write_log(0, 1)
    assert append() == 0
    shutil.copy("out/manifest/0000000001.parquet", "manifest-of-monday.parquet")
    write_log(0, 2)
    assert append() == 0
    shutil.move("manifest-of-monday.parquet", "out/manifest/")
    write_log(0, 3)
    assert append() == 0
    Path("out/manifest/manifest-of-monday.parquet").unlink()
    assert exported() == {"orders-0": [0, 1, 2]}
    assert [row["start_offset"] for row in manifest()] == [0, 1, 2]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "can not be read, so nothing can be appended"),
        ('{"number":2,"files":["../../precious"]}', "names a file that is not of the output"),
        ('{"number":2,"files":["/precious"]}', "names a file that is not of the output"),
    ],
)
def test_a_list_of_moved_files_that_is_none(here: Path, capsys, text: str, said: str) -> None:
    write_log(0, 1)
    assert append() == 0
    Path("out/_tmp").mkdir()
    Path("out/_tmp/moving.json").write_text(text)
    Path("precious").touch()
    assert refused(capsys) == f"out/_tmp/moving.json: {said}"
    assert Path("precious").exists()


def test_a_lock_that_is_a_link_does_not_empty_its_file(here: Path) -> None:
    write_log(0, 1)
    Path("out").mkdir()
    Path("precious").write_text("x")
    Path("out/_lock").symlink_to("../precious")
    assert append() == 0
    assert Path("precious").read_text() == "x"


def test_a_dry_run_tells_what_is_new_and_writes_nothing(here: Path, capsys) -> None:
    write_log(0, 3)
    assert append("--dry-run") == 0
    assert not Path("out").exists()
    assert append() == 0
    write_log(0, 5)
    before = tree()
    capsys.readouterr()
    assert append("--dry-run", "--json") == 0
    counters = json.loads(capsys.readouterr().out)["counters"]
    assert counters == {"splits": 1, "bytes": 2 * len(batch(0))}
    assert tree() == before


def test_one_run_at_a_time(here: Path, capsys) -> None:
    write_log(0, 3)
    assert append() == 0
    write_log(0, 4)
    with locked_output(Path("out")):
        assert refused(capsys) == "out is in use by another run"
    assert append() == 0


def test_a_run_that_fails_while_it_publishes_leaves_nothing(here: Path) -> None:
    write_log(0, 3)
    write_log(0, 3, "zeros-0")
    Path("out/data").mkdir(parents=True)
    Path("out/data/topic=zeros").touch()  # in the way of the second file's folder
    assert append() == 2
    assert exported() == {}
    Path("out/data/topic=zeros").unlink()
    assert append() == 0
    assert exported() == {"orders-0": [0, 1, 2], "zeros-0": [0, 1, 2]}
