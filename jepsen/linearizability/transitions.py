"""States of one partition and the moves between them, computed once each.

States and operations repeat, so both become numbers and `step` of the model runs once for a pair.
A *row* stands for a state: `row[0]` is the state's part of a cache key, `row[kind]` (kind >= 1)
the row after an operation of that kind, or None when it is illegal. Rows fill themselves.
"""

from typing import Any, Final

from typing_extensions import override

from jepsen.linearizability.model import ILLEGAL, UNKNOWN, Model, Part, State


class Row(dict[int, Any]):
    """One state with its known moves; the table computes a missing one."""

    __slots__ = ("state", "table")

    def __init__(self, table: "Transitions", state: State, bits: int) -> None:
        """`bits` is what the state adds to a cache key."""
        super().__init__()
        self.table = table
        self.state = state
        self[0] = bits

    def __missing__(self, kind: int) -> "Row | None":
        """Compute the move once."""
        moved = self.table.move(self.state, kind)
        self[kind] = moved
        return moved

    @override
    def __hash__(self) -> int:  # type: ignore[override]  # a dict has none; rows are identities
        return id(self)


class Transitions:
    """Kinds of operations and rows of states of one partition.

    A kind is a tuple of parts (one for nearly all; several where an operation touches several
    keys). A state is the state of the key, or the tuple of the states of all keys.
    """

    def __init__(self, model: Model, keys: tuple[Any, ...]) -> None:
        """Begin without states.

        Args:
            model: Computes the moves.
            keys: Keys of the partition, in the order of their states; at least one.
        """
        assert keys
        self._model: Final = model
        self._places: Final = {key: place for place, key in enumerate(keys)}
        self._shift = 0
        self._kinds: Final[dict[tuple[Part, ...], int]] = {}
        self._parts: Final[list[tuple[Part, ...]]] = [()]
        self._rows: Final[dict[State, Row]] = {}

    def begin(self, shift: int) -> Row:
        """Row before anything happened; numbers of states begin at bit `shift` of a cache key."""
        assert not self._rows, "begun already"
        self._shift = shift
        first = self._model.init()
        count = len(self._places)
        return self._row(first if count == 1 else (first,) * count)

    def __len__(self) -> int:
        """Number of states seen."""
        return len(self._rows)

    def kind(self, parts: tuple[Part, ...]) -> int:
        """Number of the kind of an operation, from 1."""
        found = self._kinds.get(parts)
        if found is None:
            found = self._kinds[parts] = len(self._parts)
            self._parts.append(parts)
        return found

    def move(self, state: State, kind: int) -> Row | None:
        """Row after an operation of the kind, None if illegal."""
        after = self.after(state, self._parts[kind])
        return None if after is ILLEGAL else self._row(after)

    def after(self, state: State, parts: tuple[Part, ...]) -> State:
        """State after the parts, or ILLEGAL."""
        if len(self._places) == 1:
            for part in parts:
                state = self._model.step(state, part.input, part.output)
                if state is ILLEGAL:
                    return ILLEGAL
            return state
        assert isinstance(state, tuple)
        states = list(state)
        for part in parts:
            place = self._places[part.key]
            moved = self._model.step(states[place], part.input, part.output)
            if moved is ILLEGAL:
                return ILLEGAL
            states[place] = moved
        return tuple(states)

    def observes(self, parts: tuple[Part, ...]) -> bool:
        """True if an operation with these parts changes no state in which it is legal."""
        return all(self._model.observes(part.input, part.output) for part in parts)

    def describe_state(self, state: State) -> str:
        """Describe the state for people."""
        if len(self._places) == 1:
            return self._model.describe_state(state)
        assert isinstance(state, tuple)
        return ", ".join(
            f"{key}: {self._model.describe_state(state[place])}"
            for key, place in self._places.items()
        )

    def states(self) -> list[State]:
        """All states seen, by number."""
        return list(self._rows)

    def _row(self, state: State) -> Row:
        row = self._rows.get(state)
        if row is None:
            row = self._rows[state] = Row(self, state, len(self._rows) << self._shift)
        return row


def describe(model: Model, parts: tuple[Part, ...]) -> str:
    """Describe an operation for people: its parts, joined."""
    return "; ".join(model.describe(part) for part in parts)


def is_unknown(parts: tuple[Part, ...]) -> bool:
    """True if the answer to the operation is unknown."""
    return all(part.output is UNKNOWN for part in parts)
