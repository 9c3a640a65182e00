"""`kraftline reassign`: move partitions between brokers (kafka-reassign-partitions)."""

import random
from argparse import Namespace
from collections.abc import Container, Sequence
from datetime import timedelta
from typing import Any, Final

from cli.admin.reassignment_plan import (
    Plan,
    assignment_json,
    broker_ids,
    proposed,
    read_plan,
    read_topics,
    sorted_partitions,
)
from cli.admin.throttles import clear_throttles, set_throttles
from cli.admin.topic_description import describe_topics, racks
from cli.arguments import INT64_MAX, Parser, UsageError, check_bootstrap, exactly_one, integer
from cli.command import Output, execute
from cli.connect import (
    Api,
    ClusterError,
    Connect,
    check,
    each_pair,
    error_text,
    json_line,
    newest,
    open_cluster,
)

DESCRIBE_LOG_DIRS: Final = 35
ALTER_REASSIGNMENTS: Final = 45
LIST_REASSIGNMENTS: Final = 46
TIMEOUT: Final = timedelta(seconds=30)
ACTIONS: Final = ("generate", "execute", "verify", "cancel", "list")
PARTITION_LIMIT: Final = 2000
_ALREADY: Final = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to "
    "override this and create a new partition assignment in addition to the existing one. The "
    "--additional flag can also be used to change the throttle by resubmitting the current "
    "reassignment."
)


def run(arguments: Sequence[str], connect: Connect = open_cluster) -> int:
    """Generate, execute, verify, cancel or list moves and return the exit code."""
    return execute(arguments, _parse, perform, connect, refusal="Error: ")


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = Parser("kraftline reassign", "Move partitions between brokers.")
    parser.bootstrap()
    parser.flags(
        {
            "generate": "propose an assignment of topics to brokers",
            "execute": "start the moves of a file",
            "verify": "say how far the moves of a file are; clear throttles when all are done",
            "cancel": "cancel the moves of a file",
            "list": "all moves that are going on",
            "preserve-throttles": "verify, cancel: leave throttles as they are",
            "additional": "execute: also while other moves are going on",
            "disable-rack-aware": "generate: without a look at racks",
            "disallow-replication-factor-change": "execute: keep the numbers of replicas",
            "json": "one JSON object",
        }
    )
    parser.add_argument("--reassignment-json-file", help="the moves")
    parser.add_argument("--topics-to-move-json-file", help="generate: the topics")
    parser.add_argument("--broker-list", help="generate: 1,2,3")
    parser.add_argument("--throttle", type=integer(0, INT64_MAX), help="execute: bytes per second")
    parser.add_argument("--timeout", type=integer(0, INT64_MAX), help="accepted for compatibility")
    options = parser.parse_args(arguments)
    action = exactly_one(
        parser, options, ACTIONS,
        "Command must include exactly one action: --generate, --execute, --verify, --cancel, "
        "--list",
    )  # fmt: skip
    check_bootstrap(options)
    needed = {"generate": ("topics-to-move-json-file", "broker-list"), "list": ()}
    for flag in needed.get(action, ("reassignment-json-file",)):
        if getattr(options, flag.replace("-", "_")) is None:
            parser.error(f'Missing required argument "[{flag}]"')
    if action == "execute" and options.throttle == 0:
        raise UsageError("--throttle must be a number above 0")
    options.plan = None
    if options.reassignment_json_file is not None:
        options.plan = read_plan(options.reassignment_json_file)
    if action == "generate":
        options.topics = read_topics(options.topics_to_move_json_file)
        options.brokers = broker_ids(options.broker_list)
    return options


def perform(api: Api, options: Namespace) -> Output:
    """Perform the action of the options.

    Raises:
        ClusterError: the cluster refuses, or a check before the request does.
    """
    if options.list:
        return _list(api, options)
    if options.generate:
        return _generate(api, options)
    if options.execute:
        return _execute(api, options)
    return _verify(api, options) if options.verify else _cancel(api, options)


def _ongoing(api: Api) -> dict[tuple[str, int], Any]:
    request = newest(LIST_REASSIGNMENTS).ListPartitionReassignmentsRequest(
        timeout=TIMEOUT, topics=None
    )
    answer = check(api.call(LIST_REASSIGNMENTS, request))
    return {(topic, int(row.partition_index)): row for topic, row in each_pair(answer.topics)}


