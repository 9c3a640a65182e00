"""Requests that brokers forwarded to real Kafka's controller: what is in the envelopes, answered.

The inner request is put to our handler where it came in the recorded log: its time says where
(recorded_time.py). The inner response there must be Kafka's and the records the next ones of its
log; around it the envelope is Kafka's byte for byte. Some requests without an envelope are answered
in the same way.
"""

from dataclasses import replace

import pytest

from kernel.serving.dispatch import envelope_body
from quorum_controller.configs.topic_defaults import TopicConfigDefaults
from quorum_controller.queries import QUERIES
from quorum_controller.result import RequestContext
from tests.quorum_controller.history import decoded, label, queried, response_frame
from tests.quorum_controller.recorded_time import last_changes, place
from tests.quorum_controller.replay import (
    FEATURES,
    as_sets,
    config_of,
    heard,
    replayed,
    settled,
    without_id,
)
from tests.wire.recorded_pairs import answered, key
from wire.api_keys import CREATE_TOPICS, DESCRIBE_QUORUM
from wire.errors import ErrorCode
from wire.messages import codec

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
_EMPTY = "3.9.1 says an empty text, 4.3.1 and we say null"
EXCEPTIONS = {
    ("static-3.9.1", 10332): _EMPTY,
    ("static-3.9.1", 10409): _EMPTY,
    ("static-3.9.1", 10573): "3.9.1 tells the reason per feature at version 1, 4.3.1 at the top",
    ("static-3.9.1", 32615): _TOKEN,
    ("static-4.3.1", 24930): _TOKEN,
    ("static-4.3.1", 25065): _TOKEN,
    ("static-4.3.1", 25527): _TOKEN,
    ("static-4.3.1", 25827): _TOKEN,
}
"""Requests that are not answered alike, by scenario and time, with the reason."""
CORDONED = " or some brokers have all their log directories cordoned"
"""Words that 4.3.1 and we add to a text of 3.9.1."""
OTHER_CONFIGS = {
    "message.downconversion.enable": "only 3.9.1 has it; our topic configs are those of 4.3.1",
    "message.format.version": "only 3.9.1 has it",
    "message.timestamp.difference.max.ms": "only 3.9.1 has it",
    "message.timestamp.after.max.ms": "3.9.1: no limit; 4.3.1 and we: an hour",
}
"""Configs of topics that 3.9.1 has otherwise, with the reason."""
PROPERTIES = {"static-4.3.1": {"unclean.leader.election.enable": "false"}}
"""Properties of the recorded nodes that show in the answers about new topics."""
PLACES = {("static-3.9.1", 28756): (145, "its batch was begun 8 ms before, by a no-op record")}
"""Requests whose place is not the end of the log at their time, with the reason."""
NO_RECORDS = {("static-4.3.1", 12404): "DeleteAcls with a filter that matches nothing"}
"""Changes that change nothing and are no error."""
ANSWERED_ELSEWHERE = ("static-3.9.1", "static-4.3.1")
"""Scenarios whose requests about partitions and settings other tests answer."""
COMPARED = [
    pair
    for pair in PAIRS
    if INNER[key(pair)][0]["response_hex"] is not None
    and INNER[key(pair)][0]["api_key"] not in ELSEWHERE
    and key(pair) not in EXCEPTIONS
]


def comparable(inner, response):
    """A response without what chance decides and the order of rows (Java's hash maps)."""
    if inner["api_key"] == CREATE_TOPICS:
        is_older = inner["scenario"].endswith("3.9.1")
        topics = [created(topic, is_older=is_older) for topic in response.topics]
        return response.throttle_time, sorted(topics, key=repr)
    return as_sets(response)


def created(topic, *, is_older):
    """A new topic without its id, which is drawn; of 3.9.1 as far as 4.3.1 says the same."""
    fields = {"topic_id": None}
    if is_older:
        known = [c for c in topic.configs or () if c.name not in OTHER_CONFIGS]
        fields["configs"] = tuple(sorted(known, key=lambda config: config.name))
        fields["error_message"] = topic.error_message and topic.error_message.replace(CORDONED, "")
    return replace(topic, **fields)


