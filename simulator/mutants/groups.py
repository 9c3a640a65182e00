"""Mutants of groups: the runtime of coordinators, both protocols, committed offsets."""

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from broker.apis.offsets.offset_fetch import OffsetFetch
from coordinator.group import image
from coordinator.group.classic import offset_rules
from coordinator.group.classic.change import NO_CHANGE
from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.groups import ClassicGroups
from coordinator.group.classic.rebalance import Rebalance
from coordinator.group.classic.rules import ClassicRules
from coordinator.group.consumer import epochs, offsets, reconciliation
from coordinator.group.consumer.groups import ConsumerGroups
from coordinator.group.consumer.member_deadlines import MemberDeadlines
from coordinator.group.image import GroupsImage
from coordinator.group.rules import accept_all
from coordinator.records.group import GroupMetadataKey
from coordinator.runtime.shard import Shard
from simulator.campaign.draw import RECORDS_SHORT
from simulator.faults.kinds import GROUPS_KINDS
from simulator.mutants.records_mutant import by_scenario, by_seeds, returning
from simulator.mutants.registry import Mutant, Patches
from wire.errors import ApiError, ErrorCode
from wire.persistent_map import Map

MEMBERS: Final = replace(
    RECORDS_SHORT, node_count=1, observer_count=0, has_groups=True, faults=tuple(GROUPS_KINDS)
)
"""One node, and nothing befalls it."""
KILLED: Final = "groups_member_killed_while_joining"
NEW: Final = "groups_new_coordinator_waits"
LOST: Final = "groups_coordinator_killed_before_the_answer"
STATIC: Final = "groups_static_member_replaced"
CONVERTED: Final = "groups_upgrade_and_downgrade"
ZOMBIE: Final = "groups_zombie_member"
CONSUMER_ZOMBIE: Final = "groups_zombie_of_the_consumer_protocol"

Function = Callable[..., Any]


def _answers_uncommitted_writes(patches: Patches) -> None:
    """A write is answered before it is committed."""

    def make(_: Function) -> Function:
        def mutated(self: Shard[Any], waiting: Any) -> None:
            del self
            waiting.succeed()

        return mutated

    patches.method(Shard, "_wait_for_all", make)


def _loads_to_the_high_watermark(patches: Patches) -> None:
    """A new coordinator leaves out what of its log it does not know to be committed."""

    def make(original: Function) -> Function:
        def mutated(self: Shard[Any], header: Any, records: Any, *, high_watermark: Any) -> None:
            known = [each for each in records if each.offset < high_watermark]
            original(self, header, known, high_watermark=high_watermark)

        return mutated

    patches.method(Shard, "replay", make)


def _resigns_with_success(patches: Patches) -> None:
    """Commits that are pending when the leadership ends are answered as if they had come."""

    def make(original: Function) -> Function:
        def mutated(self: Shard[Any]) -> None:
            for pending in self._pending:
                for waiting in pending.waiting:
                    waiting.succeed()
            original(self)

        return mutated

    patches.method(Shard, "resign", make)


def _fetches_what_is_not_stable(patches: Patches) -> None:
    """An OffsetFetch does not wait for commits that are under way."""

    def make(original: Function) -> Function:
        def mutated(self: OffsetFetch, call: Any, group: Any, put: Any, *, is_stable: bool) -> None:
            del is_stable
            original(self, call, group, put, is_stable=False)

        return mutated

    patches.method(OffsetFetch, "_fetch", make)


def _accepts_old_generations(patches: Patches) -> None:
    """A member commits with any generation that has been."""

    def make(original: Function) -> Function:
        def mutated(group: ClassicGroup, *given: Any, **named: Any) -> ErrorCode | None:
            if 0 < named["generation_id"] < group.generation_id:
                named["generation_id"] = group.generation_id
            code: ErrorCode | None = original(group, *given, **named)
            return code

        return mutated

    patches.function(offset_rules, "offset_commit_error", make)


def _accepts_commits_of_nobody(patches: Patches) -> None:
    """A client that is no member commits to a group that has members."""

    def make(original: Function) -> Function:
        def mutated(self: ClassicRules, group_id: str, group: Any, committer: Any) -> Any:
            if committer.generation_id < 0:
                return accept_all
            return original(self, group_id, group, committer)

        return mutated

    patches.method(ClassicRules, "commit_check", make)


def _accepts_old_epochs(patches: Patches) -> None:
    """A member of the consumer protocol commits what it had in an older epoch."""
    patches.function(offsets, "_check_of_older_epoch", returning(accept_all))


def _accepts_commits_of_the_fenced(patches: Patches) -> None:
    """A static member whose place another has commits."""

    def make(original: Function) -> Function:
        def mutated(self: ClassicRules, group_id: str, group: Any, committer: Any) -> Any:
            found = original(self, group_id, group, committer)
            is_fenced = isinstance(found, ApiError) and found.code is ErrorCode.fenced_instance_id
            return accept_all if is_fenced else found

        return mutated

    patches.method(ClassicRules, "commit_check", make)


