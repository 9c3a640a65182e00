"""Directory ids as words of a command line: read as Java's `Uuid.fromString` reads them.

Source: apache/kafka: clients/.../common/Uuid.java; java.util.Base64.
"""

import base64
import re
from typing import Final

_CHARACTERS_MAX: Final = 24
_BYTES: Final = 16
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_-]")


def parse_directory_id(text: str) -> bytes:
    """The 16 bytes of 22 base64 characters, with or without their padding.

    Raises:
        ValueError: with Kafka's text.
    """
    if len(text) > _CHARACTERS_MAX:
        raise ValueError(
            f"Input string with prefix `{text[:_CHARACTERS_MAX]}` is too long to be decoded as a "
            "base64 UUID"
        )
    is_padded = len(text) == _CHARACTERS_MAX and text.endswith("==")
    digits = text[:-2] if is_padded else text
    foreign = _FOREIGN.search(digits)
    if foreign is not None:
        raise ValueError(f"Illegal base64 character {ord(foreign[0]):x}")
    if len(digits) % 4 == 1:
        raise ValueError("Last unit does not have enough valid bits")
    content = base64.urlsafe_b64decode(digits + "=" * (-len(digits) % 4))
    if len(content) != _BYTES:
        raise ValueError(
            f"Input string `{text}` decoded as {len(content)} bytes, which is not equal to the "
            f"expected {_BYTES} bytes of a base64-encoded UUID"
        )
    return content
