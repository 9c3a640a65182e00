"""Work of `kraftline console-consumer`: records to standard output (kafka-console-consumer).

With a group this is a member of it, which commits what was printed. Without one all partitions of
the topics are read, and nothing is committed.
"""

import base64
import signal
import sys
from argparse import Namespace
from collections.abc import Sequence
from random import SystemRandom
from types import FrameType
from typing import Any, Final, Protocol

from typing_extensions import override

from cli.arguments import INT64_MAX, UsageError
from cli.command import Output, execute
from cli.connect import Connect, open_cluster
from cli.groups.membership.actions import GroupConfig, MemberError
from cli.groups.membership.group_configs import group_config
from cli.records.clients import client_configs
from cli.records.clients.clock import SYSTEM, Clock
from cli.records.clients.fetcher import Fetched, Fetcher, FetcherConfig, FetchError
from cli.records.clients.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from cli.records.clients.records_api import RecordsApi
from cli.records.clients.topic_metadata import Partition, described_topics
from cli.records.console_consumer import command_parser
from cli.records.formats.deserializers import DeserializeError
from cli.records.formats.formatters import formatter_of, json_formatter
from cli.records.partition_rules import topic_pattern
from cli.records.tool_parser import ToolParser
from wire.random_ids import random_uuid

DEPRECATED: Final = {
    "property": "formatter-property",
    "consumer-property": "command-property",
    "consumer.config": "command-config",
}
WARNING: Final = (
    "Option --{} is deprecated and will be removed in a future version. Use --{} instead.\n"
)
ISOLATION_LEVELS: Final = {"read_committed": READ_COMMITTED, "read_uncommitted": READ_UNCOMMITTED}
RESETS: Final = {"earliest": EARLIEST, "latest": LATEST, "none": None}
POLL_MS: Final = 1_000
_OFFSET_DIGITS_MAX: Final = 20


def run(arguments: Sequence[str], connect: Connect = open_cluster, clock: Clock = SYSTEM) -> int:
    """Print records and return the exit code."""

    def perform(api: Any, options: Namespace) -> Output:
        return consume(api, options, clock)

    return execute(arguments, _parse, perform, connect)


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = command_parser()
    options = parser.parse_tool(arguments)
    _check_places(parser, options)
    parser.require(options, "bootstrap-server")
    pairs = ("formatter", "property"), ("command", "consumer_property")
    for new, old in pairs:
        if getattr(options, f"{new}_property") and getattr(options, old):
            parser.error(f"Options --{new}-property and --{old.replace('_', '-')} cannot be "
                         "specified together.")  # fmt: skip
    sys.stdout.write(client_configs.deprecated(options, DEPRECATED, WARNING))
    words = options.command_property + options.consumer_property
    properties = client_configs.properties_of(
        options.command_config or options.consumer_config, words
    )
    options.fetcher = _fetcher_config(options, properties)
    options.group_config = _group_config(parser, options, properties)
    options.position = _position(parser, options)
    shown = client_configs.properties_of(options.formatter_config, ())
    for kind in ("key", "value"):
        name = getattr(options, f"{kind}_deserializer")
        if name:
            shown[f"{kind}.deserializer"] = name
    shown.update(client_configs.pairs(options.formatter_property + options.property))
    options.format = formatter_of(options.formatter, shown)
    if options.json:
        options.format = json_formatter
    options.pattern = None if options.include is None else topic_pattern(options.include)
    return options


def _check_places(parser: ToolParser, options: Namespace) -> None:
    if (options.topic is None) == (options.include is None):
        parser.error("Exactly one of the following arguments is required: [topic], [include]")
    if options.partition is None:
        if options.offset is not None:
            parser.error("The partition is required when offset is specified.")
        return
    if options.topic is None:
        parser.error("The topic is required when partition is specified.")
    if options.from_beginning and options.offset is not None:
        parser.error("Options from-beginning and offset cannot be specified together.")


def _group_config(
    parser: ToolParser, options: Namespace, properties: dict[str, str]
) -> GroupConfig | None:
    """The configs of the member that the options ask for; None without a group."""
    given = [options.group, properties.get("group.id")]
    groups = sorted({group for group in given if group is not None})
    if len(groups) > 1:
        parser.error(
            "The group ids provided in different places (directly using '--group', via "
            "'--consumer-property', or via '--consumer.config') do not match. Detected group ids: "
            + ", ".join(f"'{group}'" for group in groups)
        )
    if groups and options.partition is not None:
        parser.error("Options group and partition cannot be specified together.")
    if not groups:
        return None
    try:
        return group_config(properties, groups[0])
    except UsageError as error:
        raise UsageError(f"{UNKNOWN_ERROR}{error}") from error


