"""Requests about groups, and about records without a port to them, which are refused at once.

They are listed and answered, not omitted: a client that finds no Produce or Fetch waits for its own
time-outs and then reports another error. Each requested partition gets an error of its own;
ListOffsets reports it as empty. The response is made in the request's own version, because older
ones name topics and newer ones give their ids. The records of a Produce are skipped, not decoded.
"""

import dataclasses
from typing import Any, Final
from uuid import UUID

from metadata.image import Image
from network.answers import NoResponse
from wire import api_keys
from wire.api_keys import FETCH, FIND_COORDINATOR, LIST_OFFSETS, PRODUCE
from wire.connections.connection import Request
from wire.errors import ErrorCode
from wire.messages import codec
from wire.messages.codec import Entity
from wire.messages.conversion import default_of
from wire.types import TopicId

RECORD_REQUESTS: Final = frozenset({PRODUCE, FETCH, LIST_OFFSETS, FIND_COORDINATOR})

REFUSED: Final = ErrorCode.policy_violation
"""A non-retriable error that all clients report to the application with its meaning."""
NOT_PRODUCED: Final = "kraftline serves metadata only: records cannot be produced"
NO_GROUPS: Final = "kraftline has no groups and no transactions"
TIMESTAMPS_OF_ENDS: Final = (-1, -2, -4)
"""Timestamps in ListOffsets for the latest, the earliest and the earliest local offset."""
ACKS_ALLOWED: Final = (-1, 0, 1)
FIND_COORDINATOR_WITH_LIST: Final = 4
"""First version with several keys in a request, each with its own result."""


def refuse(request: Request, image: Image) -> Entity | NoResponse:
    """Refuse a request of RECORD_REQUESTS with a body of its own version, or NoResponse."""
    body = codec.decode_as_sent(request.frame)
    answer = _Answer(request.api_key, request.api_version, image)
    match request.api_key:
        case api_keys.PRODUCE:
            return answer.produce(body)
        case api_keys.FETCH:
            return answer.fetch(body)
        case api_keys.LIST_OFFSETS:
            return answer.list_offsets(body)
        case key:
            assert key == FIND_COORDINATOR, f"{key=} is not about records"
            return answer.find_coordinator(body)


class _Answer:
    """The maker of one response in one version."""

    def __init__(self, api_key: int, version: int, image: Image) -> None:
        self._module = codec.response_module(api_key, version)
        self._version = version
        self._image = image

    def produce(self, body: Any) -> Entity | NoResponse:
        if body.acks == 0:
            return NoResponse(NOT_PRODUCED)
        invalid_acks = None if body.acks in ACKS_ALLOWED else ErrorCode.invalid_required_acks
        topics = []
        for topic in body.topic_data:
            partitions = []
            for partition in topic.partition_data:
                error = invalid_acks or self._error(topic, partition.index)
                partitions.append(
                    self._make(
                        "PartitionProduceResponse",
                        index=partition.index,
                        error_code=error,
                        error_message=NOT_PRODUCED if error is REFUSED else None,
                        base_offset=-1,
                    )
                )
            topics.append(
                self._topic("TopicProduceResponse", topic, partition_responses=partitions)
            )
        return self._make("ProduceResponse", responses=tuple(topics))

    def fetch(self, body: Any) -> Entity:
        if getattr(body, "session_id", 0) != 0:  # no fetch session was ever created
            return self._make("FetchResponse", error_code=ErrorCode.fetch_session_id_not_found)
        topics = []
        for topic in body.topics:
            partitions = [
                self._make(
                    "PartitionData",
                    partition_index=partition.partition,
                    error_code=self._error(topic, partition.partition),
                    high_watermark=-1,
                )
                for partition in topic.partitions
            ]
            topics.append(self._topic("FetchableTopicResponse", topic, partitions=partitions))
        return self._make("FetchResponse", responses=tuple(topics))

    def list_offsets(self, body: Any) -> Entity:
        """Report every partition as empty: earliest and latest offset are 0, others are none.

        If refused here, kafka-python and aiokafka retry for ever; they report a refused Fetch.
        """
        topics = []
        for topic in body.topics:
            partitions = []
            for partition in topic.partitions:
                error = self._error(topic, partition.partition_index)
                is_known = error is REFUSED
                is_empty_offset = is_known and partition.timestamp in TIMESTAMPS_OF_ENDS
                partitions.append(
                    self._make(
                        "ListOffsetsPartitionResponse",
                        partition_index=partition.partition_index,
                        error_code=ErrorCode.none if is_known else error,
                        timestamp=-1,
                        offset=0 if is_empty_offset else -1,
                    )
                )
            topics.append(self._topic("ListOffsetsTopicResponse", topic, partitions=partitions))
        return self._make("ListOffsetsResponse", topics=tuple(topics))

    def find_coordinator(self, body: Any) -> Entity:
        refusal = {"error_code": REFUSED, "error_message": NO_GROUPS, "node_id": -1, "port": -1}
        if self._version < FIND_COORDINATOR_WITH_LIST:
            return self._make("FindCoordinatorResponse", **refusal)
        rows = tuple(self._make("Coordinator", key=key, **refusal) for key in body.coordinator_keys)
        return self._make("FindCoordinatorResponse", coordinators=rows)

    # ---- entities ------------------------------------------------------------------------------

    def _error(self, topic: object, partition: int) -> ErrorCode:
        """Return REFUSED for a partition that exists, else Kafka's error for an unknown one."""
        image = self._image
        name = _name_of(topic)
        if name is None:
            topic_id = getattr(topic, "topic_id", None) or UUID(int=0)
            found = image.topics.get(TopicId(topic_id.bytes))
            if found is None:
                return ErrorCode.unknown_topic_id
        else:
            known_id = image.topic_id_by_name.get(name)
            found = None if known_id is None else image.topics.get(known_id)
        if found is None or partition not in found.partitions:
            return ErrorCode.unknown_topic_or_partition
        return REFUSED

    def _topic(self, class_name: str, topic: object, **fields: list[Entity]) -> Entity:
        """Make a topic's row with the name or id of the request."""
        rows = {name: tuple(values) for name, values in fields.items()}
        name = _name_of(topic)
        return self._make(
            class_name, name=name, topic=name, topic_id=getattr(topic, "topic_id", None), **rows
        )

    def _make(self, class_name: str, **fields: object) -> Entity:
        """Make an entity of this version: fields that it lacks are dropped, others default."""
        entity = getattr(self._module, class_name)
        made: Entity = entity(
            **{
                field.name: fields[field.name]
                if field.name in fields
                else default_of(entity, field)
                for field in dataclasses.fields(entity)
            }
        )
        return made


def _name_of(topic: object) -> str | None:
    """Return the topic's name; None in the versions that identify it by its id."""
    for field in ("name", "topic"):
        name: str | None = getattr(topic, field, None)
        if name is not None:
            return name
    return None
