"""A member of a group of the classic protocol, eager: before it joins it gives up what it has.

    UNJOINED -> SYNCING -> STABLE, from any back to UNJOINED

(apache/kafka: clients/.../consumer/internals/AbstractCoordinator.java, ConsumerCoordinator.java)
"""

from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Final

from cli.groups.membership.actions import (
    AGAIN,
    RETRY_BACKOFF_MS,
    Action,
    Assign,
    GroupConfig,
    Heartbeat,
    Join,
    Joined,
    Leave,
    LookUp,
    Lose,
    MemberError,
    Revoke,
    Sync,
)
from cli.groups.membership.assignors import ASSIGNORS
from cli.records.clients.topic_metadata import Partition

ILLEGAL_GENERATION: Final = 22
UNKNOWN_MEMBER_ID: Final = 25
REBALANCE_IN_PROGRESS: Final = 27
MEMBER_ID_REQUIRED: Final = 79
ANSWERED_BY_SYNC: Final = frozenset({0, REBALANCE_IN_PROGRESS, *AGAIN})
"""Codes of a heartbeat beside SyncGroup that say nothing which its answer will not say."""
FORGOTTEN: Final = frozenset({ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID})
NO_GENERATION: Final = -1


class State(Enum):
    """Place of a member on its way into the group."""

    UNJOINED = auto()
    SYNCING = auto()
    """It has joined, and shall learn its partitions."""
    STABLE = auto()


