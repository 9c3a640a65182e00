"""Requests of members and of admin clients about classic groups, asked of a whole broker."""

from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import msgspec
import pytest
from immutables import Map

from broker.apis.access import Access
from broker.apis.groups import admin_groups
from broker.apis.groups.admin_groups import AdminApis
from broker.apis.groups.classic_groups import MemberApis
from broker.clients.call import forget
from broker.coordinators import loading
from broker.coordinators.groups import GroupCoordinator
from broker.events import ConnectionClosed, TimeAdvanced
from coordinator.group.classic.settings import ClassicSettings
from coordinator.group.config import GroupCoordinatorConfig
from coordinator.runtime.shard import Shard
from coordinator.runtime.shards import partition_for
from metadata.image import EMPTY
from network.turn_budget import TURN_UNITS_MAX
from quorum_controller.security.authorization import AccessRules, Operation, ResourceType
from tests.broker.apis.requests import call_of
from tests.broker.coordinators.coordinated import OFFSETS, PARTITIONS, Coordinated, answer_in
from wire.api_keys import (
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    SYNC_GROUP,
)
from wire.errors import ErrorCode
from wire.messages import codec

CONFIG = GroupCoordinatorConfig(classic=ClassicSettings(initial_rebalance_delay_ms=0))
NEWEST = {JOIN_GROUP: 9, SYNC_GROUP: 5, HEARTBEAT: 4, LEAVE_GROUP: 5, DELETE_GROUPS: 2}
GROUP = ResourceType.GROUP
NOT_REQUESTED = -(2**31)


class Members(Coordinated):
    """A broker that is asked by members of groups."""

    def of_member(self, key: int, version: int | None, body: Any) -> Any:
        return self.ask(key, NEWEST[key] if version is None else version, body)

    def join(self, member_id: str = "", version: int | None = None, **fields: Any) -> Any:
        new: Any = codec.newest(JOIN_GROUP, "request")
        body = new.JoinGroupRequest(
            **{
                "group_id": "g",
                "session_timeout": timedelta(seconds=10),
                "rebalance_timeout": timedelta(seconds=60),
                "member_id": member_id,
                "protocol_type": "consumer",
                "protocols": (new.JoinGroupRequestProtocol(name="range", metadata=b"r"),),
            }
            | fields
        )
        version = NEWEST[JOIN_GROUP] if version is None else version
        answer = self.ask(JOIN_GROUP, version, body)
        # Without an initial delay the join phase of a new group ends in the next step.
        return answer or self.later(JOIN_GROUP, version, TimeAdvanced())

    def sync(self, member_id: str, version: int | None = None, **fields: Any) -> Any:
        new: Any = codec.newest(SYNC_GROUP, "request")
        body = new.SyncGroupRequest(
            **{
                "group_id": "g",
                "generation_id": 1,
                "member_id": member_id,
                "protocol_type": "consumer",
                "protocol_name": "range",
                "assignments": (
                    new.SyncGroupRequestAssignment(member_id=member_id, assignment=b"a"),
                ),
            }
            | fields
        )
        return self.of_member(SYNC_GROUP, version, body)

    def heartbeat(self, member_id: str, version: int | None = None, **fields: Any) -> ErrorCode:
        new: Any = codec.newest(HEARTBEAT, "request")
        body = new.HeartbeatRequest(
            **{"group_id": "g", "generation_id": 1, "member_id": member_id} | fields
        )
        return ErrorCode(self.of_member(HEARTBEAT, version, body).error_code)

    def leave(self, *member_ids: str, version: int | None = None, group_id: str = "g") -> Any:
        new: Any = codec.newest(LEAVE_GROUP, "request")
        members = tuple(
            new.MemberIdentity(member_id=each, group_instance_id=None, reason=None)
            for each in member_ids
        )
        body = new.LeaveGroupRequest(group_id=group_id, members=members)
        return self.of_member(LEAVE_GROUP, version, body)

    def describe(self, *group_ids: str, version: int = 6, operations: bool = False) -> Any:
        new: Any = codec.newest(DESCRIBE_GROUPS, "request")
        body = new.DescribeGroupsRequest(groups=group_ids, include_authorized_operations=operations)
        return self.ask(DESCRIBE_GROUPS, version, body).groups

    def list_groups(self, *states: str, types: tuple[str, ...] = (), version: int = 5) -> Any:
        new: Any = codec.newest(LIST_GROUPS, "request")
        body = new.ListGroupsRequest(states_filter=states, types_filter=types)
        return self.ask(LIST_GROUPS, version, body)

    def delete(self, *group_ids: str, version: int = 2) -> dict[str, str] | None:
        new: Any = codec.newest(DELETE_GROUPS, "request")
        answer = self.ask(DELETE_GROUPS, version, new.DeleteGroupsRequest(groups_names=group_ids))
        if answer is None:
            return None
        return {str(row.group_id): ErrorCode(row.error_code).name for row in answer.results}

    def stable(self, group_id: str = "g", **fields: Any) -> str:
        told = self.join(group_id=group_id, **fields)
        joined = self.join(told.member_id, group_id=group_id, **fields)
        assert joined.error_code is ErrorCode.none
        synced = self.sync(told.member_id, group_id=group_id)
        assert synced.assignment == b"a"
        return str(told.member_id)


