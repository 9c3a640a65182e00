"""`kraftline dump-log`: what is in segments, snapshots and indexes (kafka-dump-log's flags, lines).

Exit code 0; 1 when a file cannot be read to its end. With `--json` one object per line.
"""

import re
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from cli.arguments import Parser
from cli.dump_index import IndexDump, producer_snapshot_lines, transaction_index_lines
from cli.dump_segment import ALL_BYTES, SegmentDump
from wire.errors import CorruptBatchError

UNSUPPORTED_DECODERS = (
    "--offsets-decoder",
    "--transaction-log-decoder",
    "--remote-log-metadata-decoder",
    "--share-group-state-decoder",
)


def run(arguments: Sequence[str]) -> int:
    """Prints the files named; returns the exit code."""
    options = _parse(arguments)
    complaints: list[str] = []
    write = _json_writer() if options.json else _line_writer
    for name in options.files.split(","):
        path = Path(name.strip())
        write(f"Dumping {name.strip()}")
        try:
            for line in _dump(path, options, complaints):
                write(line)
        except (CorruptBatchError, ValueError, OSError) as error:
            sys.stderr.write(f"{name}: {error}\n")
            return 1
    sys.stderr.writelines(f"{line}\n" for line in complaints)
    return 0


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = Parser("kraftline dump-log", "Print segments, snapshots, indexes.")
    parser.add_argument("--files", required=True, help="files, separated by commas")
    for flag, text in (
        ("--print-data-log", "print the records, not only the batches"),
        ("--deep-iteration", "look at every record of a batch"),
        ("--cluster-metadata-decoder", "records are metadata records: print them as JSON"),
        ("--index-sanity-check", "check the form of index files only"),
        ("--verify-index-only", "check index files against the log without printing them"),
        ("--skip-record-metadata", "print only keys and payloads of records"),
        ("--json", "one JSON object per line"),
    ):
        parser.add_argument(flag, action="store_true", help=text)
    parser.add_argument("--max-bytes", type=int, default=ALL_BYTES, help="read no more of a file")
    for flag in UNSUPPORTED_DECODERS:
        parser.add_argument(flag, action="store_true", help="not supported yet")
    options = parser.parse_args(arguments)
    for flag in UNSUPPORTED_DECODERS:
        if getattr(options, flag[2:].replace("-", "_")):
            parser.error(f"{flag} is not supported yet")
    return options


def _dump(path: Path, options: Namespace, complaints: list[str]) -> Iterator[str]:
    match path.suffix:
        case ".log" | ".checkpoint":
            yield from _dump_segment(path, options, complaints)
        case ".index" | ".timeindex":
            dump = IndexDump(
                path,
                sanity_only=options.index_sanity_check,
                verify_only=options.verify_index_only,
            )
            is_offset_index = path.suffix == ".index"
            yield from dump.offset_index_lines() if is_offset_index else dump.time_index_lines()
            complaints.extend(dump.complaints())
        case ".snapshot":
            yield from producer_snapshot_lines(path)
        case ".txnindex":
            yield from transaction_index_lines(path)
        case _:
            complaints.append(f"Ignoring unknown file {path}")


def _dump_segment(path: Path, options: Namespace, complaints: list[str]) -> Iterator[str]:
    print_data = (
        options.print_data_log or options.cluster_metadata_decoder or options.skip_record_metadata
    )
    dump = SegmentDump(
        path,
        deep=options.deep_iteration or print_data,
        print_data=print_data,
        describe_payload=_metadata_payload if options.cluster_metadata_decoder else None,
        bytes_max=options.max_bytes,
        skip_record_metadata=options.skip_record_metadata,
    )
    yield from dump.lines()
    if dump.non_consecutive:
        complaints.append(f"Non-consecutive offsets in {path.absolute()}")
        complaints.extend(f"  {a} is followed by {b}" for a, b in dump.non_consecutive)


def _metadata_payload(value: bytes) -> str:
    """A metadata record as Kafka's JSON."""
    from metadata import json_form, record_codec  # noqa: PLC0415  # only this flag needs them
    from metadata.schema import MetadataRecordError  # noqa: PLC0415

    try:
        version = record_codec.decoded_version(value)
        return json_form.to_json_text(record_codec.decode(value), version)
    except MetadataRecordError as error:
        raise ValueError(str(error)) from error


def _line_writer(line: str) -> None:
    sys.stdout.write(line + "\n")


def _json_writer() -> Callable[[str], None]:
    """Prints every line as an object: its fields by Kafka's names, numbers as numbers."""

    def write(line: str) -> None:
        sys.stdout.write(msgspec.json.encode(line_as_object(line)).decode() + "\n")

    return write


def line_as_object(line: str) -> dict[str, Any]:
    """The fields of one printed line; `text` for a line without fields, `payload` parsed."""
    head, separator, payload = line.partition(" payload: ")
    found: dict[str, Any] = {
        name: int(value) if re.fullmatch(r"-?\d+", value) else value
        for name, value in re.findall(r"([A-Za-z]+): (\[[^\]]*\]|\S+)", head.partition(" {")[0])
    }
    control = re.search(r" (LeaderChange:|Snapshot\w+|KRaft\w+) (\{.*\})$", head)
    if control:
        found = {name: value for name, value in found.items() if name != "LeaderChange"}
        found["control"] = control.group(1).rstrip(":")
        found["payload"] = msgspec.json.decode(control.group(2))
    if separator:
        found["payload"] = _parsed(payload)
    return found or {"text": line}


def _parsed(payload: str) -> Any:
    try:
        return msgspec.json.decode(payload)
    except msgspec.DecodeError:
        return payload
