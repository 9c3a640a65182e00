"""Answers to a client that are no response body: encoded bytes, and no response at all."""

import msgspec


class Encoded(msgspec.Struct, frozen=True):
    """A response frame (header and body) that somebody else encoded."""

    frame: bytes


class NoResponse(msgspec.Struct, frozen=True):
    """The request has no response, and that it failed is said by closing the connection."""

    reason: str
