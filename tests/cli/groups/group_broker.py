"""A broker in memory that coordinates groups as they are told: for tests of the commands.

Requests and answers go through the codecs (tests/cli/records/broker.py). Groups have no members
that come or go here; tests/interop has those.
"""

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
from kio.schema.errors import ErrorCode

from cli.records.clients.topic_metadata import Partition
from coordinator.group.consumer.client_protocol import assignment_bytes
from tests.cli.records.broker import NODE, Broker, Topic
from wire.api_table import SCHEMAS
from wire.messages.codec import newest
from wire.messages.conversion import default_entity

OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, DESCRIBE_GROUPS = 8, 9, 10, 15
LIST_GROUPS, DELETE_GROUPS, OFFSET_DELETE, CONSUMER_GROUP_DESCRIBE = 16, 42, 47, 69
Offsets = dict[tuple[str, int], int | tuple[int, int]]
"""Offset, or offset and leader epoch, by topic and partition."""


class Member(msgspec.Struct):
    """A member; of the consumer protocol it has an epoch."""

    id: str
    assigned: dict[str, tuple[int, ...]] = {}
    client_id: str = "client"
    instance_id: str | None = None
    epoch: int = 0
    target: dict[str, tuple[int, ...]] | None = None
    """None: as assigned."""
    kind: int = -1


class Group(msgspec.Struct):
    """A group."""

    name: str
    state: str = "Empty"
    type: str = "Classic"
    protocol_type: str = "consumer"
    assignor: str = ""
    members: list[Member] = []
    offsets: Offsets = {}
    subscribed: set[str] = set()
    epoch: int = 1

    @property
    def is_consumer(self) -> bool:
        return self.type in ("Classic", "Consumer")


class GroupBroker(Broker):
    """A broker with groups."""

    def __init__(self, groups: list[Group], **partitions: Any) -> None:
        super().__init__(**partitions)
        self.groups = {group.name: group for group in groups}
        self.answers |= GROUP_ANSWERS
        self.versions |= {key: SCHEMAS[key].newest_version for key in GROUP_ANSWERS}
        self.coordinator = ("127.0.0.1", 24191)
        self.committers: set[tuple[str, int]] = {("", -1)}
        """Member and generation of those who may commit."""
        self.offset_errors: dict[tuple[str, int], int] = {}
        """Codes of partitions in answers to OffsetFetch."""

    def topic_named(self, topic_id: uuid.UUID) -> str:
        topic = self.by_id(topic_id)
        assert topic is not None
        return topic.name


def entity(api_key: int, name: str, /, **fields: Any) -> Any:
    """An entity of a response, defaults in what is not given."""
    return replace(default_entity(getattr(newest(api_key, "response"), name)), **fields)


def _find(broker: GroupBroker, request: Any) -> Any:
    host, port = broker.coordinator
    code = ErrorCode(broker.error_of(FIND_COORDINATOR))
    rows = tuple(
        entity(FIND_COORDINATOR, "Coordinator", key=key, node_id=NODE, host=host, port=port,
               error_code=code, error_message=None)
        for key in request.coordinator_keys
    )  # fmt: skip
    return entity(FIND_COORDINATOR, "FindCoordinatorResponse", coordinators=rows)


def _list(broker: GroupBroker, request: Any) -> Any:
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    rows = tuple(
        entity(LIST_GROUPS, "ListedGroup", group_id=group.name, protocol_type=group.protocol_type,
               group_state=group.state, group_type=group.type.lower())
        for group in reversed(broker.groups.values())
        if (not states or group.state.lower() in states)
        and (not types or group.type.lower() in types)
    )  # fmt: skip
    code = ErrorCode(broker.error_of(LIST_GROUPS))
    return entity(LIST_GROUPS, "ListGroupsResponse", groups=rows, error_code=code)


def _described_consumer(broker: GroupBroker, name: str) -> Any:
    code = broker.error_of(CONSUMER_GROUP_DESCRIBE)
    group = broker.groups.get(name)
    if code or group is None or group.type != "Consumer":
        why = f"Group {name} is not a consumer group." if group else f"Group {name} not found."
        return entity(CONSUMER_GROUP_DESCRIBE, "DescribedGroup", group_id=name,
                      error_code=ErrorCode(code or 69), error_message=why)  # fmt: skip

    def partitions(numbers: dict[str, tuple[int, ...]]) -> Any:
        rows = tuple(
            entity(CONSUMER_GROUP_DESCRIBE, "TopicPartitions", topic_name=topic, partitions=found)
            for topic, found in numbers.items()
        )
        return entity(CONSUMER_GROUP_DESCRIBE, "Assignment", topic_partitions=rows)

    members = tuple(
        entity(CONSUMER_GROUP_DESCRIBE, "Member", member_id=m.id, instance_id=m.instance_id,
               client_id=m.client_id, client_host="/127.0.0.1", member_epoch=m.epoch,
               member_type=m.kind, assignment=partitions(m.assigned),
               target_assignment=partitions(m.assigned if m.target is None else m.target))
        for m in group.members
    )  # fmt: skip
    return entity(
        CONSUMER_GROUP_DESCRIBE, "DescribedGroup", group_id=name, group_state=group.state,
        group_epoch=group.epoch, assignment_epoch=group.epoch, assignor_name=group.assignor,
        members=members,
    )  # fmt: skip


def _describe_consumer(broker: GroupBroker, request: Any) -> Any:
    groups = tuple(_described_consumer(broker, name) for name in request.group_ids)
    return entity(CONSUMER_GROUP_DESCRIBE, "ConsumerGroupDescribeResponse", groups=groups)


