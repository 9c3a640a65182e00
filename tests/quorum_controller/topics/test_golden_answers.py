"""CreateTopics and DeleteTopics requests that real Kafka answered, answered by this controller.

The samples are the golden set's recorded frames. Each request meets brokers 101 to 103 and the
topics that its recorded answer presupposes; our answer is lowered to the request's version and
compared with Kafka's.
"""

import json
from pathlib import Path

import pytest

from quorum_controller.result import RequestContext
from tests.quorum_controller.controller_harness import Harness, topic
from tests.quorum_controller.history import decoded
from wire import api_keys, codec

GOLDEN = Path(__file__).parents[2] / "golden" / "quorum_controller" / "topic_answers.jsonl"
SAMPLES = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
BROKERS = (101, 102, 103)
TOPIC_ALREADY_EXISTS = 36
CORDONED = " or some brokers have all their log directories cordoned"

NOT_ANSWERED_ALIKE = {
    ("static-4.3.1", 70256): "a broker with cordoned directories: needs a level above 3.9-IV0",
}
"""Samples whose state cannot be made here, by scenario and time, with the reason."""

ONLY_IN_TEXT = (
    (CORDONED, "4.3.1 names cordoned directories, which no broker of level 3.9-IV0 has"),
)
"""What is cut out of recorded messages before the comparison, with the reason."""

COMPARED_SOURCES = {1, 5}
"""Set on the topic, and Kafka's defaults. Recorded brokers also had defaults for the whole cluster
(3) and in their properties (4), which our brokers here have not."""

OTHER_CONFIGS = {
    "message.downconversion.enable": "only 3.9.1 has it; our topic configs are those of 4.3.1",
    "message.format.version": "only 3.9.1 has it",
    "message.timestamp.difference.max.ms": "only 3.9.1 has it",
    "message.timestamp.after.max.ms": "3.9.1: no limit; 4.3.1 and we: an hour",
}
"""Configs of recorded 3.9.1 answers that ours differ in, with the reason."""


def name(sample):
    flags = "-".join(sample["flags"])
    return f"{sample['scenario']}-{sample['ms']}-{sample['api']}-v{sample['api_version']}-{flags}"


def key(sample):
    return sample["scenario"], sample["ms"]


def as_version(sample, response):
    """What a client of the sample's version sees of a response."""
    api_key, version = sample["api_key"], sample["api_version"]
    frame = codec.encode_response(api_key, version, 1, response)
    return codec.decode_response(api_key, version, frame)[1]


def message(result):
    text = result.error_message
    for cut, _ in ONLY_IN_TEXT:
        text = text and text.replace(cut, "")
    return text


def needed_topics(sample, request, response):
    """Names of the topics that must be there for Kafka's answer."""
    if sample["api_key"] == api_keys.CREATE_TOPICS:
        return [t.name for t in response.topics if int(t.error_code) == TOPIC_ALREADY_EXISTS]
    return [r.name for r in response.responses if int(r.error_code) == 0]


def answered(sample):
    """Kafka's response and ours, each as a client of that version sees it."""
    request, expected = decoded(sample)
    harness = Harness().start(*BROKERS)
    for needed in needed_topics(sample, request, expected):
        harness.create(topic(needed))
    context = RequestContext(may_describe_configs=True)
    response = harness.call(sample["api_key"], request, context=context)
    return expected, as_version(sample, response)


COMPARED = [sample for sample in SAMPLES if key(sample) not in NOT_ANSWERED_ALIKE]
CREATED = [sample for sample in COMPARED if sample["api_key"] == api_keys.CREATE_TOPICS]
DELETED = [sample for sample in COMPARED if sample["api_key"] == api_keys.DELETE_TOPICS]


@pytest.mark.parametrize("sample", CREATED, ids=name)
def test_create_topics_is_answered_as_kafka_does(sample):
    expected, found = answered(sample)
    assert [described(t) for t in found.topics] == [described(t) for t in expected.topics]


def described(result):
    """All that does not depend on chance: the topic id of a created topic does."""
    counts = (result.num_partitions, result.replication_factor)
    return result.name, int(result.error_code), message(result), counts


@pytest.mark.parametrize("sample", DELETED, ids=name)
def test_delete_topics_is_answered_as_kafka_does(sample):
    expected, found = answered(sample)
    assert [refused(r) for r in found.responses] == [refused(r) for r in expected.responses]


def refused(result):
    return result.name, int(result.error_code), result.error_message


@pytest.mark.parametrize("sample", CREATED, ids=name)
def test_configs_of_created_topics_have_kafka_s_values(sample):
    expected, found = answered(sample)
    for theirs, ours in zip(expected.topics, found.topics, strict=True):
        found_by_name = {c.name: c for c in ours.configs or ()}
        for config in theirs.configs or ():
            is_other = sample["scenario"] == "static-3.9.1" and config.name in OTHER_CONFIGS
            if config.config_source in COMPARED_SOURCES and not is_other:
                assert found_by_name[config.name] == config


def test_every_listed_difference_is_a_sample():
    assert set(NOT_ANSWERED_ALIKE) <= {key(sample) for sample in SAMPLES}
    texts = [
        result.error_message or "" for sample in CREATED for result in decoded(sample)[1].topics
    ]
    for cut, _ in ONLY_IN_TEXT:
        assert any(cut in text for text in texts)
