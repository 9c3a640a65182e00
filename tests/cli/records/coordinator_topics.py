"""`__consumer_offsets` and `__transaction_state`, made again from what Kafka's formatters print."""

import base64
import json
import re
import struct
from collections.abc import Iterator
from typing import Any

from pipeline.core.records import coordinator_records as records
from tests.cli.records.broker import Log

TOPICS = {
    "consumer-formatter-offsets": records.CONSUMER_OFFSETS,
    "consumer-formatter-group-metadata": records.CONSUMER_OFFSETS,
    "consumer-formatter-transactions": records.TRANSACTION_STATE,
}
OTHER = struct.pack(">h", 3) + b"another type"


def log_of(topic: str, stdout: str, stderr: str) -> Log:
    """A log of the printed records, then as many of other types as were read besides."""
    kinds = records._KINDS[topic]
    rows = [_record(kinds[row["key"]["type"]], row) for row in objects(stdout)]
    (count,) = re.findall(r"Processed a total of (\d+) messages", stderr)
    log = Log()
    log.append(*rows, *[(OTHER, b"", ())] * (int(count) - len(rows)))
    return log


def objects(text: str) -> Iterator[dict[str, Any]]:
    """The objects of a text without anything between them."""
    position, decoder = 0, json.JSONDecoder()
    while position < len(text):
        row, position = decoder.raw_decode(text, position)
        yield row


def _record(kind: Any, row: dict[str, Any]) -> tuple[Any, ...]:
    key = struct.pack(">h", row["key"]["type"]) + _fields(kind.key, row["key"]["data"], 0)
    if row["value"] is None:
        return key, None, ()
    version = row["value"]["version"]
    is_flexible = version >= kind.flexible_from
    content = _fields(kind.value, row["value"]["data"], version, is_flexible=is_flexible)
    return key, struct.pack(">h", version) + content, ()


def _fields(layout: Any, data: Any, version: int, *, is_flexible: bool = False) -> bytes:
    found, tagged = b"", []
    for name, kind, since, until in layout:
        if not (since <= version and (until is None or version <= until)):
            assert name not in data, name
        elif not isinstance(kind, tuple) or kind[0] == "[":
            found += _value(kind, data[name], version, is_flexible=is_flexible)
        elif name in data:
            content = _value(kind[1], data[name], version, is_flexible=is_flexible)
            tagged.append(bytes([kind[0], len(content)]) + content)
    return found + (bytes([len(tagged)]) + b"".join(tagged) if is_flexible else b"")


def _value(kind: Any, value: Any, version: int, *, is_flexible: bool) -> bytes:
    if kind == "uuid":
        return base64.urlsafe_b64decode(f"{value}==")
    if isinstance(kind, str) and kind not in ("s", "?s", "y"):
        return struct.pack(f">{kind}", value)
    if isinstance(kind, tuple):
        parts = [
            _value(kind[1], item, version, is_flexible=is_flexible)
            if isinstance(kind[1], str)
            else _fields(kind[1], item, version, is_flexible=is_flexible)
            for item in value or ()
        ]
        return _size(value, is_flexible=is_flexible, code="i") + b"".join(parts)
    content = value if value is None else (
        base64.b64decode(value) if kind == "y" else value.encode()
    )  # fmt: skip
    code = "i" if kind == "y" else "h"
    return _size(content, is_flexible=is_flexible, code=code) + (content or b"")


def _size(value: Any, *, is_flexible: bool, code: str) -> bytes:
    size = -1 if value is None else len(value)
    if not is_flexible:
        return struct.pack(f">{code}", size)
    assert size < 127
    return bytes([size + 1])
