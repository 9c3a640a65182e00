"""Requests about records as real clients put them to Kafka, answered as Kafka answered them.

The frame of each recorded request goes to a broker that is in the state which the recorded answer
shows, and the frame that it answers must be Kafka's, byte for byte, with the records in it. The id
of a fetch session is drawn by the broker: that of the recording is exchanged for it.
"""

import base64
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from broker.effects import Effect
from tests.broker.recorded_state import AsRecorded, id_of, node_of
from tests.wire.recorded_pairs import answered
from wire.api_keys import ALLOCATE_PRODUCER_IDS, FETCH
from wire.batches.batch import encode_batch
from wire.errors import ErrorCode
from wire.messages import codec
from wire.types import TopicId

Pair = dict[str, Any]
Frames = tuple[bytes, bytes]
"""Our answer and Kafka's."""
FULL_EPOCH, FINAL_EPOCH = 0, -1
"""Epochs of a fetch that begins a session, and of one without."""
QUIET = TopicId(b"quiet-----------")
"""A topic that a session has besides those that its sample names."""


def name(pair: Pair) -> str:
    return f"{pair['id']}-{pair['api']}-v{pair['api_version']}"


def bodies(pair: Pair) -> tuple[Any, Any]:
    """Request and answer as the recording tells them."""
    decoded = pair["decoded"]
    return decoded["request"]["body"], decoded["response"]["body"]


def frames(pair: Pair) -> Frames:
    """Request and answer."""
    return bytes.fromhex(pair["request_hex"]), bytes.fromhex(pair["response_hex"])


def filled(count: int, epoch: int = 0) -> bytes:
    """A log of this many records."""
    return encode_batch([b"v"] * count, 0, epoch, 1_000) if count else b""


def topic_of(row: Any) -> tuple[str, TopicId]:
    """Name and id of a topic in a request or answer: some have one, some the other."""
    if "topicId" in row:
        topic_id = TopicId(base64.urlsafe_b64decode(row["topicId"] + "=="))
        return f"t-{topic_id.hex()[:8]}", topic_id
    topic = row.get("name") or row["topic"]
    return topic, id_of(topic)


# ---- Produce


@pytest.mark.parametrize("pair", answered("PRODUCE"), ids=name)
def test_produce(pair: Pair) -> None:
    broker = AsRecorded(node_of(pair))
    for topic in bodies(pair)[1]["responses"]:
        for row in topic["partitionResponses"]:
            refused = row["errorCode"] == ErrorCode.invalid_record.value
            configs = {"cleanup_policy": "compact"} if refused else {}
            topic_id = broker.topic(*topic_of(topic), **configs)
            broker.partition(topic_id, row["index"], batches=filled(max(0, row["baseOffset"])))
    broker.start()
    request, kafkas = frames(pair)
    assert broker.asked(request) == kafkas


# ---- ListOffsets, DeleteRecords


@pytest.mark.parametrize("pair", answered("LIST_OFFSETS"), ids=name)
def test_list_offsets(pair: Pair) -> None:
    broker = AsRecorded(node_of(pair))
    asked, told = bodies(pair)
    timestamps = {
        (topic["name"], row["partitionIndex"]): row["timestamp"]
        for topic in asked["topics"]
        for row in topic["partitions"]
    }
    for topic in told["topics"]:
        topic_id = broker.topic(topic["name"])
        for row in topic["partitions"]:
            number = row["partitionIndex"]
            end_offset = row["offset"] if timestamps[topic["name"], number] == -1 else 3
            broker.partition(topic_id, number, batches=filled(end_offset))
    broker.start()
    request, kafkas = frames(pair)
    assert broker.asked(request) == kafkas


@pytest.mark.parametrize("pair", answered("DELETE_RECORDS"), ids=name)
def test_delete_records(pair: Pair) -> None:
    broker = AsRecorded(node_of(pair))
    broker.partition(broker.topic("s-rd-two"), 0)
    broker.start()
    request, kafkas = frames(pair)
    assert broker.asked(request) == kafkas


# ---- InitProducerId


