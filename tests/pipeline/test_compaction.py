"""Plans of compaction and retention: a dictionary, Kafka's cleaner."""

import random
from pathlib import Path

import crc32c
import msgspec
import pyarrow.parquet as pq
import pytest

from pipeline.cli import main
from pipeline.core.compaction.partition import plan_one
from pipeline.core.compaction.plan import Policy, offset_map
from pipeline.core.errors import BadInputError
from pipeline.core.reading.options import parse_options
from pipeline.core.reading.reader import read_table
from pipeline.jobs import job
from pipeline.jobs.compaction import wanted_partitions
from tests.pipeline.compaction_by_hand import plan_by_hand, retention_by_hand
from tests.pipeline.segments import TIME_MS, batch, marker, write_partition
from tests.selection import thinned
from wire.batches.compression import Codec

TRANSACTIONAL = 0x10
DELETE_HORIZON = 0x40
GOLDEN = Path(__file__).parent.parent / "golden"
NOW = TIME_MS + 10**9


def write_segments(root, segments, name="orders-0"):
    """A partition with several segments: {base offset: batches}."""
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    for base, batches in segments.items():
        (folder / f"{base:020d}.log").write_bytes(b"".join(batches))
    return root


def planned(root, topic="orders", now=NOW, policies=()):
    (partition,) = wanted_partitions((str(root),), topic)
    return plan_one(partition, now, list(policies))


class Log:
    """Random segments and what a cleaner must leave of them, by a dictionary."""

    def __init__(self, seed):
        rng = random.Random(seed)
        self.segments, self.survivors, self.counts = {}, {}, {}
        kept, offset, last, tombstones = {}, 0, rng.randint(2, 5), set()
        batch_of, producers = {}, {}
        for number in range(last + 1):
            self.segments[offset] = batches = []
            base = offset
            for _ in range(rng.randint(1, 6)):
                values = [
                    rng.choice((None, b"v" * rng.randint(1, 40))) for _ in range(rng.randint(1, 9))
                ]
                keys = [rng.choice((None, *(b"k%d" % k for k in range(12)))) for _ in values]
                producer = rng.choice((-1, -1, 7, 8))
                aborted = producer >= 0 and rng.random() < 0.3
                passed = rng.random() < 0.5
                attributes = TRANSACTIONAL if aborted else 0
                if not aborted and passed:
                    attributes |= DELETE_HORIZON
                content = batch(
                    offset, values, keys=keys, codec=rng.choice((Codec.NONE, Codec.ZSTD)),
                    attributes=attributes, producer=(producer, 0, 0 if producer >= 0 else -1),
                )  # fmt: skip
                batches.append(content)
                producers[producer] = offset
                for i, (key, value) in enumerate(zip(keys, values, strict=True)):
                    batch_of[offset + i] = base
                    if number < last and not aborted and key is not None:
                        kept[key] = offset + i
                        if value is None and passed:
                            tombstones.add(offset + i)
                offset += len(values)
                if aborted:
                    batches.append(marker(offset, producer, commit=False))
                    offset += 1
        found = set(kept.values()) - tombstones
        self.active = base
        for one in found:
            self.counts[batch_of[one]] = self.counts.get(batch_of[one], 0) + 1


@pytest.mark.parametrize("seed", thinned(range(25), every=6))
def test_the_plan_is_that_of_a_dictionary(tmp_path, seed):
    log = Log(seed)
    root = write_segments(tmp_path, log.segments)
    check_against(log, planned(root).rows, root)


def check_against(log, rows, root):
    options = {"path": str(root), "decode": "metadata"}
    batches = read_table(parse_options(options)).to_pylist()
    markers = {}
    for one in batches:
        if one["isControl"]:
            markers[one["segment"]] = markers.get(one["segment"], 0) + 1
    for row in rows:
        base = int(row.segment[:20])
        if base == log.active:
            assert (row.action, row.bytes_after) == ("keep", row.bytes_before)
            continue
        expected = log.counts.get(base, 0) + markers.get(row.segment, 0)
        assert row.records_after == expected, row
        assert row.bytes_after <= row.bytes_before


@pytest.mark.parametrize("seed", thinned(range(40), every=10))
def test_the_plan_is_that_of_the_loop_over_batches(tmp_path, seed):
    rng = random.Random(seed)
    root = write_segments(tmp_path, Log(seed).segments)
    markers_only(root, rng)
    now = rng.choice((0, NOW))
    first_dirty = rng.choice((None, rng.randrange(30)))
    if first_dirty is not None:
        (root / "cleaner-offset-checkpoint").write_text(f"0\n1\norders 0 {first_dirty}\n")
    policies = [
        Policy(ms=ms, bytes=size, segment_bytes=segment)
        for ms in (None, 0, 10**9 + rng.randrange(-5, 5))
        for size in (None, 0, rng.randrange(3000))
        for segment in (None, 1, rng.randrange(1, 3000))
    ]
    found = planned(root, now=now, policies=policies)
    rows = [msgspec.structs.asdict(row) for row in found.rows]
    assert rows == plan_by_hand(root, "orders", now, first_dirty or 0)
    place = {"topic": "orders", "partition": 0, "node_id": None}
    assert found.retention == [place | retention_by_hand(root, policy, now) for policy in policies]


