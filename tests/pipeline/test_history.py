"""The history without Spark: choice of the log, transactions, answers, pictures."""

import csv
import gc
import itertools
import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from metadata import records as m
from metadata.record_codec import encode
from pipeline import pictures
from pipeline.cli import main
from pipeline.core.errors import BadInputError, DataLossError
from pipeline.core.reading.reader import plan_read
from pipeline.jobs.history import check as history_check
from pipeline.jobs.history import figures as history_figures
from pipeline.jobs.history import query as history_query
from pipeline.jobs.history.events import HIDDEN, EventPlan, write_events
from pipeline.jobs.history.fold import min_isr_ranges
from pipeline.jobs.history.input import (
    Marker,
    choose_log,
    log_options,
    merge_scans,
    scan_pieces,
    transactions_of,
)
from pipeline.jobs.history.sink import EventSink
from tests.pipeline.local_fold import fold_here
from tests.pipeline.metadata_histories import RandomLog, write_metadata_log
from tests.pipeline.segments import batch

GOLDEN = Path(__file__).parent.parent / "golden" / "metadata"
LOGS = Path(__file__).parent.parent / "golden" / "pipeline" / "broker-101-compacted-1"
NOON = datetime(2026, 11, 17, 12, 0, tzinfo=UTC)
BEGIN, END, ABORT = 23, 24, 25


def copy_golden(root, scenario, keep):
    folder = root / "__cluster_metadata-0"
    folder.mkdir(parents=True)
    for path in (GOLDEN / scenario).iterdir():
        if path.name.startswith("0") and keep(path.name):
            shutil.copy(path, folder)
    return root


def test_the_log_starts_at_its_beginning_or_at_the_oldest_usable_snapshot(tmp_path):
    whole = copy_golden(tmp_path / "a", "static-4.3.1", lambda name: True)
    choice = choose_log([str(whole)])
    assert (choice.start, choice.end, choice.seed) == (0, 671, None)
    assert [one.base_offset for one in choice.others] == [103, 209, 340, 487, 607]
    late = copy_golden(tmp_path / "b", "static-4.3.1", lambda name: "0000.log" not in name)
    choice = choose_log([str(late)])
    assert (choice.start, choice.seed.base_offset) == (209, 209)
    bare = copy_golden(tmp_path / "c", "static-4.3.1",
                       lambda name: name.endswith(".log") and "0000.log" not in name)  # fmt: skip
    with pytest.raises(BadInputError, match="starts at offset 182 and no snapshot"):
        choose_log([str(bare)])
    # of two copies the one that reaches back further
    assert choose_log([str(late), str(whole)]).start == 0
    with pytest.raises(DataLossError, match="offsets from 100 on are gone"):
        choose_log([str(late)], continue_at=100)
    # an archive that knows more than the log
    assert choose_log([str(whole)], continue_at=671).start == 671
    with pytest.raises(DataLossError, match="ends at offset 671, the archive at 672: the log was"):
        choose_log([str(whole)], continue_at=672)


def test_snapshots_above_the_end_take_nothing_of_the_limit(tmp_path, monkeypatch):
    root = copy_golden(tmp_path / "a", "static-4.3.1", lambda name: True)
    fold_here(root, tmp_path, 1, 1000)
    snapshots = choose_log([str(root)]).others
    sizes = {file.base_offset: file.size for file in snapshots}
    limit = sizes[340] + sizes[209]
    monkeypatch.setattr(history_check, "_COMPARED_BYTES_MAX", limit)

    def agreeing(end):
        compared = history_check.compare_snapshots(
            snapshots, tmp_path / "out", tmp_path / "compared", end, reveal=False
        )
        assert compared.rows == []
        return [int(name[:20]) for name in compared.agreeing]

    assert agreeing(340) == [340, 209]
    assert agreeing(339) == [209, 103]
    monkeypatch.setattr(history_check, "_COMPARED_BYTES_MAX", limit - 1)
    assert agreeing(340) == [340]


def test_no_metadata_log_is_bad_input(tmp_path, capsys):
    (tmp_path / "orders-0").mkdir()
    command = ["history", "--input", str(tmp_path), "--output", str(tmp_path / "out")]
    assert main(command) == 2
    assert "no segments of __cluster_metadata" in capsys.readouterr().err


