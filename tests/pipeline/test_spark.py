"""The source through Spark: the same rows as the single-process reader, streams exactly once."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.core.reading.options import parse_options
from pipeline.core.reading.reader import read_table
from tests.pipeline.segments import (
    GOLDEN,
    batch,
    dump_lines,
    write_high_watermark,
    write_partition,
)
from tests.pipeline.test_golden import COLUMNS, DATA, golden_text, printed_files

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
ROOT = Path(__file__).resolve().parent.parent.parent


def load(spark: object, path: Path, **options: str) -> object:
    return spark.read.format("kraft-log").options(**options).load(str(path))


def ordered(table: object) -> object:
    return table.sort_by([("segment", "ascending"), ("offset", "ascending")])


PARTITIONS = sorted(path.stem for path in (DATA / "dump").iterdir())


# The transaction log is printed decoded: the single-process reader is compared with that.
@pytest.mark.parametrize("partition", [p for p in PARTITIONS if not p.startswith("__transaction")])
def test_partitions_equal_the_dump_of_kafka(spark: object, partition: str) -> None:
    printed = printed_files(golden_text(DATA / "dump" / f"{partition}.txt"))
    batches = load(spark, DATA / partition, decode="metadata").toArrow()
    columns = COLUMNS.format(value="value")
    records = load(spark, DATA / partition, columns=columns, includeControl="true").toArrow()
    for name, lines in printed.items():
        segment = name.rpartition("/")[2]
        mine = [table.filter(of(table, segment)) for table in (batches, records)]
        assert dump_lines(mine[0].sort_by("position"), mine[1].sort_by("offset")) == lines


def of(table: object, segment: str) -> object:
    import pyarrow.compute

    return pyarrow.compute.equal(table["segment"], segment)


@pytest.mark.parametrize("decode", ["records", "json", "metadata", "raw"])
def test_every_decode_mode_equals_the_single_process_reader(spark: object, decode: str) -> None:
    path = GOLDEN / "metadata-log" / "static-4.3.1" / "n1"
    options = {
        "decode": decode, "includeControl": "true", "includeSnapshots": "true",
        "mode": "PERMISSIVE", "maxSplitBytes": "8000", "openCostBytes": "1",
    }  # fmt: skip
    expected = read_table(parse_options({"path": str(path)} | options))
    frame = load(spark, path, **options)
    assert frame.rdd.getNumPartitions() > 3
    found = frame.toArrow()
    assert found.schema.names == expected.schema.names
    keys = [("segment", "ascending")]
    keys.append(("offset" if "offset" in expected.schema.names else "position", "ascending"))
    assert found.sort_by(keys).to_pylist() == expected.sort_by(keys).to_pylist()


def test_columns_by_schema_option_and_sql(spark: object, tmp_path: Path) -> None:
    write_partition(tmp_path, [batch(0, [b"a", b"b"])])
    frame = spark.read.format("kraft-log").schema("offset bigint, value binary")
    assert [tuple(row) for row in frame.load(str(tmp_path)).collect()] == [(0, b"a"), (1, b"b")]
    kafka = load(spark, tmp_path, columns="kafka")
    assert kafka.columns == ["key", "value", "topic", "partition", "offset", "timestamp",
                             "timestampType"]  # fmt: skip
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW log USING `kraft-log` OPTIONS (path '{tmp_path}')")
    assert spark.sql("SELECT max(offset) FROM log").collect()[0][0] == 1


def test_several_paths_and_an_empty_directory(spark: object, tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_partition(tmp_path / name, [batch(0)])
    (tmp_path / "empty").mkdir()
    reader = spark.read.format("kraft-log")
    both = [str(tmp_path / "a"), str(tmp_path / "b")]
    assert reader.load(both).count() == 1, "the copies of one partition"
    assert reader.option("replicas", "all").load(both).count() == 2
    assert reader.load(str(tmp_path / "empty")).count() == 0


@pytest.mark.parametrize(
    ("schema", "options", "message"),
    [
        (None, {"columns": "nope"}, "column 'nope' does not exist"),
        (None, {"frob": "1"}, "option 'frob' is unknown"),
        ("offset string", {}, "column offset is bigint, not string"),
        ("_corrupt_batch string", {}, "needs mode=PERMISSIVE"),
    ],
)
def test_bad_input_is_named(spark: object, tmp_path: Path, schema, options, message) -> None:
    reader = spark.read.format("kraft-log").options(**options)
    if schema is not None:
        reader = reader.schema(schema)
    with pytest.raises(Exception, match=message):
        reader.load(str(tmp_path)).count()


def test_modes_on_damage(spark: object, tmp_path: Path) -> None:
    bad = bytearray(batch(1))
    bad[70] ^= 1
    write_partition(tmp_path, [batch(0), bytes(bad), batch(2)])
    with pytest.raises(Exception, match=r"00\.log:\d+ \(base offset 1\): bad_crc"):
        load(spark, tmp_path).collect()
    rows = load(spark, tmp_path, mode="PERMISSIVE").select("offset", "_corrupt_batch.reason")
    assert sorted(map(tuple, rows.collect()), key=str) == [(0, None), (2, None), (None, "bad_crc")]
    errors = tmp_path / "errors"
    frame = load(spark, tmp_path / "orders-0", mode="DROPMALFORMED", errorsPath=str(errors))
    assert frame.count() == 2
    assert [json.loads(x.read_text())["reason"] for x in errors.iterdir()] == ["bad_crc"]


def start_query(spark: object, root: Path, out: Path, **options: str) -> object:
    frame = spark.readStream.format("kraft-log").options(**options).load(str(root))
    writer = frame.select("topic", "partition", "offset", "value").writeStream.format("parquet")
    writer = writer.option("checkpointLocation", str(out / "checkpoint")).option(
        "path", str(out / "rows")
    )
    return writer.trigger(availableNow=True).start()


def rows_written(spark: object, out: Path) -> list[int]:
    frame = spark.read.parquet(str(out / "rows"))
    return sorted(row["offset"] for row in frame.select("offset").collect())


def test_a_stream_reads_to_the_high_watermark_and_goes_on(spark: object, tmp_path: Path) -> None:
    root, out = tmp_path / "log", tmp_path / "out"
    path = write_partition(root, [batch(i) for i in range(8)])
    write_high_watermark(root, 6)
    query = start_query(spark, root, out, maxOffsetsPerTrigger="4")
    query.awaitTermination(120)
    assert rows_written(spark, out) == list(range(6))
    assert len([p for p in query.recentProgress if p["numInputRows"]]) == 2
    with path.open("ab") as file:
        file.write(batch(8, [b"v"] * 4))
    write_high_watermark(root, 12)
    start_query(spark, root, out).awaitTermination(120)
    assert rows_written(spark, out) == list(range(12))


def replace(path: Path) -> None:
    path.write_bytes(b"".join(batch(i, epoch=2) for i in range(9)))


def cut(path: Path) -> None:
    path.write_bytes(b"".join(batch(i, epoch=1) for i in range(4)))


def retain(path: Path) -> None:
    """Also records that were not read yet are gone."""
    path.unlink()
    write_partition(path.parent.parent, [batch(i) for i in range(8, 12)], base_offset=8)


def recreate(path: Path) -> None:
    write_partition(path.parent.parent, [batch(i) for i in range(9)], topic_id="A" * 21 + "g")


def delete(path: Path) -> None:
    shutil.rmtree(path.parent)
    write_partition(path.parent.parent, [batch(0)], name="other-0")


# what happens to the log, what the query says, and what a query that may skip has read at the end
GUARDED = [
    (replace, "has leader epoch 2, not 1", [6, 7, 8]),
    (cut, "offset 6 is above the log.s end 4: truncation", []),
    (retain, "below the log's start 8: retention", [8, 9, 10, 11]),
    (recreate, "another topic of this name", list(range(9))),
    (delete, "the partition is gone", [0]),
]


@pytest.mark.parametrize(
    ("change", "message", "after"), GUARDED, ids=[change.__name__ for change, *_ in GUARDED]
)
def test_a_stream_whose_log_is_not_what_it_was_stops_or_tells(
    spark: object, tmp_path: Path, change, message: str, after: list[int]
) -> None:
    root, out = tmp_path / "log", tmp_path / "out"
    path = write_partition(root, [batch(i, epoch=1) for i in range(6)])
    start_query(spark, root, out, upTo="logEnd").awaitTermination(120)
    change(path)
    query = start_query(spark, root, out, upTo="logEnd")
    with pytest.raises(Exception, match=message):
        query.awaitTermination(120)
    assert rows_written(spark, out) == list(range(6))
    errors = tmp_path / "errors"
    lenient = {"failOnDataLoss": "false", "errorsPath": str(errors)}
    start_query(spark, root, out, upTo="logEnd", **lenient).awaitTermination(120)
    assert rows_written(spark, out) == sorted([*range(6), *after])
    assert [json.loads(line)["reason"] for path in errors.iterdir()
            for line in path.read_text().splitlines()]  # fmt: skip


def test_a_stream_of_the_metadata_log_as_json(spark: object, tmp_path: Path) -> None:
    """Up to what a majority of the three voters' folders holds; the rows of a batch read."""
    root = tmp_path / "cluster"
    source = GOLDEN / "metadata-log" / "static-4.3.1" / "n1" / "__cluster_metadata-0"
    for number in (1, 2):
        home = root / f"n{number}"
        shutil.copytree(source, home / source.name)
        text = f"version=1\nnode.id={number}\ncluster.id=c\n"
        (home / "meta.properties").write_text(text)
    columns = "offset,json,apiName"
    frame = spark.readStream.format("kraft-log").options(decode="json", columns=columns)
    query = frame.load(str(root)).writeStream.format("memory").queryName("metadata_as_json")
    query.trigger(availableNow=True).start().awaitTermination(120)
    rows = spark.sql(f"SELECT {columns} FROM metadata_as_json ORDER BY offset").collect()
    one = {"path": str(root / "n1"), "decode": "json", "columns": columns}
    expected = read_table(parse_options(one)).to_pylist()
    assert [row.asDict() for row in rows] == expected
    assert len(rows) > 600


