"""Registrations, heartbeats, Metadata and DescribeCluster that real Kafka answered.

Each request is put to our code at every point of the recorded log. Somewhere our response must be
Kafka's, and the records that come with it the next ones of Kafka's log.
"""

import pytest

from broker_publisher.responses import ResponseContext, describe_cluster, metadata_response
from quorum_controller.handlers import refusal
from tests.quorum_controller.history import decoded, history, kind, label, response_frame
from tests.quorum_controller.recorded_pairs import answered, key
from tests.quorum_controller.replay import FEATURES_OF_4_3, as_sets, config_of, heard, replayed
from tests.selection import one_of_each
from wire import codec
from wire.api_keys import METADATA
from wire.errors import ApiError, ErrorCode

LISTENERS = ("PLAINTEXT", "SASL", "CONTROLLER")
OF_BROKERS, OF_CONTROLLERS = 1, 2
NOT_CONTROLLER = "err41"
READS = answered("METADATA", "DESCRIBE_CLUSTER")
OF_NODES = answered("BROKER_REGISTRATION", "CONTROLLER_REGISTRATION", "BROKER_HEARTBEAT")
ANSWERED = [pair for pair in OF_NODES if NOT_CONTROLLER not in pair["flags"]]
REFUSED = [pair for pair in OF_NODES if NOT_CONTROLLER in pair["flags"]]

UNHEARD = -1
"""Metadata offset of the other brokers: how far each had read is in no log."""
NO_RECORDS = {
    ("static-4.3.1", 42917): "a second broker with a used id is refused",
    ("static-4.3.1", 68735): "its cordoned directories are known already",
    ("static-4.3.1", 69278): "likewise",
    ("static-4.3.1", 105751): "the broker leaves already, the others have not read that yet",
}
"""Requests that change nothing."""


def read(pair, image, request, expected, listener):
    """Our answer to a read as a client of that version sees it, rows in any order.

    Kafka's rows come in the order of Java hash maps; the controller that clients are told is a
    random broker, and the cluster id is no part of the image: both are those of the recording.
    """
    context = ResponseContext(
        cluster_id=expected.cluster_id, listener=listener, controller_id=expected.controller_id
    )
    version = pair["api_version"]
    if pair["api_key"] == METADATA:
        response = metadata_response(image, request, context, version)
    else:
        kind = OF_CONTROLLERS if pair["to"].startswith("controller") else OF_BROKERS
        response = describe_cluster(image, request, context, kind, version)
    frame = response_frame(pair, response)
    return as_sets(codec.decode_response(pair["api_key"], version, frame)[1])


def images(scenario):
    """The images of a log that differ in brokers or topics."""
    before = None
    for _, image, _ in history(scenario):
        if before is None or (image.brokers, image.topics) != (before.brokers, before.topics):
            yield image
        before = image


@pytest.mark.parametrize("pair", one_of_each(READS, kind), ids=label)
def test_reads_are_answered_as_kafka_does(pair):
    request, expected = decoded(pair)
    rows = as_sets(expected)
    assert any(
        read(pair, image, request, expected, listener) == rows
        for image in images(pair["scenario"])
        for listener in LISTENERS
    ), "nowhere in the log is Kafka's answer ours"


def states(image, offset):
    """One that is in controlled shutdown has asked for it before, or not."""
    yield heard(image, UNHEARD)
    has_asked = heard(image, UNHEARD)
    for broker in image.brokers.values():
        if broker.in_controlled_shutdown:
            has_asked.enter_controlled_shutdown(broker, offset, 0)
    yield has_asked


def answers(pair):
    """(response frame, records, next records of the log) at every offset, in two states."""
    request, _ = decoded(pair)
    log = history(pair["scenario"])
    places = {offset: index for index, (offset, _, _) in enumerate(log)}
    config = config_of(FEATURES_OF_4_3, cluster_id=getattr(request, "cluster_id", None) or "x")
    found = replayed(pair["api_key"], request, pair["scenario"], config, states)
    for offset, response, records in found:
        start = places[offset]
        following = [record for _, _, record in log[start : start + len(records)]]
        yield response_frame(pair, response), records, following


@pytest.mark.parametrize("pair", one_of_each(ANSWERED, kind), ids=label)
def test_answer_and_records_are_those_of_kafka(pair):
    expected = bytes.fromhex(pair["response_hex"])
    assert any(
        frame == expected and records == following and (records or key(pair) in NO_RECORDS)
        for frame, records, following in answers(pair)
    ), "nowhere in the log are Kafka's answer and its next records ours"


@pytest.mark.parametrize("pair", REFUSED, ids=label)
def test_who_does_not_lead_refuses_as_kafka_does(pair):
    request, _ = decoded(pair)
    error = ApiError(ErrorCode.not_controller)
    ours = refusal(pair["api_key"], request, error)
    assert response_frame(pair, ours) == bytes.fromhex(pair["response_hex"])


def test_every_listed_exception_is_recorded():
    assert {key(pair) for pair in ANSWERED} >= NO_RECORDS.keys()
    assert len(READS) + len(OF_NODES) == 141