def test_transactions_from_markers():
    def marker(offset, kind):
        return Marker(offset, offset - 1, kind, None)

    ended, begin = transactions_of([marker(3, BEGIN), marker(9, ABORT), marker(12, BEGIN)])
    assert [(one.begin, one.end, one.is_aborted) for one in ended] == [(3, 9, True)]
    assert begin == 12
    with pytest.raises(BadInputError, match="begins inside that of offset 3"):
        transactions_of([marker(3, BEGIN), marker(4, BEGIN)])
    with pytest.raises(BadInputError, match="ends that never began"):
        transactions_of([marker(4, END)])


def decoded(root, tmp_path, **more):
    """The events and the archive of a log."""
    choice = choose_log([str(root)])
    options = log_options(choice)
    packs = plan_read(options).packs
    scanned = merge_scans(scan_pieces(pack, options) for pack in packs)
    ended, _ = transactions_of(scanned.markers)
    plan = EventPlan(events=str(tmp_path / "events"), archive=str(tmp_path / "archive"),
                     transactions=tuple(ended), **more)  # fmt: skip
    counts = [write_events(pack, options, plan) for pack in packs]
    return scanned, counts, pq.read_table(tmp_path / "archive" / "records").to_pylist()


def test_the_archive_marks_aborted_records_and_drops_no_ops(tmp_path):
    log = RandomLog(1, 60)
    scanned, counts, rows = decoded(write_metadata_log(tmp_path / "in", log.content), tmp_path)
    assert scanned.end_offset == log.offset
    assert len(rows) + scanned.no_ops + len(scanned.leaders) == scanned.records
    aborted = [row for row in rows if row["aborted"]]
    assert aborted
    assert all(row["txn_id"] <= row["offset"] for row in aborted)
    frame = {"BEGIN_TRANSACTION_RECORD", "ABORT_TRANSACTION_RECORD"}
    assert len([row for row in aborted if row["api_name"] not in frame]) <= sum(
        one.aborted for one in counts
    )


def test_decoding_runs_without_the_collector_which_is_then_as_before(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(EventSink, "publish", lambda _: seen.append(gc.isenabled()))
    root = write_metadata_log(tmp_path / "in", RandomLog(1, 5).content)
    plan = EventPlan(events=str(tmp_path / "events"), archive=None)
    options = log_options(choose_log([str(root)]))
    for begins_with in (gc.enable, gc.disable):
        begins_with()
        try:
            write_events(plan_read(options).packs[0], options, plan)
            seen.append(gc.isenabled())
        finally:
            gc.enable()
    assert seen == [False, True, False, False]


def test_a_record_of_fewer_than_two_bytes_is_unknown(tmp_path):
    values = [b"", b"\1", encode(m.NoOpRecord(), 0), encode(m.NoOpRecord(), 0)[:2]]
    root = write_metadata_log(tmp_path / "in", batch(0, values))
    _, (counts,), rows = decoded(root, tmp_path)
    assert (counts.records, counts.unknown) == (2, 2)
    assert [(row["offset"], row["unknown"]) for row in rows] == [(0, True), (1, True)]


@pytest.mark.parametrize("reveal", [False, True])
def test_secrets_are_in_no_file_unless_revealed(tmp_path, reveal):
    from metadata import record_codec
    from wire.batches.batch import encode_batch

    secret = m.UserScramCredentialRecord(
        name="a", mechanism=1, salt=b"salt-of-a", stored_key=b"key-of-a", server_key=b"k",
        iterations=4096,
    )  # fmt: skip
    config = m.ConfigRecord(
        resource_type=m.CONFIG_BROKER, resource_name="1", name="ssl.keystore.password", value="pw-1"
    )
    values = [record_codec.encode(one, 0) for one in (secret, config)]
    root = write_metadata_log(tmp_path / "in", encode_batch(values, 0, 1, 1))
    _, _, rows = decoded(root, tmp_path, reveal=reveal)
    events = pq.read_table(tmp_path / "events" / "keyed").to_pylist()
    text = str(rows) + str(events)
    assert ("pw-1" in text) is reveal
    assert ("c2FsdC1vZi1h" in text) is reveal
    assert (HIDDEN in text) is not reveal


def finished(root):
    """A small history written by hand."""

    def write(name, rows):
        (root / name).mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows), root / name / "part.parquet")

    state = {"topic_id": "T", "topic": "orders", "partition": 3, "replicas": [1, 2]}
    first = state | {"leader": 1, "leader_epoch": 0, "isr": [1, 2], "valid_from_offset": 4,
                     "valid_from_ts": NOON, "valid_to_offset": 9,
                     "valid_to_ts": NOON + timedelta(hours=1)}  # fmt: skip
    second = first | {"leader": 2, "leader_epoch": 1, "isr": [2], "valid_from_offset": 9,
                      "valid_from_ts": NOON + timedelta(hours=1), "valid_to_offset": None,
                      "valid_to_ts": None}  # fmt: skip
    write("partitions", [first, second])
    change = {"ts": NOON + timedelta(hours=1), "offset": 9, "topic_id": "T", "topic": "orders",
              "partition": 3, "from": 1, "to": 2, "epoch": 1, "kind": "failover",
              "ms_without_leader": None, "cause_offset": 9, "controller_epoch": 5}  # fmt: skip
    write("leader_changes", [change])
    write("controller_epochs", [{"epoch": 5, "leader": 7, "start_offset": 0, "end_offset": None}])
    span = {"topic": "orders", "partition": 3, "leader": 2, "missing": [1], "below_min_isr": True,
            "from_ts": NOON + timedelta(hours=1), "to_ts": None}  # fmt: skip
    write("under_replicated", [span])
    records = [{"offset": n, "batch_offset": n - n % 2, "seed": False,
                "ts": NOON + timedelta(minutes=10 * n)} for n in range(4, 10)]  # fmt: skip
    table = pa.Table.from_pylist(records)
    (root / "records").mkdir()
    pq.write_table(table.cast(pa.schema(
        [table.schema.field(0), table.schema.field(1), table.schema.field(2),
         pa.field("ts", pa.timestamp("us", "UTC"))]
    )), root / "records" / "part.parquet")  # fmt: skip
    (root / "state" / "keyed").mkdir(parents=True)
    (root / "run.json").write_text(
        '{"counters": {"start_offset": 0, "end_offset": 10, "log_end_offset": 10,'
        ' "intra_batch": 0}}'
    )
    (root / "_SUCCESS").touch()
    return str(root)


