"""Requests to the leaders of partitions, again while leaders move or cannot be reached.

apache/kafka: clients/.../admin/internals/PartitionLeaderStrategy.java; unlike there, what has no
leader is not waited for.
"""

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final, TypeVar

import msgspec

from cli.connect import Api, UnreachableError
from cli.records.clients.clock import Backoff, Clock
from cli.records.clients.topic_metadata import (
    LEADER_NOT_AVAILABLE,
    NO_LEADER,
    Partition,
    Topic,
    by_leader,
    described_topics,
)

API_TIMEOUT_MS: Final = 60_000
"""`default.api.timeout.ms` of Kafka's admin client."""
BACKOFF_MS: Final = 100
UNKNOWN_TOPIC_OR_PARTITION: Final = 3
REQUEST_TIMED_OUT: Final = 7
AGAIN: Final = frozenset({6, REQUEST_TIMED_OUT, 56, 74})
"""Another broker leads, or will soon."""


class Failed(msgspec.Struct, frozen=True):
    """Answer for a partition that is an error."""

    code: int


Answered = TypeVar("Answered")
Rows = Iterable[tuple[Partition, Answered | Failed]]
Ask = Callable[[int, dict[str, list[int]]], Rows[Answered]]
"""Function from a leader and numbers of its partitions by topic to their answers.

Raises UnreachableError.
"""


def answers_of_leaders(
    api: Api,
    topics: dict[str, Topic],
    partitions: Collection[Partition],
    ask: Ask[Answered],
    clock: Clock,
) -> dict[Partition, Answered | Failed]:
    """The answer for each partition: of its leader, or that it has none.

    Args:
        api: The cluster.
        topics: Leaders of the partitions as they are known.
        partitions: Which.
        ask: Asks one leader.
        clock: Time to wait by.

    Raises:
        ClusterError: a leader does not serve the API.
    """
    limit_ms = clock.now_ms() + API_TIMEOUT_MS
    backoff = Backoff(clock, BACKOFF_MS)
    found: dict[Partition, Answered | Failed] = {}
    left = list(partitions)
    while True:
        for leader, wanted in by_leader(topics, left).items():
            found.update(_answers(topics, leader, wanted, ask))
        left = [partition for partition in left if _may_change(found[partition])]
        if not left or not backoff.wait(limit_ms):
            return found
        with contextlib.suppress(UnreachableError):
            topics = described_topics(api, sorted({partition.topic for partition in left}))


def _may_change(answer: object) -> bool:
    return isinstance(answer, Failed) and answer.code in AGAIN


def _answers(
    topics: dict[str, Topic], leader: int, wanted: dict[str, list[int]], ask: Ask[Answered]
) -> Iterator[tuple[Partition, Answered | Failed]]:
    for name, numbers in wanted.items():
        known = topics[name].leaders if name in topics else {}
        for number in numbers:
            code = UNKNOWN_TOPIC_OR_PARTITION
            if leader != NO_LEADER:
                code = REQUEST_TIMED_OUT
            elif number in known:
                code = LEADER_NOT_AVAILABLE
            yield Partition(name, number), Failed(code)
    if leader != NO_LEADER:
        with contextlib.suppress(UnreachableError):
            yield from ask(leader, wanted)
