"""Produce, Fetch, ListOffsets, FindCoordinator in every version: refused at once, per partition."""

import dataclasses
import sys
from typing import Any
from uuid import UUID

import pytest
from kio.serial import entity_reader

from kernel.serving.record_requests import NO_GROUPS, NOT_PRODUCED
from tests.kernel.harness import World
from tests.wire.kio_frames import written
from wire.connections.framing import FrameReader, frame
from wire.connections.headers import RequestHeader, encode_request_header
from wire.errors import ErrorCode
from wire.messages.codec import entity_class, has_flexible_response_header, is_flexible
from wire.messages.conversion import default_of

PRODUCE, FETCH, LIST_OFFSETS, FIND_COORDINATOR = 0, 1, 2, 10
RECORDS = b"\xff" * 100
"""Not a record batch: nobody may look into it."""
REFUSED = ErrorCode.policy_violation
UNKNOWN_NAME = ErrorCode.unknown_topic_or_partition
UNKNOWN_ID = ErrorCode.unknown_topic_id


@pytest.fixture(scope="module")
def world() -> World:
    made = World(1)
    made.start_all()
    made.run_until(made.is_ready)
    assert made.client(1).create_topic("t").error_code is ErrorCode.none
    return made


def make(api_key: int, version: int, class_name: str, /, **fields: Any) -> Any:
    """A request entity of one version: the given fields that it has, defaults for the rest."""
    entity = getattr(sys.modules[entity_class(api_key, version, "request").__module__], class_name)
    return entity(
        **{
            field.name: fields[field.name] if field.name in fields else default_of(entity, field)
            for field in dataclasses.fields(entity)
        }
    )


def ask(world: World, api_key: int, version: int, body: Any) -> Any:
    """The answer in the class of its version; None when the connection closed instead."""
    header = RequestHeader(api_key, version, 5, "test")
    start = encode_request_header(header, is_flexible=is_flexible(api_key, version))
    frames, answers = FrameReader(1 << 20), []

    def received(data: bytes) -> None:
        frames.feed(data)
        answers.append(frames.next_frame())

    pipe = world.open_client(1, "PLAINTEXT", received)
    world.send(pipe, frame(start + written(body)))
    world.run_until(lambda: bool(answers) or not world.is_open(pipe), 1_000)
    if not answers:
        return None
    position = 5 if has_flexible_response_header(api_key, version) else 4
    entity = entity_class(api_key, version, "response")
    return entity_reader(entity)(answers[0], position)[0]


def topic_ids(world: World) -> tuple[UUID, UUID]:
    """Of the topic that exists, and one of none."""
    return UUID(bytes=bytes(world.kernel(1).cache.image.topic_id_by_name["t"])), UUID(int=99)


def errors(rows: Any, partitions: str) -> list[list[ErrorCode]]:
    return [[p.error_code for p in getattr(topic, partitions)] for topic in rows]


def produce_body(world: World, version: int, acks: int) -> Any:
    rows = tuple(
        make(PRODUCE, version, "PartitionProduceData", index=i, records=RECORDS) for i in (0, 7)
    )
    topics = tuple(
        make(
            PRODUCE, version, "TopicProduceData", name=name, topic_id=topic_id, partition_data=rows
        )
        for name, topic_id in zip(("t", "absent"), topic_ids(world), strict=True)
    )
    return make(PRODUCE, version, "ProduceRequest", acks=acks, topic_data=topics)


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("acks", [-1, 1])
def test_produce_is_refused_with_a_text(world: World, version: int, acks: int) -> None:
    answer = ask(world, PRODUCE, version, produce_body(world, version, acks))
    unknown = UNKNOWN_ID if version >= 13 else UNKNOWN_NAME
    assert errors(answer.responses, "partition_responses") == [
        [REFUSED, UNKNOWN_NAME],
        [unknown, unknown],
    ]
    row = answer.responses[0].partition_responses[0]
    assert (row.index, row.base_offset) == (0, -1)
    if version >= 8:
        assert row.error_message == NOT_PRODUCED


def test_produce_without_acks_closes_the_connection(world: World) -> None:
    assert ask(world, PRODUCE, 9, produce_body(world, 9, 0)) is None


def test_produce_with_impossible_acks(world: World) -> None:
    answer = ask(world, PRODUCE, 9, produce_body(world, 9, 2))
    assert errors(answer.responses, "partition_responses")[0][0] is ErrorCode.invalid_required_acks


@pytest.mark.parametrize("version", range(4, 19))
def test_fetch_is_refused(world: World, version: int) -> None:
    rows = (make(FETCH, version, "FetchPartition", partition=0, partition_max_bytes=1),)
    topics = tuple(
        make(FETCH, version, "FetchTopic", topic=name, topic_id=topic_id, partitions=rows)
        for name, topic_id in zip(("t", "absent"), topic_ids(world), strict=True)
    )
    answer = ask(world, FETCH, version, make(FETCH, version, "FetchRequest", topics=topics))
    unknown = UNKNOWN_ID if version >= 13 else UNKNOWN_NAME
    assert errors(answer.responses, "partitions") == [[REFUSED], [unknown]]
    assert not answer.responses[0].partitions[0].records


def test_fetch_with_a_session_that_was_never_handed_out(world: World) -> None:
    body = make(FETCH, 12, "FetchRequest", session_id=77, session_epoch=3)
    assert ask(world, FETCH, 12, body).error_code is ErrorCode.fetch_session_id_not_found


@pytest.mark.parametrize("version", range(1, 12))
def test_partitions_are_empty(world: World, version: int) -> None:
    rows = tuple(
        make(LIST_OFFSETS, version, "ListOffsetsPartition", partition_index=0, timestamp=timestamp)
        for timestamp in (-1, -2, 1_000)
    )
    topics = tuple(
        make(LIST_OFFSETS, version, "ListOffsetsTopic", name=name, partitions=rows)
        for name in ("t", "absent")
    )
    body = make(LIST_OFFSETS, version, "ListOffsetsRequest", replica_id=-1, topics=topics)
    answer = ask(world, LIST_OFFSETS, version, body)
    assert [topic.name for topic in answer.topics] == ["t", "absent"]
    assert errors(answer.topics, "partitions") == [[ErrorCode.none] * 3, [UNKNOWN_NAME] * 3]
    assert [row.offset for row in answer.topics[0].partitions] == [0, 0, -1]


@pytest.mark.parametrize("version", range(7))
def test_there_are_no_coordinators(world: World, version: int) -> None:
    body = make(
        FIND_COORDINATOR, version, "FindCoordinatorRequest", key="g", coordinator_keys=("g", "h")
    )
    answer = ask(world, FIND_COORDINATOR, version, body)
    rows = answer.coordinators if version >= 4 else [answer]
    assert [row.error_code for row in rows] == [REFUSED] * len(rows)
    assert len(rows) == (2 if version >= 4 else 1)
    if version >= 1:
        assert rows[0].error_message == NO_GROUPS
