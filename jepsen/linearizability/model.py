"""Interface of the sequential models.

A model describes ONE key: `init` gives the state before anything happened and `step` the state
after an operation, or ILLEGAL. It is pure: it changes none of its arguments, and the hash of a
state agrees with its equality. Operations that touch several keys are several `Part`s; the
checker joins the keys that occur together and steps each part on the state of its key.
"""

from collections.abc import Hashable, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol

from jepsen.linearizability.history import OK, HistoryError, Operation
from jepsen.linearizability.values import MapKey, SetValue, frozen

State = Any
"""State of a key: any hashable value."""


class Sentinel(Enum):
    """Values that no history contains."""

    UNKNOWN = "unknown"
    ILLEGAL = "illegal"


UNKNOWN: Final = Sentinel.UNKNOWN
"""Output of an operation whose answer is unknown: legal in EVERY state of every model, with the
effect that the operation would have there, none if it could not apply."""

ILLEGAL: Final = Sentinel.ILLEGAL
"""Result of `step`: no legal execution gives this output in this state."""


class Part(NamedTuple):
    """Part of an operation on one key; input and output are hashable."""

    key: Hashable
    input: Any
    output: Any


class Violation(NamedTuple):
    """Operations, by index, that contradict each other in any order; `text` is the reason."""

    text: str
    operations: tuple[int, ...]


class Model(Protocol):
    """A sequential object; see the head of the module."""

    @property
    def name(self) -> str:
        """Name on the command line."""

    @property
    def projects(self) -> bool:
        """True: reads of many keys are checked key by key first (a necessary condition)."""
        return False

    def prepare(self, operations: Sequence[Operation]) -> list[tuple[Part, ...]]:
        """Split every operation into parts, in order; none for one that shows and changes nothing.

        Raises:
            OperationError: An operation that the model does not know, or a value of a wrong form.
        """

    def violation(self, operations: Sequence[Operation]) -> "Violation | None":  # noqa: ARG002
        """Find a reason, without any search, why no order is legal; None for most histories."""
        return None

    def init(self) -> State:
        """State of a key before its first operation."""

    def step(self, state: State, given: Any, output: Any) -> State:
        """State after the operation, or ILLEGAL."""

    def observes(self, given: Any, output: Any) -> bool:
        """True if the operation leaves EVERY state in which it is legal as it is."""

    def droppable(self, parts: Sequence[tuple[Part, bool]]) -> set[int]:  # noqa: ARG002
        """Numbers of operations of one key that can go without changing the verdict.

        Args:
            parts: Every operation of the key with True if it never returned.
        """
        return set()

    def describe(self, part: Part) -> str:
        """Describe the operation and its answer for people."""

    def describe_state(self, state: State) -> str:
        """Describe the state for people."""


class OperationError(HistoryError):
    """An operation is not one of the model; `operation` gives its place."""

    def __init__(self, operation: Operation, text: str) -> None:
        """`text` says what is wrong and what is allowed."""
        super().__init__(text)
        self.operation: Final = operation


def is_pair(value: Any) -> bool:
    """True for a list or vector of two; a set or a map is none."""
    return (
        isinstance(value, list | tuple)
        and not isinstance(value, SetValue | MapKey)
        and len(value) == 2
    )


class Call(NamedTuple):
    """One operation with its key taken out of its value."""

    operation: Operation
    key: Hashable
    value: Any
    output: Any


def calls_of(
    operations: Sequence[Operation],
    pairs: frozenset[str] = frozenset(),
    *,
    is_keyed: bool | None = None,
) -> list[Call]:
    """Take the keys out of the values.

    A key stands beside the value (`key`) or, when this holds for every operation of the history,
    in front of it: `[key value]`, the form of Jepsen's independent workloads.

    Args:
        operations: All operations of the history.
        pairs: Names of operations whose value without a key is a pair too (`cas [from to]`).
        is_keyed: True: keys stand in front, as the model knows; None: `may_be_keyed`.

    Raises:
        OperationError: An answer is about another key than its call.
    """
    if is_keyed is None:
        is_keyed = may_be_keyed(operations, pairs)
    if not is_keyed:
        return [Call(each, frozen(each.key), each.value, each.output) for each in operations]
    return [_keyed(operation) for operation in operations]


def may_be_keyed(operations: Sequence[Operation], pairs: frozenset[str] = frozenset()) -> bool:
    """True if no call contradicts that a key stands in front of every value; see `calls_of`."""
    return bool(operations) and all(
        operation.key is None
        and is_pair(operation.value)
        and (operation.f not in pairs or is_pair(operation.value[1]))
        for operation in operations
    )


def _keyed(operation: Operation) -> Call:
    key, value = operation.value
    output = operation.output
    if is_pair(output):
        if frozen(output[0]) == frozen(key):
            output = output[1]
        elif operation.type == OK:
            raise OperationError(
                operation, f"{operation.f} of key {key!r} answered for key {output[0]!r}"
            )
        else:
            output = None  # a reason, such as [:not-leader 3]: no answer
    return Call(operation, frozen(key), value, output)


def refuse(operation: Operation, model: str, allowed: str) -> OperationError:
    """Make the error for an operation with a name that the model does not have."""
    return OperationError(operation, f"operation '{operation.f}' is not one of {model}: {allowed}")
