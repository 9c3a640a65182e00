"""Workloads: the draw of operations, their requests, the meaning of the answers, the model.

Refusals prove no state here. A controller with nothing to write answers at once from its own
committed image, which is old if it was deposed without knowing; so TOPIC_ALREADY_EXISTS and the
like are recorded as `fail` (it certainly did not happen) and not as observations. Only quorum
reads observe.
"""

from random import Random
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

from typing_extensions import override

from jepsen.clients import (
    CREATE_TOPICS,
    DELETE_TOPICS,
    INCREMENTAL_ALTER_CONFIGS,
    SERVER_TIMEOUT,
    Session,
    barrier_topic,
    create_topics,
    raise_for,
    set_config,
)
from jepsen.generator import (
    ACTIVE_KEYS,
    OPERATIONS_PER_KEY,
    Ask,
    Draw,
    Rotation,
    register_draw,
    topic_set_draw,
)
from jepsen.linearizability.classification import OBSERVATIONS, classify
from jepsen.linearizability.history import FAIL, INFO
from jepsen.names import LINEARIZABLE, LOCAL, OF_RECORDS, QUORUM, WORKLOADS
from wire.messages.codec import newest

READS: Final = ("exists", "read")
READS_OF_METADATA: Final = (QUORUM, LINEARIZABLE, LOCAL)
"""Behind a barrier, by the node's own promise, or of its own image (a control)."""
KEYS_MAX: Final = 300


class Completion(NamedTuple):
    """End of an operation: `ok`, `fail` or `info`, its value, and the error."""

    type: str
    value: Any
    error: str | None = None


class Workload(Protocol):
    """One kind of operations."""

    model: str
    """Name of the model that judges the history."""
    has_key_field: bool
    """True: the key stands beside the value, not in it."""
    draw: Draw

    @property
    def keys(self) -> list[str]:
        """Every key used so far, to be read at the end."""
        ...

    def topics(self) -> list[str]:
        """Topics that must exist before the first operation, besides the barriers."""
        ...

    async def invoke(self, session: Session, ask: Ask, leader_id: int, node_id: int) -> Any:
        """Run an operation; return the value of its completion.

        Args:
            session: The client's.
            ask: The operation.
            leader_id: Target of writes and barriers.
            node_id: Target of a read.

        Raises:
            CallError: no response.
            Refused: an answer with an error.
        """
        ...

    def final_read(self, key: str) -> Ask:
        """Operation that reads a key at the end."""
        ...


class TopicSet(Workload):
    """Topics by name with the ids that the controller gives them."""

    model = "topic-set"
    has_key_field = False

    def __init__(self, *, reads: str) -> None:
        """Begin without topics.

        Args:
            reads: One of `READS_OF_METADATA`.
        """
        self._reads = reads
        self._rotation = Rotation("topic")
        self._ids: dict[str, str] = {}
        self.draw = topic_set_draw(self._rotation, self._ids.get)

    @property
    @override
    def keys(self) -> list[str]:
        """Names of topics."""
        return self._rotation.used

    @override
    def topics(self) -> list[str]:
        """No topics: they are what is created and deleted."""
        return []

    @override
    async def invoke(self, session: Session, ask: Ask, leader_id: int, node_id: int) -> Any:
        """Run `create`, `delete` by id or name, or `exists`; the value is `[name id]`."""
        name, topic_id = ask.value
        if ask.f == "create":
            body = create_topics((name,))
            (created,) = (await session.write(leader_id, CREATE_TOPICS, body)).topics
            raise_for(created.error_code)
            self._ids[name] = str(created.topic_id)
            return [name, str(created.topic_id)]
        if ask.f == "delete":
            body = delete_topic(name, topic_id)
            (deleted,) = (await session.write(leader_id, DELETE_TOPICS, body)).responses
            raise_for(deleted.error_code)
            self._ids.pop(name, None)
            return [name, topic_id]
        assert ask.f == "exists", f"{ask.f=}"
        if self._reads == LOCAL:
            found = await session.topic(node_id, name)
        elif self._reads == LINEARIZABLE:
            found = await session.linearizable_topic(node_id, name)
        else:
            found = await session.topic_behind_barrier(leader_id, node_id, name)
        if found is None:
            self._ids.pop(name, None)
        else:
            self._ids[name] = found
        return [name, found]

    @override
    def final_read(self, key: str) -> Ask:
        """Lookup of the topic."""
        return Ask("exists", [key, None], key)


