"""Times, sizes and errors of requests, measured at a front and in the answers of handlers."""

from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from broker.clients.front import CALLS_MAX
from broker.clients.request_metrics import (
    FETCH_FOLLOWER,
    KEPT,
    Begun,
    RequestMetrics,
    RequestTimes,
)
from broker.effects import SendParts
from tests.broker.brokers import Driven
from tests.broker.fronts import Fronts, api_versions, list_offsets, produce, request
from wire.api_keys import API_VERSIONS, DESCRIBE_LOG_DIRS, FETCH, LIST_OFFSETS, PRODUCE
from wire.connections.framing import frame
from wire.errors import ErrorCode
from wire.messages import codec
from wire.messages.error_codes import error_codes

QUEUE, LOCAL, REMOTE, SEND = 1_000, 20_000, 300_000, 4_000_000
STEP = 50_000_000
"""Rest of the step behind an answer."""


@dataclass
class Answered:
    """A request that is answered at once."""

    begun: Begun | None
    answered_ns: int = 0
    throttle_ms: int = 0


def ready(handle=lambda fronts, call: None) -> Fronts:
    """A front whose handler takes LOCAL; step and requests QUEUE apart."""

    def handled(call):
        fronts.now_ns += LOCAL
        handle(fronts, call)

    fronts = Fronts(handle=handled)
    fronts.open()
    fronts.now_ns = 7
    fronts.metrics.step()
    fronts.now_ns += QUEUE
    return fronts


def times_of(fronts, kind):
    """Times of the only request, whose answer leaves now."""
    fronts.now_ns += STEP
    fronts.deliver(SEND)
    (found,) = fronts.metrics.kinds()[kind].newest
    return found


def test_a_request_that_waits_is_local_up_to_the_end_of_its_handler_and_remote_until_its_answer():
    fronts = ready()
    fronts.receive(produce(100))
    assert fronts.metrics.kinds() == {}, "not answered"
    fronts.now_ns += REMOTE
    fronts.answer(fronts.calls[0], b"answer")
    assert fronts.metrics.kinds() == {}, "not sent"
    found = times_of(fronts, PRODUCE)
    assert found == RequestTimes(QUEUE, LOCAL, REMOTE, STEP, SEND, 0, 100)
    assert found.total_ns == QUEUE + LOCAL + REMOTE + STEP + SEND


def test_a_request_that_is_answered_by_its_handler_is_never_remote():
    fronts = ready(lambda _, call: call.answer_parts([b"answer"]))
    fronts.receive(produce(100))
    assert times_of(fronts, PRODUCE) == RequestTimes(QUEUE, LOCAL, 0, STEP, SEND, 0, 100)


def test_answers_that_wait_for_earlier_ones_wait_for_the_driver_and_leave_together():
    fronts = ready()
    fronts.receive(produce(20), api_versions(), produce(30))
    fronts.answer(fronts.calls[1], b"second")
    fronts.kernel_answers(b"")
    fronts.deliver()
    fronts.now_ns += REMOTE
    fronts.answer(fronts.calls[0], b"first")
    fronts.deliver(SEND)
    first, second = fronts.metrics.kinds()[PRODUCE].newest
    assert (first.response_queue_ns, first.send_ns) == (0, SEND)
    assert (second.response_queue_ns, second.send_ns) == (REMOTE, SEND)


def test_what_the_kernel_answers_is_local_as_long_as_its_handler_took():
    fronts = ready()
    fronts.receive(api_versions(), api_versions())
    size = len(api_versions())
    fronts.now_ns += REMOTE
    fronts.front.kernel_bytes(1, frame(b"first") + frame(b"second"), LOCAL)
    fronts.front.go_on()
    fronts.now_ns += STEP
    fronts.deliver(SEND)
    first, second = fronts.metrics.kinds()[API_VERSIONS].newest
    assert first == RequestTimes(QUEUE, LOCAL, REMOTE - LOCAL, STEP, SEND, 0, size)
    assert second == RequestTimes(QUEUE, 0, REMOTE, STEP, SEND, 0, size), "the first has the time"


def test_requests_are_counted_by_kind_and_version():
    fronts = ready()
    fronts.receive(produce(20), produce(20), api_versions())
    assert fronts.metrics.requests == {(PRODUCE, 7): 2, (API_VERSIONS, 4): 1}


@pytest.mark.parametrize("is_answering", [True, False])
def test_a_request_without_an_answer_is_over_at_the_end_of_the_half_of_its_step(is_answering):
    fronts = ready(lambda _, call: call.answer_nothing() if is_answering else None)
    fronts.receive(produce(100))
    if not is_answering:
        fronts.end(fronts.calls[0])
    assert fronts.of(SendParts) == []
    assert times_of(fronts, PRODUCE) == RequestTimes(QUEUE, LOCAL, 0, STEP, 0, 0, 100)
    assert times_of(fronts, PRODUCE) == RequestTimes(QUEUE, LOCAL, 0, STEP, 0, 0, 100), "once"


def test_an_answer_that_waits_for_an_earlier_one_is_over_when_its_connection_closes():
    fronts = ready()
    fronts.receive(produce(20), api_versions(), produce(30), api_versions())
    fronts.answer(fronts.calls[1], b"second")
    fronts.kernel_answers(b"", b"")
    fronts.front.closed(1)
    assert times_of(fronts, PRODUCE).size_bytes == 30


