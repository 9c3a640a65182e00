"""Work of `kraftline verifiable-producer`: growing numbers, a JSON line each, as Kafka's."""

import random
import signal
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any, Final

from cli.command import Output, execute
from cli.connect import Connect, json_line, open_cluster
from cli.records.clients import client_configs
from cli.records.clients.clock import SYSTEM, Clock
from cli.records.clients.producer import Delivered, Outgoing, Producer, SendError
from cli.records.clients.records_api import RecordsApi
from cli.records.throttle import Throttle
from cli.records.verifiable_producer import command_parser

KAFKA_EXCEPTION: Final = "class org.apache.kafka.common.KafkaException"


def run(arguments: Sequence[str], connect: Connect = open_cluster, clock: Clock = SYSTEM) -> int:
    """Produce and print each record; returns the exit code."""

    def perform(api: Any, options: Namespace) -> Output:
        return produce(api, options, clock)

    return execute(arguments, _parse, perform, connect)


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = command_parser()
    options = parser.parse_args(arguments)
    for name in ("topic", "bootstrap-server"):
        if getattr(options, name.replace("-", "_")) is None:
            parser.error(f"argument --{name} is required")
    properties = {"acks": options.acks, "retries": "0"}
    properties.update(
        client_configs.properties_of(options.command_config or options.producer_config, ())
    )
    options.producer = client_configs.producer_config(properties)
    return options


class _Run:
    """Lines of the events, and the counts."""

    def __init__(self, clock: Clock) -> None:
        self.is_stopped = False
        self.sent = 0
        self.acked = 0
        self._clock = clock

    def stop(self, _number: int, _frame: FrameType | None) -> None:
        """End in order: a handler of signals."""
        self.is_stopped = True

    def tell(self, name: str, **fields: Any) -> None:
        """Print an event."""
        line = json_line({"timestamp": self._clock.wall_ms(), "name": name, **fields})
        sys.stdout.write(line)
        sys.stdout.flush()

    def on_end(self, record: Outgoing, end: Delivered | SendError) -> None:
        """Count a record and tell of it."""
        key, value = (None if t is None else t.decode() for t in (record.key, record.value))
        if isinstance(end, Delivered):
            self.acked += 1
            self.tell("producer_send_success", key=key, value=value, offset=end.offset,
                      topic=end.partition.topic, partition=end.partition.number)  # fmt: skip
        else:
            self.tell("producer_send_error", key=key, value=value, topic=record.topic,
                      exception=KAFKA_EXCEPTION, message=str(end))  # fmt: skip


def produce(api: RecordsApi, options: Namespace, clock: Clock) -> Output:
    """Produce until there were enough, or a signal comes."""
    rng = random.Random(clock.wall_ms())  # noqa: S311 - no secrets here
    producer = Producer(api, options.producer, clock, rng)
    going = _Run(clock)
    signals = (signal.SIGTERM, signal.SIGINT)
    before = [_on(number, going.stop) for number in signals]
    start_ms = clock.now_ms()
    try:
        going.tell("startup_complete")
        throttle = Throttle(options.throughput, clock)
        for record in _records(options, clock):
            if going.is_stopped:
                break
            going.sent += 1
            producer.send(record, going.on_end)
            while not going.is_stopped and (wait_ms := throttle.ahead_ms(going.sent)):
                due_ms = producer.next_ms()
                left_ms = wait_ms if due_ms is None else due_ms - clock.now_ms()
                clock.sleep_ms(max(0, min(wait_ms, left_ms)))
                producer.poll()
        producer.flush()
    finally:
        for number, handler in zip(signals, before, strict=True):
            if handler is not None:
                signal.signal(number, handler)
    going.tell("shutdown_complete")
    elapsed_s = max(1, clock.now_ms() - start_ms) / 1000
    going.tell("tool_data", sent=going.sent, acked=going.acked,
               target_throughput=options.throughput,
               avg_throughput=going.acked / elapsed_s)  # fmt: skip
    return Output("")


def _on(number: int, handler: Any) -> Any:
    """Set a handler; the one before, None outside of the main thread."""
    try:
        return signal.signal(number, handler)
    except ValueError:
        return None


def _records(options: Namespace, clock: Clock) -> Iterator[Outgoing]:
    start_ms = clock.now_ms()
    timestamp_ms = None if options.message_create_time == -1 else options.message_create_time
    number = 0
    while options.max_messages < 0 or number < options.max_messages:
        key = None if options.repeating_keys is None else b"%d" % (number % options.repeating_keys)
        prefix = b"" if options.value_prefix is None else b"%d." % options.value_prefix
        yield Outgoing(options.topic, key, prefix + b"%d" % number, timestamp_ms=timestamp_ms)
        if timestamp_ms is not None:
            timestamp_ms += clock.now_ms() - start_ms
        number += 1
