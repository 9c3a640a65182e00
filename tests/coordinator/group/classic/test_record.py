"""GroupMetadata: loaded groups, and what no coordinator writes; subscriptions in them."""

import pytest

from coordinator.group.classic.record import (
    group_record,
    loaded_group,
    new_group_record,
    tombstone,
)
from coordinator.group.classic.states import EMPTY, STABLE
from coordinator.group.classic.subscriptions import subscribed_topics
from coordinator.records.group import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from tests.coordinator.group.classic.classic_story import GROUP, Story


def member(
    member_id: str, instance_id: str | None = None, rebalance: int = 60_000
) -> MemberMetadata:
    return MemberMetadata(
        member_id=member_id,
        group_instance_id=instance_id,
        client_id="c",
        client_host="/127.0.0.1",
        rebalance_timeout=rebalance,
        session_timeout=10_000,
        subscription=b"r",
        assignment=b"a",
    )


def value(
    *members: MemberMetadata,
    leader: str | None = "m",
    protocol: str | None = "range",
    timestamp_ms: int = 5,
) -> GroupMetadataValue:
    return GroupMetadataValue(
        protocol_type="consumer",
        generation=3,
        protocol=protocol,
        leader=leader,
        current_state_timestamp=timestamp_ms,
        members=members,
    )


def test_loaded_group_writes_the_record_that_it_was_loaded_from() -> None:
    recorded = value(member("m", "one"), member("n"))
    group = loaded_group(GROUP, recorded)
    assert group.state is STABLE
    record = group_record(group)
    assert (record.key, record.value) == (GroupMetadataKey(group=GROUP), recorded)
    other = group_record(group, {"n": b"b"}).value
    assert isinstance(other, GroupMetadataValue)
    assert [row.assignment for row in other.members] == [b"", b"b"]


def test_loaded_group_without_members_is_empty() -> None:
    group = loaded_group(GROUP, value(leader=None, protocol=None))
    assert group.state is EMPTY
    assert (group.generation_id, group.protocol_type, group.protocol_name) == (3, "consumer", None)
    assert group.subscribed_topics == frozenset()
    assert group.state_timestamp_ms == 5


def test_first_record_loads_a_group_without_a_protocol_type() -> None:
    record = new_group_record(GROUP, 9)
    assert isinstance(record.value, GroupMetadataValue)
    group = loaded_group(GROUP, record.value)
    assert (group.protocol_type, group.generation_id, group.state) == (None, 0, EMPTY)
    assert group_record(group) == record


def test_old_records_have_no_timestamp_and_no_rebalance_timeout() -> None:
    recorded = value(member("m", rebalance=-1), timestamp_ms=-1)
    group = loaded_group(GROUP, recorded)
    assert group.state_timestamp_ms is None
    assert group.members["m"].rebalance_timeout_ms == 10_000
    written = group_record(group).value
    assert isinstance(written, GroupMetadataValue)
    assert written.current_state_timestamp == -1


def test_what_no_coordinator_writes_is_passed_over() -> None:
    group = loaded_group(
        GROUP, value(member("m", "one"), member("m"), member("n", "one"), leader="x", protocol=None)
    )
    assert list(group.members) == ["m"]
    assert group.leader_id == "m"
    assert group.protocol_name == ""
    assert group.selected_protocol() == ""


def test_tombstone() -> None:
    record = tombstone(GROUP)
    assert (record.key, record.value) == (GroupMetadataKey(group=GROUP), None)


def test_leader_that_is_not_the_first_member() -> None:
    group = loaded_group(GROUP, value(member("m"), member("n"), leader="n"))
    assert group.leader_id == "n"


def test_record_of_a_stable_group_of_ours_loads_as_it_was() -> None:
    story = Story()
    first, second = story.stable(None, "two")
    group = loaded_group(GROUP, story.values[-1])
    assert group.members.keys() == {first, second}
    assert group.static_members == {"two": second}
    assert group.members == story.group.members


ONE = b"\0\0\0\0\0\1\0\1a\xff\xff\xff\xff"


@pytest.mark.parametrize(
    ("metadata", "topics"),
    [
        (ONE, {"a"}),
        (b"\0\0\0\0\0\1\0\0\xff\xff\xff\xff", {""}),
        (ONE + b"more of version 3", {"a"}),
        (b"\0\3" + ONE[2:], {"a"}),
        (b"\x7f\xff" + ONE[2:], {"a"}),
        (b"\0\0\0\0\0\0\0\0\0\2zz", set()),
        (b"\0\0\0\0\0\2\0\1a\0\1b\0\0\0\0", {"a", "b"}),
        (b"\xff\xff" + ONE[2:], None),  # version
        (b"\0\0\xff\xff\xff\xff\xff\xff\xff\xff", None),  # count
        (b"\0\0\0\0\0\2\0\1a\xff\xff\xff\xff", None),  # second topic
        (b"\0\0\0\0\0\1\xff\xffa\xff\xff\xff\xff", None),  # size of a topic
        (b"\0\0\0\0\0\1\0\1\xff\xff\xff\xff\xff", None),  # UTF-8
        (b"\0\0\0\0\0\0\0\0\0\3zz", None),  # user data
        (b"\0\0\0\0\0\1\0\1a", None),  # no user data
        (b"\0\0\0\0\0\1\0\2a", None),
        (b"\0\0\0\0\0\1\0", None),
        (b"\0\0\0", None),
        (b"", None),
    ],
)
def test_topics_of_a_subscription(metadata: bytes, topics: set[str] | None) -> None:
    assert subscribed_topics(metadata) == topics
