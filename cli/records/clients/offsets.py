"""ListOffsets: the offset of a partition at a time, or at one of the named places."""

from collections.abc import Collection
from datetime import timedelta
from typing import Final

import msgspec

from cli.connect import Api
from cli.records.clients.topic_metadata import (
    LEADER_NOT_AVAILABLE,
    NO_LEADER,
    Partition,
    Topic,
    by_leader,
)

LIST_OFFSETS: Final = 2
TIMEOUT: Final = timedelta(seconds=30)
LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
NO_OFFSET: Final = -1
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1


class Listed(msgspec.Struct, frozen=True):
    """Answer for one partition; the offset is NO_OFFSET where no record is that late."""

    offset: int
    timestamp_ms: int
    error_code: int = 0


def list_offsets(
    api: Api,
    topics: dict[str, Topic],
    partitions: Collection[Partition],
    timestamp: int,
    isolation_level: int = READ_UNCOMMITTED,
) -> dict[Partition, Listed]:
    """Ask the leader of each partition for the offset at `timestamp`.

    Args:
        api: The cluster.
        topics: Leaders of the partitions.
        partitions: Which; one without a leader is answered LEADER_NOT_AVAILABLE here.
        timestamp: In ms, or one of the constants of this module.
        isolation_level: READ_COMMITTED makes LATEST the last stable offset.

    Raises:
        ClusterError: a leader cannot be reached.
    """
    found: dict[Partition, Listed] = {}
    for leader, wanted in by_leader(topics, partitions).items():
        if leader == NO_LEADER:
            for name, numbers in wanted.items():
                for number in numbers:
                    lost = Listed(NO_OFFSET, -1, LEADER_NOT_AVAILABLE)
                    found[Partition(name, number)] = lost
            continue
        found.update(offsets_of_leader(api, leader, wanted, timestamp, isolation_level))
    return found


def offsets_of_leader(
    api: Api,
    leader: int,
    wanted: dict[str, list[int]],
    timestamp: int,
    isolation_level: int = READ_UNCOMMITTED,
) -> dict[Partition, Listed]:
    """Ask one leader for the offsets of partitions, by topic, at `timestamp`.

    Raises:
        ClusterError: the leader cannot be reached.
    """
    from wire.messages.record_requests import list_offsets_request  # noqa: PLC0415  # the protocol

    request = list_offsets_request(wanted, timestamp, TIMEOUT, isolation_level=isolation_level)
    return {
        Partition(str(topic.name), int(row.partition_index)): Listed(
            int(row.offset), int(row.timestamp), int(row.error_code)
        )
        for topic in api.call(LIST_OFFSETS, request, leader).topics
        for row in topic.partitions
    }
