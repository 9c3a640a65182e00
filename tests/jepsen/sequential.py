"""Sequential objects written down the obvious way, to compare the models and the search with.

Nothing here is shared with the checker but the form of an operation. An object holds ALL keys in
one state, so that splitting by key is compared as well. `apply` gives every state that may follow
an operation with the outcome it had: none when the outcome is impossible, several when the
operation never returned and more than one thing may have happened (a create that gave some id).
"""

import random
from collections.abc import Hashable, Iterator, Sequence
from decimal import Decimal

from jepsen.linearizability.history import FAIL, INFO, OK, Operation
from jepsen.linearizability.values import Keyword, Symbol

KEYS = ("x", "y")
IDS = ("id0", "id1", "id2", "id3")
Outcome = tuple[str, object, object]  # type, output, error


class RegisterObject:
    """cas-register and register; the state is the value."""

    model = "cas-register"
    functions = ("read", "write", "cas")

    def start(self):
        return None

    def draw(self, rng: random.Random) -> tuple[str, object, object]:
        """A random operation: function, value, key beside it."""
        f = rng.choice(self.functions)
        value = {"read": None, "write": rng.randrange(3)}.get(
            f, [rng.randrange(3), rng.randrange(3)]
        )
        return f, value, None

    def perform(self, state, f, value, key, rng) -> tuple[Hashable, Outcome]:
        """Carries an operation out: the state after it and what it answers."""
        if f == "read":
            return state, (OK, state, None)
        if f == "write":
            return value, (OK, value, None)
        if state == value[0]:
            return value[1], (OK, value, None)
        return state, (FAIL, value, None)

    def corrupt(self, operation: Operation, rng: random.Random) -> dict[str, object]:
        """Another answer for a completed operation."""
        if operation.f == "read":
            return {"output": rng.choice([None, 0, 1, 2])}
        if operation.f == "cas":
            return {"type": rng.choice([OK, FAIL])}
        return {}

    def apply(self, state, operation: Operation, operations) -> Iterator[Hashable]:
        f, value = operation.f, operation.value
        if f == "read":
            if operation.type != OK or operation.output == state:
                yield state
        elif f == "write":
            yield value
        elif operation.type == INFO:
            yield value[1] if state == value[0] else state
        elif operation.type == OK and state == value[0]:
            yield value[1]
        elif operation.type == FAIL and state != value[0]:
            yield state

    def is_told(self, operation: Operation) -> bool:
        """False for an operation that certainly did not happen and tells nothing."""
        return (
            operation.type != FAIL
            or operation.f == "read"
            or (operation.f == "cas" and operation.error is None)
        )


class PlainRegisterObject(RegisterObject):
    model = "register"
    functions = ("read", "write")


class TypedRegisterObject(RegisterObject):
    """register: values and keys that Python takes for each other; the state names their types."""

    model = "register"
    values = (None, 1, True, 1.0, Decimal(1), 0, False, "a", Keyword("a"), Symbol("a"), "nil")
    keys = (1, True, 1.0, "a", Keyword("a"))

    def start(self):
        return ()

    def draw(self, rng):
        f = rng.choice(("read", "write"))
        return f, None if f == "read" else rng.choice(self.values), rng.choice(self.keys)

    def perform(self, state, f, value, key, rng):
        held = dict(state)
        if f == "read":
            return state, (OK, held.get(self.named(key), (None, None))[1], None)
        held[self.named(key)] = (type(value).__name__, value)
        return tuple(sorted(held.items())), (OK, value, None)

    def corrupt(self, operation, rng):
        if operation.f == "read" and rng.random() < 0.5:
            same = [each for each in self.values if each == operation.output]
            return {"output": rng.choice(same or [None])}
        return {"output": rng.choice(self.values)} if operation.f == "read" else {}

    def apply(self, state, operation, operations):
        key, output = operation.key, operation.output
        after, (_, told, _) = self.perform(state, operation.f, operation.value, key, None)
        known = operation.f == "read" and operation.type == OK
        if not known or (type(told), told) == (type(output), output):
            yield after

    @staticmethod
    def named(key) -> str:
        return f"{type(key).__name__} {key}"


class KeyValueObject:
    """kv: strings under two keys; the state is a sorted tuple of pairs."""

    model = "kv"

    def start(self):
        return ()

    def draw(self, rng):
        f = rng.choice(("get", "put", "append"))
        return f, None if f == "get" else rng.choice("abc"), rng.choice(KEYS)

    def perform(self, state, f, value, key, rng):
        texts = dict(state)
        old = texts.get(key, "")
        if f == "get":
            return state, (OK, old, None)
        texts[key] = value if f == "put" else old + value
        return tuple(sorted(texts.items())), (OK, value, None)

    def corrupt(self, operation, rng):
        return {"output": rng.choice(["", "a", "b", "ab", "ba"])} if operation.f == "get" else {}

    def apply(self, state, operation, operations):
        after, (_, output, _) = self.perform(
            state, operation.f, operation.value, operation.key, None
        )
        if operation.f != "get" or operation.type != OK or output == operation.output:
            yield after

    def is_told(self, operation):
        return operation.type != FAIL


