"""The quota of time charges what the kernel answers, and its answers say the throttle time."""

import struct
from dataclasses import fields, replace
from datetime import timedelta
from typing import Any

import pytest
from immutables import Map

from broker.clients.kernel_answers import (
    FIELD,
    Asked,
    KernelAnswer,
    asked,
    told_throttle_ms,
    with_throttle_time,
)
from broker.clients.request_metrics import RequestMetrics
from broker.effects import SetReading
from network.clock import Now
from quorum_controller.security.authorization import Caller
from tests.broker.fronts import Fronts, api_versions, request
from wire.api_keys import API_VERSIONS, CREATE_TOPICS, DESCRIBE_QUORUM, METADATA
from wire.api_table import SCHEMAS
from wire.connections.framing import frame
from wire.messages import codec
from wire.messages.conversion import default_entity

SECOND_NS = 1_000_000_000
TIMES = (0, 0, 0)


def encoded(key: int, version: int) -> bytes:
    newest = codec.newest(key, "response")
    body = default_entity(getattr(newest, f"{SCHEMAS[key].name}Response"))
    return codec.encode_response(key, version, 7, body)


@pytest.mark.parametrize(
    ("key", "version"), [(METADATA, 4), (METADATA, 12), (API_VERSIONS, 2), (API_VERSIONS, 3)]
)
def test_an_answer_gets_its_throttle_time_and_nothing_else_changes(key: int, version: int) -> None:
    before = codec.decode_response(key, version, encoded(key, version))
    answer = with_throttle_time(Asked(key, version, None, TIMES), encoded(key, version), 1_234)
    number, body = codec.decode_response(key, version, answer)
    assert (number, body.throttle_time) == (7, timedelta(milliseconds=1_234))
    others = [field.name for field in fields(body) if field.name != FIELD]
    assert [getattr(body, name) for name in others] == [getattr(before[1], name) for name in others]
    assert len(answer) == len(encoded(key, version))


@pytest.mark.parametrize(
    ("key", "version"), [(METADATA, 1), (API_VERSIONS, 0), (DESCRIBE_QUORUM, 2)]
)
def test_an_answer_without_the_field_has_no_throttle_time(key: int, version: int) -> None:
    content = encoded(key, version)
    assert with_throttle_time(Asked(key, version, None, TIMES), content, 5) == content


def test_a_large_answer_is_not_decoded() -> None:
    answer = with_throttle_time(Asked(METADATA, 12, None, TIMES), bytes(9) + b"undecodable", 5)
    assert answer == bytes(8) + b"\x05undecodable"


def test_an_answer_to_an_unknown_version_has_no_throttle_time() -> None:
    content = encoded(API_VERSIONS, 0)
    assert with_throttle_time(Asked(API_VERSIONS, 99, None, TIMES), content, 5) == content


def test_what_a_request_asks_for_and_who() -> None:
    metrics, frame = RequestMetrics(lambda: 9), api_versions()
    expected = Asked(API_VERSIONS, 4, "client", (5, 9, len(frame)))
    assert [asked(frame, 5, metrics) for _ in range(2)] == [expected] * 2
    assert asked(bytearray(b"\0"), 5, metrics) is None
    assert metrics.requests == {(API_VERSIONS, 4): 2}


# ---- at the front ----------------------------------------------------------------------------


def limited(**values: float) -> Fronts:
    fronts = Fronts()
    fronts.quotas.publish(Map({(("client-id", "client"),): Map(values)}))
    fronts.open()
    return fronts


def answered(fronts: Fronts, *spent_ns: int, count: int = 1) -> list[timedelta]:
    """Throttle times of requests, of which so many are answered by each portion of the kernel."""
    fronts.receive(*[api_versions()] * (len(spent_ns) * count))
    for each in spent_ns:
        fronts.front.kernel_bytes(1, frame(encoded(API_VERSIONS, 4)) * count, each)
    fronts.front.go_on()
    content, found = fronts.sent(), []
    while content:
        size = int.from_bytes(content[:4], "big")
        body: Any = codec.decode_response(API_VERSIONS, 4, content[4 : 4 + size])[1]
        found.append(body.throttle_time)
        content = content[4 + size :]
    return found


