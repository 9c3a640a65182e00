"""One row per record below a folder with several replicas; where a read ends."""

from pathlib import Path

import pytest

from pipeline.core.errors import BadInputError
from pipeline.core.reading.options import parse_options, parse_stream_options
from pipeline.core.reading.reader import plan_read, read_table
from pipeline.core.reading.stream import replicas
from tests.pipeline.segments import batch, write_high_watermark, write_partition


def write_node(
    root: Path, node: int, end: int, watermark: int | None = None, first: int = 0
) -> Path:
    home = root / f"n{node}"
    write_partition(home, [batch(at) for at in range(first, end)], base_offset=first)
    (home / "meta.properties").write_text(f"version=1\ncluster.id=c\nnode.id={node}\n")
    if watermark is not None:
        write_high_watermark(home, watermark)
    return home


def rows(root: Path, **more: str) -> list[tuple[int, int]]:
    """Node and offset of each row of a batch read."""
    table = read_table(parse_options({"path": str(root)} | more))
    return [(row["nodeId"], row["offset"]) for row in table.to_pylist()]


def streamed(root: Path, **more: str) -> tuple[int | None, int]:
    """Node and end of the copy that a stream reads."""
    (found,) = replicas(parse_stream_options({"path": str(root)} | more)).values()
    return found.files.node_id, found.end.offset


def test_each_record_is_read_once_and_only_below_the_high_watermark(tmp_path: Path) -> None:
    write_node(tmp_path, 1, end=5, watermark=3)
    write_node(tmp_path, 2, end=4, watermark=4)
    write_node(tmp_path, 3, end=2, watermark=4)
    assert rows(tmp_path) == [(2, at) for at in range(4)]
    assert streamed(tmp_path) == (2, 4)
    assert rows(tmp_path, until="end") == [(1, at) for at in range(5)]
    assert streamed(tmp_path, until="end") == streamed(tmp_path, upTo="logEnd") == (1, 5)
    every = [(1, at) for at in range(5)] + [(2, at) for at in range(4)] + [(3, 0), (3, 1)]
    assert rows(tmp_path, replicas="all") == every
    below = rows(tmp_path, replicas="all", until="high_watermark")
    assert below == [one for one in every if one[1] < 4]
    assert rows(tmp_path, endingOffsets='{"orders": {"0": 2}}') == [(2, 0), (2, 1)]


def test_a_copy_that_has_lost_its_end_is_passed_over_for_a_longer_one(tmp_path: Path) -> None:
    write_node(tmp_path, 1, end=8, watermark=10)
    write_node(tmp_path, 2, end=10, watermark=9)
    assert rows(tmp_path) == [(2, at) for at in range(9)]
    assert streamed(tmp_path) == (2, 9)
    (note,) = plan_read(parse_options({"path": str(tmp_path)})).notes[:1]
    assert "n2" in note
    assert "offsets 9 to 9 are below the high watermark" in note
    # offset 9 of node 2 may be of an old leader: node 2 does not know it to be committed


def test_a_copy_that_knows_no_high_watermark_is_read_to_its_end_alone(tmp_path: Path) -> None:
    write_node(tmp_path, 1, end=10)
    write_node(tmp_path, 2, end=4, watermark=4)
    assert rows(tmp_path) == [(2, at) for at in range(4)]
    assert rows(tmp_path, until="end") == [(1, at) for at in range(10)]


def test_a_lone_copy_that_ends_too_early_says_so(tmp_path: Path) -> None:
    write_node(tmp_path, 1, end=8, watermark=10)
    (note,) = plan_read(parse_options({"path": str(tmp_path)})).notes
    assert "offsets 8 to 9 are below the high watermark, and no copy" in note
    assert plan_read(parse_options({"path": str(tmp_path), "until": "end"})).notes == ()
    write_node(tmp_path, 2, end=10, watermark=10)
    assert plan_read(parse_options({"path": str(tmp_path)})).notes == ()
    assert rows(tmp_path) == [(2, at) for at in range(10)]


