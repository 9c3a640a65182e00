"""OffsetCommit, OffsetFetch and OffsetDelete of clients: versions, ids, permissions, errors."""

from dataclasses import replace
from typing import Any

import pytest

from broker.effects import SetReading
from coordinator.group.config import GroupCoordinatorConfig
from coordinator.group.machine import OffsetsConfig
from coordinator.records.group import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from coordinator.records.schema import CoordinatorRecord
from coordinator.runtime.write import ProducerIdAndEpoch, Write
from metadata.records import ClientQuotaRecord, QuotaEntity
from network.sampled_rate import QuotaWindow
from quorum_controller.security.authorization import AccessRules, Operation, ResourceType
from tests.broker.coordinators.coordinated import (
    OFFSET_COMMIT,
    OFFSET_DELETE,
    Coordinated,
    commit_body,
)
from tests.broker.metadata_log import A, B
from tests.coordinator.group.test_image import committed
from wire.errors import ErrorCode
from wire.messages import codec

NONE = ErrorCode.none
UNKNOWN = ErrorCode.unknown_topic_or_partition
DENIED = ErrorCode.topic_authorization_failed
NO_GROUP = ErrorCode.group_authorization_failed
NOTHING = (-1, -1, "", "none")
C = b"c" * 16


def started(**settings: Any) -> Coordinated:
    broker = Coordinated(**settings)
    broker.offsets()
    return broker


def guarded() -> Coordinated:
    """A broker whose client may do nothing yet."""
    return started(access=AccessRules())


def record(broker: Coordinated, *records: CoordinatorRecord, **fields: Any) -> None:
    """Write records as a decision of a group would."""
    shard: Any = broker.groups.of("g")
    shard.write(
        lambda _image: Write(response=None, records=records, **fields), lambda _answer: None
    )
    broker.settle()


# ---- versions


@pytest.mark.parametrize("version", range(2, 11))
def test_every_version_of_a_commit(version: int) -> None:
    broker = started()
    a, b = (A, B) if version >= 10 else ("a", "b")
    rows = {a: [(0, 5, "m", 3), (2, 6)], b: [(0, 7)]}
    more = {"retention_time": milliseconds(-1)} if version < 5 else {}
    assert broker.commit(rows, version=version, **more) == {
        a: {2: UNKNOWN, 0: NONE}, b: {0: NONE},
    }  # fmt: skip
    epoch = 3 if version >= 6 else -1
    assert broker.fetch(("g", {"a": [0, 2], "b": [0]})) == {
        "g": ("none", {"a": {0: (5, epoch, "m", "none"), 2: NOTHING},
                       "b": {0: (7, -1, "", "none")}}),
    }  # fmt: skip


@pytest.mark.parametrize("version", range(1, 11))
def test_every_version_of_a_fetch(version: int) -> None:
    broker = started()
    broker.commit({"a": [(0, 5, "m", 3)]})
    topic = A if version >= 10 else "a"
    more = {"require_stable": False} if version >= 7 else {}
    found = broker.fetch(("g", {topic: [0, 1]}), version=version, **more)
    epoch, none = (3, -1) if version >= 5 else (None, None)
    rows = {topic: {0: (5, epoch, "m", "none"), 1: (-1, none, "", "none")}}
    assert found == (("none", rows) if version < 8 else {"g": ("none", rows)})
    if version >= 2:
        found = broker.fetch(("g", None), version=version, **more)
        rows = {topic: {0: (5, epoch, "m", "none")}}
        assert found == (("none", rows) if version < 8 else {"g": ("none", rows)})


def milliseconds(ms: int) -> Any:
    from datetime import timedelta

    return timedelta(milliseconds=ms)


@pytest.mark.parametrize("version", [2, 4])
def test_the_retention_of_old_clients_counts(version: int) -> None:
    offsets = OffsetsConfig(retention_check_ms=1_000)
    broker = started(groups=GroupCoordinatorConfig(offsets=offsets))
    broker.commit({"a": [(0, 5)]}, version=version, retention_time=milliseconds(1_500))
    broker.pass_ms(1_000)
    assert broker.fetch(("g", {"a": [0]}))["g"][1]["a"][0][0] == 5
    broker.pass_ms(1_000)
    assert broker.fetch(("g", {"a": [0]})) == {"g": ("none", {"a": {0: NOTHING}})}


