"""`kraftline topics`: create, list, describe, alter, delete (kafka-topics' flags, lines, codes).

As in Kafka's tool a refusal by the cluster goes to standard output, with exit code 1.
"""

import re
import sys
from argparse import Namespace
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from cli.admin import topic_description as description
from cli.admin.topic_configs import check_config
from cli.arguments import INT32_MAX, Parser, check_bootstrap, exactly_one, integer, shortened, text
from cli.command import Output, execute
from cli.connect import (
    Api,
    ClusterError,
    Connect,
    check,
    error_text,
    json_line,
    newest,
    open_cluster,
)

METADATA: Final = 3
CREATE_TOPICS: Final = 19
DELETE_TOPICS: Final = 20
CREATE_PARTITIONS: Final = 37
TOPIC_ALREADY_EXISTS: Final = 36
REPLICATION_FACTOR_MAX: Final = 32767
REQUEST_TIMEOUT: Final = timedelta(seconds=30)
ACTIONS: Final = ("list", "describe", "create", "alter", "delete")
COLLISION_WARNING: Final = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') "
    "could collide. To avoid issues it is best to use either, but not both.\n"
)
_FLAGS: Final = {
    "if-exists": "do nothing when the topic does not exist",
    "if-not-exists": "do nothing when the topic exists",
    "exclude-internal": "leave out internal topics",
    "under-replicated-partitions": "describe: only partitions with a replica out of sync",
    "unavailable-partitions": "describe: only partitions without a live leader",
    "under-min-isr-partitions": "describe: only partitions below min.insync.replicas",
    "at-min-isr-partitions": "describe: only partitions at min.insync.replicas",
    "topics-with-overrides": "describe: only topics that have configurations",
    "json": "one JSON object",
}


def run(arguments: Sequence[str], connect: Connect = open_cluster) -> int:
    """Perform one action on topics and return the exit code."""
    refusal = "Error while executing topic command : "
    return execute(arguments, _parse, perform, connect, refusal=refusal)


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = Parser("kraftline topics", "Create, list, describe, alter, delete topics.")
    parser.bootstrap(controllers=False)
    for action in ACTIONS:
        parser.add_argument(f"--{action}", action="store_true", help=f"{action} topics")
    parser.add_argument(
        "--topic", type=text, help="a name; a regular expression except with --create"
    )
    parser.add_argument("--topic-id", type=text, help="describe: the id of a topic")
    parser.add_argument("--partitions", type=integer(-INT32_MAX), help="number of partitions")
    parser.add_argument(
        "--replication-factor", type=integer(-INT32_MAX), help="replicas of each partition"
    )
    parser.add_argument(
        "--replica-assignment", type=text, help="1:2,2:3: brokers of each partition"
    )
    parser.add_argument("--config", action="append", default=[], help="name=value; repeatable")
    parser.add_argument("--partition-size-limit-per-response", type=integer(1), default=2000)
    parser.flags(_FLAGS)
    options = parser.parse_args(arguments)
    check_bootstrap(options)
    action = exactly_one(
        parser,
        options,
        ACTIONS,
        "Command must include exactly one action: --list, --describe, --create, --alter or "
        "--delete",
    )
    _check_combination(parser, options, action)
    return options


_ALLOWED: Final = {
    "if_exists": ("alter", "delete", "describe"),
    "if_not_exists": ("create",),
    "exclude_internal": ("list", "describe"),
    "under_replicated_partitions": ("describe",),
    "unavailable_partitions": ("describe",),
    "under_min_isr_partitions": ("describe",),
    "at_min_isr_partitions": ("describe",),
    "topics_with_overrides": ("describe",),
    "partitions": ("create", "alter"),
    "replica_assignment": ("create", "alter"),
    "replication_factor": ("create",),
    "config": ("create",),
    "topic_id": ("describe",),
}
"""Actions that each option may be combined with."""


def _check_combination(parser: Parser, options: Namespace, action: str) -> None:
    for name, actions in _ALLOWED.items():
        if action not in actions and getattr(options, name) not in (None, False, []):
            flag = name.replace("_", "-")
            parser.error(f'Option "[{action}]" can\'t be used with option "[{flag}]"')
    if action in ("create", "alter", "delete") and not options.topic:
        parser.error('Missing required argument "[topic]"')
    if action == "alter" and options.partitions is None:
        parser.error('Missing required argument "[partitions]"')
    for other in ("partitions", "replication_factor") if action == "create" else ():
        if options.replica_assignment and getattr(options, other) is not None:
            name = other.replace("_", "-")
            parser.error(f'Option "[replica-assignment]" can\'t be used with option "[{name}]"')
    given = [name for name in description.FILTERS if getattr(options, name)]
    if len(given) > 1:
        first, second = (name.replace("_", "-") for name in given[:2])
        parser.error(f'Option "[{first}]" can\'t be used with option "[{second}]"')


