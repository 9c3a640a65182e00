"""Lines of text as records: Kafka's LineMessageReader."""

import re
from typing import Final, NamedTuple

import msgspec

from cli.arguments import UsageError

Headers = tuple[tuple[str, bytes | None], ...]
_SEPARATORS: Final = ("key.separator", "headers.separator", "headers.delimiter",
                      "headers.key.separator")  # fmt: skip


class ReadError(Exception):
    """A line that is no record; the text is Kafka's message."""


class ReadRecord(NamedTuple):
    """Key, value and headers of a line."""

    key: bytes | None
    value: bytes | None
    headers: Headers


class LineReader(msgspec.Struct, frozen=True, kw_only=True):
    """Properties of the reader, named as Kafka's with `_` for the dots."""

    parse_key: bool = False
    key_separator: str = "\t"
    parse_headers: bool = False
    headers_delimiter: str = "\t"
    headers_separator: str = ","
    headers_key_separator: str = ":"
    ignore_error: bool = False
    null_marker: str | None = None

    def record(self, line: str, line_number: int) -> ReadRecord:
        """The record of a line without its end.

        Raises:
            ReadError: a separator is missing and `ignore_error` is not set.
        """
        headers = key = None
        start = 0
        if self.parse_headers:
            marks = self.headers_delimiter, "headers delimiter"
            headers, start = self._part(line, start, marks, line_number)
        if self.parse_key:
            marks = self.key_separator, "key separator"
            key, start = self._part(line, start, marks, line_number)
        split: Headers = ()
        if headers is not None and headers != self.null_marker:
            split = self._headers(headers, line_number)
        return ReadRecord(
            None if key is None else self._content(key), self._content(line[start:]), split
        )

    def _content(self, text: str) -> bytes | None:
        return None if text == self.null_marker else text.encode("utf-8", "replace")

    def _part(
        self, line: str, start: int, marks: tuple[str, str], line_number: int
    ) -> tuple[str | None, int]:
        """The text up to the separator (given with its name), and the position behind it."""
        separator, name = marks
        end = line.find(separator, start)
        if end >= 0:
            return line[start:end], end + len(separator)
        if self.ignore_error:
            return None, start
        raise ReadError(f"No {name} found on line number {line_number}: '{line}'")

    def _headers(self, text: str, line_number: int) -> Headers:
        pairs = re.split(self.headers_separator, text)
        while text and pairs and not pairs[-1]:  # as Java's split, also of separators alone
            pairs.pop()
        return tuple(self._header(pair, line_number) for pair in pairs)

    def _header(self, pair: str, line_number: int) -> tuple[str, bytes | None]:
        name, separator, value = pair.partition(self.headers_key_separator)
        if not separator:
            if self.ignore_error:
                return pair, None
            raise ReadError(
                f"No header key separator found in pair '{pair}' on line number {line_number}"
            )
        if name == self.null_marker:
            raise ReadError(
                f"Header keys should not be equal to the null marker '{name}' as they can't be null"
            )
        return name, self._content(value)


def reader_of(properties: dict[str, str]) -> LineReader:
    """The reader with these properties; unknown ones are ignored, as by Kafka.

    Raises:
        UsageError: separators that cannot be told apart, or not a regular expression.
    """
    known = {name.replace("_", "."): name for name in LineReader.__struct_fields__}
    values = {known[name]: value for name, value in properties.items() if name in known}
    flags = ("parse_key", "parse_headers", "ignore_error")
    made = msgspec.convert(
        {
            name: value.strip().lower() == "true" if name in flags else value
            for name, value in values.items()
        },
        LineReader,
    )
    texts = {name: getattr(made, name.replace(".", "_")) for name in _SEPARATORS}
    for first, second in (
        ("headers.delimiter", "headers.separator"),
        ("headers.delimiter", "headers.key.separator"),
        ("headers.separator", "headers.key.separator"),
    ):
        if texts[first] == texts[second]:
            raise UsageError(f"{first} and {second} may not be equal")
    for name, text in texts.items():
        if text == made.null_marker:
            raise UsageError(f"null.marker and {name} may not be equal")
        if not text:
            raise UsageError(f"{name} may not be empty")
    try:
        re.compile(made.headers_separator)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"headers.separator is not a regular expression: {error}") from error
    return made
