"""Kafka requests of simulated clients, and the content of the responses."""

from datetime import timedelta
from typing import Any, Final, NamedTuple

import msgspec

from wire.errors import ErrorCode
from wire.messages import codec

METADATA: Final = 3
CREATE_TOPICS: Final = 19
DELETE_TOPICS: Final = 20
DESCRIBE_CONFIGS: Final = 32
INCREMENTAL_ALTER_CONFIGS: Final = 44
TIMEOUT: Final = timedelta(seconds=4)
TOPIC_RESOURCE: Final = 2
SOURCE_TOPIC: Final = 1
CONFIG: Final = "retention.ms"
"""The config that is written and read as a register."""

READS: Final = ("exists", "read")
TOPIC_WRITES: Final = ("create", "delete")


class Operation(msgspec.Struct, kw_only=True):
    """One operation of a client."""

    client: int
    kind: str
    """`create`, `delete` and `exists` of a topic, `write` and `read` of a topic's config."""
    name: str
    called_us: int
    target: int = 0
    """The node asked."""
    value: str | None = None
    """Value of the config, to write or as read; None where it is not set."""
    topic_id: bytes | None = None
    returned_us: int | None = None
    outcome: str = "info"
    """`ok`, `fail` (it certainly did not happen, or a read that proves nothing) or `info`."""
    error: str | None = None
    proof: object = None
    """Reason, as of the call, why the answer shows the committed state (checks/proofs.py)."""
    late_us: int = 0
    """Time after its client gave up in which the request may still arrive (client_links)."""
    is_observation: bool = False
    """True: a refusal that shows the committed state, as an answer of the controller does."""

    def has_returned(self) -> bool:
        """True once its client has an outcome, known or not."""
        return self.returned_us is not None


class Answer(NamedTuple):
    """Content of a response to an operation."""

    error: ErrorCode
    topic_id: bytes | None = None
    value: str | None = None


def request_of(operation: Operation, partition_count: int) -> tuple[int, Any]:
    """API key and body of the request for an operation."""
    if operation.kind == "create":
        return CREATE_TOPICS, _creation(operation, partition_count)
    if operation.kind == "delete":
        module = codec.newest(DELETE_TOPICS, "request")
        state = module.DeleteTopicState(name=operation.name, topic_id=None)
        return DELETE_TOPICS, module.DeleteTopicsRequest(topics=(state,), timeout=TIMEOUT)
    if operation.kind == "exists":
        module = codec.newest(METADATA, "request")
        topic = module.MetadataRequestTopic(topic_id=None, name=operation.name)
        return METADATA, module.MetadataRequest(
            topics=(topic,),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
    if operation.kind == "write":
        module = codec.newest(INCREMENTAL_ALTER_CONFIGS, "request")
        config = module.AlterableConfig(name=CONFIG, config_operation=0, value=operation.value)
        resource = module.AlterConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=operation.name, configs=(config,)
        )
        return INCREMENTAL_ALTER_CONFIGS, module.IncrementalAlterConfigsRequest(
            resources=(resource,), validate_only=False
        )
    assert operation.kind == "read", f"{operation.kind=}"
    module = codec.newest(DESCRIBE_CONFIGS, "request")
    resource = module.DescribeConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=operation.name, configuration_keys=(CONFIG,)
    )
    return DESCRIBE_CONFIGS, module.DescribeConfigsRequest(
        resources=(resource,), include_synonyms=False, include_documentation=False
    )


def _creation(operation: Operation, partition_count: int) -> Any:
    module = codec.newest(CREATE_TOPICS, "request")
    topic = module.CreatableTopic(
        name=operation.name,
        num_partitions=partition_count,
        replication_factor=-1,
        assignments=(),
        configs=(),
    )
    return module.CreateTopicsRequest(topics=(topic,), timeout=TIMEOUT, validate_only=False)


def answer_of(operation: Operation, body: Any) -> Answer:
    """Read a response; an absent topic is no error of a lookup."""
    kind = operation.kind
    if kind == "write":
        return Answer(body.responses[0].error_code)
    if kind == "read":
        result = body.results[0]
        rows = [row for row in result.configs if row.config_source == SOURCE_TOPIC]
        return Answer(result.error_code, value=rows[0].value if rows else None)
    answer = (body.responses if kind == "delete" else body.topics)[0]
    if kind == "exists" and answer.error_code is ErrorCode.unknown_topic_or_partition:
        return Answer(ErrorCode.none)
    topic_id = getattr(answer, "topic_id", None)
    return Answer(answer.error_code, None if topic_id is None else topic_id.bytes)
