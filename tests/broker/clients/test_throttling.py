"""Quotas of clients: what is recorded, and what a front does with a connection above one."""

from datetime import timedelta
from functools import partial
from math import inf

import pytest
from immutables import Map

from broker.clients.client_quotas import CLIENTS_MAX, IDLE_MS_MAX, ClientQuota, ClientRate
from broker.effects import SendParts, SetReading, UsedAtKernel
from network.clock import Clock, Now
from network.sampled_rate import QuotaWindow
from quorum_controller.security.authorization import Caller
from tests.broker.fronts import Fronts, api_versions, list_offsets, produce
from wire.messages import codec

ALICE = Caller("User:alice")
PRODUCED, TIME = "producer_byte_rate", "request_percentage"


def quotas_of(**values: float) -> "Map":
    """Quotas of every client id."""
    return Map({(("client-id", None),): Map(values)})


def of_users(**values: float) -> "Map":
    """Quotas of every user: requests of these tests have no client id."""
    return Map({(("user", None),): Map(values)})


def quota(values=None, *, throttle_ms_max=1 << 20, samples=11):
    clock = Clock(Now(1_000, 5_000))
    made = ClientQuota(PRODUCED, QuotaWindow(samples, 1), clock, throttle_ms_max)
    if values is not None:
        made.publish(values, is_enabled=True)
    return made, clock


def advance(clock, ms):
    clock.set(Now(clock.now_ms + ms, clock.wall_ms + ms))


# ---- the rates of clients --------------------------------------------------------------------


def test_a_client_above_its_quota_is_throttled_as_in_kafka():
    made, clock = quota(quotas_of(producer_byte_rate=1_000))
    assert [made.record(ALICE, "app", each) for each in (5_000, 5_000, 1)] == [0, 0, 1]
    assert made.record(ALICE, "other", 5_000) == 0, "another client id"
    advance(clock, 500)
    assert made.record(ALICE, "app", 2_499) == 2_000
    made.unrecord(ALICE, "app", 2_499)
    assert made.record(ALICE, "app", 499) == 0


def test_nothing_is_recorded_while_no_client_has_the_quota():
    made, _ = quota()
    assert made.record(ALICE, "app", 1 << 40) == 0
    made.unrecord(ALICE, "app", 1)
    assert (list(made.rates(9)), made.value_max(ALICE, "app")) == ([], inf)


def test_a_client_without_a_quota_beside_others_is_measured_and_not_throttled():
    made, _ = quota(Map({(("user", "bob"),): Map({PRODUCED: 1.0})}))
    assert made.record(ALICE, None, 1 << 40) == 0
    assert list(made.rates(9)) == [ClientRate(PRODUCED, "", "", (1 << 40) / 10, None)]


def test_a_changed_quota_holds_for_what_came_before():
    made, _ = quota(quotas_of(producer_byte_rate=1_000))
    made.record(ALICE, "app", 20_000)
    made.publish(quotas_of(producer_byte_rate=2_000), is_enabled=True)
    assert made.record(ALICE, "app", 2_000) == 1_000


def test_those_of_a_user_share_a_rate():
    made, _ = quota(Map({(("user", "alice"),): Map({PRODUCED: 1_000.0})}))
    assert made.record(ALICE, "a", 6_000) == 0
    assert made.record(ALICE, "b", 6_000) == 2_000


def test_a_throttle_time_has_a_limit_if_the_quota_has_one():
    made, _ = quota(quotas_of(producer_byte_rate=1), throttle_ms_max=1_000)
    assert made.record(ALICE, "app", 1 << 40) == 1_000


def test_the_largest_value_is_that_of_all_full_windows():
    made, _ = quota(quotas_of(producer_byte_rate=1_000), samples=4)
    assert made.value_max(ALICE, "app") == 3_000


def test_rates_that_are_not_used_and_too_many_are_dropped(monkeypatch):
    made, clock = quota(quotas_of(producer_byte_rate=1_000))
    made.record(ALICE, "idle", 1)
    advance(clock, 1)
    made.record(ALICE, "busy", 1)
    advance(clock, IDLE_MS_MAX - 2)
    made.record(ALICE, "first", 1)
    assert [each.client_id for each in made.rates(9)] == ["idle", "busy", "first"]
    advance(clock, 1)
    made.record(ALICE, "second", 1)
    assert [each.client_id for each in made.rates(9)] == ["busy", "first", "second"]
    assert [each.client_id for each in made.rates(1)] == ["second"]
    made.record(ALICE, "busy", 1)
    for i in range(CLIENTS_MAX - 2):
        made.record(ALICE, f"{i}", 1)
    names = [each.client_id for each in made.rates(CLIENTS_MAX + 9)]
    assert (len(names), names[:2]) == (CLIENTS_MAX, ["second", "busy"])


