"""The configs of a resource with their sources: DescribeConfigs, ListConfigResources.

The receiving node answers from its image and its own server.properties; a broker's configs only
that broker. Values of type PASSWORD are never returned. Rows have Kafka's order (its hash order).
Source: apache/kafka: core/.../server/ConfigHelper.scala, server/.../ConfigHelperUtils.java, 4.3.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from metadata.config_schema import (
    RESOURCE_BROKER,
    RESOURCE_BROKER_LOGGER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
    SOURCE_CLIENT_METRICS,
    SOURCE_CLUSTER_DEFAULT,
    SOURCE_DEFAULT,
    SOURCE_GROUP,
    SOURCE_TOPIC,
    ConfigDefinition,
    broker_configs,
    client_metrics_configs,
)
from metadata.config_values import parse_value, value_text, whole_number
from metadata.image import CONFIG_BROKER, Image, sorted_items
from metadata.node_configs import Named, NodeConfigs, definition_of
from metadata.topic_names import illegal_topic_name
from quorum_controller.bodies import NO_TIME
from quorum_controller.configs.alter_configs import NODE_ID_MAX
from quorum_controller.query_context import QueryContext
from quorum_controller.security.authorization import Operation, config_error
from wire.api_keys import DESCRIBE_CONFIGS, LIST_CONFIG_RESOURCES
from wire.errors import ApiError, ErrorCode
from wire.messages import codec
from wire.messages.codec import Entity

if TYPE_CHECKING:
    from kio.schema.describe_configs.v4.request import DescribeConfigsRequest
    from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest

_describe: Final = codec.newest(DESCRIBE_CONFIGS, "response")
_list: Final = codec.newest(LIST_CONFIG_RESOURCES, "response")


_LISTED_FIRST: Final = (
    RESOURCE_GROUP,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_BROKER_LOGGER,
    RESOURCE_BROKER,
    RESOURCE_TOPIC,
)


class _Entry(msgspec.Struct, frozen=True):
    """One config of a resource, before the options of the request are applied."""

    name: str
    value: str | None
    definition: ConfigDefinition | None
    synonyms: list[Named]
    is_read_only: bool = False

    @property
    def is_sensitive(self) -> bool:
        """True for passwords, and for unknown configs, which may be secrets."""
        return self.definition is None or self.definition.is_sensitive

    @property
    def source(self) -> int:
        return self.synonyms[0].source if self.synonyms else SOURCE_DEFAULT


def describe_configs(
    image: Image, request: "DescribeConfigsRequest", context: QueryContext
) -> Entity:
    """Describe every resource of the request, in its order; each may have its own error."""
    node = NodeConfigs(image, context.node_id, context.properties)
    results = []
    for resource in request.resources:
        key = (int(resource.resource_type), str(resource.resource_name))
        found = config_error(
            image, context.access, context.caller, Operation.DESCRIBE_CONFIGS, *key
        ) or _entries(image, node, *key)
        error = found if isinstance(found, ApiError) else ApiError(ErrorCode.none)
        rows: tuple[Entity, ...] = ()
        if not isinstance(found, ApiError):
            wanted = frozenset(resource.configuration_keys or ())
            rows = tuple(
                _row(
                    entry,
                    has_synonyms=request.include_synonyms,
                    has_documentation=request.include_documentation,
                )
                for entry in found
                if not wanted or entry.name in wanted
            )
        results.append(
            _describe.DescribeConfigsResult(
                error_code=error.code,
                error_message=error.message or "",
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=rows,
            )
        )
    return _describe.DescribeConfigsResponse(throttle_time=NO_TIME, results=tuple(results))


def _row(entry: _Entry, *, has_synonyms: bool, has_documentation: bool) -> Entity:
    hidden = entry.is_sensitive
    definition = entry.definition
    synonyms = entry.synonyms if has_synonyms else []
    return _describe.DescribeConfigsResourceResult(
        name=entry.name,
        value=None if hidden else entry.value,
        read_only=entry.is_read_only,
        config_source=entry.source,
        is_sensitive=hidden,
        synonyms=tuple(
            _describe.DescribeConfigsSynonym(
                name=named.name, value=None if hidden else named.value, source=named.source
            )
            for named in synonyms
        ),
        config_type=0 if definition is None else definition.type.number,
        documentation=_documentation(definition) if has_documentation else None,
    )


def _documentation(definition: ConfigDefinition | None) -> str | None:
    return None if definition is None else definition.documentation


# --- per type of resource -----------------------------------------------------------------------


_NAME_NEEDED: Final = {
    RESOURCE_BROKER_LOGGER: "Broker id must not be empty",
    RESOURCE_CLIENT_METRICS: "Client metrics subscription name must not be empty",
    RESOURCE_GROUP: "Group name must not be empty",
}


def _entries(  # noqa: PLR0911 - one return per type
    image: Image, node: NodeConfigs, kind: int, name: str
) -> Iterable[_Entry] | ApiError:
    """Configs of a resource of any type, or the error of the resource."""
    if not name and kind in _NAME_NEEDED:
        return ApiError(ErrorCode.invalid_request, _NAME_NEEDED[kind])
    match kind:
        case 2:
            return _unknown_topic_error(image, name) or _topic_entries(
                node, image.config(kind, name)
            )
        case 4 if not name:
            return _cluster_entries(node, image.config(CONFIG_BROKER, ""))
        case 4:
            error = _other_node_error(node, name, " or empty string,")
            return error or _broker_entries(node, image)
        case 8:
            return _other_node_error(node, name, "") or ()
        case 16:
            return _client_metrics_entries(image.config(kind, name))
        case 32:
            return _group_entries(node, image.config(kind, name))
        case _:
            text = f"Unexpected resource type UNKNOWN for resource {name}"
            return ApiError(ErrorCode.invalid_request, text)


def _unknown_topic_error(image: Image, name: str) -> ApiError | None:
    text = illegal_topic_name(name)
    if text is not None:
        message = f"Topic name is invalid: {text}"
        return ApiError(ErrorCode.invalid_topic_exception, message)
    if name not in image.topic_id_by_name:
        return ApiError(ErrorCode.unknown_topic_or_partition)
    return None


def _other_node_error(node: NodeConfigs, name: str, alternative: str) -> ApiError | None:
    number = whole_number(name)
    if number is None or not -NODE_ID_MAX - 1 <= number <= NODE_ID_MAX:
        text = f"Broker id must be an integer, but it is: {name}"
        return ApiError(ErrorCode.invalid_request, text)
    if number == node.node_id:
        return None
    text = f"Unexpected broker id, expected {node.node_id}{alternative} but received {name}"
    return ApiError(ErrorCode.invalid_request, text)


def _topic_entries(node: NodeConfigs, own: Mapping[str, str]) -> Iterator[_Entry]:
    for definition, default in node.topic_values():
        synonyms = node.synonyms(definition.synonyms[0].name) if definition.synonyms else []
        yield _with_own(definition, default, own, synonyms, SOURCE_TOPIC)


def _group_entries(node: NodeConfigs, own: Mapping[str, str]) -> Iterator[_Entry]:
    for definition, default in node.group_values():
        if definition.synonyms:
            synonyms = node.synonyms(definition.synonyms[0].name)
        else:
            assert default is not None, f"{definition.name} has no default"
            synonyms = [Named(definition.name, default, SOURCE_DEFAULT)]
        yield _with_own(definition, default, own, synonyms, SOURCE_GROUP)


def _client_metrics_entries(own: Mapping[str, str]) -> Iterator[_Entry]:
    for definition in client_metrics_configs().values():
        yield _with_own(definition, definition.default, own, [], SOURCE_CLIENT_METRICS)


def _with_own(
    definition: ConfigDefinition,
    default: str | None,
    own: Mapping[str, str],
    synonyms: list[Named],
    source: int,
) -> _Entry:
    """The entry of a config: the resource's own value precedes all others."""
    text = own.get(definition.name)
    if text is None:
        return _Entry(definition.name, default, definition, synonyms)
    value, error = parse_value(definition, text)
    shown = text if error is not None else value_text(value)
    assert shown is not None, "a value that is set has a text"
    return _Entry(
        definition.name, shown, definition, [Named(definition.name, shown, source), *synonyms]
    )