def test_the_codes_of_a_commit_are_counted() -> None:
    broker = started()
    before = broker.broker.counts().request_errors
    broker.commit({"a": [(0, 5), (1, 6), (9, 7)], "x": [(0, 5)]})
    after = broker.broker.counts().request_errors
    counted = {code: n - before.get((key, code), 0) for (key, code), n in after.items() if key == 8}
    assert counted == {int(NONE): 2, int(UNKNOWN): 2}


@pytest.mark.parametrize("version", [2, 3, 9])
def test_a_commit_above_the_quota_of_time_says_its_throttle_time(version: int) -> None:
    broker = started(quota_window=QuotaWindow(samples=3, size_seconds=2))
    broker.metadata.write(
        ClientQuotaRecord(
            entity=(QuotaEntity(entity_type="client-id", entity_name="client"),),
            key="request_percentage",
            value=10.0,
        )
    )
    broker.publish()
    more = {"retention_time": milliseconds(-1)} if version < 5 else {}
    body = commit_body({"a": [(0, 5)]}, version, **more)
    for spent_ns, throttle_ms in ((400_000_000, 0), (100_000_000, 1_000)):
        broker.read_ns = [0] * 3 + [spent_ns] * 3
        answer = broker.ask(OFFSET_COMMIT, version, body)
        if version >= 3:
            assert answer.throttle_time == milliseconds(throttle_ms)
        is_muted = SetReading(1, is_wanted=False) in broker.effects
        assert is_muted is bool(throttle_ms)


# ---- topics


def test_topics_that_do_not_exist() -> None:
    broker = started()
    assert broker.commit({"x": [(0, 5)], "a": [(9, 1)]}) == {"x": {0: UNKNOWN}, "a": {9: UNKNOWN}}
    assert broker.commit({C: [(0, 5)], A: [(0, 1)]}, version=10) == {
        C: {0: ErrorCode.unknown_topic_id}, A: {0: NONE},
    }  # fmt: skip
    assert broker.commit({bytes(16): [(0, 5)]}, version=10) == {
        None: {0: ErrorCode.unknown_topic_id}
    }
    assert broker.fetch(("g", {"x": [0]})) == {"g": ("none", {"x": {0: NOTHING}})}
    assert broker.fetch(("g", {C: [0], A: [0]}), version=10) == {
        "g": ("none", {A: {0: (1, -1, "", "none")}, C: {0: (-1, -1, "", "unknown_topic_id")}}),
    }  # fmt: skip


def test_a_topic_that_is_named_twice_has_one_row() -> None:
    broker = started()
    body = commit_body({"a": [(7, 1)], "x": [(0, 1)]}, 9)
    twice = replace(body, topics=(*body.topics, *body.topics[::-1]))
    answer = broker.ask(OFFSET_COMMIT, 9, twice)
    assert [(row.name, [p.partition_index for p in row.partitions]) for row in answer.topics] == [
        ("a", [7, 7]),
        ("x", [0, 0]),
    ]
    mixed = commit_body({"a": [(7, 1), (0, 5)]}, 9)
    answer = broker.ask(OFFSET_COMMIT, 9, replace(mixed, topics=(*mixed.topics, *body.topics)))
    assert [(row.name, [p.partition_index for p in row.partitions]) for row in answer.topics] == [
        ("a", [7, 7, 0]),
        ("x", [0]),
    ]


@pytest.mark.parametrize("version", [2, 9, 10])
def test_an_offset_of_a_topic_that_was_made_anew_is_none(version: int) -> None:
    broker = started()
    more = {"retention_time": milliseconds(-1)} if version < 5 else {}
    broker.commit({A if version >= 10 else "a": [(0, 5)]}, version=version, **more)
    broker.metadata.remove(A)
    broker.metadata.topic("a", C)
    broker.broker._groups.publish(broker.metadata.image)
    broker.broker._image = broker.metadata.image
    assert broker.fetch(("g", {C: [0]}), version=10) == {"g": ("none", {C: {0: NOTHING}})}


def test_all_offsets_without_those_whose_topic_is_gone_where_ids_are_asked_for() -> None:
    broker = started()
    record(broker, committed(3, topic="gone"), committed(4, topic="b"))
    assert broker.fetch(("g", None), version=10) == {"g": ("none", {B: {0: (4, -1, "", "none")}})}
    assert broker.fetch(("g", None)) == {
        "g": ("none", {"b": {0: (4, -1, "", "none")}, "gone": {0: (3, -1, "", "none")}}),
    }  # fmt: skip


