"""Groups with members of both protocols: upgrade, life together, downgrade."""

import msgspec

from coordinator.group.classic.member import MemberProtocol
from coordinator.group.consumer.client_protocol import assignment_of
from coordinator.group.consumer.member import assignment_record
from coordinator.group.consumer.requests import HeartbeatAnswer
from coordinator.group.consumer.settings import Bounded, ConsumerSettings, MigrationPolicy
from coordinator.records.group import GroupMetadataValue
from coordinator.records.schema import CoordinatorRecord
from tests.coordinator.group.consumer.driver import cluster_of
from tests.coordinator.group.consumer.old_members import (
    A,
    assigned,
    classic_group,
    heartbeat,
    join,
    leave,
    metadata,
    sync,
    together,
)
from tests.coordinator.group.consumer.shard_driver import ShardDriver, at_offset
from wire.errors import ApiError, ErrorCode


def test_a_member_of_the_new_protocol_makes_a_consumer_group() -> None:
    setup = ShardDriver()
    old = classic_group(setup)
    before = len(setup.log.batches)
    answer = setup.join("m1", "a")
    assert setup.kinds(before) == [
        "classic-", "member", "epoch", "target", "assignment", "current",
        "member", "epoch", "target", "target", "assignment", "current",
    ]  # fmt: skip
    member = setup.group.members[old]
    assert member.classic is not None
    assert member.classic.session_timeout_ms == 700
    assert [each.name for each in member.classic.supported_protocols] == ["range"]
    assert member.assigned == {A: {0: 1, 1: 1}}
    assert (member.member_epoch, member.previous_member_epoch) == (1, 1)
    assert (member.client_id, member.client_host, member.rebalance_timeout_ms) == ("c", "/h", 400)
    assert setup.group.group_epoch == 2
    assert answer.assignment == {}, "the other has them"
    assert dict(setup.group.classic_protocol_counts) == {"range": 1}


def test_old_and_new_members_share_the_partitions() -> None:
    setup = ShardDriver()
    old = classic_group(setup)
    setup.join("m1", "a")
    assert heartbeat(setup, old, 1) == "rebalance_in_progress"
    joined = setup.ask_join(join(old, metadata("a", owned=(0, 1))))
    assert (joined.error_code, joined.generation_id, joined.leader) == (ErrorCode.none, 1, "")
    assert (joined.protocol_type, joined.protocol_name) == ("consumer", "range")
    assert (joined.member_id, joined.members) == (old, ())
    kept = assigned(setup, old, 1)
    assert len(kept["a"]) == 1
    assert heartbeat(setup, old, 1) == "rebalance_in_progress", "it has to revoke"
    joined = setup.ask_join(join(old, metadata("a", owned=kept["a"])))
    assert joined.generation_id == 2
    assert assigned(setup, old, 2) == kept
    assert heartbeat(setup, old, 2) == "none"
    answer = setup.beat("m1", 2)
    assert isinstance(answer, HeartbeatAnswer)
    assert answer.assignment is not None
    assert {*answer.assignment[A], *kept["a"]} == {0, 1}
    assert setup.group.state == "Stable"


def test_an_old_member_that_subscribes_other_topics_begins_a_rebalance() -> None:
    setup = ShardDriver()
    old = together(setup)
    before = setup.counts.consumer_rebalances
    setup.ask_join(join(old, metadata("a", "b")))
    assert setup.counts.consumer_rebalances == before + 1
    setup.ask_join(join(old, metadata("a", "b")))
    assert setup.counts.consumer_rebalances == before + 1


def test_the_last_member_of_the_new_protocol_leaves_a_classic_group() -> None:
    setup = ShardDriver()
    old = together(setup)
    before = len(setup.log.batches)
    setup.beat("m1", -1)
    assert setup.kinds(before) == [
        "current-", "current-", "target-", "target-", "assignment-", "member-", "member-",
        "metadata-", "epoch-", "classic",
    ]  # fmt: skip
    value = setup.shard.image.groups["g"]
    assert isinstance(value, GroupMetadataValue)
    assert (value.generation, value.protocol, value.leader) == (2, "range", old)
    assert value.current_state_timestamp == setup.clock.wall_ms
    (row,) = value.members
    assert (row.member_id, row.session_timeout, row.rebalance_timeout) == (old, 700, 400)
    assert len(assignment_of(row.assignment)[0]["a"]) == 1
    assert heartbeat(setup, old, 2) == "rebalance_in_progress"
    joined = setup.ask_join(join(old))
    assert (joined.error_code, joined.generation_id, joined.leader) == (ErrorCode.none, 3, old)
    assert setup.groups.next_ms() is None
    assert setup.groups.listed("g") is None