def markers_only(root, rng):
    """Some batches and markers of transactions behind the random ones, some never ended."""
    folder = root / "orders-0"
    last = max(folder.iterdir())
    offset = read_table(parse_options({"path": str(last), "decode": "metadata"}))["lastOffset"]
    offset = offset[-1].as_py() + 1
    content = last.read_bytes()
    for _ in range(rng.randrange(12)):
        producer = rng.choice((7, 8, 9))
        if rng.random() < 0.5:
            end = bytearray(marker(offset, producer, commit=rng.random() < 0.5))
            if rng.random() < 0.7:
                end[22] |= DELETE_HORIZON
                end[17:21] = crc32c.crc32c(end[21:]).to_bytes(4, "big")
            content += end
        else:
            content += batch(offset, attributes=TRANSACTIONAL, producer=(producer, 0, 0))
        offset += 1
    last.write_bytes(content)
    write_segments(root, {offset: [batch(offset)]})


@pytest.mark.spark
def test_the_plan_through_spark_is_the_same(tmp_path, spark):
    from pipeline.sources.compaction_tasks import plan_by_spark

    for seed in range(3):
        write_segments(tmp_path, Log(seed).segments, f"orders-{seed}")
    write_segments(tmp_path, {0: [batch(0)]}, "orders-3")  # nothing to clean
    partitions = wanted_partitions((str(tmp_path),), "orders")
    policies = [Policy(ms=1), Policy(bytes=100, segment_bytes=300)]
    plans = plan_by_spark(partitions, NOW, policies, spark)
    assert plans == [plan_one(one, NOW, policies) for one in partitions]
    assert [plan.rows[0].partition for plan in plans] == [0, 1, 2, 3]


def golden_before(tmp_path):
    """Golden `comp` as the first cleaning met it: the batches from 159 on came after the copy."""
    before = GOLDEN / "cli" / "data-log" / "comp-0"
    after = GOLDEN / "pipeline" / "broker-101-compacted-1" / "comp-0"
    folder = tmp_path / "comp-0"
    folder.mkdir()
    for path in before.glob("*.log"):
        (folder / path.name).write_bytes(path.read_bytes())
    cleaned = (after / f"{0:020d}.log").read_bytes()
    (folder / f"{159:020d}.log").write_bytes(cleaned[-140:])
    active = after / f"{162:020d}.log"
    (folder / active.name).write_bytes(active.read_bytes())
    return tmp_path, cleaned


def test_golden_comp_is_what_kafkas_cleaner_left(tmp_path):
    root, cleaned = golden_before(tmp_path)
    rows = planned(root, "comp", now=0).rows
    kafka = read_table(
        parse_options({"path": str(GOLDEN / "pipeline/broker-101-compacted-1/comp-0"),
                       "columns": "offset,segment", "includeControl": "true"})
    ).to_pylist()  # fmt: skip
    left = [row for row in kafka if row["segment"].startswith("0" * 20)]
    below = [row for row in rows if row.segment != f"{162:020d}.log"]
    assert sum(row.records_after for row in below) == len(left) == 12
    assert sum(row.superseded for row in rows) == 159 - 3 - 4 - 6
    assert sum(row.tombstones_removable for row in rows) == 0
    # markers grow by two bytes each when they get their horizon; gzip blocks are an estimate
    assert abs(sum(row.bytes_after for row in below) - len(cleaned)) < len(cleaned) / 10
    assert [row.action for row in rows] == ["clean", "clean", "clean", "keep", "keep"]


def test_the_second_cleaning_too(tmp_path):
    folder = tmp_path / "comp-0"
    folder.mkdir()
    first = GOLDEN / "pipeline" / "broker-101-compacted-1" / "comp-0"
    second = GOLDEN / "pipeline" / "broker-101-compacted-2" / "comp-0"
    for path in first.glob("*.log"):
        (folder / path.name).write_bytes(path.read_bytes())
    cleaned = (second / f"{0:020d}.log").read_bytes()
    (folder / f"{164:020d}.log").write_bytes(cleaned[-145:])
    (folder / f"{167:020d}.log").write_bytes((second / f"{167:020d}.log").read_bytes())
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\ncomp 0 162\n")
    (partition,) = wanted_partitions((str(tmp_path),), None)
    rows = plan_one(partition, 0, []).rows
    assert sum(row.records_after for row in rows[:-1]) == 12
    assert sum(row.bytes_after for row in rows[:-1]) == len(cleaned)
    assert [row.action for row in rows] == ["clean", "delete", "keep", "keep"]
    assert 0 < rows[0].dirty_ratio < 0.25
    later = plan_one(partition, 1 << 60, []).rows
    assert sum(row.tombstones_removable for row in later) == 1
    assert sum(row.markers_removable for row in later) == 2


