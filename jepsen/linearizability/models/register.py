"""A register, with and without compare-and-set.

| operation | value at the call | value at the completion |
|---|---|---|
| `read` | nil | what was read, nil if absent |
| `write` | what to write | the same |
| `cas` | `[from to]` | the same; `fail` without an error: the comparison failed |

State: the value, None while absent. A `fail` of cas *with* an error, or with another value than its
call (`[:not-leader 3]`), certainly did not happen and proves nothing; else the register did not
hold `from`. A `fail` of a read has an unknown output and ends there.
"""

from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from jepsen.linearizability.history import FAIL, INFO, Operation
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
    refuse,
)
from jepsen.linearizability.values import frozen

READ = ("read", None)
CAS_REFUSED = "refused"


class Register(Model):
    """Read and write of one value."""

    name = "register"

    @override
    def prepare(self, operations: Sequence[Operation]) -> list[tuple[Part, ...]]:
        """Make one part each; what certainly did not happen has none."""
        return [self._parts(call) for call in calls_of(operations, frozenset({"cas"}))]

    def _parts(self, call: Call) -> tuple[Part, ...]:
        """Make the part: input is the name with the value, output the answer to a read."""
        operation = call.operation
        if operation.f == "read":
            known = operation.type not in (FAIL, INFO)
            return (Part(call.key, READ, frozen(call.output) if known else UNKNOWN),)
        if operation.f == "write":
            if operation.type == FAIL:
                return ()
            given = ("write", frozen(call.value))
            return (Part(call.key, given, UNKNOWN if operation.type == INFO else None),)
        raise refuse(operation, self.name, "read, write")

    @override
    def init(self) -> State:
        """State of an absent value."""
        return None

    @override
    def step(self, state: State, given: Any, output: Any) -> State:
        """A read is legal where it returns this value; every write is legal everywhere."""
        f, value = given
        if f == "read":
            return state if output is UNKNOWN or output == state else ILLEGAL
        return value

    @override
    def observes(self, given: Any, output: Any) -> bool:
        """True for reads."""
        return bool(given[0] == "read")

    @override
    def droppable(self, parts: Sequence[tuple[Part, bool]]) -> set[int]:
        """Never returned writes of values that no operation can have noticed."""
        noticed = set()
        for part, _ in parts:
            f, value = given = part.input
            if f == "cas":
                if part.output == CAS_REFUSED:
                    return set()  # it noticed every value but one
                noticed.add(value[0])
            elif given == READ and part.output is not UNKNOWN:
                noticed.add(part.output)
        return {
            number
            for number, (part, never_returned) in enumerate(parts)
            if never_returned and part.input[0] == "write" and part.input[1] not in noticed
        }

    @override
    def describe(self, part: Part) -> str:
        """`read -> 1`, `write 1`, `cas 1 to 2 -> ok`."""
        f, value = part.input
        where = "" if part.key is None else f"{part.key}: "
        if f == "read":
            answer = "?" if part.output is UNKNOWN else self.describe_state(part.output)
            return f"{where}read -> {answer}"
        unknown = " -> ?" if part.output is UNKNOWN else ""
        if f == "write":
            return f"{where}write {value}{unknown}"
        answer = unknown or (" -> refused" if part.output == CAS_REFUSED else " -> ok")
        return f"{where}cas {value[0]} to {value[1]}{answer}"

    @override
    def describe_state(self, state: State) -> str:
        """Describe the value, or that there is none."""
        return "absent" if state is None else str(state)


class CasRegister(Register):
    """A register with compare-and-set."""

    name = "cas-register"

    @override
    def _parts(self, call: Call) -> tuple[Part, ...]:
        """Make the part as for a register; a refused cas shows that another value was there."""
        operation = call.operation
        if operation.f in ("read", "write"):
            return super()._parts(call)
        if operation.f != "cas":
            raise refuse(operation, self.name, "read, write, cas")
        if not is_pair(call.value):
            raise OperationError(operation, f"value of cas is {call.value!r}, not [from to]")
        given = ("cas", frozen(call.value))
        if operation.type == INFO:
            return (Part(call.key, given, UNKNOWN),)
        if operation.type == FAIL:
            is_refused = operation.error is None and frozen(call.output) == given[1]
            return (Part(call.key, given, CAS_REFUSED),) if is_refused else ()
        return (Part(call.key, given, None),)

    @override
    def step(self, state: State, given: Any, output: Any) -> State:
        """A cas that took place is legal at its first value, a refused one at any other."""
        f, value = given
        if f != "cas":
            return super().step(state, given, output)
        expected, wanted = value
        if output is UNKNOWN:
            return wanted if state == expected else state
        if output == CAS_REFUSED:
            return state if state != expected else ILLEGAL
        return wanted if state == expected else ILLEGAL

    @override
    def observes(self, given: Any, output: Any) -> bool:
        """True for reads, and for a refused cas."""
        return bool(given[0] == "read" or output == CAS_REFUSED)