def test_a_member_that_is_silent_leaves_a_classic_group_too() -> None:
    setup = ShardDriver()
    old = together(setup)
    setup.pass_ms(600)
    assert heartbeat(setup, old, 2) == "none"
    assert setup.pass_ms(400)[-1] == "classic"
    assert heartbeat(setup, old, 2) == "rebalance_in_progress"


def test_a_downgrade_that_is_lost_leaves_the_members_with_sessions() -> None:
    setup = ShardDriver()
    old = together(setup)
    setup.log.refusing = ErrorCode.not_enough_replicas
    assert isinstance(setup.beat("m1", -1), ApiError)
    setup.log.refusing = None
    assert set(setup.group.members) == {old, "m1"}
    assert heartbeat(setup, old, 2) == "none"
    assert isinstance(setup.beat("m1", 3), ApiError)
    assert isinstance(setup.beat("m1", 2), HeartbeatAnswer)
    assert setup.groups.next_ms() is not None


def policy(name: MigrationPolicy, **fields) -> ShardDriver:
    return ShardDriver(
        ConsumerSettings(
            assignment_interval_ms=Bounded(default=0, minimum=0, maximum=0),
            migration_policy=name,
            **fields,
        )
    )


def test_without_downgrades_the_group_stays() -> None:
    for setup in (
        policy(MigrationPolicy.UPGRADE),
        policy(MigrationPolicy.BIDIRECTIONAL, classic_max_size=0),
    ):
        together(setup)
        before = len(setup.log.batches)
        setup.beat("m1", -1)
        assert setup.kinds(before) == ["current-", "target-", "member-", "epoch"]


def test_a_group_of_the_largest_classic_size_is_downgraded() -> None:
    setup = policy(MigrationPolicy.BIDIRECTIONAL, classic_max_size=1)
    together(setup)
    setup.beat("m1", -1)
    assert isinstance(setup.shard.image.groups["g"], GroupMetadataValue)


def refused_upgrade(setup: ShardDriver) -> str | None:
    answer = setup.beat("m1", 0, owned={}, subscribed_topic_names=("a",), rebalance_timeout_ms=1)
    assert isinstance(answer, ApiError)
    assert answer.code is ErrorCode.group_id_not_found
    assert isinstance(setup.shard.image.groups["g"], GroupMetadataValue)
    return answer.message


def test_groups_that_stay_classic() -> None:
    start = "Cannot upgrade classic group g to consumer group because "
    for name in (MigrationPolicy.DISABLED, MigrationPolicy.DOWNGRADE):
        setup = policy(name)
        classic_group(setup)
        assert refused_upgrade(setup) == start + "online upgrade is disabled."
    setup = policy(MigrationPolicy.UPGRADE, max_size=0)
    classic_group(setup)
    text = "the group size exceeds the consumer group maximum size."
    assert refused_upgrade(setup) == start + text
    setup = policy(MigrationPolicy.UPGRADE, max_size=1)
    classic_group(setup)
    answer = setup.beat("m1", 0, owned={}, subscribed_topic_names=("a",), rebalance_timeout_ms=1)
    assert isinstance(answer, ApiError)
    assert answer.code is ErrorCode.group_max_size_reached, "it may be converted, and is full"
    setup = ShardDriver()
    classic_group(setup, user_data=b"x")
    found = refused_upgrade(setup)
    assert found is not None
    assert found.startswith(start + "an unsupported custom assignor is in use. Please refer to")