def _fetcher_config(options: Namespace, properties: dict[str, str]) -> FetcherConfig:
    reset = properties.get("auto.offset.reset")
    if options.from_beginning and reset not in (None, "earliest"):
        raise UsageError(
            "Can't simultaneously specify --from-beginning and "
            f"'auto.offset.reset={reset}', please remove one option"
        )
    if reset is None:
        properties["auto.offset.reset"] = "earliest" if options.from_beginning else "latest"
    if options.isolation_level is not None:
        properties["isolation.level"] = options.isolation_level
    try:
        return fetcher_config(properties)
    except UsageError as error:
        raise UsageError(f"{UNKNOWN_ERROR}{error}") from error


def fetcher_config(properties: dict[str, str]) -> FetcherConfig:
    """Make the config of a fetcher of the properties of a consumer.

    Raises:
        UsageError: a value is none of its kind.
    """
    defaults, number = FetcherConfig(), client_configs.number_of
    levels = tuple(ISOLATION_LEVELS)
    level = client_configs.one_of(properties, "isolation.level", levels, "read_uncommitted")
    policy = client_configs.one_of(properties, "auto.offset.reset", tuple(RESETS), "latest")
    return FetcherConfig(
        isolation_level=ISOLATION_LEVELS[level],
        fetch_max_wait_ms=number(properties, "fetch.max.wait.ms", defaults.fetch_max_wait_ms),
        fetch_min_bytes=number(properties, "fetch.min.bytes", defaults.fetch_min_bytes),
        fetch_max_bytes=number(properties, "fetch.max.bytes", defaults.fetch_max_bytes),
        max_partition_fetch_bytes=number(
            properties, "max.partition.fetch.bytes", defaults.max_partition_fetch_bytes
        ),
        reset_to=RESETS[policy],
    )


UNKNOWN_ERROR: Final = "Unknown error when running consumer: \n"


def _position(parser: ToolParser, options: Namespace) -> int:
    if options.offset is None:
        is_early = options.from_beginning or (
            options.partition is None and options.fetcher.reset_to == EARLIEST
        )
        return EARLIEST if is_early else LATEST
    text = options.offset
    named = {"earliest": EARLIEST, "latest": LATEST}.get(text.lower())
    if named is not None:
        return named
    is_number = text.isascii() and text.isdigit() and len(text) < _OFFSET_DIGITS_MAX
    if not is_number or int(text) > INT64_MAX:
        parser.error(
            f"The provided offset value '{text}' is incorrect. Valid values are 'earliest', "
            "'latest', or a non-negative long."
        )
    return int(text)


def consume(api: RecordsApi, options: Namespace, clock: Clock) -> Output:
    """Print records until they or the time end."""
    printer = _Printer(options)
    signal_before = on_termination()
    error, exit_code = "", 0
    try:
        _consume(api, options, clock, printer)
    except DeserializeError as failure:
        error, exit_code = f"{UNKNOWN_ERROR}{failure}\n", 1
    except (_TimeoutError, FetchError, MemberError) as failure:
        sys.stderr.write(f"Error processing message, terminating consumer process: \n{failure}\n")
    finally:
        if signal_before is not None:
            signal.signal(signal.SIGTERM, signal_before)
        sys.stderr.write(f"Processed a total of {printer.count} messages\n")
        if options.enable_systest_events:
            sys.stdout.write("shutdown_complete\n")
    return Output("", error, exit_code)


class _TimeoutError(Exception):
    pass


def on_termination() -> Any:
    """Make SIGTERM an orderly end; returns the handler before, None outside of the main thread."""
    is_first = True

    def leave(_number: int, _frame: FrameType | None) -> None:
        nonlocal is_first
        if is_first:  # others do not disturb the end: `timeout` sends two
            is_first = False
            raise SystemExit(143)

    try:
        return signal.signal(signal.SIGTERM, leave)
    except ValueError:
        return None


class _Source(Protocol):
    """Origin of records."""

    def poll(self, timeout_ms: int) -> list[Fetched]:
        """Records; none if there were none in time."""
        ...

    def put_back(self, unread: Sequence[Fetched]) -> None:
        """The last records of the last poll were not printed."""
        ...

    def close(self) -> None:
        """Nothing more is read."""
        ...


