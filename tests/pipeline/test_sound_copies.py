"""A copy that is sound in place of a damaged one, of the same history and as long."""

from pathlib import Path

import pytest

from pipeline.core.reading.discovery import discover
from pipeline.core.reading.options import parse_options
from pipeline.core.reading.sound_copies import SoundChoice, choose_sound_copies
from tests.pipeline.segments import batch, write_high_watermark, write_partition

HEAD = 17  # the checksum of a batch begins there


def write_copy(
    root: Path, node: int, ends: int = 4, *, first: int = 0, epochs: dict[int, int] | None = None,
    damaged: int | None = None, watermark: int | None = None,
) -> Path:  # fmt: skip
    """A replica of orders-0 with one record a batch; one batch may have a wrong checksum."""
    home = root / f"n{node}"
    batches = [batch(at, epoch=(epochs or {}).get(at, 1)) for at in range(first, ends)]
    if damaged is not None:
        bad = bytearray(batches[damaged - first])
        bad[HEAD] ^= 1
        batches[damaged - first] = bytes(bad)
    write_partition(home, batches, base_offset=first)
    (home / "meta.properties").write_text(f"version=1\ncluster.id=c\nnode.id={node}\n")
    if watermark is not None:
        write_high_watermark(home, watermark)
    return home


def chosen(root: Path, **more: str) -> tuple[list[str], SoundChoice]:
    """Nodes whose copies are read."""
    options = parse_options({"path": str(root)} | more)
    choice = choose_sound_copies(discover([str(root)]).partitions, options)
    return sorted(Path(path).parent.name for path in choice.choice.limits), choice


def test_the_next_copy_takes_the_place_of_a_damaged_one(tmp_path: Path) -> None:
    write_copy(tmp_path, 1, damaged=2)
    write_copy(tmp_path, 2)
    nodes, choice = chosen(tmp_path)
    assert nodes == ["n2"]
    (line,) = choice.bypassed
    assert line.startswith(f"{tmp_path}/n1/orders-0/00000000000000000000.log:")
    assert "bad_crc" in line
    assert line.endswith("left out, another copy is read")


def test_a_sound_copy_stays(tmp_path: Path) -> None:
    write_copy(tmp_path, 1)
    write_copy(tmp_path, 2, damaged=2)
    assert chosen(tmp_path)[0] == ["n1"]
    assert chosen(tmp_path)[1].bypassed == ()


def test_the_third_is_read_where_two_are_damaged(tmp_path: Path) -> None:
    for node in (1, 2):
        write_copy(tmp_path, node, damaged=node)
    write_copy(tmp_path, 3)
    nodes, choice = chosen(tmp_path)
    assert nodes == ["n3"]
    assert ["/n1/" in line for line in choice.bypassed] == [True, False]


@pytest.mark.parametrize(
    "other",
    [
        {"damaged": 1},
        {"ends": 3},
        {"first": 1},
        {"epochs": {1: 2}},
        {"epochs": {3: 2}},
    ],
)
def test_without_an_equal_copy_the_damaged_one_stays(tmp_path: Path, other: dict) -> None:
    write_copy(tmp_path, 1, damaged=2)
    write_copy(tmp_path, 2, **other)
    nodes, choice = chosen(tmp_path)
    assert nodes == ["n1"]
    assert choice.bypassed == ()
    write_copy(tmp_path, 3)
    nodes, choice = chosen(tmp_path)
    assert nodes == ["n3"]
    assert len(choice.bypassed) == (2 if "damaged" in other else 1)


def test_an_epoch_where_the_other_is_damaged_says_nothing(tmp_path: Path) -> None:
    write_copy(tmp_path, 1, damaged=2)
    write_copy(tmp_path, 2, epochs={2: 5})
    assert chosen(tmp_path)[0] == ["n2"]


def test_damage_above_the_high_watermark_does_not_count(tmp_path: Path) -> None:
    write_copy(tmp_path, 1, damaged=3, watermark=3)
    write_copy(tmp_path, 2, watermark=3)
    assert chosen(tmp_path)[0] == ["n1"]
    assert chosen(tmp_path, until="end")[0] == ["n2"]


@pytest.mark.parametrize("damaged", [0, 1, 2])
def test_damage_below_the_high_watermark_counts(tmp_path: Path, damaged: int) -> None:
    write_copy(tmp_path, 1, damaged=damaged, watermark=3)
    write_copy(tmp_path, 2, watermark=3)
    assert chosen(tmp_path)[0] == ["n2"]


