"""dump-log with a decoder on records that are not its own, and with decoder classes.

The texts are those of Kafka 4.3.1 (dump-log-offsets-decoder-on-data and its neighbours).
"""

import json
from pathlib import Path

import pytest

from cli.offline.dump_log import INTEGERS, LONGS, STRINGS, run
from wire.batches.batch import BatchHeader, RecordView, encode_records
from wire.types import LeaderEpoch, Offset

NAME = "00000000000000000000"
ENDED = (
    'Exception in thread "main" java.lang.RuntimeException: Failed to decode message at offset 3 '
    "using the specified decoder (message had a missing key)\n"
)
Rows = list[tuple[bytes | None, bytes | None]]


def batch(rows: Rows) -> bytes:
    header = BatchHeader(
        base_offset=Offset(0),
        leader_epoch=LeaderEpoch(0),
        last_offset_delta=len(rows) - 1,
        base_timestamp_ms=7,
        max_timestamp_ms=7,
        records_count=len(rows),
    )
    records = [RecordView(Offset(n), 7, key, value, ()) for n, (key, value) in enumerate(rows)]
    return encode_records(header, records)


@pytest.fixture
def dumped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Exit code, texts behind the fields of each record, and standard error."""
    monkeypatch.chdir(tmp_path)

    def dump(rows: Rows, *flags: str) -> tuple[int, list[str], str]:
        Path(f"{NAME}.log").write_bytes(batch(rows))
        code = run(["--files", f"{NAME}.log", *flags])
        printed = capsys.readouterr()
        lines = [line for line in printed.out.splitlines() if line.startswith("| ")]
        return code, [line.partition("headerKeys: []")[2] for line in lines], printed.err

    return dump


@pytest.mark.parametrize(
    "flags",
    [
        ["--offsets-decoder"],
        ["--transaction-log-decoder"],
        ["--transaction-log-decoder", "--offsets-decoder"],
    ],
)
def test_other_records_are_skipped_and_one_without_a_key_is_the_end(dumped, flags) -> None:
    rows = [
        (b"k3", b"v3"),
        (b"k", b"v"),
        (b"k5", b"v"),
        (None, b"null-key-not-decoded"),
        (b"", b""),
    ]
    assert dumped(rows, *flags) == (
        1,
        [
            " key: Unknown record type 27443 at offset 0, skipping.",
            " key: Error at offset 1, skipping. Could not read version from key's buffer.",
            " key: Unknown record type 27445 at offset 2, skipping.",
            "",
        ],
        ENDED,
    )


def test_records_whose_value_cannot_be_read_are_skipped(dumped) -> None:
    key = b"\0\2\0\1g"
    code, (short, damaged, deleted), err = dumped(
        [(key, b"\0"), (key, b"\0\0\0"), (key, None)], "--offsets-decoder"
    )
    assert (code, err) == (0, "")
    assert short == " key: Error at offset 0, skipping. Could not read version from value's buffer."
    assert damaged.startswith(" key: Error at offset 1, skipping. the record is cut or damaged")
    assert deleted == ' key: {"type":"2","data":{"group":"g"}} payload: <DELETE>'


def test_the_offsets_decoder_comes_before_the_others(dumped) -> None:
    row = [(b"\0\2\0\1g", None)]
    for other in ("--transaction-log-decoder", "--cluster-metadata-decoder"):
        (text,) = dumped(row, other, "--offsets-decoder")[1]
        assert text.startswith(' key: {"type":"2"')


def test_objects_name_the_reason(dumped, capsys) -> None:
    Path(f"{NAME}.log").write_bytes(batch([(b"k3", b"v3"), (None, b"v")]))
    assert run(["--files", f"{NAME}.log", "--offsets-decoder", "--json"]) == 1
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert found[-2]["error"] == "key version 27443 is unknown"
    assert (found[-1]["offset"], "key" in found[-1]) == (1, False)


def test_classes_of_keys_and_values(dumped) -> None:
    row = [(b"\xff\xff\xff\xfe", (1 << 40).to_bytes(8, "big"))]
    flags = ["--key-decoder-class", INTEGERS, "--value-decoder-class", LONGS]
    assert dumped(row, *flags)[1] == [" key: -2 payload: 1099511627776"]
    assert dumped([(b"k", b"v")], "--key-decoder-class")[1] == [" key: k payload: v"]
    assert dumped([(None, b"v")], "--value-decoder-class", STRINGS)[1] == [" payload: v"]
    assert dumped([(b"k", None)], "--value-decoder-class", LONGS)[1] == [" key: k"]
    (text,) = dumped([(b"abc", b"v")], "--key-decoder-class", INTEGERS)[1]
    assert text == " payload: Error at 0, skipping. 3 bytes are less than 4"


@pytest.mark.parametrize("name", ["nofile.log", "nofile.index"])
def test_a_name_without_an_offset(name, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["--files", name]) == 1
    printed = capsys.readouterr()
    assert printed.out == f"Dumping {name}\n"
    exception = 'Exception in thread "main" java.lang.NumberFormatException'
    assert printed.err == f'{exception}: For input string: "nofile"\n'


def test_a_batch_above_the_largest_message_of_an_index(dumped, capsys) -> None:
    dumped([(b"k", b"v")])
    Path(f"{NAME}.index").write_bytes(bytes(8))
    size_bytes = len(batch([(b"k", b"v")]))
    for limit, code in ((size_bytes, 0), (size_bytes - 1, 1)):
        assert run(["--files", f"{NAME}.index", "--max-message-size", str(limit)]) == code
    assert f"more than --max-message-size {size_bytes - 1}" in capsys.readouterr().err
