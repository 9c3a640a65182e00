"""A heartbeat of a member: subscription, epoch of the group, targets, its own next step.

1. The member is made or changed; if its subscription is another, or the topics of the group have
   changed, the epoch of the group is raised.
2. If the targets are of an older epoch, and not younger than the interval between two, new ones
   are made.
3. The member goes one step towards its target.

A heartbeat that changes nothing emits no record and looks at nothing but its member.
(apache/kafka: GroupMetadataManager.consumerGroupHeartbeat; KIP-848, KIP-1263)
"""

import msgspec

from coordinator.group.consumer.draft import GroupDraft
from coordinator.group.consumer.epochs import refresh_epoch
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import (
    Member,
    MemberState,
    PartitionsByTopic,
    subscription_record,
    topic_names,
)
from coordinator.group.consumer.membership import group_is_full_error, member_of_heartbeat
from coordinator.group.consumer.regexes import REFRESH_INTERVAL_MS_MIN, regex_error
from coordinator.group.consumer.requests import Heartbeat, HeartbeatAnswer
from coordinator.group.consumer.steps import Surroundings, make_targets_if_due, take_step
from coordinator.group.consumer.tombstones import regex_tombstone
from coordinator.records.schema import CoordinatorRecord
from wire.errors import ApiError


class Revocation(msgspec.Struct, frozen=True):
    """A member that has to give up partitions in this epoch, within its rebalance timeout."""

    member_epoch: int
    timeout_ms: int


class HeartbeatResult(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of a heartbeat that was accepted."""

    records: tuple[CoordinatorRecord, ...]
    answer: HeartbeatAnswer
    group: ConsumerGroup
    """The group after the records."""
    has_moved: bool
    """True if the member took a step: `revocation` replaces what was waited for."""
    revocation: Revocation | None
    has_compared_topics: bool
    """True if the group was compared with the topics of the cluster."""
    regexes: frozenset[str] | None
    """Regular expressions to resolve now; None if there is no need."""


class _Regexes(msgspec.Struct, frozen=True):
    """Outcome of the step that looks at the regular expression of a member."""

    has_changed: bool
    raises_epoch: bool
    to_resolve: frozenset[str] | None


def heartbeat(
    draft: GroupDraft, request: Heartbeat, around: Surroundings
) -> HeartbeatResult | ApiError:
    """Decide on a heartbeat that joins or goes on; its records are in the draft.

    Errors: GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID,
    UNRELEASED_INSTANCE_ID, INVALID_REGULAR_EXPRESSION.
    """
    full = group_is_full_error(draft.group, request.member_id, around.settings.max_size)
    if full is not None:
        return full
    member = member_of_heartbeat(draft, request)
    if isinstance(member, ApiError):
        return member
    before = draft.group
    updated = _updated_member(member, request)
    if updated is not member and updated != member:
        draft.emit(subscription_record(before.group_id, updated))
    has_other_names = updated.subscribed_topic_names != member.subscribed_topic_names
    regexes = _update_regex(draft, before, member, updated, around)
    if isinstance(regexes, ApiError):
        return regexes
    is_raised = has_other_names or regexes.raises_epoch
    compares_topics = is_raised or not around.has_seen_topics
    if compares_topics:
        refresh_epoch(draft, around.hashes, around.cluster, is_raised=is_raised)
    make_targets_if_due(draft, around)
    has_changed = has_other_names or regexes.has_changed
    moved = take_step(draft, updated, request.owned, around, has_changed=has_changed)
    if isinstance(moved, ApiError):
        return moved
    says_all = request.is_joining or request.is_full or moved.assigned != member.assigned
    return HeartbeatResult(
        records=tuple(draft.records),
        answer=HeartbeatAnswer(
            member_id=moved.member_id,
            member_epoch=moved.member_epoch,
            heartbeat_interval_ms=around.group_settings.heartbeat_interval_ms,
            assignment=_partitions(moved) if says_all else None,
        ),
        group=draft.group,
        has_moved=moved is not updated,
        revocation=revocation_of(moved),
        has_compared_topics=compares_topics,
        regexes=regexes.to_resolve,
    )


def revocation_of(member: Member) -> Revocation | None:
    """The revocation that a member owes; None in other states, and for the classic protocol."""
    if member.state is not MemberState.UNREVOKED_PARTITIONS or member.uses_classic_protocol:
        return None
    return Revocation(member.member_epoch, member.rebalance_timeout_ms)


def _partitions(member: Member) -> PartitionsByTopic:
    assigned = member.assigned
    return {topic_id: tuple(sorted(assigned[topic_id])) for topic_id in sorted(assigned)}


def _updated_member(member: Member, request: Heartbeat) -> Member:
    """The member with what the request says; the same object if that is nothing."""
    changes: dict[str, object] = {}
    for name in ("instance_id", "rack_id", "rebalance_timeout_ms", "server_assignor"):
        value = getattr(request, name)
        if value is not None:
            changes[name] = value
    if request.subscribed_topic_names is not None:
        changes["subscribed_topic_names"] = topic_names(request.subscribed_topic_names)
    if request.subscribed_topic_regex is not None:
        changes["subscribed_topic_regex"] = request.subscribed_topic_regex
    if (
        not changes
        and member.client_id == request.client_id
        and member.client_host == request.client_host
        and not member.uses_classic_protocol
    ):
        return member
    return msgspec.structs.replace(
        member,
        client_id=request.client_id,
        client_host=request.client_host,
        classic=None,
        **changes,
    )


def _update_regex(
    draft: GroupDraft, before: ConsumerGroup, member: Member, updated: Member, around: Surroundings
) -> _Regexes | ApiError:
    """Look at the regular expression of the member, and at whether those of the group are due.

    The epoch is raised only for an expression whose topics are known: for another it is once they
    are.
    """
    old, new = member.regex, updated.regex
    has_changed = raises_epoch = is_due = False
    if member.subscribed_topic_regex != updated.subscribed_topic_regex:
        has_changed = True
        if old is not None and before.regex_counts[old] == 1:
            draft.emit(regex_tombstone(before.group_id, old))
        if new is None:
            raises_epoch = old is not None
        elif new not in before.regex_counts:
            error = regex_error(new)
            if error is not None:
                return error
            is_due = True
        else:
            raises_epoch = new in before.resolved
    to_resolve = None
    if draft.group.regex_counts and _are_regexes_due(before, draft.group, around, is_due=is_due):
        to_resolve = frozenset(draft.group.regex_counts)
    return _Regexes(has_changed, raises_epoch, to_resolve)


def _are_regexes_due(
    before: ConsumerGroup, group: ConsumerGroup, around: Surroundings, *, is_due: bool
) -> bool:
    """True if the expressions are to be resolved now: all at once, so that one epoch follows.

    Not while they are being resolved, nor within 10 s of the last time, whatever is due.
    """
    if around.is_resolving:
        return False
    resolved = before.resolved.values()
    last_ms = max((regex.timestamp_ms for regex in resolved), default=None)
    if last_ms is None:
        return True
    if around.wall_ms <= last_ms + REFRESH_INTERVAL_MS_MIN:
        return False
    return (
        is_due
        or len(group.regex_counts) != len(before.resolved)
        or min(regex.version for regex in resolved) < around.new_topics_version
        or around.wall_ms > last_ms + around.settings.regex_refresh_interval_ms
    )