class ClassicMember:
    """A member: `next` says what to do, the other methods are told how it went."""

    def __init__(self, config: GroupConfig, topics: tuple[str, ...]) -> None:
        """A member that has not joined."""
        self._config = config
        self._topics = topics
        self._state = State.UNJOINED
        self._queue: deque[Action] = deque()
        self._member_id = ""
        self._generation = NO_GENERATION
        self._joined = Joined()
        self._partition_counts: Mapping[str, int] | None = None
        """Of the topics of all members, if this one leads and has asked."""
        self._assigned: frozenset[Partition] = frozenset()
        self._due_ms = 0
        self._beat_ms = 0
        """Time of the next heartbeat beside SyncGroup."""

    @property
    def generation(self) -> int:
        """Generation of the group; -1 outside."""
        return self._generation

    @property
    def member_id(self) -> str:
        """From the coordinator; empty before."""
        return self._member_id

    @property
    def _is_leader(self) -> bool:
        return self._joined.leader == self._member_id and self._joined.leader != ""

    def due_ms(self) -> int:
        """The time at which there is something to do."""
        return 0 if self._queue else self._due_ms

    def next(self, now_ms: int) -> Action | None:
        """The next thing to be done now; None until `due_ms`."""
        if self._queue:
            return self._queue.popleft()
        if now_ms < self._due_ms:
            return None
        if self._state is State.UNJOINED:
            return self._before_joining() or Join(self._member_id, self._topics)
        if self._state is State.STABLE:
            return Heartbeat(self._member_id, self._generation)
        if self._is_leader and self._partition_counts is None:
            return LookUp(tuple(sorted(self._joined.topics())))
        return self._sync()

    def _before_joining(self) -> Action | None:
        """The revocation of what the member has; nothing the second time."""
        given_up, self._assigned = self._assigned, frozenset()
        return Revoke(given_up) if given_up else None

    def _sync(self) -> Sync:
        assignments: Mapping[str, Mapping[str, tuple[int, ...]]] = {}
        if self._is_leader:
            assert self._partition_counts is not None
            assign = ASSIGNORS[self._joined.protocol]
            assignments = assign(self._joined.subscriptions, self._partition_counts)
        return Sync(self._member_id, self._generation, self._joined.protocol, assignments)

    def joined(self, answer: Joined, now_ms: int) -> None:
        """JoinGroup was answered.

        Raises:
            MemberError: the group cannot be joined.
        """
        if answer.code == MEMBER_ID_REQUIRED:
            self._member_id = answer.member_id
            return
        if answer.code == REBALANCE_IN_PROGRESS:
            self._due_ms = now_ms + RETRY_BACKOFF_MS
            return
        if answer.code:
            self._refused(answer.code, now_ms)
            return
        self._joined = answer
        self._member_id = answer.member_id
        self._generation = answer.generation
        self._partition_counts = None
        self._state = State.SYNCING
        self._beat_ms = now_ms + self._config.heartbeat_interval_ms

    def looked_up(self, partition_counts: Mapping[str, int]) -> None:
        """The topics of the group have so many partitions; those that do not exist are not in."""
        self._partition_counts = dict(partition_counts)

    def synced(self, code: int, partitions: frozenset[Partition], now_ms: int) -> None:
        """SyncGroup was answered.

        Raises:
            MemberError: the member has no place.
        """
        if code == REBALANCE_IN_PROGRESS:
            self._state = State.UNJOINED
        elif code:
            self._refused(code, now_ms)
        else:
            self._state = State.STABLE
            self._assigned = partitions
            self._due_ms = now_ms + self._config.heartbeat_interval_ms
            self._queue.append(Assign(partitions))

    def beat_ms(self) -> int | None:
        """The time of the next heartbeat while SyncGroup waits for its answer; None otherwise."""
        return self._beat_ms if self._state is State.SYNCING else None

    def beat(self, now_ms: int) -> Heartbeat | None:
        """The heartbeat that is due while SyncGroup waits for its answer; tell `beaten`."""
        if self._state is not State.SYNCING or now_ms < self._beat_ms:
            return None
        return Heartbeat(self._member_id, self._generation)

    def unheard(self, now_ms: int) -> None:
        """A heartbeat beside SyncGroup reached no coordinator."""
        self._beat_ms = now_ms + RETRY_BACKOFF_MS

    def beaten(self, code: int, now_ms: int) -> None:
        """Heartbeat was answered.

        Raises:
            MemberError: the member has no place.
        """
        if self._state is State.SYNCING and code in ANSWERED_BY_SYNC:
            self._beat_ms = now_ms + self._config.heartbeat_interval_ms
            return
        self._due_ms = now_ms + self._config.heartbeat_interval_ms
        if code == REBALANCE_IN_PROGRESS:
            self._rejoin(now_ms)
        elif code:
            self._refused(code, now_ms)

    def failed(self, now_ms: int) -> None:
        """The last action found no coordinator, or the connection broke."""
        self._due_ms = now_ms + RETRY_BACKOFF_MS

    def subscribe(self, topics: tuple[str, ...], now_ms: int) -> None:
        """Read other topics from now on: the member joins once more."""
        if topics != self._topics:
            self._topics = topics
            self._rejoin(now_ms)

    def noticed(self, count_of: Callable[[str], int | None], now_ms: int) -> None:
        """The numbers of partitions may be others: a leader joins once more if they are."""
        if self._state is State.STABLE and self._is_leader:
            topics = self._joined.topics()
            counts = {name: count for name in topics if (count := count_of(name)) is not None}
            if counts != self._partition_counts:
                self._rejoin(now_ms)

    def topics_of_group(self) -> frozenset[str]:
        """The topics that `noticed` asks for: none of a member that does not lead."""
        if not self._is_leader:
            return frozenset()
        return self._joined.topics()

    def leave(self) -> Action | None:
        """The action that tells the coordinator that it goes; a static member keeps its place."""
        if self._member_id == "" or self._config.group_instance_id is not None:
            return None
        return Leave(self._member_id)

    def _rejoin(self, now_ms: int) -> None:
        self._state = State.UNJOINED
        self._due_ms = now_ms

    def _refused(self, code: int, now_ms: int) -> None:
        """A refusal that is the same of all requests.

        Raises:
            MemberError: there is no way on.
        """
        if code in AGAIN:
            self._due_ms = now_ms + RETRY_BACKOFF_MS
            return
        if code not in FORGOTTEN:
            raise MemberError(code)
        if self._assigned:
            self._queue.append(Lose(self._assigned))
        self._assigned = frozenset()
        self._generation = NO_GENERATION
        if code == UNKNOWN_MEMBER_ID:
            self._member_id = ""
        self._rejoin(now_ms)
