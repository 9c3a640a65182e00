"""Events that members of groups told, by group and in the order of the history's clock."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from jepsen.groups import names
from jepsen.linearizability import Event, History, HistoryError
from jepsen.linearizability.history import OK, is_client

FINAL_READ: Final = "read"
OWNING: Final = (names.ASSIGNED, names.REVOKED, names.LOST)
ENDING: Final = (names.LEFT, names.KILLED)


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a member; fields that it does not have are empty."""

    member: str
    group: str
    f: str
    at: int
    began: int = 0
    partitions: tuple[str, ...] = ()
    generation: int | None = None
    offsets: dict[str, int | None] = {}
    records: dict[str, list[tuple[int, int | str]]] = {}
    ends: dict[str, int] = {}
    error: str = ""


class Contents(msgspec.Struct, frozen=True):
    """Records of every partition at the end, by offset."""

    values: Mapping[str, Mapping[int, int | str]]

    def offsets_below(self, partition: str, start: int, end: int) -> list[int]:
        """Offsets of its records in [start, end)."""
        there = self.values.get(partition, {})
        return [offset for offset in range(start, end) if offset in there]


def told(history: History) -> dict[str, list[Told]]:
    """Events of every group.

    Raises:
        HistoryError: one of them is none.
    """
    found: dict[str, list[Told]] = {}
    for position, event in enumerate(history.events):
        value = event.value
        if is_client(event) or not isinstance(value, dict) or "group" not in value:
            continue
        try:
            row = msgspec.convert({**value, "f": event.f, "member": event.process}, Told)
        except msgspec.ValidationError as error:
            raise HistoryError(f"{history.place(position)}: {event.f}: {error}") from error
        found.setdefault(row.group, []).append(row)
    for rows in found.values():
        rows.sort(key=lambda row: row.at)
    return found


def contents(history: History) -> Contents:
    """The first final read of every partition."""
    found: dict[str, dict[int, int | str]] = {}
    for event in history.events:
        key = event.extra.get("key")
        if not is_client(event) or event.f != FINAL_READ or event.type != OK or key in found:
            continue
        found[str(key)] = dict(zip(_offsets(event), event.value, strict=True))
    return Contents(found)


def _offsets(event: Event) -> Any:
    return event.extra.get("offsets", range(len(event.value)))
