"""Quotas of the image at a whole broker."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from broker.effects import SendParts, SetReading
from broker.events import FramesReceived, KernelBytes, TimeAdvanced
from metadata.records import ClientQuotaRecord, QuotaEntity
from network.sampled_rate import QuotaWindow
from tests.broker.brokers import Driven, response
from tests.broker.fronts import api_versions
from tests.broker.metadata_log import A
from wire.api_keys import API_VERSIONS, LIST_OFFSETS
from wire.api_table import api_versions_body
from wire.connections.framing import frame
from wire.messages import codec
from wire.types import NodeId

WINDOW = QuotaWindow(samples=3, size_seconds=2)


def limited(key: str, value: float) -> Driven:
    driven = Driven(quota_window=WINDOW)
    driven.metadata.write(
        ClientQuotaRecord(
            entity=(QuotaEntity(entity_type="client-id", entity_name="client"),),
            key=key,
            value=value,
        )
    )
    driven.start()
    driven.connect()
    return driven


def list_offsets(driven: Driven, spent_ns: int) -> list[Any]:
    """Ask for nothing, in a step whose clock goes on whenever it is read."""
    driven.read_ns = [0] * 3 + [spent_ns] * 3  # of the step, its quotas and its metrics
    return driven.request(
        LIST_OFFSETS, 7, replace(codec.default_request(LIST_OFFSETS), replica_id=-1, topics=())
    )


def test_time_above_the_quota_of_the_image_mutes_the_connection() -> None:
    driven = limited("request_percentage", 10.0)
    (sent,) = list_offsets(driven, 400_000_000)
    assert response(LIST_OFFSETS, 7, sent.parts).throttle_time == timedelta(0)
    sent, reading = list_offsets(driven, 100_000_000)
    assert isinstance(sent, SendParts)
    assert reading == SetReading(1, is_wanted=False)
    body = response(LIST_OFFSETS, 7, sent.parts)
    assert body.throttle_time == timedelta(seconds=1), "50 % in 4 s is 1 s above 10 % a second"
    assert driven.broker.next_deadline_ms() == 2_000
    driven.now_ms += 1_000
    assert SetReading(1, is_wanted=True) in driven.step(TimeAdvanced())


def test_time_of_the_kernel_counts_for_the_quota_of_the_image() -> None:
    driven = limited("request_percentage", 10.0)
    driven.step(FramesReceived(1, [api_versions(), api_versions()]))
    answer = frame(codec.encode_response(API_VERSIONS, 4, 5, api_versions_body({})))
    (sent,) = driven.step(KernelBytes(1, answer, 400_000_000))
    assert response(API_VERSIONS, 4, sent.parts).throttle_time == timedelta(0)
    sent, reading = driven.step(KernelBytes(1, answer, 100_000_000))
    assert reading == SetReading(1, is_wanted=False)
    assert response(API_VERSIONS, 4, sent.parts).throttle_time == timedelta(seconds=1)


def test_the_throttle_time_of_time_is_at_most_a_window() -> None:
    driven = limited("request_percentage", 10.0)
    sent, _ = list_offsets(driven, 9_000_000_000)
    assert response(LIST_OFFSETS, 7, sent.parts).throttle_time == timedelta(seconds=2)


def test_a_quota_that_is_removed_holds_no_more() -> None:
    driven = limited("request_percentage", 10.0)
    list_offsets(driven, 400_000_000)
    driven.metadata.write(
        ClientQuotaRecord(
            entity=(QuotaEntity(entity_type="client-id", entity_name="client"),),
            key="request_percentage",
            remove=True,
        )
    )
    driven.publish()
    assert [type(each) for each in list_offsets(driven, 900_000_000)] == [SendParts]


def test_throttles_of_the_image_are_those_of_leader_and_followers() -> None:
    driven = Driven(replication_window=WINDOW)
    driven.metadata.topic()
    driven.metadata.config("a", leader_replication_throttled_replicas="0:1")
    driven.metadata.broker_config("leader.replication.throttled.rate", "100")
    driven.start()
    manager, fetchers = driven.broker._replicas, driven.broker._fetchers
    driven.broker._throttles.leader.record(200)
    assert not manager.is_throttled((A, 0), NodeId(2)), "100 a second of a window of 2 s"
    driven.broker._throttles.leader.record(1)
    assert manager.is_throttled((A, 0), NodeId(2))
    assert fetchers._broker.quota is driven.broker._throttles.follower


def test_rates_are_told_while_there_are_quotas() -> None:
    driven = limited("request_percentage", 10.0)
    list_offsets(driven, 400_000_000)
    rates = driven.broker.counts().quotas
    (client,) = rates.clients
    assert (client.client_id, client.rate, rates.exempt_percent) == ("client", 10.0, 0)
    assert (rates.leader, rates.follower) == (None, None)
    for side, mark in (("leader", driven.broker._throttles.leader),
                       ("follower", driven.broker._throttles.follower)):  # fmt: skip
        mark.mark(A, None)
        mark.record(200)
        assert getattr(driven.broker.counts().quotas, side) == 200