def test_metadata_has_a_limit() -> None:
    broker = started(groups=GroupCoordinatorConfig(offsets=OffsetsConfig(metadata_max=3)))
    assert broker.commit({"a": [(0, 5, "long"), (1, 6, "not")]}) == {
        "a": {0: ErrorCode.offset_metadata_too_large, 1: NONE}
    }


# ---- groups


def test_a_member_that_the_group_does_not_know() -> None:
    broker = started()
    refused = broker.commit(
        {"a": [(0, 5), (7, 1), (1, 6)], "x": [(0, 1)], "b": [(0, 7)]},
        generation_id_or_member_epoch=3,
    )
    gone = ErrorCode.group_id_not_found
    assert refused == {"a": {7: UNKNOWN, 0: gone, 1: gone}, "x": {0: UNKNOWN}, "b": {0: gone}}
    refused = broker.commit({"a": [(0, 5)]}, version=8, generation_id_or_member_epoch=3)
    assert refused == {"a": {0: ErrorCode.illegal_generation}}


def test_several_groups_are_fetched_in_order() -> None:
    broker = started()
    broker.commit({"a": [(0, 5)]})
    broker.commit({"b": [(0, 6)]}, group="h")
    found = broker.fetch(("h", {"b": [0]}), ("g", None), ("nobody", None))
    assert list(found.items()) == [
        ("h", ("none", {"b": {0: (6, -1, "", "none")}})),
        ("g", ("none", {"a": {0: (5, -1, "", "none")}})),
        ("nobody", ("none", {})),
    ]
    assert broker.fetch() == {}


def test_stable_offsets_wait_for_what_is_pending() -> None:
    broker = Coordinated(properties=(("transaction.partition.verification.enable", "false"),))
    broker.register_at("h2", 9093, node_id=2)
    broker.offsets()
    broker.commit({"a": [(0, 5)]})
    assert broker.fetch(("g", {"a": [0]}), require_stable=True) == {
        "g": ("none", {"a": {0: (5, -1, "", "none")}})
    }
    producer = ProducerIdAndEpoch(70, 1)
    record(broker, committed(9, topic="a"), producer=producer)
    unstable = (-1, -1, "", "unstable_offset_commit")
    found = broker.fetch(("g", {"a": [0]}), require_stable=True)
    assert found == {"g": ("none", {"a": {0: unstable}})}
    assert broker.fetch(("g", {"a": [0]})) == {"g": ("none", {"a": {0: (5, -1, "", "none")}})}


def test_a_stable_fetch_that_waits_too_long_looks_for_the_coordinator_again() -> None:
    broker = Coordinated()
    broker.register_at("h2", 9093, node_id=2)
    broker.offsets(replicas=(1, 2))
    assert broker.commit({"a": [(0, 5)]}) is None
    broker.connection_id = 2
    assert broker.fetch(("g", {"a": [0]}), require_stable=True) is None
    assert broker.broker.memory.used_bytes == 0, "who waits needs no frame"
    broker.connection_id = 3
    effects = broker.pass_ms(5_000)
    from broker.effects import SendParts
    from tests.broker.coordinators.coordinated import answer_in, fetched_of

    sent = [e for e in effects if isinstance(e, SendParts) and e.connection_id == 2]
    assert fetched_of(answer_in(9, 9, sent), 9) == {"g": ("not_coordinator", {})}


# ---- permissions


def test_a_commit_needs_to_read_the_group_and_the_topics() -> None:
    broker = guarded()
    assert broker.commit({"a": [(0, 5)], "x": [(0, 1)]}) == {"a": {0: NO_GROUP}, "x": {0: NO_GROUP}}
    broker.allow(Operation.READ, "g", ResourceType.GROUP)
    assert broker.commit({"a": [(0, 5)], "x": [(0, 1)]}) == {"a": {0: DENIED}, "x": {0: DENIED}}
    broker.allow(Operation.READ, "a", ResourceType.TOPIC)
    assert broker.commit({"b": [(0, 6)], "a": [(0, 5)]}) == {"b": {0: DENIED}, "a": {0: NONE}}
    assert broker.commit({"a": [(0, 5)]}, group="h") == {"a": {0: NO_GROUP}}


