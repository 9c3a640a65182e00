"""Requests that real Kafka answered, put to our handlers at a point of Kafka's own log.

The image at an offset is made from the recorded metadata log. Where Kafka's answer is ours and
Kafka's next records are ours too, the handler did what Kafka's controller did.
"""

import json
import random
from functools import cache
from pathlib import Path

from metadata.apply import apply
from metadata.delta import MetadataDelta
from metadata.image import EMPTY
from metadata.records import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord
from quorum_controller.brokers.liveness import Liveness
from quorum_controller.config import ControllerConfig, TokenSettings
from quorum_controller.configs.topic_defaults import TopicConfigDefaults
from quorum_controller.handlers import HANDLERS, refusal
from quorum_controller.partitions.electorate import PartitionDefaults
from quorum_controller.partitions.partition_index import Electorate, PartitionIndex
from quorum_controller.queries import QUERIES
from quorum_controller.query_context import QueryContext
from quorum_controller.result import Draft, RequestContext
from quorum_controller.security.authorization import AccessRules
from quorum_controller.services import Services
from quorum_controller.topics.mutation_quota import MutationQuotas
from tests.metadata.golden_logs import log_batches
from wire.errors import ApiError
from wire.messages import codec

GOLDEN = Path(__file__).parent.parent / "golden" / "quorum_controller"
SUPER = AccessRules(frozenset({"User:ANONYMOUS"}))
"""Rules of the recordings: the recording client was a super user."""
MARKERS = (BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord)


def samples(name):
    """The recorded frames of a file."""
    return [json.loads(line) for line in (GOLDEN / f"{name}.jsonl").read_text().splitlines()]


def label(sample):
    """A test id."""
    return f"{sample['scenario']}-{sample['ms']}-{sample['api']}-v{sample['api_version']}"


def decoded(sample):
    """The request and Kafka's response, in the newest shape."""
    frame = bytes.fromhex(sample["request_hex"])
    header, position = codec.split_request(frame)
    body = memoryview(frame)[position:]
    request = codec.decode_request(header.api_key, header.api_version, body)
    answer = bytes.fromhex(sample["response_hex"])
    _, response = codec.decode_response(header.api_key, header.api_version, answer)
    return request, response


def response_frame(sample, response):
    """Our response as the bytes of a frame with the recorded correlation id."""
    answer = bytes.fromhex(sample["response_hex"])
    correlation_id = int.from_bytes(answer[:4], "big", signed=True)
    return codec.encode_response(sample["api_key"], sample["api_version"], correlation_id, response)


@cache
def history(scenario):
    """(offset, image before it, record) of the data records of a scenario's log."""
    image, found = EMPTY, []
    for batch in log_batches(scenario):
        for index, record in enumerate(batch.records):
            offset = batch.base_offset + index
            if not isinstance(record, MARKERS):
                if all(topic.partitions for topic in image.topics.values()):
                    found.append((offset, image, record))  # not within the creation of a topic
                image = apply(image, record, offset, MetadataDelta())
    return found


def services_at(image, **more):
    """Services of a controller with an authorizer, in the recorded clusters' settings."""
    rng = random.Random(1)
    config = ControllerConfig(
        cluster_id="x",
        node_id=1,
        bootstrap_records=(),
        access=more.pop("access", SUPER),
        tokens=TokenSettings(secret_key="golden-secret"),
    )
    fields = {
        "config": config,
        "context": RequestContext(),
        "defaults": TopicConfigDefaults(1, {}),
        "rng": rng,
        "new_uuid": lambda: rng.randbytes(16),
        "liveness": Liveness(9000, 0),
        "now_ms": 0,
        "wall_ms": 0,
        "quotas": MutationQuotas(11),
        "electorate": Electorate(PartitionIndex(image), PartitionDefaults()),
    }
    return Services(**(fields | more))


def handled(api_key, image, request, offset=0, **more):
    """The response to a request at an image, and the records that come with it."""
    draft = Draft(image, offset)
    result = HANDLERS[api_key].handle(draft, request, services_at(image, **more))
    if isinstance(result, ApiError):
        return refusal(api_key, request, result), []
    return result.response, [r for part in draft.parts for r in part.records] + draft.records


def queried(api_key, image, request, **more):
    """The response to a request that only reads."""
    fields = {
        "node_id": 1,
        "is_broker": True,
        "api_version": 0,
        "properties": {},
        "wall_ms": 0,
        "access": SUPER,
    }
    return QUERIES[api_key].answer(image, request, QueryContext(**(fields | more)))
