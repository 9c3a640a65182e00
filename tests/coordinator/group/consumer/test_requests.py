"""Checks of a heartbeat, its bodies, descriptions of groups, settings."""

from datetime import timedelta
from uuid import UUID

import pytest
from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
from kio.schema.consumer_group_heartbeat.v1.request import TopicPartitions as OwnedRow
from kio.schema.consumer_group_heartbeat.v1.response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32, i32Timedelta

from coordinator.group.consumer.requests import Heartbeat, HeartbeatAnswer, heartbeat_error
from coordinator.group.consumer.responses import (
    described_error,
    described_group,
    heartbeat_of,
    heartbeat_response,
)
from coordinator.group.consumer.settings import Bounded, ConsumerSettings, MigrationPolicy
from coordinator.records.consumer import ClassicMemberMetadata
from tests.coordinator.group.consumer.driver import Driver, cluster_of, topic_id
from wire.errors import ApiError, ErrorCode

A, B = topic_id("a"), topic_id("b")
JOIN = {
    "member_id": "m", "member_epoch": 0, "rebalance_timeout_ms": 1,
    "subscribed_topic_names": (), "owned": {},
}  # fmt: skip
LEAVE = {"member_id": "m", "member_epoch": -1}
BEAT = {"member_id": "m", "member_epoch": 3}


def error(fields: dict[str, object]) -> tuple[str, str | None] | None:
    found = heartbeat_error(Heartbeat(**{"group_id": "g"} | fields), ("uniform", "range"))
    return None if found is None else (found.code.name, found.message)


@pytest.mark.parametrize(
    "fields",
    [
        JOIN,
        BEAT,
        LEAVE,
        JOIN | {"member_id": "", "api_version": 0},
        JOIN | {"subscribed_topic_names": None, "subscribed_topic_regex": ""},
        JOIN | {"server_assignor": "range", "rack_id": "r", "instance_id": "i"},
        BEAT | {"owned": {A: (1,)}},
        LEAVE | {"member_epoch": -2, "instance_id": "i"},
        {"member_id": "", "member_epoch": -2, "instance_id": "i", "api_version": 0},
    ],
)
def test_requests_that_a_group_decides_on(fields: dict[str, object]) -> None:
    assert error(fields) is None


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (JOIN | {"member_id": ""}, "MemberId can't be empty."),
        (JOIN | {"member_id": " \t"}, "MemberId can't be empty."),
        (BEAT | {"member_id": "", "api_version": 0}, "MemberId can't be empty."),
        (BEAT | {"member_id": "", "member_epoch": 1, "api_version": 0}, "MemberId can't be empty."),
        (LEAVE | {"member_id": "", "api_version": 0}, "MemberId can't be empty."),
        (BEAT | {"group_id": ""}, "GroupId can't be empty."),
        (BEAT | {"instance_id": ""}, "InstanceId can't be empty."),
        (BEAT | {"rack_id": " "}, "RackId can't be empty."),
        (
            JOIN | {"rebalance_timeout_ms": None},
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        (JOIN | {"owned": None}, "TopicPartitions must be empty when (re-)joining."),
        (JOIN | {"owned": {A: (1,)}}, "TopicPartitions must be empty when (re-)joining."),
        (
            JOIN | {"subscribed_topic_names": None},
            (
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
                "(re-)joining."
            ),
        ),
        (LEAVE | {"member_epoch": -2}, "InstanceId can't be null."),
        (BEAT | {"member_epoch": -3}, "MemberEpoch is invalid."),
    ],
)
def test_requests_that_no_group_decides_on(fields: dict[str, object], text: str) -> None:
    assert error(fields) == ("invalid_request", text)


def test_an_assignor_that_the_broker_does_not_have() -> None:
    assert error(BEAT | {"server_assignor": "sticky"}) == (
        "unsupported_assignor",
        "ServerAssignor sticky is not supported. Supported assignors: uniform, range.",
    )


def milliseconds(count: int) -> i32Timedelta:
    return i32Timedelta.parse(timedelta(milliseconds=count))


def test_a_body_is_read() -> None:
    body = ConsumerGroupHeartbeatRequest(
        group_id=GroupId("g"),
        member_id="m",
        member_epoch=i32(4),
        instance_id="i",
        rack_id="r",
        rebalance_timeout=milliseconds(9),
        subscribed_topic_names=(TopicName("a"),),
        subscribed_topic_regex="x",
        server_assignor="range",
        topic_partitions=(
            OwnedRow(topic_id=UUID(bytes=A), partitions=(i32(1),)),
            OwnedRow(topic_id=None, partitions=()),
        ),
    )
    expected = Heartbeat(
        group_id="g", member_id="m", member_epoch=4, instance_id="i", rack_id="r",
        rebalance_timeout_ms=9, subscribed_topic_names=("a",), subscribed_topic_regex="x",
        server_assignor="range", owned={A: (1,), bytes(16): ()}, client_id="c",
        client_host="/1.2.3.4", api_version=0,
    )  # fmt: skip
    assert heartbeat_of(body, client_id="c", client_host="1.2.3.4", api_version=0) == expected
    short = ConsumerGroupHeartbeatRequest(
        group_id=GroupId("g"), member_id="m", member_epoch=i32(4), topic_partitions=None
    )
    assert heartbeat_of(short, client_id="c", client_host="::1", api_version=1) == Heartbeat(
        group_id="g", member_id="m", member_epoch=4, client_id="c", client_host="/::1"
    )


