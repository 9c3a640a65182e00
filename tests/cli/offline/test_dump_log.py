"""The dump tool against Kafka 4.3.1's own output for the same files, byte for byte."""

import gzip
import json
import re
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from cli.offline.control_records import control_record, describe_control_record
from cli.offline.dump_files import line_as_object
from cli.offline.dump_log import run
from wire.batches.batch import encode_batch, encode_control_batch

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "cli"
DATA = GOLDEN / "data-log"
COMMAND = re.compile(r"^\$ dump-log (.*)$")


def golden_text(path: Path) -> str:
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).decode()


def sections(text: str) -> list[tuple[list[str], str, str]]:
    """(arguments, stdout, stderr) of each command in a golden file of data-log."""
    found = []
    for part in re.split(r"(?m)^(?=\$ dump-log )", text):
        match = COMMAND.match(part.partition("\n")[0])
        if not match:
            continue
        body = part.partition("\n")[2].rpartition("== exit 0 ==")[0]
        out, _, err = body.partition("== stderr ==\n")
        found.append((match.group(1).split(), out, err))
    return found


def without_folder(stderr: str) -> list[str]:
    """Complaints as a set per file: Kafka prints the files in the order of a hash map."""
    return sorted(re.sub(r"(in :?)\S*/([\w.-]+/\d+\.\w+)$", r"\1\2", x) for x in stderr.split("\n"))


