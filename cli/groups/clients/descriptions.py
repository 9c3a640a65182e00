"""Groups as their coordinators describe them: one shape for both protocols.

apache/kafka: clients/.../admin/ConsumerGroupDescription.java, MemberDescription.java,
internals/DescribeConsumerGroupsHandler.java
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from cli.records.clients.topic_metadata import Partition

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1
UNKNOWN: Final = "Unknown"
STATES: Final = {
    name.lower(): name
    for name in (
        "Dead", "Stable", "Assigning", "Reconciling", "CompletingRebalance", "Empty",
        "PreparingRebalance",
    )
}  # fmt: skip
"""Of consumer groups, in the order in which Kafka's tool names them."""


TYPES: Final = {name.lower(): name for name in ("Classic", "Consumer", "Share", "Streams")}
"""Of groups; brokers say them in small letters."""


class Node(msgspec.Struct, frozen=True):
    """A broker."""

    id: int
    host: str
    port: int


class Listed(msgspec.Struct, frozen=True):
    """A group in a list."""

    group: str
    protocol_type: str
    state: str
    type: str


class Committed(msgspec.Struct, frozen=True):
    """A committed offset; the leader epoch is -1 if none was given."""

    offset: int
    leader_epoch: int


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A member of a group."""

    id: str
    instance_id: str | None
    client_id: str
    host: str
    assigned: frozenset[Partition]
    target: frozenset[Partition] = frozenset()
    """Of the consumer protocol: what the member shall have."""
    epoch: int | None = None
    """None: the group is one of the classic protocol."""
    is_upgraded: bool | None = None
    """True if it uses the consumer protocol; None if the broker does not say."""


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """A group."""

    group: str
    state: str
    coordinator: Node
    assignor: str
    members: tuple[Member, ...]
    epoch: int | None = None
    target_epoch: int | None = None


def type_named(text: str) -> str:
    """Kafka's name of a type, UNKNOWN for others; nothing of a broker that says none."""
    return TYPES.get(text.lower(), UNKNOWN) if text else ""


def state_named(text: str) -> str:
    """Kafka's name of a state, whatever the case of its letters; UNKNOWN for others."""
    return STATES.get(text.lower(), UNKNOWN)


def consumer_group(row: Any, coordinator: Node) -> Described:
    """A group of the consumer protocol, from ConsumerGroupDescribe."""
    return Described(
        group=str(row.group_id),
        state=state_named(row.group_state),
        coordinator=coordinator,
        assignor=row.assignor_name,
        epoch=int(row.group_epoch),
        target_epoch=int(row.assignment_epoch),
        members=tuple(
            Member(
                id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                host=member.client_host,
                assigned=_partitions(member.assignment.topic_partitions),
                target=_partitions(member.target_assignment.topic_partitions),
                epoch=int(member.member_epoch),
                is_upgraded={CLASSIC_MEMBER: False, CONSUMER_MEMBER: True}.get(
                    int(member.member_type)
                ),
            )
            for member in row.members
        ),
    )


def classic_group(row: Any, coordinator: Node) -> Described:
    """A group of the classic protocol, from DescribeGroups.

    Raises:
        MalformedProtocolError: an assignment cannot be read.
    """
    from coordinator.group.consumer.client_protocol import assignment_of  # noqa: PLC0415

    return Described(
        group=str(row.group_id),
        state=state_named(row.group_state),
        coordinator=coordinator,
        assignor=row.protocol_data,
        members=tuple(
            Member(
                id=member.member_id,
                instance_id=member.group_instance_id,
                client_id=member.client_id,
                host=member.client_host,
                assigned=frozenset(
                    Partition(topic, number)
                    for topic, numbers in assignment_of(member.member_assignment)[0].items()
                    for number in numbers
                ),
            )
            for member in row.members
        ),
    )


def _partitions(rows: Iterable[Any]) -> frozenset[Partition]:
    return frozenset(
        Partition(str(row.topic_name), int(number)) for row in rows for number in row.partitions
    )