def started(**settings: Any) -> Members:
    broker = Members(**{"groups": CONFIG} | settings)
    broker.offsets()
    return broker


def test_a_member_joins_syncs_and_leaves() -> None:
    broker = started()
    told = broker.join()
    assert told.error_code is ErrorCode.member_id_required
    prefix, uuid = told.member_id.split("-", 1)
    assert prefix == "client"
    assert [len(part) for part in uuid.split("-")] == [8, 4, 4, 4, 12]
    joined = broker.join(told.member_id)
    assert (joined.error_code, joined.generation_id) == (ErrorCode.none, 1)
    assert (joined.protocol_type, joined.protocol_name) == ("consumer", "range")
    assert joined.leader == joined.member_id == told.member_id
    assert [row.member_id for row in joined.members] == [told.member_id]
    synced = broker.sync(told.member_id)
    assert (synced.error_code, synced.assignment) == (ErrorCode.none, b"a")
    assert broker.heartbeat(told.member_id) is ErrorCode.none
    left = broker.leave(told.member_id, "nobody")
    assert left.error_code is ErrorCode.none
    assert [row.error_code for row in left.members] == [
        ErrorCode.none,
        ErrorCode.unknown_member_id,
    ]


@pytest.mark.parametrize("version", range(10))
def test_join_in_every_version(version: int) -> None:
    broker = started()
    first = broker.join(version=version)
    if version >= 4:
        assert first.error_code is ErrorCode.member_id_required
        # A null name of the protocol came with version 7.
        assert first.protocol_name == (None if version >= 7 else "")
        first = broker.join(first.member_id, version=version)
    assert (first.error_code, first.protocol_name) == (ErrorCode.none, "range")
    broker.sync(first.member_id)
    shard = broker.groups.of("g")
    assert isinstance(shard, Shard)
    (member,) = shard.image.groups["g"].members
    assert member.rebalance_timeout == (60_000 if version else 10_000)
    assert (member.client_host, member.client_id) == ("/127.0.0.1", "client")


@pytest.mark.parametrize("version", range(6))
def test_sync_and_leave_in_every_version(version: int) -> None:
    broker = started()
    told = broker.join()
    broker.join(told.member_id)
    synced = broker.sync(told.member_id, version)
    assert (synced.error_code, synced.assignment) == (ErrorCode.none, b"a")
    assert broker.heartbeat(told.member_id, min(version, 4)) is ErrorCode.none
    unknown, left = (broker.leave(each, version=version) for each in ("m", told.member_id))
    codes = [
        answer.error_code if version < 3 else answer.members[0].error_code
        for answer in (unknown, left)
    ]
    assert codes == [ErrorCode.unknown_member_id, ErrorCode.none]
    assert unknown.error_code is (codes[0] if version < 3 else ErrorCode.none)


def test_sync_must_name_its_protocol_from_version_5() -> None:
    broker = started()
    member_id = broker.stable()
    for field in ("protocol_type", "protocol_name"):
        refused = broker.sync(member_id, **{field: None})
        assert refused.error_code is ErrorCode.inconsistent_group_protocol
    assert broker.sync(member_id, 4, protocol_type=None).error_code is ErrorCode.none


