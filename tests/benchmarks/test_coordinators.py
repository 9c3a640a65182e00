"""The client of the benchmarks of groups and transactions, and its figures."""

import asyncio
import struct
import uuid
from datetime import timedelta
from typing import Any, Final

import pytest
from kio.schema.errors import ErrorCode

from benchmarks.coordinators.classic_member import ClassicMember, assignment, subscription
from benchmarks.coordinators.consumer_member import ConsumerMember
from benchmarks.coordinators.offset_commits import check_committed, commit_frame
from benchmarks.coordinators.ratios import with_ratios
from benchmarks.coordinators.session import (
    RefusedError,
    Session,
    framed,
    heartbeat_error,
)
from benchmarks.coordinators.transactional_producer import (
    PROTOCOLS,
    TAGS_BEHIND_BATCH,
    TransactionalProducer,
)
from coordinator.group.consumer.client_protocol import assignment_of, subscription_of
from wire.api_keys import CONSUMER_GROUP_HEARTBEAT, HEARTBEAT, OFFSET_COMMIT
from wire.batches.batch import iterate_batches
from wire.messages import codec

NO_TIME: Final = timedelta(0)
TOPIC_ID: Final = uuid.UUID(int=1)


class Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)


def session() -> tuple[Session, Wire]:
    made, wire = Session(), Wire()
    made.connection_made(wire)  # type: ignore[arg-type]
    return made, wire


def test_an_answer_that_comes_in_pieces_is_handed_on_whole_and_once() -> None:
    made, wire = session()
    got: list[bytes] = []
    made.send(b"asked", got.append)
    for piece in (b"\0\0", b"\0\3a", b"bc"):
        assert got == []
        made.data_received(piece)
    assert (wire.written, got) == ([b"asked"], [b"abc"])
    made.send(b"again", got.append)
    made.data_received(b"\0\0\0\1d")
    assert got == [b"abc", b"d"]


def test_who_waits_when_the_connection_ends_is_told() -> None:
    async def lost() -> None:
        made, _ = session()
        asked = asyncio.ensure_future(made.ask_raw(b"asked"))
        await asyncio.sleep(0)
        made.connection_lost(None)
        await asked

    with pytest.raises(ConnectionError):
        asyncio.run(lost())


def test_an_answer_behind_the_time_of_who_asked_is_dropped_and_the_next_is_its_own() -> None:
    async def late() -> bytes:
        made, _ = session()
        asked = asyncio.ensure_future(made.ask_raw(b"asked"))
        await asyncio.sleep(0)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        made.data_received(b"\0\0\0\4late")
        asked = asyncio.ensure_future(made.ask_raw(b"again"))
        await asyncio.sleep(0)
        made.data_received(b"\0\0\0\5again")
        return await asked

    assert asyncio.run(late()) == b"again"


def test_one_request_is_under_way_at_a_time() -> None:
    made, _ = session()
    made.send(b"one", lambda _: None)
    with pytest.raises(AssertionError, match="one request"):
        made.send(b"two", lambda _: None)


def test_subscription_and_assignment_are_those_of_kafkas_clients() -> None:
    told = subscription_of(subscription(("a", "bc"), b"round 1"))
    assert (told.version, told.topics) == (0, ("a", "bc"))
    assert assignment_of(assignment("bc", 7)) == ({"bc": (7,)}, b"")


def member() -> ClassicMember:
    made = ClassicMember(session()[0], "g", "t")
    made.member_id, made.generation = "m", 3
    return made


def test_a_heartbeat_and_a_commit_are_of_the_members_generation() -> None:
    beat = codec.decode_as_sent(member().heartbeat_frame()[4:])
    assert (beat.group_id, beat.member_id, beat.generation_id) == ("g", "m", 3)
    commit = codec.decode_as_sent(commit_frame(member(), "t", range(2, 4))[4:])
    assert (commit.member_id, commit.generation_id_or_member_epoch) == ("m", 3)
    (topic,) = commit.topics
    assert [row.partition_index for row in topic.partitions] == [2, 3]