def test_the_last_batch_below_the_high_watermark_is_of_the_same_history(tmp_path: Path) -> None:
    write_copy(tmp_path, 1, damaged=1, watermark=3)
    write_copy(tmp_path, 2, watermark=3, epochs={2: 9})
    write_copy(tmp_path, 3, watermark=3, epochs={3: 9})
    assert chosen(tmp_path)[0] == ["n3"]


def test_the_first_damage_is_named(tmp_path: Path) -> None:
    home = write_copy(tmp_path, 1, ends=6, damaged=4)
    path = home / "orders-0" / f"{0:020d}.log"
    content, size = bytearray(path.read_bytes()), path.stat().st_size // 6
    content[size + HEAD] ^= 1  # in the second batch too
    path.write_bytes(content)
    later = bytearray(batch(6))
    later[HEAD] ^= 1
    write_partition(home, [bytes(later), batch(7)], base_offset=6)
    write_copy(tmp_path, 2, ends=8)
    nodes, choice = chosen(tmp_path)
    assert nodes == ["n2"]
    assert choice.bypassed[0].startswith(f"{path}:{size} bad_crc")


def test_a_segment_above_the_high_watermark_is_not_looked_at(tmp_path: Path) -> None:
    home = write_copy(tmp_path, 1, watermark=4)
    write_partition(home, [bytes(70)], base_offset=4)
    (home / "orders-0" / "00000000000000000004.log").write_bytes(bytes(16) + b"\x09" * 84)
    write_copy(tmp_path, 2, watermark=4)
    assert chosen(tmp_path)[0] == ["n1"]


def test_a_torn_tail_is_no_damage_but_below_the_recovery_point(tmp_path: Path) -> None:
    home = write_copy(tmp_path, 1)
    path = home / "orders-0" / "00000000000000000000.log"
    path.write_bytes(path.read_bytes() + bytes(40))
    write_copy(tmp_path, 2)
    assert chosen(tmp_path)[0] == ["n1"]
    (home / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 9\n")
    assert chosen(tmp_path)[0] == ["n2"]


def test_a_file_that_cannot_be_read_is_damage(tmp_path: Path) -> None:
    home = write_copy(tmp_path, 1, first=2)
    path = write_partition(home, [batch(0), batch(1)])
    for node in (home, write_copy(tmp_path, 2)):
        (node / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 0\n")
    listing = discover([str(tmp_path)]).partitions
    path.unlink()
    path.mkdir()
    found = choose_sound_copies(listing, parse_options({"path": str(tmp_path)}))
    assert [Path(one).parent.name for one in found.choice.limits] == ["n2"]
    assert found.bypassed[0].startswith(f"{path}: not a regular file")


def test_a_single_copy_and_one_that_is_not_wanted(tmp_path: Path) -> None:
    write_copy(tmp_path, 1, damaged=2)
    assert chosen(tmp_path)[0] == ["n1"]
    write_copy(tmp_path, 2)
    write_partition(tmp_path / "n1", [batch(0)], name="other-0")
    nodes, choice = chosen(tmp_path, subscribe="other")
    assert nodes == ["n1"]
    assert choice.bypassed == ()


def test_all_copies_are_read_where_all_are_asked_for(tmp_path: Path) -> None:
    write_copy(tmp_path, 1, damaged=2)
    write_copy(tmp_path, 2)
    assert chosen(tmp_path, replicas="all")[0] == ["n1", "n2"]


def test_what_is_left_out_above_the_high_watermarks_is_one_sum(tmp_path: Path) -> None:
    home = write_copy(tmp_path, 1, watermark=3)
    write_partition(home, [batch(0), batch(1), batch(2)], name="orders-1")
    content = "0\n2\norders 0 3\norders 1 1\n"
    (home / "replication-offset-checkpoint").write_text(content)
    (note,) = chosen(tmp_path)[1].choice.notes
    assert note.startswith("3 offsets above the high watermark are not read")


def test_what_no_copy_has_is_said_of_each_partition(tmp_path: Path) -> None:
    home = write_copy(tmp_path, 1)
    write_partition(home, [batch(0)], name="orders-1")
    content = "0\n2\norders 0 6\norders 1 5\n"
    (home / "replication-offset-checkpoint").write_text(content)
    notes = chosen(tmp_path)[1].choice.notes
    assert ["offsets 4 to 5" in notes[0], "offsets 1 to 4" in notes[1]] == [True, True]
