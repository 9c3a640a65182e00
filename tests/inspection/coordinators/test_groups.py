"""`/v1/groups`: groups of the coordinator of this node, with members, offsets and lag."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from immutables import Map

from coordinator.group.consumer.client_protocol import assignment_bytes
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import Member
from coordinator.group.image import GroupsImage, OffsetAndMetadata, SimpleGroup
from coordinator.records.group import GroupMetadataValue, MemberMetadata
from coordinator.records.kinds import CONSUMER_OFFSETS
from coordinator.runtime.shards import partition_for
from inspection.coordinators import group_views, held
from inspection.coordinators.group_views import group_row, group_view, state_of
from inspection.coordinators.pages import page
from inspection.coordinators.shares import CoordinatorShare, coordinator_of, shares
from tests.broker.coordinators.coordinated import PARTITIONS
from tests.broker.metadata_log import A, B, MetadataLog
from tests.inspection.conftest import Site
from tests.inspection.coordinators.conftest import open_site
from tests.storage.test_unified_log import produced
from wire.types import Offset, TopicId

C = TopicId(b"c" * 16)
"""A topic without replicas here."""


def metadata() -> Any:
    log = MetadataLog()
    log.register()
    log.topic("a", partitions=2)
    log.topic("b", B)
    return log.image


def committed(offset: int, at: int = 0) -> OffsetAndMetadata:
    return OffsetAndMetadata(
        offset=offset, leader_epoch=None, metadata="", commit_timestamp_ms=70 + at,
        expire_timestamp_ms=None, topic_id=A, record_offset=Offset(at),
    )  # fmt: skip


def classic(*members: MemberMetadata, protocol_type: str = "consumer") -> GroupMetadataValue:
    return GroupMetadataValue(
        protocol_type=protocol_type, generation=4, protocol="range", leader="m1", members=members
    )


def classic_member(member_id: str, subscription: bytes = b"", assignment: bytes = b"") -> Any:
    return MemberMetadata(
        member_id=member_id, group_instance_id=f"i-{member_id}", client_id="c", client_host="/h",
        rebalance_timeout=1, session_timeout=2, subscription=subscription, assignment=assignment,
    )  # fmt: skip


SUBSCRIPTION = b"\0\0\0\0\0\2\0\1b\0\1a\xff\xff\xff\xff"

CONSUMER = ConsumerGroup(
    group_id="k",
    group_epoch=6,
    assignment_epoch=5,
    members=Map({
        "m2": Member(member_id="m2", member_epoch=5, client_id="c2", client_host="/2",
                     subscribed_topic_names=("a",), assigned={A: {1: 5, 0: 4}},
                     pending_revocation={B: {0: 3}, C: {0: 3}, A: {0: 2}}),
        "m1": Member(member_id="m1", subscribed_topic_regex="a.*", instance_id="i1"),
    }),
    targets=Map({"m2": {A: (0,)}}),
    assignor_counts=Map({"range": 1}),
)  # fmt: skip
IMAGE = GroupsImage(
    groups=Map({
        "g": classic(classic_member("m2"), classic_member("m1", SUBSCRIPTION,
                     assignment_bytes({"b": (0,), "a": (1, 0)}, 0))),
        "k": CONSUMER, "s": SimpleGroup(), "e": classic(),
    }),
    offsets=Map({
        "g": Map({("a", 0): committed(3), ("a", 1): committed(9, 1), ("b", 0): committed(1),
                  ("gone", 0): committed(5)}),
    }),
    open=Map({"g": Map({("a", 1): frozenset({7})})}),
)  # fmt: skip
ENDS = {(A, 0): 5, (A, 1): 8}


def row(name: str, states: dict[str, str] | None = None, ends: Any = ENDS) -> Any:
    return group_row(name, 2, IMAGE, states or {}, ends, metadata())


def view(name: str, offsets: Any = (), state: str | None = None) -> Any:
    return group_view(
        name, IMAGE, offsets, state=state, ends=ENDS, cluster=metadata(), default_assignor="uniform"
    )


def test_a_row_has_the_lag_that_is_known_here() -> None:
    found = row("g")
    assert (found.id, found.partition, found.type, found.protocol_type) == (
        "g", 2, "classic", "consumer",
    )  # fmt: skip
    assert (found.state, found.member_count, found.offset_count) == ("Stable", 2, 4)
    assert (found.lag, found.unknown_lag_count) == (2, 2), "a-1 is read to beyond its end here"
    assert (row("g", ends={}).lag, row("g", ends={}).unknown_lag_count) == (None, 4)
    assert row("g", {"g": "PreparingRebalance"}).state == "PreparingRebalance"


def test_rows_of_other_kinds() -> None:
    found = row("k")
    assert (found.type, found.protocol_type, found.state, found.member_count) == (
        "consumer", "consumer", "Assigning", 2,
    )  # fmt: skip
    assert (found.offset_count, found.lag, found.unknown_lag_count) == (0, None, 0)
    found = row("s")
    assert (found.type, found.protocol_type, found.state, found.member_count) == (
        "classic", "", "Empty", 0,
    )  # fmt: skip
    assert state_of(IMAGE.groups["e"], None) == "Empty"
    assert state_of(CONSUMER, "Stable") == "Assigning", "its image says all"


def test_a_classic_group_whole() -> None:
    found = view("g", [("a", 0), ("a", 1), ("gone", 0)], "Stable")
    assert (found.epoch, found.assignment_epoch, found.assignor, found.leader) == (
        4, None, "range", "m1",
    )  # fmt: skip
    assert (found.member_count, found.offset_count, found.lag) == (2, 4, 2)
    first, second = found.members
    assert (first.id, first.instance_id, first.client_id, first.client_host) == (
        "m1", "i-m1", "c", "/h",
    )  # fmt: skip
    assert (first.epoch, first.state, first.target, first.subscribed_regex) == (None,) * 4
    assert first.subscribed_topics == ["a", "b"]
    assert [(each.topic, each.partitions) for each in first.assignment] == [
        ("a", [0, 1]), ("b", [0]),
    ]  # fmt: skip
    assert (second.id, second.subscribed_topics, second.assignment) == ("m2", [], [])
    shown = [
        (o.topic, o.partition, o.offset, o.commit_timestamp_ms, o.is_pending, o.log_end_offset,
         o.lag) for o in found.offsets
    ]  # fmt: skip
    assert shown == [
        ("a", 0, 3, 70, False, 5, 2),
        ("a", 1, 9, 71, True, 8, 0),
        ("gone", 0, 5, 70, False, None, None),
    ]


def test_bytes_of_another_protocol_are_not_read() -> None:
    member = classic_member("m1", SUBSCRIPTION, b"")
    group = classic(member, protocol_type="connect")
    image = msgspec.structs.replace(IMAGE, groups=Map({"c": group}))
    found = group_view(
        "c", image, (), state=None, ends={}, cluster=metadata(), default_assignor="x"
    )
    assert found.members[0].subscribed_topics == []
    assert (found.lag, found.offsets, found.protocol_type) == (None, [], "connect")


def test_a_consumer_group_whole() -> None:
    found = view("k", state="ignored")
    assert (found.epoch, found.assignment_epoch, found.assignor, found.leader) == (
        6, 5, "range", None,
    )  # fmt: skip
    first, second = found.members
    assert (first.id, first.instance_id, first.subscribed_regex, first.epoch, first.target) == (
        "m1", "i1", "a.*", 0, [],
    )  # fmt: skip
    assert (second.epoch, second.state, second.subscribed_topics) == (5, "stable", ["a"])
    assert [(each.topic, each.partitions) for each in second.assignment] == [
        ("a", [0, 1]), ("b", [0]),
    ]  # fmt: skip
    assert [(each.topic, each.partitions) for each in second.target] == [("a", [0])]
    simple = view("s")
    assert (simple.epoch, simple.assignor, simple.members) == (None, None, [])


def test_members_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_views, "MEMBERS_MAX", 1)
    for name in ("g", "k"):
        found = view(name)
        assert ([each.id for each in found.members], found.member_count) == (["m1"], 2)


def test_pages_go_over_partitions_by_id() -> None:
    images = {0: "bd", 3: "aec"}

    def of(after: str | None, limit: int) -> Any:
        return page(images, list, after, limit)

    assert of(None, 2) == ([("a", 3), ("b", 0)], "b")
    assert of("b", 3) == ([("c", 3), ("d", 0), ("e", 3)], None)
    assert of("b", 2) == ([("c", 3), ("d", 0)], "d")
    assert of("e", 2) == ([], None)


def test_coordinators_are_the_leaders_of_the_partitions() -> None:
    log = MetadataLog()
    assert shares(log.image, CONSUMER_OFFSETS) == []
    assert coordinator_of(log.image, CONSUMER_OFFSETS, "g") is None
    log.topic(CONSUMER_OFFSETS, C, partitions=4, leader=2)
    log.change(1, C, leader=5)
    log.change(3, C, leader=-1)
    assert shares(log.image, CONSUMER_OFFSETS) == [
        CoordinatorShare(node_id=2, partition_count=2),
        CoordinatorShare(node_id=5, partition_count=1),
        CoordinatorShare(node_id=None, partition_count=1),
    ]
    by_partition = {
        found.partition: found.node_id
        for name in "abcdefgh"
        if (found := coordinator_of(log.image, CONSUMER_OFFSETS, name)) is not None
    }
    assert by_partition == {0: 2, 1: 5, 2: 2, 3: None}
    found = coordinator_of(log.image, CONSUMER_OFFSETS, "g")
    assert found is not None
    assert found.partition == partition_for("g", 4)


# ---- over HTTP -----------------------------------------------------------------------------------


async def test_groups_of_a_broker_with_lag(coordinating: Any) -> None:
    site, members, side = coordinating
    assert await site.get("/v1/groups") | {"metadata_offset": 0} == {
        "metadata_offset": 0, "groups": [], "group_count": 0, "loading_count": 0,
        "coordinators": [{"node_id": 1, "partition_count": PARTITIONS}], "next_after": None,
    }  # fmt: skip
    members.broker._replicas.append(
        {(A, 0): produced(1, 2, 3, 4, 5)}, required_acks=1, timeout_ms=0, answer=lambda _: None
    )
    members.commit({"a": [(0, 3), (1, 0)]}, group="g1")
    members.stable("g2")
    members.join(group_id="g2", version=3)
    members.commit({"a": [(0, 5)]}, group="g3")
    members.settle()
    side.questions = 0
    answer = await site.get("/v1/groups?limit=2")
    assert side.questions == 2
    assert [(g["id"], g["state"], g["lag"], g["unknown_lag_count"]) for g in answer["groups"]] == [
        ("g1", "Empty", 2, 0), ("g2", "PreparingRebalance", None, 0),
    ]  # fmt: skip
    assert (answer["group_count"], answer["next_after"]) == (3, "g2")
    assert answer["groups"][0]["partition"] == partition_for("g1", PARTITIONS)
    rest = await site.get("/v1/groups?limit=2&after=g2")
    assert [g["id"] for g in rest["groups"]] == ["g3"]
    assert (rest["groups"][0]["lag"], rest["next_after"]) == (0, None)


async def test_many_offsets_are_looked_at_on_another_thread(
    coordinating: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, members, _ = coordinating
    members.commit({"a": [(0, 0), (1, 0)]}, group="g1")
    members.settle()
    elsewhere = 0

    async def to_thread(work: Callable[[], Any]) -> Any:
        nonlocal elsewhere
        elsewhere += 1
        return work()

    monkeypatch.setattr(asyncio, "to_thread", to_thread)
    for most, counts in ((2, (0, 0)), (1, (1, 2))):
        monkeypatch.setattr(held, "IDS_INLINE", most)
        for path, count in zip(("/v1/groups", "/v1/groups/g1"), counts, strict=True):
            await site.get(path)
            assert elsewhere == count, f"{path} with {most=}"


async def test_one_group_with_a_page_of_its_offsets(coordinating: Any) -> None:
    site, members, _ = coordinating
    members.commit({"a": [(0, 0), (1, 0)], "b": [(0, 0)]}, group="g/1")
    answer = await site.get("/v1/groups/g%2F1?limit=2")
    assert answer["coordinator"] == {"node_id": 1, "partition": partition_for("g/1", PARTITIONS)}
    group = answer["group"]
    assert (group["id"], group["type"], group["state"]) == ("g/1", "classic", "Empty")
    assert [(o["topic"], o["partition"]) for o in group["offsets"]] == [("a", 0), ("a", 1)]
    assert (group["offset_count"], group["lag"], answer["next_after"]) == (3, 0, "a-1")
    rest = await site.get("/v1/groups/g%2F1?after=a-1")
    assert [(o["topic"], o["partition"]) for o in rest["group"]["offsets"]] == [("b", 0)]
    assert rest["next_after"] is None


async def test_a_group_elsewhere_names_its_coordinator(coordinating: Any) -> None:
    site, members, _ = coordinating
    number = partition_for("g", PARTITIONS)
    members.commit({"a": [(0, 0)]})
    members.metadata.change(number, b"o" * 16, leader=2, isr=(1, 2), replicas=(1, 2))
    members.publish()
    members.settle()
    answer = await site.get("/v1/groups/g")
    assert answer["group"] is None
    assert answer["coordinator"] == {"node_id": 2, "partition": number}
    listed = await site.get("/v1/groups")
    assert listed["groups"] == []
    assert {"node_id": 2, "partition_count": 1} in listed["coordinators"]


@pytest.mark.parametrize(
    ("path", "status", "parameter"),
    [
        ("/v1/groups/nobody", 404, "id"),
        ("/v1/groups?limit=0", 400, "limit"),
        ("/v1/groups?limit=501", 400, "limit"),
        ("/v1/groups?state=Stable", 400, "state"),
        ("/v1/groups/g?limit=1001", 400, "limit"),
        ("/v1/groups/g?after=a", 400, "after"),
    ],
)
async def test_what_is_refused(coordinating: Any, path: str, status: int, parameter: str) -> None:
    assert (await coordinating[0].get(path, status))["parameter"] == parameter


async def test_records_that_do_not_answer_are_503_and_a_controller_has_no_groups(
    coordinating: Any, one_world: Any
) -> None:
    site, _, side = coordinating
    side.is_stalled = True
    for path in ("/v1/groups", "/v1/groups/g", "/v1/transactions", "/v1/transactions/x"):
        assert "does not answer" in (await site.get(path, 503))["detail"]
    alone: Site = await open_site(one_world, None)
    for path in ("/v1/groups", "/v1/transactions"):
        assert "no broker" in (await alone.get(path, 404))["detail"]
    for path in ("/v1/groups/g", "/v1/transactions/x"):
        assert (await alone.get(path, 404))["parameter"] == "id"
    await alone.client.close()
