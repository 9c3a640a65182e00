"""Files of an export: what folders say is not in them; sizes; sorted rows."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from pipeline.cli import main
from pipeline.core.reading.options import parse_options
from pipeline.core.reading.reader import Piece, plan_read
from pipeline.jobs.export import files as export_files
from pipeline.jobs.export.files import SplitFiles, Target
from pipeline.jobs.export.plan import _size
from tests.pipeline.segments import batch, write_partition

DAY = 86_400_000


def export(root: Path, *flags: str) -> list[dict[str, Any]]:
    """Export a folder; the manifest."""
    out = root / "out"
    command = ["export", "--input", str(root / "in"), "--output", str(out), "--overwrite", *flags]
    assert main(command) == 0
    rows: list[dict[str, Any]] = pq.read_table(out / "manifest.parquet").to_pylist()
    return rows


def column(root: Path, row: dict[str, Any], name: str) -> list[Any]:
    found: list[Any] = pq.ParquetFile(root / "out/data" / row["file"]).read()[name].to_pylist()
    return found


def write_segments(root: Path, count: int, name: str = "orders-0") -> None:
    for at in range(count):
        write_partition(root / "in", [batch(at)], name=name, base_offset=at)


def test_folders_say_topic_and_partition_and_the_files_do_not(tmp_path: Path) -> None:
    write_segments(tmp_path, 1)
    write_segments(tmp_path, 1, "other-3")
    export(tmp_path, "--columns", "offset,topic,timestamp,partition", "--by", "date")
    for path in (tmp_path / "out/data").rglob("*.parquet"):
        assert pq.read_schema(path).names == ["offset", "timestamp"]
    table = ds.dataset(tmp_path / "out/data", partitioning="hive").to_table()
    found = sorted((row["topic"], row["partition"], row["date"]) for row in table.to_pylist())
    assert found == [("orders", 0, "2023-11-14"), ("other", 3, "2023-11-14")]


def test_a_folder_per_node_where_each_replica_is_written(tmp_path: Path) -> None:
    write_segments(tmp_path, 1)
    (one,) = export(tmp_path, "--replicas", "all")
    assert one["file"].startswith("topic=orders/partition=0/node=none/")
    (one,) = export(tmp_path)
    assert Path(one["file"]).parent == Path("topic=orders/partition=0")


def test_the_manifest_says_what_a_file_is_of(tmp_path: Path) -> None:
    write_segments(tmp_path, 3)
    (tmp_path / "in/meta.properties").write_text("version=1\ncluster.id=c\nnode.id=7\n")
    size = len(batch(0))
    every = export(tmp_path, "--columns", "value")
    assert [(row["segment"], row["last_segment"]) for row in every] == [
        (f"{at:020d}.log", f"{at:020d}.log") for at in range(3)
    ]
    assert every[0]["start_offset"] is every[0]["end_offset"] is None
    (row,) = export(tmp_path, "--decode", "metadata", "--target-file-size", "64k")
    assert (row["segment"], row["last_segment"]) == (f"{0:020d}.log", f"{2:020d}.log")
    assert (row["start"], row["end"], row["segment_bytes"], row["rows"]) == (0, size, size, 3)
    assert (row["start_offset"], row["end_offset"], row["node_id"]) == (0, 3, 7)
    alone = {one["crc_of_crcs"] for one in every}
    assert row["crc_of_crcs"] not in alone


def test_neighbours_share_a_file_up_to_its_size(tmp_path: Path) -> None:
    write_segments(tmp_path, 5)
    write_segments(tmp_path, 2, "other-0")
    size = len(batch(0))
    rows = export(tmp_path, "--target-file-size", str(2 * size), "--columns", "offset")
    found = [(row["topic"], column(tmp_path, row, "offset")) for row in rows]
    assert found == [("orders", [0, 1]), ("orders", [2, 3]), ("orders", [4]), ("other", [0, 1])]
    rows = export(tmp_path, "--target-file-size", str(2 * size - 1), "--columns", "offset")
    assert [row["rows"] for row in rows] == [1] * 7
    write_partition(tmp_path / "in", [batch(at) for at in range(4)], name="long-0")
    rows = export(tmp_path, "--target-file-size", str(2 * size), "--subscribe", "long")
    assert [row["rows"] for row in rows] == [2, 2]
    (tmp_path / "in/long-0" / f"{0:020d}.log").unlink()
    assert len(export(tmp_path)) == 7


def piece_of(root: Path) -> Piece:
    source = write_partition(root / "in", [batch(0)])
    ((piece,),) = plan_read(parse_options({"path": str(source.parent)})).packs
    return piece


def files_of(root: Path, **target: Any) -> SplitFiles:
    piece = piece_of(root)
    schema = pa.schema([("offset", pa.int64()), ("size", pa.int32())])
    return SplitFiles(Target(folder=str(root / "out"), **target), [piece], schema)


def rows_of(offsets: range, sizes: list[int] | None = None) -> pa.RecordBatch:
    numbers = pa.array(sizes or [0] * len(offsets), pa.int32())
    return pa.RecordBatch.from_arrays([pa.array(offsets, pa.int64()), numbers], ["offset", "size"])


def test_the_range_of_a_file_holds_rows_that_are_out_of_order(tmp_path: Path) -> None:
    """No checksum covers a base offset; a table's readers pass over files by their range."""
    files = files_of(tmp_path)
    for offsets in (range(50, 51), range(2, 4)):
        files.write(rows_of(offsets))
    (one,) = files.close()
    assert (one.start_offset, one.end_offset) == (2, 51)


