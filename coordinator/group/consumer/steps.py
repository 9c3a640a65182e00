"""Steps that every protocol shares: new targets for the group, the next step of a member.

(apache/kafka: GroupMetadataManager.maybeUpdateTargetAssignment, maybeReconcile)
"""

import msgspec

from coordinator.group.consumer.draft import GroupDraft
from coordinator.group.consumer.member import Member, assignment_record
from coordinator.group.consumer.metadata_hash import TopicHashes
from coordinator.group.consumer.reconciliation import OwnedPartitions, Target, reconciled
from coordinator.group.consumer.settings import ConsumerSettings, GroupSettings
from coordinator.group.consumer.targets import (
    are_targets_due,
    subscribed_topic_ids,
    update_targets,
)
from metadata.image import Image
from wire.errors import ApiError


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """All that a decision looks at beside the group and the request."""

    settings: ConsumerSettings
    group_settings: GroupSettings
    cluster: Image
    hashes: TopicHashes
    """A cache: it changes no decision."""
    wall_ms: int
    """Clock of the records."""
    new_topics_version: int
    """Version of the metadata in which topics were last created; see `ResolvedRegex.version`."""
    has_seen_topics: bool
    """True if the group was last compared with the topics as they are."""
    is_resolving: bool
    """True while the regular expressions of the group are being resolved."""


def make_targets_if_due(draft: GroupDraft, around: Surroundings) -> None:
    """Make new targets if they are due."""
    if are_targets_due(draft.group, around.group_settings.assignment_interval_ms, around.wall_ms):
        assignor = draft.group.preferred_assignor(around.settings.assignors[0])
        update_targets(draft, around.cluster, assignor, around.wall_ms)


def take_step(
    draft: GroupDraft,
    member: Member,
    owned: OwnedPartitions | None,
    around: Surroundings,
    *,
    has_changed: bool,
) -> Member | ApiError:
    """Take the member one step towards its target, if it is not there.

    Args:
        draft: the group; the record of the step is emitted.
        member: as it is.
        owned: the partitions that it reports, None if it says nothing.
        around: the cluster.
        has_changed: whether this request changed what it subscribes.
    """
    group = draft.group
    if not has_changed and member.is_reconciled_to(group.assignment_epoch):
        return member
    target = Target(
        epoch=group.assignment_epoch,
        partitions=group.targets.get(member.member_id, {}),
        subscribed_topic_ids=subscribed_topic_ids(group, member, around.cluster),
        is_owned=group.is_owned,
        owned=owned,
        has_subscription_changed=has_changed,
    )
    moved = reconciled(member, target)
    if isinstance(moved, ApiError):
        return moved
    if moved == member:
        return member
    draft.emit(assignment_record(group.group_id, moved))
    return moved