def test_a_group_of_connect_stays_classic() -> None:
    setup = ShardDriver()
    asked = setup.ask_join(join("", protocol_type="connect"))
    setup.ask_join(join(asked.member_id, protocol_type="connect"))
    text = "the group does not use the consumer embedded protocol."
    assert refused_upgrade(setup) == (
        f"Cannot upgrade classic group g to consumer group because {text}"
    )


def test_metadata_that_cannot_be_read_stays_classic() -> None:
    setup = ShardDriver()
    asked = setup.ask_join(join("", b"\0\1"))
    setup.ask_join(join(asked.member_id, b"\0\1"))
    setup.pass_ms(1)
    assert refused_upgrade(setup) == (
        "Cannot upgrade classic group g to consumer group because the embedded consumer protocol "
        "is malformed."
    )


def test_a_group_before_its_first_generation_is_not_converted() -> None:
    setup = ShardDriver()
    asked = setup.ask_join(join(""))
    setup.ask_join(join(asked.member_id))
    answer = setup.beat("m1", 0, owned={}, subscribed_topic_names=("a",), rebalance_timeout_ms=1)
    assert answer == ApiError(ErrorCode.unknown_server_error)


def test_who_waits_in_a_classic_group_is_to_join_again() -> None:
    setup = ShardDriver()
    old = classic_group(setup)
    found: list = []
    setup.requests.join(join(""), "uuid", found.append)
    other = found.pop().member_id
    setup.requests.join(join(other), "uuid", found.append)
    setup.log.commit(setup.shard)
    assert found == []
    setup.join("m1", "a")
    (answer,) = found
    assert (answer.error_code, answer.member_id) == (ErrorCode.rebalance_in_progress, other)
    assert set(setup.group.members) == {old, other, "m1"}
    assert setup.group.members[other].assigned == {}


def test_joins_that_a_consumer_group_refuses() -> None:
    setup = ShardDriver()
    old = together(setup)
    for fields in ({"protocol_type": "connect"}, {"protocols": (MemberProtocol("other", b""),)}):
        answer = setup.ask_join(join("", **fields))
        assert answer.error_code is ErrorCode.inconsistent_group_protocol
    answer = setup.ask_join(join(old, b"\0"))
    assert answer.error_code is ErrorCode.unknown_server_error
    answer = setup.ask_join(join("x", instance_id="i9"))
    assert answer.error_code is ErrorCode.unknown_member_id
    setup = policy(MigrationPolicy.DISABLED)
    setup.join("m1", "a")
    answer = setup.ask_join(join(""))
    assert answer.error_code is ErrorCode.inconsistent_group_protocol
    setup = policy(MigrationPolicy.BIDIRECTIONAL, max_size=1)
    setup.join("m1", "a")
    assert setup.ask_join(join("")).error_code is ErrorCode.group_max_size_reached


def test_an_old_member_joins_a_consumer_group() -> None:
    setup = ShardDriver()
    setup.join("m1", "a")
    asked = setup.ask_join(join(""))
    assert asked.error_code is ErrorCode.member_id_required
    assert set(setup.group.members) == {"m1"}
    joined = setup.ask_join(join(asked.member_id, metadata("a", rack="r")))
    assert (joined.error_code, joined.generation_id) == (ErrorCode.none, 3)
    assert setup.group.members[asked.member_id].rack_id == "r"
    assert assigned(setup, asked.member_id, 3) == {}
    assert heartbeat(setup, asked.member_id, 3) == "none", "it waits for the other"
    setup.beat("m1", 2, owned={A: (0, 1)})
    (owned,) = setup.group.members["m1"].assigned.values()
    setup.beat("m1", 2, owned={A: tuple(owned)})
    assert heartbeat(setup, asked.member_id, 3) == "rebalance_in_progress"
    setup.ask_join(join(asked.member_id))
    assert len(assigned(setup, asked.member_id, 3)["a"]) == 1


def test_a_new_old_member_is_static_from_its_first_join() -> None:
    setup = ShardDriver()
    setup.join("m1", "a")
    joined = setup.ask_join(join("", instance_id="i"))
    assert joined.error_code is ErrorCode.none
    assert setup.group.members[joined.member_id].instance_id == "i"


