"""Work of `kraftline consumer-perf-test`.

apache/kafka: tools/src/main/java/org/apache/kafka/tools/ConsumerPerformance.java, 4.3
"""

import math
import signal
import sys
from argparse import Namespace
from collections.abc import Collection, Sequence
from decimal import ROUND_HALF_UP, Decimal
from random import SystemRandom
from typing import Any, Final

from msgspec.structs import replace

from cli.command import Output, execute
from cli.connect import ClusterError, Connect, json_line, open_cluster
from cli.groups.consumer_perf_test import command_parser
from cli.groups.date_format import DateFormat
from cli.groups.membership.actions import MemberError
from cli.groups.membership.group_configs import group_config
from cli.groups.membership.group_consumer import GroupConsumer, Subscription
from cli.records.clients import client_configs
from cli.records.clients.clock import SYSTEM, Clock
from cli.records.clients.fetcher import Fetched, FetchError
from cli.records.clients.offsets import EARLIEST, LATEST
from cli.records.clients.records_api import RecordsApi
from cli.records.clients.topic_metadata import Partition
from cli.records.consuming import drawn_id, fetcher_config, on_termination
from cli.records.partition_rules import topic_pattern
from cli.records.tool_parser import ToolParser

POLL_MS: Final = 100
POLL_RECORDS: Final = 500
"""Default of `max.poll.records`."""
CLIENT_ID: Final = "perf-consumer-client"
GROUPS_MAX: Final = 100_000
DEPRECATED: Final = {"messages": "num-records", "consumer.config": "command-config"}
WARNING: Final = "Warning: --{} is deprecated. Use --{} instead.\n"
HEAD: Final = "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec"
DETAILED_HEAD: Final = (
    "time, threadId, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec"
)
MORE_HEAD: Final = ", rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec\n"
SHORT: Final = (
    "WARNING: Exiting before consuming the expected number of records: timeout ({} ms) exceeded. "
    "You can use the --timeout option to increase the timeout.\n"
)
_MIB: Final = 1024 * 1024
_FOUR_DIGITS: Final = Decimal("0.0001")


def run(arguments: Sequence[str], connect: Connect = open_cluster, clock: Clock = SYSTEM) -> int:
    """Consume and print the rates; returns the exit code."""

    def perform(api: Any, options: Namespace) -> Output:
        return measure(api, options, clock)

    return execute(arguments, _parse, perform, connect)


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = command_parser()
    options = parser.parse_args(arguments)
    parser.require(options, "bootstrap-server")
    _exactly_one(parser, options, "topic", "include")
    _exactly_one(parser, options, "messages", "num_records")
    if options.consumer_config is not None and options.command_config is not None:
        parser.error('Option "[consumer.config]" can\'t be used with option "[command-config]"')
    sys.stdout.write(client_configs.deprecated(options, DEPRECATED, WARNING))
    options.count = options.messages if options.num_records is None else options.num_records
    options.date_format = DateFormat(options.date_format)
    file = options.command_config or options.consumer_config
    properties = client_configs.properties_of(file, options.command_property)
    if "client.id" not in properties:
        options.command_property.append(f"client.id={CLIENT_ID}")
    options.poll_max = client_configs.number_of(properties, "max.poll.records", POLL_RECORDS)
    options.group_config = group_config(properties, options.group or _drawn_group())
    options.fetching = replace(
        fetcher_config(properties),
        max_partition_fetch_bytes=options.fetch_size,
        reset_to=LATEST if options.from_latest else EARLIEST,
    )
    pattern = None if options.include is None else topic_pattern(options.include)
    options.subscription = Subscription(options.topic, pattern)
    return options


def _exactly_one(parser: ToolParser, options: Namespace, *names: str) -> None:
    if sum(getattr(options, name) is not None for name in names) != 1:
        shown = ", ".join(f"[{name.replace('_', '-')}]" for name in names)
        parser.error(f"Exactly one of the following arguments is required: {shown}")


def _drawn_group() -> str:
    return f"perf-consumer-{SystemRandom().randrange(GROUPS_MAX)}"


class Joins:
    """Time for which the member had no partitions."""

    def __init__(self, clock: Clock) -> None:
        """The first join begins now."""
        self._clock = clock
        self._start_ms = clock.now_ms()
        self.all_ms = 0
        self.first_ms: int | None = 0
        """Of the joins before the first line; None behind it, whose columns have none."""

    def revoked(self, _partitions: Collection[Partition]) -> None:
        """A join begins."""
        self._start_ms = self._clock.now_ms()

    def assigned(self, _partitions: Collection[Partition]) -> None:
        """It ends."""
        took_ms = self._clock.now_ms() - self._start_ms
        self.all_ms += took_ms
        if self.first_ms is not None:
            self.first_ms += took_ms


