"""History files in every format; the format is detected on reading."""

import gzip
import re
import zlib
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Final

from jepsen.linearizability.formats import codecs, jepsen_log
from jepsen.linearizability.formats.codecs import Parsed
from jepsen.linearizability.history import Event, History, HistoryError

GZIP_MAGIC: Final = b"\x1f\x8b"
UNPACKED_BYTES_MAX: Final = 1 << 30
MEMBERS_MAX: Final = 1 << 20
PIECE_BYTES: Final = 1 << 13
PADDING: Final = re.compile(rb"\0*")
LOOK_BYTES: Final = 1 << 16


class Format(Enum):
    """Formats, by the names that people use."""

    JEPSEN_LOG = "jepsen-log"
    EDN = "edn"
    JSONL = "jsonl"
    MSGPACK = "msgpack"


def format_of(data: bytes, source: str = "history") -> Format:
    """Detect the format of a file by its first bytes; an empty file is JSON lines.

    Raises:
        HistoryError: It is none of them.
    """
    if data and (0x80 <= data[0] <= 0x8F or data[0] in (0xDE, 0xDF)):
        return Format.MSGPACK
    head = data[:LOOK_BYTES].lstrip(b"\xef\xbb\xbf \t\r\n,")
    if not head or re.match(rb'\{\s*"', head):
        return Format.JSONL
    if head[:1] in (b"{", b";", b"[", b"#"):
        return Format.EDN
    if re.search(rb"jepsen\.util\s+-\s", head):
        return Format.JEPSEN_LOG
    start = head[:30].decode("utf-8", errors="replace")
    raise HistoryError(
        f"{source}:1: begins with {start!r}: none of jepsen log lines, EDN, JSON lines, MessagePack"
    )


def parse_history(data: bytes, source: str = "history") -> History:
    """Read the history of a file's bytes, gzipped or not.

    Args:
        data: The bytes.
        source: Name for messages.

    Raises:
        HistoryError: They are no history; the text names the place.
    """
    if data.startswith(GZIP_MAGIC):
        data = _unzipped(data, source)
    kind = format_of(data, source)
    found = _parsed(kind, data, source)
    return History(found.events, source=source, lines=found.lines, left_out=found.left_out)


def _parsed(kind: Format, data: bytes, source: str) -> Parsed:
    if kind is Format.MSGPACK:
        return codecs.parse_msgpack(data, source)
    text = _decoded(data, source)
    match kind:
        case Format.JEPSEN_LOG:
            return jepsen_log.parse(text, source)
        case Format.EDN:
            return codecs.parse_edn(text, source)
        case Format.JSONL:
            return codecs.parse_jsonl(text, source)


def _decoded(data: bytes, source: str) -> str:
    """Decode the text; a character cut by the end is U+FFFD, so that its line is not whole."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        is_cut = error.end == len(data) and error.reason == "unexpected end of data"
        if is_cut and b"\n" not in data[error.start :]:
            return data[: error.start].decode("utf-8-sig") + "\ufffd"
        line = data.count(b"\n", 0, error.start) + 1
        raise HistoryError(f"{source}:{line}: not UTF-8: {error.reason}") from error


def _unzipped(data: bytes, source: str) -> bytes:
    """Unzip all members of a gzip file, one after the other.

    The file is fed in pieces, for what a member leaves of its piece is copied.
    """
    found: list[bytes] = []
    room, at = UNPACKED_BYTES_MAX, 0
    for _ in range(MEMBERS_MAX):
        unpacker = zlib.decompressobj(wbits=31)
        while at < len(data) and not unpacker.eof:
            piece = data[at : at + PIECE_BYTES]
            try:
                found.append(unpacker.decompress(piece, room + 1))
            except zlib.error as error:
                raise HistoryError(f"{source}: cannot be unzipped: {error}") from error
            at += len(piece) - len(unpacker.unused_data)
            room -= len(found[-1])
            if room < 0:
                raise HistoryError(f"{source}: more than {UNPACKED_BYTES_MAX} bytes when unzipped")
        if not unpacker.eof:
            raise HistoryError(f"{source}: cannot be unzipped: the file ends before its data do")
        padding = PADDING.match(data, at)  # gzip allows zeros after a member
        assert padding is not None, "it matches nothing too"
        at = padding.end()
        if at == len(data):
            return b"".join(found)
    raise HistoryError(f"{source}: more than {MEMBERS_MAX} gzip members")


def read_history(path: Path) -> History:
    """Read the history of a file.

    Raises:
        HistoryError: It is no history; the text names file and line.
        OSError: It cannot be read.
    """
    return parse_history(path.read_bytes(), str(path))


def written_history(events: Sequence[Event], kind: Format) -> bytes:
    """Write the events in a format.

    Raises:
        HistoryError: An event holds what the format cannot carry.
    """
    try:
        match kind:
            case Format.JEPSEN_LOG:
                return jepsen_log.written(events).encode()
            case Format.EDN:
                return codecs.written_edn(events).encode()
            case Format.JSONL:
                return codecs.written_jsonl(events).encode()
            case Format.MSGPACK:
                return codecs.written_msgpack(events)
    except HistoryError:
        raise
    except ValueError as error:
        raise HistoryError(f"cannot be written as {kind.value}: {error}") from error


def write_history(path: Path, events: Sequence[Event], kind: Format) -> None:
    """Write a history file, gzipped when the name ends in .gz."""
    data = written_history(events, kind)
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
