"""Configs of resources, as IncrementalAlterConfigs changes them.

| operation | value at the call | value at the completion |
|---|---|---|
| `set` | `[key value]` | the same |
| `delete` | `[key nil]` | the same |
| `append` | `[key "a,b"]`: items put behind the list, each only if it is not in it | the same |
| `subtract` | `[key "a,b"]`: items taken out of the list | the same |
| `get` | `[key nil]` | `[key value]`, nil if not set |
| `set-many` | `[[key value] ...]` in one atomic request, nil deletes | the same |
| `get-many` | `[[key nil] ...]` in one atomic read | `[[key value] ...]` |

A key is any value: `retention.ms`, or `[resource name]`. A value is a string. Lists are separated
by commas; one that is not set is empty, one that becomes empty is "" (apache/kafka:
`ConfigurationControlManager.incrementalAlterConfig`, APPEND and SUBTRACT).
"""

from collections.abc import Hashable, Sequence
from typing import Any, Final

from typing_extensions import override

from jepsen.linearizability.history import FAIL, INFO, OK, Operation
from jepsen.linearizability.model import (
    ILLEGAL,
    UNKNOWN,
    Model,
    OperationError,
    Part,
    State,
    is_pair,
    refuse,
)
from jepsen.linearizability.values import frozen

WRITES: Final = ("set", "delete", "append", "subtract", "set-many")
READS: Final = ("get", "get-many")


class ConfigMap(Model):
    """Config values by key; see the head of the module."""

    name = "config-map"

    @override
    def prepare(self, operations: Sequence[Operation]) -> list[tuple[Part, ...]]:
        """A part for each key that an operation names; a refused write has none."""
        return [self._parts(operation) for operation in operations]

    def _parts(self, operation: Operation) -> tuple[Part, ...]:
        """Input is the name with the value, output what a read was told."""
        f = operation.f
        if f not in WRITES + READS:
            raise refuse(operation, self.name, ", ".join(WRITES + READS))
        many = f.endswith("-many")
        pairs = self._pairs(operation, operation.value, many=many)
        if f in READS:
            if operation.type != OK:
                return tuple(Part(key, ("get", None), UNKNOWN) for key, _ in pairs)
            answers = dict(self._pairs(operation, operation.output, many=many))
            if set(answers) != {key for key, _ in pairs}:
                raise OperationError(operation, f"{f} answered other keys than it was asked for")
            return tuple(Part(key, ("get", None), answers[key]) for key, _ in pairs)
        if operation.type == FAIL:
            return ()
        output = UNKNOWN if operation.type == INFO else None
        return tuple(Part(key, self._write(operation, value), output) for key, value in pairs)

    def _pairs(
        self, operation: Operation, value: Any, *, many: bool
    ) -> list[tuple[Hashable, str | None]]:
        """Keys with values, none of them twice; OperationError if the form is another."""
        pairs = value if many else [value]
        if not isinstance(pairs, list | tuple) or not all(is_pair(pair) for pair in pairs):
            form = "[[key value] ...]" if many else "[key value]"
            raise OperationError(operation, f"value of {operation.f} is {value!r}, not {form}")
        found = [(frozen(key), item) for key, item in pairs]
        for key, item in found:
            if item is not None and type(item) is not str:
                raise OperationError(
                    operation, f"config {key} of {operation.f} is {item!r}, not a string"
                )
        if len({key for key, _ in found}) != len(found):
            raise OperationError(operation, f"value of {operation.f} names a key twice: {value!r}")
        return found

    def _write(self, operation: Operation, value: str | None) -> tuple[str, str | None]:
        """What a write does to one key."""
        f = "set" if operation.f == "set-many" else operation.f
        if f == "delete" or (operation.f == "set-many" and value is None):
            return ("delete", None)
        if value is None:
            raise OperationError(operation, f"value of {f} is nil, not a string")
        return (f, value)

    @override
    def init(self) -> State:
        """Not set."""
        return None

    @override
    def step(self, state: State, given: Any, output: Any) -> State:
        """A read is legal where it tells this value; every write is legal everywhere."""
        f, value = given
        if f == "get":
            return state if output is UNKNOWN or output == state else ILLEGAL
        if f in ("set", "delete"):
            return value
        assert state is None or isinstance(state, str)
        items = items_of(state)
        for item in value.split(","):
            if f == "append" and item not in items:
                items.append(item)
            elif f == "subtract" and item in items:
                items.remove(item)
        return ",".join(items)

    @override
    def observes(self, given: Any, output: Any) -> bool:
        """Reads."""
        return bool(given[0] == "get")

    @override
    def describe(self, part: Part) -> str:
        """`set key 'value'`, `get key -> 'value'`."""
        f, value = part.input
        unknown = part.output is UNKNOWN
        if f == "get":
            return f"get {part.key} -> {'?' if unknown else self.describe_state(part.output)}"
        what = "" if value is None else f" {value!r}"
        return f"{f} {part.key}{what}{' -> ?' if unknown else ''}"

    @override
    def describe_state(self, state: State) -> str:
        """The value, or that there is none."""
        return "not set" if state is None else repr(state)


def items_of(value: str | None) -> list[str]:
    """The items of a list config, as Kafka splits it: trimmed, empty ones left out."""
    return [] if value is None else [item.strip() for item in value.split(",") if item.strip()]