@pytest.mark.parametrize("partition", sorted(path.stem for path in (DATA / "dump").iterdir()))
def test_partition_files_as_kafka_prints_them(
    partition: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(DATA)
    commands = sections(golden_text(DATA / "dump" / f"{partition}.txt"))
    assert len(commands) >= 4
    for arguments, out, err in commands:
        assert run(arguments) == 0
        printed = capsys.readouterr()
        assert printed.out.rstrip("\n") == out.rstrip("\n"), arguments
        assert without_folder(printed.err.strip()) == without_folder(err.strip()), arguments


def metadata_dumps() -> list[Path]:
    paths = sorted((GOLDEN / "metadata-log").glob("*/dump/n1-*"))
    assert len(paths) == 14
    return paths


@pytest.mark.parametrize("path", metadata_dumps(), ids=lambda p: f"{p.parts[-3]}-{p.name}")
def test_metadata_files_as_kafka_prints_them(
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    expected = golden_text(path).partition("\n== stderr ==")[0].partition("\n== exit 0 ==")[0]
    files = re.findall(r"(?m)^Dumping (.*)$", expected)
    folder = path.parent.parent / "n1"
    if "bootstrap" in path.name:
        # Kafka's tool wants the name of a snapshot, so the file was renamed for it
        shutil.copyfile(folder / "bootstrap.checkpoint", tmp_path / files[0])
        folder = tmp_path
    monkeypatch.chdir(folder)
    flags = ["--cluster-metadata-decoder"]
    if "index-sanity" in path.name:
        flags = ["--index-sanity-check"]
    elif "index-verify" in path.name:
        flags = ["--verify-index-only"]
    assert run([*flags, "--files", ",".join(files)]) == 0
    assert capsys.readouterr().out.rstrip("\n") == expected.rstrip("\n")


def test_cut_tail_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = DATA / "rd-none-0" / "00000000000000000000.log"
    path = tmp_path / source.name
    path.write_bytes(source.read_bytes()[:-5])
    assert run(["--files", str(path)]) == 0
    *_, last = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"Found \d+ invalid bytes at the end of 0{20}\.log", last)


def test_damage_under_the_metadata_decoder_is_exit_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = GOLDEN / "metadata-log" / "single-4.3.1" / "n1" / "__cluster_metadata-0"
    content = bytearray((folder / "00000000000000000000.log").read_bytes())
    content[200] ^= 1
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(content)
    assert run(["--cluster-metadata-decoder", "--files", str(path)]) == 1
    assert "checksum does not match" in capsys.readouterr().err


@pytest.mark.parametrize(("kind", "value", "reason"), [
    (2, "", "LEADER_CHANGE record cannot be read"),
    (2, "0000", "LEADER_CHANGE record cannot be read"),
    (2, "0000000000017f0000000100", "LEADER_CHANGE record cannot be read"),
    (4, "0000ff", "SNAPSHOT_FOOTER record cannot be read"),
    (5, "8000000100", "KRAFT_VERSION record cannot be read"),
    (1, "0000000000", "end of a transaction of 5 bytes, at least 6 are due"),
    (0, "", "end of a transaction of 0 bytes"),
    (0, "ffff00000001", "end of a transaction of version -1"),
])  # fmt: skip
def test_a_control_record_that_cannot_be_read_is_skipped_as_others_are(
    kind: int, value: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "00000000000000000000.log"
    damaged = encode_control_batch([(kind, bytes.fromhex(value))], 0, 1, 0)
    path.write_bytes(damaged + encode_batch([b"behind"], 1, 1, 0))
    assert run(["--print-data-log", "--files", str(path)]) == 0
    printed = capsys.readouterr()
    assert f"payload: Error at 0, skipping. {reason}" in printed.out
    assert printed.out.endswith("payload: behind\n")
    assert printed.err == ""
    found = objects_of(capsys, "--print-data-log", "--files", str(path))
    assert found[3]["error"].startswith(reason)
    assert found[-1]["payload"] == "behind"


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\2"])
def test_a_control_record_without_a_type_is_refused(key: bytes | None) -> None:
    with pytest.raises(ValueError, match="control record"):
        control_record(key, b"")


def test_a_control_record_of_an_unknown_type_and_of_a_newer_version_is_named() -> None:
    assert describe_control_record(b"\0\0\0\x63", b"") == "controlType: UNKNOWN(99)"
    newer = bytes.fromhex("000900000007010101") + b"\x07\x01x"  # and a tagged field
    name, fields = control_record(b"\0\0\0\2", newer)
    assert (name, fields) == (
        "LeaderChange",
        {"version": 9, "leaderId": 7, "voters": [], "grantingVoters": []},
    )


def test_missing_file_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--files", "nowhere/00000000000000000000.log"]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_decoder_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        run(["--files", "x.log", "--share-group-state-decoder"])
    assert exit_info.value.code == 1
    assert "--share-group-state-decoder is not supported" in capsys.readouterr().err


def objects_of(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    assert run(["--json", *words]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_json_lines_hold_the_same_values(capsys: pytest.CaptureFixture[str]) -> None:
    log = GOLDEN / "metadata-log" / "single-4.3.1" / "n1" / "__cluster_metadata-0"
    path = log / "00000000000000000000.log"
    found = objects_of(capsys, "--cluster-metadata-decoder", "--files", str(path))
    assert found[:2] == [{"file": str(path)}, {"logStartOffset": 0}]
    assert found[2]["crc"] == 3517525699
    assert (found[2]["isvalid"], found[2]["deleteHorizonMs"]) == (True, None)
    assert found[3]["control"] == "LeaderChange"
    assert found[3]["payload"]["leaderId"] == 1
    assert found[5]["payload"]["type"] == "BEGIN_TRANSACTION_RECORD"
    assert (found[5]["key"], found[5]["headerKeys"]) == (None, [])
    with_text = 0
    assert run(["--cluster-metadata-decoder", "--files", str(path)]) == 0
    for line, one in zip(capsys.readouterr().out.splitlines(), found, strict=True):
        with_text += line.startswith("baseOffset") and f"crc: {one['crc']} " in line
    assert with_text > 10


def test_json_of_records_keeps_any_text_and_names_control_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A key or payload that looks like the fields of a line is one value."""
    odd = b"a: 1 payload: {x} offset: 9"
    path = tmp_path / "00000000000000000007.log"
    marker = (1, struct.pack(">hi", 0, 5))  # COMMIT of coordinator epoch 5
    content = encode_batch([odd, b"5"], 7, 1, 0) + encode_control_batch([marker], 9, 1, 0)
    path.write_bytes(content + b"rest")
    found = objects_of(capsys, "--print-data-log", "--files", str(path))
    assert [one["payload"] for one in found if "key" in one] == [odd.decode(), "5"]
    assert found[1] == {"logStartOffset": 7}
    assert (found[-2]["control"], found[-2]["payload"]) == ("COMMIT", {"coordinatorEpoch": 5})
    assert found[-1] == {"invalidBytes": 4}
    bare = objects_of(capsys, "--print-data-log", "--skip-record-metadata", "--files", str(path))
    assert {"key": None, "payload": "5"} in bare


def test_lines_of_indexes_and_producers_as_objects() -> None:
    assert line_as_object("offset: 55 position: 4130") == {"offset": 55, "position": 4130}
    line = "producerId: 5 producerEpoch: 0 currentTxnFirstOffset: OptionalLong"
    assert line_as_object(f"{line}[7] lastTimestamp: -1 ")["currentTxnFirstOffset"] == 7
    assert line_as_object(f"{line}.empty lastTimestamp: -1 ")["currentTxnFirstOffset"] is None
    assert line_as_object("a: 5/0.index is empty.") == {"text": "a: 5/0.index is empty."}