def test_throttle_times_are_told_as_an_average():
    made, clock = quota(quotas_of(producer_byte_rate=1_000))
    made.throttled(ALICE, "app", 10)
    made.throttled(ALICE, "app", 30)
    assert [each.throttle_ms for each in made.rates(9)] == [20]
    advance(clock, 60_000)
    assert [each.throttle_ms for each in made.rates(9)] == [None]


# ---- the front -------------------------------------------------------------------------------


def throttled_front(**values):
    fronts = Fronts()
    fronts.quotas.publish(of_users(**values))
    fronts.open()
    return fronts


def produced(fronts, call, size, *, has_answer=True):
    """Answer a Produce; its throttle time."""
    throttle_ms = call.throttle.produced(size, has_answer=has_answer)
    fronts.end(call)
    return throttle_ms


def tick(fronts, ms):
    advance(fronts.clock, ms)
    fronts.front.tick()
    fronts.front.go_on()


def test_without_quotas_a_call_has_none():
    fronts = Fronts()
    fronts.open()
    fronts.receive(list_offsets())
    assert fronts.calls[0].throttle is None
    fronts.quotas.publish(of_users(producer_byte_rate=1))
    fronts.receive(list_offsets())
    assert fronts.calls[1].throttle is not None
    fronts.quotas.publish(of_users(controller_mutation_rate=1))
    fronts.receive(list_offsets())
    assert fronts.calls[2].throttle is None


def test_a_throttled_connection_is_answered_at_once_and_not_read_for_the_time():
    fronts = throttled_front(producer_byte_rate=100)
    fronts.receive(produce(20))
    call = fronts.calls[0]
    assert call.throttle.produced(1_200, has_answer=True) == 2_000
    fronts.answer(call, b"answer")
    kinds = [type(each) for each in fronts.taken()]
    assert kinds == [SendParts, SetReading]
    fronts.receive(produce(20), api_versions())
    assert (len(fronts.calls), fronts.to_kernel(), fronts.reading()) == (1, b"", [])
    assert fronts.front.next_ms() == 3_000
    tick(fronts, 1_999)
    assert (len(fronts.calls), fronts.reading()) == (1, [])
    tick(fronts, 1)
    assert (len(fronts.calls), fronts.reading()) == (2, [True])
    assert fronts.to_kernel() != b""
    assert fronts.front.next_ms() == 61_000


def test_the_longest_of_several_throttle_times_counts():
    fronts = throttled_front(producer_byte_rate=100)
    fronts.receive(produce(20), produce(20), produce(20))
    first, second, third = fronts.calls
    assert produced(fronts, first, 1_200) == 2_000
    assert produced(fronts, second, 100) == 3_000
    third.throttle._mute(1)
    tick(fronts, 2_000)
    assert fronts.reading() == [False]
    tick(fronts, 1_000)
    assert fronts.reading() == [False, True]


def test_a_connection_that_closes_while_it_is_throttled_is_forgotten():
    fronts = throttled_front(producer_byte_rate=100)
    fronts.receive(produce(20), produce(20))
    produced(fronts, fronts.calls[0], 1_200)
    fronts.front.closed(1)
    fronts.calls[1].throttle.produced(1, has_answer=True)
    fronts.taken()
    tick(fronts, 10_000)
    assert fronts.taken() == []
    assert fronts.front.next_ms() is None


def test_a_throttled_connection_is_in_use():
    fronts = throttled_front(producer_byte_rate=1)
    fronts.receive(produce(20))
    produced(fronts, fronts.calls[0], 1_000)
    assert fronts.front.next_ms() == 61_000, "before the end of the throttle time"
    tick(fronts, 60_000)
    assert len(fronts.of(UsedAtKernel)) == 1
    fronts.taken()
    tick(fronts, 60_000)
    assert len(fronts.of(UsedAtKernel)) == 1


# ---- time of the threads ---------------------------------------------------------------------


