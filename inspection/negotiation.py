"""Parsing of Accept, Accept-Encoding, Expect and If-None-Match by RFC 9110."""

from collections.abc import Sequence
from http import HTTPStatus

from inspection.problem import Problem

JSON = "application/json"
MSGPACK = "application/msgpack"


def negotiated(accept: str | None, offered: Sequence[str]) -> str:
    """Media type of the answer: the most preferred of those offered, the first of equals.

    Raises:
        Problem: 406, no offered type is acceptable.
    """
    if accept is None or not accept.strip():
        return offered[0]
    ranges = [_range(part) for part in accept.split(",") if part.strip()]
    best, best_quality = None, 0.0
    for media_type in offered:
        quality = _quality(media_type, ranges)
        if quality > best_quality:
            best, best_quality = media_type, quality
    if best is None:
        allowed = ", ".join(offered)
        raise Problem(
            HTTPStatus.NOT_ACCEPTABLE,
            f"Accept is {accept[:100]!r}; this resource comes as {allowed}",
            parameter="Accept",
            value=accept[:100],
            allowed=allowed,
        )
    return best


def _range(part: str) -> tuple[str, float]:
    media_type, *parameters = (piece.strip() for piece in part.split(";"))
    quality = 1.0
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "q":
            try:
                quality = min(1.0, max(0.0, float(value)))
            except ValueError:
                quality = 0.0
    return media_type.lower(), quality


def _quality(media_type: str, ranges: Sequence[tuple[str, float]]) -> float:
    """Quality of the most specific range that matches; 0 without one."""
    family = media_type.partition("/")[0] + "/*"
    for candidate in (media_type, family, "*/*"):
        found = [quality for name, quality in ranges if name == candidate]
        if found:
            return max(found)
    return 0.0


def accepts_gzip(accept_encoding: str | None) -> bool:
    """Return True if the client accepts compression: gzip, or everything, and not with q=0."""
    ranges = [_range(part) for part in (accept_encoding or "").split(",") if part.strip()]
    for names in (("gzip", "x-gzip"), ("*",)):
        found = [quality for name, quality in ranges if name in names]
        if found:
            return max(found) > 0
    return False


def refused_expectation(expect: str) -> Problem | None:
    """417 for any expectation but 100-continue, else None."""
    if expect.lower() == "100-continue":
        return None
    return Problem(
        HTTPStatus.EXPECTATION_FAILED,
        f"Expect is {expect[:100]!r}; allowed: 100-continue",
        parameter="Expect",
        value=expect[:100],
        allowed="100-continue",
    )


def is_known(etag: str, if_none_match: str | None) -> bool:
    """Return True if the client has this version: weak comparison by RFC 9110 13.1.2."""
    if if_none_match is None:
        return False
    given = [part.strip().removeprefix("W/") for part in if_none_match.split(",")]
    return "*" in given or etag.removeprefix("W/") in given
