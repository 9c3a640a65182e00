"""Damage that `history` reads around: what another snapshot, the log or another replica has too."""

import shutil
from pathlib import Path

import pytest

from metadata.loader import committed_batches
from pipeline.core.audit.findings import Finding, in_file
from pipeline.core.errors import BadInputError, CorruptSegmentError
from pipeline.jobs.history.input import LogChoice
from pipeline.jobs.history.sound_log import choose_sound_log, damage_between

SOURCE = Path(__file__).parent.parent / "golden" / "metadata" / "static-4.3.1"
FIRST = "00000000000000000000.log"
SECOND = sorted(path.name for path in SOURCE.glob("0*.log"))[1]
SNAPSHOTS = sorted(path.name for path in SOURCE.glob("0*.checkpoint"))


def copied(root: Path, *, without: tuple[str, ...] = ()) -> Path:
    folder = root / "__cluster_metadata-0"
    folder.mkdir(parents=True)
    for path in SOURCE.glob("0*"):
        if path.name not in without:
            shutil.copy(path, folder)
    return folder


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def test_a_sound_log_bypasses_nothing(tmp_path: Path) -> None:
    copied(tmp_path / "a")
    copied(tmp_path / "b")
    choice = choose_sound_log([str(tmp_path)])
    assert (choice.start, choice.end, choice.bypassed) == (0, 671, ())
    assert len(choice.others) == len(SNAPSHOTS)


def test_a_damaged_snapshot_beside_a_whole_log_is_left_out(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    for name in SNAPSHOTS[-2:]:
        flip(folder / name, 500)
    choice = choose_sound_log([str(tmp_path)])
    assert (choice.start, choice.seed) == (0, None)
    assert [one.name for one in choice.others] == SNAPSHOTS[:-2]
    (first, second) = choice.bypassed
    assert SNAPSHOTS[-2] in first
    assert SNAPSHOTS[-1] in second
    assert "damaged snapshot" in second


def test_a_later_snapshot_does_not_take_the_place_of_a_damaged_first(tmp_path: Path) -> None:
    folder = copied(tmp_path, without=(FIRST,))
    sound = choose_sound_log([str(tmp_path)])
    assert sound.seed is not None
    flip(folder / sound.seed.name, 500)
    with pytest.raises(BadInputError, match=sound.seed.name):
        choose_sound_log([str(tmp_path)])


def test_a_damaged_snapshot_that_nothing_replaces(tmp_path: Path) -> None:
    folder = copied(tmp_path, without=(FIRST, *SNAPSHOTS[:-1]))
    flip(folder / SNAPSHOTS[-1], 500)
    with pytest.raises(BadInputError, match="damaged snapshot: bad_crc"):
        choose_sound_log([str(tmp_path)])


@pytest.mark.parametrize("name", [FIRST, SECOND])
def test_another_replica_is_read_in_place_of_a_damaged_one(tmp_path: Path, name: str) -> None:
    damaged, sound = copied(tmp_path / "a"), copied(tmp_path / "b")
    flip(damaged / name, 2000)
    choice = choose_sound_log([str(tmp_path)])
    assert choice.partition.directory == str(sound)
    assert (choice.start, choice.end) == (0, 671)
    (line,) = choice.bypassed
    assert line.startswith(f"{damaged}/{name}:")
    assert (
        f"bad_crc: the checksum in the header is not that of the bytes: left out, {sound}" in line
    )


def test_a_replica_that_differs_below_the_damage_does_not_replace_it(tmp_path: Path) -> None:
    """The checksum in a header of the other one is another: not the same log."""
    damaged, other = copied(tmp_path / "a"), copied(tmp_path / "b")
    flip(damaged / SECOND, 2000)
    flip(other / FIRST, 17)
    with pytest.raises(CorruptSegmentError, match=SECOND):
        choose_sound_log([str(tmp_path)])


def test_a_replica_that_begins_later_does_not_replace_a_damaged_one(tmp_path: Path) -> None:
    flip(copied(tmp_path / "a") / FIRST, 2000)
    copied(tmp_path / "b", without=(FIRST,))
    with pytest.raises(CorruptSegmentError, match=FIRST):
        choose_sound_log([str(tmp_path)])


def test_a_replica_that_ends_earlier_does_not_replace_a_damaged_one(tmp_path: Path) -> None:
    later = sorted(path.name for path in SOURCE.glob("0*.log"))[2:]
    assert later
    snapshots = [name for name in SNAPSHOTS if name[:20] > later[0][:20]]
    flip(copied(tmp_path / "a") / SECOND, 2000)
    copied(tmp_path / "b", without=(*later, *snapshots))
    with pytest.raises(CorruptSegmentError, match=SECOND):
        choose_sound_log([str(tmp_path)])


def test_what_nothing_replaces_is_read_with_its_damage_if_the_mode_says_so(tmp_path: Path) -> None:
    damaged = copied(tmp_path / "a")
    flip(damaged / FIRST, 2000)
    copied(tmp_path / "b", without=(FIRST,))
    choice = choose_sound_log([str(tmp_path)], mode="DROPMALFORMED")
    assert choice.partition.directory == str(damaged)
    assert (choice.mode, choice.bypassed, choice.damage) == ("DROPMALFORMED", (), ())


def places(choice: LogChoice, *wanted: tuple[int, int, int]) -> tuple[Finding, ...]:
    """Findings by number of the segment, position and offset."""
    files = choice.partition.segments
    return tuple(in_file(files[number], "error", "bad_crc", position, offset=offset)
                 for number, position, offset in wanted)  # fmt: skip


def test_damage_between_two_offsets(tmp_path: Path) -> None:
    """By segment and position: the offset in a damaged header may be anything."""
    folder = copied(tmp_path)
    choice = choose_sound_log([str(tmp_path)])
    files = choice.partition.segments
    assert len(files) > 3
    (first, *_) = committed_batches((folder / files[1].name).read_bytes())
    start = first.end_offset  # the second batch of the second segment
    at = 12 + int.from_bytes((folder / files[1].name).read_bytes()[8:12], "big")
    inside = places(choice, (1, at, 0), (1, at + 1, 0), (2, 0, 0))
    before = places(choice, (1, at - 1, 10**6), (0, at + 1, 10**6))
    assert damage_between(choice, (*before, *inside), start) == inside
    assert damage_between(choice, (*before, *inside), 0, start) == before
    end = files[2].base_offset
    assert damage_between(choice, (*before, *inside), start, end) == inside[:2]
    assert damage_between(choice, (), -1) == ()  # no place is looked for
    unplaced = places(choice, (0, -1, start), (0, -1, start - 1), (0, -1, end), (0, -1, end - 1))
    assert damage_between(choice, unplaced, start, end) == (unplaced[0], unplaced[3])
    assert damage_between(choice, unplaced, start) == (unplaced[0], *unplaced[2:])


def test_damage_of_every_replica_ends_the_run(tmp_path: Path) -> None:
    for root in ("a", "b"):
        flip(copied(tmp_path / root) / SECOND, 2000)
    choice = choose_sound_log([str(tmp_path)])  # of the last one the reader tells
    assert len(choice.bypassed) == 1
    assert choice.partition.directory == f"{tmp_path}/b/__cluster_metadata-0"


def test_damage_before_the_first_offset_that_is_read_is_none(tmp_path: Path) -> None:
    damaged = copied(tmp_path / "a")
    copied(tmp_path / "b")
    flip(damaged / FIRST, 2000)
    choice = choose_sound_log([str(tmp_path)], continue_at=600)
    assert (choice.partition.directory, choice.bypassed) == (str(damaged), ())
