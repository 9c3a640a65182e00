"""Declared parameters: one declaration parses the text of a request and documents itself."""

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from http import HTTPStatus
from typing import Any, Final

import msgspec
from typing_extensions import override

from inspection.problem import Problem

LONG_MAX: Final = 2**63 - 1
_WHOLE: Final = re.compile(r"-?(0|[1-9][0-9]{0,18})")
_TEXT_MAX: Final = 1000


class Place(Enum):
    """Position of a parameter in a request."""

    PATH = "path"
    QUERY = "query"


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter; the base class reads text."""

    name: str
    place: Place
    description: str
    is_required: bool = False
    pattern: str = r"[^\u0000]*"
    """Pattern of the whole text; a regular expression of ECMA 262 and Python alike."""
    form: str | None = None
    """The pattern in words."""

    def read(self, text: str) -> Any:
        """Parse the text of a request.

        Raises:
            Problem: 400, naming parameter, value and the allowed values.
        """
        if len(text) > _TEXT_MAX or re.fullmatch(self.pattern, text) is None:
            raise self.refused(
                text, self.form or f"at most {_TEXT_MAX} characters, none of them NUL"
            )
        return text

    @property
    def absent(self) -> Any:
        """Value of a parameter that is not given."""
        return None

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the parameter."""
        return {"type": "string", "maxLength": _TEXT_MAX, "pattern": f"^{self.pattern}$"}

    def refused(self, text: str, allowed: str) -> Problem:
        """Build the refusal of a text."""
        shown = text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."
        return Problem(
            HTTPStatus.BAD_REQUEST,
            f"{self.place.value} parameter {self.name!r} is {shown!r}; allowed: {allowed}",
            parameter=self.name,
            value=shown,
            allowed=allowed,
        )


_SHOWN_MAX: Final = 80


class WholeNumber(Parameter, frozen=True, kw_only=True):
    """An integer with both limits included."""

    minimum: int = 0
    maximum: int = LONG_MAX
    default: int | None = None

    @override
    def read(self, text: str) -> int:
        """Parse digits: no plus sign, no spaces, no leading zeros."""
        allowed = f"a whole number from {self.minimum} to {self.maximum}"
        if _WHOLE.fullmatch(text) is None:
            raise self.refused(text, allowed)
        value = int(text)
        if not self.minimum <= value <= self.maximum:
            raise self.refused(text, allowed)
        return value

    @property
    @override
    def absent(self) -> int | None:
        """Default of the parameter."""
        return self.default

    @override
    def schema(self) -> dict[str, Any]:
        """Return the schema of an integer with its limits."""
        schema: dict[str, Any] = {
            "type": "integer",
            "format": "int64",
            "minimum": self.minimum,
            "maximum": self.maximum,
        }
        if self.default is not None:
            schema["default"] = self.default
        return schema


class Choice(Parameter, frozen=True, kw_only=True):
    """One of some words, case-sensitive."""

    choices: tuple[str, ...]

    @override
    def read(self, text: str) -> str:
        """Parse one of the words."""
        if text not in self.choices:
            raise self.refused(text, "one of " + ", ".join(self.choices))
        return text

    @override
    def schema(self) -> dict[str, Any]:
        """Return the schema of an enumeration."""
        return {"type": "string", "enum": list(self.choices)}


class Flag(Parameter, frozen=True, kw_only=True):
    """Boolean that is true when given without a value, as in `?verbose`."""

    @override
    def read(self, text: str) -> bool:
        """Parse a flag: empty and `true` mean true."""
        if text not in ("", "true", "false"):
            raise self.refused(text, "nothing, true or false")
        return text != "false"

    @property
    @override
    def absent(self) -> bool:
        """False: a flag that is not given."""
        return False

    @override
    def schema(self) -> dict[str, Any]:
        """Return the schema of the three allowed texts."""
        return {"type": "string", "enum": ["", "true", "false"]}


def read_parameters(
    declared: Sequence[Parameter],
    path: Mapping[str, str],
    query: Sequence[tuple[str, str]],
) -> dict[str, Any]:
    """Parse the values of every declared parameter, by name.

    Raises:
        Problem: 400 for a parameter that is unknown, given twice, missing or refused.
    """
    by_name = {p.name: p for p in declared}
    given = dict(path)
    for name, text in query:
        parameter = by_name.get(name)
        if parameter is None or parameter.place is not Place.QUERY:
            known = ", ".join(p.name for p in declared if p.place is Place.QUERY) or "none"
            raise Problem(
                HTTPStatus.BAD_REQUEST,
                f"query parameter {name[:_SHOWN_MAX]!r} is not known here; known: {known}",
                parameter=name[:_SHOWN_MAX],
                allowed=known,
            )
        if name in given:
            raise parameter.refused(text, "the parameter once")
        given[name] = text
    values = {}
    for name, parameter in by_name.items():
        if name in given:
            values[name] = parameter.read(given[name])
        elif parameter.is_required:
            raise Problem(
                HTTPStatus.BAD_REQUEST,
                f"query parameter {name!r} is missing: {parameter.description}",
                parameter=name,
            )
        else:
            values[name] = parameter.absent
    return values
