"""Assignors: cases of Kafka's own tests, and what holds for every group."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.group.consumer.assignors.range_assignor import assign_range
from coordinator.group.consumer.assignors.spec import Assignor, GroupSpec, MemberSpec
from coordinator.group.consumer.assignors.uniform import assign_uniform
from coordinator.group.consumer.member import PartitionsByTopic
from tests.coordinator.group.consumer.driver import topic_id

Targets = Mapping[str, Mapping[str, tuple[int, ...]]]


def ids(target: Mapping[str, tuple[int, ...]]) -> PartitionsByTopic:
    return {topic_id(name): partitions for name, partitions in target.items()}


def spec_of(
    counts: Mapping[str, int],
    members: Mapping[str, str],
    targets: Targets | None = None,
    instances: Mapping[str, str] | None = None,
    *,
    is_homogeneous: bool | None = None,
) -> GroupSpec:
    """Members subscribe topics of one letter each."""
    if is_homogeneous is None:
        is_homogeneous = len(set(map(frozenset, members.values()))) == 1
    return GroupSpec(
        members={
            member: MemberSpec(
                (instances or {}).get(member),
                frozenset(map(topic_id, names)),
                ids((targets or {}).get(member, {})),
            )
            for member, names in members.items()
        },
        is_homogeneous=is_homogeneous,
        partition_counts={topic_id(name): count for name, count in counts.items()},
    )


def check(assign: Assignor, spec: GroupSpec, expected: Targets) -> None:
    assert assign(spec) == {member: ids(target) for member, target in expected.items()}


UNIFORM = {
    "one member gets all": (
        {"a": 3, "b": 2}, {"A": "ab"}, {}, {"A": {"a": (0, 1, 2), "b": (0, 1)}},
    ),
    "first assignment, two members": (
        {"a": 3, "c": 2}, {"A": "ac", "B": "ac"}, {},
        {"A": {"a": (0, 1)}, "B": {"a": (2,), "c": (0, 1)}},
    ),
    "more members than partitions: the last ones get them": (
        {"c": 2}, {"A": "c", "B": "c", "C": "c"}, {}, {"A": {}, "B": {"c": (0,)}, "C": {"c": (1,)}},
    ),
    "a member is added: the others give up what exceeds their quota": (
        {"a": 3, "b": 3}, {"A": "ab", "B": "ab", "C": "ab"},
        {"A": {"a": (0, 2), "b": (0,)}, "B": {"a": (1,), "b": (1, 2)}},
        {"A": {"a": (0, 2)}, "B": {"a": (1,), "b": (1,)}, "C": {"b": (0, 2)}},
    ),
    "no topics, no targets": ({}, {"A": "", "B": ""}, {"A": {"a": (0,)}}, {}),
    "no members": ({}, {}, {}, {}),
    "each has its own topic": (
        {"a": 3, "c": 2}, {"A": "a", "B": "c"}, {}, {"A": {"a": (0, 1, 2)}, "B": {"c": (0, 1)}},
    ),
    "none has a topic that exists": ({}, {"A": "", "B": ""}, {"A": {"a": (0,)}}, {}),
}  # fmt: skip


@pytest.mark.parametrize("name", UNIFORM)
def test_uniform(name: str) -> None:
    counts, members, targets, expected = UNIFORM[name]
    check(assign_uniform, spec_of(counts, members, targets), expected)


def test_without_a_topic_nobody_has_a_target_whatever_they_subscribe() -> None:
    check(assign_uniform, spec_of({}, {"A": "", "B": ""}, is_homogeneous=False), {})


RANGE = {
    "one member": ({"a": 3, "c": 2}, {"A": "ac"}, {}, {"A": {"a": (0, 1, 2), "c": (0, 1)}}),
    "members by instance id, before those without": (
        {"a": 4}, {"A": "a", "B": "a", "C": "a", "D": "a"}, {"D": "i1", "B": "i2"},
        {"D": {"a": (0,)}, "B": {"a": (1,)}, "A": {"a": (2,)}, "C": {"a": (3,)}},
    ),
    "no members": ({}, {}, {}, {}),
    "no topics": ({}, {"A": ""}, {}, {"A": {}}),
}  # fmt: skip


@pytest.mark.parametrize("name", RANGE)
def test_range(name: str) -> None:
    counts, members, instances, expected = RANGE[name]
    check(assign_range, spec_of(counts, members, instances=instances), expected)


RECORDED: Final = Path(__file__).parents[3] / "golden" / "coordinator" / "assignors.jsonl"
ASSIGNORS: Final = {"uniform": assign_uniform, "range": assign_range}


def test_targets_are_those_of_kafkas_assignors() -> None:
    """360 drawn groups that the assignors of 4.3.1 were given, members in this order."""
    differing = []
    for line in RECORDED.read_text("utf-8").splitlines():
        case = json.loads(line)
        spec = spec_of(
            case["counts"],
            {member["id"]: member["topics"] for member in case["members"]},
            {
                member["id"]: {name: tuple(parts) for name, parts in member["target"].items()}
                for member in case["members"]
            },
            {member["id"]: member["instance"] for member in case["members"]},
            is_homogeneous=case["homogeneous"],
        )
        expected = {
            member: ids({name: tuple(parts) for name, parts in target.items()})
            for member, target in case["expected"].items()
        }
        if ASSIGNORS[case["assignor"]](spec) != expected:
            differing.append(line)
    assert differing == []


TOPICS = "abcde"


@st.composite
def specs(draw: st.DrawFn, *, is_homogeneous: bool) -> GroupSpec:
    """Groups with targets that some earlier group could have had."""
    counts = {name: draw(st.integers(1, 7)) for name in TOPICS}
    members = [f"m{number}" for number in range(draw(st.integers(1, 6)))]
    subscription = st.sets(st.sampled_from(TOPICS)).map("".join)
    one = draw(subscription)
    names = {member: one if is_homogeneous else draw(subscription) for member in members}
    targets: dict[str, dict[str, list[int]]] = {member: {} for member in members}
    for name, count in counts.items():
        for partition in range(count):
            owner = draw(st.sampled_from([None, *members]))
            if owner is not None:
                targets[owner].setdefault(name, []).append(partition)
    done = {
        member: {name: tuple(partitions) for name, partitions in target.items()}
        for member, target in targets.items()
    }
    return spec_of(counts, names, done, is_homogeneous=is_homogeneous)


def owners(spec: GroupSpec, targets: Mapping[str, PartitionsByTopic]) -> dict[object, str]:
    """The member of each partition; each partition has one, who subscribes its topic."""
    found: dict[object, str] = {}
    for member, target in targets.items():
        for topic, partitions in target.items():
            assert topic in spec.members[member].topic_ids
            assert partitions
            assert list(partitions) == sorted(partitions)
            for partition in partitions:
                assert (topic, partition) not in found
                found[topic, partition] = member
    subscribed = set[bytes]().union(*(member.topic_ids for member in spec.members.values()))
    assert set(found) == {
        (topic, partition)
        for topic in subscribed
        for partition in range(spec.partition_counts[topic])
    }
    return found


def again(spec: GroupSpec, targets: Mapping[str, PartitionsByTopic]) -> GroupSpec:
    """The same group with these targets."""
    members = {
        name: MemberSpec(member.instance_id, member.topic_ids, targets.get(name, {}))
        for name, member in spec.members.items()
    }
    return GroupSpec(
        members=members,
        is_homogeneous=spec.is_homogeneous,
        partition_counts=spec.partition_counts,
    )


def sizes(targets: Mapping[str, PartitionsByTopic]) -> list[int]:
    return [sum(map(len, target.values())) for target in targets.values()]


@given(specs(is_homogeneous=True))
def test_uniform_is_balanced_within_one_and_moves_no_more_than_it_must(spec: GroupSpec) -> None:
    targets = assign_uniform(spec)
    found = owners(spec, targets)
    if targets:
        assert max(sizes(targets)) - min(sizes(targets)) <= 1
    before = owners_before(spec)
    kept = sum(found.get(partition) == member for partition, member in before.items())
    assert kept == most_that_can_stay(spec, before, len(found))
    settled = again(spec, targets)
    assert all(
        target is settled.members[name].target for name, target in assign_uniform(settled).items()
    )


def owners_before(spec: GroupSpec) -> dict[object, str]:
    """The owners of partitions that are still subscribed."""
    return {
        (topic, partition): name
        for name, member in spec.members.items()
        for topic, partitions in member.target.items()
        if topic in member.topic_ids
        for partition in partitions
    }


def most_that_can_stay(spec: GroupSpec, before: Mapping[object, str], total: int) -> int:
    """The partitions that a balanced assignment can leave where they are, counted another way."""
    quota, extra = divmod(total, len(spec.members))
    owned = [sum(owner == name for owner in before.values()) for name in spec.members]
    above = sum(count > quota for count in owned)
    return sum(min(count, quota) for count in owned) + min(above, extra)


@given(specs(is_homogeneous=False))
def test_uniform_assigns_all_and_balances_each_topic(spec: GroupSpec) -> None:
    targets = assign_uniform(spec)
    owners(spec, targets)
    loads = {name: sum(map(len, targets.get(name, {}).values())) for name in spec.members}
    for topic in spec.partition_counts:
        subscribers = [name for name, member in spec.members.items() if topic in member.topic_ids]
        givers = [loads[name] for name in subscribers if topic in targets[name]]
        if givers:
            assert max(givers) - min(loads[name] for name in subscribers) <= 1
    settled = again(spec, targets)
    assert all(
        target is settled.members[name].target for name, target in assign_uniform(settled).items()
    )


@given(st.booleans().flatmap(lambda same: specs(is_homogeneous=same)))
def test_range_assigns_consecutive_partitions_and_is_settled_at_once(spec: GroupSpec) -> None:
    targets = assign_range(spec)
    owners(spec, targets)
    for target in targets.values():
        for partitions in target.values():
            assert partitions == tuple(range(partitions[0], partitions[-1] + 1))
    settled = again(spec, targets)
    assert all(
        target is settled.members[name].target for name, target in assign_range(settled).items()
    )
