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
from cli.offline.dump_segment import FileNameError, MissingKeyError, SegmentDump
from cli.offline.record_printers import record_printer
from storage.errors import CorruptFileError
from wire.errors import CorruptBatchError

_IN_MAIN: Final = 'Exception in thread "main" java.lang.'
"""Begin of the lines in which Kafka's tool ends with an exception of Java."""


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
        except MissingKeyError as error:
            sys.stdout.write(f"{error.line}\n")
            sys.stderr.write(f"{_IN_MAIN}RuntimeException: {error}\n")
            return 1
        except FileNameError as error:
            sys.stderr.write(f"{_IN_MAIN}NumberFormatException: {error}\n")
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
                message_bytes_max=options.max_message_size,
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
    describe = record_printer(options)
    print_data = options.print_data_log or describe is not None
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