def timed_front(handler_ns, **values):
    """A front whose handlers take so long, and answer nothing."""
    fronts = Fronts(handle=lambda _: spend(handler_ns))

    def spend(ns):
        fronts.now_ns += ns

    fronts.quotas.publish(of_users(**values))
    fronts.open()
    return fronts


def test_the_time_of_the_handler_counts_and_not_the_wait_for_the_answer():
    fronts = timed_front(2_000_000_000, request_percentage=10)
    fronts.receive(list_offsets())
    fronts.now_ns += 50_000_000_000
    assert fronts.calls[0].throttle.answered() == 1_000, "200 % in 10 s is 2 s above, at most 1 s"
    (rate,) = fronts.quotas.request.rates(9)
    assert (rate.quota, rate.user, rate.rate, rate.throttle_ms) == (TIME, "ANONYMOUS", 20, 1_000)


def test_a_request_that_is_answered_within_its_handler_has_the_time_so_far():
    fronts = Fronts(handle=lambda call: call.throttle.answered())
    fronts.quotas.publish(of_users(request_percentage=10))
    ticks = iter((1_000, 1_000_000_000 + 1_000, 99_000_000_000))
    fronts.quotas.nanoseconds = partial(next, ticks)
    fronts.open()
    fronts.receive(list_offsets())
    (rate,) = fronts.quotas.request.rates(9)
    assert rate.rate == 10


def test_an_answer_of_one_body_says_the_throttle_time():
    fronts = timed_front(1_050_000_000, request_percentage=10)
    fronts.receive(list_offsets(7))
    new = codec.newest(2, "response")
    fronts.calls[0].answer(new.ListOffsetsResponse(throttle_time=timedelta(0), topics=()))
    fronts.front.go_on()
    _, body = codec.decode_response(2, 7, fronts.sent()[4:])
    assert body.throttle_time.total_seconds() == 0.5
    assert fronts.reading() == [False]


def test_of_two_quotas_the_longer_time_counts_and_is_noted():
    fronts = timed_front(1_050_000_000, producer_byte_rate=100, request_percentage=10)
    fronts.receive(produce(20), produce(20))
    assert produced(fronts, fronts.calls[0], 1_000) == 500
    assert [each.throttle_ms for each in fronts.quotas.request.rates(9)] == [500]
    assert [each.throttle_ms for each in fronts.quotas.produce.rates(9)] == [None]
    assert produced(fronts, fronts.calls[1], 1_000) == 10_000
    assert [each.throttle_ms for each in fronts.quotas.request.rates(9)] == [500]
    assert [each.throttle_ms for each in fronts.quotas.produce.rates(9)] == [10_000]


def test_of_two_equal_throttle_times_that_of_the_time_is_noted():
    fronts = timed_front(1_100_000_000, producer_byte_rate=100, request_percentage=10)
    fronts.receive(produce(20))
    assert produced(fronts, fronts.calls[0], 1_100) == 1_000
    assert [each.throttle_ms for each in fronts.quotas.request.rates(9)] == [1_000]
    assert [each.throttle_ms for each in fronts.quotas.produce.rates(9)] == [None]


def test_a_produce_without_an_answer_is_throttled_by_its_bytes_only():
    fronts = timed_front(3_000_000_000, producer_byte_rate=100, request_percentage=10)
    fronts.receive(produce(20), produce(20))
    assert produced(fronts, fronts.calls[0], 1_000, has_answer=False) == 0
    assert produced(fronts, fronts.calls[1], 200, has_answer=False) == 2_000
    assert list(fronts.quotas.request.rates(9)) == []
    assert fronts.quotas.exempt_percent == 60


def test_exempt_time_is_recorded_only_while_time_has_a_quota():
    fronts = timed_front(3_000_000_000, producer_byte_rate=100)
    fronts.receive(produce(20))
    produced(fronts, fronts.calls[0], 1, has_answer=False)
    assert fronts.quotas.exempt_percent is None
    fronts.quotas.publish(of_users(request_percentage=1))
    assert fronts.quotas.exempt_percent == 0


@pytest.mark.parametrize("key", [PRODUCED, "consumer_byte_rate", TIME])
def test_each_quota_alone_is_enabled(key):
    fronts = throttled_front(**{key: 1.0})
    quotas = fronts.quotas
    found = [each.key for each in (quotas.produce, quotas.fetch, quotas.request) if each.is_enabled]
    assert (found, quotas.is_enabled) == ([key], True)
