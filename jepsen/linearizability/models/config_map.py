"""Configs of resources, as IncrementalAlterConfigs changes them.

| operation | value at the call | value at the completion |
|---|---|---|
| `set` | `[key value]` | the same |
| `delete` | `[key nil]` | the same |
| `append` | `[key "a,b"]`: items added to the end of the list, each only if it is new | the same |
| `subtract` | `[key "a,b"]`: items taken out of the list, each once | the same |
| both | `[key "a,b" default]`: a string, nil where the key has no default | the same |
| `get` | `[key nil]` | `[key value]`, nil if not set |
| `set-many` | `[[key value] ...]` in one atomic request, nil deletes | the same |
| `get-many` | `[[key nil] ...]` in one atomic read | `[[key value] ...]` |

A key is any value: `retention.ms`, or `[resource name]`. A value is a string. Lists are separated
by commas, items are not trimmed, empty ones of the old value are left out, and so are those at the
end of what is appended; a list that becomes empty is "".

Where the key is not set, `append` and `subtract` begin with its default: `cleanup.policy` is
`delete` by default, and `compact` appended makes `delete,compact`. Only nodes know their defaults,
so the history names them, once for a key; a second one that differs is refused. Of a key whose
default is not named this much is certain: after `append` the items are in the list, after
`subtract` they are not (no default has an item twice). The first answer that agrees then fixes the
value, as an answer fixes the id of a topic; that refutes less, and never wrongly.

Source: apache/kafka: `ConfigurationControlManager.incrementalAlterConfigResource` and `getParts`.
"""

from collections.abc import Hashable, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

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
from jepsen.linearizability.values import Vector, frozen

WRITES: Final = ("set", "delete", "append", "subtract", "set-many")
READS: Final = ("get", "get-many")
LIST_WRITES: Final = ("append", "subtract")


class Default(Enum):
    """Default of a key that no operation names."""

    UNNAMED = "unnamed"


class ListChange(NamedTuple):
    """Items to append or subtract, and the default of their key: None if it has none."""

    items: str
    default: str | Default | None


class FromDefault(NamedTuple):
    """A list that was changed while only its default, which is unknown, was in force."""

    has: frozenset[str] = frozenset()
    lacks: frozenset[str] = frozenset()

    def changed(self, f: str, items: str) -> "FromDefault":
        """State after `append` or `subtract` of the items."""
        given = frozenset(split_list(items)) - {""}
        if f == "append":
            return FromDefault(self.has | given, self.lacks - given)
        return FromDefault(self.has - given, self.lacks | given)

    def agrees(self, value: str | None) -> bool:
        """True if some default could have become the value."""
        if value is None:
            return False
        items = frozenset(split_list(value))
        return self.has <= items and not self.lacks & items