def _keeps_the_generation(patches: Patches) -> None:
    """A rebalance ends in the generation in which it began."""

    def make(original: Function) -> Function:
        def mutated(self: ClassicGroup, timestamp_ms: int) -> None:
            self.generation_id -= self.generation_id > 1
            original(self, timestamp_ms)

        return mutated

    patches.method(ClassicGroup, "next_generation", make)


def _waits_for_the_dead(patches: Patches) -> None:
    """The session of a classic member never ends."""
    patches.method(Rebalance, "_end_session", returning(NO_CHANGE))


def _forgets_sessions_at_loading(patches: Patches) -> None:
    """A new coordinator gives the classic members that it loads no session."""
    patches.method(ClassicGroups, "load", returning(None))


def _gives_what_others_own(patches: Patches) -> None:
    """A member gets its target before others have given it up."""

    def make(original: Function) -> Function:
        def mutated(member: Any, target: Any) -> Any:
            return original(member, replace(target, is_owned=lambda *_: False))

        return mutated

    patches.function(reconciliation, "reconciled", make)


def _revokes_by_itself(patches: Patches) -> None:
    """A partition is given up as soon as a member is told, not when it says that it has."""
    patches.function(reconciliation, "_owns_any", returning(value=False))


def _waits_for_ever_for_revocations(patches: Patches) -> None:
    """A member may take any time to give up partitions."""
    patches.method(MemberDeadlines, "watch_revocation", returning(None))


def _leaves_without_an_epoch(patches: Patches) -> None:
    """The epoch of a group stays when members are removed or topics change."""

    def make(original: Function) -> Function:
        def mutated(group_id: str, epoch: int, metadata_hash: int) -> Any:
            return original(group_id, max(epoch - (epoch > 3), 1), metadata_hash)

        return mutated

    patches.function(epochs, "epoch_record", make)


def _converts_without_offsets(patches: Patches) -> None:
    """The tombstone of a classic group takes its offsets with it."""

    def make(original: Function) -> Function:
        def mutated(before: GroupsImage, record: Any, at: Any) -> GroupsImage:
            after: GroupsImage = original(before, record, at)
            if not isinstance(record.key, GroupMetadataKey) or record.value is not None:
                return after
            left = {name: of for name, of in after.offsets.items() if name != record.key.group}
            return replace(after, offsets=Map(left))

        return mutated

    patches.function(image, "apply", make)


def _downgrades_without_a_rebalance(patches: Patches) -> None:
    """The last member of the consumer protocol leaves its partitions to nobody."""

    def make(original: Function) -> Function:
        def mutated(self: ConsumerGroups, group: Any, *, rebalances: bool) -> None:
            del rebalances
            original(self, group, rebalances=False)

        return mutated

    patches.method(ConsumerGroups, "hand_over", make)


def _loads_the_oldest_offsets(patches: Patches) -> None:
    """Of the commits of a partition the oldest counts while a coordinator loads them."""

    def make(original: Function) -> Function:
        def mutated(self: Shard[GroupsImage], header: Any, records: Any) -> None:
            for view in records:
                known = self.image.offsets
                original(self, header, [view])
                for group_id, found in self.image.offsets.items():
                    offsets = self.image.offsets.set(
                        group_id, found.update(known.get(group_id, {}))
                    )
                    self.image = replace(self.image, offsets=offsets)

        return mutated

    patches.method(Shard, "_replay_records", make)


GROUPS: Final[tuple[Mutant, ...]] = (
    by_scenario(401, _answers_uncommitted_writes, LOST),
    by_scenario(402, _loads_to_the_high_watermark, NEW),
    by_scenario(403, _resigns_with_success, NEW),
    by_scenario(404, _fetches_what_is_not_stable, NEW),
    by_scenario(405, _accepts_old_generations, ZOMBIE),
    by_scenario(406, _accepts_commits_of_nobody, ZOMBIE),
    by_scenario(407, _accepts_old_epochs, CONSUMER_ZOMBIE),
    by_scenario(408, _accepts_commits_of_the_fenced, STATIC),
    by_seeds(409, _keeps_the_generation, "D6", options=MEMBERS),
    by_scenario(410, _waits_for_the_dead, KILLED),
    by_scenario(411, _forgets_sessions_at_loading, STATIC),
    by_seeds(412, _gives_what_others_own, "D6", options=MEMBERS),
    by_scenario(413, _revokes_by_itself, CONSUMER_ZOMBIE),
    by_scenario(414, _waits_for_ever_for_revocations, CONSUMER_ZOMBIE),
    by_seeds(415, _leaves_without_an_epoch, "liveness", "D6", "I20", options=MEMBERS),
    by_scenario(416, _converts_without_offsets, CONVERTED),
    by_scenario(417, _downgrades_without_a_rebalance, CONVERTED),
    by_scenario(418, _loads_the_oldest_offsets, STATIC),
)
