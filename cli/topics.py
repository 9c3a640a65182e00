"""`kraftline topics`: create, list, describe, delete (kafka-topics' flags, lines, exit codes).

As in Kafka's tool a refusal by the cluster is printed on standard output, exit code 1.
"""

import re
import sys
from argparse import Namespace
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

import msgspec

from cli import topic_description as description
from cli.arguments import Parser, UsageError
from cli.client import Api, ClusterError, connections, error_text, parse_addresses
from cli.topic_configs import check_config
from wire import codec

METADATA: Final = 3
CREATE_TOPICS: Final = 19
DELETE_TOPICS: Final = 20
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


def run(arguments: Sequence[str]) -> int:
    """Performs one action on topics; returns the exit code."""
    try:
        options = _parse(arguments)
        addresses = parse_addresses(options.bootstrap_server)
    except UsageError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    try:
        for api in connections(addresses):
            sys.stdout.write(perform(api, options))
            return 0
    except ClusterError as error:
        sys.stdout.write(f"Error while executing topic command : {error}\n")
    return 1


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = Parser("kraftline topics", "Create, list, describe, delete topics.")
    parser.add_argument("--bootstrap-server", help="brokers, HOST:PORT separated by commas")
    parser.add_argument("--command-config", help="accepted for compatibility; not read")
    for action in ACTIONS:
        parser.add_argument(f"--{action}", action="store_true", help=f"{action} topics")
    parser.add_argument("--topic", help="a name; a regular expression except with --create")
    parser.add_argument("--topic-id", help="describe: the id of a topic")
    parser.add_argument("--partitions", type=int, help="number of partitions")
    parser.add_argument("--replication-factor", type=int, help="replicas of each partition")
    parser.add_argument("--replica-assignment", help="1:2,2:3: brokers of each partition")
    parser.add_argument("--config", action="append", default=[], help="name=value; repeatable")
    parser.add_argument("--partition-size-limit-per-response", type=int, default=2000)
    for flag, text in _FLAGS.items():
        parser.add_argument(f"--{flag}", action="store_true", help=text)
    options = parser.parse_args(arguments)
    if not options.bootstrap_server:
        raise UsageError("--bootstrap-server must be specified")
    chosen = [action for action in ACTIONS if getattr(options, action)]
    if len(chosen) != 1:
        parser.error(
            "Command must include exactly one action: --list, --describe, --create, --alter or "
            "--delete"
        )
    _check_combination(parser, options, chosen[0])
    return options


def _check_combination(parser: Parser, options: Namespace, action: str) -> None:
    if action == "alter":
        parser.error("--alter is not supported yet")
    if action == "create" and not options.topic:
        parser.error('Missing required argument "[topic]"')
    if action == "delete" and not options.topic:
        parser.error('Missing required argument "[topic]"')
    for other in ("partitions", "replication_factor"):
        if options.replica_assignment and getattr(options, other) is not None:
            name = other.replace("_", "-")
            parser.error(f'Option "[replica-assignment]" can\'t be used with option "[{name}]"')


def perform(api: Api, options: Namespace) -> str:
    """Does what the options say; returns what is printed.

    Raises:
        ClusterError: the cluster, or a check before asking it, refuses.
    """
    if options.create:
        return _create(api, options)
    if options.list:
        names = _matching(api, options)
        return _json_line({"topics": names}) if options.json else "\n".join(names) + "\n"
    if options.describe:
        return _describe(api, options)
    return _delete(api, options)


def _json_line(value: Any) -> str:
    return msgspec.json.encode(value).decode() + "\n"


def _create(api: Api, options: Namespace) -> str:
    warning = COLLISION_WARNING if "." in options.topic or "_" in options.topic else ""
    try:
        created = _send_create(api, options)
    except ClusterError:
        sys.stdout.write("" if options.json else warning)
        raise
    if options.json:
        return _json_line({"created": [options.topic] if created else []})
    return warning + (f"Created topic {options.topic}.\n" if created else "")


def _send_create(api: Api, options: Namespace) -> bool:
    """Whether the topic was created; False when it was there and that is allowed."""
    module = codec.newest(CREATE_TOPICS, "request")
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
    """`1:2,2:3` as the brokers of each partition.

    Raises:
        ClusterError: not numbers, a broker twice, or lists of different lengths.
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
    """`name=value` entries, checked as Kafka's tool checks them.

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


def _matching(api: Api, options: Namespace) -> list[str]:
    """Names of the topics that --topic, --topic-id and --exclude-internal leave, sorted."""
    request = codec.newest(METADATA, "request").MetadataRequest(
        topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )
    topics = [
        topic
        for topic in api.call(METADATA, request).topics
        if topic.name is not None and not (options.exclude_internal and topic.is_internal)
    ]
    if options.topic_id:
        topics = [
            topic for topic in topics if description.uuid_text(topic.topic_id) == options.topic_id
        ]
    if options.topic:
        pattern = _pattern(options.topic)
        topics = [topic for topic in topics if pattern.fullmatch(str(topic.name))]
    return sorted(str(topic.name) for topic in topics)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text.strip("'\" ").replace(",", "|"))
    except re.error as error:
        raise ClusterError(f"{text} is not a regular expression: {error}") from error


def _require(names: Sequence[str], options: Namespace) -> None:
    """Kafka's complaint when something was asked for by name and nothing is there."""
    if names or options.if_exists:
        return
    if options.topic_id:
        raise ClusterError(f"TopicId '{options.topic_id}' does not exist as expected")
    if options.topic:
        raise ClusterError(f"Topic '{options.topic}' does not exist as expected")


def _describe(api: Api, options: Namespace) -> str:
    names = _matching(api, options)
    _require(names, options)
    limit = options.partition_size_limit_per_response
    topics = description.describe_topics(api, names, limit)
    if options.topics_with_overrides:
        topics = [topic for topic in topics if topic.configs]
    live = description.live_brokers(api) if options.unavailable_partitions else set()
    if options.json:
        return _json_line({"topics": topics})
    return description_text(topics, options, live)


def description_text(
    topics: Sequence[description.TopicView], options: Namespace, live: set[int]
) -> str:
    """All lines of `--describe`."""
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


def _delete(api: Api, options: Namespace) -> str:
    names = _matching(api, options)
    _require(names, options)
    if names:
        module = codec.newest(DELETE_TOPICS, "request")
        states = tuple(module.DeleteTopicState(name=name, topic_id=None) for name in names)
        request = module.DeleteTopicsRequest(topics=states, timeout=REQUEST_TIMEOUT)
        for result in api.call(DELETE_TOPICS, request).responses:
            if int(result.error_code):
                raise ClusterError(error_text(result.error_code, result.error_message))
    return _json_line({"deleted": names}) if options.json else ""
