"""Topics with the ids that the controller gives them.

| operation | value at the call | value at the completion |
|---|---|---|
| `create` | `[name nil]` | `[name id]`; or the error TOPIC_ALREADY_EXISTS |
| `delete` | `[name nil]`, `[nil id]` or `[name id]` | the same; or an UNKNOWN_TOPIC_* error |
| `exists` | `[name nil]` | `[name id]`, `[name nil]` if absent |
| `list` | nil | `{name id ...}` or `[[name id] ...]` |

The error stands in `error` (or in the place of the id) of an `ok` or a `fail`: it reflects the
state, so it is an observation. A `fail` with any other error certainly did not happen.

Ids are *outputs*. A create that never returned may have made the topic with an id that nobody has
seen: the state is then CREATED, and the first answer that names an id binds it. The binding is
part of the state, for an id that was bound once is never bound again, and neither is one that
another create returned. An id given by two creates is refused before the search.

A delete by id with an id of no known name is kept under the id itself; the harness gives the name.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from typing_extensions import override

from jepsen.linearizability.history import INFO, OK, Operation
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

EXISTS: Final = "TOPIC_ALREADY_EXISTS"
UNKNOWN_ERRORS: Final = ("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID")
SHORT_NAMES: Final = {"EXISTS": EXISTS, "UNKNOWN": UNKNOWN_ERRORS[0]}
OPERATIONS: Final = "create, delete, exists, list"


class Presence(Enum):
    """A topic of which no id is known: not there, or made by a create that never returned."""

    ABSENT = "absent"
    CREATED = "created"


class Topic(NamedTuple):
    """State of one name.

    `current` is ABSENT, CREATED or the id. `bound` holds the ids that belonged to creates that
    never returned, `excluded` those that the CREATED one cannot have: both are gone for ever.
    """

    current: str | Presence
    bound: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()

    def with_id(self, topic_id: str, *, free: bool) -> "Topic | None":
        """This topic once its id is known to be `topic_id`; None if it cannot be.

        Args:
            topic_id: The id.
            free: No create returned it: it may belong to one that never returned.
        """
        if self.current == topic_id:
            return self
        can_bind = free and topic_id not in self.bound and topic_id not in self.excluded
        if self.current is not Presence.CREATED or not can_bind:
            return None
        return Topic(topic_id, self.bound | {topic_id})

    def deleted(self) -> "Topic":
        """The name after its topic is gone."""
        return Topic(Presence.ABSENT, self.bound)


class Id(NamedTuple):
    """An id in an operation; `free` if no create returned it."""

    text: str
    free: bool


class TopicSet(Model):
    """Create, delete and look up topics; see the head of the module."""

    @property
    @override
    def name(self) -> str:
        return "topic-set"

    @property
    @override
    def projects(self) -> bool:
        return True

    @override
    def prepare(self, operations: Sequence[Operation]) -> list[tuple[Part, ...]]:
        creators: dict[str, Operation] = {}
        names: dict[str, str] = {}
        universe: dict[str, None] = {}
        for operation in operations:
            for name, topic_id in self._mentions(operation):
                universe.setdefault(name)
                if topic_id is None:
                    continue
                names.setdefault(topic_id, name)
                if (
                    operation.f == "create"
                    and creators.setdefault(topic_id, operation) != operation
                ):
                    raise OperationError(operation, f"id {topic_id} was given by two creates")
        owned = frozenset(creators)
        return [self._parts(operation, owned, names, tuple(universe)) for operation in operations]

    def _mentions(self, operation: Operation) -> list[tuple[str, str | None]]:
        """Names with the ids that the operation's answer gives them."""
        if operation.f not in OPERATIONS.split(", "):
            raise refuse(operation, self.name, OPERATIONS)
        if operation.f == "list":
            return list(self._listed(operation).items()) if operation.type == OK else []
        name, topic_id = self._pair(operation, operation.value)
        if operation.f == "delete":
            return [] if name is None else [(name, topic_id)]
        if name is None:
            raise OperationError(operation, f"{operation.f} without a topic name")
        if operation.type != OK or _error(operation) is not None:
            return [(name, None)]
        answered, given = self._pair(operation, operation.output)
        if answered != name:
            raise OperationError(operation, f"{operation.f} of {name} answered for {answered}")
        if operation.f == "create" and given is None:
            raise OperationError(operation, f"create of {name} succeeded without an id")
        return [(name, given)]

    def _pair(self, operation: Operation, value: Any) -> tuple[str | None, str | None]:
        if is_pair(value) and all(item is None or isinstance(item, str) for item in value):
            return value[0], value[1]
        raise OperationError(operation, f"value of {operation.f} is {value!r}, not [name id]")

    def _listed(self, operation: Operation) -> dict[str, str]:
        try:
            found = dict(operation.output)
        except (TypeError, ValueError):
            found = {None: None}
        if not all(isinstance(item, str) for pair in found.items() for item in pair):
            raise OperationError(
                operation, f"value of list is {operation.output!r}, not {{name id ...}}"
            )
        return found

    def _parts(  # noqa: PLR0911  # one outcome each
        self,
        operation: Operation,
        owned: frozenset[str],
        names: dict[str, str],
        universe: tuple[str, ...],
    ) -> tuple[Part, ...]:
        def tagged(topic_id: str | None) -> Id | None:
            return None if topic_id is None else Id(topic_id, topic_id not in owned)

        if operation.f == "list":
            if operation.type != OK:
                return ()
            listed = self._listed(operation)
            return tuple(
                Part(name, ("exists", None), tagged(listed.get(name))) for name in universe
            )
        name, topic_id = self._pair(operation, operation.value)
        given = (operation.f, tagged(topic_id) if operation.f == "delete" else None)
        if name is None and topic_id is None:
            raise OperationError(operation, "delete without a topic name or id")
        key = name if name is not None else names.get(topic_id or "", topic_id)
        error = _error(operation)
        refused = UNKNOWN_ERRORS if operation.f == "delete" else (EXISTS,)
        if operation.type == INFO:
            return (Part(key, given, UNKNOWN),)
        if operation.f != "exists" and error in refused:
            return (Part(key, given, "refused"),)
        if operation.type != OK or error is not None:
            return (Part(key, given, UNKNOWN),) if operation.f == "exists" else ()
        if operation.f == "delete":
            return (Part(key, given, None),)
        return (Part(key, given, tagged(self._pair(operation, operation.output)[1])),)

    @override
    def init(self) -> State:
        return Topic(Presence.ABSENT)

    @override
    def step(self, state: State, given: Any, output: Any) -> State:  # noqa: PLR0911
        assert isinstance(state, Topic)
        f, topic_id = given
        absent = state.current is Presence.ABSENT
        if f == "exists":
            if output is UNKNOWN:
                return state
            if output is None:
                return state if absent else ILLEGAL
            return state.with_id(output.text, free=output.free) or ILLEGAL
        if f == "create":
            if output == "refused":
                return ILLEGAL if absent else state
            if output is UNKNOWN:
                return Topic(Presence.CREATED, state.bound) if absent else state
            usable = absent and output.text not in state.bound
            return Topic(output.text, state.bound) if usable else ILLEGAL
        assert f == "delete", f"{f=}"
        return self._delete(state, topic_id, output)

    def _delete(self, state: Topic, topic_id: Id | None, output: Any) -> State:
        absent = state.current is Presence.ABSENT
        found = state if topic_id is None else state.with_id(topic_id.text, free=topic_id.free)
        if output == "refused":
            if absent:
                return state
            if topic_id is None or state.current == topic_id.text:
                return ILLEGAL
            if found is None or state.current is not Presence.CREATED:
                return state
            return state._replace(excluded=state.excluded | {topic_id.text})
        if absent or found is None:
            return state if output is UNKNOWN else ILLEGAL
        return found.deleted()

    @override
    def observes(self, given: Any, output: Any) -> bool:
        f, topic_id = given
        if f == "exists":
            return output is UNKNOWN or output is None or not output.free
        return output == "refused" and (topic_id is None or not topic_id.free)

    @override
    def droppable(self, parts: Sequence[tuple[Part, bool]]) -> set[int]:
        return set()

    @override
    def describe(self, part: Part) -> str:
        f, topic_id = part.input
        what = f"{f} {part.key}{f' id {topic_id.text}' if topic_id else ''}"
        if part.output is UNKNOWN:
            return f"{what} -> ?"
        if part.output == "refused":
            return f"{what} -> {'exists' if f == 'create' else 'unknown topic'}"
        if part.output is None:
            return f"{what} -> {'absent' if f == 'exists' else 'ok'}"
        assert isinstance(part.output, Id)
        return f"{what} -> {part.output.text}"

    @override
    def describe_state(self, state: State) -> str:
        assert isinstance(state, Topic)
        if isinstance(state.current, str):
            return state.current
        return "absent" if state.current is Presence.ABSENT else "created with an unknown id"


def _error(operation: Operation) -> str | None:
    """Name of the error of a completed operation, in `error` or in the place of the id."""
    error = operation.error
    if isinstance(error, list | tuple) and error:
        error = error[0]
    if error is None and is_pair(operation.output):
        second = operation.output[1]
        error = SHORT_NAMES.get(second) if isinstance(second, str) else None
    return None if error is None else str(error)