def test_an_answer_is_written() -> None:
    answer = HeartbeatAnswer(
        member_id="m", member_epoch=4, heartbeat_interval_ms=5_000, assignment={B: (0,), A: (1, 2)}
    )
    assert heartbeat_response(answer) == ConsumerGroupHeartbeatResponse(
        throttle_time=milliseconds(0),
        error_code=ErrorCode.none,
        member_id="m",
        member_epoch=i32(4),
        heartbeat_interval=milliseconds(5_000),
        assignment=Assignment(
            topic_partitions=(
                TopicPartitions(topic_id=UUID(bytes=A), partitions=(i32(1), i32(2))),
                TopicPartitions(topic_id=UUID(bytes=B), partitions=(i32(0),)),
            )
        ),
    )
    unchanged = heartbeat_response(HeartbeatAnswer(member_id="m", member_epoch=4))
    assert unchanged.assignment is None
    refused = heartbeat_response(ApiError(ErrorCode.fenced_member_epoch, "why"))
    assert (refused.error_code, refused.error_message) == (ErrorCode.fenced_member_epoch, "why")
    assert (refused.member_id, refused.member_epoch, refused.assignment) == (None, 0, None)


def test_a_group_is_described() -> None:
    driver = Driver({"a": 3, "b": 1})
    driver.join("m2", "a", instance_id="i", rack_id="r", client_id="c", client_host="/h")
    driver.join("m1", "a", "b", subscribed_topic_regex="x", server_assignor="range")
    driver.beat("m2", owned={A: (0, 1, 2)}, instance_id="i", client_id="c", client_host="/h")
    described = described_group(driver.group, cluster_of({"a": 3}), "uniform")
    assert (described.error_code, described.group_id) == (ErrorCode.none, "g")
    assert (described.group_state, described.assignor_name) == ("Reconciling", "range")
    assert (described.group_epoch, described.assignment_epoch) == (3, 3)
    assert described.authorized_operations == -(2**31)
    one, two = described.members
    assert (one.member_id, one.subscribed_topic_names, one.subscribed_topic_regex) == (
        "m1", ("a", "b"), "x"
    )  # fmt: skip
    assert (two.member_id, two.instance_id, two.rack_id, two.member_epoch) == ("m2", "i", "r", 2)
    assert (two.client_id, two.client_host, two.member_type) == ("c", "/h", 1)
    (row,) = two.assignment.topic_partitions
    assert (row.topic_id, row.topic_name) == (UUID(bytes=A), "a")
    assert sorted(row.partitions) == [0, 1, 2], "what is to be revoked too"
    (row,) = two.target_assignment.topic_partitions
    assert row.partitions == (0, 1)
    assert [row.topic_name for row in one.target_assignment.topic_partitions] == ["a"], "exists"


def test_a_member_of_the_classic_protocol_is_described_as_one() -> None:
    driver = Driver({"a": 1})
    driver.join("m1", "a")
    group = driver.group
    member = group.members["m1"].__class__(member_id="m1", classic=ClassicMemberMetadata())
    classic = group.__class__(group_id="g", members=group.members.set("m1", member))
    (row,) = described_group(classic, driver.cluster, "uniform").members
    assert row.member_type == 0
    assert described_group(classic, driver.cluster, "range").assignor_name == "range"


def test_a_group_that_is_not_described() -> None:
    found = described_error("g", ApiError(ErrorCode.group_id_not_found, "why"))
    assert (found.error_code, found.error_message) == (ErrorCode.group_id_not_found, "why")
    assert (found.group_id, found.group_state, found.members) == ("g", "", ())


def test_settings_have_kafkas_defaults() -> None:
    settings = ConsumerSettings()
    assert settings.session_timeout_ms == Bounded(default=45_000, minimum=45_000, maximum=60_000)
    assert settings.heartbeat_interval_ms == Bounded(default=5_000, minimum=5_000, maximum=15_000)
    assert settings.assignment_interval_ms == Bounded(default=1_000, minimum=0, maximum=15_000)
    assert settings.assignors == ("uniform", "range")
    of_group = settings.of_group({})
    assert (of_group.session_timeout_ms, of_group.heartbeat_interval_ms) == (45_000, 5_000)
    assert settings.of_group({"consumer.assignment.interval.ms": "7"}).assignment_interval_ms == 7


@pytest.mark.parametrize(
    ("policy", "upgrade", "downgrade"),
    [
        (MigrationPolicy.DISABLED, False, False),
        (MigrationPolicy.DOWNGRADE, False, True),
        (MigrationPolicy.UPGRADE, True, False),
        (MigrationPolicy.BIDIRECTIONAL, True, True),
    ],
)
def test_a_policy_says_which_conversions_happen(
    policy: MigrationPolicy, upgrade: bool, downgrade: bool
) -> None:
    assert (policy.is_upgrade_enabled, policy.is_downgrade_enabled) == (upgrade, downgrade)
