"""Registrations, heartbeats, Metadata and DescribeCluster that real Kafka answered.

Each request is put to our code where it came in the recorded log: its time says where
(recorded_time.py). Our response there is Kafka's, and the records that come with it are the next
ones of Kafka's log; where we write none, Kafka wrote none about this broker.
"""

from functools import cache

import pytest

from broker_publisher.responses import ResponseContext, describe_cluster, metadata_response
from metadata.records import BrokerRegistrationChangeRecord
from quorum_controller.handlers import refusal
from tests.quorum_controller.history import decoded, history, label, response_frame
from tests.quorum_controller.recorded_time import (
    asked_ms,
    changes_at_once,
    last_changes,
    place,
    written_ms,
)
from tests.quorum_controller.replay import FEATURES_OF_4_3, as_sets, config_of, heard, replayed
from tests.wire.recorded_pairs import answered, key
from wire.api_keys import METADATA
from wire.errors import ApiError, ErrorCode
from wire.messages import codec

LISTENERS = {"broker": ("PLAINTEXT", "SASL"), "controller": ("CONTROLLER",)}
OF_BROKERS, OF_CONTROLLERS = 1, 2
NOT_CONTROLLER = "err41"
READS = answered("METADATA", "DESCRIBE_CLUSTER")
OF_NODES = answered("BROKER_REGISTRATION", "CONTROLLER_REGISTRATION", "BROKER_HEARTBEAT")
ANSWERED = [pair for pair in OF_NODES if NOT_CONTROLLER not in pair["flags"]]
REFUSED = [pair for pair in OF_NODES if NOT_CONTROLLER in pair["flags"]]

UNHEARD = -1
"""The metadata offset of a broker that was not heard since."""
HEARTBEAT_INTERVAL_MS = 500
"""broker.heartbeat.interval.ms of the recorded brokers."""
PLACES = {
    ("dynamic-4.3.1", 885): (13, "controllers 1 and 3 register at once, 1 is first"),
    ("kraft-upgrade-4.3.1", 983): (11, "likewise 1 and 2"),
    ("dynamic-4.3.1", 56316): (159, "brokers 102 and 101 leave at once: one batch, 102 is first"),
    ("dynamic-4.3.1", 56413): (163, "and are fenced at once: one batch, 101 is first"),
    ("static-4.3.1", 105751): (631, "brokers 102, 103 and 101 leave at once: one batch"),
    ("static-4.3.1", 105854): (665, "and are fenced at once: one batch"),
}
"""Requests whose place is not the end of the log at their time, with the reason."""
OFF_MS_MAX = 120
"""Longest time between the request and the batch at such a place; in the first second of a node it
takes that long."""
IN_ANY_ORDER = {
    ("kraft-upgrade-4.3.1", 16373): "a broker leaves: its partitions in the order of a hash map",
    ("static-4.3.1", 71544): "a directory is lost: its partitions in the order of a hash map",
    ("static-4.3.1", 105751): "a broker leaves: its partitions in the order of a hash map",
}
"""Requests whose records are compared without their order."""
FOLLOWED = {
    ("dynamic-4.3.1", 878): "controller 3 registers at once",
    ("dynamic-4.3.1", 56297): "broker 101 leaves at once",
    ("dynamic-4.3.1", 56407): "broker 102 is fenced at once",
    ("static-3.9.1", 2220): "another controller registers at once",
    ("static-3.9.1", 5311): "broker 102 registers at once",
    ("static-4.3.1", 105751): "broker 101 leaves at once",
    ("static-4.3.1", 105854): "broker 101 is fenced at once",
}
"""Requests whose records are in one batch before those of another, with the other."""
OTHERWISE = {
    ("static-4.3.1", 42917): "the broker was fenced 3.7 s before, when it left: Kafka refuses its "
    "next incarnation until the session of 4 s ends, we take it at once (decision 0016)",
}
"""Requests that we answer in another way, with the reason."""


@cache
def cluster_id(scenario):
    """As the brokers of a scenario have it in their registrations; no image has it."""
    asked = (pair for pair in answered("BROKER_REGISTRATION") if pair["scenario"] == scenario)
    (found,) = {decoded(pair)[0].cluster_id for pair in asked}
    return found