def test_null_keys_are_findings(tmp_path, capsys):
    segments = {0: [batch(0, [b"v", b"w"], keys=[None, b"k"])], 2: [batch(2)]}
    root, out = write_segments(tmp_path / "in", segments), tmp_path / "out"
    command = ["compaction", "--input", str(root), "--output", str(out), "--subscribe", "orders"]
    assert main(command) == 1
    assert "findings 1" in capsys.readouterr().out
    (finding,) = pq.read_table(out / "findings").to_pylist()
    assert (finding["check"], finding["segment"]) == ("null_key", f"{0:020d}.log")


def test_retention_deletes_from_the_oldest_and_never_the_active_one(tmp_path):
    contents = {
        n * 10: [batch(n * 10, [b"x" * 50] * 10, time_ms=TIME_MS + n * 1000)] for n in range(4)
    }
    root = write_segments(tmp_path, contents)
    size = len(contents[0][0])
    now = TIME_MS + 3000

    def answer(**policy):
        (row,) = planned(root, policies=[Policy(**policy)], now=now).retention
        return row["segments_deleted"], row["bytes_freed"], row["new_log_start"]

    assert answer(ms=1500) == (2, 2 * size, 20)
    assert answer(ms=0) == (3, 3 * size, 30)
    assert answer(bytes=3 * size) == (1, size, 10)
    assert answer(bytes=3 * size - 1) == (1, size, 10)
    assert answer(bytes=0) == (3, 3 * size, 30)
    assert answer(ms=10**9) == (0, 0, 0)
    # one segment of everything is the active one
    assert answer(ms=0, segment_bytes=10 * size) == (0, 0, 0)


def test_memory_of_the_offset_map():
    assert offset_map(9, 1 << 20) == {"offset_map_bytes": 240, "cleaner_passes": 1}
    assert offset_map(6_000_000, 128 << 20)["cleaner_passes"] == 2


def test_a_buffer_has_room_for_a_key(tmp_path, capsys):
    segments = {0: [batch(0, keys=[b"a", b"b"], values=[b"", b""])], 2: [batch(2, keys=[b"a"])]}
    root = write_segments(tmp_path / "in", segments)
    command = ["compaction", "--input", str(root), "--subscribe", "orders", "--output",
               str(tmp_path / "out"), "--dedupe-buffer-bytes"]  # fmt: skip
    assert main([*command, "26"]) == 2
    assert capsys.readouterr().err == (
        "pipeline compaction: --dedupe-buffer-bytes is 26, allowed: a whole number from 27 on,"
        " room for one key\n"
    )
    assert main([*command, "27"]) == 0
    assert "cleaner_passes 2" in capsys.readouterr().out


def test_partitions_nobody_compacts_must_be_named(tmp_path):
    root = write_segments(tmp_path, {0: [batch(0)]})
    with pytest.raises(BadInputError, match="name topics with --subscribe"):
        wanted_partitions((str(root),), None)
    with pytest.raises(BadInputError, match="no partition of nothing"):
        wanted_partitions((str(root),), "orders,nothing")


def test_all_partitions_of_a_topic_that_was_cleaned_are_planned_and_others_named(tmp_path, capsys):
    for node, cleaned in (("n1", "orders 0 2"), ("n2", "")):
        for name in ("orders-0", "orders-1", *(f"t{n:02}-0" for n in range(12))):
            write_partition(tmp_path / node, [batch(0)], name=name)
        if cleaned:
            (tmp_path / node / "cleaner-offset-checkpoint").write_text(f"0\n1\n{cleaned}\n")
    found = wanted_partitions((str(tmp_path),), None)
    assert [(one.topic, one.partition) for one in found] == [
        ("orders", 0), ("orders", 0), ("orders", 1), ("orders", 1),
    ]  # fmt: skip
    named = ", ".join(f"t{n:02}" for n in range(10))
    assert capsys.readouterr().err == (
        f"not planned, no cleaner's checkpoint names them: {named} and 2 more topics;"
        " --subscribe plans topics that are compacted\n"
    )
    wanted_partitions((str(tmp_path),), "orders")
    (tmp_path / "n1" / "cleaner-offset-checkpoint").write_text(
        "0\n13\norders 0 2\n" + "".join(f"t{n:02} 0 0\n" for n in range(12))
    )
    assert len(wanted_partitions((str(tmp_path),), None)) == 28
    assert capsys.readouterr().err == ""
    write_partition(tmp_path / "n2", [batch(0)], name="users-0")
    wanted_partitions((str(tmp_path),), None)
    assert "names them: users; --subscribe" in capsys.readouterr().err


def test_planning_in_this_process_has_lines_of_progress(tmp_path, capsys, monkeypatch):
    for partition in range(3):
        segments = {0: [batch(n) for n in range(200)], 200: [batch(200)]}
        write_segments(tmp_path / "in", segments, f"orders-{partition}")
    monkeypatch.setattr(job, "PROGRESS_SECONDS", 0.0005)
    command = ["compaction", "--input", str(tmp_path / "in"), "--output", str(tmp_path / "out")]
    assert main([*command, "--subscribe", "orders"]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("tasks ")]
    assert lines
    assert {line.split(", ")[0] for line in lines} <= {f"tasks {n} of 3" for n in range(4)}