def test_who_led_and_why(tmp_path, capsys):
    root = finished(tmp_path / "h")
    command = ["history", "--input", root, "--who-led", "orders-3"]
    assert main([*command, "--output", str(tmp_path / "out"), "--at", "2026-11-17T12:55"]) == 0
    out = capsys.readouterr().out
    assert "orders-3 was led by broker 1 (leader epoch 0, in sync: 1, 2)" in out
    assert "until Tue 2026-11-17 13:00:00.000 UTC (offset 9), then by broker 2: failover" in out
    assert "active controller was node 7" in out
    later = history_query.who_led(root, "orders-3")
    assert (later["leader"], later["since"]["kind"], later["until"]) == (2, "failover", None)
    # half a batch is never seen: 9 lies inside the batch of 8 and 9
    assert history_query.resolve(root, offset=9) == 8
    inside = history_query.who_led(root, "orders-3", offset=9)
    assert inside["at_offset"] == 8
    assert "as of offset 8, where the batch begins that holds 8 and 9; " in inside["text"]
    assert "as of" not in history_query.who_led(root, "orders-3", offset=8)["text"]


def test_as_of_says_for_which_offset_it_answers(tmp_path, monkeypatch):
    class Rows:
        """A DataFrame, as far as it is asked."""

        def where(self, condition):
            assert "valid_from_offset < 8 " in condition
            return self

        def createOrReplaceTempView(self, name):  # noqa: N802  # Spark's name
            assert name.endswith("_asof")

    monkeypatch.setattr(history_query, "table", lambda *_: Rows())
    assert history_query.as_of(None, finished(tmp_path / "h"), offset=9).offset == 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--who-led", "orders"], "give TOPIC-N"),
        (["--who-led", "orders-²"], "give TOPIC-N"),
        (["--who-led", "orders-3", "--at", "²"], "--at is '²'; give an offset or a time"),
        (["--follow", "-1"], "--follow is -1.0, allowed: 0 to 604800 seconds"),
        (["--follow", "nan"], "--follow is nan, allowed: 0 to 604800 seconds"),
        (["--follow", "604800.5"], "--follow is 604800.5, allowed: 0 to 604800 seconds"),
        (["--who-led", "orders-4"], "orders-4 did not exist at offset 10"),
        (["--who-led", "orders-3", "--at", "yesterday"], "--at is 'yesterday'"),
        (
            ["--who-led", "orders-3", "--at", "2026-11-13T12:00"],
            "Fri 2026-11-13 12:00:00.000 UTC lies before the history, whose first record is of Tue",
        ),
        (["--who-led", "orders-3", "--at", "11"], "offset 11 is outside the history: 0 to 10"),
    ],
)
def test_a_question_that_has_no_answer(tmp_path, capsys, arguments, message):
    root = finished(tmp_path / "h")
    assert main(["history", "--input", root, "--output", "o", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_history_continues_after_pauses_of_up_to_a_week(tmp_path, capsys):
    command = ["history", "--input", str(tmp_path), "--output", "o", "--follow"]
    for seconds in ("0", "604800"):
        assert main([*command, seconds]) == 2
        assert "no segments of __cluster_metadata" in capsys.readouterr().err


def test_min_isr_of_topics_and_of_the_cluster(tmp_path):
    """A value of one broker, or that is no number, stands in the log but not in a report."""
    configs = [(2, "orders", "2"), (4, "", "1"), (4, "7", "3"), (2, "users", "²"), (4, "8", "x")]
    rows = [
        {"resource_type": kind, "resource": resource, "name": "min.insync.replicas",
         "value": value, "valid_from_offset": 5, "valid_to_offset": None}
        for kind, resource, value in configs
    ]  # fmt: skip
    (tmp_path / "configs").mkdir()
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "configs" / "part-0.parquet")
    assert min_isr_ranges([tmp_path]) == [("orders", 5, None, 2), ("", 5, None, 1)]


def test_the_page_and_its_pictures(tmp_path, capsys):
    page = tmp_path / "page"
    root = finished(tmp_path / "h")
    assert main(["history", "--input", str(root), "--report", str(page), "--logs", str(LOGS)]) == 0
    assert f"report: {page}/index.html\n" in capsys.readouterr().err
    names = ["append_lag", "batch_sizes", "compaction", "leaders", "under_replication"]
    assert sorted(path.name for path in page.iterdir()) == sorted(
        ["index.html", *(f"{n}.csv" for n in names), *(f"{n}.png" for n in names)]
    )
    for name in names:
        assert (page / f"{name}.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        assert len((page / f"{name}.csv").read_text().splitlines()) > 1, name
    text = (page / "index.html").read_text()
    assert text.count("data:image/png;base64,") == 5
    assert "Tue 2026-11-17 13:00:00" in text
    leaders = (page / "leaders.csv").read_text().splitlines()
    assert leaders[1].startswith("orders,3,1,0,1 2,1 2,2026-11-17T12:00:00+00:00")


@pytest.mark.long
def test_the_page_of_a_finished_history_finds_the_logs_it_was_fed_from(tmp_path):
    logs = tmp_path / "logs"
    shutil.copytree(LOGS, logs / LOGS.name)
    root, page = finished(tmp_path / "h"), tmp_path / "page"
    run = json.loads((tmp_path / "h" / "run.json").read_text())
    fed = {"inputs": [{"path": str(next(logs.rglob("*.log"))), "frozen_size": 1}]}
    for more in ({"paths": [str(logs)]}, fed):
        (tmp_path / "h" / "run.json").write_text(json.dumps(run | more))
        assert main(["history", "--input", root, "--report", str(page)]) == 0
        for name in ("append_lag", "batch_sizes", "compaction"):
            assert len((page / f"{name}.csv").read_text().splitlines()) > 1, name
    logs.rename(tmp_path / "moved")
    assert main(["history", "--input", root, "--report", str(page)]) == 0
    text = (page / "index.html").read_text()
    assert text.count("are not there any more; name copies with --logs") == 3
    assert "There is nothing of it in this input" not in text
    moved = ["--logs", str(tmp_path / "moved")]
    assert main(["history", "--input", root, "--report", str(page), *moved]) == 0
    assert len((page / "batch_sizes.csv").read_text().splitlines()) > 1


def write_table(root, name, rows):
    (root / name).mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), root / name / "part.parquet")


