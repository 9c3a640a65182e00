"""Creation of the topics of coordinators, when a client looks for one that does not exist.

apache/kafka: core/.../server/AutoTopicCreationManager.scala
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Final, cast

from broker.effects import Log, LogLevel
from broker.services import Services
from quorum_controller.topics.internal_topics import internal_topic
from wire.api_keys import CREATE_TOPICS
from wire.errors import ErrorCode
from wire.messages import codec

if TYPE_CHECKING:
    from kio.schema.create_topics.v7.response import CreateTopicsResponse

TIMEOUT: Final = timedelta(seconds=30)
"""`request.timeout.ms`, for the controller's answer."""
_CREATED: Final = (ErrorCode.none, ErrorCode.topic_already_exists)


class InternalTopics:
    """Requests of this broker for topics of coordinators, one at a time for each.

    Args:
        services: of the step.
        properties: of the broker.
    """

    def __init__(self, services: Services, properties: Mapping[str, str]) -> None:
        self._services = services
        self._properties = properties
        self._in_flight: set[str] = set()
        self._refused: dict[str, tuple[ErrorCode, str]] = {}
        """Last reasons of the controller, which are logged once: clients ask on and on."""

    def create(self, name: str) -> None:
        """Ask the controller for a topic, in the name of this broker, unless it is asked for."""
        if name in self._in_flight:
            return
        self._in_flight.add(name)
        body = codec.newest(CREATE_TOPICS, "request").CreateTopicsRequest(
            topics=(internal_topic(name, self._properties),), timeout=TIMEOUT, validate_only=False
        )
        self._services.ask(CREATE_TOPICS, body, lambda answer: self._on_answer(name, answer))

    def _on_answer(self, name: str, answer: object | None) -> None:
        self._in_flight.discard(name)
        rows = () if answer is None else cast("CreateTopicsResponse", answer).topics
        for row in rows:
            code, reason = ErrorCode(row.error_code), row.error_message or ""
            if code in _CREATED:
                self._refused.pop(name, None)
                if code is ErrorCode.none:
                    self._log(LogLevel.INFO, "topics_auto_created", topics=name)
            elif self._refused.get(name) != (code, reason):
                self._refused[name] = code, reason
                self._log(
                    LogLevel.WARN,
                    "topic_auto_creation_refused",
                    topic=name,
                    error=code.name,
                    reason=reason,
                )

    def _log(self, level: LogLevel, event: str, **fields: str) -> None:
        self._services.emit(Log(level, event, fields))