def test_the_time_of_the_kernel_is_charged_and_the_connection_is_not_read_for_the_throttle_time():
    fronts = limited(request_percentage=1)
    assert answered(fronts, SECOND_NS // 10) == [timedelta(0)], "10 windows of 1 %"
    assert fronts.reading() == []
    fronts.taken()
    (throttle_time,) = answered(fronts, SECOND_NS)
    assert throttle_time == timedelta(seconds=1), "one window at most"
    assert fronts.of(SetReading)[-1] == SetReading(1, is_wanted=False)
    fronts.deliver()
    assert [row.throttle_ms for row in fronts.metrics.kinds()[API_VERSIONS].newest] == [1_000]
    (rate,) = fronts.quotas.request.rates(9)
    assert (rate.client_id, rate.throttle_ms) == ("client", 1_000)
    fronts.clock.set(Now(fronts.clock.now_ms + 1_000, 0))
    fronts.front.tick()
    fronts.front.go_on()
    assert fronts.of(SetReading)[-1] == SetReading(1, is_wanted=True)


def test_answers_that_come_together_are_charged_once():
    fronts = limited(request_percentage=100)
    assert answered(fronts, 6 * SECOND_NS, count=2) == [timedelta(0)] * 2
    (rate,) = fronts.quotas.request.rates(9)
    assert rate.rate == 60


def created(throttle_ms: int, version: int = 7) -> bytes:
    """An answer of the controller to CreateTopics."""
    body = default_entity(codec.newest(CREATE_TOPICS, "response").CreateTopicsResponse)
    body = replace(body, throttle_time=timedelta(milliseconds=throttle_ms))
    return codec.encode_response(CREATE_TOPICS, version, 7, body)


def throttled(fronts: Fronts, told_ms: int, spent_ns: int) -> int:
    """Throttle time in an answer to CreateTopics, of which the controller tells `told_ms`."""
    asked_for = codec.default_request(CREATE_TOPICS)
    fronts.receive(bytearray(codec.encode_request(CREATE_TOPICS, 7, 7, "client", asked_for)))
    fronts.front.kernel_bytes(1, frame(created(told_ms)), spent_ns)
    fronts.front.go_on()
    body: Any = codec.decode_response(CREATE_TOPICS, 7, fronts.sent()[4:])[1]
    return body.throttle_time // timedelta(milliseconds=1)


def test_the_throttle_time_of_the_controller_holds_without_any_quota_here():
    fronts = Fronts()
    fronts.open()
    fronts.taken()
    assert throttled(fronts, 700, SECOND_NS) == 700
    assert fronts.of(SetReading)[-1] == SetReading(1, is_wanted=False)
    fronts.clock.set(Now(fronts.clock.now_ms + 699, 0))
    fronts.front.tick()
    fronts.front.go_on()
    assert fronts.of(SetReading)[-1] == SetReading(1, is_wanted=False)
    fronts.clock.set(Now(fronts.clock.now_ms + 1, 0))
    fronts.front.tick()
    fronts.front.go_on()
    assert fronts.of(SetReading)[-1] == SetReading(1, is_wanted=True)
    assert not list(fronts.quotas.request._rates)


@pytest.mark.parametrize(("told_ms", "said_ms"), [(0, 1_000), (999, 1_000), (1_001, 1_001)])
def test_the_longer_throttle_time_counts(told_ms: int, said_ms: int):
    fronts = limited(request_percentage=1)
    assert throttled(fronts, told_ms, 100 * SECOND_NS) == said_ms
    (rate,) = fronts.quotas.request.rates(9)
    assert rate.throttle_ms == said_ms


@pytest.mark.parametrize("version", [2, 4, 5, 7])
def test_what_the_controller_tells_is_found_in_each_version(version: int) -> None:
    told = told_throttle_ms(Asked(CREATE_TOPICS, version, None, TIMES), created(700, version))
    assert told == 700
    assert told_throttle_ms(Asked(API_VERSIONS, 99, None, TIMES), bytes(9)) == 0


def test_an_answer_that_tells_the_throttle_time_already_stays_as_it_is() -> None:
    asked_for, answer = Asked(CREATE_TOPICS, 7, "client", TIMES), created(700)
    quotas, caller = limited(request_percentage=1).quotas, Caller()
    assert KernelAnswer(asked_for, 0, 0).charged(quotas, caller, asked_for, answer) is answer


def test_without_a_quota_of_time_nothing_is_charged():
    fronts = limited(producer_byte_rate=1)
    assert answered(fronts, 100 * SECOND_NS) == [timedelta(0)]
    assert fronts.reading() == []


def test_a_request_without_a_header_goes_to_the_kernel_which_refuses_it():
    fronts = limited(request_percentage=1)
    fronts.receive(bytearray(b"\0"))
    assert fronts.to_kernel() == frame(b"\0")
    fronts.front.kernel_closed(1, "bad")
    assert len(fronts.front) == 0


def test_another_client_id_is_not_charged():
    fronts = limited(request_percentage=1)
    fronts.receive(request(METADATA, 20, 1))
    fronts.front.kernel_bytes(1, frame(encoded(METADATA, 1)), SECOND_NS)
    assert fronts.sent() == frame(encoded(METADATA, 1))
    assert fronts.reading() == []


def test_only_what_an_api_has_is_counted_under_its_own_name() -> None:
    metrics = RequestMetrics(lambda: 5)
    for key, version in (
        (-1, 7),
        (-2, 3),
        (9_999, 1),
        (METADATA, 12),
        (METADATA, 500),
        (METADATA, -2),
    ):
        assert asked(header_of(key, version), 0, metrics) is not None
    assert metrics.requests == {(METADATA, 12): 1, (METADATA, -1): 2}


def header_of(key: int, version: int) -> bytearray:
    """A request that has a header only."""
    return bytearray(struct.pack(">hhihb", key, version, 7, -1, 0))


def test_a_time_that_others_spent_too_ends_with_the_answer() -> None:
    answer = KernelAnswer(Asked(METADATA, 12, None, (10, 20, 30)), 1_000, 50)
    assert answer.begun == (METADATA, 10, 20, 50, 30)
    assert KernelAnswer(Asked(METADATA, 12, None, (10, 20, 30)), 7, 50).begun[3] == 27
