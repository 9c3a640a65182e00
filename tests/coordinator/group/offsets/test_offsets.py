"""Commits, fetches, deletions and expiry of offsets, as Kafka's OffsetMetadataManager."""

from typing import Any

import pytest

from coordinator.group.image import Group, GroupsImage, apply_marker
from coordinator.group.offsets.commits import commit_offsets, commit_transactional_offsets
from coordinator.group.offsets.deletions import (
    delete_all_offsets,
    delete_offsets,
    delete_offsets_of_topics,
)
from coordinator.group.offsets.expiry import expire_group
from coordinator.group.offsets.fetches import fetch_offsets
from coordinator.group.offsets.requests import (
    Commit,
    Committer,
    GroupFetch,
    PartitionOffset,
    TopicCommit,
    TopicFetch,
    TopicOffsets,
    TopicResult,
)
from coordinator.group.rules import PartitionCheck, RecordedRules
from coordinator.records.group import GroupMetadataKey, MemberMetadata, OffsetCommitKey
from coordinator.runtime.write import ProducerIdAndEpoch, Write
from tests.coordinator.group.test_image import (
    CLASSIC,
    TOPIC_ID,
    committed,
    group_record,
    image_of,
    removed,
)
from wire.errors import ApiError, ErrorCode
from wire.messages.offset_commit_request import PartitionCommit
from wire.types import ZERO_UUID, TopicId

NO_ID = TopicId(ZERO_UUID)
OTHER_ID = TopicId(bytes(15) + b"\x08")
PRODUCER = ProducerIdAndEpoch(70, 1)
MEMBER = MemberMetadata(
    member_id="m", client_id="c", client_host="/h", session_timeout=9, subscription=b"",
    assignment=b"",
)  # fmt: skip


def classic(*members: MemberMetadata, **fields: Any) -> Any:
    values = {
        "protocol_type": "consumer", "generation": 1, "protocol": None, "leader": None,
        "current_state_timestamp": 5,
    } | fields  # fmt: skip
    return type(CLASSIC)(members=members, **values)