def test_a_stream_over_damage_and_over_a_log_that_was_cut_at_its_start(
    spark: object, tmp_path: Path
) -> None:
    root = tmp_path / "log"
    bad = bytearray(batch(5))
    bad[16] = 9  # the magic: no batch is seen there
    write_partition(root, [*map(batch, range(5)), bytes(bad), batch(6)])
    write_partition(root, [batch(7), batch(8)], base_offset=7)
    write_high_watermark(root, 9)
    (root / "log-start-offset-checkpoint").write_text("0\n1\norders 0 3\n")
    query = start_query(spark, root, tmp_path / "failfast")
    with pytest.raises(Exception, match=r"base offset 5\): bad_magic"):
        query.awaitTermination(120)
    frame = spark.readStream.format("kraft-log").options(mode="PERMISSIVE").load(str(root))
    query = frame.writeStream.format("memory").queryName("over_damage")
    query.trigger(availableNow=True).start().awaitTermination(120)
    rows = spark.sql("SELECT offset, _corrupt_batch.reason FROM over_damage").collect()
    assert sorted(map(tuple, rows), key=str) == [
        (3, None), (4, None), (6, None), (7, None), (8, None), (None, "bad_magic"),
    ]  # fmt: skip


KILLED = """
import sys
import pipeline
from pyspark.sql.streaming.listener import StreamingQueryListener

class Progress(StreamingQueryListener):
    def onQueryStarted(self, event): pass
    def onQueryIdle(self, event): pass
    def onQueryTerminated(self, event): pass
    def onQueryProgress(self, event): print("progress", event.progress.batchId, flush=True)

spark = pipeline.session("killed", "local[2]")
spark.streams.addListener(Progress())
frame = spark.readStream.format("kraft-log").options(upTo="logEnd", maxOffsetsPerTrigger="7")
frame = frame.load(sys.argv[1]).select("topic", "partition", "offset", "value")
writer = frame.writeStream.format("parquet").option("path", sys.argv[2] + "/rows")
writer = writer.option("checkpointLocation", sys.argv[2] + "/checkpoint")
writer.trigger(availableNow=True).start().awaitTermination()
print("finished", flush=True)
"""


