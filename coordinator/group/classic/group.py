"""A classic group: its members, who waits, its generation; the soft state beside its record.

Invariants, checked where they change:
- one leader, a member, while there are members; none without (INV-CG-1);
- whoever waits for a join or a sync is a member (INV-CG-2);
- a static instance has one member (INV-CG-3);
- the state changes by `states.TRANSITIONS` (INV-CG-4).

Members are in the order in which they came. Kafka's are in the order of a hash table, which decides
there who leads when the leader has gone, and which of two protocols with equal votes is chosen.

apache/kafka: group-coordinator/.../classic/ClassicGroup.java
"""

from collections.abc import Callable, Collection, Iterable
from typing import Any, Final

import msgspec

from coordinator.group.classic.member import Member, MemberProtocol, protocol_names
from coordinator.group.classic.replies import Reply
from coordinator.group.classic.states import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    TRANSITIONS,
    ClassicGroupState,
)
from coordinator.group.classic.subscriptions import subscribed_topics
from wire.errors import ErrorCode

CONSUMER_PROTOCOL_TYPE: Final = "consumer"


class InitialDelay(msgspec.Struct, frozen=True):
    """Wait for more members of a new group; `remaining_ms`: by how much it may be extended."""

    delay_ms: int
    remaining_ms: int


