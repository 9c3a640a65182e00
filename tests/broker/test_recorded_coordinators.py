"""Requests of groups and transactions as real clients put them to Kafka, answered as Kafka did.

The recorded requests that name a group or a transactional id go, in their order, to one broker that
coordinates it; each frame that it answers must be Kafka's, byte for byte. Ids of members are drawn
by the broker and as long as Kafka's: those of the recording are exchanged for them.
"""

from collections.abc import Iterable
from typing import Any

import pytest

from coordinator.group.classic.settings import ClassicSettings
from coordinator.group.config import GroupCoordinatorConfig
from coordinator.records.kinds import CONSUMER_OFFSETS, TRANSACTION_STATE
from coordinator.runtime.shards import partition_for
from metadata.records import FeatureLevelRecord
from tests.broker.recorded_state import WAIT_MS, AsRecorded, node_of
from tests.broker.test_recorded_records import (
    FETCHES,
    IDS,
    Pair,
    block,
    bodies,
    frames,
    name,
    topic_of,
)
from tests.broker.test_recorded_records import OTHERWISE as RECORDS_OTHERWISE
from tests.wire.recorded_pairs import answered, pairs
from wire.api_keys import (
    ADD_PARTITIONS_TO_TXN,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
)
from wire.errors import ErrorCode
from wire.messages import codec
from wire.types import TopicId

OF_GROUPS = (
    "JOIN_GROUP",
    "SYNC_GROUP",
    "HEARTBEAT",
    "LEAVE_GROUP",
    "OFFSET_COMMIT",
    "OFFSET_FETCH",
    "DESCRIBE_GROUPS",
    "LIST_GROUPS",
    "CONSUMER_GROUP_HEARTBEAT",
    "CONSUMER_GROUP_DESCRIBE",
)
RENAMED = {"3PibBCkKRiyyHcuA37-rvA": "s-rd-two"}
"""Names of topics whose ids are recorded, where both are used."""
OTHERWISE = {
    "static-3.9.1-00773": "the order of Kafka's partitions is that of a hash table",
    "static-3.9.1-00774": "as the one before",
}
"""Recorded answers that ours are unlike, and why."""


def group_of(pair: Pair) -> str | None:
    """The only group of a request or answer."""
    asked, told = bodies(pair)
    if "groupId" in asked:
        return str(asked["groupId"])
    rows = asked.get("groups") or asked.get("groupIds") or told.get("groups")
    if not rows:
        return None
    return str(rows[0]["groupId"] if isinstance(rows[0], dict) else rows[0])


def sequences(found: Iterable[Pair], key_of: Any) -> dict[str, list[Pair]]:
    """Pairs by scenario and what they are about, in order of time."""
    by_key: dict[str, list[Pair]] = {}
    for pair in sorted(found, key=lambda each: int(each["ms"])):
        key = key_of(pair)
        if key is not None:
            by_key.setdefault(f"{pair['scenario']}-{key}", []).append(pair)
    return by_key


def is_empty(pair: Pair) -> bool:
    """True for a list of nothing."""
    told = bodies(pair)[1]
    return not (told.get("groups") or told.get("transactionStates"))


GROUPS = sequences(answered(*OF_GROUPS), group_of)


def topics_of(found: Iterable[Pair]) -> dict[tuple[str, TopicId], int]:
    """Topics that the requests name, by name or by id, with the number of their partitions."""
    counts: dict[tuple[str, TopicId], int] = {}
    for pair in found:
        asked = bodies(pair)[0]
        rows = [*(asked.get("topics") or []), *(asked.get("topicPartitions") or [])]
        for group in asked.get("groups") or []:
            rows += (group.get("topics") or []) if isinstance(group, dict) else []
        for row in [row for row in rows if isinstance(row, dict)]:
            topic_name, topic_id = topic_of(row)
            topic = RENAMED.get(row.get("topicId", ""), topic_name), topic_id
            numbers = row.get("partitionIndexes") or row.get("partitions") or [0]
            last = max(n["partitionIndex"] if isinstance(n, dict) else n for n in numbers)
            counts[topic] = max(counts.get(topic, 0), last + 1)
    return counts


def coordinator(node_id: int, found: Iterable[Pair] = ()) -> AsRecorded:
    """A broker with the topics of these requests, and no topic of a coordinator yet."""
    groups = GroupCoordinatorConfig(classic=ClassicSettings(initial_rebalance_delay_ms=0))
    broker = AsRecorded(node_id, groups=groups)
    broker.metadata.write(FeatureLevelRecord(name="group.version", feature_level=1))
    for topic, count in topics_of(found).items():
        topic_id = broker.topic(*topic)
        for number in range(count):
            broker.partition(topic_id, number)
    broker.start()
    return broker


def coordinates(broker: AsRecorded, topic: str) -> None:
    """Let a broker lead the topic of a coordinator."""
    broker.partition(broker.topic(topic), 0)
    broker.publish()
    broker.settle()


@pytest.mark.parametrize("key", GROUPS)
def test_a_group(key: str) -> None:
    found = GROUPS[key]
    broker = coordinator(node_of(found[0]), found)
    drawn: dict[bytes, bytes] = {}
    for pair in found:
        told = bodies(pair)[1]
        request, kafkas = frames(pair)
        is_early = told.get("errorCode") == ErrorCode.not_coordinator.value
        if not is_early and CONSUMER_OFFSETS not in broker.names.values():
            coordinates(broker, CONSUMER_OFFSETS)
        ours = broker.asked(exchanged(request, drawn))
        if told.get("errorCode") == ErrorCode.member_id_required.value:
            answer = codec.decode_response(JOIN_GROUP, pair["api_version"], ours)[1]
            drawn[told["memberId"].encode()] = answer.member_id.encode()
            assert len(answer.member_id) == len(told["memberId"])
            assert answer.member_id.startswith(f"{pair['client_id']}-")
        if pair["id"] not in OTHERWISE:
            assert ours == exchanged(kafkas, drawn), name(pair)


