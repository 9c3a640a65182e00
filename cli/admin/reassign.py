"""`kraftline reassign`: move partitions between brokers (kafka-reassign-partitions)."""

import random
from argparse import Namespace
from collections.abc import Callable, Container, Sequence
from datetime import timedelta
from typing import Any, Final

from cli.admin.directory_moves import (
    DESCRIBE_LOG_DIRS,
    MoveState,
    TerseError,
    directories_of,
    move_states,
    start_moves,
)
from cli.admin.reassignment_plan import (
    LogDirs,
    Plan,
    Replica,
    assignment_json,
    broker_ids,
    by_broker,
    proposed,
    read_plan,
    read_topics,
    sorted_partitions,
)
from cli.admin.throttles import (
    clear_throttles,
    throttle_directory_moves,
    throttle_replication,
    throttled_moves,
)
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
from cli.records.clients.clock import SYSTEM, Clock

ALTER_REASSIGNMENTS: Final = 45
LIST_REASSIGNMENTS: Final = 46
TIMEOUT: Final = timedelta(seconds=30)
ACTIONS: Final = ("generate", "execute", "verify", "cancel", "list")
PARTITION_LIMIT: Final = 2000
START_MS: Final = 10_000
"""Time in which the replicas of directory moves must come to their brokers (--timeout)."""
ONLY_WITH: Final = {
    "bootstrap-controller": ("cancel", "list"),
    "reassignment-json-file": ("execute", "verify", "cancel"),
    "topics-to-move-json-file": ("generate",),
    "broker-list": ("generate",),
    "disable-rack-aware": ("generate",),
    "throttle": ("execute",),
    "replica-alter-log-dirs-throttle": ("execute",),
    "timeout": ("execute", "cancel"),
    "additional": ("execute",),
    "disallow-replication-factor-change": ("execute",),
    "preserve-throttles": ("verify", "cancel"),
}
"""Actions that an option may be used with."""
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
    for name, text in (
        ("throttle", "execute: bytes per second between brokers"),
        ("replica-alter-log-dirs-throttle", "execute: bytes per second between directories"),
    ):
        parser.add_argument(f"--{name}", type=integer(0, INT64_MAX), help=text)
    parser.add_argument(
        "--timeout", type=integer(0, INT64_MAX),
        help="execute, cancel: ms until moves between directories must have begun; 10000",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    action = exactly_one(
        parser, options, ACTIONS,
        "Command must include exactly one action: --generate, --execute, --verify, --cancel, "
        "--list",
    )  # fmt: skip
    check_bootstrap(options)
    needed = {"generate": ("topics-to-move-json-file", "broker-list"), "list": ()}
    for flag in needed.get(action, ("reassignment-json-file",)):
        if _value(options, flag) is None:
            parser.error(f'Missing required argument "[{flag}]"')
    for flag, actions in ONLY_WITH.items():
        is_given = not any(_value(options, flag) is absent for absent in (None, False))
        if is_given and action not in actions:
            parser.error(f'Option "[{flag}]" can\'t be used with action "[{action}]"')
    for flag in ("throttle", "replica-alter-log-dirs-throttle"):
        if _value(options, flag) == 0:
            raise UsageError(f"--{flag} must be a number above 0")
    if options.reassignment_json_file is not None:
        options.reassignment = read_plan(options.reassignment_json_file)
    if action == "generate":
        options.topics = read_topics(options.topics_to_move_json_file)
        options.brokers = broker_ids(options.broker_list)
    return options


def _value(options: Namespace, flag: str) -> Any:
    return getattr(options, flag.replace("-", "_"))


def perform(api: Api, options: Namespace, clock: Clock = SYSTEM) -> Output:
    """Perform the action of the options.

    A refusal after the first lines is the last line of the output: the lines tell what was done.

    Raises:
        ClusterError: the cluster refuses, or a check before the request does.
    """
    if options.list:
        return _list(api, options)
    if options.generate:
        return _generate(api, options)
    lines: list[str] = []
    try:
        if options.execute:
            found = _execute(api, options, clock, lines.append)
        elif options.verify:
            found = _verify(api, options, lines.append)
        else:
            found = _cancel(api, options, clock, lines.append)
    except ClusterError as error:
        if options.json:
            raise
        prefix = "" if isinstance(error, TerseError) else "Error: "
        return Output(f"{''.join(lines)}{prefix}{error}\n", exit_code=1)
    return Output(json_line(found) if options.json else "".join(lines))


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
    found = _replicas(api, topics)
    missing = sorted(set(topics) - {topic for topic, _ in found})
    if missing:
        raise ClusterError(f"Topic {missing[0]} not found.")
    return found


def _replicas(api: Api, topics: Sequence[str]) -> Plan:
    """Replicas of every partition of those topics that exist."""
    return {
        (topic.name, partition.index): partition.replicas
        for topic in describe_topics(api, sorted(set(topics)), PARTITION_LIMIT)
        for partition in topic.partitions
    }


def replica_folders(api: Api, plan: Plan, brokers: Container[int]) -> dict[Replica, str]:
    """Log directory of every replica whose broker is live and reports it."""
    if not api.supports(DESCRIBE_LOG_DIRS):
        return {}
    replicas = [
        Replica(topic, partition, broker)
        for (topic, partition), brokers_of in plan.items()
        for broker in brokers_of
        if broker in brokers
    ]
    found = directories_of(api, replicas)
    return {replica: row.current for replica, row in found.items() if row.current is not None}


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


def _execute(
    api: Api, options: Namespace, clock: Clock, tell: Callable[[str], object]
) -> dict[str, Any]:
    plan, log_dirs = options.reassignment
    ongoing = _ongoing(api)
    if ongoing and not options.additional:
        raise TerseError(_ALREADY)
    known = racks(api)
    for broker in sorted({broker for replicas in plan.values() for broker in replicas}):
        if broker not in known:
            raise ClusterError(f"Unknown broker id {broker}")
    everything = _current(api, [topic for topic, _ in plan])
    missing = [key for key in sorted_partitions(plan) if key not in everything]
    if missing:
        names = ", ".join(f"{topic}-{partition}" for topic, partition in missing)
        raise ClusterError(f"Unable to find partition: {names}")
    current = {key: everything[key] for key in plan}
    tell(
        "Current partition replica assignment\n\n"
        f"{assignment_json(current, replica_folders(api, current, known))}\n\n"
        "Save this to use as the --reassignment-json-file option during rollback\n"
    )
    _set_throttles(api, options, throttled_moves(plan, current, ongoing), tell)
    errors = _alter(api, plan, is_factor_free=not options.disallow_replication_factor_change)
    if errors:
        raise TerseError("Error reassigning partition(s):\n" + "\n".join(errors))
    many = "s" if len(plan) > 1 else ""
    tell(f"Successfully started partition reassignment{many} for {_names(plan)}\n")
    if log_dirs:
        start_moves(api, log_dirs, _timeout_ms(options), clock, tell)
    started = [f"{topic}-{partition}" for topic, partition in sorted_partitions(plan)]
    return {"started": started, "moves": _as_objects(log_dirs)}


def _set_throttles(
    api: Api, options: Namespace, moves: dict[Any, Any], tell: Callable[[str], object]
) -> None:
    rate, directory_rate = options.throttle, options.replica_alter_log_dirs_throttle
    if rate is None and directory_rate is None:
        return
    tell(
        "Warning: You must run --verify periodically, until the reassignment completes, to "
        "ensure the throttle is removed.\n"
    )
    if rate is not None:
        tell(throttle_replication(api, moves, rate))
    if directory_rate is not None:
        brokers = {replica.broker for replica in options.reassignment.log_dirs}
        tell(throttle_directory_moves(api, brokers, directory_rate))


def _timeout_ms(options: Namespace) -> int:
    return START_MS if options.timeout is None else int(options.timeout)


def _as_objects(moves: LogDirs) -> list[dict[str, Any]]:
    return [
        {**replica._asdict(), "log_dir": moves[replica]} for replica in sorted(moves, key=by_broker)
    ]


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


def _verify(api: Api, options: Namespace, tell: Callable[[str], object]) -> dict[str, Any]:
    plan, log_dirs = options.reassignment
    ongoing = _ongoing(api)
    current = _replicas(api, [topic for topic, _ in plan])
    states = {key: _state(key, plan[key], current, is_ongoing=key in ongoing) for key in plan}
    tell("Status of partition reassignment:\n")
    tell("".join(f"{states[key]}\n" for key in sorted_partitions(plan)))
    moves: dict[Replica, MoveState] = move_states(api, log_dirs) if log_dirs else {}
    tell("\n".join(state.text for state in moves.values()) + "\n")
    is_done = not ongoing and all(state.is_done for state in moves.values())
    if is_done and not options.preserve_throttles:
        clear_throttles(api, plan, racks(api), tell)
    return {
        "partitions": [
            {"topic": topic, "partition": partition, "state": states[topic, partition],
             "done": (topic, partition) not in ongoing}
            for topic, partition in sorted_partitions(plan)
        ],
        "moves": [
            {**replica._asdict(), "log_dir": log_dirs[replica], "state": state.text,
             "done": state.is_done}
            for replica, state in moves.items()
        ],
    }  # fmt: skip


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


def _cancel(
    api: Api, options: Namespace, clock: Clock, tell: Callable[[str], object]
) -> dict[str, Any]:
    plan, log_dirs = options.reassignment
    ongoing = _ongoing(api)
    active = {key: None for key in plan if key in ongoing}
    errors = _alter(api, active) if active else []
    if errors:
        many = "s" if len(errors) > 1 else ""
        raise TerseError(
            f"Error cancelling partition reassignment{many} for:\n" + "\n".join(errors)
        )
    many = "s" if len(active) > 1 else ""
    tell(
        f"Successfully cancelled partition reassignment{many} for: {_names(active)}\n"
        if active
        else "None of the specified partition reassignments are active.\n"
    )
    back = _active_moves(api, log_dirs) if log_dirs else {}
    if back:
        start_moves(api, back, _timeout_ms(options), clock, tell)
    else:
        # Kafka's tool ends this line only when it prints the next one.
        tell("None of the specified partition moves are active.")
        tell("\n" if options.preserve_throttles else "")
    if not options.preserve_throttles:
        clear_throttles(api, plan, racks(api), tell)
    cancelled = [f"{topic}-{partition}" for topic, partition in sorted_partitions(active)]
    return {"cancelled": cancelled, "moves": _as_objects(back)}


def _active_moves(api: Api, log_dirs: LogDirs) -> LogDirs:
    """The directories that replicas are being moved from: a move there ends the move."""
    return {
        replica: found.current
        for replica, found in directories_of(api, log_dirs).items()
        if found.current is not None and found.future is not None
    }