def _described_classic(broker: GroupBroker, name: str) -> Any:
    code = broker.error_of(DESCRIBE_GROUPS)
    group = broker.groups.get(name)
    if code or group is None or group.type != "Classic":
        why = f"Group {name} is not a classic group." if group else f"Group {name} not found."
        return entity(DESCRIBE_GROUPS, "DescribedGroup", group_id=name, group_state="Dead",
                      error_code=ErrorCode(code or 69), error_message=why)  # fmt: skip
    members = tuple(
        entity(DESCRIBE_GROUPS, "DescribedGroupMember", member_id=m.id, client_id=m.client_id,
               group_instance_id=m.instance_id, client_host="/127.0.0.1",
               member_assignment=assignment_bytes(m.assigned, 3))
        for m in group.members
    )  # fmt: skip
    return entity(
        DESCRIBE_GROUPS, "DescribedGroup", group_id=name, group_state=group.state,
        protocol_type=group.protocol_type, protocol_data=group.assignor, members=members,
    )  # fmt: skip


def _describe_classic(broker: GroupBroker, request: Any) -> Any:
    groups = tuple(_described_classic(broker, name) for name in request.groups)
    return entity(DESCRIBE_GROUPS, "DescribeGroupsResponse", groups=groups)


def _fetch(broker: GroupBroker, request: Any) -> Any:
    (wanted,) = request.groups
    group = broker.groups.get(wanted.group_id)
    known: Offsets = {} if group is None else group.offsets
    if wanted.topics is not None:
        places = [(broker.topic_named(topic.topic_id), number)
                  for topic in wanted.topics for number in topic.partition_indexes]  # fmt: skip
        known = {place: known.get(place, -1) for place in places}
    rows: dict[str, list[Any]] = {}
    for (topic, number), at in known.items():
        offset, epoch = at if isinstance(at, tuple) else (at, -1)
        rows.setdefault(topic, []).append(
            entity(OFFSET_FETCH, "OffsetFetchResponsePartitions", partition_index=number,
                   committed_offset=offset, committed_leader_epoch=epoch,
                   error_code=ErrorCode(broker.offset_errors.get((topic, number), 0)))
        )  # fmt: skip
    topics = tuple(
        entity(OFFSET_FETCH, "OffsetFetchResponseTopics", topic_id=Topic(topic, []).id,
               partitions=tuple(found))
        for topic, found in rows.items()
    )  # fmt: skip
    answer = entity(OFFSET_FETCH, "OffsetFetchResponseGroup", group_id=wanted.group_id,
                    topics=topics, error_code=ErrorCode(broker.error_of(OFFSET_FETCH)))  # fmt: skip
    return entity(OFFSET_FETCH, "OffsetFetchResponse", groups=(answer,))


def _commit(broker: GroupBroker, request: Any) -> Any:
    assert (request.member_id, request.generation_id_or_member_epoch) in broker.committers
    group = broker.groups.setdefault(request.group_id, Group(request.group_id, protocol_type=""))
    topics = []
    for topic in request.topics:
        rows = []
        for row in topic.partitions:
            code = broker.error_of(OFFSET_COMMIT)
            if not code:
                at = broker.topic_named(topic.topic_id), row.partition_index
                epoch = row.committed_leader_epoch
                group.offsets[at] = (row.committed_offset, epoch)
            rows.append(
                entity(OFFSET_COMMIT, "OffsetCommitResponsePartition",
                       partition_index=row.partition_index, error_code=ErrorCode(code))
            )  # fmt: skip
        topics.append(
            entity(OFFSET_COMMIT, "OffsetCommitResponseTopic", topic_id=topic.topic_id,
                   partitions=tuple(rows))
        )  # fmt: skip
    return entity(OFFSET_COMMIT, "OffsetCommitResponse", topics=tuple(topics))


def _delete(broker: GroupBroker, request: Any) -> Any:
    (name,) = request.groups_names
    group = broker.groups.get(name)
    code = broker.error_of(DELETE_GROUPS) or (69 if group is None else 68 if group.members else 0)
    if not code:
        del broker.groups[name]
    row = entity(DELETE_GROUPS, "DeletableGroupResult", group_id=name, error_code=ErrorCode(code))
    return entity(DELETE_GROUPS, "DeleteGroupsResponse", results=(row,))


def _delete_offsets(broker: GroupBroker, request: Any) -> Any:
    group = broker.groups.get(request.group_id)
    code = broker.error_of(OFFSET_DELETE) or (69 if group is None else 0)
    if code:
        return entity(OFFSET_DELETE, "OffsetDeleteResponse", error_code=ErrorCode(code))
    assert group is not None
    topics = []
    for topic in request.topics:
        rows = []
        for row in topic.partitions:
            place = Partition(topic.name, row.partition_index)
            count = len(broker.topics[place.topic].logs) if place.topic in broker.topics else 0
            code = 86 if place.topic in group.subscribed else 3 * (place.number >= count)
            if not code:
                group.offsets.pop(place, None)
            rows.append(
                entity(OFFSET_DELETE, "OffsetDeleteResponsePartition",
                       partition_index=place.number, error_code=ErrorCode(code))
            )  # fmt: skip
        topics.append(
            entity(OFFSET_DELETE, "OffsetDeleteResponseTopic", name=topic.name,
                   partitions=tuple(rows))
        )  # fmt: skip
    return entity(OFFSET_DELETE, "OffsetDeleteResponse", topics=tuple(topics))


GROUP_ANSWERS: dict[int, Callable[[Any, Any], Any]] = {
    FIND_COORDINATOR: _find,
    LIST_GROUPS: _list,
    CONSUMER_GROUP_DESCRIBE: _describe_consumer,
    DESCRIBE_GROUPS: _describe_classic,
    OFFSET_FETCH: _fetch,
    OFFSET_COMMIT: _commit,
    DELETE_GROUPS: _delete,
    OFFSET_DELETE: _delete_offsets,
}
