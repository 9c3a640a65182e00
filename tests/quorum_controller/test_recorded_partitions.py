"""Partitions and ACLs: recorded requests answered byte for byte, with the records Kafka wrote.

Each request is put to the handler where it came in the recorded log: its time says where
(recorded_time.py). Our response there is Kafka's to the byte, and the records that we make are the
next ones of Kafka's log.
"""

import pytest

from broker_publisher.responses import describe_topic_partitions
from quorum_controller.queries import QUERIES
from tests.quorum_controller.history import (
    decoded,
    handled,
    label,
    queried,
    response_frame,
    samples,
)
from tests.quorum_controller.recorded_time import end_offset_at, last_changes, place
from tests.quorum_controller.replay import as_sets, settled
from wire.messages import codec

SCENARIOS = ("static-3.9.1", "static-4.3.1")
SAMPLES = [
    sample
    for name in ("partition_answers", "acl_answers")
    for sample in samples(name)
    if sample["scenario"] in SCENARIOS
]
CREATE_PARTITIONS = 37
ELECT_LEADERS = 43

IN_ANY_ORDER = {
    ("static-3.9.1", 52487): "ElectLeaders of everything: topics in the order of a Java hash map",
    ("static-4.3.1", 44666): "ElectLeaders of everything: topics in the order of a Java hash map",
    ("static-4.3.1", 14298): "DescribeAcls: resources in the order of a Java hash map",
    ("static-4.3.1", 22588): "DescribeAcls: resources in the order of a Java hash map",
}
"""Samples in which rows (and their records) are compared without their order."""
FIRST_OF_A_BATCH = {
    ("static-3.9.1", 51657): "then comes what the leader 102 of another partition asked",
    ("static-3.9.1", 51705): "likewise: brokers 101 and 102 ask at once, a broker has come back",
}
"""Samples whose records Kafka appended in one batch with those of other requests."""


BEHIND_END = {
    ("static-3.9.1", 8084): 44,
    ("static-3.9.1", 10141): 63,
    ("static-3.9.1", 12232): 90,
    ("static-4.3.1", 14298): 137,
}
"""End offset known to brokers that answered without the records written just before."""
BEHIND_RECORDS_MAX = 3


def where(sample):
    """(offset, image, the changes of the log from there on) when the request came."""
    return place(sample, BEHIND_END.get((sample["scenario"], sample["ms"])))


def answered(sample):
    """(response, records, (offset, record) of the next changes of the log) where it came."""
    request, _ = decoded(sample)
    offset, image, changes = where(sample)
    if sample["api_key"] in QUERIES:
        return queried(sample["api_key"], image, request), [], []
    response, records = handled(sample["api_key"], image, request, offset)
    return response, records, changes[: len(records)]


def is_equal(sample, response):
    if (sample["scenario"], sample["ms"]) in IN_ANY_ORDER:
        frame = response_frame(sample, response)
        lowered = codec.decode_response(sample["api_key"], sample["api_version"], frame)[1]
        return as_sets(lowered) == as_sets(decoded(sample)[1])
    return response_frame(sample, response) == bytes.fromhex(sample["response_hex"])


def are_next(sample, records, following):
    """True if the records are the next of the log, whole batches of it."""
    is_whole = (sample["scenario"], sample["ms"]) not in FIRST_OF_A_BATCH
    if records and is_whole != (following[-1][0] in last_changes(sample["scenario"])):
        return False
    ours, theirs = [settled(r) for r in records], [settled(r) for _, r in following]
    if (sample["scenario"], sample["ms"]) in IN_ANY_ORDER:
        return sorted(ours, key=repr) == sorted(theirs, key=repr)
    return ours == theirs


@pytest.mark.parametrize("sample", SAMPLES, ids=label)
def test_answer_and_records_are_those_of_kafka(sample):
    response, records, following = answered(sample)
    assert is_equal(sample, response)
    assert are_next(sample, records, following)
    is_read = sample["api_key"] in QUERIES
    is_nothing = sample["ms"] == NOTHING_TO_DELETE
    assert is_read or is_nothing or sample["flags"] or records, "a change without records"


NOTHING_TO_DELETE = 12399
"""DeleteAcls with a filter that matches nothing, in static-4.3.1."""


def test_every_listed_sample_is_there():
    keys = {(sample["scenario"], sample["ms"]) for sample in SAMPLES}
    assert {*IN_ANY_ORDER, *FIRST_OF_A_BATCH} <= keys
    assert ("static-4.3.1", NOTHING_TO_DELETE) in keys
    keys |= {(sample["scenario"], sample["ms"]) for sample in DESCRIPTIONS}
    assert set(BEHIND_END) <= keys


@pytest.mark.parametrize("key", BEHIND_END)
def test_who_is_behind_had_not_read_what_was_written_just_before(key):
    (sample,) = [s for s in SAMPLES + DESCRIPTIONS if (s["scenario"], s["ms"]) == key]
    written = end_offset_at(sample) - BEHIND_END[key]
    assert 0 < written <= BEHIND_RECORDS_MAX


DESCRIPTIONS = [s for s in samples("describe_topic_answers") if s["scenario"] in SCENARIOS]


@pytest.mark.parametrize("sample", DESCRIPTIONS, ids=label)
def test_described_topics_are_those_of_kafka(sample):
    request, _ = decoded(sample)
    _, image, _ = where(sample)
    found = {
        response_frame(sample, describe_topic_partitions(image, request, listener, 2000))
        for listener in ("PLAINTEXT", "SASL")
    }
    assert found == {bytes.fromhex(sample["response_hex"])}