CONFIG_DEFAULTS = dict(zip(KEYS, [None, *["b"] * len(KEYS)], strict=False))


class ConfigObject:
    """config-map: values under two keys, lists, requests on both keys at once."""

    model = "config-map"

    def start(self):
        return ()

    def draw(self, rng):
        f = rng.choice(
            ("set", "delete", "append", "subtract", "get", "get", "set-many", "get-many")
        )
        key = rng.choice(KEYS)
        if f == "set-many":
            return f, [[each, rng.choice(["a", "b", None])] for each in KEYS], None
        if f == "get-many":
            return f, [[each, None] for each in KEYS], None
        if f in ("append", "subtract"):
            return f, [key, rng.choice(["a", "b", "a,b", "b,"]), CONFIG_DEFAULTS[key]], None
        return f, [key, rng.choice(["a", "b", "a,b"]) if f == "set" else None], None

    def perform(self, state, f, value, key, rng):
        configs = dict(state)
        if f in ("get", "get-many"):
            pairs = value if f == "get-many" else [value]
            answer = [[name, configs.get(name)] for name, _ in pairs]
            return state, (OK, answer if f == "get-many" else answer[0], None)
        for name, given, *default in value if f == "set-many" else [value]:
            if f in ("set", "set-many", "delete"):
                configs[name] = given
            else:
                held = configs[name] if name in configs else default[0] or ""
                old = [item for item in held.split(",") if item]
                for item in given.rstrip(",").split(","):
                    if f == "append" and item not in old:
                        old = [*old, item]
                    if f == "subtract":
                        old = [each for each in old if each != item]
                configs[name] = ",".join(old)
        kept = {name: given for name, given in configs.items() if given is not None}
        return tuple(sorted(kept.items())), (OK, value, None)

    def corrupt(self, operation, rng):
        answers = [None, "", "a", "b", "a,b", "b,a"]
        if operation.f == "get":
            return {"output": [operation.value[0], rng.choice(answers)]}
        if operation.f == "get-many":
            return {"output": [[name, rng.choice(answers)] for name in KEYS]}
        return {}

    def apply(self, state, operation, operations):
        after, (_, output, _) = self.perform(state, operation.f, operation.value, None, None)
        is_read = operation.f in ("get", "get-many")
        if not is_read or operation.type != OK or output == operation.output:
            yield after

    def is_told(self, operation):
        return operation.type != FAIL


class LogObject:
    """append-log: one log of small records."""

    model = "append-log"

    def start(self):
        return ()

    def draw(self, rng):
        f = rng.choice(("append", "append", "append", "read", "read-from", "fetch"))
        return f, {"append": rng.choice("ab"), "read": None}.get(f, rng.randrange(3)), None

    def perform(self, state, f, value, key, rng):
        if f == "append":
            told = rng is None or rng.random() < 0.7
            return (*state, value), (OK, [value, len(state) if told else None], None)
        if f == "fetch":
            told = len(state) if rng is None else value + rng.randrange(3)
            return state, (OK, list(state[value:told]), None)
        return state, (OK, list(state if f == "read" else state[value:]), None)

    def corrupt(self, operation, rng):
        if operation.f == "append":
            return {"output": [operation.value, rng.randrange(4)]}
        return {"output": [rng.choice("ab") for _ in range(rng.randrange(3))]}

    def apply(self, state, operation, operations):
        after, (_, output, _) = self.perform(state, operation.f, operation.value, None, None)
        untold = operation.f == "append" and operation.type == OK and operation.output[1] is None
        if operation.f == "fetch" and operation.type == OK:
            output = output[: len(operation.output)]  # maybe not all
        if operation.type != OK or untold or output == operation.output:
            yield after

    def is_told(self, operation):
        return operation.type != FAIL or operation.f != "append"