def test_the_wait_for_earlier_answers_is_time_in_the_queue():
    fronts = ready()
    fronts.receive(*[produce(20)] * CALLS_MAX, produce(200))
    assert (len(fronts.calls), fronts.front.queued_count) == (CALLS_MAX, 1)
    fronts.now_ns += REMOTE
    fronts.metrics.step()
    fronts.answer(fronts.calls[0], b"")
    assert fronts.front.queued_count == 0
    for call in fronts.calls[1:]:
        fronts.answer(call, b"")
    fronts.deliver()
    first, *_, last = fronts.metrics.kinds()[PRODUCE].newest
    assert (first.queue_ns, last.queue_ns) == (QUEUE, QUEUE + CALLS_MAX * LOCAL + REMOTE)


def test_frames_behind_waiting_ones_count_from_the_first_of_them():
    fronts = ready()
    fronts.receive(*[produce(20)] * CALLS_MAX, produce(200))
    fronts.now_ns += REMOTE
    fronts.metrics.step()
    fronts.receive(produce(300))
    for call in fronts.calls:
        fronts.answer(call, b"")
    fronts.deliver()
    newest = fronts.metrics.kinds()[PRODUCE].newest
    waits_ns = QUEUE + CALLS_MAX * LOCAL + REMOTE
    assert [each.queue_ns >= waits_ns for each in newest] == [*[False] * CALLS_MAX, True, True]


def test_a_handler_tells_the_kind_and_the_time_for_which_a_client_is_throttled():
    def handle(fronts, call):
        call.kind = FETCH_FOLLOWER
        call.throttle._mute(50)
        call.answer_parts([b""])

    fronts = Fronts(handle=lambda call: handle(fronts, call))
    fronts.quotas.is_enabled = True
    fronts.open()
    fronts.receive(request(FETCH, 60, version=11))
    assert times_of(fronts, FETCH_FOLLOWER).throttle_ms == 50
    assert fronts.metrics.kinds()[FETCH_FOLLOWER].count == 1


def test_a_client_that_has_gone_gets_no_answer_to_count():
    fronts = ready()
    fronts.receive(produce(100))
    fronts.front.closed(1)
    fronts.answer(fronts.calls[0], b"late")
    fronts.deliver()
    assert fronts.metrics.kinds() == {}


def test_the_newest_requests_of_a_kind_are_kept_and_all_are_counted():
    metrics = RequestMetrics(lambda: 0)
    for number in range(KEPT + 3):
        metrics.sent([Answered((PRODUCE, 0, 0, 0, number))], 0, 0)
    found = metrics.kinds()[PRODUCE]
    assert (found.count, len(found.newest)) == (KEPT + 3, KEPT)
    assert (found.newest[0].size_bytes, found.newest[-1].size_bytes) == (3, KEPT + 2)


def test_the_queue_of_a_broker_begins_with_its_step():
    driven = Driven()
    driven.start()
    driven.connect()
    driven.read_ns = [100, 130, 150]
    body = replace(codec.default_request(LIST_OFFSETS), replica_id=-1, topics=())
    (answer,) = driven.request(LIST_OFFSETS, 7, body)
    assert driven.broker.counts().request_times == {}
    answer.sent(160, 190)
    (found,) = driven.broker.counts().request_times[LIST_OFFSETS].newest
    assert found == RequestTimes(30, 20, 0, 10, 30, 0, found.size_bytes)


# ---- errors ----------------------------------------------------------------------------------


def test_errors_of_a_body_are_those_of_the_response_and_of_its_rows():
    new = codec.newest(DESCRIBE_LOG_DIRS, "response")
    failed = new.DescribeLogDirsResult(
        error_code=ErrorCode.kafka_storage_error, log_dir="/a", total_bytes=0, usable_bytes=0,
        topics=("rows without codes are not looked at",),
    )  # fmt: skip
    body = new.DescribeLogDirsResponse(
        throttle_time=timedelta(0), error_code=ErrorCode.none, results=(failed, failed)
    )
    assert list(error_codes(body)) == [ErrorCode.none, *[ErrorCode.kafka_storage_error] * 2]


def test_errors_of_rows_below_rows():
    new = codec.newest(LIST_OFFSETS, "response")
    partitions = tuple(
        new.ListOffsetsPartitionResponse(partition_index=0, error_code=code)
        for code in (ErrorCode.none, ErrorCode.offset_not_available)
    )
    topic = new.ListOffsetsTopicResponse(name="t", partitions=partitions)
    body = new.ListOffsetsResponse(throttle_time=timedelta(0), topics=(topic,))
    assert list(error_codes(body)) == [ErrorCode.none, ErrorCode.offset_not_available]


def test_errors_of_answers_are_counted_by_request_none_too():
    fronts = Fronts()
    fronts.open()
    fronts.receive(list_offsets(), list_offsets(1))
    new = codec.newest(LIST_OFFSETS, "response")
    row = new.ListOffsetsPartitionResponse(partition_index=0, error_code=ErrorCode.none)
    topic = new.ListOffsetsTopicResponse(name="t", partitions=(row,))
    for call in fronts.calls:
        call.answer(new.ListOffsetsResponse(throttle_time=timedelta(0), topics=(topic,)))
    fronts.calls[0].count(ErrorCode.offset_not_available)
    assert fronts.metrics.errors == {
        (LIST_OFFSETS, ErrorCode.none): 2,
        (LIST_OFFSETS, ErrorCode.offset_not_available): 1,
    }
