"""Assignments of replicas to log directories: when they are sent, what is sent again."""

from typing import Any
from uuid import UUID

import pytest

from broker.replicas.directory_assignments import ASSIGNMENTS_PER_REQUEST, DirectoryAssignments
from metadata.image import Image
from metadata.records import FeatureLevelRecord
from quorum_controller.bodies import NO_TIME
from tests.broker.metadata_log import D1, D2, A, B, MetadataLog
from tests.broker.record_hosts import registered
from wire.api_keys import ASSIGN_REPLICAS_TO_DIRS
from wire.errors import ErrorCode
from wire.messages import codec


def image(level: int | None = None, partitions: int = 3) -> Image:
    log = registered()
    log.topic("a", partitions=partitions)
    if level is not None:
        log.write(FeatureLevelRecord(name="metadata.version", feature_level=level))
    return log.image


def sent(body: Any) -> dict:
    assert (body.broker_id, body.broker_epoch) == (1, 9)
    return {
        (topic.topic_id.bytes, part.partition_index): row.id_.bytes
        for row in body.directories
        for topic in row.topics
        for part in topic.partitions
    }


def answer(*codes: ErrorCode, code: ErrorCode = ErrorCode.none, topic_id: Any = A) -> Any:
    new = codec.newest(ASSIGN_REPLICAS_TO_DIRS, "response")
    rows = tuple(
        new.PartitionData(partition_index=number, error_code=each)
        for number, each in enumerate(codes)
    )
    topics = (new.TopicData(topic_id=topic_id and UUID(bytes=topic_id), partitions=rows),)
    directories = (new.DirectoryData(id_=UUID(bytes=D2), topics=topics),)
    return new.AssignReplicasToDirsResponse(
        throttle_time=NO_TIME, error_code=code, directories=directories
    )


def submitted(number: int = 1, now_ms: int = 0) -> DirectoryAssignments:
    assignments = DirectoryAssignments(1)
    for each in range(number):
        assignments.submit((A, each), D2, now_ms)
    return assignments


def take(assignments: DirectoryAssignments, now_ms: int, at: Image | None = None) -> Any:
    return assignments.take_request(image() if at is None else at, lambda: 9, now_ms)


def test_assignments_wait_for_each_other_and_one_request_is_in_flight() -> None:
    assignments = DirectoryAssignments(1)
    assert assignments.next_ms() is None
    assignments.submit((A, 0), D1, 1_000)
    assignments.submit((A, 1), D2, 1_050)
    assignments.submit((A, 0), D2, 1_060)
    assert assignments.next_ms() == 1_100
    assert take(assignments, 1_099) is None
    assert sent(take(assignments, 1_100)) == {(A, 0): D2, (A, 1): D2}
    assignments.submit((A, 2), D2, 1_200)
    assert assignments.next_ms() is None
    assert take(assignments, 5_000) is None
    assignments.on_answer(answer(ErrorCode.none, ErrorCode.none), 1_250)
    assert assignments.next_ms() == 1_300
    assert sent(take(assignments, 1_300)) == {(A, 2): D2}
    assignments.on_answer(answer(ErrorCode.none, ErrorCode.none, ErrorCode.none), 1_400)
    assert assignments.next_ms() is None


def test_what_is_refused_or_left_out_is_sent_again() -> None:
    assignments = submitted(3)
    assert len(sent(take(assignments, 100))) == 3
    assignments.on_answer(answer(ErrorCode.none, ErrorCode.not_leader_or_follower), 200)
    assert assignments.next_ms() == 300
    assert sent(take(assignments, 300)) == {(A, 1): D2, (A, 2): D2}
    assignments.submit((A, 1), D1, 310)
    assignments.on_answer(None, 320)
    again = sent(take(assignments, 600))
    assert again == {(A, 2): D2}, "the newer one is where the metadata have it"


@pytest.mark.parametrize(
    "failure",
    [None, answer(ErrorCode.none, code=ErrorCode.stale_broker_epoch)],
)
def test_failures_of_a_request_double_the_delay_up_to_10_s(failure: Any) -> None:
    assignments, now_ms, delays = submitted(), 100, []
    for _ in range(9):
        assert sent(take(assignments, now_ms)) == {(A, 0): D2}
        assignments.on_answer(failure, now_ms)
        due_ms = assignments.next_ms()
        delays.append(due_ms - now_ms)
        now_ms = due_ms
    assert delays == [200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000, 10_000]
    take(assignments, now_ms)
    assignments.on_answer(answer(ErrorCode.unknown_server_error), now_ms)
    assert assignments.next_ms() == now_ms + 100


@pytest.mark.parametrize(
    ("key", "directory", "level"),
    [((B, 0), D2, None), ((A, 9), D2, None), ((A, 0), D1, None), ((A, 0), D2, 16)],
)
def test_what_is_not_wanted_any_more_is_left_out(
    key: Any, directory: Any, level: int | None
) -> None:
    assignments = DirectoryAssignments(1)
    assignments.submit(key, directory, 0)
    assert take(assignments, 100, image(level)) is None
    assert assignments.next_ms() is None


def test_a_replica_of_other_brokers_is_left_out() -> None:
    log: MetadataLog = registered()
    log.topic("a", replicas=(2, 3), leader=2)
    assert take(submitted(), 100, log.image) is None


def test_a_request_has_2250_assignments_and_the_next_follows() -> None:
    assert ASSIGNMENTS_PER_REQUEST == 2250
    assert submitted(2_250).next_ms() == 100, "there may be more"
    assert submitted(2_251).next_ms() == 0
    assignments = submitted(4_502)
    assert assignments.next_ms() == 0
    at = image(partitions=4_502)
    first = sent(take(assignments, 0, at))
    assert len(first) == 2250
    assignments.on_answer(answer(*[ErrorCode.none] * 2250), 10)
    assert assignments.next_ms() == 10
    assert len(sent(take(assignments, 10, at))) == 2250
    assignments.on_answer(answer(*[ErrorCode.none] * 4500), 20)
    assert assignments.next_ms() == 120
    assert len(sent(take(assignments, 120, at))) == 2


def test_an_answer_without_a_topic_id_says_nothing() -> None:
    assignments = submitted()
    take(assignments, 100)
    assignments.on_answer(answer(ErrorCode.none, topic_id=None), 200)
    assert sent(take(assignments, 300)) == {(A, 0): D2}
