"""Work of `kraftline console-producer`: lines of standard input as records."""

import random
import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import Any, Final

from cli.arguments import UsageError, shortened
from cli.command import Output, execute
from cli.connect import Connect, json_line, open_cluster
from cli.records.clients import client_configs
from cli.records.clients.clock import SYSTEM, Clock
from cli.records.clients.producer import Delivered, Outgoing, Producer, SendError
from cli.records.clients.records_api import RecordsApi
from cli.records.console_producer import LINE_READER, MERGED, command_parser
from cli.records.formats.line_reader import ReadError, reader_of
from cli.records.formats.lines import Lines

DEPRECATED: Final = {
    "property": "reader-property",
    "producer-property": "command-property",
    "producer.config": "command-config",
    "max-partition-memory-bytes": "batch-size",
}
WARNING: Final = (
    "Warning: --{} is deprecated and will be removed in a future version. Use --{} instead.\n"
)


def run(arguments: Sequence[str], connect: Connect = open_cluster, clock: Clock = SYSTEM) -> int:
    """Send what standard input has and return the exit code."""

    def perform(api: Any, options: Namespace) -> Output:
        return produce(api, options, clock)

    return execute(arguments, _parse, perform, connect)


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = command_parser()
    options = parser.parse_tool(arguments, "topic")
    if options.bootstrap_server is None:
        parser.error("Error while validating the bootstrap address")
    if options.command_config is not None and options.producer_config is not None:
        parser.error("Options --command-config and --producer.config cannot be specified together.")
    for old, new in (("property", "reader_property"), ("producer_property", "command_property")):
        if getattr(options, old) and getattr(options, new):
            flags = f"--{new.replace('_', '-')} and --{old.replace('_', '-')}"
            parser.error(f"Options {flags} cannot be specified together.")
    sys.stdout.write(client_configs.deprecated(options, DEPRECATED, WARNING))
    if options.line_reader != LINE_READER:
        raise UsageError(f"--line-reader {shortened(options.line_reader)} is not known here")
    properties = client_configs.properties_of(
        options.command_config or options.producer_config,
        options.command_property + options.producer_property,
    )
    properties["compression.type"] = options.compression_codec or "gzip"
    for flag, (config, default) in MERGED.items():
        given = getattr(options, flag.replace("-", "_"))
        if given is not None:
            properties[config] = str(given)
        else:
            properties.setdefault(config, default)
    options.producer = client_configs.producer_config(properties)
    words = options.reader_property + options.property
    options.reader = reader_of(client_configs.properties_of(options.reader_config, words))
    return options


def produce(api: RecordsApi, options: Namespace, clock: Clock) -> Output:
    """Send the lines of standard input.

    Raises:
        UsageError: a line is no record; the records before it are sent.
    """
    rng = random.Random(clock.wall_ms())  # noqa: S311 - no secrets here
    producer = Producer(api, options.producer, clock, rng)
    sending = _Sending(producer, options)
    lines = Lines(sys.stdin.buffer)
    line_number = 0
    has_prompt = sys.stdin.isatty() and sys.stdout.isatty()
    try:
        while not sending.is_stopped:
            if has_prompt:
                sys.stdout.write(">")
                sys.stdout.flush()
            line = _next_line(lines, producer, clock)
            line_number += 1
            read = options.reader.record(line, line_number)
            sending.send(Outgoing(options.topic, read.key, read.value, read.headers))
    except EOFError:
        pass
    except ReadError as error:
        raise UsageError(str(error)) from error
    finally:
        producer.flush()
    return Output("", "", 1 if sending.is_stopped else 0)


def _next_line(lines: Lines, producer: Producer, clock: Clock) -> str:
    """The next line; what lingers is sent while there is none."""
    while True:
        next_ms = producer.next_ms()
        timeout_ms = None if next_ms is None else max(0, next_ms - clock.now_ms())
        line = lines.next_line(timeout_ms)
        if line is not None:
            return line
        producer.poll()


class _Sending:
    """Records on their way, and the lines about their ends."""

    def __init__(self, producer: Producer, options: Namespace) -> None:
        self.is_stopped = False
        self._producer = producer
        self._is_sync = bool(options.sync)
        self._has_json = bool(options.json)

    def send(self, record: Outgoing) -> None:
        """Queue a record, with --sync wait for its end."""
        self._producer.send(record, self._on_end)
        if self._is_sync:
            self._producer.flush()

    def _on_end(self, record: Outgoing, end: Delivered | SendError) -> None:
        if isinstance(end, Delivered):
            if self._has_json:
                row = {"topic": record.topic, "partition": end.partition.number,
                       "offset": end.offset, "timestamp": end.timestamp_ms}  # fmt: skip
                sys.stdout.write(json_line(row))
            return
        if self._has_json:
            sys.stdout.write(json_line({"topic": record.topic, "error": str(end)}))
        if self._is_sync:
            self.is_stopped = True
            sys.stderr.write(f"{end}\n")
            return
        key = "null" if record.key is None else f"{len(record.key)} bytes"
        size_bytes = -1 if record.value is None else len(record.value)
        sys.stderr.write(
            f"Error when sending message to topic {record.topic} with key: {key}, "
            f"value: {size_bytes} bytes with error:\n{end}\n"
        )