def _list(api: Api, options: Namespace) -> Output:
    found = _ongoing(api)
    if options.json:
        return Output(json_line({
            "reassignments": [
                {"topic": topic, "partition": partition, "replicas": list(row.replicas),
                 "adding": list(row.adding_replicas), "removing": list(row.removing_replicas)}
                for (topic, partition), row in sorted(found.items())
            ]
        }))  # fmt: skip
    if not found:
        return Output("No partition reassignments found.\n")
    lines = ["Current partition reassignments:\n"]
    for (topic, partition), row in sorted(found.items()):
        adding, removing = _ids(row.adding_replicas), _ids(row.removing_replicas)
        lines.append(
            f"{topic}-{partition}: replicas: {_ids(row.replicas)}."
            + (f" adding: {adding}." if adding else "")
            + (f" removing: {removing}." if removing else "")
            + "\n"
        )
    return Output("".join(lines))


def _ids(values: Sequence[int]) -> str:
    return ",".join(str(int(value)) for value in values)


def _current(api: Api, topics: Sequence[str]) -> Plan:
    """Replicas of every partition of the topics, from the cluster.

    Raises:
        ClusterError: a topic does not exist.
    """
    found = describe_topics(api, sorted(set(topics)), PARTITION_LIMIT)
    missing = sorted(set(topics) - {topic.name for topic in found})
    if missing:
        raise ClusterError(f"Topic {missing[0]} not found.")
    return {
        (topic.name, partition.index): partition.replicas
        for topic in found
        for partition in topic.partitions
    }


def replica_folders(
    api: Api, plan: Plan, brokers: Container[int]
) -> dict[tuple[str, int, int], str]:
    """Log directory of every replica whose broker is live and reports it."""
    if not api.supports(DESCRIBE_LOG_DIRS):
        return {}
    module = newest(DESCRIBE_LOG_DIRS)
    found = {}
    for broker in sorted({broker for replicas in plan.values() for broker in replicas}):
        if broker not in brokers:
            continue
        numbers: dict[str, list[int]] = {}
        for (topic, partition), replicas in plan.items():
            if broker in replicas:
                numbers.setdefault(topic, []).append(partition)
        rows = tuple(
            module.DescribableLogDirTopic(topic=topic, partitions=tuple(partitions))
            for topic, partitions in numbers.items()
        )
        answer = api.call(DESCRIBE_LOG_DIRS, module.DescribeLogDirsRequest(topics=rows), broker)
        for result in check(answer).results:
            for topic in result.topics:
                for row in topic.partitions:
                    found[str(topic.name), int(row.partition_index), broker] = result.log_dir
    return found


def _generate(api: Api, options: Namespace) -> Output:
    current = _current(api, options.topics)
    known = racks(api)
    unknown = [broker for broker in options.brokers if broker not in known]
    if unknown:
        raise ClusterError(f"Unknown broker id {unknown[0]}")
    chosen = {broker: known[broker] for broker in options.brokers}
    try:
        plan = proposed(
            current, chosen, random.SystemRandom(), is_rack_aware=not options.disable_rack_aware
        )
    except ValueError as error:
        raise ClusterError(str(error)) from error
    now = assignment_json(current, replica_folders(api, current, known))
    if options.json:
        return Output(f'{{"current":{now},"proposed":{assignment_json(plan)}}}\n')
    return Output(
        f"Current partition replica assignment\n{now}\n\n"
        f"Proposed partition reassignment configuration\n{assignment_json(plan)}\n"
    )


