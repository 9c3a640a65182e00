"""A partition of a fetch session.

apache/kafka: core/.../server/FetchSession.scala (CachedPartition)
"""

from typing import TYPE_CHECKING

from wire.errors import ErrorCode
from wire.messages.fetch_response import FetchedPartition

if TYPE_CHECKING:
    from replication.leader.fetch_session import FetchPartition, PartitionKey
    from replication.leader.fetching import WantedPartition


class SessionPartition:
    """A partition of a fetch: the last that was requested, and what the response last said."""

    __slots__ = (
        "found_in",
        "high_watermark",
        "key",
        "log_start_offset",
        "request",
        "topic_name",
        "untold",
        "wanted",
    )

    def __init__(
        self, key: "PartitionKey", topic_name: str | None, request: "FetchPartition"
    ) -> None:
        self.key = key
        self.topic_name = topic_name
        """None while the id is unknown; it stays when the topic is deleted (UNKNOWN_TOPIC_OR_...,
        not UNKNOWN_TOPIC_ID)."""
        self.request = request
        self.high_watermark = -1
        self.log_start_offset = -1
        self.wanted: WantedPartition | None = None
        """Partition that the request reads, once it was looked up."""
        self.found_in = -1
        """Number of the image in which that was."""
        self.untold: FetchedPartition | None = None
        """The last row that says no more than the response before: it need not be compared."""

    def ask(self, request: "FetchPartition") -> None:
        """Take the row of a later request; in another leader epoch the partition is sent once more.

        Other than in Kafka: a follower that learns of the epoch while a response is under way drops
        the row, and with it the high watermark.
        """
        if request.current_leader_epoch != self.request.current_leader_epoch:
            self.high_watermark = -1
        self.request = request
        self.wanted = self.untold = None

    def is_changed(self, row: FetchedPartition) -> bool:
        """True if the row must be sent: it says more than the response before."""
        is_changed = (
            row.records_bytes > 0
            or row.high_watermark != self.high_watermark
            or row.log_start_offset != self.log_start_offset
            or row.preferred_read_replica != -1
            or row.code is not ErrorCode.none
            or row.diverging_epoch is not None
        )
        self.untold = None if is_changed else row
        return is_changed

    def note(self, row: FetchedPartition) -> None:
        """Keep what the row says; behind an error the partition is sent once more.

        So it is behind a diverging epoch, other than in Kafka: the follower truncates and takes
        no high watermark, and where its log then ends as the leader's no record brings another.
        """
        is_taken = row.code is ErrorCode.none and row.diverging_epoch is None
        self.high_watermark = row.high_watermark if is_taken else -1
        self.log_start_offset = row.log_start_offset
