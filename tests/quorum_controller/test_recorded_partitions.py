"""Partitions and ACLs: recorded requests answered byte for byte, with the records Kafka wrote.

Each request is put to the handler at every point of the recorded log. It must be somewhere that our
response is Kafka's to the byte and the records that we make are the next ones of Kafka's log.
"""

import pytest
from history import decoded, handled, history, kind, label, queried, response_frame, samples
from replay import as_sets, settled

from broker_publisher.responses import describe_topic_partitions
from quorum_controller.queries import QUERIES
from tests.selection import one_of_each
from wire import codec

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


def answers(sample):
    """(response frame, records, next records of the log) at every offset."""
    request, _ = decoded(sample)
    log = history(sample["scenario"])
    for index, (offset, image, _) in enumerate(log):
        if sample["api_key"] in QUERIES:
            response, records = queried(sample["api_key"], image, request), []
        else:
            response, records = handled(sample["api_key"], image, request, offset)
        yield response, records, [record for _, _, record in log[index : index + len(records)]]


def is_equal(sample, response):
    if (sample["scenario"], sample["ms"]) in IN_ANY_ORDER:
        frame = response_frame(sample, response)
        lowered = codec.decode_response(sample["api_key"], sample["api_version"], frame)[1]
        return as_sets(lowered) == as_sets(decoded(sample)[1])
    return response_frame(sample, response) == bytes.fromhex(sample["response_hex"])


def are_next(sample, records, following):
    ours, theirs = [settled(r) for r in records], [settled(r) for r in following]
    if (sample["scenario"], sample["ms"]) in IN_ANY_ORDER:
        return sorted(ours, key=repr) == sorted(theirs, key=repr)
    return ours == theirs


@pytest.mark.parametrize("sample", one_of_each(SAMPLES, kind), ids=label)
def test_answer_and_records_are_those_of_kafka(sample):
    found = [
        len(records)
        for response, records, following in answers(sample)
        if is_equal(sample, response) and are_next(sample, records, following)
    ]
    assert found, "nowhere in the log is Kafka's answer ours"
    is_read = sample["api_key"] in QUERIES
    if not is_read and not sample["flags"] and sample["ms"] != NOTHING_TO_DELETE:
        assert max(found) > 0, "nowhere in the log are the next records ours"


NOTHING_TO_DELETE = 12399
"""DeleteAcls with a filter that matches nothing, in static-4.3.1."""


def test_every_listed_sample_is_there():
    keys = {(sample["scenario"], sample["ms"]) for sample in SAMPLES}
    assert set(IN_ANY_ORDER) <= keys
    assert ("static-4.3.1", NOTHING_TO_DELETE) in keys


DESCRIPTIONS = [s for s in samples("describe_topic_answers") if s["scenario"] in SCENARIOS]


@pytest.mark.parametrize("sample", one_of_each(DESCRIPTIONS, kind), ids=label)
def test_described_topics_are_those_of_kafka(sample):
    request, _ = decoded(sample)
    answer = bytes.fromhex(sample["response_hex"])
    images = [image for _, image, _ in history(sample["scenario"])]
    assert any(
        response_frame(sample, describe_topic_partitions(image, request, listener, 2000)) == answer
        for image in images
        for listener in ("PLAINTEXT", "SASL")
    )
