"""The stream without Spark: where micro-batches end, what they hold, and the guards."""

import json
import random
import shutil
from pathlib import Path

import msgspec
import pytest

from pipeline.core.errors import BadInputError, DataLossError
from pipeline.core.reading.options import Options, parse_options, parse_stream_options
from pipeline.core.reading.reader import read_splits
from pipeline.core.reading.stream import (
    Limit,
    decode_offset,
    encode_offset,
    initial_offset,
    latest_offset,
    offset_count,
    plan_batch,
)
from tests.pipeline.segments import GOLDEN, batch, marker, write_high_watermark, write_partition
from tests.selection import thinned


def options(root: Path, **more: str) -> Options:
    return parse_options({"path": str(root), "columns": "offset", "upTo": "logEnd"} | more)


def point(offset: dict, topic: str = "orders", partition: str = "0") -> tuple[int, int]:
    found = offset["topics"][topic]["p"][partition]
    return found["o"], found["e"]


def rows(start: dict, end: dict, chosen: Options) -> list[int]:
    packs, _ = plan_batch(start, end, chosen)
    return [x for pack in packs for part in read_splits(pack, chosen)
            for x in part["offset"].to_pylist()]  # fmt: skip


def drain(chosen: Options, limit: Limit) -> list[list[int]]:
    """All micro-batches until nothing is left."""
    start, found = initial_offset(chosen), []
    while (end := latest_offset(start, chosen, limit)[0]) != start:
        found.append(rows(start, end, chosen))
        start = json.loads(json.dumps(end))
    return found


@pytest.fixture
def log(tmp_path: Path) -> Path:
    write_partition(tmp_path, [batch(10 * i, [b"v"] * 10, epoch=2) for i in range(3)])
    write_partition(tmp_path, [batch(10 * i, [b"v"] * 10, epoch=5) for i in range(3, 6)],
                    base_offset=30)  # fmt: skip
    return tmp_path


def test_the_offset_is_what_the_checkpoint_keeps(log: Path) -> None:
    chosen = options(log)
    start = initial_offset(chosen)
    topic = {"id": "AAAAAAAAAAAAAAAAAAAABQ", "p": {"0": {"o": 0, "e": -1}}}
    assert start == {"v": 1, "topics": {"orders": topic}}
    end, problems = latest_offset(start, chosen, Limit())
    assert (point(end), problems) == ((60, 5), [])
    assert rows(start, end, chosen) == list(range(60))


def test_a_new_partition_counts_from_the_start_of_its_log(log: Path) -> None:
    chosen = options(log)
    start = initial_offset(chosen)
    (orders,) = decode_offset(start).values()
    read = encode_offset({("orders", 0): msgspec.structs.replace(orders, offset=20)})
    write_partition(log, [batch(1000), batch(1001)], name="users-3", base_offset=1000)
    end, _ = latest_offset(read, chosen, Limit())
    assert offset_count(read, end, chosen) == 40 + 2
    assert offset_count(end, end, chosen) == 0
    shutil.rmtree(log / "users-3")  # deleted since: nothing of it can be read
    assert offset_count(read, end, chosen) == 40


@pytest.mark.parametrize("limit", [Limit(rows=25), Limit(rows=1), Limit(size_bytes=500), Limit()])
def test_limits_cut_at_batches_and_every_record_comes_once(log: Path, limit: Limit) -> None:
    found = drain(options(log), limit)
    assert [x for part in found for x in part] == list(range(60))
    assert all(len(part) % 10 == 0 for part in found)
    if limit.rows == 25:
        assert [len(part) for part in found] == [20, 20, 20]
    if limit.rows == 1:
        assert [len(part) for part in found] == [10] * 6


def test_the_limit_is_shared_by_lag(log: Path) -> None:
    write_partition(log, [batch(i) for i in range(20)], name="orders-1")
    chosen = options(log)
    end, _ = latest_offset(initial_offset(chosen), chosen, Limit(rows=40))
    assert (point(end)[0], point(end, partition="1")[0]) == (30, 10)


def test_only_what_is_committed_is_read(log: Path) -> None:
    with pytest.raises(BadInputError, match="no high watermark is known"):
        initial_offset(options(log, upTo="hw"))
    write_high_watermark(log, 45)
    found = drain(options(log, upTo="hw"), Limit())
    assert found == [list(range(40))]  # whole batches below it
    write_high_watermark(log, 60)
    assert drain(options(log, upTo="hw"), Limit()) == [list(range(60))]