class _Counts:
    """Records and bytes."""

    def __init__(self, records: int = 0, size_bytes: int = 0) -> None:
        self.records = records
        self.size_bytes = size_bytes

    @property
    def mib(self) -> float:
        return self.size_bytes / _MIB

    def add(self, fetched: Fetched) -> None:
        self.records += 1
        self.size_bytes += len(fetched.record.key or b"") + len(fetched.record.value or b"")


def measure(api: RecordsApi, options: Namespace, clock: Clock) -> Output:
    """Consume the records of the options and print what was measured.

    Raises:
        ClusterError: the group refuses, or a partition cannot be read.
    """
    is_detailed = options.show_detailed_stats
    if not options.hide_header and not options.json:
        sys.stdout.write((DETAILED_HEAD if is_detailed else HEAD) + MORE_HEAD)
        sys.stdout.flush()
    joins, start_ms, start_wall_ms = Joins(clock), clock.now_ms(), clock.wall_ms()
    consumer = GroupConsumer(
        api, options.group_config, options.fetching, options.subscription, clock,
        member_id=drawn_id(),
    )  # fmt: skip
    consumer.on_assigned, consumer.on_revoked = joins.assigned, joins.revoked
    before = on_termination()
    try:
        counts = _consume(consumer, options, clock, joins)
        took_ms, end_wall_ms = clock.now_ms() - start_ms, clock.wall_ms()
    except (FetchError, MemberError) as failure:
        raise ClusterError(str(failure)) from failure
    finally:
        consumer.close()
        if before is not None:
            signal.signal(signal.SIGTERM, before)
    fetch_ms = took_ms - joins.all_ms
    if options.json:
        return Output(json_line({
            "start_time": start_wall_ms, "end_time": end_wall_ms, "bytes": counts.size_bytes,
            "records": counts.records, "rebalance_time_ms": joins.all_ms, "fetch_time_ms": fetch_ms,
        }))  # fmt: skip
    short = SHORT.format(options.timeout) if counts.records < options.count else ""
    if is_detailed:
        return Output(short)
    date = options.date_format.shown
    row = (
        date(start_wall_ms), date(end_wall_ms),
        shown(counts.mib), shown(rate(counts.mib, took_ms)),
        f"{counts.records}", shown(rate(counts.records, took_ms)),
        f"{joins.all_ms}", f"{fetch_ms}",
        shown(rate(counts.mib, fetch_ms)), shown(rate(counts.records, fetch_ms)),
    )  # fmt: skip
    return Output(f"{short}{', '.join(row)}\n")


def _consume(consumer: GroupConsumer, options: Namespace, clock: Clock, joins: Joins) -> _Counts:
    """Consume until there are enough records, or none came for the time-out.

    All records of a poll count, as in Kafka, of which one has `max.poll.records` at most.
    """
    whole, before = _Counts(), _Counts()
    now_ms = line_ms = read_ms = clock.now_ms()
    while whole.records < options.count and now_ms - read_ms <= options.timeout:
        records = consumer.poll(POLL_MS)
        now_ms = clock.now_ms()
        if records:
            read_ms = now_ms
        for number, fetched in enumerate(records):
            if number % options.poll_max == 0 and whole.records >= options.count:
                consumer.put_back(records[number:])
                break
            whole.add(fetched)
            if now_ms - line_ms >= options.reporting_interval:
                if options.show_detailed_stats and not options.json:
                    now = options.date_format.shown(clock.wall_ms())
                    line = _line(whole, before, now_ms - line_ms, joins.first_ms or 0)
                    sys.stdout.write(f"{now}, 0, {line}\n")
                    sys.stdout.flush()
                joins.first_ms, line_ms = None, now_ms
                before = _Counts(whole.records, whole.size_bytes)
    return whole


def _line(whole: _Counts, before: _Counts, took_ms: int, join_ms: int) -> str:
    """The columns behind time and thread of a line about an interval."""
    mib, count = whole.mib - before.mib, whole.records - before.records
    fetch_ms = took_ms - join_ms
    rates = (rate(mib, fetch_ms), rate(count, fetch_ms)) if fetch_ms > 0 else (0.0, 0.0)
    columns = (
        shown(whole.mib), shown(rate(mib, took_ms)),
        f"{whole.records}", shown(rate(count, took_ms)),
        f"{join_ms}", f"{fetch_ms}", *map(shown, rates),
    )  # fmt: skip
    return ", ".join(columns)


def rate(amount: float, took_ms: int) -> float:
    """An amount a second; of no time infinite, or no number, as Java divides."""
    if took_ms:
        return amount * 1000 / took_ms
    return math.inf if amount else math.nan


def shown(number: float) -> str:
    """A number with four digits behind the point, as Java's `%.4f`."""
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else f"{'-' if number < 0 else ''}Infinity"
    return str(Decimal(repr(number)).quantize(_FOUR_DIGITS, ROUND_HALF_UP))
