"""Authorization of requests that a node answers itself.

Requests for the active controller are authorized by the controller. Here are the quorum's own
requests, read-only ones, and the topics in Metadata and DescribeTopicPartitions: topics that the
caller may not describe are omitted when all topics are requested, and refused when named, whether
they exist or not. Listeners are PLAINTEXT: callers are `User:ANONYMOUS`, except in an Envelope.
Source: apache/kafka: core/.../server/{KafkaApis,ControllerApis,AuthHelper}.scala,
DescribeTopicPartitionsRequestHandler.java.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final, cast

from kernel.serving.forwarding import refusal_body
from metadata.image import Image, sorted_items
from quorum_controller.security.authorization import (
    CLUSTER_NAME,
    AccessRules,
    Action,
    Caller,
    Operation,
    ResourceType,
    allowed_operations,
    cluster_error,
    is_allowed,
)
from wire.api_keys import DESCRIBE_TOPIC_PARTITIONS
from wire.errors import ErrorCode, RemoteProtocolError
from wire.messages import codec
from wire.messages.codec import Entity
from wire.primitives import read_unsigned_varint, skip_tagged_fields

if TYPE_CHECKING:
    from kio.schema.describe_topic_partitions.v0.request import DescribeTopicPartitionsRequest
    from kio.schema.describe_topic_partitions.v0.response import (
        DescribeTopicPartitionsResponse,
        DescribeTopicPartitionsResponseTopic,
    )
    from kio.schema.metadata.v13.request import MetadataRequest
    from kio.schema.metadata.v13.response import MetadataResponse, MetadataResponseTopic

_TOPIC_OPERATIONS: Final = (
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
_NOT_REQUESTED: Final = -(2**31)
_FAILED: Final = ErrorCode.topic_authorization_failed
_TOKEN_AUTHENTICATED_BYTES: Final = 1
_SHOWN_BYTES_MAX: Final = 40


_replaced: Callable[..., Entity] = replace
"""`dataclasses.replace` with unchecked field types: kio uses phantom types."""


class Access:
    """The authorizer of one node; without rules everything is allowed."""

    def __init__(self, rules: AccessRules | None) -> None:
        self.rules = rules

    def refusal(self, image: Image, caller: Caller, api_key: int, body: object) -> Entity | None:
        """Return a CLUSTER_AUTHORIZATION_FAILED response; None if the request is allowed."""
        error = cluster_error(image, self.rules, caller, api_key)
        return None if error is None else refusal_body(api_key, body, error.code)

    def creatable(
        self, image: Image, caller: Caller, names: Iterable[str]
    ) -> tuple[tuple[str, ...], frozenset[str]]:
        """Names of missing topics: those that the caller may create, and those that it may not.

        In neither are those that it may not describe: they are refused anyway.
        """
        rules = self.rules
        if rules is None:
            return tuple(names), frozenset()
        seen = tuple(name for name in names if self._may_describe(image, caller, name))
        action = Action(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)
        if not seen or is_allowed(image, rules, caller, action):
            return seen, frozenset()
        refused = frozenset(
            name
            for name in seen
            if not is_allowed(
                image, rules, caller, Action(Operation.CREATE, ResourceType.TOPIC, name)
            )
        )
        return tuple(name for name in seen if name not in refused), refused

    def metadata(
        self,
        image: Image,
        caller: Caller,
        request: "MetadataRequest",
        response: "MetadataResponse",
        uncreatable: frozenset[str] = frozenset(),
    ) -> Entity:
        """Return a Metadata response without the topics that the caller may not describe.

        Missing topics that it may describe and not create are refused.
        """
        if self.rules is None:
            return response
        is_everything = request.topics is None
        rows = []
        for row in response.topics:
            name = row.name
            if name in uncreatable:
                rows.append(_replaced(row, error_code=_FAILED))
            elif name is None or self._may_describe(image, caller, name):
                rows.append(self._with_operations(image, caller, row))
            elif not is_everything:
                rows.append(_hidden(row, is_by_id=_is_by_id(request)))
        return _replaced(response, topics=tuple(rows))

    def describable(
        self, image: Image, caller: Caller, request: "DescribeTopicPartitionsRequest"
    ) -> tuple[Entity | None, tuple[str, ...]]:
        """Split a DescribeTopicPartitions request into an allowed request and refused names.

        Only requested names are refused; a request for all topics becomes one for the topics that
        the caller may describe. The request is None if no topic is left.
        """
        if self.rules is None:
            return request, ()
        new = codec.newest(DESCRIBE_TOPIC_PARTITIONS, "request")
        names: Iterable[str] = [topic.name for topic in request.topics]
        is_everything = not request.topics
        if is_everything:
            names = [name for name, _ in sorted_items(image.topic_id_by_name)]
        may = [name for name in names if self._may_describe(image, caller, name)]
        refused = () if is_everything else tuple(sorted(set(names).difference(may)))
        topics = tuple(new.TopicRequest(name=name) for name in may)
        return _replaced(request, topics=topics) if topics else None, refused

    def described(
        self,
        image: Image,
        caller: Caller,
        response: "DescribeTopicPartitionsResponse | None",
        refused: tuple[str, ...],
    ) -> Entity:
        """Add authorized operations and refused names to a DescribeTopicPartitions response."""
        new = codec.newest(DESCRIBE_TOPIC_PARTITIONS, "response")
        if response is None:
            empty = new.DescribeTopicPartitionsResponse(
                throttle_time=timedelta(0), topics=(), next_cursor=None
            )
            response = cast("DescribeTopicPartitionsResponse", empty)
        elif self.rules is None:
            return response
        rows = [self._with_operations(image, caller, row) for row in response.topics]
        rows += [
            new.DescribeTopicPartitionsResponseTopic(
                error_code=_FAILED,
                name=name,
                topic_id=None,
                is_internal=False,
                partitions=(),
                topic_authorized_operations=_NOT_REQUESTED,
            )
            for name in refused
        ]
        return _replaced(response, topics=tuple(rows))

    def _may_describe(self, image: Image, caller: Caller, name: str) -> bool:
        assert self.rules is not None, "asked with an authorizer only"
        action = Action(Operation.DESCRIBE, ResourceType.TOPIC, name)
        return is_allowed(image, self.rules, caller, action)

    def _with_operations(
        self,
        image: Image,
        caller: Caller,
        row: "MetadataResponseTopic | DescribeTopicPartitionsResponseTopic",
    ) -> Entity:
        """Set the caller's authorized operations, as bits, if they were requested."""
        if row.topic_authorized_operations == _NOT_REQUESTED or row.name is None:
            return row
        assert self.rules is not None, "asked with an authorizer only"
        resource = (ResourceType.TOPIC, row.name)
        bits = allowed_operations(image, self.rules, caller, resource, _TOPIC_OPERATIONS)
        return _replaced(row, topic_authorized_operations=bits)


