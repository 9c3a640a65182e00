"""All consumer groups of a shard: decisions, and what no record says.

Members have deadlines; regular expressions are resolved some topics at a time, off the decision
that asked for it; which topics a group was last compared with is remembered. All of it is made anew
by a new coordinator: every member gets a whole session from then on.
(apache/kafka: GroupMetadataManager, its timers and its executor)
"""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final, Protocol, TypeVar

from kio.schema.consumer_group_describe.v1.response import DescribedGroup
from kio.schema.list_groups.v5.response import ListedGroup

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.consumer.draft import GroupDraft
from coordinator.group.consumer.epochs import resolve_regexes
from coordinator.group.consumer.group import ConsumerGroup, GroupState
from coordinator.group.consumer.heartbeat import HeartbeatResult, heartbeat
from coordinator.group.consumer.leaving import leave, remove_members
from coordinator.group.consumer.member import Member
from coordinator.group.consumer.member_deadlines import Due, MemberDeadlines, Wait
from coordinator.group.consumer.metadata_hash import TopicHashes
from coordinator.group.consumer.migration import (
    downgrade,
    may_downgrade,
    upgrade_error,
    upgraded,
)
from coordinator.group.consumer.regexes import Resolution
from coordinator.group.consumer.requests import Heartbeat, HeartbeatAnswer
from coordinator.group.consumer.responses import described_error, described_group, listed_group
from coordinator.group.consumer.settings import ConsumerSettings, GroupSettings
from coordinator.group.consumer.steps import Surroundings
from coordinator.group.counts import GroupCounts
from coordinator.group.image import Group, GroupsImage
from coordinator.records.group import GroupMetadataKey, GroupMetadataValue
from coordinator.records.schema import CoordinatorRecord
from coordinator.runtime.shard import Shard
from coordinator.runtime.write import Write
from metadata.image import Image, Topic
from network.clock import Clock
from wire.errors import ApiError, ErrorCode
from wire.persistent_map import Map
from wire.types import TopicId

REMOVALS_PER_TICK: Final = 20
"""Members that are removed in one turn; one takes some 100 us."""

R = TypeVar("R")


class ClassicNeighbour(Protocol):
    """The room of the classic groups of the same shard."""

    def is_empty(self, group_id: str) -> bool:
        """True if the group of the latest image has no members, and nobody joins it."""

    def group(self, group_id: str) -> ClassicGroup | None:
        """The classic group of the latest image, to be read only."""

    def upgraded(self, group_id: str) -> None:
        """Let all who wait join again, and forget the group: it is a consumer group."""

    def downgraded(self, group_id: str, *, rebalances: bool) -> None:
        """Take over a group of the latest image, and begin a rebalance if it is to."""