def perform(api: Api, options: Namespace) -> Output:
    """Perform the action of the options.

    Raises:
        ClusterError: the cluster refuses, or a check before the request does.
    """
    if options.create:
        return Output(_create(api, options))
    if options.list:
        names = [topic.name for topic in _matching(api, options)]
        return Output(json_line({"topics": names}) if options.json else "\n".join(names) + "\n")
    if options.describe:
        return Output(_describe(api, options))
    return Output(_alter(api, options) if options.alter else _delete(api, options))


def _create(api: Api, options: Namespace) -> str:
    warning = COLLISION_WARNING if "." in options.topic or "_" in options.topic else ""
    try:
        created = _send_create(api, options)
    except ClusterError:
        sys.stdout.write("" if options.json else warning)
        raise
    if options.json:
        return json_line({"created": [options.topic] if created else []})
    return warning + (f"Created topic {options.topic}.\n" if created else "")


def _send_create(api: Api, options: Namespace) -> bool:
    """Create the topic; returns False if it exists already and that is allowed."""
    module = newest(CREATE_TOPICS)
    assignment = parse_assignment(options.replica_assignment or "")
    if options.partitions is not None and options.partitions < 1:
        raise ClusterError("The partitions must be greater than 0")
    factor = options.replication_factor
    if factor is not None and not 0 < factor <= REPLICATION_FACTOR_MAX:
        raise ClusterError(
            f"The replication factor must be between 1 and {REPLICATION_FACTOR_MAX} inclusive"
        )
    topic = module.CreatableTopic(
        name=options.topic,
        num_partitions=-1 if options.partitions is None else options.partitions,
        replication_factor=-1 if factor is None else factor,
        assignments=tuple(
            module.CreatableReplicaAssignment(partition_index=index, broker_ids=tuple(brokers))
            for index, brokers in enumerate(assignment)
        ),
        configs=tuple(
            module.CreatableTopicConfig(name=name, value=value)
            for name, value in parse_configs(options.config)
        ),
    )
    request = module.CreateTopicsRequest(topics=(topic,), timeout=REQUEST_TIMEOUT)
    (result,) = api.call(CREATE_TOPICS, request).topics
    code = int(result.error_code)
    if code == TOPIC_ALREADY_EXISTS and options.if_not_exists:
        return False
    if code:
        raise ClusterError(error_text(result.error_code, result.error_message))
    return True


def parse_assignment(text: str) -> list[list[int]]:
    """Brokers of each partition from `1:2,2:3`.

    Raises:
        ClusterError: an entry is not a number, a broker twice, or lists of different lengths.
    """
    found: list[list[int]] = []
    for entry in text.split(",") if text else []:
        try:
            brokers = [int(broker.strip()) for broker in entry.split(":")]
        except ValueError:
            raise ClusterError(f"Invalid replica assignment: {entry}") from None
        twice = sorted({broker for broker in brokers if brokers.count(broker) > 1})
        if twice:
            raise ClusterError(
                "Partition replica lists may not contain duplicate entries: "
                + ", ".join(map(str, twice))
            )
        if found and len(found[0]) != len(brokers):
            raise ClusterError(
                f"Partition {len(found)} has different replication factor: {brokers}"
            )
        found.append(brokers)
    return found


