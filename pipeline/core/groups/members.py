"""Members and rebalances of one partition of `__consumer_offsets`: rows between images of a group.

A row of a member is what was true of it from one batch to another (`valid_to_offset` null: still
true at the end of the log): records of one batch are one decision. A rebalance is a generation of
a classic group, or an epoch of a consumer group (KIP-848); it is settled once every member has
reached it, which a classic group has with the record itself.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from coordinator.group.consumer.client_protocol import (
    PROTOCOL_TYPE,
    MalformedProtocolError,
    assignment_of,
    subscription_of,
)
from coordinator.group.consumer.group import ConsumerGroup, GroupState
from coordinator.group.consumer.member import Member
from coordinator.group.image import Group, SimpleGroup
from coordinator.records.group import GroupMetadataValue, MemberMetadata
from metadata.json_form import uuid_text
from pipeline.core.groups.log_records import LogRecord
from pipeline.core.groups.tables import Row
from wire.types import TopicId

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
SIMPLE: Final = "simple"
DEAD: Final = "Dead"
TopicNames = Mapping[str, str]
"""Topic names by topic id, as text."""


class _Open(msgspec.Struct):
    """A row of a member that is true, and where it began."""

    state: Row
    offset: int
    time_ms: int | None


class MemberFold:
    """Rows so far, and what is true of each member."""

    def __init__(self, log_partition: int) -> None:
        self.members: list[Row] = []
        self.rebalances: list[Row] = []
        self._log_partition = log_partition
        self._open: dict[str, dict[str, _Open]] = {}
        self._unsettled: dict[str, Row] = {}

    def step(
        self, group_id: str, before: Group | None, after: Group | None, record: LogRecord
    ) -> None:
        """Compare a group before and after a batch, of which `record` is the last of the group."""
        self._follow_members(group_id, after, record)
        self._follow_epoch(group_id, before, after, record)

    def end(self, names: TopicNames) -> None:
        """Close the log: rows that are still true get no end, topics by id get their names."""
        for group_id in sorted(self._open):
            for member_id, opened in sorted(self._open[group_id].items()):
                self.members.append(self._member_row(group_id, member_id, opened, None))
        for row in self.members:
            for column in ("assigned", "revoking", "target"):
                for one in row[column] or ():
                    one["topic"] = one["topic"] or names.get(one["topic_id"])

    def _follow_members(self, group_id: str, after: Group | None, record: LogRecord) -> None:
        opened = self._open.setdefault(group_id, {})
        states = dict(_member_states(after))
        for member_id in [one for one in opened if opened[one].state != states.get(one)]:
            self.members.append(
                self._member_row(group_id, member_id, opened.pop(member_id), record)
            )
        for member_id, state in states.items():
            if member_id not in opened:
                opened[member_id] = _Open(state, record.offset, record.time_ms)

    def _member_row(
        self, group_id: str, member_id: str, opened: _Open, end: LogRecord | None
    ) -> Row:
        return opened.state | {
            "group_id": group_id, "member_id": member_id, "log_partition": self._log_partition,
            "valid_from_offset": opened.offset, "valid_from_ts": opened.time_ms,
            "valid_to_offset": None if end is None else end.offset,
            "valid_to_ts": None if end is None else end.time_ms,
        }  # fmt: skip

    def _follow_epoch(
        self, group_id: str, before: Group | None, after: Group | None, record: LogRecord
    ) -> None:
        if not isinstance(after, GroupMetadataValue | ConsumerGroup):
            return
        known, now = member_ids(before), member_ids(after)
        is_new = type(before) is not type(after) or epoch_of(before) != epoch_of(after)
        if is_new or (isinstance(after, GroupMetadataValue) and known != now):
            row = self._rebalance_row(group_id, after, record)
            row |= {"joined": sorted(now - known), "departed": sorted(known - now)}
            self.rebalances.append(row)
            self._unsettled[group_id] = row
        waiting = self._unsettled.get(group_id)
        if waiting is not None and _is_settled(after):
            waiting |= {"settled_offset": record.offset, "settled_ts": record.time_ms}
            del self._unsettled[group_id]

    def _rebalance_row(
        self, group_id: str, after: GroupMetadataValue | ConsumerGroup, record: LogRecord
    ) -> Row:
        assignor, leader = (
            (after.protocol, after.leader)
            if isinstance(after, GroupMetadataValue)
            else (after.preferred_assignor("") or None, None)
        )
        return {
            "group_id": group_id, "protocol": protocol_of(after), "epoch": epoch_of(after),
            "ts": record.time_ms, "members": len(after.members),
            "assignor": assignor, "leader": leader,
            "log_partition": self._log_partition, "log_offset": record.offset,
            "settled_offset": None, "settled_ts": None,
        }  # fmt: skip


def protocol_of(group: Group) -> str:
    """The protocol of a group's members: classic, consumer, or simple without any."""
    if isinstance(group, GroupMetadataValue):
        return CLASSIC
    return CONSUMER if isinstance(group, ConsumerGroup) else SIMPLE


