"""Output of `dump-log` for each kind of file."""

import re
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from cli.arguments import shortened
from cli.offline.dump_index import IndexDump, producer_snapshot_lines, transaction_index_lines
from cli.offline.dump_objects import SegmentObjects
from cli.offline.dump_segment import RecordPrinter, SegmentDump
from storage.errors import CorruptFileError
from wire.errors import CorruptBatchError


def dump(options: Namespace) -> int:
    """Print the named files and return the exit code."""
    complaints: list[str] = []
    for name in options.files.split(","):
        path = Path(name.strip())
        if options.json:
            sys.stdout.write(msgspec.json.encode({"file": name.strip()}).decode() + "\n")
        else:
            sys.stdout.write(f"Dumping {name.strip()}\n")
        try:
            for line in _dump(path, options, complaints):
                sys.stdout.write(f"{line}\n")
        except BrokenPipeError:  # from our own output, not from the file
            raise
        except OSError as error:
            sys.stderr.write(f"{shortened(name)}: {error.strerror or error}\n")
            return 1
        except CorruptFileError as error:
            sys.stderr.write(f"{name}: {error.reason}\n")
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
            lines = dump.offset_index_lines() if is_offset_index else dump.time_index_lines()
            yield from _written(lines, options)
            complaints.extend(dump.complaints())
        case ".snapshot":
            yield from _written(producer_snapshot_lines(path.read_bytes(), str(path)), options)
        case ".txnindex":
            yield from _written(transaction_index_lines(path), options)
        case _:
            complaints.append(f"Ignoring unknown file {path}")


def _dump_segment(path: Path, options: Namespace, complaints: list[str]) -> Iterator[str]:
    describe = _record_printer(options)
    print_data = options.print_data_log or options.skip_record_metadata or describe is not None
    kind = SegmentObjects if options.json else SegmentDump
    dump = kind(
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
    from pipeline.core.records import coordinator_records as records  # noqa: PLC0415  # for these

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
    """Key text and value of a metadata record, the value as Kafka's JSON."""
    from metadata import json_form, record_codec  # noqa: PLC0415  # only this flag needs them
    from metadata.schema import MetadataRecordError  # noqa: PLC0415

    try:
        content = value or b""
        version = record_codec.decoded_version(content)
        shown = json_form.to_json_text(record_codec.decode(content), version)
    except MetadataRecordError as error:
        raise ValueError(str(error)) from error
    return (None if key is None else key.decode("utf-8", errors="replace")), shown


def _written(lines: Iterator[str], options: Namespace) -> Iterator[str]:
    """Lines of an index or producer snapshot, unchanged or as JSON objects."""
    if not options.json:
        return lines
    return (msgspec.json.encode(line_as_object(line)).decode() for line in lines)


def line_as_object(line: str) -> dict[str, Any]:
    """Numbers of one line by Kafka's names, None for an absent one; other lines as `text`."""
    if _NUMBERS.fullmatch(line) is None:
        return {"text": line}
    return {
        name: None
        if value == "OptionalLong.empty"
        else int(value.removeprefix("OptionalLong[").removesuffix("]"))
        for name, value in _NUMBER.findall(line)
    }


_NUMBER: Final = re.compile(r"([A-Za-z]+): (-?\d+|OptionalLong\[\d+\]|OptionalLong\.empty) ?")
_NUMBERS: Final = re.compile(f"(?:{_NUMBER.pattern})+")
