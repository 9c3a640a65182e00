"""A log that grows at its end.

| operation | value at the call | value at the completion |
|---|---|---|
| `append` | record | `[record offset]`, the offset nil if unknown; or the offset alone |
| `read` | nil | every record from offset 0 to the end |
| `read-from` | first offset | the records from there to the end, none if it lies beyond |
| `fetch` | first offset | records from there on, maybe not all, maybe none |

The key stands beside the value (`key`) or in front of it (`[key record]`, answered by
`[key [record offset]]` or `[key offset]`). Where records are pairs and nothing is read, the answers
show whether a pair is a record or a key with one; a history whose answers do not is refused.

A state is a number: the log is a chain of (log before, last record) pairs, numbered as they are
met, so that equal logs have equal numbers and comparing two logs costs nothing.
"""

from collections.abc import Hashable, Sequence
from typing import Any, Final

from typing_extensions import override

from jepsen.linearizability.history import FAIL, INFO, OK, Operation
from jepsen.linearizability.model import (
    ILLEGAL,
    UNKNOWN,
    Call,
    Model,
    OperationError,
    Part,
    State,
    calls_of,
    is_pair,
    may_be_keyed,
    refuse,
)
from jepsen.linearizability.values import frozen

EMPTY: Final = 0


class AppendLog(Model):
    """Append and read of one log; see the head of the module."""

    def __init__(self) -> None:
        """Begin with the empty log."""
        self._number: Final[dict[tuple[int, Hashable], int]] = {}
        self._parent: Final[list[int]] = [EMPTY]
        self._record: Final[list[Hashable]] = [None]
        self._length: Final[list[int]] = [0]

    name = "append-log"

    @override
    def prepare(self, operations: Sequence[Operation]) -> list[tuple[Part, ...]]:
        """Make one part each; a refused append has none."""
        is_keyed = may_be_keyed(operations) and _has_keys_in_front(operations)
        return [self._parts(call) for call in calls_of(operations, is_keyed=is_keyed)]

    def _parts(self, call: Call) -> tuple[Part, ...]:
        """Input is the name with record or offset; output an offset, a log number, or records."""
        operation = call.operation
        known = operation.type == OK
        if operation.f == "append":
            if operation.type == FAIL:
                return ()
            output: Any = UNKNOWN if operation.type == INFO else self._offset(call)
            return (Part(call.key, ("append", frozen(call.value)), output),)
        if operation.f == "read":
            return (Part(call.key, ("read", 0), self._read(call) if known else UNKNOWN),)
        if operation.f in ("read-from", "fetch"):
            self._check_offset(operation, call.value)
            output = self._records(call) if known else UNKNOWN
            return (Part(call.key, (operation.f, call.value), output),)
        raise refuse(operation, self.name, "append, read, read-from, fetch")

    def _offset(self, call: Call) -> int | None:
        """Offset in the answer to an append; None if none."""
        answer = call.output
        if is_pair(answer) and frozen(answer[0]) == frozen(call.value):
            answer = answer[1]
        elif frozen(answer) == frozen(call.value) and type(answer) is not int:
            answer = None
        if answer is not None:
            self._check_offset(call.operation, answer)
        return None if answer is None else int(answer)

    def _check_offset(self, operation: Operation, value: Any) -> None:
        """Raise OperationError unless it is a whole number from 0."""
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise OperationError(
                operation, f"offset of {operation.f} is {value!r}, not a whole number from 0"
            )

    def _records(self, call: Call) -> tuple[Hashable, ...]:
        """Records in the answer to a read; OperationError if they are no list."""
        if not isinstance(call.output, list | tuple):
            raise OperationError(
                call.operation, f"{call.operation.f} gave {call.output!r}, not a list of records"
            )
        return tuple(frozen(record) for record in call.output)

    def _read(self, call: Call) -> int:
        """Number of the log in the answer to a read from 0."""
        log = EMPTY
        for record in self._records(call):
            log = self._appended(log, record)
        return log

    def _appended(self, log: int, record: Hashable) -> int:
        """Number of the log with one more record, given when it is first met."""
        number = self._number.get((log, record))
        if number is None:
            number = self._number[log, record] = len(self._parent)
            self._parent.append(log)
            self._record.append(record)
            self._length.append(self._length[log] + 1)
        return number

    @override
    def init(self) -> State:
        """The empty log."""
        return EMPTY

    @override
    def step(self, state: State, given: Any, output: Any) -> State:
        """An append is legal where its offset is the length; a read where it returns this log."""
        f, value = given
        assert isinstance(state, int)
        if f == "append":
            if output is UNKNOWN or output is None or output == self._length[state]:
                return self._appended(state, value)
            return ILLEGAL
        if output is UNKNOWN:
            return state
        if f == "read":
            return state if output == state else ILLEGAL
        if f == "fetch":
            return state if self._has(state, value, output) else ILLEGAL
        return state if self._ends_with(state, value, output) else ILLEGAL

    def _has(self, log: int, offset: int, records: tuple[Hashable, ...]) -> bool:
        """True if these records stand from the offset on, whatever follows."""
        if not records:
            return True
        while self._length[log] > offset + len(records):
            log = self._parent[log]
        return self._ends_with(log, offset, records)

    def _ends_with(self, log: int, offset: int, records: tuple[Hashable, ...]) -> bool:
        """True if exactly these records stand from the offset to the end."""
        if len(records) != max(0, self._length[log] - offset):
            return False
        for record in reversed(records):
            if self._record[log] != record:
                return False
            log = self._parent[log]
        return True

    @override
    def observes(self, given: Any, output: Any) -> bool:
        """True for reads."""
        return bool(given[0] != "append")

    @override
    def droppable(self, parts: Sequence[tuple[Part, bool]]) -> set[int]:
        """Numbers of lost appends whose record is not in the longest log that was read.

        If every known offset lies in that log, such a record stands behind all of them in any legal
        order, where nothing tells of it.
        """
        logs = [self.records(part.output) for part, _ in parts if _is_known(part, "read")]
        longest = max(logs, key=len, default=[])
        if any(_known_end(part) > len(longest) for part, _ in parts):
            return set()
        held = set(longest)
        return {
            number
            for number, (part, is_lost) in enumerate(parts)
            if is_lost and part.input[0] == "append" and part.input[1] not in held
        }

    def records(self, state: State) -> list[Hashable]:
        """Records of a state, from offset 0."""
        assert isinstance(state, int)
        found = []
        while state != EMPTY:
            found.append(self._record[state])
            state = self._parent[state]
        return found[::-1]

    @override
    def describe(self, part: Part) -> str:
        """`append x -> 3`, `read -> [...]`, `read-from 2 -> [...]`, `fetch 2 -> [...]`."""
        f, value = part.input
        where = "" if part.key is None else f"{part.key}: "
        unknown = part.output is UNKNOWN
        if f == "append":
            at = "" if part.output is None else f" -> {'?' if unknown else part.output}"
            return f"{where}append {value}{at}"
        if unknown:
            answer = "?"
        else:
            answer = str(self.records(part.output) if f == "read" else list(part.output))
        return f"{where}{f}{'' if f == 'read' else f' {value}'} -> {answer}"

    @override
    def describe_state(self, state: State) -> str:
        """The list of its records."""
        return str(self.records(state))


