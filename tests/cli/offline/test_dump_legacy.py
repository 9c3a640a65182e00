"""dump-log of message sets of magic 0 and 1 prints what Kafka 4.3.1 prints."""

import json
from pathlib import Path

import pytest

from cli.main import main

GOLDEN = Path("tests/golden")
LOGS = GOLDEN / "storage" / "legacy-log"
DUMPS = sorted((GOLDEN / "cli" / "legacy-dump").glob("*-4.3.1.txt"))
SEGMENT = "00000000000000000000.log"
MIXED = LOGS / "mixed-v0-v1-v2-0" / SEGMENT


def printed(capsys: pytest.CaptureFixture[str], path: Path, *flags: str) -> tuple[list[str], str]:
    assert main(["dump-log", "--files", str(path), *flags]) == 0
    output = capsys.readouterr()
    return output.out.splitlines(), output.err


def test_all_dumps_are_here() -> None:
    assert len(DUMPS) == 11


@pytest.mark.parametrize("dump", DUMPS, ids=lambda dump: dump.name)
def test_the_lines_of_kafka(dump: Path, capsys) -> None:
    folder = dump.name.removesuffix("-4.3.1.txt") + "-0"
    lines, complaints = printed(capsys, LOGS / folder / SEGMENT, "--deep-iteration")
    expected = dump.read_text().splitlines()
    assert f"exit {0}" in expected
    end = expected.index("exit 0")
    assert lines[1:] == expected[1:end], "the first one names the file"
    for line in expected[end + 1 :]:  # the tool's complaints; the recorder kept their beginning
        assert line.strip() in complaints or line.startswith("Non-consecutive offsets in ")


def test_shallow_lines_have_no_records(capsys) -> None:
    lines, _ = printed(capsys, MIXED)
    assert lines[2].startswith("offset: 0 position: 0 NoTimestampType: -1 size: 63 magic: 0 ")
    assert not [line for line in lines if line.startswith("|")]


def test_keys_and_payloads_are_printed_when_asked_for(capsys) -> None:
    lines, _ = printed(capsys, LOGS / "v1-none-0" / SEGMENT, "--print-data-log")
    records = [line for line in lines if line.startswith("|")]
    assert " isValid: true crc: " in records[0]
    assert any(" key: key-" in line and " payload: " in line for line in records)


def test_without_metadata_only_keys_and_payloads_are_printed(capsys) -> None:
    flags = ("--skip-record-metadata", "--print-data-log")
    lines, _ = printed(capsys, LOGS / "v1-none-0" / SEGMENT, *flags)
    records = [line for line in lines if "payload" in line]
    assert records
    assert not [line for line in records if "isValid" in line]


def test_objects_have_the_same_fields(capsys) -> None:
    lines, _ = printed(capsys, LOGS / "v1-gzip-0" / SEGMENT, "--json", "--deep-iteration")
    batch, record = json.loads(lines[2]), json.loads(lines[3])
    assert batch == {
        "lastOffset": 2, "position": 0, "CreateTime": 1500007000021, "size": 243, "magic": 1,
        "compresscodec": "gzip", "crc": 3324647281, "isvalid": True,
    }  # fmt: skip
    assert record == {
        "offset": 0, "CreateTime": 1500007000021, "keySize": -1, "valueSize": 22, "isValid": True,
        "crc": 28926008,
    }  # fmt: skip
    lines, _ = printed(capsys, LOGS / "v1-gzip-0" / SEGMENT, "--json", "--print-data-log")
    assert json.loads(lines[3]).keys() >= {"key", "payload"}


def test_a_record_that_cannot_be_read_ends_the_dump(capsys, tmp_path) -> None:
    content = bytearray((LOGS / "v1-gzip-0" / SEGMENT).read_bytes())
    content[60] ^= 0xFF  # inside the first wrapper's value
    path = tmp_path / SEGMENT
    path.write_bytes(content)
    assert main(["dump-log", "--files", str(path), "--deep-iteration"]) == 1
    output = capsys.readouterr()
    assert "isvalid: false" in output.out
    assert "records are not valid gzip" in output.err
