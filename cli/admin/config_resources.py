"""Configs of topics, brokers, groups, client metrics and loggers: describe, alter, output lines."""

from typing import Any, Final

from cli.admin.config_entities import (
    BROKER_LOGGERS,
    BROKERS,
    CLIENT_METRICS,
    DEFAULT,
    GROUPS,
    TOPICS,
    Change,
    Entities,
    singular,
)
from cli.command import Output
from cli.connect import (
    Api,
    ClusterError,
    check,
    described_cluster,
    error_text,
    json_line,
    newest,
)

METADATA: Final = 3
DESCRIBE_CONFIGS: Final = 32
INCREMENTAL_ALTER_CONFIGS: Final = 44
LIST_CONFIG_RESOURCES: Final = 74
SET, DELETE = 0, 1
RESOURCE_TYPES: Final = {
    TOPICS: 2,
    BROKERS: 4,
    BROKER_LOGGERS: 8,
    CLIENT_METRICS: 16,
    GROUPS: 32,
}
SOURCES: Final = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}
_SOURCE_OF: Final = {TOPICS: 1, BROKERS: 2, BROKER_LOGGERS: 6, CLIENT_METRICS: 7, GROUPS: 8}
SOURCE_CLUSTER_DEFAULT: Final = 3


def describe(api: Api, entities: Entities, *, show_all: bool, as_json: bool) -> Output:
    """Describe the configs of one resource, or of every resource of the type."""
    kind, name = entities.kind, entities.name
    if name is not None and name != DEFAULT and not show_all and not _exists(api, kind, name):
        if as_json:
            return Output(json_line({"resources": []}))
        return Output(
            f"The {singular(kind)} '{name}' doesn't exist and doesn't have dynamic config.\n"
        )
    names = [name] if name is not None else _all_names(api, kind)
    rows = {each: _configs(api, kind, each, show_all=show_all) for each in names}
    if as_json:
        return Output(json_line({"resources": [_as_object(kind, n, r) for n, r in rows.items()]}))
    lines = []
    for each, configs in rows.items():
        if kind == BROKERS and each == DEFAULT:
            lines.append(f"Default configs for {kind} in the cluster are:\n")
        else:
            which = "All" if show_all else "Dynamic"
            lines.append(f"{which} configs for {singular(kind)} {each} are:\n")
        lines.extend(config_line(row) for row in configs)
    return Output("".join(lines))


def config_line(row: Any) -> str:
    """The line of one config with its synonyms, each with its source."""
    synonyms = ", ".join(f"{SOURCES.get(s.source, 'UNKNOWN')}:{s.name}={_value(s.value)}"
                         for s in row.synonyms)  # fmt: skip
    sensitive = "true" if row.is_sensitive else "false"
    return f"  {row.name}={_value(row.value)} sensitive={sensitive} synonyms={{{synonyms}}}\n"


def _value(value: Any) -> str:
    return "null" if value is None else str(value)


def _as_object(kind: str, name: str, rows: list[Any]) -> dict[str, Any]:
    return {
        "type": kind,
        "name": name or None,
        "configs": [
            {
                "name": row.name,
                "value": row.value,
                "source": SOURCES.get(row.config_source, "UNKNOWN"),
                "sensitive": bool(row.is_sensitive),
                "read_only": bool(row.read_only),
                "synonyms": [
                    {"name": s.name, "value": s.value, "source": SOURCES.get(s.source, "UNKNOWN")}
                    for s in row.synonyms
                ],
            }
            for row in rows
        ],
    }


def _configs(api: Api, kind: str, name: str, *, show_all: bool) -> list[Any]:
    """Rows of one resource sorted by name; only its own configs unless `show_all` is set."""
    module = newest(DESCRIBE_CONFIGS)
    resource = module.DescribeConfigsResource(
        resource_type=RESOURCE_TYPES[kind], resource_name=name, configuration_keys=None
    )
    request = module.DescribeConfigsRequest(
        resources=(resource,), include_synonyms=True, include_documentation=False
    )
    (result,) = api.call(DESCRIBE_CONFIGS, request, _node_of(kind, name)).results
    check(result)
    is_cluster = kind == BROKERS and name == DEFAULT
    source = SOURCE_CLUSTER_DEFAULT if is_cluster else _SOURCE_OF[kind]
    rows = [row for row in result.configs if show_all or int(row.config_source) == source]
    return sorted(rows, key=lambda row: str(row.name))