def test_exactly_once_across_kills_of_the_query(spark: object, tmp_path: Path) -> None:
    """Python and the JVM are killed while the micro-batch after the one reported is under way."""
    root, out = tmp_path / "log", tmp_path / "out"
    path = write_partition(root, [batch(i * 3, [b"v"] * 3) for i in range(20)])
    for attempt, kill_after in enumerate((0, 3)):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(root), str(out)],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            start_new_session=True,
        )  # fmt: skip
        for line in process.stdout:
            assert line.strip() != "finished"
            if line.strip() == f"progress {kill_after}":
                break
        os.killpg(process.pid, signal.SIGKILL)
        process.stdout.close()
        process.wait()
        with path.open("ab") as file:
            file.write(batch(60 + 3 * attempt, [b"v"] * 3))
    start_query(spark, root, out, upTo="logEnd").awaitTermination(120)
    assert rows_written(spark, out) == list(range(66))


def test_scan_of_the_jobs_equals_the_source(spark: object) -> None:
    from pipeline.sources.scan import spark_scan

    options = parse_options({"path": str(DATA), "maxSplitBytes": "20000", "openCostBytes": "1"})
    frame = spark_scan(spark, options)
    assert frame.rdd.getNumPartitions() > 2
    keys = [("topic", "ascending"), ("segment", "ascending"), ("offset", "ascending")]
    found, expected = frame.toArrow(), read_table(options)
    assert found.sort_by(keys).to_pylist() == expected.sort_by(keys).to_pylist()