class ConfigRegister(Workload):
    """A config of a topic as a register."""

    model = "register"
    has_key_field = True

    def __init__(self, *, reads: str, operations: int) -> None:
        """Begin without values.

        Args:
            reads: One of `READS_OF_METADATA`.
            operations: Approximate number of operations, which decides the number of topics.
        """
        self._reads = reads
        keys_max = min(KEYS_MAX, ACTIVE_KEYS + operations // OPERATIONS_PER_KEY)
        self._all = [f"register-{number}" for number in range(keys_max)]
        self._rotation = Rotation("register", keys_max)
        self.draw = register_draw(self._rotation)

    @property
    @override
    def keys(self) -> list[str]:
        """Names of the topics whose config is written."""
        return self._rotation.used

    @override
    def topics(self) -> list[str]:
        """All topics that may be drawn."""
        return self._all

    @override
    async def invoke(self, session: Session, ask: Ask, leader_id: int, node_id: int) -> Any:
        """Run `write` of a number, or `read`; None where it was never written."""
        if ask.f == "write":
            body = set_config(ask.key, str(ask.value))
            answer = await session.write(leader_id, INCREMENTAL_ALTER_CONFIGS, body)
            raise_for(answer.responses[0].error_code)
            return ask.value
        assert ask.f == "read", f"{ask.f=}"
        found: str | None
        if self._reads == LOCAL:
            (found,) = await session.configs(node_id, (ask.key,))
        elif self._reads == LINEARIZABLE:
            found = await session.linearizable_config(node_id, ask.key)
        else:
            found = await session.config_behind_barrier(leader_id, node_id, ask.key)
        return None if found is None else int(found)

    @override
    def final_read(self, key: str) -> Ask:
        """Read of the last value."""
        return Ask("read", None, key)


def workload_named(name: str, *, operations: int, reads: str = QUORUM) -> Workload:
    """Make a workload of one of `WORKLOADS` about metadata."""
    assert name in WORKLOADS, f"{name=}"
    assert name not in OF_RECORDS, f"{name=}"
    assert reads in READS_OF_METADATA, f"{reads=}"
    if name == "topic-set":
        return TopicSet(reads=reads)
    return ConfigRegister(reads=reads, operations=operations)


def unanswered(ask: Ask, *, is_sent: bool, reason: str) -> Completion:
    """Completion of an operation without a response; a read without an answer proves nothing."""
    outcome = classify(None, is_sent=is_sent or ask.f in READS)
    kind = FAIL if ask.f in READS else outcome.type
    return Completion(kind, ask.value, reason)


def refused(ask: Ask, code: int) -> Completion:
    """Completion of an operation answered with an error; see the head of the module."""
    outcome = classify(code)
    certain = code in OBSERVATIONS or ask.f in READS
    kind = FAIL if certain else outcome.type
    assert kind in (FAIL, INFO), f"{code=}"
    return Completion(kind, ask.value, f"refused: {outcome.error}")


def setup_topics(workload: Workload, threads: int) -> tuple[str, ...]:
    """Topics to create before the clients begin."""
    return (*(barrier_topic(thread) for thread in range(threads)), *workload.topics())


def delete_topic(name: str, topic_id: str | None) -> Any:
    """Make a DeleteTopics by id where one is given, else by name."""
    request = newest(DELETE_TOPICS, "request")
    state = (
        request.DeleteTopicState(name=name, topic_id=None)
        if topic_id is None
        else request.DeleteTopicState(name=None, topic_id=UUID(topic_id))
    )
    return request.DeleteTopicsRequest(topics=(state,), timeout=SERVER_TIMEOUT)


def reads_at(ask: Ask, rng: Random, leader_id: int, node_ids: tuple[int, ...]) -> int:
    """Node at which a read looks."""
    return leader_id if ask.at_leader else rng.choice(node_ids)
