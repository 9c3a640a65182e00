"""A member of a group of the consumer protocol (KIP-848): the coordinator decides who has what.

One request carries all. What the answer assigns is taken in two steps: partitions that are not in
it are given up and this is reported; then the new ones come with a later answer or are there
already. (apache/kafka: clients/.../consumer/internals/ConsumerMembershipManager.java,
ConsumerHeartbeatRequestManager.java)
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from cli.groups.membership.actions import (
    AGAIN,
    RETRY_BACKOFF_MS,
    Action,
    Assign,
    Beaten,
    ConsumerHeartbeat,
    GroupConfig,
    Lose,
    MemberError,
    NameTopics,
    Revoke,
)
from cli.records.clients.topic_metadata import Partition

UNKNOWN_MEMBER_ID: Final = 25
FENCED_MEMBER_EPOCH: Final = 110
FENCED: Final = frozenset({UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH})
JOINING: Final = 0
LEAVING: Final = -1
LEAVING_FOR_A_WHILE: Final = -2
"""Of a static member: its partitions stay its own for the session timeout."""

Place = tuple[UUID, int]


class ConsumerMember:
    """A member: `next` says what to do, the other methods are told how it went."""

    def __init__(self, config: GroupConfig, topics: tuple[str, ...], member_id: str) -> None:
        """A member that has not joined; its id is drawn by the caller."""
        self._config = config
        self._topics = topics
        self._member_id = member_id
        self._epoch = JOINING
        self._queue: deque[Action] = deque()
        self._target: frozenset[Place] = frozenset()
        self._owned: frozenset[Place] = frozenset()
        self._names: dict[UUID, str] = {}
        self._is_whole = True
        """The next heartbeat has everything: it joins, or a request was lost."""
        self._has_new_topics = False
        self._has_new_owned = False
        self._due_ms = 0
        self._naming_due_ms = 0

    @property
    def generation(self) -> int:
        """Epoch of the member; 0 outside."""
        return self._epoch

    @property
    def member_id(self) -> str:
        """Kept as long as the process."""
        return self._member_id

    def due_ms(self) -> int:
        """The time at which there is something to do."""
        if self._queue or self._taken() != self._owned:
            return 0
        return min(self._due_ms, self._naming_due_ms) if self._unnamed() else self._due_ms

    def next(self, now_ms: int) -> Action | None:
        """The next thing to be done now; None until `due_ms`."""
        if not self._queue:
            self._reconcile(now_ms)
        if self._queue:
            return self._queue.popleft()
        unnamed = self._unnamed()
        if unnamed and now_ms >= self._naming_due_ms:
            self._naming_due_ms = now_ms + RETRY_BACKOFF_MS
            return NameTopics(unnamed)
        return self._heartbeat() if now_ms >= self._due_ms else None

    def _unnamed(self) -> frozenset[UUID]:
        return frozenset(topic_id for topic_id, _ in self._target if topic_id not in self._names)

    def _taken(self) -> frozenset[Place]:
        """Assigned partitions of topics whose names are known."""
        return frozenset(place for place in self._target if place[0] in self._names)

    def _reconcile(self, now_ms: int) -> None:
        """Give up and take what the target asks for, and report it at once."""
        wanted = self._taken()
        if wanted == self._owned:
            return
        given_up, taken = self._owned - wanted, wanted - self._owned
        if given_up:
            self._queue.append(Revoke(self._partitions(given_up)))
        if taken:
            self._queue.append(Assign(self._partitions(taken)))
        self._owned = wanted
        self._has_new_owned = True
        self._due_ms = now_ms

    def _heartbeat(self) -> ConsumerHeartbeat:
        is_whole = self._is_whole
        return ConsumerHeartbeat(
            member_id=self._member_id,
            epoch=self._epoch,
            is_whole=is_whole,
            topics=self._topics if is_whole or self._has_new_topics else None,
            owned=self._owned if is_whole or self._has_new_owned else None,
        )

    def beaten(self, answer: Beaten, now_ms: int) -> None:
        """ConsumerGroupHeartbeat was answered.

        Raises:
            MemberError: the member has no place.
        """
        if answer.code in AGAIN:
            self.failed(now_ms)
            return
        if answer.code in FENCED:
            self._fence(now_ms)
            return
        if answer.code:
            raise MemberError(answer.code, answer.message)
        self._is_whole = self._has_new_topics = self._has_new_owned = False
        self._epoch = answer.epoch
        self._due_ms = now_ms + answer.interval_ms
        if answer.assigned is not None:
            self._target = answer.assigned
            if self._taken() == self._owned and not self._unnamed():
                self._has_new_owned = True  # assigned anew what it has: that is told too
                self._due_ms = now_ms

    def named(self, names: Mapping[UUID, str]) -> None:
        """These topics are known by name."""
        self._names.update(names)

    def failed(self, now_ms: int) -> None:
        """The last action found no coordinator, or the connection broke."""
        self._is_whole = True
        self._due_ms = now_ms + RETRY_BACKOFF_MS

    def subscribe(self, topics: tuple[str, ...], now_ms: int) -> None:
        """Read other topics from now on."""
        if topics != self._topics:
            self._topics = topics
            self._has_new_topics = True
            self._due_ms = now_ms

    def leave(self) -> Action | None:
        """The action that tells the coordinator that the member goes."""
        if self._epoch <= JOINING:
            return None
        is_static = self._config.group_instance_id is not None
        return ConsumerHeartbeat(
            member_id=self._member_id,
            epoch=LEAVING_FOR_A_WHILE if is_static else LEAVING,
            is_whole=False,
            topics=None,
            owned=None,
        )

    def _fence(self, now_ms: int) -> None:
        """Others may have the partitions: give them up and join once more."""
        if self._owned:
            self._queue.append(Lose(self._partitions(self._owned)))
        self._owned = self._target = frozenset()
        self._epoch = JOINING
        self._is_whole = True
        self._due_ms = now_ms

    def _partitions(self, places: Iterable[Place]) -> frozenset[Partition]:
        return frozenset(Partition(self._names[topic_id], number) for topic_id, number in places)
