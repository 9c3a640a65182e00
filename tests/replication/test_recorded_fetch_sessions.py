"""The sessions of Kafka's followers and consumers in the recordings, answered again.

A recording has samples of a session, not all its fetches. In between, a fetch that changes nothing
is put for each epoch: each partition is read as the last recorded response had it. A partition that
a recorded response holds and no recorded request names is added by the first of these fetches, and
with it one of another topic that never changes. One whose last row is an error, and that the next
recorded response does not hold, was forgotten in between: followers stop at the error.
Compared is which partitions a recorded response holds, in which order, beside what was read: its
rows, and for each other partition of the session the last row recorded of it. That the rows sent
have the contents that were read is no comparison: they are the recorded ones.
"""

import base64
import random

import pytest

from replication.leader.fetch_session import (
    FetchManager,
    FetchPartition,
    FetchSessionCache,
    FetchSessionRequest,
)
from tests.wire.recorded_pairs import of_key
from wire.errors import ErrorCode
from wire.messages.fetch_response import FetchedPartition

QUIET = (bytes(16), 0)


def recorded():
    """Samples by connection and id of the session, in order of time; those alone are left out."""
    sessions = {}
    for pair in of_key(1):
        if pair["api_version"] < 13 or "raft" in pair["flags"]:
            continue
        session_id = pair["decoded"]["response"]["body"]["sessionId"]
        if session_id:
            key = f"{pair['scenario']}-{session_id}"
            sessions.setdefault(key, []).append(pair)
    return {
        key: pairs
        for key, pairs in sessions.items()
        if any(pair["decoded"]["request"]["body"]["sessionEpoch"] for pair in pairs)
    }


SESSIONS = recorded()


def topic_id(text):
    return base64.urlsafe_b64decode(text + "==")


def partitions_of(body):
    return {
        (topic_id(topic["topicId"]), row["partition"]): FetchPartition(
            fetch_offset=row["fetchOffset"], max_bytes=row["partitionMaxBytes"]
        )
        for topic in body["topics"]
        for row in topic["partitions"]
    }


def rows_of(body):
    return [
        FetchedPartition(
            topic=topic_id(topic["topicId"]),
            partition=row["partitionIndex"],
            code=ErrorCode(row["errorCode"]),
            high_watermark=row["highWatermark"],
            log_start_offset=row["logStartOffset"],
            preferred_read_replica=row["preferredReadReplica"],
            records_bytes=row["recordsSizeInBytes"],
        )
        for topic in body["responses"]
        for row in topic["partitions"]
    ]


def keys_of(rows):
    return [(row.topic, row.partition) for row in rows]


class Replay:
    """One session, opened by its recorded full fetch if there is one."""

    def __init__(self, pairs):
        self.manager = FetchManager(FetchSessionCache(10, random.Random(1)))
        self.read = {}
        named, held = {}, {}
        for pair in pairs:
            named |= partitions_of(pair["decoded"]["request"]["body"])
            held |= dict.fromkeys(keys_of(rows_of(pair["decoded"]["response"]["body"])))
        some = FetchPartition(fetch_offset=0, max_bytes=1)
        self.unnamed = {QUIET: some, **{key: some for key in held if key not in named}}
        self.session_id, self.epoch = 0, 0

    def fetch(self, partitions, forgotten=(), rows=()):
        context = self.manager.new_context(
            FetchSessionRequest(
                version=17,
                session_id=self.session_id,
                epoch=self.epoch,
                is_from_follower=True,
                partitions=partitions,
                forgotten=forgotten,
            ),
            lambda _: None,
            0,
        )
        for row in rows:
            self.read[row.topic, row.partition] = row
        read = []
        for part in context.partitions():
            row = self.read.get(part.key)
            if row is None:
                topic, number = part.key
                row = FetchedPartition(
                    topic=topic, partition=number, high_watermark=0, log_start_offset=0
                )
            read.append(row)
        response = context.respond(read, 0)
        for row in rows:  # records that were sent are not sent again
            key = (row.topic, row.partition)
            self.read[key] = FetchedPartition(
                topic=row.topic,
                partition=row.partition,
                code=row.code,
                high_watermark=row.high_watermark,
                log_start_offset=row.log_start_offset,
            )
        assert response.code is ErrorCode.none
        assert self.session_id in (0, response.session_id)
        self.session_id = response.session_id
        self.epoch += 1
        return keys_of(response.rows)

    def catch_up(self, epoch, held):
        while self.epoch < epoch:
            errors = [key for key, row in self.read.items() if row.code is not ErrorCode.none]
            self.fetch(self.unnamed, [key for key in errors if key not in held])
            self.unnamed = {}


@pytest.mark.parametrize("name", SESSIONS)
def test_responses_hold_the_partitions_that_those_of_kafka_hold(name):
    pairs = SESSIONS[name]
    replay = Replay(pairs)
    for pair in pairs:
        request = pair["decoded"]["request"]["body"]
        response = pair["decoded"]["response"]["body"]
        replay.catch_up(request["sessionEpoch"], keys_of(rows_of(response)))
        sent = replay.fetch(
            partitions_of(request),
            [
                (topic_id(topic["topicId"]), number)
                for topic in request["forgottenTopicsData"]
                for number in topic["partitions"]
            ],
            rows_of(response),
        )
        assert sent == keys_of(rows_of(response)), pair["id"]


def test_what_the_recordings_have():
    samples = [pair for pairs in SESSIONS.values() for pair in pairs]
    bodies = [pair["decoded"]["request"]["body"] for pair in samples]
    assert len(SESSIONS) == 12
    assert len(samples) == 28
    assert sum(not body["topics"] for body in bodies) == 12
    assert sum(bool(body["forgottenTopicsData"]) for body in bodies) == 1
    empty = [pair for pair in samples if not pair["decoded"]["response"]["body"]["responses"]]
    assert len(empty) == 4
