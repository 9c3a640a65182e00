"""Histories: calls of clients, their results and times.

A history is read as *events* (one invocation, one completion) and judged as *operations* (an
invocation joined with its completion). Rules of the joining (Jepsen's; spec of `jepsen.history`):

- Every completion is one of `ok` (happened, output known), `fail` (certainly did not happen, or a
    refusal that shows the state) and `info` (unknown). A missing completion counts as `info`.
- A process has at most one open operation, and none after an `info`: its thread goes on under
  another process number. A history that breaks this is refused, never guessed at.
- Processes that are not numbers (`nemesis`) are no clients; their events are kept and not judged.
- Intervals are closed: a return and a call at the same time are concurrent. When every event of a
  client carries a time that is used, else the position of the event.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

INVOKE: Final = "invoke"
OK: Final = "ok"
FAIL: Final = "fail"
INFO: Final = "info"
TYPES: Final = (INVOKE, OK, FAIL, INFO)


class HistoryError(ValueError):
    """The input is no history: the text names the place, the value and what is allowed."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a history.

    Attributes:
        process: Number of the logical client; a name (`nemesis`) when it is none.
        type: `invoke`, `ok`, `fail` or `info`.
        f: Name of the operation, in the words of its model.
        value: Arguments at the invocation, arguments with results at the completion.
        index: Position that the writer gave it, from 0.
        time: Nanoseconds on one monotonic clock, from any zero.
        error: Reason for a failure or an unknown outcome; an error name of Kafka, or any value.
        extra: All other fields of the line, in their order (`key`, `node`, `offset`, `pair`).
    """

    process: int | str
    type: str
    f: str
    value: Any = None
    index: int | None = None
    time: int | None = None
    error: Any = None
    extra: Mapping[str, Any] = {}


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """An invocation with its completion.

    Attributes:
        process: Number of the logical client.
        f: Name of the operation.
        value: Value of the invocation.
        call: Time of the invocation.
        end: Time of the completion (inclusive, >= call); None when it never completed.
        type: `ok`, `fail` or `info` (then `end` is None).
        output: Value of the completion; None for `info`.
        error: Error of the completion.
        key: Key that stood beside the value, if any.
        position: Event number of the invocation in its history, from 0.
    """

    process: int
    f: str
    value: Any = None
    call: int
    end: int | None = None
    type: str = OK
    output: Any = None
    error: Any = None
    key: Any = None
    position: int = 0


class History:
    """Events in the order in which they happened, with the place of each in its source.

    `left_out` describes what a file held after them, torn off by the end of its writer; else None.
    """

    def __init__(
        self,
        events: Sequence[Event],
        *,
        source: str = "history",
        lines: Sequence[int] = (),
        left_out: str | None = None,
    ) -> None:
        """Take the events as they are; `operations` joins and checks them.

        Args:
            events: In file order.
            source: Name for messages, such as a file.
            lines: Line (or object) number of every event, from 1; empty: position + 1.
            left_out: See the class.
        """
        assert not lines or len(lines) == len(events), f"{len(lines)=} {len(events)=}"
        self.events: Final = tuple(events)
        self.source: Final = source
        self.left_out: Final = left_out
        self._lines: Final = tuple(lines)
        self._operations: tuple[Operation, ...] | None = None

    def place(self, position: int) -> str:
        """`source:line` of an event, for messages."""
        line = self._lines[position] if self._lines else position + 1
        return f"{self.source}:{line}"

    @property
    def operations(self) -> tuple[Operation, ...]:
        """Operations of the clients, by call.

        Raises:
            HistoryError: The events break the rules of the module's head.
        """
        if self._operations is None:
            self._operations = tuple(self._paired())
        return self._operations

    def _paired(self) -> list[Operation]:
        timed = all(event.time is not None for event in self.events if is_client(event))
        found: list[Operation | None] = []
        open_by_process: dict[int | str, tuple[int, int, Event]] = {}
        free_from: dict[int | str, int | None] = {}  # None: retired by an info
        for position, event in enumerate(self.events):
            if not is_client(event):
                continue
            now = event.time if timed and event.time is not None else position
            if event.type == INVOKE:
                self._check_call(event, position, now, open_by_process, free_from)
                open_by_process[event.process] = (position, now, event)
                found.append(None)
                free_from[event.process] = len(found) - 1  # its place in `found`, until it ends
                continue
            opened = open_by_process.pop(event.process, None)
            self._check_completion(event, position, now, opened)
            assert opened is not None
            at, place = opened, free_from[event.process]
            assert place is not None
            end = None if event.type == INFO else now
            found[place] = _joined(at[2], event, at[1], end, at[0])
            free_from[event.process] = None if event.type == INFO else now
        for process, (position, called, event) in open_by_process.items():
            place = free_from[process]
            assert place is not None
            found[place] = _joined(event, None, called, None, position)
        operations = [operation for operation in found if operation is not None]
        assert len(operations) == len(found), "an invocation was lost"
        return operations

    def _check_call(
        self,
        event: Event,
        position: int,
        now: int,
        open_by_process: Mapping[int | str, Any],
        free_from: Mapping[int | str, int | None],
    ) -> None:
        place, process = self.place(position), event.process
        if process in open_by_process:
            earlier = self.place(open_by_process[process][0])
            raise HistoryError(
                f"{place}: process {process} invokes {event.f} while its operation of {earlier} "
                "is open; a process has at most one open operation"
            )
        if process not in free_from:
            return
        free = free_from[process]
        if free is None:
            raise HistoryError(
                f"{place}: process {process} goes on after an info completion; a process whose "
                "operation is unknown must be retired"
            )
        if now < free:
            raise HistoryError(
                f"{place}: process {process} invokes {event.f} at {now}, before its last "
                f"operation ended at {free}"
            )

    def _check_completion(
        self, event: Event, position: int, now: int, opened: tuple[int, int, Event] | None
    ) -> None:
        place = self.place(position)
        if event.type not in TYPES:
            raise HistoryError(f"{place}: type '{event.type}' is not one of {', '.join(TYPES)}")
        if opened is None:
            raise HistoryError(
                f"{place}: process {event.process} completes {event.f} ({event.type}) "
                "but has no open operation"
            )
        if opened[2].f != event.f:
            raise HistoryError(
                f"{place}: process {event.process} completes {event.f}, "
                f"but invoked {opened[2].f} at {self.place(opened[0])}"
            )
        if now < opened[1]:
            raise HistoryError(
                f"{place}: process {event.process} completes {event.f} at {now}, "
                f"before its call at {opened[1]}"
            )


def paired(history: History) -> list[tuple[str, Event, Event | None]]:
    """Places and invocations of the clients by call, with the completion where there is one.

    Raises:
        HistoryError: as `History.operations`.
    """
    _ = history.operations  # refuses what breaks the rules
    opened: dict[int | str, int] = {}
    pairs: dict[int, tuple[Event, Event | None]] = {}
    for position, event in enumerate(history.events):
        if not is_client(event):
            continue
        if event.type == INVOKE:
            opened[event.process] = position
            pairs[position] = (event, None)
        else:
            at = opened.pop(event.process)
            pairs[at] = (pairs[at][0], event)
    return [(history.place(at), *pair) for at, pair in pairs.items()]


def is_client(event: Event) -> bool:
    """True for an event of a client, False for one of the nemesis."""
    return isinstance(event.process, int)


def _joined(
    invoked: Event, completed: Event | None, call: int, end: int | None, position: int
) -> Operation:
    unknown = completed is None or end is None
    assert isinstance(invoked.process, int)
    return Operation(
        process=invoked.process,
        f=invoked.f,
        value=invoked.value,
        call=call,
        end=end,
        type=INFO if completed is None else completed.type,
        output=None if completed is None or unknown else completed.value,
        error=None if completed is None else completed.error,
        key=invoked.extra.get("key"),
        position=position,
    )


def history_of(operations: Sequence[Operation], *, source: str = "history") -> History:
    """Convert operations to a history of events.

    Args:
        operations: In any order; `call` and `end` are times of one clock.
        source: Name for messages.
    """
    marks: list[tuple[int, int, int, Event]] = []
    for number, operation in enumerate(operations):
        extra = {} if operation.key is None else {"key": operation.key}
        invoked = Event(
            process=operation.process,
            type=INVOKE,
            f=operation.f,
            value=operation.value,
            time=operation.call,
            extra=extra,
        )
        marks.append((operation.call, 0, number, invoked))
        if operation.end is None:
            continue
        completed = Event(
            process=operation.process,
            type=operation.type,
            f=operation.f,
            value=operation.output,
            time=operation.end,
            error=operation.error,
            extra=extra,
        )
        marks.append((operation.end, 1, number, completed))
    order = _ordered(marks)
    events = [msgspec.structs.replace(event, index=index) for index, event in enumerate(order)]
    return History(events, source=source)


def _ordered(marks: list[tuple[int, int, int, Event]]) -> list[Event]:
    """Sort by time; at one time a process ends its operation before it calls the next."""
    waiting = sorted(marks, key=lambda mark: mark[:3])
    order: list[Event] = []
    open_processes: set[int | str] = set()
    held: list[Event] = []  # calls of this instant whose process is still busy
    for _, kind, _, event in waiting:
        if kind == 0 and event.process in open_processes:
            held.append(event)
            continue
        order.append(event)
        if kind == 0:
            open_processes.add(event.process)
            continue
        open_processes.discard(event.process)
        for call in [call for call in held if call.process == event.process][:1]:
            held.remove(call)
            order.append(call)
            open_processes.add(call.process)
    return order + held