class ClassicGroup:
    """One group; changed by the steps in this room only."""

    __slots__ = (
        "_supporters",
        "generation_id",
        "group_id",
        "has_new_member",
        "initial_delay",
        "joins",
        "leader_id",
        "members",
        "new_members",
        "pending_joins",
        "pending_syncs",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "state",
        "state_timestamp_ms",
        "static_members",
        "subscribed_topics",
        "syncs",
    )

    def __init__(
        self, group_id: str, *, state: ClassicGroupState = EMPTY, timestamp_ms: int | None
    ) -> None:
        self.group_id = group_id
        self.state = state
        self.previous_state = DEAD
        self.state_timestamp_ms = timestamp_ms
        """Wall clock; None if the record of the group is so old that it has none."""
        self.generation_id = 0
        self.protocol_type: str | None = None
        """None: no member ever joined; it only commits offsets."""
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        """Member id by group instance id."""
        self.new_members: set[str] = set()
        """Those whose first JoinGroup has not been answered."""
        self.pending_joins: set[str] = set()
        """Ids that were handed out with MEMBER_ID_REQUIRED and not used yet."""
        self.joins: dict[str, Reply[Any]] = {}
        """Parked JoinGroup requests, by member id."""
        self.syncs: dict[str, Reply[Any]] = {}
        """Parked SyncGroup requests, by member id."""
        self.pending_syncs: set[str] = set()
        """Members of this generation that have not sent SyncGroup."""
        self.subscribed_topics: frozenset[str] | None = None
        """Of all members; None: not known."""
        self.initial_delay: InitialDelay | None = None
        self.has_new_member = False
        """True if a member came since the initial delay was set."""
        self._supporters: dict[str, int] = {}

    # What it is

    @property
    def uses_consumer_protocol(self) -> bool:
        """True if its members are consumers (not workers of Connect)."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def rebalance_timeout_ms(self) -> int:
        """Longest of the members; 0 without any."""
        timeouts = (member.rebalance_timeout_ms for member in self.members.values())
        return max(0, *timeouts) if self.members else 0

    @property
    def has_all_members_joined(self) -> bool:
        """True if every member waits for the next generation, and no handed out id is unused."""
        return len(self.joins) == len(self.members) and not self.pending_joins

    def supports(self, protocol_type: str, protocols: tuple[MemberProtocol, ...]) -> bool:
        """True if a member with these protocols may join: one at least is everybody's."""
        if self.state is EMPTY:
            return bool(protocol_type) and bool(protocols)
        return self.protocol_type == protocol_type and any(
            self._supporters.get(protocol.name, 0) == len(self.members) for protocol in protocols
        )

    def is_subscribed_to(self, topic: str) -> bool:
        """True if offsets of a topic are in use; also if that is not known of consumers."""
        if self.subscribed_topics is not None:
            return topic in self.subscribed_topics
        return self.uses_consumer_protocol

    def member_error(self, member_id: str, group_instance_id: str | None) -> ErrorCode | None:
        """Error of a request that is not one of a member; None if it is.

        UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if another member has the instance.
        """
        if group_instance_id is not None:
            existing = self.static_members.get(group_instance_id)
            if existing is not None and existing != member_id:
                return ErrorCode.fenced_instance_id
            if existing is None:
                return ErrorCode.unknown_member_id
        return None if member_id in self.members else ErrorCode.unknown_member_id

    # Members

    def add(self, member: Member, reply: Reply[Any] | None) -> None:
        """Take a new member, with its parked join if it has one."""
        member_id, instance_id = member.member_id, member.group_instance_id
        assert member_id not in self.members, f"{member_id=}"
        assert instance_id not in self.static_members, f"{instance_id=}"
        assert not self.members or self.protocol_type == member.protocol_type, f"{member=}"
        self.protocol_type = member.protocol_type
        assert self.supports(member.protocol_type, member.protocols), f"{member=}"
        if instance_id is not None:
            self.static_members[instance_id] = member_id
        if self.leader_id is None:
            self.leader_id = member_id
        self.members[member_id] = member
        self._count(member, 1)
        self.pending_joins.discard(member_id)
        if reply is not None:
            self.joins[member_id] = reply

    def remove(self, member_id: str) -> None:
        """Let a member, or a handed out id, go; the next member leads if it led."""
        assert member_id not in self.joins, f"a join of {member_id=} waits"
        assert member_id not in self.syncs, f"a sync of {member_id=} waits"
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member, -1)
            if member.group_instance_id is not None:
                del self.static_members[member.group_instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.new_members.discard(member_id)
        self.pending_joins.discard(member_id)

    def update(self, member: Member) -> None:
        """Take new properties of a member, or its assignment."""
        self._count(self.members[member.member_id], -1)
        self.members[member.member_id] = member
        self._count(member, 1)

    def replace_static(self, instance_id: str, new_member_id: str) -> Member:
        """Give a static member a new id; all else stays. Nobody waits under the old one."""
        old_member_id = self.static_members[instance_id]
        assert old_member_id not in self.joins, f"a join of {old_member_id=} waits"
        assert old_member_id not in self.syncs, f"a sync of {old_member_id=} waits"
        member = msgspec.structs.replace(self.members.pop(old_member_id), member_id=new_member_id)
        self.members[new_member_id] = member
        if self.leader_id == old_member_id:
            self.leader_id = new_member_id
        self.static_members[instance_id] = new_member_id
        self.new_members.discard(old_member_id)
        self.pending_syncs.discard(old_member_id)
        return member

    def elect_joined_leader(self) -> bool:
        """Let a member that rejoined lead if the leader did not; False if none rejoined."""
        if self.leader_id in self.joins:
            return True
        joined = next((member_id for member_id in self.members if member_id in self.joins), None)
        if joined is not None:
            self.leader_id = joined
        return joined is not None

    # Generations

    def next_generation(self, timestamp_ms: int) -> None:
        """Begin the next generation with the members that there are: the join phase is over."""
        self.generation_id += 1
        self.protocol_name = self.selected_protocol() if self.members else None
        self.subscribed_topics = self.computed_topics()
        self.transition(COMPLETING_REBALANCE if self.members else EMPTY, timestamp_ms)

    def selected_protocol(self) -> str:
        """The protocol with the most votes among those that all members support."""
        assert self.members, "nobody votes"
        everyone = len(self.members)
        candidates = {name for name, count in self._supporters.items() if count == everyone}
        votes: dict[str, int] = {}
        for member in self.members.values():
            name = member.vote(candidates)
            votes[name] = votes.get(name, 0) + 1
        return max(votes, key=votes.__getitem__)

    def computed_topics(self) -> frozenset[str] | None:
        """Topics that its consumers subscribe to; None if it has none, or one cannot be read."""
        if not self.uses_consumer_protocol:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        return _union(
            subscribed_topics(member.metadata(self.protocol_name))
            for member in self.members.values()
        )

    def transition(self, state: ClassicGroupState, timestamp_ms: int) -> None:
        """Go to another state, at this wall clock time; the only place where it changes."""
        assert state in TRANSITIONS[self.state], f"{self.group_id=} {self.state=} {state=}"
        self.previous_state, self.state = self.state, state
        self.state_timestamp_ms = timestamp_ms
        if state is not PREPARING_REBALANCE:
            self.initial_delay, self.has_new_member = None, False
        self.check()

    def check(self) -> None:
        """Assert the invariants of this file."""
        members = self.members
        assert (self.leader_id in members) == bool(members), f"{self.leader_id=} {len(members)=}"
        assert (self.leader_id is None) == (not members), f"{self.leader_id=}"
        for waiting in (self.joins, self.syncs, self.pending_syncs, self.new_members):
            assert members.keys() >= set(waiting), f"{self.group_id=} {waiting=}"
        assert members.keys().isdisjoint(self.pending_joins), f"{self.pending_joins=}"
        instances = {
            member.group_instance_id: member_id
            for member_id, member in members.items()
            if member.group_instance_id is not None
        }
        assert instances == self.static_members, f"{instances=} {self.static_members=}"
        assert self.state is not EMPTY or not members, f"{len(members)=}"
        may_sync = self.state in (COMPLETING_REBALANCE, STABLE)
        assert may_sync or not self.pending_syncs, f"{self.state=} {self.pending_syncs=}"

    # Answers

    def answer_join(self, member_id: str, response: Any) -> None:
        """Answer the parked join of a member, if it has one."""
        reply = self.joins.pop(member_id, None)
        if reply is not None:
            reply(response)

    def answer_sync(self, member_id: str, response: Any) -> bool:
        """Answer the parked sync of a member; False if it has none."""
        reply = self.syncs.pop(member_id, None)
        if reply is not None:
            reply(response)
        return reply is not None

    def answer_all(self, join: Callable[[str], Any], sync: Callable[[], Any]) -> None:
        """Answer everything that is parked, joins with what `join` makes of the member id."""
        for member_id in list(self.joins):
            self.answer_join(member_id, join(member_id))
        for member_id in list(self.syncs):
            self.answer_sync(member_id, sync())

    def _count(self, member: Member, step: int) -> None:
        for name in protocol_names(member.protocols):
            self._supporters[name] = self._supporters.get(name, 0) + step
            if not self._supporters[name]:
                del self._supporters[name]


def _union(parts: Iterable[Collection[str] | None]) -> frozenset[str] | None:
    union: set[str] = set()
    for part in parts:
        if part is None:
            return None
        union.update(part)
    return frozenset(union)