def block(first_id: int) -> Any:
    """The controller's answer to a broker that asks for ids."""
    new = codec.newest(ALLOCATE_PRODUCER_IDS, "response")
    return new.AllocateProducerIdsResponse(
        throttle_time=timedelta(0),
        error_code=ErrorCode.none,
        producer_id_start=first_id,
        producer_id_len=10,
    )


IDS = [p for p in answered("INIT_PRODUCER_ID") if bodies(p)[0]["transactionalId"] is None]
"""Of producers without transactions."""


@pytest.mark.parametrize("pair", IDS, ids=name)
def test_init_producer_id_without_a_transaction(pair: Pair) -> None:
    """The first one gets no id: the broker asks the controller for some."""
    broker = AsRecorded(node_of(pair))
    broker.start()
    request, kafkas = frames(pair)
    answer, producer_id = broker.asked(request), bodies(pair)[1]["producerId"]
    if producer_id >= 0:
        broker.controller_answers(block(producer_id))
        answer = broker.asked(request)
    assert answer == kafkas


# ---- Fetch

OTHERWISE = {
    "static-3.9.1-00720": "throttled: the recorded client was above a quota",
    "static-3.9.1-00793": "throttled",
    "static-3.9.1-00724": "its quota cut the last batch in the middle; ours ends with a whole one",
    "static-3.9.1-00828": "Kafka 3.9 tells followers where leaders are; 4.3 and ours do not",
}
"""Recorded answers that ours are unlike, and why."""
FETCHES = [
    pair
    for pair in answered("FETCH")
    if "raft" not in pair["flags"] and pair["id"] not in OTHERWISE
]


