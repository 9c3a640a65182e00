"""Requests that brokers forwarded to real Kafka's controller: what is in the envelopes, answered.

The inner request is put to our handler at every point of the recorded log. Somewhere the inner
response must be Kafka's and the records the next ones of Kafka's log; around it the envelope is
Kafka's byte for byte.
"""

from functools import cache

import pytest

from kernel.serving.dispatch import envelope_body
from quorum_controller.queries import QUERIES
from tests.metadata.golden_logs import log_batches
from tests.quorum_controller.history import (
    MARKERS,
    decoded,
    history,
    kind,
    label,
    queried,
    response_frame,
)
from tests.quorum_controller.recorded_pairs import answered, key
from tests.quorum_controller.replay import FEATURES, as_sets, config_of, heard, replayed, settled
from tests.selection import one_of_each
from wire import codec
from wire.api_keys import CREATE_TOPICS, DESCRIBE_QUORUM
from wire.errors import ErrorCode, RemoteProtocolError

REMOVE_RAFT_VOTER = 81
PAIRS = answered("ENVELOPE")


def split(pair):
    """(the inner request as a pair of its own, its body), without a response: None."""
    request, response = decoded(pair)
    header, position = codec.split_request(request.request_data)
    body = memoryview(request.request_data)[position:]
    inner = {
        "scenario": pair["scenario"],
        "ms": pair["ms"],
        "to": pair["to"],
        "api_key": header.api_key,
        "api_version": header.api_version,
        "response_hex": None
        if response.response_data is None
        else bytes(response.response_data).hex(),
    }
    return inner, codec.decode_request(header.api_key, header.api_version, body)


INNER = {key(pair): split(pair) for pair in PAIRS}
ELSEWHERE = {
    DESCRIBE_QUORUM: "the replica answers: tests/kernel/quorum/test_raft_frames.py",
    REMOVE_RAFT_VOTER: "kraft.version 1, which is not supported",
}
"""Inner requests by API that are not put to a handler, with the reason."""
_TOKEN = "the token, its id and times are drawn or of the clock: test_delegation_tokens.py"
_CORDONED = "4.3.1 and we also name cordoned directories in the text"
_EMPTY = "3.9.1 says an empty text, 4.3.1 and we say null"
EXCEPTIONS = {
    ("static-3.9.1", 7430): _CORDONED,
    ("static-3.9.1", 11128): _CORDONED,
    ("static-3.9.1", 10332): _EMPTY,
    ("static-3.9.1", 10409): _EMPTY,
    ("static-3.9.1", 10573): "3.9.1 tells the reason per feature at version 1, 4.3.1 at the top",
    ("static-3.9.1", 32615): _TOKEN,
    ("static-4.3.1", 24930): _TOKEN,
    ("static-4.3.1", 25065): _TOKEN,
    ("static-4.3.1", 25527): _TOKEN,
    ("static-4.3.1", 25827): _TOKEN,
}
"""Inner requests that are not answered alike, by scenario and time, with the reason."""
ANSWERED_ELSEWHERE = ("static-3.9.1", "static-4.3.1")
"""Scenarios whose requests without an envelope other tests answer."""
COMPARED = [
    pair
    for pair in PAIRS
    if INNER[key(pair)][0]["response_hex"] is not None
    and INNER[key(pair)][0]["api_key"] not in ELSEWHERE
    and key(pair) not in EXCEPTIONS
]


def comparable(api_key, response):
    """A response without what chance decides and the order of rows (Java's hash maps)."""
    if api_key == CREATE_TOPICS:
        return sorted(
            (t.name, int(t.error_code), t.error_message, t.num_partitions, t.replication_factor)
            for t in response.topics
        )
    return as_sets(response)


@cache
def all_records(scenario):
    """(offset, record) of the data records of a log, also within the creation of a topic."""
    return [
        (batch.base_offset + index, record)
        for batch in log_batches(scenario)
        for index, record in enumerate(batch.records)
        if not isinstance(record, MARKERS)
    ]


def records_from(scenario, offset):
    """The records of a log from an offset on."""
    return [record for at, record in all_records(scenario) if at >= offset]


def answers(inner, request):
    """(response, records, next records of the log) at every offset; every broker was heard."""
    api_key, version, scenario = inner["api_key"], inner["api_version"], inner["scenario"]
    if api_key in QUERIES:
        found = (
            (offset, queried(api_key, image, request, api_version=version), [])
            for offset, image, _ in history(scenario)
        )
    else:
        is_controller = inner["to"].startswith("controller-")
        node_id = int(inner["to"].removeprefix("controller-")) if is_controller else 1
        config = config_of(FEATURES[scenario[-5:]], node_id=node_id)
        found = replayed(api_key, request, scenario, config, lambda *at: [heard(*at)])
    for offset, response, records in found:
        following = records_from(scenario, offset)[: len(records)]
        try:
            lowered = codec.decode_response(api_key, version, response_frame(inner, response))[1]
        except RemoteProtocolError:  # a time that depends on the clock
            continue
        yield lowered, records, following


def is_next(api_key, records, following):
    if api_key == CREATE_TOPICS:  # ids and placement are drawn
        return [type(r) for r in records] == [type(r) for r in following]
    ours, theirs = ([repr(settled(r)) for r in some] for some in (records, following))
    return sorted(ours) == sorted(theirs)


def inner_kind(pair):
    return INNER[key(pair)][0]["api_key"]


@pytest.mark.parametrize("pair", one_of_each(COMPARED, inner_kind), ids=label)
def test_the_inner_answer_and_its_records_are_kafka_s(pair):
    inner, request = INNER[key(pair)]
    api_key = inner["api_key"]
    frame = bytes.fromhex(inner["response_hex"])
    expected = comparable(api_key, codec.decode_response(api_key, inner["api_version"], frame)[1])
    assert any(
        comparable(api_key, response) == expected and is_next(api_key, records, following)
        for response, records, following in answers(inner, request)
    ), f"nowhere in the log is {api_key=} answered as Kafka did"


DIRECT = [
    pair
    for pair in answered(
        "CREATE_TOPICS",
        "DELETE_TOPICS",
        "INCREMENTAL_ALTER_CONFIGS",
        "ALLOCATE_PRODUCER_IDS",
    )
    if pair["scenario"] not in ANSWERED_ELSEWHERE
]
"""UpdateFeatures there is about kraft.version 1, as are the three APIs of voters: not supported."""


@pytest.mark.parametrize("pair", one_of_each(DIRECT, kind), ids=label)
def test_requests_of_the_other_scenarios_are_answered_as_kafka_does(pair):
    request, response = decoded(pair)
    api_key = pair["api_key"]
    expected = comparable(api_key, response)
    assert any(
        comparable(api_key, ours) == expected and is_next(api_key, records, following)
        for ours, records, following in answers(pair, request)
    ), "nowhere in the log is Kafka's answer ours"


@pytest.mark.parametrize("pair", PAIRS, ids=label)
def test_the_envelope_is_kafka_s_byte_for_byte(pair):
    inner, _ = INNER[key(pair)]
    frame = inner["response_hex"]
    error = ErrorCode.not_controller if frame is None else ErrorCode.none
    body = envelope_body(error, None if frame is None else bytes.fromhex(frame))
    assert response_frame(pair, body) == bytes.fromhex(pair["response_hex"])


def test_every_listed_exception_is_recorded():
    assert INNER.keys() >= EXCEPTIONS.keys()
    assert {inner["api_key"] for inner, _ in INNER.values()} >= ELSEWHERE.keys()
    assert (len(PAIRS), len(INNER), len(COMPARED)) == (106, 106, 85)