def _is_known(part: Part, f: str) -> bool:
    return bool(part.input[0] == f and part.output is not UNKNOWN)


def _known_end(part: Part) -> int:
    """Offset behind the last record that an answer places; 0 if it places none."""
    if _is_known(part, "append") and part.output is not None:
        return int(part.output) + 1
    if (_is_known(part, "read-from") or _is_known(part, "fetch")) and part.output:
        return int(part.input[1]) + len(part.output)
    return 0


def _has_keys_in_front(operations: Sequence[Operation]) -> bool:
    """True if the values of a history, all of them pairs, are keys with records.

    Raises:
        OperationError: The answer to an append gives an offset in a form that leaves it open.
    """
    if any(operation.f != "append" for operation in operations):
        return True  # a read without a key has no pair
    answered = [each for each in operations if each.type == OK and each.output is not None]
    pairs = [each for each in answered if is_pair(each.output)]
    if any(_same(each.output[0], each.value) for each in pairs):
        return False
    if any(
        _same(each.output[0], each.value[0]) and not _same(each.output, each.value)
        for each in pairs
    ):
        return True
    for operation in answered:
        answer = operation.output[1] if is_pair(operation.output) else operation.output
        if type(answer) is int:
            raise OperationError(
                operation,
                f"append of {operation.value!r} gave {operation.output!r}: is the pair a record, or"
                " a key with one? Answer [record offset], or put the key beside the value (key)",
            )
    return True


def _same(one: Any, other: Any) -> bool:
    return frozen(one) == frozen(other)
