"""Kafka's deserializers by their class names: bytes to the text that Java prints of the value."""

import math
import struct
import uuid
from collections.abc import Callable
from typing import Final

from cli.arguments import UsageError, shortened

Deserialize = Callable[[bytes], bytes]
_PACKAGE: Final = "org.apache.kafka.common.serialization."
_PLAIN_LOW, _PLAIN_HIGH = 1e-3, 1e7
_DIGITS_FLOAT: Final = 9


class DeserializeError(Exception):
    """Bytes that are no such value; the text is Kafka's message."""


def deserializer_of(name: str) -> Deserialize:
    """The function of a class.

    Raises:
        UsageError: the class is not known.
    """
    found = _KNOWN.get(name.removeprefix(_PACKAGE)) if name.startswith(_PACKAGE) else None
    if found is None:
        raise UsageError(f"Unable to instantiate a deserializer from {shortened(name)}")
    return found


def java_number(value: float, shortest: str) -> str:
    """A floating point number as Java prints it; `shortest` are its digits as Python has them."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or _PLAIN_LOW <= abs(value) < _PLAIN_HIGH:
        return _plain(shortest)
    exponent = f"{float(shortest):.16e}".partition("e")[2]
    mantissa = repr(float(shortest))
    digits = mantissa.lower().partition("e")[0].replace("-", "").replace(".", "").strip("0") or "0"
    sign = "-" if value < 0 else ""
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{int(exponent)}"


def _plain(shortest: str) -> str:
    return shortest if "." in shortest else f"{shortest}.0"


def _number(name: str, layout: str) -> Deserialize:
    size_bytes = struct.calcsize(layout)

    def read(content: bytes) -> bytes:
        if len(content) != size_bytes:
            sized = (
                "Size of data received by Deserializer"
                if name in ("Float", "Double")
                else (f"Size of data received by {name}Deserializer")
            )
            raise DeserializeError(f"{sized} is not {size_bytes}")
        (value,) = struct.unpack(layout, content)
        if name == "Double":
            return java_number(value, repr(value)).encode()
        if name == "Float":
            return java_number(value, _shortest_float(value)).encode()
        return str(value).encode()

    return read


def _shortest_float(value: float) -> str:
    """The fewest digits that give the same number of 32 bits."""
    for digits in range(1, _DIGITS_FLOAT):
        text = f"{value:.{digits}g}"
        if struct.unpack(">f", struct.pack(">f", float(text)))[0] == value:
            return repr(float(text))
    return repr(float(f"{value:.{_DIGITS_FLOAT}g}"))


def _text(content: bytes) -> bytes:
    return content.decode("utf-8", "replace").encode()


def _uuid(content: bytes) -> bytes:
    try:
        return str(uuid.UUID(content.decode())).encode()
    except ValueError as error:
        raise DeserializeError("Error parsing data into UUID") from error


def _boolean(content: bytes) -> bytes:
    known = {b"\1": b"true", b"\0": b"false"}
    if len(content) != 1:
        raise DeserializeError("Size of data received by BooleanDeserializer is not 1")
    if content not in known:
        number = int.from_bytes(content, signed=True)
        raise DeserializeError(f"Unexpected byte received by BooleanDeserializer: {number}")
    return known[content]


def _same(content: bytes) -> bytes:
    return content


_KNOWN: Final[dict[str, Deserialize]] = {
    "StringDeserializer": _text,
    "ByteArrayDeserializer": _same,
    "ShortDeserializer": _number("Short", ">h"),
    "IntegerDeserializer": _number("Integer", ">i"),
    "LongDeserializer": _number("Long", ">q"),
    "FloatDeserializer": _number("Float", ">f"),
    "DoubleDeserializer": _number("Double", ">d"),
    "UUIDDeserializer": _uuid,
    "BooleanDeserializer": _boolean,
}
