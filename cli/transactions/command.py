"""`kraftline transactions`: list, describe, find hanging ones and abort them (kafka-transactions).

apache/kafka: tools/.../TransactionsCommand.java, 4.3; KIP-664, KIP-939 (forceTerminateTransaction)
"""

import re
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NoReturn

from typing_extensions import override

from cli.arguments import INT32_MAX, INT64_MAX, Parser, UsageError, integer, text
from cli.command import Output, execute
from cli.connect import Api, ClusterError, Connect, open_cluster
from cli.records.clients.clock import SYSTEM, Clock
from cli.records.clients.topic_metadata import Partition
from cli.transactions import hanging, listings, producers
from cli.transactions.hanging import Scope
from cli.transactions.listings import ALL_DURATIONS, Filters
from cli.transactions.producers import NONE, AbortSpec
from cli.transactions.table import Column, printed

INT16_MAX: Final = 2**15 - 1
TRANSACTION_TIMEOUT_MINUTES: Final = 15
MS_PER_MINUTE: Final = 60_000
IDENTIFIED: Final = (
    "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or "
    "above) or with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
)
SCOPE: Final = (
    "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the "
    "search"
)
UNKNOWN_ID: Final = (
    "DescribeTransactions request for transactionalId `{}` failed because the ID could not be found"
)
DETAIL: Final = ". Enable debug logging for additional detail."
_CHOICE: Final = re.compile(r"argument COMMAND: invalid choice: (.*) \(choose from .*\)", re.DOTALL)


def run(arguments: Sequence[str], connect: Connect = open_cluster, clock: Clock = SYSTEM) -> int:
    """Perform a command and return the exit code."""
    return execute(arguments, _parse, partial(perform, clock=clock), connect)


class TransactionsParser(Parser):
    """A parser that refuses in the words of Kafka's tool."""

    @override
    def error(self, message: str) -> NoReturn:
        choice = _CHOICE.fullmatch(message)
        if choice is not None:
            known = ", ".join(f"'{name}'" for name in COMMANDS)
            message = f"invalid choice: {choice[1]} (choose from {known})"
        super().error(message)


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = TransactionsParser(
        "kraftline transactions", "Transactions of the cluster: hanging ones are found and aborted."
    )
    parser.bootstrap(controllers=False)
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", parser_class=TransactionsParser
    )
    for name, (description, _, _) in COMMANDS.items():
        command = commands.add_parser(name)
        command.description = description
        command.flags({"json": "one JSON object"})
    _add_flags(commands.choices)
    options: Namespace = parser.parse_args(arguments)
    if options.command is None:
        parser.error("too few arguments")
    for flag in COMMANDS[options.command][1]:
        if getattr(options, flag.replace("-", "_")) is None:
            commands.choices[options.command].error(f"argument --{flag} is required")
    if options.bootstrap_server is None:
        parser.error("argument --bootstrap-server is required")
    _check(options)
    return options


def _add_flags(commands: Mapping[str, Parser]) -> None:
    """Add the flags of the commands."""
    commands["list"].add_argument(
        "--duration-filter", type=integer(-INT64_MAX, INT64_MAX), metavar="MS",
        default=ALL_DURATIONS, help="only transactions open for longer; below 0 all",
    )  # fmt: skip
    commands["list"].add_argument(
        "--transactional-id-pattern", metavar="PATTERN", help="a regular expression of RE2"
    )
    commands["describe"].add_argument("--transactional-id", type=text, help="transactional id")
    commands["forceTerminateTransaction"].add_argument(
        "--transactionalId", type=text, help="transactional id"
    )
    for name in ("describe-producers", "abort", "find-hanging"):
        commands[name].add_argument("--topic", type=text, help="topic name")
        commands[name].add_argument("--partition", type=integer(), help="partition number")
    for name in ("describe-producers", "find-hanging"):
        commands[name].add_argument("--broker-id", type=integer(), help="a replica instead of "
                                    "the leaders")  # fmt: skip
    commands["find-hanging"].add_argument(
        "--max-transaction-timeout", type=integer(), default=TRANSACTION_TIMEOUT_MINUTES,
        metavar="MINUTES", help=f"longest transaction of all; {TRANSACTION_TIMEOUT_MINUTES} "
        "without it",
    )  # fmt: skip
    for flag, high in {"start-offset": INT64_MAX, "producer-id": INT64_MAX,
                       "producer-epoch": INT16_MAX}.items():  # fmt: skip
        commands["abort"].add_argument(f"--{flag}", type=integer(0, high), help="of the "
                                       "transaction, as find-hanging shows it")  # fmt: skip
    commands["abort"].add_argument(
        "--coordinator-epoch", type=integer(NONE, INT32_MAX), help="-1: as no marker has one"
    )