def test_of_equal_ends_the_copy_that_reaches_back_furthest_is_read(tmp_path: Path) -> None:
    write_node(tmp_path, 1, end=4, watermark=4, first=2)
    write_node(tmp_path, 2, end=4, watermark=4)
    write_node(tmp_path, 3, end=4, watermark=4)
    assert rows(tmp_path) == [(2, at) for at in range(4)]


def test_a_copy_without_a_segment_is_passed_over(tmp_path: Path) -> None:
    home = write_node(tmp_path, 1, end=1, watermark=4)
    write_partition(home, [batch(2), batch(3)], base_offset=2)
    write_node(tmp_path, 2, end=3, watermark=4)
    assert rows(tmp_path) == [(2, at) for at in range(3)]
    assert streamed(tmp_path) == (2, 3)
    (home / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 2\n")  # no gap, then
    assert rows(tmp_path) == [(1, 0), (1, 2), (1, 3)]
    # what DeleteRecords left before the log's start is no part of the copy either
    (home / "cleaner-offset-checkpoint").unlink()
    (home / "log-start-offset-checkpoint").write_text("0\n1\norders 0 2\n")
    assert rows(tmp_path) == [(1, 2), (1, 3)]


def test_a_copy_that_can_not_be_opened_is_passed_over(tmp_path: Path) -> None:
    home = write_node(tmp_path, 1, end=4, watermark=4)
    (home / "orders-0" / f"{4:020d}.log").symlink_to("nowhere")
    write_node(tmp_path, 2, end=3, watermark=4)
    assert rows(tmp_path, mode="PERMISSIVE") == [(2, at) for at in range(3)]


def test_what_is_left_out_is_said_once(tmp_path: Path) -> None:
    write_node(tmp_path, 1, end=5, watermark=3)
    plan = plan_read(parse_options({"path": str(tmp_path)}))
    text = "2 offsets above the high watermark are not read; until=end reads them too"
    assert (plan.notes, plan.warnings) == ((text,), ())
    for more in ({"until": "end"}, {"replicas": "all"}):
        assert plan_read(parse_options({"path": str(tmp_path)} | more)).notes == ()


def test_without_a_known_high_watermark_a_batch_reads_to_the_end(tmp_path: Path) -> None:
    write_node(tmp_path, 1, end=2)
    assert len(rows(tmp_path)) == 2
    with pytest.raises(BadInputError, match=r"no high watermark .* until=end reads to the end"):
        rows(tmp_path, until="high_watermark")
    with pytest.raises(BadInputError, match="no high watermark"):
        streamed(tmp_path)


def test_files_outside_any_partition_are_no_copies_of_each_other(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_partition(tmp_path, [batch(0)], name=name)
    assert len(rows(tmp_path)) == 2
    assert len(rows(tmp_path, until="high_watermark")) == 2


def test_a_partition_that_is_not_wanted_has_no_copy(tmp_path: Path) -> None:
    write_node(tmp_path, 1, end=2, watermark=2)
    write_partition(tmp_path / "n1", [batch(0)], name="users-0")
    assert rows(tmp_path, subscribe="orders", until="high_watermark") == [(1, 0), (1, 1)]


def test_options_that_are_refused(tmp_path: Path) -> None:
    given = {"path": str(tmp_path)}
    for more, text in (
        ({"replicas": "two"}, "replicas is 'two', allowed: one, all"),
        ({"until": "now"}, "until is 'now', allowed: high_watermark, end"),
        ({"until": "end", "upTo": "hw"}, "only one of until and upTo"),
    ):
        with pytest.raises(BadInputError, match=text):
            parse_options(given | more)
    with pytest.raises(BadInputError, match="replicas=all is not valid in streaming"):
        parse_stream_options(given | {"replicas": "all"})