def test_group_ids_must_not_be_empty_and_sessions_have_bounds() -> None:
    broker = started()
    empty = ErrorCode.invalid_group_id
    joined = broker.join("m", group_id="")
    assert (joined.error_code, joined.member_id) == (empty, "m")
    assert broker.sync("m", group_id="").error_code is empty
    assert broker.heartbeat("m", group_id="") is empty
    assert broker.leave("m", group_id="").error_code is empty
    refused = broker.join(session_timeout=timedelta(milliseconds=5_999))
    assert refused.error_code is ErrorCode.invalid_session_timeout


def test_another_broker_is_the_coordinator() -> None:
    broker = Members(groups=CONFIG)
    expected = ErrorCode.not_coordinator
    joined = broker.join("m")
    assert (joined.error_code, joined.member_id) == (expected, "")
    assert broker.sync("m").error_code is expected
    assert broker.heartbeat("m") is expected
    assert broker.leave("m").error_code is expected
    assert broker.leave("m", version=1).error_code is expected
    (described,) = broker.describe("g")
    assert (described.error_code, described.group_state) == (expected, "")
    assert broker.delete("g") == {"g": "not_coordinator"}
    assert broker.list_groups().error_code is ErrorCode.none
    assert broker.list_groups().groups == ()


def test_while_a_group_loads_its_members_may_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    before = started()
    member_id = before.stable()
    number = partition_for("g", PARTITIONS)
    beside = [f"h{n}" for n in range(200) if partition_for(f"h{n}", PARTITIONS) == number]
    for group_id in beside[:30]:
        before.commit({"a": [(0, 5)]}, group=group_id)
    monkeypatch.setattr(loading, "RECORD_UNITS", TURN_UNITS_MAX)
    monkeypatch.setattr(loading, "RECORDS_PER_PIECE", 1)
    broker = Members(groups=CONFIG, vfs=before.vfs, has_offsets=True)
    code = ErrorCode.coordinator_load_in_progress
    assert broker.heartbeat(member_id) is ErrorCode.none
    assert broker.join(member_id).error_code is code
    assert broker.sync(member_id).error_code is code
    assert broker.leave(member_id).error_code is code
    assert broker.list_groups().error_code is code
    assert broker.describe("g")[0].error_code is code
    assert broker.groups.loading_count > 0
    broker.settle()
    assert broker.sync(member_id).assignment == b"a"
    assert broker.list_groups().error_code is ErrorCode.none


def test_a_parked_member_is_told_when_the_coordinator_moves() -> None:
    broker = Members(groups=CONFIG)
    broker.register_at("h2", 9093, node_id=2)
    broker.offsets(replicas=(1, 2))
    assert broker.join(group_instance_id="one") is not None
    broker.connection_id = 2
    assert broker.join(group_instance_id="two") is None
    number = partition_for("g", PARTITIONS)
    broker.metadata.change(number, OFFSETS, leader=2)
    told = answer_in(JOIN_GROUP, 9, broker.publish() + broker.settle())
    assert told.error_code is ErrorCode.not_coordinator


def test_frames_go_while_answers_wait() -> None:
    broker = started()
    member_id = broker.stable()
    groups = cast("GroupCoordinator", broker.groups)
    access = Access(None, lambda: EMPTY)
    apis = MemberApis(groups, access, lambda: bytes(16))
    for key, handler in (
        (JOIN_GROUP, apis.join),
        (SYNC_GROUP, apis.sync),
        (HEARTBEAT, apis.heartbeat),
        (LEAVE_GROUP, apis.leave),
        (DELETE_GROUPS, AdminApis(groups, access).delete),
    ):
        default = codec.default_request(key)
        fields: dict[str, Any] = {} if key == DELETE_GROUPS else {"group_id": "g"}
        if key == JOIN_GROUP:
            fields |= {"session_timeout": timedelta(seconds=10), "member_id": member_id}
        if key == SYNC_GROUP:
            fields |= {"protocol_type": "consumer", "protocol_name": "range"}
        body = replace(default, **fields)
        call = call_of(key, NEWEST[key], body, [])  # type: ignore[no-untyped-call]
        handler(call)
        assert (call.frame, call.withdraw) == (bytearray(), forget)


