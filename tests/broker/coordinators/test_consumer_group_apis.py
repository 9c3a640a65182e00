"""ConsumerGroupHeartbeat and ConsumerGroupDescribe, asked of a whole broker."""

from typing import Any
from uuid import UUID

import msgspec
import pytest
from immutables import Map
from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32, i32Timedelta

from broker.apis.groups.consumer_groups import DENIED_TOPICS
from broker.events import TimeAdvanced
from coordinator.group.config import GroupCoordinatorConfig
from coordinator.group.consumer.settings import Bounded, ConsumerSettings
from metadata.features import GROUP_VERSION
from metadata.records import CONFIG_GROUP, FeatureLevelRecord
from quorum_controller.security.authorization import AccessRules, Operation, ResourceType
from tests.broker.coordinators.test_classic_apis import Members
from tests.broker.metadata_log import A, B
from wire.api_keys import CONSUMER_GROUP_DESCRIBE, CONSUMER_GROUP_HEARTBEAT
from wire.errors import ErrorCode

CONFIG = GroupCoordinatorConfig(
    consumer=ConsumerSettings(
        session_timeout_ms=Bounded(default=500, minimum=500, maximum=900),
        assignment_interval_ms=Bounded(default=0, minimum=0, maximum=0),
    )
)
GROUP, TOPIC = ResourceType.GROUP, ResourceType.TOPIC
NOT_REQUESTED = -(2**31)


class Consumers(Members):
    """A broker that is asked by consumers of KIP-848."""

    def beat(self, member_id: str, epoch: int = 0, *, version: int = 1, **fields: Any) -> Any:
        known = {
            "group_id": GroupId("g"),
            "rebalance_timeout": i32Timedelta.parse(milliseconds(1_000)),
            "subscribed_topic_names": (TopicName("a"),),
            "topic_partitions": (),
        }
        body = ConsumerGroupHeartbeatRequest(
            member_id=member_id, member_epoch=i32(epoch), **known | fields
        )
        return self.ask(CONSUMER_GROUP_HEARTBEAT, version, body)

    def described(self, *group_ids: str, version: int = 1, operations: bool = False) -> Any:
        body = ConsumerGroupDescribeRequest(
            group_ids=tuple(map(GroupId, group_ids)), include_authorized_operations=operations
        )
        return self.ask(CONSUMER_GROUP_DESCRIBE, version, body).groups


def milliseconds(ms: int) -> Any:
    from datetime import timedelta

    return timedelta(milliseconds=ms)


def started(*, is_enabled: bool = True, **settings: Any) -> Consumers:
    broker = Consumers(**{"groups": CONFIG, **settings})
    if is_enabled:
        broker.metadata.write(FeatureLevelRecord(name=GROUP_VERSION, feature_level=1))
    broker.offsets()
    return broker


def assigned(answer: Any) -> dict[bytes, tuple[int, ...]]:
    rows = answer.assignment.topic_partitions
    return {row.topic_id.bytes: tuple(sorted(row.partitions)) for row in rows}


@pytest.mark.parametrize("version", [0, 1])
def test_a_member_joins_beats_and_leaves(version: int) -> None:
    broker = started()
    answer = broker.beat("m", version=version)
    assert answer.error_code is ErrorCode.none
    assert (answer.member_id, answer.member_epoch) == ("m", 2)
    assert assigned(answer) == {A: (0, 1)}
    answer = broker.beat("m", 2, version=version, subscribed_topic_names=None)
    assert (answer.error_code, answer.assignment) == (ErrorCode.none, None)
    (row,) = broker.described("g", version=version)
    (member,) = row.members
    assert (row.group_state, row.group_epoch, row.assignor_name) == ("Stable", 2, "uniform")
    assert (member.member_id, member.client_id, member.client_host) == ("m", "client", "/127.0.0.1")
    assert [part.topic_id for part in member.assignment.topic_partitions] == [UUID(bytes=A)]
    assert version == 0 or member.member_type == 1
    assert row.authorized_operations == NOT_REQUESTED
    assert broker.beat("m", -1, version=version).member_epoch == -1
    assert broker.described("g", version=version)[0].group_state == "Empty"