def _is_by_id(request: "MetadataRequest") -> bool:
    return any(topic.topic_id is not None for topic in request.topics or ())


def _hidden(row: "MetadataResponseTopic", *, is_by_id: bool) -> Entity:
    """Return a refused row with the name or id that was requested, and nothing else."""
    return _replaced(
        row,
        error_code=_FAILED,
        name=None if is_by_id else row.name,
        topic_id=row.topic_id if is_by_id else None,
        is_internal=False,
        partitions=(),
        topic_authorized_operations=_NOT_REQUESTED,
    )


def principal_of(content: bytes | None) -> str:
    """Return `type:name` of an Envelope's principal (DefaultPrincipalData v0).

    Raises:
        RemoteProtocolError: there is no principal, or it cannot be decoded.
    """
    if content is None:
        raise RemoteProtocolError("an Envelope without a principal")
    try:
        view = memoryview(content)
        version = int.from_bytes(view[:2], "big")
        if version != 0:
            raise RemoteProtocolError(f"principal of version {version}, only 0 is known")
        kind, position = _compact_string(view, 2)
        name, position = _compact_string(view, position)
        skip_tagged_fields(view, position + _TOKEN_AUTHENTICATED_BYTES)
    except (IndexError, ValueError) as error:  # invalid UTF-8 raises a ValueError
        shown = content[:_SHOWN_BYTES_MAX].hex()
        raise RemoteProtocolError(f"{shown} is no principal: {error}") from error
    return f"{kind}:{name}"


def _compact_string(view: memoryview, position: int) -> tuple[str, int]:
    size, position = read_unsigned_varint(view, position)
    end = position + size - 1
    if size == 0 or end > len(view):
        raise IndexError(f"a text at {position} is null or runs over the end")
    return bytes(view[position:end]).decode(), end
