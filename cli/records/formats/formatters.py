"""Records as Kafka's DefaultMessageFormatter prints them, as JSON, or not at all."""

import base64
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from cli.arguments import UsageError, shortened
from cli.connect import json_line
from cli.records.clients.fetcher import NO_TIMESTAMP, Fetched
from cli.records.formats.deserializers import Deserialize, deserializer_of
from cli.records.formats.formatter_names import COORDINATOR_FORMATTERS, PACKAGE

Format = Callable[[Fetched], bytes]
_OLD_PACKAGE: Final = "kafka.tools."


def formatter_of(name: str, properties: Mapping[str, str]) -> Format:
    """The function of a formatter's class.

    Raises:
        UsageError: the class, or that of a deserializer, is not known.
    """
    short = name.removeprefix(PACKAGE).removeprefix(_OLD_PACKAGE)
    if short == "NoOpMessageFormatter":
        return lambda _record: b""
    if short in COORDINATOR_FORMATTERS:
        from cli.records.formats import coordinator_formatters  # noqa: PLC0415  # rarely used

        return coordinator_formatters.CoordinatorFormatter(short).format
    if short not in ("DefaultMessageFormatter", "LoggingMessageFormatter"):
        raise UsageError(f"--formatter {shortened(name)} is not known here")
    return default_formatter(properties).format


class DefaultFormatter(msgspec.Struct, frozen=True, kw_only=True):
    """Properties of Kafka's class, named as there with `_` for the dots."""

    print_timestamp: bool = False
    print_partition: bool = False
    print_offset: bool = False
    print_delivery: bool = False
    print_epoch: bool = False
    print_headers: bool = False
    print_key: bool = False
    print_value: bool = True
    key_separator: bytes = b"\t"
    line_separator: bytes = b"\n"
    headers_separator: bytes = b","
    null_literal: bytes = b"null"
    key_deserializer: Deserialize | None = None
    value_deserializer: Deserialize | None = None
    headers_deserializer: Deserialize | None = None

    def format(self, fetched: Fetched) -> bytes:
        """The bytes for a record.

        Raises:
            DeserializeError: a part is not what its deserializer reads.
        """
        record = fetched.record
        columns: list[bytes] = []
        if self.print_timestamp:
            has_time = fetched.timestamp_type != NO_TIMESTAMP
            stamp = f"{fetched.timestamp_type}:{record.timestamp_ms}"
            columns.append((stamp if has_time else "NO_TIMESTAMP").encode())
        if self.print_partition:
            columns.append(b"Partition:%d" % fetched.partition.number)
        if self.print_offset:
            columns.append(b"Offset:%d" % record.offset)
        if self.print_delivery:
            columns.append(b"Delivery:NOT_PRESENT")
        if self.print_epoch:
            columns.append(b"Epoch:NOT_PRESENT")  # Kafka's tool drops it
        if self.print_headers:
            columns.append(self._headers(record.headers))
        if self.print_key:
            columns.append(self._read(self.key_deserializer, record.key))
        if self.print_value:
            columns.append(self._read(self.value_deserializer, record.value))
        return self.key_separator.join(columns) + self.line_separator if columns else b""

    def _headers(self, headers: tuple[tuple[str, bytes | None], ...]) -> bytes:
        if not headers:
            return b"NO_HEADERS"
        return self.headers_separator.join(
            name.encode() + b":" + self._read(self.headers_deserializer, value)
            for name, value in headers
        )

    def _read(self, deserialize: Deserialize | None, content: bytes | None) -> bytes:
        content = self.null_literal if content is None else content
        return content if deserialize is None else deserialize(content)


def default_formatter(properties: Mapping[str, str]) -> DefaultFormatter:
    """The formatter with these properties; others are ignored, as by Kafka.

    Raises:
        UsageError: a deserializer is not known.
    """
    values: dict[str, Any] = {}
    for name in DefaultFormatter.__struct_fields__:
        value = properties.get(name.replace("_", "."))
        if value is None:
            continue
        if name.startswith("print_"):
            values[name] = value.strip().lower() == "true"
        elif name.endswith("_deserializer"):
            values[name] = deserializer_of(value)
        else:
            values[name] = value.encode()
    return DefaultFormatter(**values)


def json_formatter(fetched: Fetched) -> bytes:
    """A JSON object for a record; bytes that are no UTF-8 have base64 under another name."""
    record = fetched.record
    headers = [{"name": name, **_content("value", value)} for name, value in record.headers]
    return json_line({
        "topic": fetched.partition.topic,
        "partition": fetched.partition.number,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "timestamp_type": fetched.timestamp_type,
        "headers": headers,
        **_content("key", record.key),
        **_content("value", record.value),
    }).encode()  # fmt: skip


def _content(name: str, content: bytes | None) -> dict[str, str | None]:
    try:
        return {name: None if content is None else content.decode()}
    except UnicodeDecodeError:
        assert content is not None, "only bytes are decoded"
        return {f"{name}_base64": base64.b64encode(content).decode()}
