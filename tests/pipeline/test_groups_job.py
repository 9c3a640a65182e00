"""The job `groups` from folders to tables, and its page."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pipeline.cli import main
from pipeline.jobs import job
from pipeline.jobs.groups.page import lag_by_group
from pipeline.jobs.groups.plan import plan_groups
from pipeline.jobs.job import Progress
from tests.archives import unpack
from tests.coordinator.golden import ARCHIVE
from tests.pipeline.groups_by_hand import (
    PRODUCER,
    batch_of,
    commit,
    commit_key,
    commit_value,
    generation,
    marker,
    member,
    record,
    transaction,
)
from tests.pipeline.segments import TIME_MS, batch, write_high_watermark, write_partition

APPEND_TIME = 0x08
OFFSETS = "__consumer_offsets-0"
STATE = "__transaction_state-0"
NOW = str(TIME_MS + 10_000)
TABLES = ("commits", "groups", "lag", "members", "open_transactions", "rebalances", "transactions")


def write_cluster(root: Path) -> Path:
    """A node's folder: one group on orders-0, and a transaction that commits an offset for it."""
    write_partition(
        root,
        [batch(0, [b"v"] * 10, attributes=APPEND_TIME, time_ms=TIME_MS),
         batch(10, [b"v"] * 20, attributes=APPEND_TIME, time_ms=TIME_MS + 2000)],
    )  # fmt: skip
    records = [generation(20, 1, [member("one")]), commit(21, 4), commit(22, 6),
               commit(23, 8, producer_id=PRODUCER), marker(24, commit=True),
               commit(3005, 10)]  # fmt: skip
    write_partition(root, [batch_of([one]) for one in records], name=OFFSETS)
    states = [transaction(0, 1, partitions=(0,)), transaction(1, 4, partitions=())]
    write_partition(root, [batch_of([one]) for one in states], name=STATE)
    return root


def rows(out: Path, name: str) -> list[dict[str, Any]]:
    return list(pq.read_table(out / name).to_pylist())


def test_a_topic_with_the_longest_name(tmp_path: Path) -> None:
    topics = ["t" * 248 + end for end in "ab"]
    for number, topic in enumerate(topics, 1):
        id_ = "A" * 21 + "AQgw"[number]
        write_partition(
            tmp_path / "n1", [batch(0, [b"v"] * 10, time_ms=TIME_MS)], name=f"{topic}-0",
            topic_id=id_,
        )  # fmt: skip
    records = [
        record(number, commit_key(topic=topic), commit_value(4, TIME_MS + number))
        for number, topic in enumerate(topics)
    ]
    write_partition(tmp_path / "n1", [batch_of([one]) for one in records], name=OFFSETS)
    out = tmp_path / "out"
    flags = ["--input", str(tmp_path / "n1"), "--output", str(out), "--now", NOW]
    assert main(["groups", *flags]) == 0
    assert {row["topic"] for row in rows(out, "lag")} == set(topics)
    assert len(list((out / "lag").iterdir())) == 2


def test_tables_of_a_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    root = write_cluster(tmp_path / "n1")
    assert main(["groups", "--input", str(root), "--output", str(out), "--now", NOW]) == 0
    assert {path.name for path in out.iterdir()} == {*TABLES, "run.json", "_SUCCESS"}
    run = json.loads((out / "run.json").read_text())
    counted = {name: len(rows(out, name)) for name in TABLES}
    assert run["tables"] == counted
    assert counted == {"commits": 4, "groups": 1, "lag": 7, "members": 1, "open_transactions": 0,
                       "rebalances": 1, "transactions": 1}  # fmt: skip
    read = {Path(one["path"]).parent.name for one in run["inputs"]}
    assert read == {"orders-0", OFFSETS, STATE}
    lag = [
        (row["point"], round(row["ts"].timestamp() * 1000) - TIME_MS, row["committed_offset"],
         row["lag_min"], row["lag_max"])
        for row in rows(out, "lag")
    ]  # fmt: skip
    # the batches were stamped at 9 and 2019 ms: their last records
    assert lag == [
        ("commit", 21, 4, 6, 6), ("commit", 22, 6, 4, 4), ("commit", 24, 8, 2, 2),
        ("sample", 1000, 8, 2, 2), ("sample", 2000, 8, 2, 2), ("sample", 3000, 8, 22, 22),
        ("commit", 3005, 10, 20, 20)]  # fmt: skip
    assert "groups: commits 4, lag 7" in capsys.readouterr().out