def _execute(api: Api, options: Namespace) -> Output:
    plan: Plan = options.plan
    known = racks(api)
    for broker in sorted({broker for replicas in plan.values() for broker in replicas}):
        if broker not in known:
            raise ClusterError(f"Unknown broker id {broker}")
    everything = _current(api, [topic for topic, _ in plan])
    current = {key: everything[key] for key in plan if key in everything}
    if not options.additional and _ongoing(api):
        raise ClusterError(_ALREADY)
    text = (
        "Current partition replica assignment\n\n"
        f"{assignment_json(current, replica_folders(api, current, known))}\n\n"
        "Save this to use as the --reassignment-json-file option during rollback\n"
    )
    if options.throttle is not None:
        set_throttles(api, plan, current, options.throttle)
        text += (
            "Warning: You must run --verify periodically, until the reassignment completes, to "
            "ensure the throttle is removed.\n"
            f"The inter-broker throttle limit was set to {options.throttle} B/s\n"
        )
    errors = _alter(api, plan, is_factor_free=not options.disallow_replication_factor_change)
    if errors:
        raise ClusterError("Error reassigning partition(s):\n" + "\n".join(errors))
    if options.json:
        started = [f"{topic}-{partition}" for topic, partition in sorted_partitions(plan)]
        return Output(json_line({"started": started}))
    many = "s" if len(plan) > 1 else ""
    return Output(f"{text}Successfully started partition reassignment{many} for {_names(plan)}\n")


def _names(plan: Any) -> str:
    return ",".join(f"{topic}-{partition}" for topic, partition in sorted_partitions(plan))


def _alter(api: Api, plan: dict[Any, Any], *, is_factor_free: bool = True) -> list[str]:
    """Start moves, or cancel those without replicas; returns the refusals by partition."""
    module = newest(ALTER_REASSIGNMENTS)
    topics: dict[str, list[Any]] = {}
    for topic, partition in sorted_partitions(plan):
        row = module.ReassignablePartition(
            partition_index=partition, replicas=plan[topic, partition]
        )
        topics.setdefault(topic, []).append(row)
    request = module.AlterPartitionReassignmentsRequest(
        timeout=TIMEOUT,
        allow_replication_factor_change=is_factor_free,
        topics=tuple(
            module.ReassignableTopic(name=name, partitions=tuple(rows))
            for name, rows in topics.items()
        ),
    )
    answer = check(api.call(ALTER_REASSIGNMENTS, request))
    return [
        f"{topic}-{row.partition_index}: {error_text(row.error_code, row.error_message)}"
        for topic, row in each_pair(answer.responses)
        if int(row.error_code)
    ]


def _verify(api: Api, options: Namespace) -> Output:
    plan: Plan = options.plan
    current = _current(api, [topic for topic, _ in plan])
    ongoing = _ongoing(api)
    states = {key: _state(key, plan[key], current, is_ongoing=key in ongoing) for key in plan}
    lines = ["Status of partition reassignment:\n"]
    lines += [f"{states[key]}\n" for key in sorted_partitions(plan)]
    cleared = ""
    if not ongoing and not options.preserve_throttles:
        cleared = "\n" + clear_throttles(api, plan, racks(api))
    if options.json:
        rows = [
            {"topic": topic, "partition": partition, "state": states[topic, partition],
             "done": (topic, partition) not in ongoing}
            for topic, partition in sorted_partitions(plan)
        ]  # fmt: skip
        return Output(json_line({"partitions": rows}))
    return Output("".join(lines) + cleared)


def _state(key: tuple[str, int], target: Any, current: Plan, *, is_ongoing: bool) -> str:
    name = f"{key[0]}-{key[1]}"
    if is_ongoing:
        return f"Reassignment of partition {name} is still in progress."
    if current.get(key, ()) == target:
        return f"Reassignment of partition {name} is completed."
    return (
        f"There is no active reassignment of partition {name}, but replica set is "
        f"{_ids(current.get(key, ()))} rather than {_ids(target)}."
    )


def _cancel(api: Api, options: Namespace) -> Output:
    plan: Plan = options.plan
    ongoing = _ongoing(api)
    active = {key: None for key in plan if key in ongoing}
    errors = _alter(api, active) if active else []
    if errors:
        many = "s" if len(errors) > 1 else ""
        raise ClusterError(
            f"Error cancelling partition reassignment{many} for:\n" + "\n".join(errors)
        )
    cleared = "\n" if options.preserve_throttles else clear_throttles(api, plan, racks(api))
    if options.json:
        return Output(json_line({"cancelled": [f"{t}-{p}" for t, p in sorted_partitions(active)]}))
    many = "s" if len(active) > 1 else ""
    text = (
        f"Successfully cancelled partition reassignment{many} for: {_names(active)}\n"
        if active
        else "None of the specified partition reassignments are active.\n"
    )
    # Kafka's tool ends this line only when it prints the next one.
    return Output(f"{text}None of the specified partition moves are active.{cleared}")
