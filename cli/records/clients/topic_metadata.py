"""Topics with the leaders of their partitions, by Metadata, and calls to these leaders."""

from collections.abc import Collection, Iterable
from typing import Any, Final, NamedTuple

import msgspec
from typing_extensions import override

from cli.connect import Api, check

METADATA: Final = 3
NO_LEADER: Final = -1
LEADER_NOT_AVAILABLE: Final = 5


class Partition(NamedTuple):
    """A partition by the name of its topic; in text as in Kafka's tools `topic-0`."""

    topic: str
    number: int

    @override
    def __str__(self) -> str:
        """As Kafka's tools print it."""
        return f"{self.topic}-{self.number}"


class Topic(msgspec.Struct, frozen=True):
    """A topic as a broker describes it."""

    name: str
    id: Any
    is_internal: bool
    error_code: int
    leaders: dict[int, int]
    """Partition -> broker that leads it, NO_LEADER if none."""


def described_topics(
    api: Api, names: Collection[str] | None = None, *, may_create: bool = False
) -> dict[str, Topic]:
    """The named topics, or all of them; one that does not exist is there with its error code.

    Args:
        api: A broker.
        names: None for all.
        may_create: Topics that do not exist may be created (`auto.create.topics.enable`).

    Raises:
        ClusterError: the whole request is refused.
    """
    from wire.messages.record_requests import metadata_request  # noqa: PLC0415  # the protocol

    request = metadata_request(names, may_create=may_create)
    answer = check(api.call(METADATA, request))
    return {
        str(row.name): Topic(
            name=str(row.name),
            id=row.topic_id,
            is_internal=bool(row.is_internal),
            error_code=int(row.error_code),
            leaders={
                int(p.partition_index): int(p.leader_id)
                for p in sorted(row.partitions, key=lambda p: int(p.partition_index))
            },
        )
        for row in answer.topics
    }


def by_leader(
    topics: dict[str, Topic], partitions: Iterable[Partition]
) -> dict[int, dict[str, list[int]]]:
    """Leader -> topic -> partitions; those without a leader stand under NO_LEADER."""
    found: dict[int, dict[str, list[int]]] = {}
    for name, number in partitions:
        leader = topics[name].leaders.get(number, NO_LEADER) if name in topics else NO_LEADER
        found.setdefault(leader, {}).setdefault(name, []).append(number)
    return found
