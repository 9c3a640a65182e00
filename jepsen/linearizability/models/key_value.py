"""Strings by key: the kv model of foreign test data.

| operation | value at the call | value at the completion |
|---|---|---|
| `get` | nil | the string, "" if absent |
| `put` | string | the same |
| `append` | string to add to the end of the old one | the same |

The key stands beside the value (`:key`) or in front of it (`[key value]`).
"""

from collections.abc import Sequence
from typing import Any

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
    refuse,
)


class KeyValue(Model):
    """Get, put and append of strings."""

    name = "kv"

    @override
    def prepare(self, operations: Sequence[Operation]) -> list[tuple[Part, ...]]:
        """Make one part each; a refused write has none."""
        return [self._parts(call) for call in calls_of(operations)]

    def _parts(self, call: Call) -> tuple[Part, ...]:
        """Make the part: input is the name with the text, output the answer to a get."""
        operation = call.operation
        if operation.f == "get":
            if operation.type != OK:
                return (Part(call.key, ("get", None), UNKNOWN),)
            text = "" if call.output is None else call.output
            self._check_text(operation, text)
            return (Part(call.key, ("get", None), text),)
        if operation.f not in ("put", "append"):
            raise refuse(operation, self.name, "get, put, append")
        self._check_text(operation, call.value)
        if operation.type == FAIL:
            return ()
        output = UNKNOWN if operation.type == INFO else None
        return (Part(call.key, (operation.f, call.value), output),)

    def _check_text(self, operation: Operation, value: Any) -> None:
        """Raise OperationError unless it is a string."""
        if type(value) is not str:
            raise OperationError(operation, f"value of {operation.f} is {value!r}, not a string")

    @override
    def init(self) -> State:
        """State of an absent key, which reads as the empty string."""
        return ""

    @override
    def step(self, state: State, given: Any, output: Any) -> State:
        """A get is legal where it returns this text; every write is legal everywhere."""
        f, value = given
        assert isinstance(state, str)
        if f == "get":
            return state if output is UNKNOWN or output == state else ILLEGAL
        return value if f == "put" else state + value

    @override
    def observes(self, given: Any, output: Any) -> bool:
        """True for gets."""
        return bool(given[0] == "get")

    @override
    def describe(self, part: Part) -> str:
        """`key: put 'a'`, `key: get -> 'a'`."""
        f, value = part.input
        unknown = part.output is UNKNOWN
        if f == "get":
            return f"{part.key}: get -> {'?' if unknown else repr(part.output)}"
        return f"{part.key}: {f} {value!r}{' -> ?' if unknown else ''}"

    @override
    def describe_state(self, state: State) -> str:
        """The text, quoted."""
        return repr(state)