def test_a_client_that_is_gone_stays_a_member_until_its_session_ends() -> None:
    broker = started()
    member_id = broker.stable()
    broker.connection_id = 2
    assert broker.join(group_instance_id="static") is None
    broker.step(ConnectionClosed(2))
    broker.connection_id = 1
    assert broker.heartbeat(member_id) is ErrorCode.rebalance_in_progress
    joined = broker.join(member_id)
    assert len(joined.members) == 2


# Admin clients


def test_described_groups() -> None:
    broker = started()
    member_id = broker.stable()
    broker.commit({"a": [(0, 5)]}, group="simple")
    stable, simple, unknown = broker.describe("g", "simple", "none")
    assert (stable.group_state, stable.protocol_type, stable.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    assert [(row.member_id, row.member_assignment) for row in stable.members] == [(member_id, b"a")]
    assert stable.authorized_operations == NOT_REQUESTED
    assert (simple.group_state, simple.protocol_type, simple.members) == ("Empty", "", ())
    assert (unknown.group_state, unknown.error_code) == ("Dead", ErrorCode.group_id_not_found)
    assert unknown.error_message == "Group none not found."
    (old,) = broker.describe("none", version=5)
    assert (old.group_state, old.error_code) == ("Dead", ErrorCode.none)


def test_groups_of_other_kinds_are_no_classic_ones() -> None:
    broker = started()
    shard = broker.groups.of("g")
    assert isinstance(shard, Shard)
    groups = shard.committed.groups.set("g", object())
    shard.committed = msgspec.structs.replace(shard.committed, groups=groups)
    (described,) = broker.describe("g")
    assert (described.group_state, described.error_code) == ("Dead", ErrorCode.group_id_not_found)
    assert described.error_message == "Group g is not a classic group."
    assert broker.list_groups().groups == ()


@pytest.mark.parametrize("version", range(7))
def test_describe_list_and_delete_in_every_version(version: int) -> None:
    broker = started()
    broker.stable()
    (described,) = broker.describe("g", version=version)
    assert described.group_state == "Stable"
    (listed,) = broker.list_groups(version=min(version, 5)).groups
    assert (listed.group_id, listed.protocol_type) == ("g", "consumer")
    if version >= 4:
        assert listed.group_state == "Stable"
    if version >= 5:
        assert listed.group_type == "classic"
    assert broker.delete("g", version=min(version, 2)) == {"g": "non_empty_group"}


def test_operations_that_a_client_may_do() -> None:
    broker = started()
    broker.stable()
    described, unknown = broker.describe("g", "none", operations=True)
    assert described.authorized_operations == sum(1 << bit for bit in (3, 6, 8, 10, 11))
    assert unknown.authorized_operations == NOT_REQUESTED
    (old,) = broker.describe("none", version=5, operations=True)
    assert old.authorized_operations == sum(1 << bit for bit in (3, 6, 8, 10, 11))


def test_lists_are_filtered_by_state_and_type() -> None:
    broker = started()
    broker.stable()
    broker.stable("h")
    broker.commit({"a": [(0, 5)]}, group="simple")

    def listed(*states: str, types: tuple[str, ...] = ()) -> list[str]:
        groups = broker.list_groups(*states, types=types).groups
        return sorted(str(row.group_id) for row in groups)

    assert listed() == ["g", "h", "simple"]
    assert listed("Empty") == ["simple"]
    assert listed(" stable ") == ["g", "h"]
    assert listed("Empty", "Stable") == ["g", "h", "simple"]
    assert listed("Nonsense") == []
    assert listed(types=("CLASSIC",)) == ["g", "h", "simple"]
    assert listed(types=("consumer",)) == []
    assert listed("Stable", types=("consumer", "classic")) == ["g", "h"]


def test_a_long_list_is_made_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_groups, "LISTED_PER_PIECE", 2)
    monkeypatch.setattr(admin_groups, "LISTED_UNITS", 10_000)
    broker = started()
    for number in range(9):
        broker.commit({"a": [(0, 5)]}, group=f"g{number}")
    answer = broker.list_groups()
    assert answer is None
    for _ in range(20):
        answer = answer or answer_in(LIST_GROUPS, 5, broker.step(TimeAdvanced()))
    assert sorted(row.group_id for row in answer.groups) == [f"g{n}" for n in range(9)]