def _cluster_entries(node: NodeConfigs, cluster: Mapping[str, str]) -> Iterator[_Entry]:
    """The cluster-wide dynamic configs of brokers, without other layers."""
    for name, value in sorted_items(cluster):
        synonyms = [s for s in node.synonyms(name) if s.source == SOURCE_CLUSTER_DEFAULT]
        yield _broker_entry(name, value, synonyms)


def _broker_entries(node: NodeConfigs, image: Image) -> Iterator[_Entry]:
    """Configs of the broker that have no public definition, then all that have one."""
    listed = {n for n, definition in broker_configs().items() if not definition.is_internal}
    dynamic = image.config(CONFIG_BROKER, str(node.node_id))
    cluster = image.config(CONFIG_BROKER, "")
    for name in sorted({*node.properties, *dynamic, *cluster} - listed):
        yield _broker_entry(name, node.value(name), node.synonyms(name))
    for name, definition in broker_configs().items():
        if not definition.is_internal:
            yield _broker_entry(name, node.value(name), node.synonyms(name))


def _broker_entry(name: str, value: str | None, synonyms: list[Named]) -> _Entry:
    definition = definition_of(name)
    is_read_only = definition is None or definition.name != name or definition.update_mode is None
    return _Entry(name, value, definition, synonyms, is_read_only)


# --- resources with configs ---------------------------------------------------------------------


def list_config_resources(
    image: Image, request: "ListConfigResourcesRequest", context: QueryContext
) -> Entity:
    """Names of resources by type (KIP-1142); all types if the request names none.

    Version 0 lists client metrics subscriptions only (KIP-1000) and has no types in its response.
    """
    types = {int(kind) for kind in request.resource_types}
    if context.api_version == 0:
        types = {RESOURCE_CLIENT_METRICS}
    unknown = types - set(_LISTED_FIRST)
    if unknown:
        return list_config_resources_error(ApiError(ErrorCode.unsupported_version))
    return _list.ListConfigResourcesResponse(
        throttle_time=NO_TIME,
        error_code=ErrorCode.none,
        config_resources=tuple(
            _list.ConfigResource(resource_name=name, resource_type=kind)
            for kind in _LISTED_FIRST
            if not types or kind in types
            for name in _resource_names(image, kind)
        ),
    )


def list_config_resources_error(error: ApiError) -> Entity:
    """The response with this code and no resource."""
    return _list.ListConfigResourcesResponse(
        throttle_time=NO_TIME, error_code=error.code, config_resources=()
    )


def _resource_names(image: Image, kind: int) -> list[str]:
    """Existing brokers or topics; for other types the resources with configs."""
    if kind in (RESOURCE_BROKER, RESOURCE_BROKER_LOGGER):
        return [str(broker_id) for broker_id in sorted(image.brokers)]
    if kind == RESOURCE_TOPIC:
        return sorted(image.topic_id_by_name)
    return sorted(name for resource_type, name in image.configs if resource_type == kind)