def test_the_high_watermark_ends_the_tables(tmp_path: Path) -> None:
    root = write_cluster(tmp_path / "n1")
    write_high_watermark(root, 25, "__consumer_offsets 0")
    for until, count in ((), 3), (("--until", "end"), 4):
        out = tmp_path / f"out{count}"
        assert main(["groups", "--input", str(root), "--output", str(out), *until]) == 0
        assert len(rows(out, "commits")) == count


def damage(path: Path, position: int = 17) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def test_damage_is_read_around_or_ends_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = (write_cluster(tmp_path / name) for name in ("n1", "n2"))
    file = one / OFFSETS / f"{0:020d}.log"
    damage(file)
    out = tmp_path / "out"
    command = ["groups", "--now", NOW, "--output", str(out), "--overwrite", "--input"]
    assert main([*command, str(one), str(two)]) == 0
    assert len(rows(out, "commits")) == 4
    (line,) = json.loads((out / "run.json").read_text())["bypassed"]
    assert line.startswith(f"{file}:0 bad_crc")
    assert line in capsys.readouterr().err
    assert main([*command, str(one)]) == 2
    error = capsys.readouterr().err
    assert f"pipeline groups: {file}:0 (base offset 20): bad_crc" in error
    assert main([*command, str(one), "--mode", "dropmalformed"]) == 1
    assert len(rows(out, "commits")) == 4
    assert len(rows(out, "rebalances")) == 0  # that record is lost
    run = json.loads((out / "run.json").read_text())
    assert (run["counters"]["damaged"], run["findings"]) == (1, 1)
    assert f"{file}:0 bad_crc" in capsys.readouterr().err


def test_damaged_headers_of_data_and_records_that_are_refused_are_findings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write_cluster(tmp_path / "n1")
    damage(root / "orders-0" / f"{0:020d}.log", 16)
    write_partition(root, [batch(0, [b""], keys=[b"\0\1\0"])], name="__consumer_offsets-1")
    out = tmp_path / "out"
    assert main(["groups", "--input", str(root), "--output", str(out), "--now", NOW]) == 1
    counters = json.loads((out / "run.json").read_text())["counters"]
    assert (counters["damaged_headers"], counters["refused"], counters["damaged"]) == (1, 1, 0)
    error = capsys.readouterr().err
    assert f"{root}/orders-0/{0:020d}.log:0 bad_magic" in error
    assert "__consumer_offsets-1: offset 0: the record is cut" in error


@pytest.mark.parametrize(("now", "code"), [(60_000, 0), (60_001, 1)])
def test_a_transaction_beyond_its_timeout_is_a_finding(tmp_path: Path, now: int, code: int) -> None:
    root = write_cluster(tmp_path / "n1")
    late = transaction(2, 1, name="late")
    states = [batch_of([one]) for one in (transaction(0, 1), transaction(1, 4), late)]
    write_partition(root, states, name=STATE)
    out = tmp_path / "out"
    command = ["groups", "--input", str(root), "--output", str(out)]
    assert main([*command, "--now", str(TIME_MS + now)]) == code
    (row,) = rows(out, "open_transactions")
    assert row["verdict"] == ("overdue" if code else "within_timeout")


def test_a_transaction_in_a_data_log_that_nobody_ends(tmp_path: Path) -> None:
    root = write_cluster(tmp_path / "n1")
    write_partition(
        root, [batch(0, attributes=0x10, producer=(99, 0, 0))], name="payments-2"
    )  # fmt: skip
    command = ["groups", "--input", str(root), "--now", str(TIME_MS + 901)]
    for timeout, code in (("900", 1), ("901", 0)):
        out = tmp_path / timeout
        arguments = ["--max-transaction-timeout", timeout, "--output", str(out)]
        assert main([*command, *arguments]) == code
        (row,) = rows(out, "open_transactions")
        assert (row["topic"], row["partition"], row["producer_id"]) == ("payments", 2, 99)