def epoch_of(group: Group | None) -> int | None:
    """Generation of a classic group, epoch of a consumer group; else None."""
    if isinstance(group, GroupMetadataValue):
        return group.generation
    return group.group_epoch if isinstance(group, ConsumerGroup) else None


def state_of(group: Group | None, *, has_offsets: bool) -> str:
    """State of a group as Kafka's tools print it, as far as records tell it.

    The rebalance of a classic group is in the coordinator's memory alone: it is Stable or Empty.
    """
    if group is None or (isinstance(group, SimpleGroup) and not has_offsets):
        return DEAD
    if isinstance(group, ConsumerGroup):
        return str(group.state)
    return str(GroupState.STABLE if member_ids(group) else GroupState.EMPTY)


def member_ids(group: Group | None) -> set[str]:
    """Ids of a group's members."""
    if isinstance(group, GroupMetadataValue):
        return {member.member_id for member in group.members}
    return set(group.members) if isinstance(group, ConsumerGroup) else set()


def _is_settled(group: GroupMetadataValue | ConsumerGroup) -> bool:
    if isinstance(group, GroupMetadataValue):
        return True
    return group.state in (GroupState.STABLE, GroupState.EMPTY)


def _member_states(group: Group | None) -> Iterator[tuple[str, Row]]:
    if isinstance(group, GroupMetadataValue):
        for member in group.members:
            yield member.member_id, _classic_state(group, member)
    elif isinstance(group, ConsumerGroup):
        for member_id, one in sorted(group.members.items()):
            yield member_id, _consumer_state(group, one)


def _classic_state(group: GroupMetadataValue, member: MemberMetadata) -> Row:
    topics, rack_id = None, None
    assigned: list[Row] | None = None
    if group.protocol_type == PROTOCOL_TYPE:
        try:
            subscription = subscription_of(member.subscription)
            topics, rack_id = sorted(subscription.topics), subscription.rack_id
            found, _ = assignment_of(member.assignment)
            assigned = [_partitions(topic, None, found[topic]) for topic in sorted(found)]
        except MalformedProtocolError:
            pass  # of a client's own making: what could be read stays
    return {
        "protocol": CLASSIC, "instance_id": member.group_instance_id,
        "client_id": member.client_id, "client_host": member.client_host, "rack_id": rack_id,
        "subscribed_topics": topics, "subscribed_regex": None, "assignor": group.protocol,
        "epoch": group.generation, "state": None, "assigned": assigned, "revoking": None,
        "target": None,
    }  # fmt: skip


def _consumer_state(group: ConsumerGroup, member: Member) -> Row:
    target = group.targets.get(member.member_id)
    return {
        "protocol": CLASSIC if member.uses_classic_protocol else CONSUMER,
        "instance_id": member.instance_id, "client_id": member.client_id,
        "client_host": member.client_host, "rack_id": member.rack_id,
        "subscribed_topics": list(member.subscribed_topic_names),
        "subscribed_regex": member.regex, "assignor": member.server_assignor,
        "epoch": member.member_epoch, "state": member.state.name.lower(),
        "assigned": _by_id(member.assigned),
        "revoking": _by_id(member.pending_revocation),
        "target": None if target is None else _by_id(target),
    }  # fmt: skip


def _by_id(partitions: Mapping[TopicId, Iterable[int]]) -> list[Row]:
    return [_partitions(None, uuid_text(one), partitions[one]) for one in sorted(partitions)]


def _partitions(topic: str | None, topic_id: str | None, numbers: Iterable[int]) -> dict[str, Any]:
    return {"topic": topic, "topic_id": topic_id, "partitions": sorted(numbers)}
