"""Kafka's frames within the bytes of a connection, each with its API.

A response carries only the correlation id of its request, so requests are remembered. A chunk that
is sent may hold several frames, a part of one, or the rest of one that began earlier; it never ends
within a header.
"""

from struct import Struct
from typing import Final, NamedTuple

_LENGTH: Final = Struct(">i")
_REQUEST: Final = Struct(">ihhi")
"""Length, api key, version, correlation id."""
_RESPONSE: Final = Struct(">ii")
"""Length, correlation id."""


class Part(NamedTuple):
    """A frame, or the part of it that a chunk holds."""

    api_key: int | None
    """None: it answers a request that was sent before the reader was made."""
    data: bytes
    is_whole: bool


class FrameReader:
    """Reader of one connection, both ways."""

    __slots__ = ("_api_keys", "_unfinished")

    def __init__(self) -> None:
        self._api_keys: dict[int, int] = {}
        self._unfinished: dict[bool, tuple[int, int | None]] = {True: (0, None), False: (0, None)}
        """Bytes still to come of a frame, and its API, to the server (True) and to the client."""

    def parts(self, data: bytes, *, to_server: bool) -> list[Part]:
        """Split a chunk into frames and parts of frames, in order."""
        found: list[Part] = []
        left, api_key = self._unfinished[to_server]
        position = min(left, len(data))
        if position:
            self._unfinished[to_server] = (left - position, api_key)
            found.append(Part(api_key, data[:position], is_whole=False))
        while position < len(data):
            assert len(data) - position >= _RESPONSE.size, "a chunk ends within a header"
            (length,) = _LENGTH.unpack_from(data, position)
            end = position + _LENGTH.size + length
            api_key = self._api_key(data, position, to_server=to_server)
            if end > len(data):
                self._unfinished[to_server] = (end - len(data), api_key)
            found.append(Part(api_key, data[position:end], is_whole=end <= len(data)))
            position = end
        return found

    def _api_key(self, data: bytes, position: int, *, to_server: bool) -> int | None:
        if to_server:
            _, api_key, _, correlation_id = _REQUEST.unpack_from(data, position)
            self._api_keys[correlation_id] = api_key
            return int(api_key)
        _, correlation_id = _RESPONSE.unpack_from(data, position)
        return self._api_keys.pop(correlation_id, None)