def _check(options: Namespace) -> None:
    """Check what flags need of each other.

    Raises:
        UsageError: a flag is missing.
    """
    if options.command == "find-hanging" and options.topic is None and options.broker_id is None:
        raise UsageError(SCOPE)
    if (
        options.command == "find-hanging"
        and options.topic is None
        and options.partition is not None
    ):
        raise UsageError("The --partition argument requires --topic to be provided")
    if options.command != "abort" or options.start_offset is not None:
        return
    if options.producer_id is None:
        raise UsageError(IDENTIFIED)
    for flag in ("producer-epoch", "coordinator-epoch"):
        if getattr(options, flag.replace("-", "_")) is None:
            raise UsageError(f"Missing required argument --{flag}")


def perform(api: Api, options: Namespace, clock: Clock) -> Output:
    """Perform the command of the options.

    Raises:
        ClusterError: the cluster cannot be reached or refuses; the text is Kafka's if it has one.
    """
    return COMMANDS[options.command][2](api, options, clock)


def _failed(what: str, error: ClusterError) -> ClusterError:
    return ClusterError(f"{what}: {error}{DETAIL}")


LISTED: Final = (
    Column("TransactionalId", "transactional_id"),
    Column("Coordinator", "coordinator_id"),
    Column("ProducerId", "producer_id"),
    Column("TransactionState", "state"),
)


def _list(api: Api, options: Namespace, clock: Clock) -> Output:
    filters = Filters(duration_ms=options.duration_filter, pattern=options.transactional_id_pattern)
    try:
        found = listings.listed(api, filters, clock)
    except ClusterError as error:
        raise _failed("Failed to list transactions", error) from error
    rows = [(each.transactional_id, each.coordinator_id, each.producer_id, each.state)
            for each in found]  # fmt: skip
    return printed(LISTED, rows, "transactions", as_json=options.json)


DESCRIBED: Final = (
    Column("CoordinatorId", "coordinator_id"),
    Column("TransactionalId", "transactional_id"),
    Column("ProducerId", "producer_id"),
    Column("ProducerEpoch", "producer_epoch"),
    Column("TransactionState", "state"),
    Column("TransactionTimeoutMs", "timeout_ms"),
    Column("CurrentTransactionStartTimeMs", "start_ms"),
    Column("TransactionDurationMs", "duration_ms"),
    Column("TopicPartitions", "partitions"),
)


def _describe(api: Api, options: Namespace, clock: Clock) -> Output:
    name = options.transactional_id
    what = f"Failed to describe transaction state of transactional-id `{name}`"
    try:
        found = listings.described(api, name, clock)
    except ClusterError as error:
        raise _failed(what, error) from error
    if found is None:
        raise _failed(what, ClusterError(UNKNOWN_ID.format(name)))
    duration_ms = None if found.start_ms is None else clock.wall_ms() - found.start_ms
    row = (found.coordinator_id, name, found.producer_id, found.producer_epoch, found.state,
           found.timeout_ms, found.start_ms, duration_ms, found.partitions)  # fmt: skip
    return printed(DESCRIBED, [row], "transactions", as_json=options.json)


PRODUCERS: Final = (
    Column("ProducerId", "producer_id"),
    Column("ProducerEpoch", "producer_epoch"),
    Column("LatestCoordinatorEpoch", "coordinator_epoch"),
    Column("LastSequence", "last_sequence"),
    Column("LastTimestamp", "last_timestamp_ms"),
    Column("CurrentTransactionStartOffset", "transaction_start_offset"),
)