def answer(inner, request):
    """(response, records, (offset, record) of the next changes) where it came; all were heard."""
    api_key, version = inner["api_key"], inner["api_version"]
    offset, image, changes = place(inner, PLACES.get(key(inner), (None,))[0])
    if api_key in QUERIES:
        response, records = queried(api_key, image, request, api_version=version), []
    else:
        is_controller = inner["to"].startswith("controller-")
        node_id = int(inner["to"].removeprefix("controller-")) if is_controller else 1
        config = config_of(FEATURES[inner["scenario"][-5:]], node_id=node_id)
        response, records = replayed(
            api_key,
            request,
            image,
            offset,
            config=config,
            liveness=heard(image, offset),
            context=RequestContext(may_describe_configs=True),
            defaults=TopicConfigDefaults(node_id, PROPERTIES.get(inner["scenario"], {})),
        )
    lowered = codec.decode_response(api_key, version, response_frame(inner, response))[1]
    return lowered, records, changes[: len(records)]


def are_next(inner, records, changes):
    """True if the records are the next of the log, whole batches of it."""
    if records and changes[-1][0] not in last_changes(inner["scenario"]):
        return False
    ours, theirs = map(settled, records), (settled(record) for _, record in changes)
    if inner["api_key"] == CREATE_TOPICS:
        ours, theirs = map(without_id, ours), map(without_id, theirs)
    return sorted(ours, key=repr) == sorted(theirs, key=repr)


def check(pair, inner, request, expected):
    """Check that our answer is Kafka's where the request came, and our records too."""
    response, records, changes = answer(inner, request)
    assert comparable(inner, response) == comparable(inner, expected)
    assert are_next(inner, records, changes)
    is_refused = any(flag.startswith("err") for flag in pair["flags"])
    is_read = inner["api_key"] in QUERIES or getattr(request, "validate_only", False)
    assert records or is_refused or is_read or key(pair) in NO_RECORDS, "a change without records"


@pytest.mark.parametrize("pair", COMPARED, ids=label)
def test_the_inner_answer_and_its_records_are_kafka_s(pair):
    inner, request = INNER[key(pair)]
    frame = bytes.fromhex(inner["response_hex"])
    _, expected = codec.decode_response(inner["api_key"], inner["api_version"], frame)
    check(pair, inner, request, expected)


DIRECT = answered("CREATE_TOPICS", "DELETE_TOPICS") + [
    pair
    for pair in answered("INCREMENTAL_ALTER_CONFIGS", "ALLOCATE_PRODUCER_IDS")
    if pair["scenario"] not in ANSWERED_ELSEWHERE
]
"""Requests without an envelope. Others, of partitions and settings, have tests of their own in the
other scenarios; UpdateFeatures elsewhere is about kraft.version 1, as are the three APIs of voters:
not supported."""


@pytest.mark.parametrize("pair", DIRECT, ids=label)
def test_requests_without_an_envelope_are_answered_as_kafka_does(pair):
    check(pair, pair, *decoded(pair))


@pytest.mark.parametrize("pair", PAIRS, ids=label)
def test_the_envelope_is_kafka_s_byte_for_byte(pair):
    inner, _ = INNER[key(pair)]
    frame = inner["response_hex"]
    error = ErrorCode.not_controller if frame is None else ErrorCode.none
    body = envelope_body(error, None if frame is None else bytes.fromhex(frame))
    assert response_frame(pair, body) == bytes.fromhex(pair["response_hex"])


def test_every_listed_exception_is_recorded():
    keys = INNER.keys() | {key(pair) for pair in answered("CREATE_TOPICS", "DELETE_TOPICS")}
    assert keys >= {*EXCEPTIONS, *PLACES, *NO_RECORDS}
    assert {inner["api_key"] for inner, _ in INNER.values()} >= ELSEWHERE.keys()
    assert (len(PAIRS), len(INNER), len(COMPARED), len(DIRECT)) == (106, 106, 87, 48)
