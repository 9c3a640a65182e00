"""Work of `kraftline verifiable-consumer`.

apache/kafka: tools/src/main/java/org/apache/kafka/tools/VerifiableConsumer.java
"""

import signal
import sys
from argparse import Namespace
from collections.abc import Collection, Sequence
from types import FrameType
from typing import Any, Final

from cli.command import Output, execute
from cli.connect import ClusterError, Connect, json_line, open_cluster
from cli.groups.membership.actions import MemberError
from cli.groups.membership.group_configs import group_config
from cli.groups.membership.group_consumer import GroupConsumer, Subscription
from cli.groups.verifiable_consumer import command_parser
from cli.records.clients import client_configs
from cli.records.clients.clock import SYSTEM, Clock
from cli.records.clients.fetcher import Fetched, FetchError
from cli.records.clients.records_api import RecordsApi
from cli.records.clients.topic_metadata import Partition
from cli.records.consuming import drawn_id, fetcher_config

POLL_MS: Final = 1_000


def run(arguments: Sequence[str], connect: Connect = open_cluster, clock: Clock = SYSTEM) -> int:
    """Consume and tell; returns the exit code."""

    def perform(api: Any, options: Namespace) -> Output:
        return consume(api, options, clock)

    return execute(arguments, _parse, perform, connect)


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = command_parser()
    options = parser.parse_args(arguments)
    for name in ("topic", "group-id", "bootstrap-server"):
        if getattr(options, name.replace("-", "_")) is None:
            parser.error(f"argument --{name} is required")
    is_consumer = options.group_protocol == "consumer"
    file = options.command_config or options.consumer_config
    properties = client_configs.properties_of(file, ())  # what options say goes above it
    properties |= {
        "group.protocol": options.group_protocol,
        "enable.auto.commit": str(options.enable_autocommit).lower(),
        "auto.offset.reset": options.reset_policy,
    }
    if options.group_instance_id is not None:
        properties["group.instance.id"] = options.group_instance_id
    if is_consumer and options.group_remote_assignor is not None:
        properties["group.remote.assignor"] = options.group_remote_assignor
    if not is_consumer:
        properties["session.timeout.ms"] = str(options.session_timeout)
        properties["partition.assignment.strategy"] = options.assignment_strategy
    options.group_config = group_config(properties, options.group_id)
    options.fetching = fetcher_config(properties)
    return options


class _Teller:
    """Lines of events, and whether the end was asked for."""

    def __init__(self, clock: Clock) -> None:
        self.is_stopped = False
        self._clock = clock

    def tell(self, name: str, **fields: Any) -> None:
        """Print an event."""
        sys.stdout.write(json_line({"timestamp": self._clock.wall_ms(), "name": name, **fields}))
        sys.stdout.flush()

    def stop(self, _number: int, _frame: FrameType | None) -> None:
        """End in order: a handler of signals."""
        if not self.is_stopped:
            self.is_stopped = True
            self.tell("shutdown_requested")

    def assigned(self, partitions: Collection[Partition]) -> None:
        """Tell of new partitions."""
        self.tell("partitions_assigned", partitions=_shown(partitions))

    def revoked(self, partitions: Collection[Partition]) -> None:
        """Tell of partitions that are given up."""
        self.tell("partitions_revoked", partitions=_shown(partitions))


def _shown(partitions: Collection[Partition]) -> list[dict[str, Any]]:
    return [{"topic": p.topic, "partition": p.number} for p in sorted(partitions)]


def consume(api: RecordsApi, options: Namespace, clock: Clock) -> Output:
    """Consume until there were enough, or a signal comes."""
    teller = _Teller(clock)
    teller.tell("startup_complete")
    consumer = GroupConsumer(
        api, options.group_config, options.fetching, Subscription(options.topic), clock,
        member_id=drawn_id(),
    )  # fmt: skip
    consumer.on_assigned, consumer.on_revoked = teller.assigned, teller.revoked
    signals = (signal.SIGTERM, signal.SIGINT)
    before = [_on(number, teller.stop) for number in signals]
    try:
        _consume(consumer, options, teller)
    except (FetchError, MemberError) as failure:
        sys.stderr.write(f"Error during processing, terminating consumer process: \n{failure}\n")
    finally:
        consumer.close()
        for number, handler in zip(signals, before, strict=True):
            if handler is not None:
                signal.signal(number, handler)
    teller.tell("shutdown_complete")
    if not teller.is_stopped:
        teller.tell("shutdown_requested")
    return Output("")


def _on(number: int, handler: Any) -> Any:
    """Set a handler; the one before, None outside of the main thread."""
    try:
        return signal.signal(number, handler)
    except ValueError:
        return None


def _consume(consumer: GroupConsumer, options: Namespace, teller: _Teller) -> None:
    left = options.max_messages
    while not teller.is_stopped and left:
        records = consumer.poll(POLL_MS)
        if not records:
            continue
        taken = records if left < 0 else records[:left]
        consumer.put_back(records[len(taken) :])
        left -= len(taken) if left > 0 else 0
        if options.verbose:
            for fetched in taken:
                _tell_record(teller, fetched)
        summaries = _summaries(taken)
        teller.tell("records_consumed", count=len(records), partitions=list(summaries.values()))
        if not options.enable_autocommit:
            _commit(consumer, summaries.keys(), teller)


def _tell_record(teller: _Teller, fetched: Fetched) -> None:
    record = fetched.record
    key, value = (
        None if part is None else bytes(part).decode("utf-8", "replace")
        for part in (record.key, record.value)
    )
    teller.tell(
        "record_data", key=key, value=value, topic=fetched.partition.topic,
        partition=fetched.partition.number, offset=int(record.offset),
    )  # fmt: skip


def _summaries(records: Sequence[Fetched]) -> dict[Partition, dict[str, Any]]:
    """Count, first and last offset by partition, in the order of the records."""
    found: dict[Partition, dict[str, Any]] = {}
    for fetched in records:
        at = int(fetched.record.offset)
        first = {"topic": fetched.partition.topic, "partition": fetched.partition.number,
                 "count": 0, "minOffset": at}  # fmt: skip
        summary = found.setdefault(fetched.partition, first)
        summary["count"] += 1
        summary["maxOffset"] = at
    return found


def _commit(consumer: GroupConsumer, partitions: Collection[Partition], teller: _Teller) -> None:
    """Commit what was read of partitions and tell how that went."""
    try:
        offsets = consumer.commit(partitions)
    except ClusterError as error:
        teller.tell("offsets_committed", offsets=[], success=False, error=str(error))
        return
    shown = [
        {"topic": p.topic, "partition": p.number, "offset": offset} for p, offset in offsets.items()
    ]
    teller.tell("offsets_committed", offsets=shown, success=True)
