"""The state of a partition in a fetcher, and questions about its leader."""

import msgspec

from wire.types import LeaderEpoch, Offset, TopicIdPartition


class OffsetQuestion(msgspec.Struct, frozen=True):
    """A ListOffsets for one partition: where the log of the leader ends, or begins."""

    key: TopicIdPartition
    topic_name: str
    leader_epoch: LeaderEpoch
    timestamp: int
    """LATEST or EARLIEST."""


class FetchState:
    """A partition in a fetcher."""

    __slots__ = (
        "delayed_until_ms",
        "fetch_offset",
        "is_asking",
        "is_replaying",
        "key",
        "lag",
        "last_fetched_epoch",
        "leader_end_offset",
        "leader_epoch",
        "topic_name",
    )

    def __init__(self, key: TopicIdPartition, topic_name: str, leader_epoch: LeaderEpoch) -> None:
        self.key = key
        self.topic_name = topic_name
        self.leader_epoch = leader_epoch
        self.fetch_offset = Offset(0)
        self.last_fetched_epoch: LeaderEpoch | None = None
        self.lag: int | None = None
        self.delayed_until_ms: int | None = None
        self.is_asking = False
        self.is_replaying = False
        """True after a truncation until its log knows its producers."""
        self.leader_end_offset: Offset | None = None
        """Answered to the first question."""

    @property
    def is_ready(self) -> bool:
        """True if it may be fetched."""
        return self.delayed_until_ms is None and not self.is_busy

    @property
    def is_busy(self) -> bool:
        """True while it waits for its leader's end, or for its own log."""
        return self.is_asking or self.is_replaying
