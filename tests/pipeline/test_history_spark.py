"""The history through Spark: the state as of every offset is the metadata image at that offset."""

import json
import random
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from metadata import records as m
from metadata.loader import committed_batches
from pipeline.core.errors import BadInputError
from pipeline.jobs.history import query as history_query
from pipeline.jobs.history.schema import SCD_TABLES, VALIDITY
from tests.pipeline import history_runs
from tests.pipeline.controller_logs import ControllerLog
from tests.pipeline.history_runs import image_at, position_of
from tests.pipeline.metadata_histories import RandomLog, image_rows, write_metadata_log

pytestmark = pytest.mark.spark
GOLDEN = Path(__file__).parent.parent / "golden" / "metadata"
_NOT_STATE = {part.split()[0] for part in VALIDITY.split(", ")} | {
    "prev_leader", "prev_isr", "prev_replicas", "prev_elr", "change",
}  # fmt: skip


build = partial(history_runs.build, master="local[2]")


def all_rows(spark, out):
    """Every interval of every table as plain values."""
    return {
        name: [
            row.asDict(recursive=True) for row in history_query.table(spark, out, name).collect()
        ]
        for name in SCD_TABLES
    }


def held(rows, end):
    """The rows of a table that hold as of an offset, by the rule of the tables."""
    return [
        row for row in rows
        if row["valid_from_offset"] < end
        and (row["valid_to_offset"] is None or row["valid_to_offset"] >= end)
    ]  # fmt: skip


def states(name, rows):
    hidden = _NOT_STATE | ({"broker_id"} if name == "producer_ids" else set())
    shown = ({k: v for k, v in row.items() if k not in hidden} for row in rows)
    return sorted(json.dumps(row, sort_keys=True) for row in shown)


def assert_equal_at(tables, image, end):
    expected = image_rows(image)
    for name, rows in tables.items():
        assert states(name, held(rows, end)) == states(name, expected[name]), f"{name} {end}"


@pytest.mark.parametrize("seed", [1, 2])
def test_as_of_every_offset_is_the_image(spark, tmp_path, seed):
    log = RandomLog(seed, 150)
    batches = list(committed_batches(log.content))
    out = str(tmp_path / "out")
    root = write_metadata_log(tmp_path / "in", log.content)
    result = build(root, out, "--intra-batch", "--reveal")
    assert result.findings == 0
    assert result.counters["transactions"] > 5
    assert result.counters["aborted"] > 5
    tables = all_rows(spark, out)
    for end in range(log.offset + 1):
        assert_equal_at(tables, image_at(batches, end), end)
    for end in random.Random(seed).sample(range(log.offset), 2):
        found = {
            name: [row.asDict(recursive=True) for row in frame.collect()]
            for name, frame in history_query.as_of(spark, out, offset=end).items()
        }
        assert {name: held(rows, end) for name, rows in tables.items()} == found


@pytest.mark.parametrize("seed", [1, 2])
def test_as_of_every_offset_of_a_log_that_controllers_wrote(spark, tmp_path, seed):
    """Leaders, ISRs, deletions, reassignments; failovers that abort what they find open."""
    log = ControllerLog(seed, 120)
    batches = list(committed_batches(log.content))
    out = str(tmp_path / "out")
    result = build(write_metadata_log(tmp_path / "in", log.content), out, "--intra-batch")
    assert result.findings == 0
    assert result.counters["aborted"] >= 10
    written = [record for one in batches for record in one.records]
    changes = [one for one in written if isinstance(one, m.PartitionChangeRecord)]
    for field in ("leader", "isr", "adding_replicas", "removing_replicas", "last_known_elr"):
        values = [getattr(one, field) for one in changes]
        assert sum(value not in (None, -2) for value in values) >= 4, field
    assert sum(isinstance(one, m.RemoveTopicRecord) for one in written) >= 4
    tables = all_rows(spark, out)
    for end in range(log.offset + 1):
        assert_equal_at(tables, image_at(batches, end), end)
    assert_equal_at(tables, log.image, log.offset)