def test_errors_of_heartbeats_and_commits_are_seen() -> None:
    for code in (0, 27):
        new = codec.response_module(HEARTBEAT, 4)
        body = new.HeartbeatResponse(throttle_time=NO_TIME, error_code=ErrorCode(code))
        assert heartbeat_error(codec.encode_response(HEARTBEAT, 4, 0, body)) == code
    check_committed(_commit_answer(0))
    with pytest.raises(RefusedError, match="unknown_member_id"):
        check_committed(_commit_answer(25))


def _commit_answer(code: int) -> bytes:
    new = codec.response_module(OFFSET_COMMIT, 9)
    row = new.OffsetCommitResponsePartition(partition_index=0, error_code=ErrorCode(code))
    topic = new.OffsetCommitResponseTopic(name="t", partitions=(row,))
    body = new.OffsetCommitResponse(throttle_time=NO_TIME, topics=(topic,))
    return codec.encode_response(OFFSET_COMMIT, 9, 0, body)


def test_a_member_owns_what_it_is_told_and_knows_whether_that_is_news() -> None:
    made = ConsumerMember(session()[0], "g", "t")
    new = codec.response_module(CONSUMER_GROUP_HEARTBEAT, 1)

    def answer(*numbers: int) -> Any:
        rows = (new.TopicPartitions(topic_id=TOPIC_ID, partitions=numbers),)
        return new.ConsumerGroupHeartbeatResponse(
            throttle_time=NO_TIME, error_code=ErrorCode(0), error_message=None, member_id="m",
            member_epoch=4, heartbeat_interval=NO_TIME,
            assignment=new.Assignment(topic_partitions=rows),
        )  # fmt: skip

    assert made.take(answer(1, 2)) is True
    assert made.take(answer(2, 1)) is False
    assert made.owned == {(TOPIC_ID, 1), (TOPIC_ID, 2)}
    assert made.epoch == 4
    told = codec.decode_as_sent(
        framed(CONSUMER_GROUP_HEARTBEAT, made.body(epoch=4, is_full=True))[4:]
    )
    assert [row.partitions for row in told.topic_partitions] == [(1, 2)]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_transactions_requests_are_those_of_its_producer(protocol: str) -> None:
    made = TransactionalProducer(
        (session()[0], session()[0]), "id", ("t", 5), PROTOCOLS[protocol], b"value"
    )
    frame = made.produce.with_batch(77, 3, 9, end=TAGS_BEHIND_BATCH)
    body = codec.decode_as_sent(frame[4:])
    ((row,),) = (topic.partition_data for topic in body.topic_data)
    (batch,) = iterate_batches(bytes(row.records))
    header = batch.header
    assert batch.crc_is_valid
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, 9)
    assert header.is_transactional
    assert (body.transactional_id, row.index) == ("id", 5)
    assert [record.value for record in batch.records()] == [b"value"]
    ended = codec.decode_as_sent(made.end.of(77, 3)[4:])
    assert (ended.producer_id, ended.producer_epoch, ended.committed) == (77, 3, True)
    added = codec.decode_as_sent(made.add.of(77, 3)[4:])
    assert added.v3_and_below_producer_id == 77
    assert struct.unpack(">i", frame[:4]) == (len(frame) - 4,)


def test_ratios_are_ours_in_kafkas_and_only_of_what_both_have() -> None:
    ours = {"per_s": 30, "ms": 5.0, "only": 1, "unknown": None, "none": 2}
    peers = {"per_s": 120, "ms": 2.0, "unknown": 3, "none": 0}
    rows = with_ratios({"kraftline": ours, "kafka": peers})
    assert rows["x"] == {"per_s": 0.25, "ms": 2.5}
    assert with_ratios({"kraftline": ours}) == {"kraftline": ours}
