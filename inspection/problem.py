"""Refusals of the API: RFC 9457 problem details with the name of the parameter."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import msgspec

CONTENT_TYPE: Final = "application/problem+json"


class ProblemBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """Body of a refusal (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    parameter: str | None = None
    """Path or query parameter that was refused."""
    value: str | None = None
    """Value given for it."""
    allowed: str | None = None
    """Values allowed for it."""


class Problem(Exception):  # noqa: N818 - RFC 9457's word; it is an answer, not a failure of ours
    """A refusal with its HTTP status."""

    def __init__(
        self,
        status: HTTPStatus,
        detail: str,
        *,
        parameter: str | None = None,
        value: str | None = None,
        allowed: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.headers: dict[str, str] = dict(headers or {})
        """Headers beside those of every problem."""
        self.body = ProblemBody(
            "about:blank",
            status.phrase,
            status.value,
            _encodable(detail),
            None if parameter is None else _encodable(parameter),
            None if value is None else _encodable(value),
            allowed,
        )

    @classmethod
    def not_found(cls, what: str, parameter: str, value: str) -> "Problem":
        """Build the refusal of a name that does not exist."""
        return cls(
            HTTPStatus.NOT_FOUND, f"{what} {value!r} does not exist", parameter=parameter,
            value=value,
        )  # fmt: skip


def _encodable(text: str) -> str:
    """The text with escapes for characters that UTF-8 cannot encode.

    A byte of a header that is not UTF-8 arrives as a lone surrogate (PEP 383).
    """
    return text.encode("utf-8", "backslashreplace").decode()
