"""Authorization of the creation and deletion of topics, around managers without callers.

CREATE (DELETE) on the cluster covers every topic; otherwise each topic is checked. Topics that the
caller may not describe are not disclosed: neither the existence of a name nor the name of an id.
Source: apache/kafka: core/.../server/ControllerApis.scala (createTopics, deleteTopics).
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from metadata.image import Image
from quorum_controller.bodies import (
    CreatableTopicResult,
    CreateTopicsRequest,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeletionRow,
    TopicRow,
    to_bytes,
)
from quorum_controller.handler_result import HandlerResult
from quorum_controller.result import Draft
from quorum_controller.security.authorization import CLUSTER_NAME, Operation, ResourceType
from quorum_controller.services import Services
from quorum_controller.topics.topics import (
    DELETE_TOPICS_STRICT_VERSION,
    create_topics,
    delete_topics,
)
from wire.errors import ApiError, ErrorCode
from wire.types import TopicId

if TYPE_CHECKING:
    from kio.schema.delete_topics.v6.request import DeleteTopicState

_FAILED = ErrorCode.topic_authorization_failed


def create_topics_for(
    draft: Draft, request: CreateTopicsRequest, services: Services
) -> HandlerResult | ApiError:
    """Create the topics that the caller may create; TOPIC_AUTHORIZATION_FAILED rows last.

    The configs of a new topic are returned to callers that may describe them.
    """
    image = draft.image
    allowed = tuple(topic for topic in request.topics if _may_create(image, topic.name, services))
    may_describe = {
        topic.name: services.may(image, Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name)
        for topic in allowed
    }
    response = create_topics(
        draft,
        request if len(allowed) == len(request.topics) else replace(request, topics=allowed),
        services.for_topics(image),
        may_describe_configs=services.context.may_describe_configs,
    )
    if isinstance(response, ApiError):
        return response
    if services.config.access is None:
        return HandlerResult(response)
    rows = [
        row if may_describe.get(row.name, True) else _without_configs(row)
        for row in response.topics
    ]
    names = {topic.name for topic in allowed}
    refused = [topic.name for topic in request.topics if topic.name not in names]
    rows += [
        CreatableTopicResult(
            name=name, topic_id=None, error_code=_FAILED, error_message=None, configs=()
        )
        for name in dict.fromkeys(refused)
    ]
    return HandlerResult(replace(response, topics=tuple(rows)))


def _may_create(image: Image, name: str, services: Services) -> bool:
    return services.may(
        image, Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME
    ) or services.may(image, Operation.CREATE, ResourceType.TOPIC, name)


def _without_configs(row: TopicRow) -> TopicRow:
    if row.error_code != ErrorCode.none:
        return row
    return CreatableTopicResult(
        name=row.name,
        topic_id=row.topic_id,
        error_code=row.error_code,
        error_message=None,
        topic_config_error_code=int(_FAILED),
        configs=(),
    )


def delete_topics_for(
    draft: Draft, request: DeleteTopicsRequest, services: Services
) -> HandlerResult | ApiError:
    """Delete the topics that the caller may delete; refused rows last."""
    image = draft.image
    wanted, refused = request, []
    may_all = services.may(image, Operation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME)
    if not may_all and services.config.delete_topic_enable:
        rows = [(topic, _refusal(image, topic, services)) for topic in request.topics]
        refused = [row for _, row in rows if row is not None]
        if refused:
            wanted = replace(request, topics=tuple(topic for topic, row in rows if row is None))
    response = delete_topics(
        draft,
        wanted,
        services.config,
        lambda count: services.charge(image, count, DELETE_TOPICS_STRICT_VERSION),
    )
    if isinstance(response, ApiError):
        return response
    if refused:
        response = replace(response, responses=(*response.responses, *refused))
    return HandlerResult(response)


def _refusal(image: Image, topic: "DeleteTopicState", services: Services) -> DeletionRow | None:
    """The row of a topic that the caller may not delete, None if it may."""
    name: str | None = topic.name
    if name is None:
        existing = image.topics.get(TopicId(to_bytes(topic.topic_id)))
        if existing is None:
            return None
        name = existing.name
    may_describe = services.may(image, Operation.DESCRIBE, ResourceType.TOPIC, name)
    may_delete = services.may(image, Operation.DELETE, ResourceType.TOPIC, name)
    is_unknown = name not in image.topic_id_by_name
    if (may_delete or is_unknown) and may_describe:
        return None
    return DeletableTopicResult(
        name=name if may_describe or topic.name is not None else None,
        topic_id=topic.topic_id,
        error_code=_FAILED,
        error_message=None,
    )
