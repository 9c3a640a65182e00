"""Histories as EDN, JSON lines and MessagePack: text or bytes to events and back.

A killed harness leaves a torn last line or object after whole ones: it is left out, and
`Parsed.left_out` says so. Torn is only what more text could have made whole. Any other damage is a
`HistoryError` with its place.
"""

import contextlib
import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn

import msgpack  # type: ignore[import-untyped]

from jepsen.linearizability.formats import edn
from jepsen.linearizability.formats.fields import event_of, fields_of
from jepsen.linearizability.history import Event, HistoryError
from jepsen.linearizability.values import (
    Keyword,
    Tagged,
    from_plain,
    to_plain,
    whole_number,
)

OBJECT_BYTES_MAX: Final = 1 << 26
OPERATION_TAG: Final = "jepsen.history.Op"
"""Tag of Jepsen 0.3, which prints its events as tagged maps."""
LEVELS_AROUND_VALUES: Final = 3
"""Levels of EDN: a vector of events, the tag of one, its map."""
BLANK: Final = re.compile(r"[\s,]*+(?:;[^\n]*+\n[\s,]*+)*+")
JSON_ARRAY: Final = re.compile(r'\[\s*+\{\s*+"[^"\\]*+(?:\\.[^"\\]*+)*+"\s*+:')
JSON_STRING: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
JSON_TOKEN_ENDS: Final = (
    "", '"', '\\"', '0"', '00"', '000"', '0000"', "0", "e", "ue", "rue", "se", "lse", "alse",
    "l", "ll", "ull",
)  # fmt: skip
JSON_MEMBER_ENDS: Final = ("", "0", ":0", '"":0')
PACKED_FIELDS: Final = re.compile(rb"(?=(?:[\x81-\x8f]|\xde..|\xdf....)[\xa1-\xbf])", re.DOTALL)
"""Beginning of a map in MessagePack with a name of up to 31 bytes first."""
LOOKS_MAX: Final = 1000
LOOK_BYTES: Final = 1 << 16


class Parsed(NamedTuple):
    """Events of a file; `lines` has the line or object of each, from 1.

    `left_out` names a torn line or object after them, None if there is none.
    """

    events: list[Event]
    lines: list[int]
    left_out: str | None = None


def parse_edn(text: str, source: str) -> Parsed:
    """Parse one map per event, or one vector of maps; numbered by the line where each ends."""
    found = Parsed([], [])
    line, counted = 1, 0
    try:
        for form, offset in edn.forms(text, spare_depth=LEVELS_AROUND_VALUES):
            line += text.count("\n", counted, offset)
            counted = offset
            for fields in form if isinstance(form, list) else [form]:
                found.events.append(_event(fields, f"{source}:{line}", _with_plain_names))
                found.lines.append(line)
    except edn.EdnError as error:
        if found.events and error.is_cut and _is_last_line(text, counted):
            return found._replace(left_out=_torn("line", text.count("\n") + 1))
        line += text.count("\n", counted, error.offset)
        if JSON_ARRAY.match(text.lstrip()) is not None:
            text = "a JSON array is no history: one object per line, without brackets around them"
            raise HistoryError(f"{source}:1: {text}") from error
        raise HistoryError(f"{source}:{line}: {error}") from error
    return found


def _torn(what: str, number: int) -> str:
    return f"{what} {number} breaks off: left out"


def _is_last_line(text: str, whole_end: int) -> bool:
    """True if the text after the last whole form is one event, alone in the last line."""
    start = text.rfind("\n") + 1
    is_alone = whole_end < start < len(text) and BLANK.fullmatch(text, whole_end, start) is not None
    return is_alone and text[start:].lstrip().startswith(("{", "#"))


def _with_plain_names(fields: Any) -> Any:
    if isinstance(fields, Tagged) and fields.tag == OPERATION_TAG:
        fields = fields.value
    if not isinstance(fields, Mapping):
        return fields
    return {_field_name(name): item for name, item in fields.items()}


def _field_name(name: Any) -> str:
    if not isinstance(name, str):
        raise ValueError(f"field name {name!r} is no string")  # noqa: TRY004  # input, not a bug
    return str(name)


def written_edn(events: Sequence[Event]) -> str:
    """Write one map per line; names of fields, types and functions are keywords if possible."""
    lines = []
    for event in events:
        fields = fields_of(event)
        for name in ("process", "type", "f"):
            item = fields[name]
            if isinstance(item, str) and edn.is_name(item):
                fields[name] = Keyword(item)
        named = {Keyword(name) if edn.is_name(name) else name: v for name, v in fields.items()}
        lines.append(edn.dumps(named) + "\n")
    return "".join(lines)


