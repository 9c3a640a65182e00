"""Requests that real Kafka answered, put to our controller on an image of the recorded log.

A sample has the frames without their length. The controller is activated at the end of the part of
the scenario's metadata log that was written when the request came (recorded_time.py); what it
writes can be compared with what Kafka's log holds next.
"""

import json
import random
from functools import cache
from pathlib import Path

from metadata.features import METADATA_VERSION_NAMES
from metadata.loader import Loader
from metadata.node_configs import NodeConfigs
from metadata.records import FeatureLevelRecord
from quorum_controller.config import ControllerConfig
from quorum_controller.configs.alter_configs import (
    alter_configs_response,
    incremental_alter_configs_response,
)
from quorum_controller.configs.broker_config_rules import broker_refusals
from quorum_controller.controller import Controller
from quorum_controller.handlers import HANDLERS
from quorum_controller.queries import QUERIES
from quorum_controller.query_context import QueryContext
from quorum_controller.result import ControllerRequest, RequestContext
from tests.metadata.golden_logs import log_batches
from wire.api_keys import ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from wire.messages import codec

GOLDEN = Path(__file__).parent.parent / "golden" / "quorum_controller"
NODE_IDS = {"static-4.3.1": 3, "static-3.9.1": 1}
"""The active controller of a scenario while the samples were recorded."""
PROPERTIES = {
    "static-4.3.1": {"unclean.leader.election.enable": "false"},
    "static-3.9.1": {},
}
"""Properties of the recorded nodes that the answers depend on."""
FEATURES = {
    "static-4.3.1": {
        "eligible.leader.replicas.version": (0, 1),
        "group.version": (0, 1),
        "kraft.version": (0, 1),
        "metadata.version": (7, max(METADATA_VERSION_NAMES)),
        "share.version": (0, 1),
        "streams.version": (0, 1),
        "transaction.version": (0, 2),
    },
    "static-3.9.1": {"kraft.version": (0, 1), "metadata.version": (1, 21)},
}
"""Features of the recorded software, which has more than ours."""

RESPONSES = {
    ALTER_CONFIGS: alter_configs_response,
    INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs_response,
}


def samples(name):
    """The samples of a file."""
    return [json.loads(line) for line in (GOLDEN / name).read_text().splitlines()]


@cache
def states(scenario):
    """The image after every batch of a scenario's log, by end offset; transactions whole."""
    loader = Loader()
    found = {0: loader.image}
    for batch in log_batches(scenario):
        loader.commit([batch])
        if loader.transaction_start is None:
            found[batch.end_offset] = loader.image
    return found


def batches_from(scenario, offset):
    """The records of each batch of the log from an offset on."""
    return [batch.records for batch in log_batches(scenario) if batch.base_offset >= offset]


def request_of(sample):
    """Header and body, the body in the newest shape."""
    frame = bytes.fromhex(sample["request_hex"])
    header, position = codec.split_request(frame)
    body = codec.decode_request(header.api_key, header.api_version, memoryview(frame)[position:])
    return header, body


def controller_at(scenario, end_offset):
    """An active controller on the image of a scenario."""
    config = ControllerConfig(
        cluster_id="recorded",
        node_id=NODE_IDS[scenario],
        bootstrap_records=(FeatureLevelRecord(name="metadata.version", feature_level=21),),
        properties=PROPERTIES[scenario],
        supported_features=FEATURES[scenario],
    )
    rng = random.Random(1)
    controller = Controller(config, rng, lambda: rng.randbytes(16))
    output = controller.activate(9, end_offset, states(scenario)[end_offset], 1_000, 0)
    assert not output.proposals, "the log has data: nothing is written at activation"
    return controller


def refused_by_broker(sample, body, end_offset):
    """The answer of the broker that was asked if it passes nothing on, else None."""
    key = sample["api_key"]
    if key not in RESPONSES or not sample["to"].startswith("broker"):
        return None
    image = states(sample["scenario"])[end_offset]
    node_id = int(sample["to"].split("-")[1])
    node = NodeConfigs(image, node_id, PROPERTIES[sample["scenario"]])
    refusals = broker_refusals(key, body, image, node)
    return None if None in refusals else RESPONSES[key](body, refusals)


def answer(sample, end_offset):
    """(response frame, records written) of our controller or node for a sample."""
    header, body = request_of(sample)
    scenario, key = sample["scenario"], header.api_key
    if key in QUERIES:
        is_broker = sample["to"].startswith("broker")
        node_id = int(sample["to"].split("-")[1])
        context = QueryContext(
            node_id=node_id,
            is_broker=is_broker,
            api_version=header.api_version,
            properties=PROPERTIES[scenario],
            wall_ms=0,
        )
        response = QUERIES[key].answer(states(scenario)[end_offset], body, context)
        records = []
    elif (refused := refused_by_broker(sample, body, end_offset)) is not None:
        response, records = refused, []
    else:
        assert key in HANDLERS, f"{key=}"
        controller = controller_at(scenario, end_offset)
        context = RequestContext(api_version=header.api_version, is_forwarded=True)
        request = ControllerRequest(api_key=key, body=body, reply_token=1, context=context)
        output = controller.submit(request, 1_000, 0)
        records = [record for proposal in output.proposals for record in proposal.records]
        _, late = controller.commit(controller.next_offset)
        (response,) = [a.body for a in (*output.answers, *late.answers)]
    frame = codec.encode_response(key, header.api_version, header.correlation_id, response)
    return frame, records
