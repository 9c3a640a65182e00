"""`log verify`: nothing in whole logs, and the one finding of each damage."""

import json
import shutil
import struct
from pathlib import Path

import pytest

from cli.offline.log_verify import run

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "cli"
STATIC = GOLDEN / "metadata-log" / "static-4.3.1" / "n1"
LOG = "__cluster_metadata-0"
FIRST = "00000000000000000000"
SECOND = "00000000000000000182"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(STATIC, tmp_path / "n1")
    return tmp_path / "n1"


def verify(capsys: pytest.CaptureFixture[str], *folders: Path) -> tuple[int, list[tuple[str, ...]]]:
    """(exit code, [(severity, file name, position, check)])."""
    code = run(["verify", *map(str, folders), "--json"])
    answer = json.loads(capsys.readouterr().out)
    return code, [
        (row["severity"], Path(row["file"]).name, row["position"], row["check"])
        for row in answer["findings"]
    ]


def change(path: Path, position: int, content: bytes) -> None:
    data = bytearray(path.read_bytes())
    data[position : position + len(content)] = content
    path.write_bytes(data)


def batch_positions(path: Path) -> list[int]:
    data, position, found = path.read_bytes(), 0, []
    while position < len(data):
        found.append(position)
        position += 12 + struct.unpack_from(">i", data, position + 8)[0]
    return found


