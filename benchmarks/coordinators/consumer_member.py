"""A member of a consumer group (KIP-848): ConsumerGroupHeartbeat 1."""

import os
import uuid
from typing import Any, Final

from benchmarks.coordinators.session import (
    RefusedError,
    Session,
    framed,
    milliseconds,
    schema,
    until_served,
)
from wire.api_keys import CONSUMER_GROUP_HEARTBEAT

REBALANCE_MS: Final = 60_000
LEAVE_EPOCH: Final = -1

Owned = frozenset[tuple[uuid.UUID, int]]


class ConsumerMember:
    """One member on a connection of its own; what it is told to own it owns at once."""

    def __init__(self, session: Session, group_id: str, topic: str) -> None:
        self.session = session
        self.group_id = group_id
        self.topic = topic
        self.member_id = os.urandom(16).hex()
        self.epoch = 0
        self.owned: Owned = frozenset()

    async def enter(self) -> None:
        """Join the group; what is assigned is not acknowledged yet."""
        answer = await until_served(
            self.session,
            CONSUMER_GROUP_HEARTBEAT,
            self.body(epoch=0, is_full=True),
            lambda found: found.error_code,
        )
        self.take(answer)

    async def heartbeat(self) -> bool:
        """Tell what is owned; True if that has changed by the answer."""
        body = self.body(epoch=self.epoch, is_full=True)
        return self.take(await self.session.ask(CONSUMER_GROUP_HEARTBEAT, body))

    async def leave(self) -> None:
        """Leave the group."""
        await self.session.ask(
            CONSUMER_GROUP_HEARTBEAT, self.body(epoch=LEAVE_EPOCH, is_full=False)
        )
        self.epoch, self.owned = 0, frozenset()

    def heartbeat_frame(self) -> bytes:
        """A heartbeat of a member for which nothing has changed."""
        return framed(CONSUMER_GROUP_HEARTBEAT, self.body(epoch=self.epoch, is_full=False))

    def body(self, *, epoch: int, is_full: bool) -> Any:
        """A heartbeat, with all that the member has to tell or with nothing."""
        new = schema(CONSUMER_GROUP_HEARTBEAT)
        partitions: dict[uuid.UUID, list[int]] = {}
        for topic_id, number in sorted(self.owned):
            partitions.setdefault(topic_id, []).append(number)
        owned = tuple(
            new.TopicPartitions(topic_id=topic_id, partitions=tuple(numbers))
            for topic_id, numbers in partitions.items()
        )
        return new.ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=None,
            rack_id=None,
            rebalance_timeout=milliseconds(REBALANCE_MS if is_full else -1),
            subscribed_topic_names=(self.topic,) if is_full else None,
            subscribed_topic_regex=None,
            server_assignor=None,
            topic_partitions=owned if is_full else None,
        )

    def take(self, answer: Any) -> bool:
        """Follow an answer; True if what is owned has changed."""
        if answer.error_code.value:
            raise RefusedError(f"ConsumerGroupHeartbeat: {answer.error_code.name}")
        self.epoch = answer.member_epoch
        if answer.assignment is None:
            return False
        owned = frozenset(
            (row.topic_id, number)
            for row in answer.assignment.topic_partitions
            for number in row.partitions
        )
        has_changed = owned != self.owned
        self.owned = owned
        return has_changed