def test_a_fetch_needs_to_describe_the_group_and_the_topics() -> None:
    broker = guarded()
    for operation, name, kind in (
        (Operation.READ, "a", ResourceType.TOPIC), (Operation.READ, "b", ResourceType.TOPIC),
    ):  # fmt: skip
        broker.allow(operation, name, kind)
    assert broker.fetch(("g", None)) == {"g": ("group_authorization_failed", {})}
    assert broker.fetch(("g", {"a": [0]}), version=1) == (
        "none", {"a": {0: (-1, None, "", "group_authorization_failed")}},
    )  # fmt: skip
    assert broker.fetch(("g", {"a": [0]}), version=2) == ("group_authorization_failed", {})
    broker.allow(Operation.READ, "g", ResourceType.GROUP)
    broker.commit({"a": [(0, 5)]})
    record(broker, committed(8, topic="c"))
    found = broker.fetch(("g", {"a": [0], "c": [0]}), ("h", None))
    assert found == {
        "g": ("none", {"a": {0: (5, -1, "", "none")},
                       "c": {0: (-1, -1, "", "topic_authorization_failed")}}),
        "h": ("group_authorization_failed", {}),
    }  # fmt: skip
    assert broker.fetch(("g", None)) == {"g": ("none", {"a": {0: (5, -1, "", "none")}})}


# ---- deletion


def delete(broker: Coordinated, rows: dict[str, list[int]], group: str = "g") -> Any:
    new = codec.newest(OFFSET_DELETE, "request")
    topics = tuple(
        new.OffsetDeleteRequestTopic(
            name=name,
            partitions=tuple(
                new.OffsetDeleteRequestPartition(partition_index=number) for number in numbers
            ),
        )
        for name, numbers in rows.items()
    )
    answer = broker.ask(OFFSET_DELETE, 0, new.OffsetDeleteRequest(group_id=group, topics=topics))
    if answer is None:
        return None
    return ErrorCode(answer.error_code), {
        str(row.name): {p.partition_index: ErrorCode(p.error_code) for p in row.partitions}
        for row in answer.topics
    }


def test_offsets_are_deleted() -> None:
    broker = started()
    broker.commit({"a": [(0, 5), (1, 6)], "b": [(0, 7)]})
    assert delete(broker, {"x": [0], "a": [0, 5, 1], "b": [9]}) == (
        NONE, {"x": {0: UNKNOWN}, "a": {5: UNKNOWN, 0: NONE, 1: NONE}, "b": {9: UNKNOWN}},
    )  # fmt: skip
    assert broker.fetch(("g", None)) == {"g": ("none", {"b": {0: (7, -1, "", "none")}})}
    assert delete(broker, {"b": [9]}) == (NONE, {"b": {9: UNKNOWN}})


def test_what_waits_for_replicas_keeps_no_frame() -> None:
    broker = Coordinated()
    broker.register_at("h2", 9093, node_id=2)
    broker.offsets(replicas=(1, 2))
    assert broker.commit({"a": [(0, 5)]}) is None
    assert broker.broker.memory.used_bytes == 0
    assert delete(broker, {"a": [0]}) is None
    assert broker.broker.memory.used_bytes == 0


def test_groups_whose_offsets_cannot_be_deleted() -> None:
    broker = started()
    assert delete(broker, {"a": [0]}) == (ErrorCode.group_id_not_found, {})
    assert delete(broker, {"a": [0]}, "") == (ErrorCode.invalid_group_id, {})
    member = MemberMetadata(
        member_id="m", client_id="c", client_host="/h", session_timeout=9, subscription=b"",
        assignment=b"",
    )  # fmt: skip
    group = GroupMetadataValue(
        protocol_type="connect", generation=1, protocol="range", leader="m", members=(member,)
    )
    record(broker, CoordinatorRecord(GroupMetadataKey(group="g"), group))
    assert delete(broker, {"a": [0]}) == (ErrorCode.non_empty_group, {})


def test_a_deletion_needs_to_delete_the_group_and_to_read_the_topics() -> None:
    broker = guarded()
    record(broker, committed(5, topic="a"), committed(6, topic="b"))
    assert delete(broker, {"a": [0]}) == (NO_GROUP, {})
    broker.allow(Operation.DELETE, "g", ResourceType.GROUP)
    broker.allow(Operation.READ, "b", ResourceType.TOPIC)
    assert delete(broker, {"a": [0], "b": [0]}) == (NONE, {"a": {0: DENIED}, "b": {0: NONE}})


def test_without_a_coordinator_nothing_is_deleted() -> None:
    broker = Coordinated()
    assert delete(broker, {"a": [0]}) == (ErrorCode.not_coordinator, {})
