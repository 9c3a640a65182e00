"""Members join, sync, leave, fall silent and restart in any order, while the log fails at times.

At each step: one leader, every member of a Stable group has the assignment of its generation, each
request that was not answered waits in the group. In the end, when nobody comes any more, all were
answered and the group is empty.
"""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from typing_extensions import override

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.groups import ClassicGroups
from coordinator.group.classic.settings import NEW_MEMBER_JOIN_TIMEOUT_MS
from coordinator.group.classic.states import EMPTY, STABLE
from coordinator.records.group import GroupMetadataValue
from tests.coordinator.group.classic.classic_story import (
    BOTH,
    DELAY_MS,
    GROUP,
    RANGE,
    REBALANCE_MS,
    SESSION_MS,
    Asked,
    Story,
)
from wire.errors import ErrorCode

PICKED = st.integers(0, 7)
PROTOCOLS = st.sampled_from([RANGE, BOTH, BOTH[::-1]])


class Groups(RuleBasedStateMachine):
    """One group and its clients."""

    def __init__(self) -> None:
        super().__init__()
        self.story = Story(group_max_size=4)
        self.asked: list[Asked] = []
        self.ids: list[str] = ["nobody"]
        """Every member id that a client was told."""

    @property
    def group(self) -> ClassicGroup | None:
        return self.story.groups.find(GROUP, self.story.known)

    def ask(self, asked: Asked) -> None:
        self.asked.append(asked)

    def picked(self, number: int) -> str:
        """A member, or now and then an id that is none any more."""
        known = list(self.group.members) if self.group is not None else []
        ids = known or self.ids
        return ids[number % len(ids)] if number else self.ids[-1]

    @rule(protocols=PROTOCOLS, needs_id=st.booleans())
    def join_new(self, protocols: Any, needs_id: bool) -> None:
        told = self.story.join(protocols=protocols, is_id_required=needs_id)
        self.ask(told)
        if needs_id and told.code is ErrorCode.member_id_required:
            self.ids.append(told.answer.member_id)

    @rule(protocols=PROTOCOLS)
    def use_id(self, protocols: Any) -> None:
        self.ask(self.story.join(self.ids[-1], protocols=protocols))

    @rule(number=PICKED, protocols=PROTOCOLS)
    def rejoin(self, number: int, protocols: Any) -> None:
        self.ask(self.story.join(self.picked(number), protocols=protocols))

    @rule(instance=st.sampled_from(["one", "two"]), protocols=PROTOCOLS, skips=st.booleans())
    def restart(self, instance: str, protocols: Any, skips: bool) -> None:
        properties = {"protocols": protocols, "can_skip_assignment": skips}
        self.ask(self.story.join(group_instance_id=instance, **properties))

    @rule()
    def all_join(self) -> None:
        """Each member comes again, as after a heartbeat in a rebalance."""
        for member_id in list(self.group.members) if self.group is not None else []:
            self.ask(self.story.join(member_id, protocols=BOTH))

    @rule(number=PICKED)
    def sync(self, number: int) -> None:
        self.send_sync(self.picked(number))

    @rule()
    def all_sync(self) -> None:
        for member_id in list(self.group.members) if self.group is not None else []:
            self.send_sync(member_id)

    def send_sync(self, member_id: str) -> None:
        """A leader assigns to each member the name of its generation and of the member."""
        group = self.group
        generation_id = 1 if group is None else group.generation_id
        asked = Asked()
        self.ask(asked)
        members = {} if group is None else group.members
        assignments = {
            name: f"{generation_id} {member.group_instance_id or name}".encode()
            for name, member in members.items()
        }
        request = self.story.sync_request(member_id, generation_id, assignments)
        known = self.story.known
        self.story.append(self.story.groups.sync(request, known, asked.reply))

    @rule(number=PICKED)
    def beat(self, number: int) -> None:
        group = self.group
        if group is not None:
            self.story.heartbeat(self.picked(number), group.generation_id)

    @rule(number=PICKED, instance=st.sampled_from([None, "one", "two"]))
    def leave(self, number: int, instance: str | None) -> None:
        self.story.leave(self.picked(number) if instance is None else ("", instance))

    @rule(ms=st.sampled_from([1, DELAY_MS, SESSION_MS - 1, SESSION_MS, REBALANCE_MS]))
    def wait(self, ms: int) -> None:
        self.story.advance(ms)

    @rule()
    def hold(self) -> None:
        self.story.is_held = True

    @rule()
    def release(self) -> None:
        self.story.is_held = False
        self.story.commit()

    @rule()
    def lose(self) -> None:
        self.story.is_held = False
        if self.story.pending:
            self.story.fail()

    @rule(is_lost=st.booleans())
    def move(self, is_lost: bool) -> None:
        """The coordinator moves; what was pending is lost or not."""
        story = self.story
        story.groups.resign()
        assert not any(asked.is_parked for asked in self.asked)
        (self.lose if is_lost else self.release)()
        story.groups = ClassicGroups(story.settings)
        known = story.known
        if isinstance(known, GroupMetadataValue):
            story.groups.load([(GROUP, known)], story.now)

    @invariant()
    def each_request_waits_or_was_answered(self) -> None:
        group = self.group
        waiting = set() if group is None else {*group.joins.values(), *group.syncs.values()}
        assert {asked.reply for asked in self.asked if asked.is_parked} == waiting
        assert all(len(asked.answers) <= 1 for asked in self.asked)

    @invariant()
    def the_group_is_consistent(self) -> None:
        group = self.group
        if group is None:
            return
        group.check()
        assert len(group.joins) <= 4
        if group.state is STABLE:
            for member_id, member in group.members.items():
                name = member.group_instance_id or member_id
                assert member.assignment == f"{group.generation_id} {name}".encode()

    @override
    def teardown(self) -> None:
        self.release()
        self.story.advance(NEW_MEMBER_JOIN_TIMEOUT_MS + 3 * REBALANCE_MS)
        assert not any(asked.is_parked for asked in self.asked)
        group = self.group
        assert group is None or group.state is EMPTY
        assert self.story.groups.first_deadline_ms() is None


TestGroups = Groups.TestCase
TestGroups.settings = settings(max_examples=40, stateful_step_count=30)
