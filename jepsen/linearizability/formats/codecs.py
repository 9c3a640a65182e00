"""Histories as EDN, JSON lines and MessagePack: text or bytes to events and back.

A harness that is killed leaves a torn last line or object: it is left out. Any other damage is a
`HistoryError` with its place.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn

import msgpack  # type: ignore[import-untyped]

from jepsen.linearizability.formats import edn
from jepsen.linearizability.formats.fields import event_of, fields_of
from jepsen.linearizability.history import Event, HistoryError
from jepsen.linearizability.values import Keyword, from_plain, to_plain

OBJECT_BYTES_MAX: Final = 1 << 26


def parse_edn(text: str, source: str) -> Iterator[tuple[Event, int]]:
    """One map per event, or one vector of maps; numbered by the line where each ends."""
    line, counted = 1, 0
    try:
        for form, offset in edn.forms(text):
            line += text.count("\n", counted, offset)
            counted = offset
            for fields in form if isinstance(form, list) else [form]:
                yield _event(_with_plain_names(fields), f"{source}:{line}"), line
    except edn.EdnError as error:
        line += text.count("\n", counted, error.offset)
        last_line_start = text.rfind("\n", 0, len(text)) + 1
        if not text.endswith("\n") and _starts_in_last_line(text, counted, last_line_start):
            return
        raise HistoryError(f"{source}:{line}: {error}") from error


def _starts_in_last_line(text: str, counted: int, last_line_start: int) -> bool:
    return not text[counted:last_line_start].strip(" \t\r\n,")


def _with_plain_names(fields: Any) -> Any:
    if not isinstance(fields, Mapping):
        return fields
    return {str(name) if isinstance(name, str) else repr(name): v for name, v in fields.items()}


def written_edn(events: Sequence[Event]) -> str:
    """One map per line; names of fields, types and functions are keywords where they can be."""
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


def parse_jsonl(text: str, source: str) -> Iterator[tuple[Event, int]]:
    """One object per line."""
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        place = f"{source}:{number}"
        try:
            fields = json.loads(line, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            if number == len(lines):  # no line end behind it: torn
                return
            raise HistoryError(f"{place}: no JSON object: {error}") from error
        yield _event(_unpacked(fields, place), place), number


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def written_jsonl(events: Sequence[Event]) -> str:
    """One object per line, ASCII."""
    return "".join(
        json.dumps(packed_fields(event), separators=(",", ":"), allow_nan=False) + "\n"
        for event in events
    )


def parse_msgpack(data: bytes, source: str) -> Iterator[tuple[Event, int]]:
    """One map per event, one behind the other; numbered from 1."""
    unpacker = msgpack.Unpacker(
        raw=False,
        strict_map_key=False,
        unicode_errors="surrogatepass",
        max_buffer_size=max(len(data), 1),
        max_str_len=OBJECT_BYTES_MAX,
    )
    unpacker.feed(data)
    number = 0
    while True:
        number += 1
        place = f"{source}: object {number}"
        try:
            fields = unpacker.unpack()
        except msgpack.OutOfData:
            return  # the end, or a torn last object
        except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
            raise HistoryError(f"{place}: no MessagePack: {error}") from error
        yield _event(_unpacked(fields, place), place), number


def written_msgpack(events: Sequence[Event]) -> bytes:
    """One map per event, one behind the other."""
    packer = msgpack.Packer(unicode_errors="surrogatepass")
    return b"".join(packer.pack(packed_fields(event)) for event in events)


def packed_fields(event: Event) -> dict[str, Any]:
    """The fields in the plain form of `values`, as JSON lines and MessagePack hold them.

    Raises:
        HistoryError: A value that no format has.
    """
    try:
        return {name: to_plain(item) for name, item in fields_of(event).items()}
    except ValueError as error:
        raise HistoryError(f"event {event.f} of process {event.process}: {error}") from error


def _unpacked(fields: Any, place: str) -> Any:
    if not isinstance(fields, dict):
        return fields
    try:
        return {str(name): from_plain(item) for name, item in fields.items()}
    except ValueError as error:
        raise HistoryError(f"{place}: {error}") from error


def _event(fields: Any, place: str) -> Event:
    try:
        return event_of(fields)
    except ValueError as error:
        raise HistoryError(f"{place}: {error}") from error