def test_a_first_version_needs_no_second_join() -> None:
    setup = ShardDriver()
    setup.join("m1", "a")
    joined = setup.ask_join(join("", is_id_required=False))
    assert joined.error_code is ErrorCode.none
    assert joined.member_id in setup.group.members


def test_an_old_member_is_removed_if_it_does_not_sync_join_or_heartbeat() -> None:
    setup = ShardDriver()
    setup.join("m1", "a")
    joined = setup.ask_join(join("", is_id_required=False))
    setup.pass_ms(399)
    assert joined.member_id in setup.group.members
    setup.pass_ms(1)
    assert joined.member_id not in setup.group.members, "no SyncGroup in its rebalance timeout"

    old = together(ShardDriver()) and together(setup := ShardDriver())
    setup.cluster = at_offset(cluster_of({"a": 3}), 51)
    setup.beat("m1", 2)
    assert heartbeat(setup, old, 2) == "rebalance_in_progress"
    setup.pass_ms(300)
    assert heartbeat(setup, old, 2) == "rebalance_in_progress", "begins no second wait"
    setup.pass_ms(100)
    assert old not in setup.group.members, "no JoinGroup in its rebalance timeout"

    setup = ShardDriver()
    old = together(setup)
    for _ in range(3):
        setup.pass_ms(300)
        setup.beat("m1", 2)
    assert set(setup.group.members) == {"m1"}, "no heartbeat in its session"


def test_heartbeats_and_syncs_keep_the_session() -> None:
    setup = ShardDriver()
    old = together(setup)
    for _ in range(4):
        setup.pass_ms(500)
        assert heartbeat(setup, old, 2) == "none"
        setup.beat("m1", 2)
    assigned(setup, old, 2)
    setup.pass_ms(600)
    assert old in setup.group.members


def test_a_sync_that_comes_too_late_begins_the_wait_for_a_join() -> None:
    setup = ShardDriver()
    old = together(setup)
    setup.ask("sync", sync(old, 2, protocol_name="other"))
    setup.join("m2", "a")
    setup.pass_ms(300)
    assert setup.ask("sync", sync(old, 2)).error_code is ErrorCode.rebalance_in_progress
    setup.pass_ms(399)
    assert old in setup.group.members
    setup.pass_ms(1)
    assert old not in setup.group.members


def test_the_next_coordinator_does_not_wait_for_what_old_members_revoke() -> None:
    setup = ShardDriver()
    old = classic_group(setup)
    setup.join("m1", "a")
    setup.ask_join(join(old, metadata("a", owned=(0, 1))))
    assert setup.group.members[old].state.name == "UNREVOKED_PARTITIONS"
    setup.shard.resign()
    setup.shard = setup.elected()
    setup.pass_ms(400)
    assert heartbeat(setup, old, 1) == "rebalance_in_progress"


def test_an_old_member_in_a_state_of_a_newer_version_is_fenced() -> None:
    setup = ShardDriver()
    setup.join("m1", "a", instance_id="i1")
    member = setup.group.members["m1"]
    value = assignment_record("g", member).value
    key = assignment_record("g", member).key
    setup.write(CoordinatorRecord(key, msgspec.structs.replace(value, state=9)))
    answer = setup.ask_join(join("", metadata("a", owned=(0,)), instance_id="i1"))
    assert answer.error_code is ErrorCode.fenced_member_epoch
    assert set(setup.group.members) == {"m1"}


def test_requests_of_old_members_that_are_refused() -> None:
    setup = ShardDriver()
    old = together(setup)

    def synced(*args, **fields) -> str:
        return setup.ask("sync", sync(*args, **fields)).error_code.name

    assert synced(old, 1) == heartbeat(setup, old, 1) == "illegal_generation"
    assert synced("m1", 2) == heartbeat(setup, "m1", 2) == "unknown_member_id"
    assert synced("x", 2) == heartbeat(setup, "x", 2) == "unknown_member_id"
    assert synced(old, 2, instance_id="i") == "unknown_member_id"
    assert synced(old, 2, protocol_type="connect") == "inconsistent_group_protocol"
    assert synced(old, 2, protocol_name="other") == "inconsistent_group_protocol"
    assert synced(old, 2, protocol_type=None, protocol_name=None) == "none"
    setup.join("m2", "a")
    assert synced(old, 2) == "rebalance_in_progress"