def read(pair, image, request, controller_id, listener):
    """Our answer to a read as a client of that version sees it, rows in any order.

    Kafka's rows come in the order of Java hash maps; the controller that clients are told is a
    random broker, so it is that of the recording.
    """
    context = ResponseContext(
        cluster_id=cluster_id(pair["scenario"]), listener=listener, controller_id=controller_id
    )
    version = pair["api_version"]
    if pair["api_key"] == METADATA:
        response = metadata_response(image, request, context, version)
    else:
        kind = OF_CONTROLLERS if pair["to"].startswith("controller") else OF_BROKERS
        response = describe_cluster(image, request, context, kind, version)
    frame = response_frame(pair, response)
    return as_sets(codec.decode_response(pair["api_key"], version, frame)[1])


@pytest.mark.parametrize("pair", READS, ids=label)
def test_reads_are_answered_as_kafka_does(pair):
    request, expected = decoded(pair)
    _, image, _ = place(pair)
    kind_of_node, _, _ = pair["to"].partition("-")
    told = expected.controller_id
    brokers = {broker.id for broker in image.brokers.values() if not broker.fenced}
    assert told in (brokers if kind_of_node == "broker" else image.controllers)
    assert as_sets(expected) in [
        read(pair, image, request, told, listener) for listener in LISTENERS[kind_of_node]
    ]


def heard_of(pair, image, offset):
    """Liveness of the brokers: no log has it, but each sends a heartbeat in every interval.

    So after an interval all others have learned of a broker that leaves.
    """
    leaving = [broker for broker in image.brokers.values() if broker.in_controlled_shutdown]
    left_ms = max((left_at(pair["scenario"], b.id, offset) for b in leaving), default=0)
    have_read = asked_ms(pair) - left_ms >= HEARTBEAT_INTERVAL_MS
    liveness = heard(image, offset if have_read else UNHEARD)
    for broker in leaving:
        liveness.enter_controlled_shutdown(broker, offset, 0)
    return liveness


def left_at(scenario, broker_id, end_offset):
    """Time at which a broker last went into controlled shutdown."""
    return max(
        written_ms(scenario, offset)
        for offset, _, record in history(scenario)
        if offset < end_offset
        and type(record) is BrokerRegistrationChangeRecord
        and (record.broker_id, record.in_controlled_shutdown) == (broker_id, 1)
    )


def are_kafka_s(pair, records, changes):
    """True if the records are the next of the log, whole batches of it, or there are none."""
    if not records:
        request, _ = decoded(pair)
        at_once = [r for r in changes_at_once(pair) if type(r) is BrokerRegistrationChangeRecord]
        return request.broker_id not in {record.broker_id for record in at_once}
    is_whole = changes[len(records) - 1][0] in last_changes(pair["scenario"])
    if is_whole == (key(pair) in FOLLOWED):
        return False
    following = [record for _, record in changes[: len(records)]]
    if key(pair) in IN_ANY_ORDER:
        return sorted(records, key=repr) == sorted(following, key=repr)
    return records == following


@pytest.mark.parametrize("pair", ANSWERED, ids=label)
def test_answer_and_records_are_those_of_kafka(pair):
    request, _ = decoded(pair)
    offset, image, changes = place(pair, PLACES.get(key(pair), (None,))[0])
    config = config_of(FEATURES_OF_4_3, cluster_id=getattr(request, "cluster_id", None) or "x")
    heard = {"config": config, "liveness": heard_of(pair, image, offset)}
    response, records = replayed(pair["api_key"], request, image, offset, **heard)
    is_alike = response_frame(pair, response) == bytes.fromhex(pair["response_hex"])
    assert is_alike == (key(pair) not in OTHERWISE)
    assert not is_alike or are_kafka_s(pair, records, changes)


@pytest.mark.parametrize("listed", PLACES, ids=lambda listed: f"{listed[0]}-{listed[1]}")
def test_a_listed_place_is_of_the_moment(listed):
    (pair,) = [pair for pair in ANSWERED if key(pair) == listed]
    assert abs(written_ms(listed[0], PLACES[listed][0]) - asked_ms(pair)) <= OFF_MS_MAX


@pytest.mark.parametrize("pair", REFUSED, ids=label)
def test_who_does_not_lead_refuses_as_kafka_does(pair):
    request, _ = decoded(pair)
    error = ApiError(ErrorCode.not_controller)
    ours = refusal(pair["api_key"], request, error)
    assert response_frame(pair, ours) == bytes.fromhex(pair["response_hex"])


def test_every_listed_exception_is_recorded():
    assert {key(pair) for pair in ANSWERED} >= {*PLACES, *IN_ANY_ORDER, *FOLLOWED, *OTHERWISE}
    assert len(READS) + len(OF_NODES) == 141