def test_how_long_producers_try_bounds_the_lag_from_below(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "n1"
    write_partition(root, [batch(0, [b"v"] * 10)])
    write_partition(root, [batch_of([commit(40, 4)])], name=OFFSETS)
    found = []
    for number, more in enumerate(([], ["--delivery-timeout", "30"], ["--delivery-timeout", "31"])):
        out = tmp_path / f"out{number}"
        command = ["groups", "--input", str(root), "--output", str(out), "--now", NOW]
        assert main([*command, *more]) == 0
        found.append([(row["lag_min"], row["lag_max"]) for row in rows(out, "lag")])
    assert found == [[(0, 6)], [(6, 6)], [(0, 6)]]  # stamped at 9 ms, committed at 40
    assert main([*command, "--delivery-timeout", "-1"]) == 2
    assert "--delivery-timeout is -1" in capsys.readouterr().err


def test_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = write_cluster(tmp_path / "n1")
    states = [transaction(0, 1, name="<late>")]
    write_partition(root, [batch_of([one]) for one in states], name=STATE)
    page, out = tmp_path / "page", tmp_path / "out"
    later = str(TIME_MS + 100_000)
    command = ["groups", "--input", str(root), "--output", str(out), "--now", later]
    assert main([*command, "--report", str(page)]) == 1
    assert f"report: {page}/index.html\n" in capsys.readouterr().err
    assert sorted(path.name for path in page.iterdir()) == ["index.html", "lag.csv", "lag.png"]
    text = (page / "index.html").read_text()
    assert text.count("data:image/png;base64,") == 1
    assert (
        "<td>g</td><td>Stable</td><td>classic</td><td>1</td><td>1</td><td>1</td><td>22</td>" in text
    )
    assert '<tr class="bad"><td>&lt;late&gt;</td><td>7 (0)</td>' in text
    assert "longer than its time-out" in text
    assert "<td>g</td><td>1</td><td>1</td><td>one</td>" in text
    assert "Tue 2023-11-14 22:13:21 to Tue 2023-11-14 22:13:23" in text
    figures = (page / "lag.csv").read_text().splitlines()
    assert figures[1:] == [f"g,2023-11-14T22:13:2{second}+00:00,{lag},{lag}"
                           for second, lag in ((1, 2), (2, 2), (3, 22))]  # fmt: skip


def test_the_page_without_data_logs_says_so(tmp_path: Path) -> None:
    write_partition(tmp_path / "n1", [batch_of([commit(0, 5)])], name=OFFSETS)
    page, out = tmp_path / "page", tmp_path / "out"
    command = ["groups", "--input", str(tmp_path / "n1"), "--output", str(out)]
    assert main([*command, "--report", str(page)]) == 0
    text = (page / "index.html").read_text()
    assert "No data log of what the groups read is in this input." in text
    assert "no lag is known" in text
    assert rows(out, "lag") == rows(out, "transactions") == []


def test_lag_of_a_group_is_over_all_its_partitions(tmp_path: Path) -> None:
    root = write_cluster(tmp_path / "n1")
    write_partition(root, [batch(0, [b"v"] * 9, attributes=APPEND_TIME)], name="orders-1")
    write_partition(root, [batch_of([commit(30, 1, partition=1)])], name="__consumer_offsets-1")
    out = tmp_path / "out"
    assert main(["groups", "--input", str(root), "--output", str(out), "--now", NOW]) == 0
    found = [(row["group_id"], row["lag_min"], row["lag_max"]) for row in lag_by_group(out)]
    assert found == [("g", 10, 10), ("g", 10, 10), ("g", 30, 30)]


def test_the_lag_goes_on_behind_the_last_commit(tmp_path: Path) -> None:
    root = write_cluster(tmp_path / "n1")
    for name, time in (("orders-0", 5_000), ("other-0", 9_000)):
        later = batch(30, attributes=APPEND_TIME, time_ms=TIME_MS + time)
        write_partition(root, [later], name=name, base_offset=30)
    for now, ends in ((TIME_MS + 8_000, (5, 21)), (TIME_MS + 4_000, (4, 20))):
        out = tmp_path / str(now)
        command = ["groups", "--input", str(root), "--output", str(out), "--now", str(now)]
        assert main(command) == 0
        last = lag_by_group(out)[-1]
        assert (last["ts"].timestamp() - TIME_MS / 1000, last["lag_max"]) == ends
    few = tmp_path / "few"
    command = ["groups", "--input", str(root), "--output", str(few), "--now", NOW]
    assert main([*command, "--samples", "1"]) == 0
    assert [row["ts"].timestamp() - TIME_MS / 1000 for row in lag_by_group(few)] == [5]


@pytest.mark.parametrize("count", [20, 23])
def test_some_lines_of_a_kind_are_shown(
    tmp_path: Path, count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = batch(0, [b""] * count, keys=[b"\0\1\0"] * count)
    write_partition(tmp_path / "n1", [odd], name=OFFSETS)
    command = ["groups", "--input", str(tmp_path / "n1"), "--output", str(tmp_path / "out")]
    assert main(command) == 1
    lines = capsys.readouterr().err.splitlines()
    assert sum("the record is cut" in line for line in lines) == 20
    assert lines[20:] == ([] if count == 20 else ["and 3 more"])


def test_each_task_counts_in_the_lines_of_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Progress] = []

    class Kept(Progress):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            made.append(self)

    monkeypatch.setattr(job, "Progress", Kept)
    root = write_cluster(tmp_path / "n1")
    assert main(["groups", "--input", str(root), "--output", str(tmp_path / "out")]) == 0
    ((done, total, read),) = [told.figures() for told in made]
    assert done == total == 4
    assert read == bytes_of(root)


def bytes_of(root: Path) -> int:
    """Bytes that are read: the headers of `__consumer_offsets` too, for its own transactions."""
    sizes = {path.parent.name: path.stat().st_size for path in root.rglob("*.log")}
    return sum(sizes.values()) + sizes[OFFSETS]


@pytest.mark.parametrize("node", ["n2", "n1"])
def test_what_cannot_be_used(tmp_path: Path, node: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_partition(tmp_path / "n1", [batch(0)])
    write_partition(tmp_path / "n1", [batch(0)], name="__cluster_metadata-0")
    write_cluster(tmp_path / "n2")
    flags = ["--samples", "0"] if node == "n2" else []
    command = ["groups", "--input", str(tmp_path / node), "--output", str(tmp_path / "out")]
    assert main([*command, *flags]) == 2
    error = capsys.readouterr().err
    assert ("--samples is 0" in error) is (node == "n2")
    wanted = "no partition of __consumer_offsets or __transaction_state"
    assert (wanted in error) is (node == "n1")


def test_partitions_that_are_read(tmp_path: Path) -> None:
    root = write_cluster(tmp_path / "n1")
    write_partition(root, [batch(0)], name="__cluster_metadata-0")
    write_partition(root, [batch(0)], name="named-0", topic_id="AAAAAAAAAAAAAAAAAAAABw")
    (root / "empty-0").mkdir()
    (root / "empty-0" / "partition.metadata").write_text(
        "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAACA"
    )
    plan = plan_groups([str(root)], "FAILFAST")
    assert [one.topic for one in plan.logs] == ["__consumer_offsets", "__transaction_state"]
    topics = [one.partition.topic for one in plan.data]
    assert topics == ["__consumer_offsets", "named", "orders"]
    assert plan.logs[0].names["AAAAAAAAAAAAAAAAAAAABw"] == "named"


def test_a_small_file_that_is_damaged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = write_cluster(tmp_path / "n1")
    (root / "meta.properties").write_text("node.id=x\n")
    command = ["groups", "--input", str(root), "--dry-run"]
    assert main(command) == 2
    assert main([*command, "--mode", "DROPMALFORMED"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all("meta.properties" in line for line in lines)


def test_dry_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = write_cluster(tmp_path / "n1")
    assert main(["groups", "--input", str(root), "--dry-run"]) == 0
    assert f"partitions 2, bytes {bytes_of(root)}" in capsys.readouterr().out


def test_logs_of_kafka_from_their_folders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with tarfile.open(ARCHIVE) as archive:
        unpack(archive, tmp_path / "in")
    out = tmp_path / "out"
    command = ["groups", "--input", str(tmp_path / "in"), "--output", str(out), "--now"]
    assert main([*command, "1795395200000"]) == 0
    run = json.loads((out / "run.json").read_text())
    assert run["tables"] == {
        "commits": 541, "lag": 0, "groups": 40, "members": 49, "rebalances": 102,
        "transactions": 12, "open_transactions": 2,
    }  # fmt: skip
    assert (run["counters"]["records"], run["counters"]["undeclared"]) == (823, 55)
    assert run["counters"]["refused"] == 0
    (named,) = run["bypassed"]
    assert named.startswith("records without a declaration are not decoded: ShareGroupCurrentMem")
    assert "StreamsGroupTopology 1" in named
    assert named in capsys.readouterr().err
    opened = rows(out, "open_transactions")
    assert [(row["transactional_id"], row["verdict"]) for row in opened] == [
        ("tx-open", "within_timeout"), ("tx-open", "accounted")]  # fmt: skip
    assert main([*command, "1795396000000", "--overwrite"]) == 1
