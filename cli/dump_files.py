"""The files of `dump-log`, by their kind."""

import re
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from cli.arguments import shortened
from cli.dump_index import IndexDump, producer_snapshot_lines, transaction_index_lines
from cli.dump_segment import RecordPrinter, SegmentDump
from wire.errors import CorruptBatchError


def dump(options: Namespace) -> int:
    """Prints the files named; returns the exit code."""
    complaints: list[str] = []
    write = _json_writer() if options.json else _line_writer
    for name in options.files.split(","):
        path = Path(name.strip())
        write(f"Dumping {name.strip()}")
        try:
            for line in _dump(path, options, complaints):
                write(line)
        except BrokenPipeError:  # of our own output, not of the file
            raise
        except OSError as error:
            sys.stderr.write(f"{shortened(name)}: {error.strerror or error}\n")
            return 1
        except (CorruptBatchError, ValueError) as error:
            sys.stderr.write(f"{name}: {error}\n")
            return 1
    sys.stderr.writelines(f"{line}\n" for line in complaints)
    return 0


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
    describe = _record_printer(options)
    print_data = options.print_data_log or options.skip_record_metadata or describe is not None
    dump = SegmentDump(
        path,
        deep=options.deep_iteration or print_data,
        print_data=print_data,
        describe_record=describe,
        bytes_max=options.max_bytes,
        skip_record_metadata=options.skip_record_metadata,
    )
    yield from dump.lines()
    if dump.non_consecutive:
        complaints.append(f"Non-consecutive offsets in {path.absolute()}")
        complaints.extend(f"  {a} is followed by {b}" for a, b in dump.non_consecutive)


def _record_printer(options: Namespace) -> RecordPrinter | None:
    if options.cluster_metadata_decoder:
        return _metadata_record
    if not (options.offsets_decoder or options.transaction_log_decoder):
        return None
    from pipeline.core import coordinator_records as records  # noqa: PLC0415  # only these need it

    topic = records.CONSUMER_OFFSETS if options.offsets_decoder else records.TRANSACTION_STATE
    decode = records.coordinator_decoder(topic)
    assert decode is not None, f"{topic=} has a decoder"

    def describe(key: bytes | None, value: bytes | None) -> tuple[str | None, str | None]:
        try:
            content = decode(key, value).content
        except records.CoordinatorRecordError as error:
            raise ValueError(str(error)) from error
        shown = content["value"]
        payload = "<DELETE>" if shown is None else msgspec.json.encode(shown).decode()
        return msgspec.json.encode(content["key"]).decode(), payload

    return describe


def _metadata_record(key: bytes | None, value: bytes | None) -> tuple[str | None, str | None]:
    """A metadata record as Kafka's JSON."""
    from metadata import json_form, record_codec  # noqa: PLC0415  # only this flag needs them
    from metadata.schema import MetadataRecordError  # noqa: PLC0415

    try:
        content = value or b""
        version = record_codec.decoded_version(content)
        shown = json_form.to_json_text(record_codec.decode(content), version)
    except MetadataRecordError as error:
        raise ValueError(str(error)) from error
    return (None if key is None else key.decode("utf-8", errors="replace")), shown


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