class TopicObject:
    """topic-set: ids by name and every id ever given; a lost create guesses the id it gave."""

    model = "topic-set"
    functions = ("create", "create", "delete", "exists")

    def start(self):
        return ((), frozenset())

    def draw(self, rng):
        f = rng.choice(self.functions)
        if f == "list":
            return f, None, None
        topic_id = rng.choice(IDS) if f == "delete" and rng.random() < 0.4 else None
        return f, [rng.choice(KEYS), topic_id], None

    def perform(self, state, f, value, key, rng):
        topics, used = dict(state[0]), state[1]
        if f == "list":
            return state, (OK, dict(topics), None)
        name, topic_id = value
        if f == "exists":
            given = topics.get(name)
            error = "UNKNOWN_TOPIC_OR_PARTITION" if given is None and rng.random() < 0.5 else None
            return state, (OK, [name, given], error)
        if f == "create":
            free = [each for each in IDS if each not in used]
            if name in topics:
                return state, (OK, value, "TOPIC_ALREADY_EXISTS")
            given = rng.choice(free) if free else f"id{len(used)}"
            topics[name] = given
            return (tuple(sorted(topics.items())), used | {given}), (OK, [name, given], None)
        if name not in topics or topic_id not in (None, topics[name]):
            return state, (FAIL, value, "UNKNOWN_TOPIC_OR_PARTITION")
        del topics[name]
        return (tuple(sorted(topics.items())), used), (OK, value, None)

    def corrupt(self, operation, rng):
        if operation.f == "list":
            return {"output": {name: rng.choice(IDS) for name in KEYS if rng.random() < 0.5}}
        if operation.f == "exists":
            return {"output": [operation.value[0], rng.choice([None, *IDS])], "error": None}
        if operation.f == "delete":
            return {"type": OK, "error": rng.choice([None, "UNKNOWN_TOPIC_ID"])}
        return {"output": operation.value, "error": "TOPIC_ALREADY_EXISTS"}

    def apply(self, state, operation, operations):  # noqa: C901  # one case each
        topics, used = dict(state[0]), state[1]
        f, unknown, refused = operation.f, operation.type == INFO, operation.error is not None
        if f == "list":
            if unknown or topics == operation.output:
                yield state
            return
        name, topic_id = operation.value
        if f == "exists":
            if unknown or topics.get(name) == operation.output[1]:
                yield state
        elif f == "create":
            if name in topics:
                if unknown or refused:
                    yield state
            elif unknown or not refused:
                for given in self._gives(operation, operations, used):
                    after = tuple(sorted((topics | {name: given}).items()))
                    yield after, used | {given}
        elif name in topics and topic_id in (None, topics[name]):
            if unknown or not refused:
                del topics[name]
                yield tuple(sorted(topics.items())), used
        elif unknown or refused:
            yield state

    def _gives(self, operation, operations, used):
        """The ids that a create may have given: those told, or any that nobody else gave."""
        if operation.type == OK:
            return [operation.output[1]] if operation.output[1] not in used else []
        owned = {
            each.output[1]
            for each in operations
            if each.f == "create" and each.type == OK and each.error is None
        }
        return [each for each in IDS if each not in used | owned] + [f"fresh{len(used)}"]

    def is_told(self, operation):
        return True


class ListingTopicObject(TopicObject):
    functions = ("create", "create", "delete", "exists", "list")


OBJECTS = (
    RegisterObject(),
    PlainRegisterObject(),
    TypedRegisterObject(),
    KeyValueObject(),
    ConfigObject(),
    LogObject(),
    TopicObject(),
    ListingTopicObject(),
)


def is_linearizable(sequential, operations: Sequence[Operation]) -> bool:
    """Tries every order that respects real time, without any memory: the slow, obvious answer."""
    told = [operation for operation in operations if sequential.is_told(operation)]

    def search(state, remaining: tuple[Operation, ...]) -> bool:
        if all(operation.end is None for operation in remaining):
            return True  # what never returned need not have happened
        for operation in remaining:
            if any(other.end is not None and other.end < operation.call for other in remaining):
                continue
            rest = tuple(other for other in remaining if other is not operation)
            for after in sequential.apply(state, operation, told):
                if search(after, rest):
                    return True
        return False

    return search(sequential.start(), tuple(told))


def random_operations(
    sequential, rng: random.Random, *, count: int, clients: int = 3, crashes: float = 0.15
) -> list[Operation]:
    """Operations that a linearizable object could have answered, by call.

    Each takes effect at a random moment between its call and its end (or never, if it is lost).
    Times are small, so that equal ones, empty intervals and touching intervals are common.
    """
    free = [rng.randrange(3) for _ in range(clients)]
    names = list(range(clients))
    planned = []
    for number in range(count):
        client = rng.randrange(clients)
        call = free[client] + rng.randrange(3)
        end = free[client] = call + rng.choice((0, 1, 2, 3, 6))
        is_lost = rng.random() < crashes
        moment = rng.uniform(call, end + (30 if is_lost else 0))
        planned.append((moment, number, names[client], call, None if is_lost else end))
        if is_lost:
            names[client] += clients  # the process is retired
    state = sequential.start()
    made = []
    for _, _, process, call, end in sorted(planned):
        f, value, key = sequential.draw(rng)
        after, (kind, output, error) = sequential.perform(state, f, value, key, rng)
        if end is not None or rng.random() < 0.7:
            state = after
        if end is None:
            kind, output, error = INFO, None, None
        made.append(
            Operation(
                process=process,
                f=f,
                value=value,
                key=key,
                call=call,
                end=end,
                type=kind,
                output=output,
                error=error,
            )
        )
    return sorted(made, key=lambda operation: (operation.call, operation.end is None))