class Fetched:
    """A broker whose partitions are as a recorded answer to a Fetch has them."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.asked, self.told = bodies(pair)
        self.request, self.kafkas = frames(pair)
        newest = codec.decode_response(FETCH, pair["api_version"], self.kafkas)[1]
        self.records = {
            (number, row): bytes(partition.records or b"")
            for number, topic in enumerate(newest.responses)
            for row, partition in enumerate(topic.partitions)
        }
        state = self.asked.get("replicaState") or {}
        self.replica_id = state.get("replicaId", -1)
        self.broker = AsRecorded(node_of(pair))
        if self.replica_id >= 0:
            self.broker.broker_at(self.replica_id, state["replicaEpoch"])
        self.opening: dict[TopicId, list[Any]] = {}
        """Rows of a fetch that begins the session."""
        self.gone: list[TopicId] = []
        """Topics that are deleted once the session is there."""
        self.goes: list[TopicId] = []
        """Topics that are deleted while the fetch waits."""
        self._make()
        both = {self.broker.node_id} | ({self.replica_id} if self.replica_id >= 0 else set())
        self.broker.partition(self.broker.topic("quiet", QUIET), 0, replicas=tuple(sorted(both)))
        self.broker.start()

    def _make(self) -> None:
        wanted = {
            (topic_of(topic)[1], row["partition"]): row
            for topic in self.asked["topics"]
            for row in topic["partitions"]
        }
        for number, topic in enumerate(self.told["responses"]):
            for row, told in enumerate(topic["partitions"]):
                key = (topic_of(topic)[1], told["partitionIndex"])
                self._hold(topic_of(topic), told, wanted.pop(key, None), self.records[number, row])
        for (topic_id, number), asked in wanted.items():  # nothing new at its end
            topic = (f"t-{topic_id.hex()[:8]}", topic_id)
            told = {"errorCode": 0, "partitionIndex": number, "highWatermark": asked["fetchOffset"]}
            self._hold(topic, told, asked, b"")

    def _hold(self, topic: tuple[str, TopicId], told: Any, asked: Any, records: bytes) -> None:
        """Make a partition whose answer is the one told."""
        code, number = ErrorCode(told["errorCode"]), told["partitionIndex"]
        if code is ErrorCode.unknown_topic_id:
            return
        topic_id = self.broker.topic(*topic)
        epoch = 0 if asked is None else max(0, asked["currentLeaderEpoch"])
        leader, replicas, isr = self.broker.node_id, {self.broker.node_id}, {self.broker.node_id}
        end_offset = max(0, told["highWatermark"])
        if code is ErrorCode.unknown_topic_or_partition:
            is_told_by_log = told["abortedTransactions"] is None  # none were looked for
            (self.goes if is_told_by_log else self.gone).append(topic_id)
            replicas.add(self.replica_id)
        elif code is ErrorCode.fenced_leader_epoch:
            leader = told["currentLeader"]["leaderId"]
            epoch = told["currentLeader"]["leaderEpoch"]
            replicas |= {self.replica_id} | ({leader} if leader >= 0 else set())
        elif code is not ErrorCode.unknown_leader_epoch and self.replica_id >= 0:
            replicas.add(self.replica_id)
            if end_offset == 0:
                isr.add(self.replica_id)
        self.broker.partition(
            topic_id,
            number,
            leader=leader,
            leader_epoch=epoch,
            replicas=tuple(sorted(replicas)),
            isr=tuple(sorted(isr)),
            batches=records or filled(end_offset),
        )
        known = epoch - 1 if code is ErrorCode.fenced_leader_epoch else epoch
        is_added = bool(asked) and told.get("recordsSizeInBytes") == 0 and code is ErrorCode.none
        if not is_added:
            self.opening.setdefault(topic_id, []).append((number, asked, known))

    def _begun(self) -> tuple[int, int]:
        """Id and next epoch of a session that has the partitions."""
        new = codec.newest(FETCH, "request")
        rows = {QUIET: [(0, None, 0)], **self.opening}
        state = new.ReplicaState(
            replica_id=self.replica_id,
            replica_epoch=self.asked.get("replicaState", {}).get("replicaEpoch", -1),
        )
        body = replace(
            codec.default_request(FETCH),
            replica_state=state,
            max_wait=timedelta(0),
            min_bytes=0,
            session_id=0,
            session_epoch=FULL_EPOCH,
            topics=tuple(
                new.FetchTopic(
                    topic_id=UUID(bytes=topic_id),
                    partitions=tuple(
                        new.FetchPartition(
                            partition=number,
                            current_leader_epoch=epoch,
                            fetch_offset=asked["fetchOffset"] if asked else 0,
                            last_fetched_epoch=-1,
                            log_start_offset=0,
                            partition_max_bytes=1 << 20,
                        )
                        for number, asked, epoch in partitions
                    ),
                )
                for topic_id, partitions in rows.items()
            ),
        )
        version = self.pair["api_version"]
        answer = self.broker.asked(codec.encode_request(FETCH, version, 1, "client", body))
        return codec.decode_response(FETCH, version, answer)[1].session_id, 1

    def answers(self) -> Frames:
        """Put the request; in its session, where it has one."""
        asked, request = self.asked, self.request
        if asked["sessionEpoch"] > FULL_EPOCH:
            session_id, epoch = self._begun()
            recorded = session_bytes(asked["sessionId"], asked["sessionEpoch"])
            assert request.count(recorded) == 1
            request = request.replace(recorded, session_bytes(session_id, epoch))
        self._delete(self.gone)
        ours = self.broker.asked(request, meanwhile=lambda: self._delete(self.goes))
        kafkas = self.kafkas
        if self.told["sessionId"]:
            drawn = codec.decode_response(FETCH, self.pair["api_version"], ours)[1].session_id
            assert drawn > 0
            old, new = (number.to_bytes(4, "big") for number in (self.told["sessionId"], drawn))
            kafkas = kafkas.replace(old, new, 1)
        return ours, kafkas

    def _delete(self, topic_ids: list[TopicId]) -> list[Effect]:
        for topic_id in topic_ids:
            self.broker.metadata.remove(topic_id)
        return self.broker.publish()


def session_bytes(session_id: int, epoch: int) -> bytes:
    return session_id.to_bytes(4, "big") + epoch.to_bytes(4, "big")


@pytest.mark.parametrize("pair", FETCHES, ids=name)
def test_fetch(pair: Pair) -> None:
    ours, kafkas = Fetched(pair).answers()
    assert ours == kafkas