def test_an_admin_client_removes_members_of_both_kinds() -> None:
    setup = ShardDriver()
    setup.join("m1", "a", instance_id="i1")
    setup.join("m2", "a")
    setup.join("m3", "a")
    before = len(setup.log.batches)
    rows = leave(setup, ("", "i1"), ("m2", None), ("x", None), ("", "i9"), ("m9", "i1"))
    assert rows == [
        "none", "none", "unknown_member_id", "unknown_member_id", "fenced_instance_id",
    ]  # fmt: skip
    assert setup.kinds(before) == ["current-", "target-", "member-"] * 2 + ["epoch"]
    assert set(setup.group.members) == {"m3"}
    before = len(setup.log.batches)
    assert leave(setup, ("x", None)) == ["unknown_member_id"]
    assert setup.kinds(before) == []


def test_an_old_static_member_takes_the_place_of_a_new_one() -> None:
    """It was the last of the new protocol, so the group is a classic one; nothing moves."""
    setup = ShardDriver()
    setup.join("m1", "a", instance_id="i1")
    setup.beat("m1", -2, instance_id="i1")
    before = len(setup.log.batches)
    joined = setup.ask_join(join("", metadata("a"), instance_id="i1"))
    assert (joined.error_code, joined.generation_id) == (ErrorCode.none, 2)
    assert setup.kinds(before)[:6] == [
        "current-", "target-", "member-", "member", "target", "current"
    ]  # fmt: skip
    assert setup.kinds(before)[-1] == "classic"
    assert "epoch" not in setup.kinds(before)
    value = setup.shard.image.groups["g"]
    assert isinstance(value, GroupMetadataValue)
    assert assigned(setup, joined.member_id, 2, "i1") == {"a": (0, 1)}
    assert heartbeat(setup, joined.member_id, 2, "i1") == "none"


def test_it_rebalances_if_it_subscribes_other_topics() -> None:
    setup = ShardDriver()
    setup.join("m1", "a", instance_id="i1")
    joined = setup.ask_join(join("", metadata("a", "b"), instance_id="i1"))
    assert joined.error_code is ErrorCode.none
    assert heartbeat(setup, joined.member_id, 2, "i1") == "rebalance_in_progress"


def test_it_rebalances_if_another_one_waits_for_its_target() -> None:
    """It has synced without a partition, which nobody would give it in this generation."""
    setup = ShardDriver()
    setup.join("m1", "a", instance_id="i1")
    setup.beat("m1", -2, instance_id="i1")
    old = setup.ask_join(join("", metadata("a"))).member_id
    epoch = setup.ask_join(join(old, metadata("a"))).generation_id
    assert assigned(setup, old, epoch) == {}
    assert heartbeat(setup, old, epoch) == "none"
    joined = setup.ask_join(join("", metadata("a"), instance_id="i1"))
    assert joined.error_code is ErrorCode.none
    assert isinstance(setup.shard.image.groups["g"], GroupMetadataValue)
    assert heartbeat(setup, old, epoch) == "rebalance_in_progress"


def test_a_regular_expression_goes_with_a_replaced_member() -> None:
    setup = policy(MigrationPolicy.UPGRADE)
    setup.join("m1", instance_id="i1", subscribed_topic_names=None, subscribed_topic_regex="a.*")
    setup.pass_ms(0)
    before = len(setup.log.batches)
    joined = setup.ask_join(join("", metadata("a"), instance_id="i1"))
    assert "regex-" in setup.kinds(before)
    assert setup.group.members[joined.member_id].subscribed_topic_regex == ""


def test_a_classic_member_takes_the_place_of_an_empty_consumer_group() -> None:
    setup = ShardDriver()
    setup.join("m1", "a")
    setup.beat("m1", -1)
    before = len(setup.log.batches)
    asked = setup.ask_join(join(""))
    assert asked.error_code is ErrorCode.member_id_required
    assert setup.kinds(before) == ["assignment-", "metadata-", "epoch-", "classic"]
    assert isinstance(setup.shard.image.groups["g"], GroupMetadataValue)
