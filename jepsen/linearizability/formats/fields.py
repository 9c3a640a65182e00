"""An event as a map of its fields, the common ground of EDN, JSON lines and MessagePack."""

import re
from collections.abc import Mapping
from typing import Any, Final

from jepsen.linearizability.history import TYPES, Event

NUMBER: Final = re.compile(r"\s*[+-]?\d+\s*")
NAMED: Final = ("index", "time", "process", "type", "f", "value", "error")


def fields_of(event: Event) -> dict[str, Any]:
    """Fields in their canonical order; unknown ones are left out, the value never is."""
    fields: dict[str, Any] = {}
    for name in NAMED:
        item = getattr(event, name)
        if item is not None or name == "value":
            fields[name] = item
    fields.update(event.extra)
    return fields


def event_of(fields: Any) -> Event:
    """Read an event from a map.

    Raises:
        ValueError: It is no map, or a field is missing or has a wrong form.
    """
    if not isinstance(fields, Mapping):
        raise ValueError(f"an event is a map, not {fields!r}")  # noqa: TRY004  # input, not a bug
    for name in ("process", "type", "f"):
        if fields.get(name) is None:
            raise ValueError(f"an event without '{name}'")
    process, kind, f = fields["process"], fields["type"], fields["f"]
    if isinstance(process, bool) or not isinstance(process, int | str):
        text = f"process {process!r} is neither a number nor a name"
        raise ValueError(text)  # noqa: TRY004  # input, not a bug
    if isinstance(process, str) and NUMBER.fullmatch(process):
        text = f"process {str(process)!r} is a string; the number of a client has no quotes"
        raise ValueError(text)
    if kind not in TYPES:
        raise ValueError(f"type {kind!r} is not one of {', '.join(TYPES)}")
    if not isinstance(f, str):
        raise ValueError(f"f {f!r} is not a name")  # noqa: TRY004  # input, not a bug
    for name in ("index", "time"):
        number = fields.get(name)
        if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
            raise ValueError(f"{name} {number!r} is not a whole number")
    return Event(
        process=str(process) if isinstance(process, str) else process,
        type=str(kind),
        f=str(f),
        value=fields.get("value"),
        index=fields.get("index"),
        time=fields.get("time"),
        error=fields.get("error"),
        extra={str(name): item for name, item in fields.items() if name not in NAMED},
    )