def parse_jsonl(text: str, source: str) -> Parsed:
    """Parse one object per line."""
    found = Parsed([], [])
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        place = f"{source}:{number}"
        try:
            fields = _JSON.decode(line)
        except (ValueError, RecursionError) as error:
            if found.events and number == len(lines) and _is_torn_object(line):
                return found._replace(left_out=_torn("line", number))
            raise HistoryError(f"{place}: no JSON object: {error}") from error
        found.events.append(_event(fields, place, _unpacked))
        found.lines.append(number)
    return found


def _is_torn_object(line: str) -> bool:
    """True if some ending makes the line an object: the rest of a token, a member, brackets."""
    if not line.lstrip().startswith("{"):
        return False
    closing: list[str] = []
    for bracket in re.findall(r"[][{}]", JSON_STRING.sub("", line)):
        if bracket in "[{":
            closing.append("]" if bracket == "[" else "}")
        elif not closing or closing.pop() != bracket:
            return False
    closed = "".join(reversed(closing))
    return any(
        _is_json(f"{line}{token}{member}{closed}")
        for token in JSON_TOKEN_ENDS
        for member in JSON_MEMBER_ENDS
    )


def _is_json(text: str) -> bool:
    try:
        _JSON.decode(text)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_JSON: Final = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=whole_number)


def written_jsonl(events: Sequence[Event]) -> str:
    """Write one object per line, in ASCII."""
    return "".join(
        json.dumps(packed_fields(event), separators=(",", ":"), allow_nan=False) + "\n"
        for event in events
    )


def parse_msgpack(data: bytes, source: str) -> Parsed:
    """Parse one map per event, one after the other; numbered from 1."""
    unpacker = msgpack.Unpacker(
        raw=False,
        strict_map_key=False,
        unicode_errors="surrogatepass",
        max_buffer_size=max(len(data), 1),
        max_str_len=OBJECT_BYTES_MAX,
    )
    unpacker.feed(data)
    found = Parsed([], [])
    while True:
        number, start = len(found.events) + 1, unpacker.tell()
        place = f"{source}: object {number}"
        try:
            fields = unpacker.unpack()
        except msgpack.OutOfData as error:
            if start == len(data):
                return found
            if found.events and not _holds_event(data, start + 1):
                return found._replace(left_out=_torn("object", number))
            raise HistoryError(f"{place}: no MessagePack: it goes beyond the end") from error
        except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
            raise HistoryError(f"{place}: no MessagePack: {error}") from error
        found.events.append(_event(fields, place, _unpacked))
        found.lines.append(number)


def _holds_event(data: bytes, start: int) -> bool:
    """True if a whole event stands somewhere after `start`: damage has swallowed it.

    A value may hold the names of fields too, so they alone prove nothing. An event is searched for
    in the first 1,000 places where a map may begin, in 64 KiB each.
    """
    for match in itertools.islice(PACKED_FIELDS.finditer(data, start), LOOKS_MAX):
        looked_at = data[match.start() : match.start() + LOOK_BYTES]
        unpacker = msgpack.Unpacker(
            raw=False,
            strict_map_key=False,
            unicode_errors="surrogatepass",
            max_buffer_size=len(looked_at),  # else every look allocates a megabyte
        )
        unpacker.feed(looked_at)
        with contextlib.suppress(ValueError, TypeError, RecursionError, msgpack.UnpackException):
            event_of(_unpacked(unpacker.unpack()))
            return True
    return False


def written_msgpack(events: Sequence[Event]) -> bytes:
    """Write one map per event, one after the other."""
    packer = msgpack.Packer(unicode_errors="surrogatepass")
    return b"".join(packer.pack(packed_fields(event)) for event in events)


def packed_fields(event: Event) -> dict[str, Any]:
    """Fields in the plain form of `values`, as JSON lines and MessagePack hold them.

    Raises:
        HistoryError: A value that no format has.
    """
    try:
        return {name: to_plain(item) for name, item in fields_of(event).items()}
    except ValueError as error:
        raise HistoryError(f"event {event.f} of process {event.process}: {error}") from error


def _unpacked(fields: Any) -> Any:
    if not isinstance(fields, dict):
        return fields
    return {_field_name(name): from_plain(item) for name, item in fields.items()}


def _event(fields: Any, place: str, unpacked: Callable[[Any], Any]) -> Event:
    try:
        return event_of(unpacked(fields))
    except ValueError as error:
        raise HistoryError(f"{place}: {error}") from error
