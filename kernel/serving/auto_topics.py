"""Creation of topics that a Metadata request names and that do not exist.

The broker forwards one CreateTopics request for them, in the name of the client, and answers
UNKNOWN_TOPIC_OR_PARTITION without waiting: clients ask again until the topic has leaders. A topic
is in one such request at a time. Number of partitions and replication factor come from the broker
if its properties have them, else from the controller; the topics of the coordinators have their
own.
(apache/kafka: core/.../server/AutoTopicCreationManager.scala, 4.3.1)
"""

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from kernel.config import NodeConfig
from kernel.effects import Effect, Log, LogLevel
from kernel.serving.forwarding import REQUEST_TIMEOUT_MS
from metadata.image import Image
from metadata.topic_names import illegal_topic_name
from network.answers import Encoded
from network.connections import Answered
from quorum_controller.topics.internal_topics import INTERNAL, internal_topic
from wire.api_keys import CREATE_TOPICS
from wire.connections.connection import Request
from wire.errors import ErrorCode
from wire.messages import codec
from wire.messages.codec import Entity

if TYPE_CHECKING:
    from kio.schema.metadata.v13.request import MetadataRequest

Forward = Callable[[Request, bytes, Answered], None]
"""Function that takes a request and the address of its client; the answer comes once."""

VERSION: Final = 7
"""Of the CreateTopics requests: all controllers of KRaft serve it, and it is the newest."""
SHOWN_MAX: Final = 10
"""Names of topics in a log line."""
_BY_CONTROLLER: Final = -1
_CREATED: Final = (ErrorCode.none, ErrorCode.topic_already_exists)


def missing_names(image: Image, request: "MetadataRequest") -> tuple[str, ...]:
    """Return the names in a Metadata request that no topic has; none if it asks by id too.

    Args:
        image: with the topics.
        request: kio's newest MetadataRequest.
    """
    missing: dict[str, None] = {}
    for topic in request.topics or ():
        if topic.name is None or topic.topic_id is not None:
            return ()
        if topic.name not in image.topic_id_by_name:
            missing[topic.name] = None
    return tuple(missing)


def creatable_topic(config: NodeConfig, name: str) -> Entity:
    """Return a topic as it is created: a row of a CreateTopics request."""
    properties = dict(config.properties)
    if name in INTERNAL:
        return internal_topic(name, properties)
    defaults = config.topic_defaults
    has_count = "num.partitions" in properties
    has_factor = "default.replication.factor" in properties
    return codec.newest(CREATE_TOPICS, "request").CreatableTopic(
        name=name,
        num_partitions=defaults.partition_count if has_count else _BY_CONTROLLER,
        replication_factor=defaults.replication_factor if has_factor else _BY_CONTROLLER,
        assignments=(),
        configs=(),
    )


class AutoTopics:
    """The topics that a broker has asked the controller for.

    Args:
        config: of the node.
        forward: to the active controller.
        effects: sink of the log lines.
    """

    def __init__(self, config: NodeConfig, forward: Forward, effects: list[Effect]) -> None:
        self._config = config
        self._forward = forward
        self._effects = effects
        self._in_flight: set[str] = set()

    def create(self, asked: Request, client_address: bytes, names: Iterable[str]) -> None:
        """Ask for topics, unless they cannot exist or are asked for.

        Args:
            asked: the Metadata request, whose client the topics are created for.
            client_address: 4 or 16 bytes.
            names: of topics that do not exist and that the client may create.
        """
        new = [
            name
            for name in names
            if illegal_topic_name(name) is None and name not in self._in_flight
        ]
        if not new:
            return
        self._in_flight.update(new)
        fields = {"topics": ",".join(new[:SHOWN_MAX]), "topic_count": len(new)}
        self._effects.append(Log(LogLevel.INFO, "topics_auto_created", fields))
        request = self._request(asked, new)
        self._forward(request, client_address, lambda answer: self._on_answer(new, answer))

    def _request(self, asked: Request, names: list[str]) -> Request:
        body = codec.newest(CREATE_TOPICS, "request").CreateTopicsRequest(
            topics=tuple(creatable_topic(self._config, name) for name in names),
            timeout=timedelta(milliseconds=REQUEST_TIMEOUT_MS),
            validate_only=False,
        )
        number, client_id = asked.correlation_id, asked.client_id
        frame = codec.encode_request(CREATE_TOPICS, VERSION, number, client_id, body)
        return Request(CREATE_TOPICS, VERSION, number, client_id, body, 0, None, frame)

    def _on_answer(self, names: list[str], answer: object) -> None:
        self._in_flight.difference_update(names)
        if isinstance(answer, Encoded):
            _, answer = codec.decode_response(CREATE_TOPICS, VERSION, answer.frame)
        topics = getattr(answer, "topics", ())
        refused = [topic for topic in topics if topic.error_code not in _CREATED]
        for topic in refused[:SHOWN_MAX]:
            fields = {
                "topic": topic.name,
                "error": ErrorCode(topic.error_code).name,
                "reason": topic.error_message or "",
            }
            self._effects.append(Log(LogLevel.WARN, "topic_auto_creation_refused", fields))