def test_a_partition_is_without_leader_only_while_it_was(tmp_path):
    """Replicas are missing for an hour, in which one second has no leader."""
    at = [NOON + timedelta(seconds=second) for second in (0, 60, 61, 3600)]
    states = [
        {"topic": "a", "partition": 0, "leader": leader, "valid_from_ts": start, "valid_to_ts": end}
        for leader, start, end in zip((1, -1, 2, -1), at, [*at[1:], None], strict=True)
    ]
    write_table(tmp_path, "partitions", states)
    span = {"from_ts": at[0], "to_ts": at[3], "below_min_isr": True, "leader": -1}
    write_table(tmp_path, "under_replicated", [span])
    found = history_figures.levels(str(tmp_path), NOON + timedelta(hours=2))
    assert [tuple(point.values()) for point in found] == [
        (at[0], 1, 1, 0), (at[1], 1, 1, 1), (at[2], 1, 1, 0), (at[3], 0, 0, 1),
        (NOON + timedelta(hours=2), 0, 0, 0),
    ]  # fmt: skip


def test_levels_of_many_moments_keep_every_peak(tmp_path):
    """40,000 spans of 1 ms, some side by side; then quiet; then one more."""
    rng = np.random.default_rng(7)
    starts = [*np.sort(rng.integers(0, 3_000_000, 40_000)).tolist(), 9_000_000]
    spans = [{"from_ts": NOON + timedelta(milliseconds=ms), "below_min_isr": False,
              "to_ts": NOON + timedelta(milliseconds=ms + 1)} for ms in starts]  # fmt: skip
    write_table(tmp_path, "under_replicated", spans)
    found = history_figures.levels(str(tmp_path), None)
    assert len(found) <= pictures.POINTS_MAX
    times = [point["ts"] for point in found]
    assert times == sorted(times)
    values = np.array([point["under_replicated"] for point in found])
    shown = np.array([(ts - NOON) // timedelta(milliseconds=1) for ts in times])
    exact = np.bincount(starts)
    for moment in np.flatnonzero(exact).tolist():
        assert values[np.searchsorted(shown, moment, "right") - 1] >= exact[moment]
    assert values.max() == exact.max()
    quiet = np.searchsorted(shown, 5_000_000) - 1
    assert (values[quiet], values[-1]) == (0, 0)


def test_a_partition_that_changed_very_often_has_its_states_put_together(tmp_path):
    def state(number, start, end, leader, isr):
        return {"topic": "a", "partition": number, "leader": leader, "leader_epoch": start,
                "isr": isr, "replicas": [1, 2], "valid_from_offset": start,
                "valid_from_ts": NOON + timedelta(seconds=start),
                "valid_to_ts": None if end is None else NOON + timedelta(seconds=end)}  # fmt: skip

    busy = [state(0, 3 * n, 3 * n + 1, 1, [1]) for n in range(5000)]
    busy += [state(0, 3 * n + 1, 3 * n + 3, 2, [1, 2]) for n in range(5000)]
    write_table(tmp_path, "partitions", [*busy, state(1, 7, None, 2, [2])])
    end = NOON + timedelta(seconds=15_000)
    *merged, calm = history_figures.busiest_states(str(tmp_path), NOON, end)
    assert (calm["topic"], calm["partition"], calm["states"]) == ("a", 1, 1)
    assert (calm["valid_to_ts"], calm["isr"], calm["leader"]) == (None, [2], 2)
    assert len(merged) == 1000
    assert sum(row["states"] for row in merged) == 10_000
    assert (merged[0]["valid_from_ts"], merged[-1]["valid_to_ts"]) == (NOON, end)
    for before, after in itertools.pairwise(merged):
        assert before["valid_to_ts"] == after["valid_from_ts"]
        assert (before["leader"], before["isr"], before["replicas"]) == (2, [1], [1, 2])


def test_a_csv_has_the_smallest_topics_together_and_loses_nothing(tmp_path):
    rows = [{"topic": f"t{n}", "codec": "none", "bucket": 64, "batches": n % 7, "bytes": n}
            for n in range(pictures.POINTS_MAX + 5)]  # fmt: skip
    pictures.batch_sizes(rows, tmp_path)
    with (tmp_path / "batch_sizes.csv").open() as file:
        found = list(csv.DictReader(file))
    assert len(found) <= pictures.POINTS_MAX
    assert found[-1]["topic"] == "(others)"
    for name in ("batches", "bytes"):
        assert sum(int(row[name]) for row in found) == sum(row[name] for row in rows)
    plan = [{"topic": "one", "partition": n % 3, "node_id": 1, "segment": str(n), "action": "clean",
             "bytes_before": 10, "bytes_after": 4, "records_before": 2, "records_after": 1}
            for n in range(pictures.POINTS_MAX + 5)]  # fmt: skip
    pictures.compaction_picture(plan, tmp_path)
    with (tmp_path / "compaction.csv").open() as file:
        found = list(csv.DictReader(file))
    assert sorted(row["partition"] for row in found) == ["0", "1", "2"]
    assert sum(int(row["bytes_after"]) for row in found) == 4 * len(plan)


def test_a_picture_of_nothing_says_so(tmp_path):
    assert pictures.batch_sizes([], tmp_path).is_empty
    assert (tmp_path / "batch_sizes.csv").read_text() == "topic,codec,bucket,batches,bytes\n"
