"""Content of the record of a value: the number, and filling that follows from it.

So a damaged or mixed-up record is no value that was ever written.
"""

from typing import Final

FILLING_BYTES_MAX: Final = 600


def content_of(value: int) -> bytes:
    """Content of a record; its size is one of many."""
    text = f"{value}:".encode()
    size_bytes = len(text) + value * 37 % FILLING_BYTES_MAX
    return (text * (size_bytes // len(text) + 1))[:size_bytes]


def value_of(content: bytes) -> int | str:
    """Value of a record; what is no content of a value is described by a text."""
    number = content.partition(b":")[0]
    if number.isdigit() and content_of(int(number)) == content:
        return int(number)
    return f"{len(content)} bytes: {content[:20].hex()}"
