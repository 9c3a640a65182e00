r"""The format of Java's `.properties` files: reading and writing. Standard library only.

    # comment or ! comment
    key=value     key: value     key value     (blanks around the separator are dropped)
    key=first, \
        second    (a line that ends in an odd number of backslashes continues on the next one)
    \t \n \r \f \uXXXX are characters, any other \x is x
    \uD83D\uDE00 are the halves of one character; a half alone is refused (Java keeps it)

A duplicate key has its last value. (java.util.Properties.load)
The launcher in `scripts/` reads and writes with this module before anything is installed.
"""

from collections.abc import Iterator, Mapping
from typing import Final

BLANKS: Final = " \t\f"
SEPARATORS: Final = "=:"
ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
ESCAPED_AT_WRITE: Final = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
UNICODE_DIGITS: Final = 4
SHOWN_CHARACTERS: Final = 80
"""Characters of a key shown in an error line."""


class PropertiesError(ValueError):
    r"""The text is not in the format: a `\u` without four hexadecimal digits, or half a pair."""


def parse_properties(text: str) -> dict[str, str]:
    """Return keys and values of the text, in the order of the first occurrence of each key.

    Raises:
        PropertiesError: a malformed escape; the text names the key.
    """
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        key_end, value_start = _split_position(line)
        try:
            key = _joined(_unescape(line[:key_end]))
            found[key] = _joined(_unescape(line[value_start:]))
        except PropertiesError as error:
            raise PropertiesError(f"{line[: min(key_end, SHOWN_CHARACTERS)]}: {error}") from error
    return found


def format_properties(properties: Mapping[str, str]) -> str:
    """Format one `key=value` line per entry, in order; parsing returns the same mapping."""
    return "".join(
        f"{_escape(key, in_key=True)}={_escape(value, in_key=False)}\n"
        for key, value in properties.items()
    )


def _logical_lines(text: str) -> Iterator[str]:
    """Yield the lines with continuations joined, without comments and blank lines."""
    joined: list[str] = []
    # Only \n, \r and \r\n end a line in this format; str.splitlines knows many more.
    for raw_line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = raw_line.lstrip(BLANKS)
        if not joined and (not line or line[0] in "#!"):
            continue
        trailing = len(line) - len(line.rstrip("\\"))
        if trailing % 2:
            joined.append(line[:-1])
            continue
        yield "".join([*joined, line])
        joined = []
    if joined:
        yield "".join(joined)


def _split_position(line: str) -> tuple[int, int]:
    """Return the end of the key and the start of the value."""
    key_end = 0
    while key_end < len(line) and line[key_end] not in BLANKS + SEPARATORS:
        key_end += 2 if line[key_end] == "\\" else 1
    key_end = min(key_end, len(line))
    start = _skip_blanks(line, key_end)
    if start < len(line) and line[start] in SEPARATORS:
        start = _skip_blanks(line, start + 1)
    return key_end, start


def _skip_blanks(line: str, position: int) -> int:
    while position < len(line) and line[position] in BLANKS:
        position += 1
    return position


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char != "\\" or position == len(text):
            out.append(char if char != "\\" else "")
            continue
        escaped = text[position]
        position += 1
        if escaped == "u":
            out.append(_unicode_character(text[position : position + UNICODE_DIGITS]))
            position += UNICODE_DIGITS
        else:
            out.append(ESCAPES.get(escaped, escaped))
    return "".join(out)


def _unicode_character(digits: str) -> str:
    if len(digits) != UNICODE_DIGITS or not all(c in "0123456789abcdefABCDEF" for c in digits):
        raise PropertiesError(f"malformed \\uxxxx encoding: \\u{digits}")
    return chr(int(digits, 16))


def _joined(text: str) -> str:
    """Join the halves of UTF-16 pairs into characters."""
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError as error:
        half = int.from_bytes(error.object[error.start : error.start + 2], "little")
        raise PropertiesError(
            f"\\u{half:04x} is half of a pair of escapes and no character alone"
        ) from error


def _escape(text: str, *, in_key: bool) -> str:
    out: list[str] = []
    for position, char in enumerate(text):
        if char in ESCAPED_AT_WRITE:
            out.append(ESCAPED_AT_WRITE[char])
        elif (char == " " and (in_key or position == 0)) or (in_key and char in "=:#!"):
            out.append("\\" + char)
        else:
            out.append(char)
    return "".join(out)
