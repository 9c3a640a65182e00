"""Topics with the ids that the controller gives them.

| operation | value at the call | value at the completion |
|---|---|---|
| `create` | `[name nil]` | `[name id]`; or the error TOPIC_ALREADY_EXISTS |
| `delete` | `[name nil]`, `[nil id]` or `[name id]` | the same; or an UNKNOWN_TOPIC_* error |
| `exists` | `[name nil]` | `[name id]`; `[name nil]` or an UNKNOWN_TOPIC_* error if absent |
| `list` | nil | `{name id ...}` or `[[name id] ...]` |

The error stands in `error` (or in the place of the id) of an `ok` or a `fail`: it reflects the
state, so it is an observation. A `fail` with any other error certainly did not happen.

Ids are *outputs*. A create that never returned may have made the topic with an id that is in no
answer yet: the state is then CREATED, and the first answer that names an id binds it. The binding
is part of the state, for an id that was bound once is never bound again, and neither is one that
another create returned. An id in the answers of two creates, or for two names, is a violation
before any search.

A delete by id alone needs an answer that names the topic of the id; else give `[name id]`.
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
    Violation,
    is_pair,
    refuse,
)

EXISTS: Final = "TOPIC_ALREADY_EXISTS"
UNKNOWN_ERRORS: Final = ("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID")
SHORT_NAMES: Final = {"EXISTS": EXISTS, "UNKNOWN": UNKNOWN_ERRORS[0]}
OPERATIONS: Final = "create, delete, exists, list"


class Presence(Enum):
    """A topic of unknown id: not there, or made by a create that never returned."""

    ABSENT = "absent"
    CREATED = "created"


class Topic(NamedTuple):
    """State of one name.

    `current` is ABSENT, CREATED or the id. `bound` holds the ids that belonged to creates that
    never returned, which are gone for ever; `excluded` those that the CREATED one cannot have.
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


class _Ids(NamedTuple):
    """Ids that creates returned, the name in answers for every id, all names in their order."""

    owned: frozenset[str]
    names: dict[str, str]
    universe: tuple[str, ...]

    def tagged(self, topic_id: str | None, name: str) -> Id | None:
        """Id as the operations of a name know it."""
        if topic_id is None:
            return None
        is_free = topic_id not in self.owned and self.names.get(topic_id, name) == name
        return Id(topic_id, is_free)