def test_export_through_spark_equals_export_in_process(spark: object, tmp_path: Path) -> None:
    from pipeline.cli import main

    names = []
    for flag in ("--spark", "--json"):
        out = tmp_path / flag
        command = ["export", "--input", str(DATA / "txn-0"), "--output", str(out), flag]
        assert main([*command, "--master", "local[2]"]) == 0
        data = sorted(path.relative_to(out) for path in (out / "data").rglob("*.parquet"))
        names.append([(str(path), spark.read.parquet(str(out / path)).count()) for path in data])
    assert names[0] == names[1]


def test_planned_partitions_live_as_long_as_the_frame(spark: object, tmp_path: Path) -> None:
    """Canary: Spark 4.3 lists once per load(); when this fails, documentation can be simplified."""
    path = write_partition(tmp_path, [batch(0)])
    frame = load(spark, tmp_path)
    assert frame.count() == 1
    path.write_bytes(batch(0) + batch(1))
    assert frame.count() == 1
    assert load(spark, tmp_path).count() == 2


def test_the_format_is_found_without_registration(spark: object, tmp_path: Path) -> None:
    """Another session of the same context knows nothing; Spark finds `pyspark_kraft_log`."""
    write_partition(tmp_path, [batch(0)])
    fresh = spark.newSession()
    assert fresh.read.format("kraft-log").load(str(tmp_path)).count() == 1


def test_committed_readers_and_splits(spark: object) -> None:
    options = {"isolation": "read_committed", "maxSplitBytes": "1000", "openCostBytes": "1"}
    expected = read_table(parse_options({"path": str(DATA / "txn-0")} | options))
    frame = load(spark, DATA / "txn-0", **options)
    assert frame.rdd.getNumPartitions() > 4
    assert frame.count() == expected.num_rows == 48


def test_a_filter_does_not_leak_into_the_next_use(spark: object) -> None:
    """No push-down, because in Spark 4.3 a pushed filter would stay with the DataFrame."""
    frame = load(spark, DATA / "java-perf-0", columns="offset")
    assert frame.filter("offset = 7").count() == 1
    assert frame.count() == 300
    both = frame.filter("offset = 1").union(frame.filter("offset = 2"))
    assert sorted(row[0] for row in both.collect()) == [1, 2]