def test_many_groups_are_described_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_groups, "DESCRIBED_UNITS", 10_000)
    broker = started()
    broker.stable()
    asked = ("none", "g", "g")
    new: Any = codec.newest(DESCRIBE_GROUPS, "request")
    body = new.DescribeGroupsRequest(groups=asked, include_authorized_operations=False)
    answer = broker.ask(DESCRIBE_GROUPS, 6, body)
    assert answer is None
    for _ in range(6):
        answer = answer or broker.later(DESCRIBE_GROUPS, 6, TimeAdvanced())
    assert [row.group_state for row in answer.groups] == ["Dead", "Stable", "Stable"]


def test_deleted_groups_go_with_their_offsets() -> None:
    broker = started()
    broker.leave(broker.stable())
    broker.stable("h")
    broker.commit({"a": [(0, 5)]}, group="simple")
    assert broker.delete("g", "h", "simple", "none", "g", "") == {
        "g": "none",
        "h": "non_empty_group",
        "simple": "none",
        "none": "group_id_not_found",
        "": "group_id_not_found",
    }
    assert broker.fetch(("simple", {"a": [0]})) == {
        "simple": ("none", {"a": {0: (-1, -1, "", "none")}})
    }
    assert [row.group_id for row in broker.list_groups().groups] == ["h"]
    assert broker.delete() == {}


def test_commit_of_a_member_is_checked() -> None:
    broker = started()
    member_id = broker.stable()
    of_member: Any = {"member_id": member_id, "generation_id_or_member_epoch": 1}
    assert broker.commit({"a": [(0, 5)]}, **of_member) == {"a": {0: ErrorCode.none}}
    of_member["generation_id_or_member_epoch"] = 2
    assert broker.commit({"a": [(0, 5)]}, **of_member) == {"a": {0: ErrorCode.illegal_generation}}
    assert broker.commit({"a": [(0, 5)]}) == {"a": {0: ErrorCode.unknown_member_id}}


# Permissions


def denied() -> Members:
    return started(access=AccessRules(super_users=frozenset(), allows_without_acl=False))


def test_members_need_read_of_their_group() -> None:
    broker = denied()
    expected = ErrorCode.group_authorization_failed
    joined = broker.join("m")
    assert (joined.error_code, joined.member_id) == (expected, "")
    assert broker.sync("m").error_code is expected
    assert broker.heartbeat("m") is expected
    assert broker.leave("m").error_code is expected
    broker.allow(Operation.READ, "g", GROUP)
    assert broker.heartbeat(broker.stable()) is ErrorCode.none


def test_admin_clients_need_describe_and_delete_of_a_group() -> None:
    broker = denied()
    broker.allow(Operation.READ, "*", GROUP)
    broker.stable()
    broker.stable("h")
    # READ implies DESCRIBE.
    assert sorted(row.group_id for row in broker.list_groups().groups) == ["g", "h"]
    expected = "group_authorization_failed"
    assert broker.delete("g", "h") == {"g": expected, "h": expected}
    broker.allow(Operation.DELETE, "h", GROUP)
    assert broker.delete("g", "h", "none") == {
        "h": "non_empty_group",
        "g": expected,
        "none": expected,
    }
    (described,) = broker.describe("h", operations=True)
    assert described.authorized_operations == sum(1 << bit for bit in (3, 6, 8))


def test_groups_that_a_client_may_not_describe() -> None:
    broker = denied()
    broker.allow(Operation.READ, "h", GROUP)
    broker.stable("h")
    first, second = broker.describe("h", "g", operations=True)
    assert (first.group_id, first.error_code) == ("g", ErrorCode.group_authorization_failed)
    assert (first.group_state, first.authorized_operations) == ("", NOT_REQUESTED)
    assert (second.group_id, second.group_state) == ("h", "Stable")
    broker.allow(Operation.READ, "other", GROUP)
    broker.stable("other")
    assert sorted(row.group_id for row in broker.list_groups().groups) == ["h", "other"]


def test_list_without_permission_for_any_group() -> None:
    broker = denied()
    broker.allow(Operation.READ, "h", GROUP)
    broker.stable("h")
    image = broker.metadata.image
    broker.metadata.image = msgspec.structs.replace(image, acls=Map())
    broker.publish()
    assert broker.list_groups().groups == ()
    broker.allow(Operation.DESCRIBE, "kafka-cluster", ResourceType.CLUSTER)
    assert [row.group_id for row in broker.list_groups().groups] == ["h"]