def test_a_member_without_an_id_gets_one_in_the_first_version() -> None:
    broker = started()
    member_id = broker.beat("", version=0).member_id
    assert len(member_id) == 22
    assert broker.beat(member_id, 2, version=0).error_code is ErrorCode.none
    refused = broker.beat("", version=1)
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.invalid_request, "MemberId can't be empty.",
    )  # fmt: skip


@pytest.mark.parametrize("has_feature", [False, True])
def test_the_protocol_needs_its_feature_and_may_be_turned_off(has_feature: bool) -> None:
    off = msgspec.structs.replace(CONFIG, consumer=ConsumerSettings(is_enabled=False))
    broker = started(groups=off) if has_feature else started(is_enabled=False)
    assert broker.beat("m").error_code is ErrorCode.unsupported_version
    assert [row.error_code for row in broker.described("g", "")] == [
        ErrorCode.unsupported_version
    ] * 2


def test_the_coordinator_is_another_broker() -> None:
    broker = Consumers(groups=CONFIG)
    broker.metadata.write(FeatureLevelRecord(name=GROUP_VERSION, feature_level=1))
    broker.publish()
    assert broker.beat("m").error_code is ErrorCode.not_coordinator
    (row,) = broker.described("g")
    assert (row.error_code, row.group_id) == (ErrorCode.not_coordinator, "g")


def test_permissions_of_a_member() -> None:
    broker = started(access=AccessRules())
    assert broker.beat("m").error_code is ErrorCode.group_authorization_failed
    broker.allow(Operation.READ, "g", GROUP)
    assert broker.beat("m").error_code is ErrorCode.topic_authorization_failed
    assert broker.beat("m", subscribed_topic_names=()).error_code is ErrorCode.none
    broker.allow(Operation.DESCRIBE, "a", TOPIC)
    assert broker.beat("m").error_code is ErrorCode.none
    both = (TopicName("a"), TopicName("b"))
    answer = broker.beat("m", subscribed_topic_names=both)
    assert answer.error_code is ErrorCode.topic_authorization_failed


def test_a_regular_expression_matches_topics_that_may_be_described() -> None:
    broker = started(access=AccessRules())
    broker.allow(Operation.READ, "g", GROUP)
    broker.allow(Operation.DESCRIBE, "a", TOPIC)
    regex = {"subscribed_topic_names": None, "subscribed_topic_regex": "."}
    answer = broker.beat("m", **regex)
    assert (answer.error_code, assigned(answer)) == (ErrorCode.none, {})
    for _ in range(5):
        broker.step(TimeAdvanced())
        broker.settle()
    answer = broker.beat("m", answer.member_epoch, **regex)
    assert assigned(answer) == {A: (0, 1)}
    bad = broker.beat("m", answer.member_epoch, **regex | {"subscribed_topic_regex": "["})
    assert bad.error_code is ErrorCode.invalid_regular_expression


def test_permissions_of_who_describes() -> None:
    broker = started(access=AccessRules())
    broker.allow(Operation.READ, "g", GROUP)
    broker.allow(Operation.DESCRIBE, "a", TOPIC)
    broker.beat("m")
    rows = broker.described("g", "h")
    denied, described = rows
    assert (denied.group_id, denied.error_code) == ("h", ErrorCode.group_authorization_failed)
    assert described.error_code is ErrorCode.none, "READ implies DESCRIBE"
    (row,) = broker.described("g", operations=True)
    assert row.authorized_operations == (1 << Operation.READ) | (1 << Operation.DESCRIBE)
    broker.metadata.image = msgspec.structs.replace(
        broker.metadata.image,
        acls=Map({key: acl for key, acl in broker.metadata.image.acls.items()
                  if acl.resource_name != "a"}),
    )  # fmt: skip
    broker.publish()
    (row,) = broker.described("g")
    assert (row.error_code, row.error_message) == (
        ErrorCode.topic_authorization_failed, DENIED_TOPICS,
    )  # fmt: skip
    assert row.members == ()