def _node_of(kind: str, name: str) -> int | None:
    """The broker that must answer for its own configs; None: any node."""
    is_of_node = kind in (BROKERS, BROKER_LOGGERS) and name != DEFAULT
    return int(name) if is_of_node else None


def _exists(api: Api, kind: str, name: str) -> bool:
    if kind == TOPICS and not _topic_names(api, name):
        return name in _listed(api, kind)
    if kind in (BROKERS, BROKER_LOGGERS):
        return name in _node_ids(api) or (kind == BROKERS and name in _listed(api, kind))
    return kind == TOPICS or name in _listed(api, kind)


def _all_names(api: Api, kind: str) -> list[str]:
    if kind == TOPICS:
        return sorted({*_topic_names(api, None), *_listed(api, kind)})
    if kind == BROKERS:
        return [*_node_ids(api), DEFAULT]
    return _node_ids(api) if kind == BROKER_LOGGERS else sorted(_listed(api, kind))


def _topic_names(api: Api, name: str | None) -> list[str]:
    """Names of existing topics: all of them, or only the given one."""
    module = newest(METADATA)
    if not api.supports(METADATA):
        raise ClusterError("configs of topics come from brokers: use --bootstrap-server")
    topics = None
    if name is not None:
        topics = (module.MetadataRequestTopic(topic_id=None, name=name),)
    request = module.MetadataRequest(
        topics=topics, allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )
    found = api.call(METADATA, request).topics
    for topic in found:
        if name is not None and int(topic.error_code) == _INVALID_TOPIC:
            raise ClusterError(error_text(topic.error_code))
    return [str(topic.name) for topic in found if not int(topic.error_code)]


_INVALID_TOPIC: Final = 17


def _node_ids(api: Api) -> list[str]:
    """Ids of the nodes that are connected: of brokers, or of controllers."""
    ids = sorted(int(node.broker_id) for node in described_cluster(api).brokers)
    return [str(node_id) for node_id in ids]


def _listed(api: Api, kind: str) -> set[str]:
    """Names of the resources of a type that have configs."""
    if not api.supports(LIST_CONFIG_RESOURCES):
        return set()
    request = newest(LIST_CONFIG_RESOURCES).ListConfigResourcesRequest(
        resource_types=(RESOURCE_TYPES[kind],)
    )
    answer = check(api.call(LIST_CONFIG_RESOURCES, request))
    return {str(row.resource_name) for row in answer.config_resources}


def alter(api: Api, entities: Entities, change: Change) -> None:
    """Set and delete configs of one resource.

    Raises:
        ClusterError: refused; nothing was changed.
    """
    kind, name = entities.kind, entities.name
    assert name is not None, "alter names its resource"
    if kind == BROKER_LOGGERS:
        known = {str(row.name) for row in _configs(api, kind, name, show_all=True)}
        unknown = [n for n in (*change.deleted, *change.added) if n not in known]
        if unknown:
            raise ClusterError(f"Invalid broker logger(s): {','.join(unknown)}")
    module = newest(INCREMENTAL_ALTER_CONFIGS)
    rows = [
        *(_row(module, n, SET, value) for n, value in change.added.items()),
        *(_row(module, n, DELETE, None) for n in change.deleted),
    ]
    resource = module.AlterConfigsResource(
        resource_type=RESOURCE_TYPES[kind], resource_name=name, configs=tuple(rows)
    )
    request = module.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    node = None if api_is_controller(api) else _node_of(kind, name)
    for result in api.call(INCREMENTAL_ALTER_CONFIGS, request, node).responses:
        check(result)


def api_is_controller(api: Api) -> bool:
    """Return True if controllers answer: they alter any broker's configs, a broker only its own."""
    return not api.supports(METADATA)


def _row(module: Any, name: str, operation: int, value: str | None) -> Any:
    return module.AlterableConfig(name=name, config_operation=operation, value=value)


def completed(entities: Entities, *, as_json: bool) -> Output:
    """The confirmation of a completed change."""
    kind, name = entities.kind, entities.name
    if as_json:
        return Output(json_line({"completed": {"type": kind, "name": name or None}}))
    if name == DEFAULT:
        return Output(f"Completed updating default config for {kind} in the cluster.\n")
    return Output(f"Completed updating config for {singular(kind)} {name}.\n")