def _consume(api: RecordsApi, options: Namespace, clock: Clock, printer: "_Printer") -> None:
    source = _source(api, options, clock)
    timeout_ms = options.timeout_ms if options.timeout_ms not in (None, -1) else INT64_MAX
    start_ms = clock.now_ms()
    try:
        while not printer.is_done:
            left_ms = start_ms + timeout_ms - clock.now_ms()
            records = source.poll(max(0, min(left_ms, POLL_MS)))
            if not records and clock.now_ms() - start_ms >= timeout_ms:
                raise _TimeoutError("org.apache.kafka.common.errors.TimeoutException")
            _print(source, printer, records)
            if records:
                start_ms = clock.now_ms()
    finally:
        source.close()


def _print(source: _Source, printer: "_Printer", records: list[Fetched]) -> None:
    """Print records; those behind the end, or behind one that cannot be printed, are put back."""
    before = printer.count
    try:
        for fetched in records:
            if printer.is_done:
                break
            printer.print(fetched)
        printer.flush()
    finally:
        source.put_back(records[printer.count - before :])


def _source(api: RecordsApi, options: Namespace, clock: Clock) -> _Source:
    if options.group_config is None:
        return _Assigned(api, options, clock)
    from cli.groups.membership.group_consumer import (  # noqa: PLC0415  # only with a group
        GroupConsumer,
        Subscription,
    )

    consumer = GroupConsumer(
        api,
        options.group_config,
        options.fetcher,
        Subscription(options.topic, options.pattern),
        clock,
        member_id=drawn_id(),
    )
    consumer.on_problem = _warn
    return consumer


def _warn(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def drawn_id() -> str:
    """An id of a member, drawn as Kafka's."""
    return base64.urlsafe_b64encode(random_uuid(SystemRandom())).decode().rstrip("=")


class _Assigned(_Source):
    """The partitions that the options name, without a group."""

    def __init__(self, api: RecordsApi, options: Namespace, clock: Clock) -> None:
        self._api = api
        self._options = options
        self._fetcher = Fetcher(api, options.fetcher, clock)
        self._is_assigned = False

    @override
    def poll(self, timeout_ms: int) -> list[Fetched]:
        if not self._is_assigned:
            self._is_assigned = _assign(self._api, self._options, self._fetcher)
        return self._fetcher.poll(timeout_ms)

    @override
    def put_back(self, unread: Sequence[Fetched]) -> None:
        pass

    @override
    def close(self) -> None:
        pass


def _assign(api: RecordsApi, options: Namespace, fetcher: Fetcher) -> bool:
    """Assign what the options name; False if no topic matches yet."""
    if options.partition is not None:
        fetcher.assign(Partition(options.topic, options.partition), options.position)
        return True
    found = described_topics(api, None if options.topic is None else [options.topic])
    partitions = [
        Partition(topic.name, number)
        for topic in sorted(found.values(), key=lambda topic: topic.name)
        if options.pattern is None
        or (not topic.is_internal and options.pattern.fullmatch(topic.name))
        for number in topic.leaders
    ]
    if partitions and options.fetcher.reset_to is None:
        names = ", ".join(map(str, partitions))
        raise FetchError(f"Undefined offset with no reset policy for partitions: [{names}]")
    for partition in partitions:
        fetcher.assign(partition, options.position)
    return bool(partitions)


class _Printer:
    """Standard output, and the count of records."""

    def __init__(self, options: Namespace) -> None:
        sys.stdout.flush()
        self.count = 0
        self._out = sys.stdout.buffer
        self._format = options.format
        self._is_lenient = bool(options.skip_message_on_error)
        self._max = None if options.max_messages == -1 else options.max_messages

    @property
    def is_done(self) -> bool:
        """True when --max-messages were printed."""
        return self._max is not None and self.count >= self._max

    def print(self, fetched: Fetched) -> None:
        """Print a record.

        Raises:
            DeserializeError: it cannot be printed.
        """
        self.count += 1
        try:
            self._out.write(self._format(fetched))
        except DeserializeError as error:
            if not self._is_lenient:
                self.flush()
                raise
            sys.stderr.write(f"Error processing message, skipping this message: \n{error}\n")

    def flush(self) -> None:
        """Hand over what is printed."""
        self._out.flush()