def test_groups_that_are_not_described() -> None:
    broker = started()
    rows = broker.described("", "none")
    assert [(row.group_id, row.error_code.name) for row in rows] == [
        ("", "invalid_group_id"), ("none", "group_id_not_found"),
    ]  # fmt: skip
    assert rows[1].error_message == "Group none not found."


def test_a_member_that_is_silent_is_removed_by_the_groups_own_config() -> None:
    broker = started()
    image = broker.metadata.image
    configs = image.configs.set((CONFIG_GROUP, "g"), Map({"consumer.session.timeout.ms": "800"}))
    broker.metadata.image = msgspec.structs.replace(image, configs=configs)
    broker.publish()
    broker.beat("m")
    broker.pass_ms(799)
    assert len(broker.described("g")[0].members) == 1
    broker.pass_ms(1)
    assert broker.described("g")[0].members == ()


def test_offsets_are_committed_with_the_epoch_of_the_member() -> None:
    broker = started()
    broker.beat("m")
    committer = {"member_id": "m", "generation_id_or_member_epoch": 2}
    assert broker.commit({"a": [(0, 5)]}, **committer) == {"a": {0: ErrorCode.none}}
    committer["generation_id_or_member_epoch"] = 3
    stale = {"a": {0: ErrorCode.stale_member_epoch}}
    assert broker.commit({"a": [(0, 5)]}, **committer) == stale


@pytest.mark.parametrize("version", [9, 10])
def test_an_older_epoch_commits_what_the_member_had_in_it(version: int) -> None:
    broker = started()
    broker.beat("m")
    both = (TopicName("a"), TopicName("b"))
    assert broker.beat("m", 2, subscribed_topic_names=both).member_epoch == 3
    a, b = (A, B) if version >= 10 else ("a", "b")
    committer = {"member_id": "m", "generation_id_or_member_epoch": 2}
    found = broker.commit({a: [(0, 5)]}, version=version, **committer)
    assert found == {a: {0: ErrorCode.none}}
    found = broker.commit({b: [(0, 5)]}, version=version, **committer)
    assert found == {b: {0: ErrorCode.stale_member_epoch}}


def test_consumer_groups_are_listed_and_deleted() -> None:
    broker = started()
    broker.beat("m")
    rows = broker.list_groups().groups
    assert [(row.group_id, row.group_state, row.group_type) for row in rows] == [
        ("g", "Stable", "consumer")
    ]
    assert broker.list_groups(types=("classic",)).groups == ()
    assert broker.delete("g") == {"g": "non_empty_group"}
    broker.beat("m", -1)
    assert broker.delete("g") == {"g": "none"}
    assert broker.list_groups().groups == ()


def test_a_consumer_group_is_no_classic_one() -> None:
    broker = started()
    broker.beat("m")
    (row,) = broker.describe("g")
    assert row.error_code is ErrorCode.group_id_not_found


def test_the_next_leader_of_the_partition_goes_on() -> None:
    broker = started()
    broker.beat("m")
    again = Consumers(vfs=broker.vfs, has_offsets=True, groups=CONFIG)
    again.metadata.write(FeatureLevelRecord(name=GROUP_VERSION, feature_level=1))
    again.publish()
    again.settle()
    assert again.beat("m", 2, subscribed_topic_names=None).member_epoch == 2
    again.pass_ms(500)
    assert again.described("g")[0].group_state == "Empty"


def test_the_interval_of_assignments_changes_while_the_broker_runs() -> None:
    broker = started()
    key = "group.consumer.assignment.interval.ms"

    def epochs_after(member_id: str) -> tuple[int, bool]:
        broker.beat(member_id)
        (row,) = broker.described("g")
        return row.group_epoch, row.assignment_epoch == row.group_epoch

    assert epochs_after("m1") == (2, True)
    broker.metadata.broker_config(key, "100000")
    broker.metadata.broker_config(key, "0", "1")
    broker.publish()
    assert epochs_after("m2") == (3, True), "that of the broker itself is the first"
    broker.metadata.broker_config(key, None, "1")
    broker.publish()
    assert epochs_after("m3") == (4, False)
    broker.metadata.set(CONFIG_GROUP, "g", "consumer.assignment.interval.ms", "0")
    broker.publish()
    assert epochs_after("m4") == (5, True), "that of the group is before both"