def test_a_file_ends_when_it_has_its_size(tmp_path: Path) -> None:
    files = files_of(tmp_path, file_bytes=400)
    for at in range(0, 40, 10):  # 120 bytes in memory, more with what Parquet adds
        files.write(rows_of(range(at, at + 10)))
    written = files.close()
    assert len(written) == 2
    assert [one.rows for one in written] == [20, 20]
    assert [(one.start_offset, one.end_offset) for one in written] == [(0, 20), (20, 40)]
    names = [one.path.name for one in written]
    assert names[1] == names[0].replace(".parquet", "-1.parquet")
    found = pq.ParquetFile(written[0].path)
    assert found.metadata.num_row_groups == 2
    assert all(one.path.stat().st_size >= 400 for one in written)


def test_rows_are_sorted_in_each_file_and_equal_ones_stay_in_the_order_of_the_log(
    tmp_path: Path,
) -> None:
    files = files_of(tmp_path, sort=("size",))
    files.write(rows_of(range(3), [2, 1, 2]))
    files.write(rows_of(range(3, 6), [0, 1, 2]))
    (one,) = files.close()
    found = pq.ParquetFile(one.path)
    assert found.read()["offset"].to_pylist() == [3, 1, 4, 0, 2, 5]
    assert found.metadata.row_group(0).sorting_columns == (pq.SortingColumn(1),)
    assert (one.start_offset, one.end_offset) == (0, 6)


def test_sorted_files_have_a_size_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = files_of(tmp_path, sort=("size",), file_bytes=2 * rows_of(range(4)).nbytes)
    for at in range(0, 12, 4):
        files.write(rows_of(range(at, at + 4), [4, 3, 2, 1]))
    found = [pq.ParquetFile(one.path).read()["offset"].to_pylist() for one in files.close()]
    assert found == [[3, 7, 2, 6, 1, 5, 0, 4], [11, 10, 9, 8]]
    monkeypatch.setattr(export_files, "SORT_BYTES_MAX", 1)
    limited = files_of(tmp_path / "limited", sort=("size",))
    for at in range(2):
        limited.write(rows_of(range(at, at + 1)))
    assert [one.rows for one in limited.close()] == [1, 1]


def test_of_several_days_in_memory_the_largest_is_written_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = pa.schema([("offset", pa.int64()), ("timestamp", pa.timestamp("us", "UTC"))])

    def cut(folder: str, *sort: str) -> list[tuple[str, int]]:
        piece = piece_of(tmp_path)
        target = Target(folder=str(tmp_path / folder), date_column="timestamp", sort=sort)
        files = SplitFiles(target, [piece], schema)
        for at, day in enumerate((0, 0, 0, 1, 0, 1, 1)):
            times = pa.array([day * DAY * 1000], schema.field("timestamp").type)
            files.write(
                pa.RecordBatch.from_arrays([pa.array([at], pa.int64()), times], schema=schema)
            )
        return [(one.path.parent.name, one.rows) for one in files.close()]

    first, second = "date=1970-01-01", "date=1970-01-02"
    assert cut("in_memory", "offset") == [(first, 4), (second, 3)]
    monkeypatch.setattr(export_files, "SORT_BYTES_MAX", 3 * 16)
    assert cut("limited", "offset") == [(first, 3), (second, 2), (first, 1), (second, 1)]
    assert cut("not_sorted") == [(first, 4), (second, 3)]


def test_row_groups_end_by_rows_and_by_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def groups(folder: str, writes: int, rows: int, **target: Any) -> list[int]:
        files = files_of(tmp_path / folder, **target)
        for at in range(writes):
            files.write(rows_of(range(at * rows, (at + 1) * rows)))
        (one,) = files.close()
        found = pq.ParquetFile(one.path).metadata
        return [found.row_group(number).num_rows for number in range(found.num_row_groups)]

    size = rows_of(range(1000)).nbytes
    assert groups("bytes", 6, 1000, file_bytes=8 * size) == [2000, 2000, 2000]
    monkeypatch.setattr(export_files, "ROW_GROUP_ROWS", 10)
    assert groups("rows", 4, 7) == [10, 4, 10, 4]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--target-file-size", "0"], "--target-file-size is '0', allowed: bytes, or like 256m"),
        (["--target-file-size", "1t"], "--target-file-size is '1t', allowed"),
        (["--sort", "headers"], "--sort is 'headers', allowed, each once: key, value, offset"),
        (["--sort", "topic"], "--sort is 'topic', allowed"),
        (["--sort", "offset,offset"], "--sort is 'offset,offset', allowed"),
        (["--sort", " , "], "--sort is ' , ', allowed"),
        (["--columns", "topic,partition"], "--columns topic,partition leaves nothing for the"),
    ],
)
def test_flags_that_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], said: str
) -> None:
    write_segments(tmp_path, 1)
    command = ["export", "--input", str(tmp_path / "in"), "--output", str(tmp_path / "out")]
    assert main([*command, *flags]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "size"), [("7", 7), ("2K", 2048), ("3mb", 3 << 20), ("1g", 1 << 30)]
)
def test_sizes(text: str, size: int) -> None:
    assert _size("--x", text) == size