def test_targets_bound_an_available_now_run(log: Path) -> None:
    chosen = options(log)
    start = initial_offset(chosen)
    write_partition(log, [batch(0)], name="orders-1")
    end, _ = latest_offset(start, chosen, Limit(), {("orders", 0): 40})
    assert point(end) == (40, 5)
    assert "1" not in end["topics"]["orders"]["p"]


def test_new_partitions_are_read_from_their_start(log: Path) -> None:
    chosen = options(log)
    start, _ = latest_offset(initial_offset(chosen), chosen, Limit())
    write_partition(log, [batch(7)], name="orders-1", base_offset=7)
    end, _ = latest_offset(start, chosen, Limit())
    assert rows(start, end, chosen) == [7]


def test_a_replay_ignores_what_came_later(log: Path) -> None:
    chosen = options(log)
    start = initial_offset(chosen)
    end, _ = latest_offset(start, chosen, Limit(rows=30))
    before = rows(start, end, chosen)
    with (log / "orders-0" / f"{30:020d}.log").open("ab") as file:
        file.write(batch(60) + b"\0\0\0")
    assert rows(start, end, chosen) == before == list(range(30))


def at(offset: int, epoch: int, topic_id: str = "AAAAAAAAAAAAAAAAAAAABQ") -> dict:
    return {"v": 1, "topics": {"orders": {"id": topic_id, "p": {"0": {"o": offset, "e": epoch}}}}}


@pytest.mark.parametrize(
    ("start", "reason", "resumes"),
    [
        (at(70, 5), "truncation", (60, 5)),
        (at(30, 1), "divergence", (30, 2)),
        (at(40, 5, "AAAAAAAAAAAAAAAAAAAABg"), "recreated", (0, -1)),
    ],
)
def test_guards(log: Path, start: dict, reason: str, resumes: tuple[int, int]) -> None:
    with pytest.raises(DataLossError, match="failOnDataLoss=false"):
        latest_offset(start, options(log), Limit())
    with pytest.raises(DataLossError):
        plan_batch(start, at(60, 5), options(log))
    lenient = options(log, failOnDataLoss="false")
    _, (problem,) = latest_offset(start, lenient, Limit())
    assert problem.reason == reason
    assert (problem.resume.offset, problem.resume.epoch) == resumes


def test_retention_below_the_point_is_data_loss(log: Path) -> None:
    (log / "orders-0" / f"{0:020d}.log").unlink()
    with pytest.raises(DataLossError, match="offset 10 is below the log's start 30: retention"):
        latest_offset(at(10, 2), options(log), Limit())
    lenient = options(log, failOnDataLoss="false")
    end, _ = latest_offset(at(10, 2), lenient, Limit())
    assert rows(at(10, 2), end, lenient) == list(range(30, 60))
    assert point(latest_offset(at(30, 2), options(log), Limit())[0]) == (60, 5)


def test_a_deleted_partition_is_data_loss(log: Path) -> None:
    start = at(10, 2)
    start["topics"]["gone"] = {"id": "x", "p": {"3": {"o": 5, "e": 0}}}
    with pytest.raises(DataLossError, match="gone-3: the partition is gone"):
        latest_offset(start, options(log), Limit())
    end, (problem,) = latest_offset(start, options(log, failOnDataLoss="false"), Limit())
    assert problem.reason == "deleted"
    assert "gone" not in end["topics"]


def test_a_log_cut_below_the_planned_end_is_data_loss(log: Path) -> None:
    (log / "orders-0" / f"{30:020d}.log").write_bytes(b"")
    with pytest.raises(DataLossError, match="ends at 30, below 60 which was planned"):
        plan_batch(at(10, 2), at(60, 5), options(log))


def test_committed_streams_stop_at_the_open_transaction(tmp_path: Path) -> None:
    inside = {"attributes": 0x10, "producer": (1, 0, 0)}
    write_partition(
        tmp_path,
        [batch(0), batch(1, **inside), marker(2, 1, commit=False), batch(3), batch(4, **inside)],
    )
    chosen = options(tmp_path, isolation="read_committed")
    assert drain(chosen, Limit()) == [[0, 3]]