def _describe_producers(api: Api, options: Namespace, clock: Clock) -> Output:
    where, broker_id = Partition(options.topic, options.partition), options.broker_id
    try:
        found = producers.described(api, [where], broker_id, clock)[where]
    except ClusterError as error:
        whom = "leader" if broker_id is None else f"broker {broker_id}"
        what = f"Failed to describe producers for partition {where} on {whom}"
        raise _failed(what, error) from error
    rows = [(each.producer_id, each.producer_epoch, each.coordinator_epoch, each.last_sequence,
             each.last_timestamp_ms, each.start_offset) for each in found]  # fmt: skip
    return printed(PRODUCERS, rows, "producers", as_json=options.json)


def _abort(api: Api, options: Namespace, clock: Clock) -> Output:
    spec = _abort_spec(api, options, clock)
    try:
        producers.abort(api, spec, clock)
    except ClusterError as error:
        raise _failed(f"Failed to abort transaction {spec.text}", error) from error
    return printed((), (), "errors", as_json=True) if options.json else Output("")


def _abort_spec(api: Api, options: Namespace, clock: Clock) -> AbortSpec:
    """The transaction of the options; epoch 0 of the coordinator for a producer without markers."""
    where, start = Partition(options.topic, options.partition), options.start_offset
    producer_id, epoch = options.producer_id, options.producer_epoch
    coordinator_epoch = options.coordinator_epoch
    if start is not None:
        try:
            found = producers.described(api, [where], None, clock)[where]
        except ClusterError as error:
            what = f"Failed to validate producer state for partition {where}"
            raise _failed(what, error) from error
        producer = next((each for each in found if each.start_offset == start), None)
        if producer is None:
            raise ClusterError(
                f"Could not find any open transactions starting at offset {start} on partition "
                f"{where}"
            )
        producer_id, epoch = producer.producer_id, producer.producer_epoch
        coordinator_epoch = producer.coordinator_epoch
    return AbortSpec(
        partition=where,
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=max(0, coordinator_epoch),
    )


HANGING: Final = (
    Column("Topic", "topic"),
    Column("Partition", "partition"),
    Column("ProducerId", "producer_id"),
    Column("ProducerEpoch", "producer_epoch"),
    Column("CoordinatorEpoch", "coordinator_epoch"),
    Column("StartOffset", "start_offset"),
    Column("LastTimestamp", "last_timestamp_ms"),
    Column("Duration(min)", "duration_minutes"),
)


def _find_hanging(api: Api, options: Namespace, clock: Clock) -> Output:
    scope = Scope(topic=options.topic, partition=options.partition, broker_id=options.broker_id)
    timeout_ms_max = options.max_transaction_timeout * MS_PER_MINUTE
    try:
        found = hanging.found(api, scope, timeout_ms_max, clock)
    except ClusterError as error:
        raise ClusterError(f"{error}{DETAIL}") from error
    now_ms = clock.wall_ms()
    rows = [
        (*each.partition, each.producer.producer_id, each.producer.producer_epoch,
         each.producer.coordinator_epoch, each.producer.start_offset,
         each.producer.last_timestamp_ms,
         (now_ms - each.producer.last_timestamp_ms) // MS_PER_MINUTE)
        for each in found
    ]  # fmt: skip
    return printed(HANGING, rows, "hanging", as_json=options.json)


def _terminate(api: Api, options: Namespace, clock: Clock) -> Output:
    try:
        listings.terminate(api, options.transactionalId, clock)
    except ClusterError as error:
        what = f"Failed to force terminate transactionalId `{options.transactionalId}`"
        raise _failed(what, error) from error
    return printed((), (), "errors", as_json=True) if options.json else Output("")


Perform = Callable[[Api, Namespace, Clock], Output]
COMMANDS: Final[dict[str, tuple[str, tuple[str, ...], Perform]]] = {
    "list": ("List transactional ids.", (), _list),
    "describe": ("Describe a transactional id.", ("transactional-id",), _describe),
    "describe-producers": (
        "Describe the producers of a partition.", ("topic", "partition"), _describe_producers
    ),
    "abort": ("Abort a hanging transaction at a partition.", ("topic", "partition"), _abort),
    "find-hanging": ("Find transactions that nobody will end.", (), _find_hanging),
    "forceTerminateTransaction": (
        "Abort the open transaction of an id, and fence its producer.", ("transactionalId",),
        _terminate,
    ),
}  # fmt: skip
"""Command -> what it does, flags that it needs, and its function."""