def parse_configs(entries: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of `name=value` entries, after the checks of Kafka's tool.

    Raises:
        ClusterError: an entry is refused.
    """
    found = []
    for entry in entries:
        name, separator, value = entry.partition("=")
        if not separator:
            raise ClusterError(
                "requirement failed: Invalid topic config: all configs to be added must be in the "
                'format "key=val".'
            )
        check_config(name.strip(), value.strip())
        found.append((name.strip(), value.strip()))
    return found


def _matching(api: Api, options: Namespace) -> list[Any]:
    """Topics that pass --topic, --topic-id and --exclude-internal, sorted by name."""
    request = newest(METADATA).MetadataRequest(
        topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )
    topics = [
        topic
        for topic in check(api.call(METADATA, request)).topics
        if topic.name is not None and not (options.exclude_internal and topic.is_internal)
    ]
    if options.topic_id:
        topics = [
            topic for topic in topics if description.uuid_text(topic.topic_id) == options.topic_id
        ]
    if options.topic:
        pattern = _pattern(options.topic)
        topics = [topic for topic in topics if pattern.fullmatch(str(topic.name))]
    return sorted(topics, key=lambda topic: str(topic.name))


def _pattern(expression: str) -> re.Pattern[str]:
    try:
        return re.compile(expression.strip("'\" ").replace(",", "|"))
    except (re.error, OverflowError, RecursionError) as error:
        raise ClusterError(f"{shortened(expression)} is not a regular expression: {error}") from (
            error
        )


def _required(api: Api, options: Namespace) -> list[str]:
    """Names of the matching topics; refuses as Kafka's tool does when there are none."""
    return list(_partition_counts(api, options))


def _partition_counts(api: Api, options: Namespace) -> dict[str, int]:
    """Number of partitions by name of the matching topics, sorted; refuses as `_required`."""
    counts = {str(topic.name): len(topic.partitions) for topic in _matching(api, options)}
    if counts or options.if_exists:
        return counts
    if options.topic_id:
        raise ClusterError(f"TopicId '{options.topic_id}' does not exist as expected")
    if options.topic:
        raise ClusterError(f"Topic '{shortened(options.topic)}' does not exist as expected")
    return counts


def _describe(api: Api, options: Namespace) -> str:
    names = _required(api, options)
    limit = options.partition_size_limit_per_response
    topics = description.describe_topics(api, names, limit)
    if options.topics_with_overrides:
        topics = [topic for topic in topics if topic.configs]
    live = description.live_brokers(api) if options.unavailable_partitions else set()
    if options.json:
        return json_line({"topics": description.wanted(topics, options, live)})
    if options.topic_id:
        topics = [description.without_elr(topic) for topic in topics]
    return description_text(topics, options, live)


def description_text(
    topics: Sequence[description.TopicView], options: Namespace, live: set[int]
) -> str:
    """All output lines of `--describe`."""
    lines = []
    for topic in topics:
        if not description.has_partition_filter(options):
            lines.append(description.topic_line(topic))
        if options.topics_with_overrides:
            continue
        lines.extend(
            description.partition_line(topic.name, partition)
            for partition in topic.partitions
            if description.is_wanted(topic, partition, options, live)
        )
    return "".join(lines)


def _alter(api: Api, options: Namespace) -> str:
    """Add partitions; the assignment includes the existing ones, as in Kafka's tool."""
    counts = _partition_counts(api, options)
    names = list(counts)
    if any(name.startswith("__") for name in names):
        internal = [n for n in names if n in ("__consumer_offsets", "__transaction_state")]
        if internal:
            raise ClusterError(
                f"The number of partitions for the topic {internal[0]} cannot be changed."
            )
    assignment = parse_assignment(options.replica_assignment or "")
    if assignment and len(assignment) != options.partitions:
        raise ClusterError(
            f"The replica assignment has {len(assignment)} partition(s), --partitions says "
            f"{options.partitions}"
        )
    module = newest(CREATE_PARTITIONS)
    request = module.CreatePartitionsRequest(
        topics=tuple(
            module.CreatePartitionsTopic(
                name=name,
                count=options.partitions,
                assignments=tuple(
                    module.CreatePartitionsAssignment(broker_ids=tuple(brokers))
                    for brokers in assignment[counts[name] :]
                )
                or None,
            )
            for name in names
        ),
        timeout=REQUEST_TIMEOUT,
        validate_only=False,
    )
    if names:
        for result in api.call(CREATE_PARTITIONS, request).results:
            check(result)
    return json_line({"altered": names}) if options.json else ""


def _delete(api: Api, options: Namespace) -> str:
    names = _required(api, options)
    if names:
        module = newest(DELETE_TOPICS)
        states = tuple(module.DeleteTopicState(name=name, topic_id=None) for name in names)
        request = module.DeleteTopicsRequest(topics=states, timeout=REQUEST_TIMEOUT)
        for result in api.call(DELETE_TOPICS, request).responses:
            check(result)
    return json_line({"deleted": names}) if options.json else ""
