"""One step of a member: Kafka's own, and what holds for a whole group of them."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.group.consumer.group import GroupState
from coordinator.group.consumer.member import Member, MemberState
from coordinator.group.consumer.reconciliation import Target, reconciled
from coordinator.group.consumer.settings import GroupSettings
from tests.coordinator.group.consumer.driver import Driver, topic_id
from wire.errors import ApiError, ErrorCode

RECORDED: Final = Path(__file__).parents[3] / "golden" / "coordinator" / "reconciliation.jsonl"
A: Final = topic_id("a")


def epochs(rows: dict[str, dict[str, int]]) -> dict[bytes, dict[int, int]]:
    return {
        topic_id(name): {int(number): epoch for number, epoch in row.items()}
        for name, row in rows.items()
    }


def member_of(row: dict[str, Any]) -> Member:
    return Member(
        member_id="m",
        member_epoch=row["epoch"],
        previous_member_epoch=row["previous"],
        state=MemberState(row["state"]),
        assigned=epochs(row["assigned"]),
        pending_revocation=epochs(row["revoked"]),
    )


def target_of(case: dict[str, Any]) -> Target:
    busy = {(topic_id(text[0]), int(text[1:])) for text in case["busy"]}
    owned = case["owned"]
    return Target(
        epoch=case["targetEpoch"],
        partitions={topic_id(name): tuple(rows) for name, rows in case["target"].items()},
        subscribed_topic_ids=frozenset(map(topic_id, case["subscribed"])),
        is_owned=lambda topic, partition: (topic, partition) in busy,
        owned=None if owned is None else {topic_id(name): rows for name, rows in owned.items()},
        has_subscription_changed=case["changed"],
    )


def test_steps_are_those_of_kafkas_builder() -> None:
    """400 drawn members that CurrentAssignmentBuilder of 4.3.1 was given.

    One difference, which no case shows: when a member with nothing assigned subscribes no topic
    that exists, Kafka writes it once more, with its own epoch as the previous one.
    """
    differing = []
    for line in RECORDED.read_text("utf-8").splitlines():
        case = json.loads(line)
        member, expected = member_of(case["member"]), case["expected"]
        found = reconciled(member, target_of(case))
        if expected is None:
            if not (isinstance(found, ApiError) and found.code is ErrorCode.fenced_member_epoch):
                differing.append(line)
        elif found != member_of(expected):
            differing.append(line)
    assert differing == []


def step(member: Member, **fields: Any) -> Member:
    target = {
        "epoch": member.member_epoch,
        "partitions": {},
        "subscribed_topic_ids": frozenset([A]),
        "is_owned": lambda *_: False,
        "owned": None,
        "has_subscription_changed": False,
    } | fields
    found = reconciled(member, Target(**target))
    assert isinstance(found, Member)
    return found


@pytest.mark.parametrize("state", [MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS])
def test_a_member_with_nothing_to_do_is_the_same_object(state: MemberState) -> None:
    member = Member(member_id="m", member_epoch=3, state=state, pending_revocation={A: {0: 1}})
    assert step(member) is member
    assert step(member, has_subscription_changed=True) is member


def test_a_partition_that_the_member_itself_gives_up_is_not_owned_by_another() -> None:
    """It comes back with the epoch of the new target."""
    member = Member(
        member_id="m",
        member_epoch=3,
        state=MemberState.UNREVOKED_PARTITIONS,
        pending_revocation={A: {0: 1}},
    )
    moved = step(member, epoch=5, partitions={A: (0,)}, is_owned=lambda *_: True, owned={})
    assert (moved.state, moved.assigned) == (MemberState.STABLE, {A: {0: 5}})
    assert (moved.member_epoch, moved.previous_member_epoch) == (5, 3)


def test_nothing_reported_is_not_nothing_owned() -> None:
    member = Member(member_id="m", member_epoch=3, assigned={A: {0: 1, 1: 1}})
    asked = step(member, epoch=4, partitions={A: (1,)})
    assert asked.state is MemberState.UNREVOKED_PARTITIONS
    assert (asked.assigned, asked.pending_revocation) == ({A: {1: 1}}, {A: {0: 1}})
    assert step(asked, epoch=4, partitions={A: (1,)}) is asked
    done = step(asked, epoch=4, partitions={A: (1,)}, owned={A: (1,)})
    assert (done.state, done.member_epoch, done.assigned) == (MemberState.STABLE, 4, {A: {1: 1}})


class Group(Driver):
    """A group with clients that do as they are told, and now and then as they please."""

    def __init__(self) -> None:
        super().__init__(
            {"a": 4, "b": 3, "c": 1}, group_settings=GroupSettings(assignment_interval_ms=50)
        )
        self.clients: dict[str, dict[bytes, tuple[int, ...]]] = {}
        """Partitions that each client works on."""
        self.epochs: dict[str, int] = {}
        """Member epochs that the clients know."""
        self.says_all: set[str] = set()
        """Clients that did not get an answer."""

    def act(self, member_id: str, names: str | None, action: str) -> None:
        self.wall_ms += 20
        match action:
            case "join":
                self.rejoin(member_id, names or "a")
            case "leave" if member_id in self.clients:
                self.leave(member_id)
                del self.clients[member_id]
            case "beat" | "lose" | "quiet" if member_id in self.clients:
                self.heartbeat(member_id, names, action)
        self.check()

    def rejoin(self, member_id: str, names: str) -> None:
        answer = self.join(member_id, *names).answer
        self.clients[member_id] = dict(answer.assignment)
        self.epochs[member_id] = answer.member_epoch
        self.says_all.discard(member_id)

    def heartbeat(self, member_id: str, names: str | None, action: str) -> None:
        fields = {"owned": None if action == "quiet" else self.clients[member_id]}
        known = self.group.members[member_id].subscribed_topic_names
        if names is not None:
            fields["subscribed_topic_names"] = tuple(names)
        if member_id in self.says_all:
            fields["owned"] = self.clients[member_id]
            fields |= {"rebalance_timeout_ms": 9, "subscribed_topic_names": tuple(names or known)}
        result = self.send(self.request(member_id, self.epochs[member_id], **fields))
        if isinstance(result, ApiError):
            assert result.code is ErrorCode.fenced_member_epoch
            self.rejoin(member_id, "".join(known))
        elif action == "lose":
            self.says_all.add(member_id)
        else:
            self.says_all.discard(member_id)
            self.epochs[member_id] = result.answer.member_epoch
            if result.answer.assignment is not None:
                self.clients[member_id] = dict(result.answer.assignment)

    def check(self) -> None:
        """No partition is worked on by two clients, nor owned by two members."""
        worked = [
            (topic, partition)
            for owned in self.clients.values()
            for topic, partitions in owned.items()
            for partition in partitions
        ]
        assert len(worked) == len(set(worked))
        recorded: dict[tuple[bytes, int], int] = {}
        for member in self.group.members.values():
            for part in (member.assigned, member.pending_revocation):
                for topic, partitions in part.items():
                    for partition in partitions:
                        assert (topic, partition) not in recorded
                        recorded[topic, partition] = member.member_epoch
        index = {
            (topic, partition): epoch
            for topic, owners in self.group.partition_epochs.items()
            for partition, epoch in owners.items()
        }
        assert index == recorded
        assert set(worked) <= set(recorded)

    def converge(self) -> None:
        """Let all clients heartbeat until nothing changes."""
        for _ in range(8):
            self.wall_ms += 60
            for member_id in sorted(self.clients):
                self.heartbeat(member_id, None, "beat")
                self.check()


ACTIONS: Final = st.tuples(
    st.sampled_from(["m1", "m2", "m3", "m4"]),
    st.one_of(st.none(), st.sampled_from(["a", "b", "ab", "abc", "c"])),
    st.sampled_from(["join", "beat", "beat", "quiet", "lose", "leave"]),
)


@given(st.lists(ACTIONS, max_size=25))
@settings(max_examples=60)
def test_no_partition_has_two_owners_and_every_group_converges(
    actions: list[tuple[str, str | None, str]],
) -> None:
    group = Group()
    for action in actions:
        group.act(*action)
    group.converge()
    expected = GroupState.STABLE if group.clients else GroupState.EMPTY
    assert group.group.state is expected
    for member_id, owned in group.clients.items():
        assert owned == group.group.targets[member_id] == group.owned(member_id)
    subscribed = {
        topic for member in group.group.members.values() for topic in member.subscribed_topic_names
    }
    assert sum(group.counts().values()) == sum(
        {"a": 4, "b": 3, "c": 1}[name] for name in subscribed
    )