def exchanged(frame: bytes, drawn: dict[bytes, bytes]) -> bytes:
    """The frame with the ids that our broker has drawn."""
    for recorded, ours in drawn.items():
        frame = frame.replace(recorded, ours)
    return frame


LISTS = [pair for pair in answered("LIST_GROUPS", "LIST_TRANSACTIONS") if is_empty(pair)]


@pytest.mark.parametrize("pair", LISTS, ids=name)
def test_a_coordinator_of_nothing_lists_nothing(pair: Pair) -> None:
    broker = coordinator(node_of(pair))
    coordinates(broker, CONSUMER_OFFSETS)
    coordinates(broker, TRANSACTION_STATE)
    request, kafkas = frames(pair)
    assert broker.asked(request) == kafkas


# ---- FindCoordinator


@pytest.mark.parametrize("pair", answered("FIND_COORDINATOR"), ids=name)
def test_find_coordinator(pair: Pair) -> None:
    """The topic of the coordinator exists where one is found."""
    asked, told = bodies(pair)
    (row,) = told.get("coordinators", [told])
    broker = AsRecorded(node_of(pair))
    if row["nodeId"] >= 0:
        broker.broker_at(row["nodeId"], host=row["host"], port=row["port"])
    broker.start()
    if row["nodeId"] >= 0:
        topic = broker.topic((CONSUMER_OFFSETS, TRANSACTION_STATE)[asked["keyType"]])
        (key,) = asked.get("coordinatorKeys", [asked.get("key")])
        for number in range(50):
            is_asked = number == partition_for(key, 50)
            leader = row["nodeId"] if is_asked else broker.node_id
            broker.partition(topic, number, leader=leader, replicas=(leader,))
        broker.publish()
    request, kafkas = frames(pair)
    assert broker.asked(request) == kafkas


# ---- transactions


def id_of_transaction(pair: Pair) -> str | None:
    """The only transactional id of a request or answer."""
    asked, told = bodies(pair)
    for field in ("transactionalId", "v3AndBelowTransactionalId"):
        if asked.get(field):
            return str(asked[field])
    rows = asked.get("transactions") or told.get("transactionStates")
    return str(rows[0]["transactionalId"]) if rows else None


TRANSACTIONS = sequences(
    answered("INIT_PRODUCER_ID", "ADD_PARTITIONS_TO_TXN", "END_TXN", "LIST_TRANSACTIONS"),
    id_of_transaction,
)


@pytest.mark.parametrize("key", TRANSACTIONS)
def test_a_transaction(key: str) -> None:
    """Markers find no leader until a recorded answer has said that a transaction still ends."""
    found = TRANSACTIONS[key]
    broker = coordinator(node_of(found[0]))
    coordinates(broker, TRANSACTION_STATE)
    added = next(p for p in found if p["api_key"] == ADD_PARTITIONS_TO_TXN)
    (topic,) = bodies(added)[0]["v3AndBelowTopics"]
    (number,) = topic["partitions"]
    topic_id = broker.topic(topic["name"])
    broker.partition(topic_id, number, leader=-1)
    broker.publish()
    for pair in found:
        told = bodies(pair)[1]
        request, kafkas = frames(pair)
        ours = broker.asked(request)
        if pair["api_key"] == INIT_PRODUCER_ID and told["producerId"] >= 0 and broker.asks:
            broker.controller_answers(block(told["producerId"]))
            ours = broker.asked(request)
        assert ours == kafkas, name(pair)
        if pair["api_key"] == ADD_PARTITIONS_TO_TXN and is_refused(told):
            broker.metadata.change(number, topic_id, leader=broker.node_id)
            broker.publish()
            broker.now_ms += WAIT_MS
            broker.settle()
            broker.asked(request)  # as the client does, which has to wait


def is_refused(told: Any) -> bool:
    """True for partitions that cannot be added yet."""
    return any(
        row["partitionErrorCode"]
        for topic in told.get("resultsByTopicV3AndBelow", [])
        for row in topic["resultsByPartition"]
    )


@pytest.mark.parametrize("pair", answered("WRITE_TXN_MARKERS"), ids=name)
def test_markers(pair: Pair) -> None:
    asked = bodies(pair)[0]
    broker = AsRecorded(node_of(pair))
    for topic in (topic for marker in asked["markers"] for topic in marker["topics"]):
        for number in topic["partitionIndexes"]:
            broker.partition(broker.topic(topic["name"]), number)
    broker.start()
    request, kafkas = frames(pair)
    assert broker.asked(request) == kafkas


def test_every_recorded_request_that_is_served_here_was_put() -> None:
    """Those of `OTHERWISE` aside."""
    served = AsRecorded(1).broker.apis
    recorded = {p["id"] for p in pairs() if p["api_key"] in served and p["response_hex"]}
    raft = {p["id"] for p in pairs() if "raft" in p["flags"]}
    put = {
        pair["id"] for found in (GROUPS, TRANSACTIONS) for each in found.values() for pair in each
    }
    alone = answered(
        "FIND_COORDINATOR", "WRITE_TXN_MARKERS", "PRODUCE", "LIST_OFFSETS", "DELETE_RECORDS"
    )
    put |= {pair["id"] for pair in (*alone, *FETCHES, *LISTS, *IDS)}
    assert recorded - raft - put == set(RECORDS_OTHERWISE)
