"""`__consumer_offsets` and `__transaction_state`, made again from what Kafka's formatters print."""

import base64
import json
import re
import struct
from collections.abc import Iterator
from typing import Any

from coordinator.records.codec import encode
from coordinator.records.kinds import CONSUMER_OFFSETS, KINDS, TRANSACTION_STATE
from coordinator.records.schema import ArrayOf, CoordinatorRecord, fields_of
from metadata.schema import BYTES, UUID
from tests.cli.records.broker import Log

TOPICS = {
    "consumer-formatter-offsets": CONSUMER_OFFSETS,
    "consumer-formatter-group-metadata": CONSUMER_OFFSETS,
    "consumer-formatter-transactions": TRANSACTION_STATE,
}
OTHER = struct.pack(">h", 15) + b"another type"


def log_of(topic: str, stdout: str, stderr: str) -> Log:
    """A log of the printed records, then as many of other types as were read besides."""
    kinds = KINDS[topic]
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
    return *encode(record_of(kind, row)), ()


def record_of(kind: Any, row: dict[str, Any]) -> CoordinatorRecord:
    """A record as it is printed."""
    key = _struct(kind.key, row["key"]["data"])
    if row["value"] is None:
        return CoordinatorRecord(key, None)
    value = _struct(kind.value, row["value"]["data"])
    return CoordinatorRecord(key, value, row["value"]["version"])


def _struct(cls: Any, data: dict[str, Any]) -> Any:
    specs = {spec.json_name: spec for spec in fields_of(cls)}
    assert data.keys() <= specs.keys()
    found = {spec.name: spec.default for spec in specs.values()}
    return cls(**found | {specs[k].name: _value(specs[k].rule.type, v) for k, v in data.items()})


def _value(kind: Any, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(kind, ArrayOf):
        return tuple(_value(kind.element, item) for item in value)
    if isinstance(kind, type):
        return _struct(kind, value)
    if kind is UUID:
        return base64.urlsafe_b64decode(f"{value}==")
    return base64.b64decode(value) if kind is BYTES else value
