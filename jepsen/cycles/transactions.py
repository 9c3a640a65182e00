"""Transactions of a history.

| operation | value |
|---|---|
| `txn` | micro-operations in order: `["append", key, value]` and `["r", key, values]`, null at the
call and where the read was not done |
| `read` | of a list at the end, at one node: its values; `key` stands beside |

So the histories of Elle's list-append. Completions may tell `offsets`: of a `txn` one for each
micro-operation (null where it is not known), of a `read` one for each value. Reads of a transaction
that failed count: they were given to a consumer all the same. `session` names the producer and the
consumer that several processes share, else each process has its own.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

import msgspec

from jepsen.linearizability import Event, History, HistoryError
from jepsen.linearizability.history import FAIL, INFO, OK, is_client, paired
from jepsen.linearizability.values import frozen

APPEND: Final = "append"
READ: Final = "r"
TXN: Final = "txn"
FINAL_READ: Final = "read"
VALUES_SHOWN: Final = 8
NS: Final = 1e9


class Append(msgspec.Struct, frozen=True):
    """A value put behind a list; values are unique."""

    key: str
    value: Hashable
    offset: int | None
    """The one that its producer was told; None: none."""


class Read(msgspec.Struct, frozen=True):
    """A list as it was given, whole."""

    key: str
    values: tuple[Hashable, ...]
    node: int | None = None
    offsets: tuple[int, ...] | None = None
    """Of the values; None: not told."""


class Transaction(msgspec.Struct, frozen=True, kw_only=True):
    """One transaction, or one final read."""

    number: int
    """Its place among those of the history, by call."""
    session: Hashable
    type: str
    """`ok`: committed; `fail`: certainly not; `info`: nobody knows."""
    call: int
    end: int | None
    """Time of the completion; None if there was none, or of `info`."""
    appends: tuple[Append, ...] = ()
    reads: tuple[Read, ...] = ()
    is_final: bool = False
    """A read at the end: after all that could change the lists."""

    @property
    def name(self) -> str:
        """Short name for texts."""
        return f"T{self.number}"


def transactions_of(history: History) -> tuple[Transaction, ...]:
    """Transactions by call.

    Raises:
        HistoryError: it holds something else, or a value is appended twice.
    """
    time_of = _clock(history)
    found: list[Transaction] = []
    appended: set[tuple[str, Hashable]] = set()
    for number, (place, invoked, completed) in enumerate(paired(history)):
        kind = INFO if completed is None else completed.type
        read = _transaction if invoked.f == TXN else _final_read
        if invoked.f not in (TXN, FINAL_READ):
            raise HistoryError(f"{place}: operation '{invoked.f}' is none of lists: txn, read")
        appends, reads = read(place, invoked, completed)
        for append in appends:
            if (append.key, append.value) in appended:
                raise HistoryError(f"{place}: {append.value!r} is appended twice to {append.key}")
            appended.add((append.key, append.value))
        found.append(
            Transaction(
                number=number,
                session=invoked.extra.get("session", invoked.process),
                type=kind,
                call=time_of(invoked),
                end=time_of(completed) if completed and kind in (OK, FAIL) else None,
                appends=appends,
                reads=reads,
                is_final=invoked.f == FINAL_READ,
            )
        )
    return tuple(found)


def described(transaction: Transaction) -> str:
    """One line about a transaction: its end, its session, its times, what it did."""
    end = "?" if transaction.end is None else f"{transaction.end / NS:.3f}"
    what = [f"append {each.key} {each.value}{_told(each.offset)}" for each in transaction.appends]
    what += [f"read {each.key} {_shown(each.values)}" for each in transaction.reads]
    times = f"{transaction.call / NS:.3f} to {end} s"
    return f"{transaction.type}, {transaction.session}, {times}: {'; '.join(what)}"


def _told(offset: int | None) -> str:
    return "" if offset is None else f" at {offset}"


def _shown(values: Sequence[Hashable]) -> str:
    """The values of a list, of a long one the last."""
    shown = ", ".join(str(value) for value in values[-VALUES_SHOWN:])
    return f"[{'..., ' if len(values) > VALUES_SHOWN else ''}{shown}]"


def _clock(history: History) -> Callable[[Event], int]:
    """Times of one clock where all events have them, else their places in the history."""
    if all(event.time is not None for event in history.events if is_client(event)):
        return lambda event: event.time or 0
    places = {id(event): at for at, event in enumerate(history.events)}
    return lambda event: places[id(event)]


def _transaction(
    place: str, invoked: Event, completed: Event | None
) -> tuple[tuple[Append, ...], tuple[Read, ...]]:
    asked = _micro_operations(place, invoked.value)
    told = asked
    offsets: Sequence[Any] = [None] * len(asked)
    if completed is not None:
        told = _micro_operations(place, completed.value)
        if [row[:2] for row in told] != [row[:2] for row in asked]:
            raise HistoryError(f"{place}: the transaction completes with other micro-operations")
        offsets = completed.extra.get("offsets", offsets)
        if not _are_whole(offsets, len(asked), may_lack=True):
            raise HistoryError(f"{place}: offsets {offsets!r} of {len(asked)} micro-operations")
    appends, reads = [], []
    for (kind, key, value), (_, _, given), offset in zip(asked, told, offsets, strict=True):
        if kind == APPEND:
            if given != value:
                raise HistoryError(f"{place}: append of {value!r} completes with {given!r}")
            appends.append(Append(key, frozen(value), offset))
        elif given is not None:
            reads.append(Read(key, _values(place, given)))
    return tuple(appends), tuple(reads)


def _micro_operations(place: str, value: Any) -> list[tuple[str, str, Any]]:
    if not isinstance(value, list | tuple):
        raise HistoryError(f"{place}: value of txn is {value!r}, no list of micro-operations")
    rows: list[tuple[str, str, Any]] = []
    for row in value:
        if not isinstance(row, list | tuple) or len(row) != 3 or row[0] not in (APPEND, READ):
            raise HistoryError(f"{place}: {row!r} is neither [append key value] nor [r key values]")
        rows.append((str(row[0]), str(row[1]), row[2]))
    return rows


def _final_read(
    place: str, invoked: Event, completed: Event | None
) -> tuple[tuple[Append, ...], tuple[Read, ...]]:
    key, node = invoked.extra.get("key"), invoked.extra.get("node")
    if not isinstance(key, str):
        raise HistoryError(f"{place}: {FINAL_READ} has no key")
    if completed is None or completed.type != OK:
        return (), ()
    values = _values(place, completed.value)
    offsets = completed.extra.get("offsets")
    if offsets is not None and not _are_whole(offsets, len(values), may_lack=False):
        raise HistoryError(f"{place}: {len(values)} values at the offsets {offsets!r}")
    places = None if offsets is None else tuple(offsets)
    return (), (Read(key, values, node if isinstance(node, int) else None, places),)


def _values(place: str, values: Any) -> tuple[Hashable, ...]:
    if not isinstance(values, list | tuple):
        raise HistoryError(f"{place}: a read gave {values!r}, which is no list")
    return tuple(frozen(value) for value in values)


def _are_whole(offsets: Any, count: int, *, may_lack: bool) -> bool:
    return (
        isinstance(offsets, list | tuple)
        and len(offsets) == count
        and all(type(at) is int or (may_lack and at is None) for at in offsets)
    )