def test_starting_offsets_of_a_new_query(log: Path) -> None:
    assert point(initial_offset(options(log, startingOffsets="latest"))) == (60, 5)
    start = initial_offset(options(log, startingOffsets='{"orders":{"0":35}}'))
    assert point(start) == (35, 5)
    end, _ = latest_offset(start, options(log), Limit())
    assert rows(start, end, options(log)) == list(range(35, 60))


def test_a_foreign_checkpoint_is_refused(log: Path) -> None:
    with pytest.raises(BadInputError, match="version None"):
        latest_offset({"orders": 1}, options(log), Limit())


def test_the_metadata_log_is_committed_where_a_majority_agrees(tmp_path: Path) -> None:
    source = GOLDEN / "metadata-log" / "static-4.3.1" / "n1" / "__cluster_metadata-0"
    for node in (1, 2):
        folder = tmp_path / f"n{node}"
        (folder / source.name).mkdir(parents=True)
        for path in source.glob("*.log"):
            (folder / source.name / path.name).write_bytes(path.read_bytes())
        text = f"version=1\nnode.id={node}\ncluster.id=c\n"
        (folder / "meta.properties").write_text(text)
    with pytest.raises(BadInputError, match="no high watermark"):
        initial_offset(options(tmp_path / "n1", upTo="hw"))  # one of three voters
    last = max(source.glob("*.log"))
    with (tmp_path / "n1" / source.name / last.name).open("ab") as file:
        file.write(batch(671, epoch=99))  # only one voter has it
    whole, _ = latest_offset(initial_offset(options(tmp_path)), options(tmp_path), Limit())
    committed = options(tmp_path, upTo="hw")
    held, _ = latest_offset(initial_offset(committed), committed, Limit())
    assert point(whole, "__cluster_metadata") == (672, 99)
    assert point(held, "__cluster_metadata")[0] == 671


@pytest.mark.parametrize("seed", thinned(range(8), every=4))
def test_a_log_that_grows_rolls_and_is_retained_is_read_exactly_once(
    tmp_path: Path, seed: int
) -> None:
    """Random appends, rolls, retention of what was read, partial appends and restarts."""
    rng = random.Random(seed)
    chosen = options(tmp_path)
    base, end, segment_end = 0, 0, 0
    content = b""
    write_partition(tmp_path, [])
    start, found = initial_offset(chosen), []
    for _ in range(60):
        action = rng.random()
        if action < 0.5:
            count = rng.randint(1, 6)
            content += batch(end, [b"v"] * count, epoch=1 + end // 50)
            end += count
        elif action < 0.6 and end > base:
            write_partition(tmp_path, [content], base_offset=base)  # no segment rolls half-written
            base, content = end, b""
        elif action < 0.7:
            for path in sorted((tmp_path / "orders-0").glob("*.log"))[:-1]:
                if segment_end > int(path.stem) and point(start)[0] >= base:
                    path.unlink()
        tail = b"" if rng.random() < 0.7 else batch(end, [b"cut"])[: rng.randint(1, 60)]
        write_partition(tmp_path, [content, tail], base_offset=base)
        segment_end = end
        if rng.random() < 0.5:
            limit = rng.choice([Limit(), Limit(rows=5), Limit(size_bytes=200)])
            until, problems = latest_offset(start, chosen, limit)
            assert problems == []
            part = rows(start, until, chosen)
            assert rows(start, until, chosen) == part  # a replay after a crash
            found += part
            start = json.loads(json.dumps(until))
    while (until := latest_offset(start, chosen, Limit())[0]) != start:
        found += rows(start, until, chosen)
        start = until
    assert found == list(range(end))


@pytest.mark.parametrize(
    "name",
    ["endingOffsets", "endingoffsets", "endingTimestamp", "endingOffsetsByTimestamp"],
)
def test_an_end_is_refused_in_a_stream(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInputError, match=r"^ending\w+ is not valid in streaming queries: "):
        parse_stream_options({"path": str(tmp_path), name: "latest"})


def test_a_stream_may_say_where_it_starts(tmp_path: Path) -> None:
    given = {"path": str(tmp_path), "startingOffsets": "latest", "upTo": "logEnd"}
    assert parse_stream_options(given) == parse_options(given)
