"""Actions that a member of a group wants done next, and their ends; settings of both protocols.

The caller performs an action and tells the member (`classic.ClassicMember`,
`consumer.ConsumerMember`) of its end. Revoke, Lose and Assign have no end to be told.
"""

from collections.abc import Mapping
from typing import Final, Protocol
from uuid import UUID

import msgspec

from cli.kafka_errors import message_of
from cli.records.clients.topic_metadata import Partition

LOADING: Final = 14
MOVED: Final = frozenset({15, 16})
"""COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR: the caller finds another before it goes on."""
AGAIN: Final = frozenset({LOADING, *MOVED})
RETRY_BACKOFF_MS: Final = 100
"""`retry.backoff.ms` of Kafka's consumer."""


class MemberError(Exception):
    """A refusal that ends the membership; the text is Kafka's message."""

    def __init__(self, code: int, message: str | None = None) -> None:
        """A refusal by its code, with the message of the answer if it has one."""
        super().__init__(message_of(code, message))
        self.code = code


class GroupConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Named as Kafka's consumer configs, with its defaults."""

    group_id: str
    is_consumer_protocol: bool = False
    """`group.protocol=consumer`."""
    group_instance_id: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    """The rebalance timeout too."""
    assignors: tuple[str, ...] = ("range",)
    group_remote_assignor: str | None = None
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    metadata_max_age_ms: int = 300_000
    request_timeout_ms: int = 30_000


class Join(msgspec.Struct, frozen=True):
    """Send JoinGroup; tell `joined`."""

    member_id: str
    topics: tuple[str, ...]


class LookUp(msgspec.Struct, frozen=True):
    """Learn how many partitions these topics have; tell `looked_up`. Of a leader."""

    topics: tuple[str, ...]


class Sync(msgspec.Struct, frozen=True):
    """Send SyncGroup; tell `synced`. Only a leader has assignments: member -> topic -> numbers."""

    member_id: str
    generation: int
    protocol: str
    assignments: Mapping[str, Mapping[str, tuple[int, ...]]]


class Heartbeat(msgspec.Struct, frozen=True):
    """Send Heartbeat; tell `beaten`."""

    member_id: str
    generation: int


class ConsumerHeartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """Send ConsumerGroupHeartbeat; tell `beaten`."""

    member_id: str
    epoch: int
    is_whole: bool
    """The settings are sent too."""
    topics: tuple[str, ...] | None
    """None: as before."""
    owned: frozenset[tuple[UUID, int]] | None
    """None: as before."""


class NameTopics(msgspec.Struct, frozen=True):
    """Learn the names of these topics; tell `named`."""

    ids: frozenset[UUID]


class Leave(msgspec.Struct, frozen=True):
    """Send LeaveGroup."""

    member_id: str


class Revoke(msgspec.Struct, frozen=True):
    """Commit what was read of these partitions and give them up."""

    partitions: frozenset[Partition]


class Lose(msgspec.Struct, frozen=True):
    """Give these partitions up: others may have them already."""

    partitions: frozenset[Partition]


class Assign(msgspec.Struct, frozen=True):
    """Read these partitions from what is committed."""

    partitions: frozenset[Partition]


Action = (
    Join
    | LookUp
    | Sync
    | Heartbeat
    | ConsumerHeartbeat
    | NameTopics
    | Leave
    | Revoke
    | Lose
    | Assign
)


class Joined(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to JoinGroup."""

    code: int = 0
    member_id: str = ""
    generation: int = -1
    protocol: str = ""
    leader: str = ""
    subscriptions: Mapping[str, tuple[str | None, tuple[str, ...]]] = {}
    """Member -> its instance id, and the topics it subscribes. Of the leader."""

    def topics(self) -> frozenset[str]:
        """The topics of all members."""
        return frozenset(name for _, names in self.subscriptions.values() for name in names)


class Beaten(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to ConsumerGroupHeartbeat."""

    code: int = 0
    message: str | None = None
    member_id: str = ""
    epoch: int = 0
    interval_ms: int = 0
    assigned: frozenset[tuple[UUID, int]] | None = None
    """None: as before."""


class Member(Protocol):
    """Interface of both kinds of members."""

    @property
    def generation(self) -> int:
        """Generation or member epoch, for commits; below 1 it has no place."""
        ...

    @property
    def member_id(self) -> str:
        """For commits."""
        ...

    def next(self, now_ms: int) -> Action | None:
        """The next thing to be done now; None until `due_ms`."""
        ...

    def due_ms(self) -> int:
        """The time at which there is something to do."""
        ...

    def failed(self, now_ms: int) -> None:
        """The last action found no coordinator, or the connection broke."""
        ...

    def subscribe(self, topics: tuple[str, ...], now_ms: int) -> None:
        """Read other topics from now on."""
        ...

    def leave(self) -> Action | None:
        """The action that tells the coordinator that the member goes; None: nothing."""
        ...
