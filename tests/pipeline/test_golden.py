"""Rows of the source against the output of Kafka's dump tool for the same files."""

import gzip
import json
import re
from pathlib import Path

import pyarrow as pa
import pytest

from pipeline.core.reading.options import parse_options
from pipeline.core.reading.reader import read_table
from tests.pipeline.segments import GOLDEN, dump_lines

DATA = GOLDEN / "data-log"
MORE = GOLDEN.parent / "pipeline"  # the partitions that dump-log is not tested with
COLUMNS = (
    "key,{value},offset,timestamp,timestampType,headers,sequence,isControl,batchPosition,"
    "keySize,valueSize,segment"
)


def read(path: Path, **options: str) -> object:
    given = {"path": str(path), "includeControl": "true", "validate": "full"}
    return read_table(parse_options(given | options))


def golden_text(path: Path) -> str:
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).decode()


def printed_files(text: str) -> dict[str, list[str]]:
    """The lines Kafka printed of each `.log` or `.checkpoint` file, in the order of the file."""
    found: dict[str, list[str]] = {}
    for part in re.split(r"(?m)^Dumping ", text)[1:]:
        name, _, body = part.partition("\n")
        lines = [line for line in body.split("\n") if line.startswith(("baseOffset: ", "| offset"))]
        if name.endswith((".log", ".checkpoint")) and lines:
            found.setdefault(name, lines)
    return found


@pytest.mark.parametrize("partition", sorted(path.stem for path in (DATA / "dump").iterdir()))
def test_partitions_equal_the_dump_of_kafka(partition: str) -> None:
    printed = printed_files(golden_text(DATA / "dump" / f"{partition}.txt"))
    assert printed
    for name, lines in printed.items():
        assert dump_lines(read(DATA / name, decode="metadata"), as_printed(DATA, name)) == lines, (
            name
        )


def as_printed(folder: Path, name: str) -> pa.Table:
    """The records of a file as Kafka's dump tool was asked for them: transactions decoded."""
    if not name.startswith("__transaction_state"):
        return read(folder / name, columns=COLUMNS.format(value="value"))
    columns = COLUMNS.format(value="json,apiName")
    return with_shown_keys(read(folder / name, decode="json", columns=columns))


def other_dumps() -> list[Path]:
    paths = sorted((MORE / "dump").glob("*/*.txt"))
    assert len(paths) == 18
    return paths


@pytest.mark.parametrize("path", other_dumps(), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_other_partitions_equal_the_dump_of_kafka(path: Path) -> None:
    printed = printed_files(golden_text(path))
    assert printed
    for name, lines in printed.items():
        folder = MORE / path.parent.name
        batches = read(folder / name, decode="metadata")
        assert dump_lines(batches, as_printed(folder, name)) == lines, name


def with_shown_keys(table: pa.Table) -> pa.Table:
    """Key and value as the transaction decoder of Kafka's dump tool prints them."""
    shown = [json.loads(text) for text in table["json"].to_pylist()]
    texts = {
        part: [json.dumps(one[part], separators=(",", ":")) if one[part] else None for one in shown]
        for part in ("key", "value")
    }
    keys = pa.array([text.encode() for text in texts["key"]], pa.binary())
    values = pa.array(texts["value"], pa.string())
    names = table.schema.names
    table = table.set_column(names.index("key"), "key", keys)
    return table.set_column(names.index("json"), "json", values)


def test_compacted_partitions_with_their_horizons() -> None:
    """After the first cleaning markers and tombstones carry a horizon, and offsets have holes."""
    first = read(MORE / "broker-101-compacted-1", decode="metadata")
    assert any(first["hasDeleteHorizon"].to_pylist())
    second = read(MORE / "broker-101-compacted-2", columns="offset")
    offsets = second["offset"].to_pylist()
    assert offsets == sorted(set(offsets))
    assert len(offsets) < offsets[-1]


@pytest.mark.parametrize("scenario", ["static-4.3.1", "single-4.3.1"])
@pytest.mark.parametrize("dump", ["n1-log", "n1-checkpoints"])
def test_metadata_logs_equal_the_dump_of_kafka(scenario: str, dump: str) -> None:
    folder = GOLDEN / "metadata-log" / scenario
    (path,) = (folder / "dump").glob(f"{dump}.txt*")
    printed = printed_files(golden_text(path))
    assert printed
    for name, lines in printed.items():
        batches = read(folder / "n1" / name, decode="metadata")
        columns = COLUMNS.format(value="json,apiName")
        records = read(folder / "n1" / name, decode="json", columns=columns)
        assert dump_lines(batches, records) == lines, name


MORE_METADATA = MORE / "metadata-log"  # dumps; the logs of n1 are those of tests/metadata


def metadata_dumps() -> list[Path]:
    paths = sorted(MORE_METADATA.glob("*/dump/*.txt.gz"))
    assert len(paths) == 10
    return paths


@pytest.mark.parametrize(
    "path", metadata_dumps(), ids=lambda path: f"{path.parent.parent.name}-{path.name[:6]}"
)
def test_metadata_logs_of_other_scenarios_equal_the_dump_of_kafka(
    path: Path, tmp_path: Path
) -> None:
    """Static and dynamic quorums of 3.9.1 and 4.3.1, every old record version, a raised one."""
    scenario, node = path.parent.parent, path.name.partition("-")[0]
    own = scenario / node
    source = own if own.is_dir() else GOLDEN.parent / "metadata" / scenario.name
    folder = tmp_path / "__cluster_metadata-0"
    folder.symlink_to(source, target_is_directory=True)
    printed = printed_files(golden_text(path))
    assert printed
    for name, lines in printed.items():
        file = folder / name.rpartition("/")[2]
        batches = read(file, decode="metadata")
        columns = COLUMNS.format(value="json,apiName")
        records = read(file, decode="json", columns=columns)
        found = dump_lines(batches, records)
        if scenario.name.endswith("3.9.1"):  # its tool does not print this one's content
            found = [re.sub(r"LeaderChange: .*", "controlType: LEADER_CHANGE(2)", line)
                     for line in found]  # fmt: skip
        assert found == lines, name
