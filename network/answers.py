"""Answers to a client other than a response body: encoded bytes, or no response at all."""

import msgspec


class Encoded(msgspec.Struct, frozen=True):
    """A response frame (header and body) that is already encoded."""

    frame: bytes


class NoResponse(msgspec.Struct, frozen=True):
    """No response: the request has none, so closing the connection signals its failure."""

    reason: str