def test_an_archive_fed_in_parts_is_the_history_of_the_whole(spark, tmp_path):
    log = RandomLog(3, 160)
    batches = list(committed_batches(log.content))
    starts = [batch.base_offset for batch in batches]
    root, out = tmp_path / "in", str(tmp_path / "out")
    # the second part begins while a transaction is open, wherever that is
    cuts = [starts[60], starts[110], log.offset]
    ends = []
    for number, cut in enumerate(cuts):
        position = position_of(log.content, cut)
        write_metadata_log(root, log.content[:position])
        result = build(root, out, "--append", "--intra-batch", "--reveal", run_id=f"r{number}")
        ends.append(result.counters["end_offset"])
    assert ends == sorted(ends)
    tables = all_rows(spark, out)
    for end in range(0, log.offset + 1, 3):
        assert_equal_at(tables, image_at(batches, end), end)
    whole = str(tmp_path / "whole")
    build(root, whole, "--intra-batch", "--reveal", run_id="w")
    expected = all_rows(spark, whole)
    order = lambda row: json.dumps(row, sort_keys=True, default=str)  # noqa: E731
    for name, rows in tables.items():
        assert sorted(rows, key=order) == sorted(expected[name], key=order), name
    records = pq.read_table(Path(out, "records")).column("offset").to_pylist()
    assert sorted(records) == sorted(
        pq.read_table(Path(whole, "records")).column("offset").to_pylist()
    )


@pytest.mark.parametrize("scenario", ["static-4.3.1", "old-metadata-versions-3.9.1"])
def test_golden_logs_agree_with_their_snapshots_and_images(spark, tmp_path, scenario):
    root = tmp_path / "in" / "__cluster_metadata-0"
    root.mkdir(parents=True)
    for path in (GOLDEN / scenario).iterdir():
        if path.name.startswith("0"):
            (root / path.name).write_bytes(path.read_bytes())
    out = str(tmp_path / "out")
    result = build(root.parent, out, "--reveal")
    assert result.findings == 0
    content = b"".join(path.read_bytes() for path in sorted(root.glob("*.log")))
    batches = list(committed_batches(content))
    tables = all_rows(spark, out)
    for batch in batches[:: max(1, len(batches) // 60)]:
        assert_equal_at(tables, image_at(batches, batch.end_offset), batch.end_offset)


def test_a_log_without_its_beginning_starts_at_a_snapshot(spark, tmp_path):
    root = tmp_path / "in" / "__cluster_metadata-0"
    root.mkdir(parents=True)
    for path in (GOLDEN / "static-4.3.1").iterdir():
        if path.name.startswith("0") and path.name[:20] != "0" * 20 and "0103-" not in path.name:
            (root / path.name).write_bytes(path.read_bytes())
    out = str(tmp_path / "out")
    result = build(root.parent, out, "--reveal")
    assert result.counters["start_offset"] == 209
    assert result.findings == 0
    content = b"".join(p.read_bytes() for p in sorted((GOLDEN / "static-4.3.1").glob("*.log")))
    batches = list(committed_batches(content))
    tables = all_rows(spark, out)
    for end in (209, 300, 500, 671):
        assert_equal_at(tables, image_at(batches, end), end)
    with pytest.raises(BadInputError, match="offset 208 is outside the history: 209 to 671"):
        history_query.as_of(spark, out, offset=208)


def test_a_changed_snapshot_is_a_finding(spark, tmp_path):
    from metadata.image import EMPTY
    from metadata.snapshot import encode_snapshot, snapshot_records

    log = RandomLog(4, 30)
    root = write_metadata_log(tmp_path / "in", log.content)
    parts = encode_snapshot(
        snapshot_records(EMPTY), level=21, epoch=1, last_contained_timestamp_ms=1, timestamp_ms=1
    )
    name = f"{log.offset:020d}-0000000001.checkpoint"
    (root / "__cluster_metadata-0" / name).write_bytes(b"".join(parts))
    out = tmp_path / "out"
    assert build(root, out).findings > 0
    row = pq.read_table(out / "findings").to_pylist()[0]
    assert (row["check"], row["side"], row["snapshot"]) == ("snapshot_mismatch", "history", name)


def test_as_of_time_ignores_a_clock_that_steps_back(spark, tmp_path):
    log = RandomLog(5, 60)
    out = str(tmp_path / "out")
    build(write_metadata_log(tmp_path / "in", log.content), out)
    batches = list(committed_batches(log.content))
    moment = batches[20].timestamp_ms
    late = next(b for b in batches if b.timestamp_ms > moment and b.records)
    ts = datetime.fromtimestamp(moment / 1000, UTC)
    assert history_query.resolve(out, ts=ts) == late.base_offset
