"""Outputs of Kafka's dump tool that were recorded without their files, which are made again."""

from pathlib import Path

import pytest

from cli.offline.dump_log import run
from tests.cli.golden import Recorded, data_others
from tests.cli.offline.recorded_segments import Headers, indexed_log, packed, segment, snapshot

TOOL = "DumpLogSegments"
LOG, INDEX, TIME_INDEX = (f"00000000000000000000.{suffix}" for suffix in ("log", "index",
                          "timeindex"))  # fmt: skip
HEADERS: list[Headers] = [
    (("h1", b"v1"), ("h2", b"v2")),
    (("h1", b"x"), ("h1", b"y")),
    (("h", b""),),
    (("h", None),),
]
"""Of the records of topic `audit` that have some, in order."""
LINES, PAYMENTS, AUDIT = "print-data-deep", "print-data", "headers"
LOGS = {
    "headers": AUDIT,
    "skip-metadata": AUDIT,
    "print-data": PAYMENTS,
    "offsets-decoder-on-data": PAYMENTS,
    "two-decoders": PAYMENTS,
    "txn-decoder-on-data": PAYMENTS,
    "print-data-deep": LINES,
    "shallow": LINES,
    "max-bytes": LINES,
}
"""The output that has the whole log of an output."""
OTHERS = ("index", "index-sanity", "missing", "no-files", "snapshot", "txnindex", "unknown-suffix",
          "verify-index-only")  # fmt: skip


def recorded(name: str) -> Recorded:
    return data_others()[f"data-4.3.1/dump-log-{name}"]


def rows_of(section: str) -> str:
    """The lines of one file behind its name."""
    return section.strip().partition("\n")[2]


def write_files(folder: Path, name: str) -> None:
    log = recorded(LOGS.get(name, AUDIT))
    headers = HEADERS if log is recorded(AUDIT) else []
    (folder / LOG).write_bytes(segment(log.stdout, headers))
    for empty in (INDEX, TIME_INDEX, "partition.metadata"):
        (folder / empty).write_bytes(b"")
    if name == "index":  # no output prints its log
        _, offsets, times = recorded(name).stdout.split("Dumping ")
        (folder / LOG).write_bytes(indexed_log(rows_of(offsets), rows_of(times)))
        (folder / INDEX).write_bytes(packed(rows_of(offsets), ">ii"))
        (folder / TIME_INDEX).write_bytes(packed(rows_of(times), ">qi"))
    printed = recorded("snapshot").stdout
    (folder / "00000000000000000022.snapshot").write_bytes(snapshot(printed))
    aborted = packed(recorded("txnindex").stdout, ">hqqqq")
    (folder / "00000000000000000000.txnindex").write_bytes(aborted)


@pytest.mark.parametrize("name", [*LOGS, *OTHERS])
def test_output(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_files(tmp_path, name)
    monkeypatch.chdir(tmp_path)
    output = recorded(name)
    try:
        code: int | str | None = run(output.args)
    except SystemExit as left:
        code = left.code
    printed = capsys.readouterr()
    assert (code, printed.out.rstrip("\n")) == (output.exit, output.stdout.rstrip("\n"))
    lines = 1 if name == "no-files" else None  # behind it comes the usage
    assert printed.err.splitlines()[:lines] == output.stderr.rstrip("\n").splitlines()[:lines]


@pytest.mark.parametrize(
    ("flags", "records"),
    [
        (["--print-data-log"], {"", "| key: tk payload: tv1", "| payload: no separator here"}),
        (["--deep-iteration"], {""}),
        ([], set()),
    ],
)
def test_without_metadata_a_record_is_its_key_and_payload(
    flags: list[str],
    records: set[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By the code of 4.3.1: control records, and records that are not printed, are empty lines."""
    write_files(tmp_path, PAYMENTS)
    assert run(["--files", str(tmp_path / LOG), "--skip-record-metadata", *flags]) == 0
    lines = capsys.readouterr().out.splitlines()[2:]
    printed = {line for line in lines if not line.startswith("baseOffset: ")}
    assert records <= printed
    assert printed == records or "--print-data-log" in flags
    assert all(line.startswith(("| key: ", "| payload: ")) for line in printed - {""})


def test_a_missing_key_ends_a_dump_without_metadata(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_files(tmp_path, PAYMENTS)
    flags = ["--skip-record-metadata", "--offsets-decoder"]
    assert run(["--files", str(tmp_path / LOG), *flags]) == 1
    assert capsys.readouterr().out.endswith("isvalid: true\n\n")


def test_every_output_is_made_again_or_named() -> None:
    found = {run.name for run in data_others().values() if run.command == TOOL}
    named = {*LOGS, *OTHERS}
    assert found == {f"data-4.3.1/dump-log-{name}" for name in named}