class TopicSet(Model):
    """Create, delete and look up topics; see the head of the module."""

    name = "topic-set"
    projects = True

    @override
    def prepare(self, operations: Sequence[Operation]) -> list[tuple[Part, ...]]:
        """Make a part for the one name; a list has one for every name of the history."""
        answered = [self._answered(operation) for operation in operations]
        names = {topic_id: name for pairs in answered for name, topic_id in pairs if topic_id}
        universe = tuple({name: None for pairs in answered for name, _ in pairs})
        owned = frozenset(
            topic_id
            for operation, pairs in zip(operations, answered, strict=True)
            for _, topic_id in pairs
            if topic_id and operation.f == "create"
        )
        known = _Ids(owned, names, universe)
        return [self._parts(operation, known) for operation in operations]

    @override
    def violation(self, operations: Sequence[Operation]) -> Violation | None:
        """Find an id that two creates gave, or that answers give for two names."""
        creators: dict[str, int] = {}
        answered: dict[str, tuple[str, int]] = {}
        for index, operation in enumerate(operations):
            for name, topic_id in self._answered(operation):
                if topic_id is None:
                    continue
                other, first = answered.setdefault(topic_id, (name, index))
                if other != name:
                    text = f"id {topic_id} stands in answers for {other} and for {name}"
                    return Violation(text, (first, index))
                if operation.f == "create" and creators.setdefault(topic_id, index) != index:
                    text = f"id {topic_id} was given by two creates"
                    return Violation(text, (creators[topic_id], index))
        return None

    def _answered(self, operation: Operation) -> list[tuple[str, str | None]]:
        """Names with the ids that the operation's answer gives for them."""
        if operation.f not in OPERATIONS.split(", "):
            raise refuse(operation, self.name, OPERATIONS)
        if operation.f == "list":
            return list(self._listed(operation).items()) if operation.type == OK else []
        name, topic_id = self._pair(operation, operation.value)
        if operation.f == "delete":
            done = operation.type == OK and _error(operation) is None
            return [] if name is None else [(name, topic_id if done else None)]
        if name is None:
            raise OperationError(operation, f"{operation.f} without a topic name")
        if operation.f == "exists" and _error(operation) in UNKNOWN_ERRORS:
            self._check_absent(operation)
        if operation.type != OK or _error(operation) is not None:
            return [(name, None)]
        answered, given = self._pair(operation, operation.output)
        if answered != name:
            raise OperationError(operation, f"{operation.f} of {name} answered for {answered}")
        if operation.f == "create" and given is None:
            raise OperationError(operation, f"create of {name} succeeded without an id")
        return [(name, given)]

    def _check_absent(self, operation: Operation) -> None:
        """Raise OperationError if an answer says that there is no topic, and its id."""
        given = operation.output[1] if is_pair(operation.output) else None
        if given is not None and given not in SHORT_NAMES:
            error = _error(operation)
            raise OperationError(operation, f"exists gave the id {given!r} and the error {error}")

    def _pair(self, operation: Operation, value: Any) -> tuple[str | None, str | None]:
        """Name and id, either may be missing; OperationError if the form is another."""
        if is_pair(value) and all(item is None or type(item) is str for item in value):
            return value[0], value[1]
        raise OperationError(operation, f"value of {operation.f} is {value!r}, not [name id]")

    def _listed(self, operation: Operation) -> dict[str, str]:
        """Ids by name in the answer to a list; OperationError if the form is another."""
        try:
            found = dict(operation.output)
        except (TypeError, ValueError):
            found = {None: None}
        if not all(type(item) is str for pair in found.items() for item in pair):
            raise OperationError(
                operation, f"value of list is {operation.output!r}, not {{name id ...}}"
            )
        return found

    def _parts(self, operation: Operation, known: "_Ids") -> tuple[Part, ...]:  # noqa: PLR0911
        """Input is the name with the id to delete; output the id answered, `refused` or UNKNOWN."""
        if operation.f == "list":
            return self._list_parts(operation, known)
        name, topic_id = self._pair(operation, operation.value)
        if operation.f == "exists":
            assert name is not None, "checked when it was asked what the answer tells"
            return (Part(name, ("exists", None), self._seen(operation, name, known)),)
        if name is None and topic_id is None:
            raise OperationError(operation, "delete without a topic name or id")
        key = name if name is not None else known.names.get(topic_id or "")
        error = _error(operation)
        refused = UNKNOWN_ERRORS if operation.f == "delete" else (EXISTS,)
        if key is None:
            if operation.type != INFO and error is not None:
                return ()  # an id that nobody knows was refused, as it should be
            raise OperationError(
                operation,
                f"delete of id {topic_id}, which no answer gives a name: [name id] is due",
            )
        given = (operation.f, known.tagged(topic_id, key) if operation.f == "delete" else None)
        if operation.type == INFO:
            return (Part(key, given, UNKNOWN),)
        if error in refused:
            return (Part(key, given, "refused"),)
        if operation.type != OK or error is not None:
            return ()
        if operation.f == "delete":
            return (Part(key, given, None),)
        answered = self._pair(operation, operation.output)[1]
        return (Part(key, given, known.tagged(answered, key)),)

    def _list_parts(self, operation: Operation, known: "_Ids") -> tuple[Part, ...]:
        """Make a lookup of every name of the history from a list."""
        if operation.type != OK:
            return ()
        listed = self._listed(operation)
        return tuple(
            Part(name, ("exists", None), known.tagged(listed.get(name), name))
            for name in known.universe
        )

    def _seen(self, operation: Operation, name: str, known: "_Ids") -> Any:
        """Output of an `exists`: an id, None where there is no topic, or UNKNOWN."""
        error = _error(operation)
        if operation.type != INFO and error in UNKNOWN_ERRORS:
            return None
        if operation.type != OK or error is not None:
            return UNKNOWN
        return known.tagged(self._pair(operation, operation.output)[1], name)

    @override
    def init(self) -> State:
        """State of an absent topic."""
        return Topic(Presence.ABSENT)

    @override
    def step(self, state: State, given: Any, output: Any) -> State:  # noqa: PLR0911
        """See the head of the module: ids are outputs, an unanswered create has one to be bound."""
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
        """Legal where its topic is; refused where none is, or one with another id."""
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
        """True for what neither makes nor deletes a topic nor binds an id."""
        f, topic_id = given
        if f == "exists":
            return output is UNKNOWN or output is None or not output.free
        return output == "refused" and (topic_id is None or not topic_id.free)

    @override
    def describe(self, part: Part) -> str:
        """`create name -> id`, `delete name -> ok`, `exists name -> absent`."""
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
        """Describe the id, absent, or created with an id that is in no answer."""
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