@pytest.mark.parametrize("log", sorted((GOLDEN / "metadata-log").iterdir()), ids=lambda p: p.name)
def test_metadata_logs_of_kafka_are_whole(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(capsys, log / "n1") == (0, [])


def test_partitions_of_kafka_are_whole(capsys: pytest.CaptureFixture[str]) -> None:
    code, found = verify(capsys, GOLDEN / "data-log")
    assert (code, found) == (0, [])


def test_a_changed_byte_is_a_checksum(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / LOG / f"{SECOND}.log"
    at = batch_positions(path)[7]
    change(path, at + 70, b"\xff")
    code, found = verify(capsys, folder)
    assert code == 1
    assert ("error", path.name, at, "crc") in found
    assert {check for *_, check in found} <= {"crc", "replay"}


def test_an_impossible_length_ends_the_segment(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / LOG / f"{SECOND}.log"
    at = batch_positions(path)[7]
    change(path, at + 8, struct.pack(">i", 3))
    code, found = verify(capsys, folder)
    assert code == 1
    assert ("error", path.name, at, "header") in found


def test_a_lost_batch_is_a_gap(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / LOG / f"{SECOND}.log"
    data, positions = path.read_bytes(), batch_positions(path)
    path.write_bytes(data[: positions[3]] + data[positions[4] :])
    code, found = verify(capsys, folder)
    assert code == 1
    assert ("error", path.name, positions[3], "offset") in found


def test_a_torn_end_is_a_warning_in_the_last_segment_only(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    *_, before_last, last = sorted((folder / LOG).glob("*.log"))
    last.write_bytes(last.read_bytes()[:-5])
    code, found = verify(capsys, folder)
    assert [row for row in found if row[3] == "tail"] == [
        ("warning", last.name, batch_positions(STATIC / LOG / last.name)[-1], "tail")
    ]
    before_last.write_bytes(before_last.read_bytes()[:-5])
    code, found = verify(capsys, folder)
    assert code == 1
    assert ("error", before_last.name) in {row[:2] for row in found if row[3] == "tail"}


def test_a_lost_segment_breaks_the_chain(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / LOG / f"{SECOND}.log").unlink()
    code, found = verify(capsys, folder)
    assert code == 1
    assert [row[1] for row in found if row[3] == "chain"] == ["00000000000000000407.log"]


def test_an_epoch_that_falls(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / LOG / "00000000000000000619.log"
    at = batch_positions(path)[-1]
    change(path, at + 12, struct.pack(">i", 1))
    code, found = verify(capsys, folder)
    assert code == 1
    assert ("error", path.name, at, "epoch") in found


def test_an_index_entry_that_points_into_a_batch(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / LOG / f"{FIRST}.index"
    offset, position = struct.unpack_from(">ii", path.read_bytes(), 8)
    change(path, 8, struct.pack(">ii", offset, position + 1))
    assert verify(capsys, folder) == (1, [("error", path.name, 8, "index")])


def test_an_index_out_of_order(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / LOG / f"{FIRST}.index"
    change(path, 8, path.read_bytes()[:8])
    assert verify(capsys, folder) == (1, [("error", path.name, 0, "index")])


def test_a_time_index_entry_with_another_time(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / LOG / f"{FIRST}.timeindex"
    time_ms, offset = struct.unpack_from(">qi", path.read_bytes(), 0)
    change(path, 0, struct.pack(">qi", time_ms - 1, offset))
    assert verify(capsys, folder) == (1, [("error", path.name, 0, "time-index")])


def test_epochs_of_the_checkpoint(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / LOG / "leader-epoch-checkpoint"
    lines = path.read_text().splitlines()
    epoch, start = lines[3].split()
    lines[3] = f"{epoch} {int(start) + 1}"
    path.write_text("\n".join(lines) + "\n")
    assert verify(capsys, folder) == (1, [("error", path.name, 0, "epochs")])
    version, count, _, *entries = lines
    path.write_text("\n".join([version, str(int(count) - 1), *entries]) + "\n")
    assert verify(capsys, folder)[0] == 1, "metadata have their first epoch"
    path.write_text("nonsense\n")
    assert verify(capsys, folder) == (1, [("error", path.name, 0, "epochs")])


@pytest.mark.parametrize(
    ("log_start", "found"),
    [("rd-none 0 24", []), ("rd-none 0 0", ["warning"]), ("rd-none 1 24", ["warning"]),
     ("nonsense", ["warning"]), (None, ["warning"])],
)  # fmt: skip
def test_epochs_below_the_log_start(
    log_start: str | None, found: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """DeleteRecords cuts the checkpoint at once, and the log start is recorded later."""
    shutil.copytree(GOLDEN / "data-log" / "rd-none-0", tmp_path / "rd-none-0")
    path = tmp_path / "rd-none-0" / "leader-epoch-checkpoint"
    path.write_text("0\n1\n2 24\n")
    if log_start is not None:
        (tmp_path / "log-start-offset-checkpoint").write_text(f"0\n1\n{log_start}\n")
    assert verify(capsys, tmp_path) == (0, [(each, path.name, 0, "epochs") for each in found])
    path.write_text("0\n1\n2 0\n")
    assert verify(capsys, tmp_path) == (1, [("error", path.name, 0, "epochs")])


def test_a_checkpoint_that_is_late_is_a_warning(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A node that runs writes it at times only; the next start makes it new."""
    path = folder / LOG / "leader-epoch-checkpoint"
    version, count, *entries = path.read_text().split("\n")[:-1]
    path.write_text("\n".join([version, str(int(count) - 1), *entries[:-1]]) + "\n")
    assert verify(capsys, folder) == (0, [("warning", path.name, 0, "epochs")])


def test_a_snapshot_without_its_end(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = min((folder / LOG).glob("*.checkpoint"))
    path.write_bytes(path.read_bytes()[: batch_positions(path)[-1]])
    code, found = verify(capsys, folder)
    assert code == 1
    assert {row[1] for row in found} == {path.name}
    assert "snapshot" in {row[3] for row in found}


def test_a_snapshot_that_says_something_else(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, *_ = sorted((folder / LOG).glob("*.checkpoint"))
    shutil.copyfile(first, second)
    code, found = verify(capsys, folder)
    assert code == 1
    assert ("error", second.name, 0, "replay") in found


def test_a_snapshot_below_the_log_is_no_start_of_a_replay(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A node that crashed after it deleted segments, and before it deleted their snapshots."""
    (folder / LOG / f"{FIRST}.log").unlink()
    assert verify(capsys, folder) == (0, [])
    _, second, third, *_ = sorted((folder / LOG).glob("*.checkpoint"))
    shutil.copyfile(second, third)
    assert ("error", third.name, 0, "replay") in verify(capsys, folder)[1]


def test_a_replay_begins_at_the_snapshot_where_the_log_does(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in a node that fetched a snapshot."""
    _, second, third, *_ = sorted((folder / LOG).glob("*.checkpoint"))
    content = (folder / LOG / f"{SECOND}.log").read_bytes()
    start = content.index(struct.pack(">q", 209))
    (folder / LOG / f"{209:020d}.log").write_bytes(content[start:])
    for path in (folder / LOG).glob(f"{SECOND}.*"):
        path.unlink()
    (folder / LOG / f"{FIRST}.log").unlink()
    assert verify(capsys, folder) == (0, [])
    shutil.copyfile(second, third)
    assert ("error", third.name, 0, "replay") in verify(capsys, folder)[1]


def test_a_replay_goes_over_a_snapshot_that_cannot_be_read(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, third, *_ = sorted((folder / LOG).glob("*.checkpoint"))
    second.write_bytes(b"x")
    shutil.copyfile(first, third)
    code, found = verify(capsys, folder)
    assert code == 1
    assert ("error", third.name, 0, "replay") in found


def test_a_log_that_begins_behind_every_snapshot(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (folder / LOG).glob("*.checkpoint"):
        path.unlink()
    (folder / LOG / f"{FIRST}.log").unlink()
    code, found = verify(capsys, folder)
    assert code == 1
    assert ("error", LOG, 0, "snapshot-missing") in found


def test_a_quorum_state_behind_the_log(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / LOG / "quorum-state"
    state = json.loads(path.read_text())
    path.write_text(json.dumps(state | {"leaderEpoch": 1}))
    assert verify(capsys, folder) == (1, [("error", path.name, 0, "quorum-state")])
    path.write_text("{")
    assert verify(capsys, folder) == (1, [("error", path.name, 0, "quorum-state")])


def test_replicas_that_differ(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(capsys, folder, STATIC) == (0, [])
    path = folder / LOG / f"{SECOND}.log"
    at = batch_positions(path)[5]
    change(path, at + 62, b"\x01")
    code, found = verify(capsys, folder, STATIC)
    assert code == 1
    assert ("error", path.name, at, "equality") in found


def test_a_tail_of_another_epoch_is_a_warning(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = max((folder / LOG).glob("*.log"))
    at = batch_positions(path)[-1]
    epoch = struct.unpack_from(">i", path.read_bytes(), at + 12)[0]
    change(path, at + 12, struct.pack(">i", epoch + 1))
    _, found = verify(capsys, folder, STATIC)
    assert ("warning", path.name, at, "equality") in found


def test_folders_of_two_clusters_are_not_compared(capsys: pytest.CaptureFixture[str]) -> None:
    other = GOLDEN / "metadata-log" / "single-4.3.1" / "n1"
    assert verify(capsys, STATIC, other) == (1, [("error", LOG, 0, "equality")])


def test_lines_name_file_position_and_reason(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / LOG / "quorum-state").write_text("{")
    assert run(["verify", str(folder)]) == 1
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"error {folder / LOG / 'quorum-state'}:0 quorum-state: ")
    assert last == "1 partition folders: 1 errors, 0 warnings"


@pytest.mark.parametrize("words", [["verify", "nowhere"], ["verify"], ["check", "x"], []])
def test_what_cannot_be_read_is_exit_2(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    try:
        code = run(words)
    except SystemExit as left:
        code = left.code
    assert code == 2
    assert capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert run(["verify", "empty"]) == 2
    assert "no partition folder" in capsys.readouterr().err