class ConfigMap(Model):
    """Config values by key; see the head of the module."""

    name = "config-map"

    @override
    def prepare(self, operations: Sequence[Operation]) -> list[tuple[Part, ...]]:
        """Make a part for each key that an operation names; a refused write has none."""
        defaults = self._defaults(operations)
        parts = [self._parts(operation, defaults) for operation in operations]
        unnamed = {
            part.key
            for each in parts
            for part in each
            if isinstance(part.input[1], ListChange) and part.input[1].default is Default.UNNAMED
        }
        return [tuple(_binding(part, unnamed) for part in each) for each in parts]

    def _defaults(self, operations: Sequence[Operation]) -> dict[Hashable, str | None]:
        """Defaults that list operations name, by key; OperationError if two differ."""
        found: dict[Hashable, str | None] = {}
        for operation in operations:
            if operation.f not in LIST_WRITES or not _gives_default(operation.value):
                continue
            given, _, default = operation.value
            if default is not None and type(default) is not str:
                text = f"default of {given} is {default!r}, not a string"
                raise OperationError(operation, text)
            if found.setdefault(frozen(given), default) != default:
                text = f"default of {given} is {default!r}, but {found[frozen(given)]!r} before"
                raise OperationError(operation, text)
        return found

    def _parts(
        self, operation: Operation, defaults: dict[Hashable, str | None]
    ) -> tuple[Part, ...]:
        """Make parts: input is the name with the value, output the answer to a read."""
        f = operation.f
        if f not in WRITES + READS:
            raise refuse(operation, self.name, ", ".join(WRITES + READS))
        if f in LIST_WRITES:
            return self._list_write(operation, defaults)
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

    def _list_write(
        self, operation: Operation, defaults: dict[Hashable, str | None]
    ) -> tuple[Part, ...]:
        """Make the part: input is the name with a ListChange."""
        value = operation.value[:2] if _gives_default(operation.value) else operation.value
        ((key, items),) = self._pairs(operation, value, many=False)
        if items is None:
            raise OperationError(operation, f"value of {operation.f} is nil, not a string")
        if operation.type == FAIL:
            return ()
        change = ListChange(items, defaults.get(key, Default.UNNAMED))
        output = UNKNOWN if operation.type == INFO else None
        return (Part(key, (operation.f, change), output),)

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
        """Effect of a write on one key."""
        f = "set" if operation.f == "set-many" else operation.f
        if f == "delete" or (operation.f == "set-many" and value is None):
            return ("delete", None)
        if value is None:
            raise OperationError(operation, f"value of {f} is nil, not a string")
        return (f, value)

    @override
    def init(self) -> State:
        """State of a key that is not set."""
        return None

    @override
    def step(self, state: State, given: Any, output: Any) -> State:
        """A read is legal where it returns this value; every write is legal everywhere."""
        f, value = given
        if f == "get":
            if output is UNKNOWN or output == state:
                return state
            if isinstance(state, FromDefault) and state.agrees(output):
                return output
            return ILLEGAL
        if f in ("set", "delete"):
            return value
        assert isinstance(value, ListChange)
        before = value.default if state is None else state
        if before is Default.UNNAMED:
            before = FromDefault()
        if isinstance(before, FromDefault):
            return before.changed(f, value.items)
        assert before is None or isinstance(before, str)
        return changed_list(before, f, value.items)

    @override
    def observes(self, given: Any, output: Any) -> bool:
        """True for reads, but of a key with an unknown default: an answer may fix its value."""
        f, binds = given
        return f == "get" and (output is UNKNOWN or not binds)

    @override
    def describe(self, part: Part) -> str:
        """`set key 'value'`, `get key -> 'value'`."""
        f, value = part.input
        unknown = part.output is UNKNOWN
        if f == "get":
            return f"get {part.key} -> {'?' if unknown else self.describe_state(part.output)}"
        if isinstance(value, ListChange):
            value = value.items
        what = "" if value is None else f" {value!r}"
        return f"{f} {part.key}{what}{' -> ?' if unknown else ''}"

    @override
    def describe_state(self, state: State) -> str:
        """Describe the value, or that there is none."""
        if isinstance(state, FromDefault):
            has, lacks = (", ".join(sorted(items)) or "nothing" for items in state)
            return f"its default with {has}, without {lacks}"
        return "not set" if state is None else repr(state)


def _binding(part: Part, unnamed: set[Hashable]) -> Part:
    """Mark a read of a key whose value an answer may fix, in its input."""
    binds = part.input[0] == "get" and part.key in unnamed
    return part._replace(input=("get", True)) if binds else part


def _gives_default(value: Any) -> bool:
    return type(value) in (list, tuple, Vector) and len(value) == 3


def split_list(text: str) -> list[str]:
    """Items as Java's `split(",")` gives them: without the empty ones at the end."""
    kept = text.rstrip(",")
    return kept.split(",") if kept or not text else []


def changed_list(before: str | None, f: str, items: str) -> str:
    """List after `append` or `subtract` of the items; `before` is its value or default."""
    found = [item for item in split_list(before or "") if item]
    for item in split_list(items):
        if f == "append" and item not in found:
            found.append(item)
        elif f == "subtract" and item in found:
            found.remove(item)
    return ",".join(found)
