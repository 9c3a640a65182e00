"""126 requests about settings, most of them wrong, that Kafka 4.3.1 answered one after the other.

One node, topic `t1`. The same requests in the same order go to our broker's and controller's
functions; every answer must be Kafka's, but for what is listed here.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from kio.schema.broker_registration.v4.request import Feature

from metadata.node_configs import NodeConfigs
from metadata.records import ConfigRecord, FeatureLevelRecord
from quorum_controller.configs.alter_configs import (
    alter_configs_response,
    incremental_alter_configs_response,
)
from quorum_controller.configs.broker_config_rules import broker_refusals
from quorum_controller.queries import QUERIES
from quorum_controller.query_context import QueryContext
from quorum_controller.result import Draft, RequestContext
from tests.quorum_controller.controller_harness import Harness, topic
from tests.quorum_controller.recorded import FEATURES
from wire.api_keys import ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from wire.errors import ApiError
from wire.messages import codec

GOLDEN = Path(__file__).parents[2] / "golden" / "quorum_controller" / "settings_refusals.jsonl"
SAMPLES = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
PROPERTIES = {"node.id": "1"}
RESPONSES = {
    ALTER_CONFIGS: alter_configs_response,
    INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs_response,
}

DIFFERENT = {
    13: "we have no loggers that can be changed, so none is listed",
    40: "a thread count of 0 makes Kafka divide by it; we say what is wrong",
    76: "the parts of an entity: Kafka's order is that of a hash map, ours that of the request",
    87: "two users in one entity: Kafka takes the last one, we refuse",
    97: "lists what 87 made",
}
"""Reason for which an answer differs, by line of the file."""


def decoded(sample):
    frame = bytes.fromhex(sample["request_hex"])
    header, position = codec.split_request(frame)
    body = codec.decode_request(header.api_key, header.api_version, memoryview(frame)[position:])
    answer = bytes.fromhex(sample["response_hex"])
    return header, body, codec.decode_response(header.api_key, header.api_version, answer)[1]


class Node:
    """A broker and a controller in one, as the recorded one."""

    def __init__(self):
        features = FEATURES["static-4.3.1"]
        self.harness = Harness(
            level=30, properties=PROPERTIES, voter_ids=(1,), supported_features=features
        )
        ranges = tuple(
            Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in features.items()
        )
        assert self.harness.register(1, features=ranges).error_code == 0
        assert not self.harness.heartbeat(1).is_fenced
        draft = Draft(self.harness.image, self.harness.controller.next_offset)
        for name in ("eligible.leader.replicas.version", "group.version", "streams.version"):
            draft.emit(FeatureLevelRecord(name=name, feature_level=1))
        draft.emit(
            ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="1")
        )
        self.harness.take_draft(draft)
        self.harness.create(topic("t1"))

    def answer(self, header, body):
        key, image = header.api_key, self.harness.image
        if key in QUERIES:
            context = QueryContext(
                node_id=1,
                is_broker=True,
                api_version=header.api_version,
                properties=PROPERTIES,
                wall_ms=0,
            )
            return QUERIES[key].answer(image, body, context)
        if key in RESPONSES:
            return self.alter(key, body)
        context = RequestContext(api_version=header.api_version, is_forwarded=True)
        return self.harness.call(key, body, context=context)

    def alter(self, key, body):
        node = NodeConfigs(self.harness.image, 1, PROPERTIES)
        refusals = broker_refusals(key, body, self.harness.image, node)
        rest = [r for r, refusal in zip(body.resources, refusals, strict=True) if refusal is None]
        told = iter(())
        if rest:
            request = replace(body, resources=tuple(rest))
            context = RequestContext(is_forwarded=True)
            told = iter(self.harness.call(key, request, context=context).responses)
        errors = []
        for refusal in refusals:
            row = next(told) if refusal is None else None
            errors.append(refusal or ApiError(row.error_code, row.error_message))
        return RESPONSES[key](body, errors)


def as_version(header, response):
    frame = codec.encode_response(header.api_key, header.api_version, 1, response)
    return codec.decode_response(header.api_key, header.api_version, frame)[1]


@pytest.fixture(scope="module")
def answers():
    """(expected, found) of every sample, in order, on one node."""
    node = Node()
    found = []
    for sample in SAMPLES:
        header, body, expected = decoded(sample)
        found.append((expected, as_version(header, node.answer(header, body))))
    return found


@pytest.mark.parametrize("line", range(len(SAMPLES)))
def test_the_answer_is_kafka_s(answers, line):
    expected, found = answers[line]
    if line in DIFFERENT:
        assert found != expected, "no longer different: take it off the list"
    else:
        assert found == expected