class Rules(RecordedRules):
    """Rules of a group whose answers the test chooses."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[Any] = []

    def commit_check(
        self, group_id: str, group: Group, committer: Committer
    ) -> PartitionCheck | ApiError:
        self.asked.append((group_id, group, committer))
        return self.answers.get("commit") or super().commit_check(group_id, group, committer)

    def fetch_error(
        self, group_id: str, group: Group, member_id: str | None, member_epoch: int
    ) -> ApiError | None:
        self.asked.append((group_id, member_id, member_epoch))
        return self.answers.get("fetch")

    def is_subscribed(self, group_id: str, group: Group, topic: str) -> bool:
        return topic in self.answers.get("subscribed", ())

    def unused_since_ms(
        self, group_id: str, group: Group, topic: str, commit_timestamp_ms: int
    ) -> int | None:
        if "since" in self.answers:
            return self.answers["since"]
        return super().unused_since_ms(group_id, group, topic, commit_timestamp_ms)


def commit(*partitions: PartitionCommit, version: int = 9, **fields: Any) -> Commit:
    names = ("member_id", "group_instance_id", "generation_id", "is_transactional")
    who = {name: fields.pop(name) for name in names if name in fields}
    topic = TopicCommit(name="t", topic_id=fields.pop("topic_id", TOPIC_ID), partitions=partitions)
    return Commit(
        group_id="g", committer=Committer(api_version=version, **who), topics=(topic,), **fields
    )


def offset(partition: int = 0, **fields: Any) -> PartitionCommit:
    return PartitionCommit(partition=partition, offset=fields.pop("offset", 7), **fields)


def decide(image: GroupsImage, request: Commit, rules: Any = None) -> Any:
    return commit_offsets(
        image, request, rules or RecordedRules(), metadata_max=4, wall_ms=50_000
    )  # fmt: skip


# ---- commits


def test_anyone_may_commit_to_a_group_that_is_none() -> None:
    written = decide(
        image_of(), commit(offset(0, metadata="meta", leader_epoch=3), offset(1, offset=8))
    )
    assert written == Write(
        response=(TopicResult("t", TOPIC_ID, ((0, ErrorCode.none), (1, ErrorCode.none))),),
        records=(
            committed(
                7, metadata="meta", leader_epoch=3, commit_timestamp=50_000, topic_id=TOPIC_ID
            ),
            committed(8, partition=1, commit_timestamp=50_000, topic_id=TOPIC_ID),
        ),
    )
    assert [record.value.version_to_write() for record in written.records] == [4, 4]


def test_the_retention_that_a_client_gives_is_written() -> None:
    (record,) = decide(image_of(), commit(offset(), retention_ms=5)).records
    assert (record.value.expire_timestamp, record.value.version_to_write()) == (50_005, 1)
    assert record.value.topic_id == NO_ID, "version 1 has none"
    (record,) = decide(image_of(), commit(offset(), retention_ms=0)).records
    assert record.value.expire_timestamp == 50_000


@pytest.mark.parametrize(("version", "code"), [
    (8, "illegal_generation"), (9, "group_id_not_found"), (10, "group_id_not_found"),
])  # fmt: skip
def test_a_member_of_a_group_that_is_none(version: int, code: str) -> None:
    request = commit(offset(), version=version, generation_id=0, member_id="m")
    assert decide(image_of(), request).code is ErrorCode[code]


def test_metadata_is_counted_as_by_java() -> None:
    written = decide(
        image_of(),
        commit(offset(0, metadata="four"), offset(1, metadata="\U0001f600\U0001f600"),
               offset(2, metadata="\U0001f600abc"), offset(3, metadata="fives")),
    )  # fmt: skip
    too_large = ErrorCode.offset_metadata_too_large
    assert [code for _, code in written.response[0].codes] == [
        ErrorCode.none, ErrorCode.none, too_large, too_large,
    ]  # fmt: skip
    assert [record.key.partition for record in written.records] == [0, 1]


def test_the_group_is_asked_first_and_then_for_each_partition() -> None:
    image = image_of(group_record("g"))
    refused = ApiError(ErrorCode.rebalance_in_progress)
    rules = Rules(commit=refused)
    request = commit(offset(), member_id="m", group_instance_id="i", generation_id=3)
    assert decide(image, request, rules) == refused
    assert rules.asked == [("g", CLASSIC, request.committer)]
    stale = ApiError(ErrorCode.stale_member_epoch)
    seen = []

    def check(name: str, topic_id: TopicId, partition: int) -> ApiError | None:
        seen.append((name, topic_id, partition))
        return stale if partition == 1 else None

    assert decide(image, commit(offset(0), offset(1), offset(2)), Rules(commit=check)) == stale
    assert seen == [("t", TOPIC_ID, 0), ("t", TOPIC_ID, 1)]


def in_transaction(image: GroupsImage, request: Commit, rules: Any = None) -> Any:
    return commit_transactional_offsets(
        image, request, rules or RecordedRules(), PRODUCER, metadata_max=4, wall_ms=50_000
    )


def test_an_offset_of_a_transaction_has_no_topic_id() -> None:
    written = in_transaction(
        image_of(), commit(offset(), offset(1, metadata="fives"), is_transactional=True)
    )
    assert written == Write(
        response=(
            TopicResult(
                "t", TOPIC_ID, ((0, ErrorCode.none), (1, ErrorCode.offset_metadata_too_large))
            ),
        ),
        records=(committed(7, commit_timestamp=50_000),),
        producer=PRODUCER,
    )


@pytest.mark.parametrize("version", [2, 9])
def test_in_a_transaction_an_unknown_group_has_no_generation(version: int) -> None:
    request = commit(offset(), generation_id=0, is_transactional=True, version=version)
    assert in_transaction(image_of(), request) == ApiError(ErrorCode.illegal_generation)


def test_in_a_transaction_an_old_epoch_is_an_illegal_generation() -> None:
    image, illegal = image_of(group_record("g")), ApiError(ErrorCode.illegal_generation)
    stale = ApiError(ErrorCode.stale_member_epoch)
    request = commit(offset(), is_transactional=True)
    assert in_transaction(image, request, Rules(commit=stale)) == illegal
    assert in_transaction(image, request, Rules(commit=lambda *_: stale)) == illegal
    fenced = ApiError(ErrorCode.fenced_instance_id)
    assert in_transaction(image, request, Rules(commit=fenced)) == fenced


def test_in_a_transaction_the_partitions_of_no_topic_cannot_be_checked() -> None:
    image = image_of(group_record("g"))
    request = commit(offset(), is_transactional=True, topic_id=NO_ID)
    rules = Rules(commit=lambda *_: None)
    assert in_transaction(image, request, rules) == ApiError(ErrorCode.illegal_generation)
    assert len(in_transaction(image, request).records) == 1
    with_id = commit(offset(), is_transactional=True)
    assert len(in_transaction(image, with_id, rules).records) == 1


# ---- fetches


def row(partition: int, offset: int, epoch: int = -1, metadata: str = "") -> PartitionOffset:
    return PartitionOffset(partition, ErrorCode.none, offset, epoch, metadata)


NONE = row(0, -1)
UNSTABLE = PartitionOffset(0, ErrorCode.unstable_offset_commit, -1, -1, "")


def fetched(image: GroupsImage, *topics: TopicFetch, rules: Any = None, **fields: Any) -> Any:
    request = GroupFetch(group_id="g", topics=topics or None, **fields)
    return fetch_offsets(image, request, rules or RecordedRules())


def test_offsets_are_fetched_by_name_and_id() -> None:
    image = image_of(committed(7, metadata="m", leader_epoch=2, topic_id=TOPIC_ID))
    assert fetched(image, TopicFetch("t", TOPIC_ID, (0, 1)), TopicFetch("u", OTHER_ID, (0,))) == (
        TopicOffsets("t", TOPIC_ID, (row(0, 7, 2, "m"), row(1, -1))),
        TopicOffsets("u", OTHER_ID, (NONE,)),
    )
    (found,) = fetched(image, TopicFetch("t", OTHER_ID, (0,)))
    assert found == TopicOffsets("t", OTHER_ID, (NONE,))
    (found,) = fetched(image, TopicFetch("t", NO_ID, (0,)))
    assert found.partitions == (row(0, 7, 2, "m"),)
    (found,) = fetched(image_of(committed(7)), TopicFetch("t", OTHER_ID, (0,)))
    assert found.partitions == (row(0, 7),)


def test_all_offsets_are_in_order() -> None:
    image = image_of(
        committed(1, topic="u"), committed(2, partition=2, topic_id=TOPIC_ID), committed(3),
        committed(4, group="h"),
    )  # fmt: skip
    assert fetched(image) == (
        TopicOffsets("t", NO_ID, (row(0, 3), row(2, 2))),
        TopicOffsets("u", NO_ID, (row(0, 1),)),
    )
    assert fetched(image_of()) == ()


@pytest.mark.parametrize("asked", [(), (TopicFetch("t", NO_ID, (0,)),)])
def test_stable_offsets_are_those_without_a_pending_one(asked: Any) -> None:
    image = image_of(committed(1), (70, committed(2)))
    (found,) = fetched(image, *asked, requires_stable=True)
    assert found.partitions == (UNSTABLE,)
    (found,) = fetched(image, *asked)
    assert found.partitions == (row(0, 1),)
    (found,) = fetched(apply_marker(image, 70, is_commit=True), *asked, requires_stable=True)
    assert found.partitions == (row(0, 2),)


def test_a_pending_offset_is_unstable_also_where_none_is_committed() -> None:
    asked = TopicFetch("t", NO_ID, (0,))
    (found,) = fetched(image_of((70, committed(2))), asked, requires_stable=True)
    assert found.partitions == (UNSTABLE,)
    assert fetched(image_of((70, committed(2))), requires_stable=True) == ()


def test_a_fetch_of_a_member_is_checked() -> None:
    image = image_of(committed(1))
    refused = ApiError(ErrorCode.stale_member_epoch)
    rules = Rules(fetch=refused)
    assert fetched(image, rules=rules, member_id="m", member_epoch=3) == refused
    assert rules.asked == [("g", "m", 3)]
    dead = Rules(fetch=ApiError(ErrorCode.group_id_not_found))
    assert fetched(image, rules=dead) == ()
    (found,) = fetched(image, TopicFetch("t", NO_ID, (0,)), rules=dead)
    assert found.partitions == (NONE,)


# ---- deletions


def test_offsets_of_topics_that_nobody_subscribes_are_deleted() -> None:
    image = image_of(committed(1), (70, committed(2, partition=1)), committed(3, topic="u"))
    written = delete_offsets(image, "g", [("t", (0, 1, 2)), ("u", (0,))], Rules(subscribed={"u"}))
    none, subscribed = ErrorCode.none, ErrorCode.group_subscribed_to_topic
    assert written == Write(
        response=(
            TopicResult("t", NO_ID, ((0, none), (1, none), (2, none))),
            TopicResult("u", NO_ID, ((0, subscribed),)),
        ),
        records=(removed(), removed(partition=1)),
    )


def test_offsets_of_no_group_and_of_one_that_refuses() -> None:
    found = delete_offsets(image_of(), "g", [("t", (0,))], RecordedRules())
    assert isinstance(found, ApiError)
    assert found.code is ErrorCode.group_id_not_found
    image = image_of(committed(1), group_record("g", classic(MEMBER)))
    found = delete_offsets(image, "g", [("t", (0,))], RecordedRules())
    assert found == ApiError(ErrorCode.non_empty_group)


def test_all_offsets_of_a_group_get_one_tombstone_each() -> None:
    image = image_of(
        committed(1, partition=3), (70, committed(2, partition=3)), (70, committed(2)),
        committed(4, group="h"),
    )  # fmt: skip
    assert delete_all_offsets(image, "g") == (removed(), removed(partition=3))
    assert delete_all_offsets(image, "unknown") == ()


def test_offsets_of_a_deleted_topic_go_and_those_of_its_successor_stay() -> None:
    image = image_of(
        committed(1, topic_id=TOPIC_ID), committed(2, partition=1),
        committed(3, partition=2, topic_id=OTHER_ID), committed(4, topic="u"),
        (70, committed(5, partition=3)), (70, committed(6, partition=4, topic_id=OTHER_ID)),
        (71, committed(6, partition=4, topic_id=TOPIC_ID)), (70, committed(7, topic="u")),
        (70, committed(8, partition=2, topic_id=OTHER_ID)),
    )  # fmt: skip
    assert delete_offsets_of_topics(image, "g", {"t": TOPIC_ID}) == (
        removed(), removed(partition=1), removed(partition=3), removed(partition=4),
    )  # fmt: skip
    assert delete_offsets_of_topics(image, "h", {"t": TOPIC_ID}) == ()


# ---- expiry


def expired(image: GroupsImage, wall_ms: int, rules: Any = None) -> list[str]:
    records = expire_group(image, "g", rules or RecordedRules(), retention_ms=100, wall_ms=wall_ms)
    assert all(record.value is None for record in records)
    return [
        f"{record.key.topic} {record.key.partition}"
        if isinstance(record.key, OffsetCommitKey)
        else type(record.key).__name__
        for record in records
    ]


def test_an_offset_of_a_simple_group_expires_after_its_commit() -> None:
    image = image_of(committed(1, commit_timestamp=10), committed(2, topic="s"))
    assert expired(image, 109) == []
    assert expired(image, 110) == ["t 0"]
    assert expired(image, 2_000) == ["s 0", "t 0", "GroupMetadataKey"]
    assert expire_group(
        image, "unknown", RecordedRules(), retention_ms=100, wall_ms=2_000
    ) == ()  # fmt: skip


def test_an_offset_of_an_empty_group_expires_after_it_became_empty() -> None:
    image = image_of(committed(1, commit_timestamp=10), group_record("g", classic()))
    assert expired(image, 104) == []
    assert expired(image, 105) == ["t 0", "GroupMetadataKey"]
    old = image_of(
        committed(1, commit_timestamp=10),
        group_record("g", classic(current_state_timestamp=-1)),
    )
    assert expired(old, 109) == []
    assert expired(old, 110) == ["t 0", "GroupMetadataKey"]
    zero = image_of(
        committed(1, commit_timestamp=10), group_record("g", classic(current_state_timestamp=0))
    )
    assert expired(zero, 100) == ["t 0", "GroupMetadataKey"]
    unnamed = image_of(
        committed(1, commit_timestamp=10), group_record("g", classic(protocol_type=""))
    )
    assert expired(unnamed, 109) == []


def test_a_group_with_members_keeps_its_offsets() -> None:
    image = image_of(committed(1), group_record("g", classic(MEMBER)))
    assert expired(image, 1 << 40) == []
    assert expired(image_of(group_record("g", classic(MEMBER))), 1 << 40) == []
    assert expired(image_of(group_record("g", classic())), 0) == ["GroupMetadataKey"]


def test_a_given_retention_counts_alone() -> None:
    image = image_of(committed(1, commit_timestamp=10, expire_timestamp=5_000))
    assert expired(image, 4_999) == []
    assert expired(image, 5_000) == ["t 0", "GroupMetadataKey"]


def test_subscribed_topics_and_open_transactions_keep_an_offset_and_the_group() -> None:
    image = image_of(committed(1), committed(2, topic="u"))
    assert expired(image, 1 << 40, Rules(subscribed={"u"})) == ["t 0"]
    assert expired(image, 1 << 40, Rules(since=None)) == []
    opened = image_of(committed(1), committed(2, topic="u"), (70, committed(3)))
    assert expired(opened, 1 << 40) == ["u 0"]
    assert expired(image_of(committed(1), (70, committed(3, topic="u"))), 1 << 40) == ["t 0"]
    assert expired(image_of((70, committed(3, topic="u"))), 1 << 40) == []


def test_the_tombstone_of_a_group_is_that_of_its_record() -> None:
    records = expire_group(
        image_of(group_record("g")), "g", RecordedRules(), retention_ms=1, wall_ms=0
    )
    assert [record.key for record in records] == [GroupMetadataKey(group="g")]


# ---- what a recorded group allows


def test_recorded_groups_accept_commits_of_strangers_while_they_are_empty() -> None:
    empty = image_of(group_record("g"))
    assert len(decide(empty, commit(offset())).records) == 1
    unknown = ApiError(ErrorCode.unknown_member_id)
    assert decide(empty, commit(offset(), generation_id=0)) == unknown
    used = image_of(group_record("g", classic(MEMBER)))
    assert decide(used, commit(offset())) == unknown
    assert decide(image_of(committed(1)), commit(offset(), generation_id=-5)).records


def test_recorded_groups_with_members_use_every_topic() -> None:
    rules = RecordedRules()
    assert rules.is_subscribed("g", classic(MEMBER), "t")
    assert not rules.is_subscribed("g", classic(), "t")