class ConsumerGroups:
    """Decisions on consumer groups of one shard, with their soft state.

    Args:
        clock: of the broker.
        settings: of the broker.
        cluster: gives the metadata as it is.
        configs: gives the configs of a group.
        classic: classic groups of the shard.
        counts: raised here; None for counts of its own.
    """

    def __init__(
        self,
        clock: Clock,
        settings: ConsumerSettings,
        cluster: Callable[[], Image],
        configs: Callable[[str], Mapping[str, str]],
        classic: ClassicNeighbour,
        *,
        counts: GroupCounts | None = None,
    ) -> None:
        self._clock = clock
        self._settings = settings
        self._cluster = cluster
        self._configs = configs
        self._classic = classic
        self._counts = GroupCounts() if counts is None else counts
        self._shard: Shard[GroupsImage] | None = None
        self._hashes = TopicHashes()
        self._new_topics = _NewTopics()
        self.deadlines = MemberDeadlines(clock)
        self._compared: dict[str, tuple[Map[TopicId, Topic], int]] = {}
        """Topics and group epoch of the last comparison of a group."""
        self._resolutions: dict[str, Resolution] = {}
        """By group id, in the order in which they were asked for."""
        self._downgraded: dict[str, bool] = {}
        """Groups that a decision made classic ones; True if they are to rebalance."""

    # -- life of the shard ------------------------------------------------------------------------

    def activated(self, shard: Shard[GroupsImage]) -> None:
        """Give every member of the loaded groups a whole session, and time to revoke."""
        self._shard = shard
        for group_id in sorted(shard.image.groups):
            group = shard.image.groups[group_id]
            if isinstance(group, ConsumerGroup):
                self._watch(group)

    def resigned(self) -> None:
        """Forget all; nobody waits."""
        self._shard = None
        self.deadlines.clear()
        self._compared.clear()
        self._resolutions.clear()

    def next_ms(self) -> int | None:
        """Instant of the next `tick`, None for none."""
        return self._clock.now_ms if self._resolutions else self.deadlines.next_ms()

    def tick(self) -> None:
        """Remove some members whose time is over; resolve some more names of topics."""
        for _ in range(REMOVALS_PER_TICK):
            due = self.deadlines.take_due()
            if due is None:
                break
            self._remove_late(due)
        for group_id in list(self._resolutions)[:1]:
            self._resolve(group_id)

    # -- requests ---------------------------------------------------------------------------------

    def serve(
        self,
        request: Heartbeat,
        may_describe: Callable[[str], bool],
        answer: Callable[[HeartbeatAnswer | ApiError], None],
    ) -> None:
        """Decide on a heartbeat and answer it, once, when what it was decided on is committed."""
        decide = partial(self._heartbeat, request=request, may_describe=may_describe)
        self.write(request.group_id, decide, answer)

    def group(self, group_id: str) -> ConsumerGroup | None:
        """The latest group; None if there is no consumer group."""
        group = self.active.image.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def described(self, group_id: str) -> DescribedGroup:
        """A committed group for ConsumerGroupDescribe; GROUP_ID_NOT_FOUND if it is none."""
        group = self.active.committed.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return described_group(group, self._cluster(), self._settings.assignors[0])
        if group is None:
            text = f"Group {group_id} not found."
            return described_error(group_id, ApiError(ErrorCode.group_id_not_found, text))
        return described_error(group_id, _not_consumer_group_error(group_id))

    def listed(self, group_id: str) -> ListedGroup | None:
        """A committed group for ListGroups; None if there is no consumer group."""
        group = self.active.committed.groups.get(group_id)
        return listed_group(group) if isinstance(group, ConsumerGroup) else None

    def state(self, group_id: str, known: Group) -> GroupState | None:
        """State of a group that an image has; None if it is no consumer group."""
        del group_id
        return known.state if isinstance(known, ConsumerGroup) else None

    def _heartbeat(
        self, image: GroupsImage, request: Heartbeat, may_describe: Callable[[str], bool]
    ) -> Write[HeartbeatAnswer] | ApiError:
        group_id = request.group_id
        draft = self._draft(image, request)
        if isinstance(draft, ApiError):
            return draft
        if request.is_leaving:
            return self._leave(draft, request)
        joined = tuple(draft.group.members) if draft.records else ()
        around = self.surroundings(draft.group)
        result = heartbeat(draft, request, around)
        if isinstance(result, ApiError):
            return result
        if joined:
            self._take_over(draft.group, joined)
        member_id = result.answer.member_id
        session_ms = around.group_settings.session_timeout_ms
        self.deadlines.set((group_id, member_id), Wait.SESSION, session_ms)
        if result.has_moved:
            self.deadlines.watch_revocation(group_id, result.group.members[member_id])
        if result.has_compared_topics:
            self.has_compared(result.group, around)
        self._begin_resolution(group_id, result, around, may_describe)
        self.raised(draft)
        return Write(response=result.answer, records=result.records)

    def _draft(self, image: GroupsImage, request: Heartbeat) -> GroupDraft | ApiError:
        """The group of a request; a new one for a first member, in place of an empty other one.

        A classic group with members becomes a consumer group, if it may.
        """
        group_id = request.group_id
        group = image.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return GroupDraft(group)
        if group is None and not request.is_joining:
            what = "Group" if request.is_leaving else "Consumer group"
            return ApiError(ErrorCode.group_id_not_found, f"{what} {group_id} not found.")
        if group is None:
            return GroupDraft(ConsumerGroup(group_id=group_id))
        if not request.is_joining:
            return _not_consumer_group_error(group_id)
        if self._classic.is_empty(group_id):
            tombstone = CoordinatorRecord(GroupMetadataKey(group=group_id), None)
            return GroupDraft(ConsumerGroup(group_id=group_id), (tombstone,))
        classic = self._classic.group(group_id)
        assert classic is not None, "a group that is not empty has members, or they join"
        refused = upgrade_error(classic, self._settings)
        return refused or upgraded(classic, self._hashes, self._cluster())

    def _take_over(self, group: ConsumerGroup, member_ids: Collection[str]) -> None:
        """Begin the sessions of the members of a classic group, which is told."""
        self._classic.upgraded(group.group_id)
        for member_id in member_ids:
            member = group.members.get(member_id)
            if member is not None and member.classic is not None:
                session_ms = member.classic.session_timeout_ms
                self.deadlines.set((group.group_id, member_id), Wait.SESSION, session_ms)

    def _leave(self, draft: GroupDraft, request: Heartbeat) -> Write[HeartbeatAnswer] | ApiError:
        left = leave(draft, request)
        if isinstance(left, ApiError):
            return left
        if not left.is_for_good:
            return Write(response=left.answer, records=tuple(draft.records))
        return self.removal(draft, (left.member,), left.answer)

    # -- for requests of the classic protocol -----------------------------------------------------

    def write(
        self,
        group_id: str,
        decide: Callable[[GroupsImage], Write[R] | ApiError],
        answer: Callable[[R | ApiError], None],
    ) -> None:
        """Write to the shard; a group that is a classic one behind it is handed over."""
        self._downgraded.pop(group_id, None)
        shard = self.active
        shard.write(decide, answer)
        rebalances = self._downgraded.pop(group_id, None)
        is_classic = isinstance(shard.image.groups.get(group_id), GroupMetadataValue)
        if rebalances is not None and is_classic and self._shard is shard:
            self._classic.downgraded(group_id, rebalances=rebalances)

    def removal(
        self, draft: GroupDraft, members: Collection[Member], response: R
    ) -> Write[R] | ApiError:
        """The write by which members leave for good.

        Without the last member of the consumer protocol the group is a classic one.
        """
        group = draft.group
        gone = {member.member_id for member in members}
        left = [each for member_id, each in group.members.items() if member_id not in gone]
        if may_downgrade(group, members, len(left), self._settings):
            refused = downgrade(
                draft, left, group.group_epoch, self._cluster(), self._clock.wall_ms
            )
            if refused is not None:
                return refused
            self.hand_over(group, rebalances=True)
        else:
            remove_members(draft, members, self._hashes, self._cluster())
            self.deadlines.cancel(group.group_id, gone)
            if not left:
                self._compared.pop(group.group_id, None)
        return self.undoable(draft, group, response)

    def raised(self, draft: GroupDraft) -> None:
        """Count the rebalances that a decision begins."""
        self._counts.consumer_rebalances += draft.epochs_raised

    def hand_over(self, group: ConsumerGroup, *, rebalances: bool) -> None:
        """Forget a group that a decision makes a classic one."""
        self.deadlines.cancel(group.group_id, group.members)
        self._compared.pop(group.group_id, None)
        self._downgraded[group.group_id] = rebalances

    def undoable(self, draft: GroupDraft, group: ConsumerGroup, response: R) -> Write[R]:
        """A write behind which members of the group before have no deadlines.

        If it fails they are members again, each with a whole session.
        """
        return Write(
            response=response,
            records=tuple(draft.records),
            on_failure=lambda _code: self._watch(group),
        )

    def surroundings(self, group: ConsumerGroup) -> Surroundings:
        """All that a decision looks at beside the group and the request."""
        cluster = self._cluster()
        compared = self._compared.get(group.group_id)
        return Surroundings(
            settings=self._settings,
            group_settings=self._group_settings(group.group_id),
            cluster=cluster,
            hashes=self._hashes,
            wall_ms=self._clock.wall_ms,
            new_topics_version=self._new_topics.version(cluster),
            has_seen_topics=compared is not None
            and compared[0] is cluster.topics
            and compared[1] <= group.group_epoch,
            is_resolving=group.group_id in self._resolutions,
        )

    def has_compared(self, group: ConsumerGroup, around: Surroundings) -> None:
        """Remember that a group was compared with the topics; not beyond the epoch it led to."""
        self._compared[group.group_id] = (around.cluster.topics, group.group_epoch)

    @property
    def active(self) -> Shard[GroupsImage]:
        """The shard."""
        assert self._shard is not None, "only an active shard takes requests"
        return self._shard

    # -- deadlines --------------------------------------------------------------------------------

    def _watch(self, group: ConsumerGroup) -> None:
        """Begin a session of each member, and the revocations that they owe."""
        session_ms = self._group_settings(group.group_id).session_timeout_ms
        for member_id in sorted(group.members):
            self.deadlines.set((group.group_id, member_id), Wait.SESSION, session_ms)
            self.deadlines.watch_revocation(group.group_id, group.members[member_id])

    def _remove_late(self, due: Due) -> None:
        """Remove a member, if it is still there, and in its epoch if that is what counts."""

        def answer(answered: ApiError | None) -> None:
            if answered is not None and answered.code is not ErrorCode.not_coordinator:
                self.deadlines.retry(due)

        self.write(due.key[0], partial(self._late_removal, due=due), answer)

    def _late_removal(self, image: GroupsImage, due: Due) -> Write[None] | ApiError:
        group_id, member_id = due.key
        group = image.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            return Write(response=None)
        member = group.members.get(member_id)
        if member is None or due.epoch not in (None, member.member_epoch):
            return Write(response=None)
        return self.removal(GroupDraft(group), (member,), None)

    # -- regular expressions ----------------------------------------------------------------------

    def _begin_resolution(
        self,
        group_id: str,
        result: HeartbeatResult,
        around: Surroundings,
        may_describe: Callable[[str], bool],
    ) -> None:
        if result.regexes is None:
            return
        assert group_id not in self._resolutions, "one at a time for a group"
        self._resolutions[group_id] = Resolution(
            result.regexes,
            sorted(around.cluster.topic_id_by_name),
            version=version_of(around.cluster),
            wall_ms=around.wall_ms,
            may_describe=may_describe,
        )

    def _resolve(self, group_id: str) -> None:
        """Look at some more names for a group; decide on the result when none is left.

        One that cannot be appended is left to the next heartbeat.
        """
        resolution = self._resolutions[group_id]
        if resolution.step():
            del self._resolutions[group_id]
            decide = partial(self._resolved, group_id=group_id, resolution=resolution)
            self.write(group_id, decide, lambda _answer: None)

    def _resolved(self, image: GroupsImage, group_id: str, resolution: Resolution) -> Write[None]:
        group = image.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            return Write(response=None)
        around = self.surroundings(group)
        draft = GroupDraft(group)
        resolve_regexes(draft, resolution.result(), around.hashes, around.cluster)
        self.has_compared(draft.group, around)
        self.raised(draft)
        return Write(response=None, records=tuple(draft.records))

    def _group_settings(self, group_id: str) -> GroupSettings:
        return self._settings.of_group(self._configs(group_id))


class _NewTopics:
    """The version of the metadata in which topics were last seen to be created."""

    def __init__(self) -> None:
        self._ids: Map[str, TopicId] | None = None
        self._version = 0

    def version(self, cluster: Image) -> int:
        """The version; that of the first metadata seen before any were."""
        ids, known = cluster.topic_id_by_name, self._ids
        if ids is not known:
            if known is None or any(known.get(name) != ids[name] for name in ids):
                self._version = version_of(cluster)
            self._ids = ids
        return self._version


def version_of(cluster: Image) -> int:
    """Version of the metadata: the offset of its last record."""
    return cluster.provenance.end_offset - 1


def _not_consumer_group_error(group_id: str) -> ApiError:
    return ApiError(ErrorCode.group_id_not_found, f"Group {group_id} is not a consumer group.")
