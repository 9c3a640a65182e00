"""Work of `kraftline producer-perf-test`: rate and latency of producing."""

import random
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from cli.arguments import INT64_MAX, UsageError
from cli.command import Output, execute
from cli.connect import Connect, json_line, open_cluster
from cli.records.clients import client_configs
from cli.records.clients.clock import SYSTEM, Clock
from cli.records.clients.producer import Delivered, Outgoing, Producer, SendError
from cli.records.clients.records_api import RecordsApi
from cli.records.clients.transactions import Transactions
from cli.records.producer_perf_test import TRANSACTION_DURATION_MS, command_parser
from cli.records.throttle import Throttle

PERCENTILES: Final = {"50th": 0.5, "95th": 0.95, "99th": 0.99, "99.9th": 0.999}
TRANSACTION_TIMEOUT_MS: Final = 60_000
"""Default of `transaction.timeout.ms`."""
ID_PREFIX: Final = "performance-producer-"
_LETTERS: Final = bytes(65 + number % 26 for number in range(256))
_MIB: Final = 1024 * 1024
_SAMPLES_MAX: Final = 500_000
_WARMUP: Final = (
    "Warmup first {} records. Steady state results will print after the complete test summary.\n"
)


def run(arguments: Sequence[str], connect: Connect = open_cluster, clock: Clock = SYSTEM) -> int:
    """Produce and print the rates; returns the exit code."""

    def perform(api: Any, options: Namespace) -> Output:
        return measure(api, options, clock)

    return execute(arguments, _parse, perform, connect)


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = command_parser()
    options = parser.parse_args(arguments)
    for name in ("topic", "num-records", "throughput"):
        if getattr(options, name.replace("-", "_")) is None:
            parser.error(f"argument --{name} is required")
    payloads = options.record_size is None, options.payload_file is None
    if all(payloads) and not options.payload_monotonic:
        parser.error("one of the arguments --record-size --payload-file --payload-monotonic is "
                     "required")  # fmt: skip
    words = options.command_property + options.producer_props
    file = options.command_config or options.producer_config
    if options.bootstrap_server is None and not words and file is None:
        parser.error(
            "At least one of --bootstrap-server, --command-property, --producer-props, "
            "--producer.config or --command-config must be specified."
        )
    if options.record_size == 0:
        parser.error("--record-size should be greater than zero.")
    if options.warmup_records >= options.num_records:
        parser.error("The value for --warmup-records must be strictly fewer than the number of "
                     "records in the test, --num-records.")  # fmt: skip
    properties = client_configs.properties_of(file, words)
    if options.bootstrap_server is None:
        options.bootstrap_server = properties.get("bootstrap.servers")
    options.producer = client_configs.producer_config(properties)
    if options.transactional_id is None:
        options.transactional_id = properties.get("transactional.id")
    options.has_transactions = {options.transactional_id, options.transaction_duration_ms} != {None}
    if options.has_transactions and not options.producer.is_idempotent:
        raise UsageError("Cannot set a transactional.id without also enabling idempotence.")
    options.transaction_timeout_ms = client_configs.number_of(
        properties, "transaction.timeout.ms", TRANSACTION_TIMEOUT_MS
    )
    options.payloads = _payloads(options)
    return options


def _payloads(options: Namespace) -> list[bytes]:
    if options.payload_file is None:
        return []
    path = Path(options.payload_file)
    try:
        content = path.read_bytes()
    except (OSError, ValueError):
        content = b""
    if not content:
        raise UsageError("File does not exist or empty file provided.")
    delimiter = options.payload_delimiter.replace("\\n", "\n").replace("\\t", "\t")
    if not delimiter:
        raise UsageError("--payload-delimiter must not be empty")
    parts = content.decode("utf-8", "replace").split(delimiter)
    while len(parts) > 1 and not parts[-1]:  # as Java's split
        parts.pop()
    if not options.json:
        sys.stdout.write(f"Reading payloads from: {path.absolute()}\n")
        sys.stdout.write(f"Number of records read: {len(parts)}\n")
    return [part.encode() for part in parts]


def measure(api: RecordsApi, options: Namespace, clock: Clock) -> Output:
    """Produce the records of the options and print what was measured."""
    rng = random.Random(clock.wall_ms())  # noqa: S311 - no secrets here
    transactions = _transactions(api, options, clock, rng)
    producer = Producer(api, options.producer, clock, rng, transactions)
    commits = None if transactions is None else _Commits(producer, options, clock)
    throttle = Throttle(options.throughput, clock)
    make = _maker(options, rng)
    has_warmup = options.warmup_records > 0
    if has_warmup and not options.json:
        sys.stdout.write(_WARMUP.format(options.warmup_records))
    interval_ms = INT64_MAX if options.json else options.reporting_interval
    whole = Stats(options.num_records, INT64_MAX if has_warmup else interval_ms, clock)
    steady: Stats | None = None
    for number in range(options.num_records):
        if has_warmup and number == options.warmup_records:
            steady = Stats(options.num_records - number, interval_ms, clock)
        value = make(number)
        on_end = _Sent(len(value), [s for s in (whole, steady) if s is not None], clock)
        if commits is not None:
            commits.begin()
        producer.send(Outgoing(options.topic, None, value), on_end)
        if commits is not None:
            commits.commit_if_due()
        while wait_ms := throttle.ahead_ms(number + 1):
            due_ms = producer.next_ms()
            left_ms = wait_ms if due_ms is None else due_ms - clock.now_ms()
            clock.sleep_ms(max(0, min(wait_ms, left_ms)))
            producer.poll()
    producer.flush()
    if commits is not None:
        commits.end()
    if options.json:
        summary = {"all": whole.summary(), "steady": steady and steady.summary()}
        return Output(json_line(summary))
    text = whole.total("")
    return Output(text if steady is None else text + steady.total(" steady state"))


def _maker(options: Namespace, rng: random.Random) -> Callable[[int], bytes]:
    """The function from the number of a record to its value."""
    payloads: list[bytes] = options.payloads
    if payloads:
        return lambda _number: payloads[rng.randrange(len(payloads))]
    if options.payload_monotonic:
        return lambda number: b"%d" % number
    size: int = options.record_size
    return lambda _number: rng.randbytes(size).translate(_LETTERS)


def _transactions(
    api: RecordsApi, options: Namespace, clock: Clock, rng: random.Random
) -> Transactions | None:
    """The transactions that the options ask for; their id is drawn if it is not given."""
    if not options.has_transactions:
        return None
    name = options.transactional_id or f"{ID_PREFIX}{rng.randbytes(16).hex()}"
    return Transactions(api, name, options.transaction_timeout_ms, clock)


class _Commits:
    """The transactions of a producer: one ends with the first record that comes late in it."""

    def __init__(self, producer: Producer, options: Namespace, clock: Clock) -> None:
        self._producer = producer
        self._clock = clock
        self._duration_ms: int = options.transaction_duration_ms or TRANSACTION_DURATION_MS
        self._start_ms: int | None = None
        self._send_ms = 0

    def begin(self) -> None:
        """Begin a transaction with the next record, if none is open."""
        self._send_ms = self._clock.now_ms()
        if self._start_ms is None:
            self._start_ms = self._send_ms

    def commit_if_due(self) -> None:
        """Commit if the record that was sent came late enough."""
        assert self._start_ms is not None, "a record is in a transaction"
        if self._send_ms - self._start_ms >= self._duration_ms:
            self.end()

    def end(self) -> None:
        """Commit the open transaction; without records since the last one there is none."""
        self._producer.commit()
        self._start_ms = None


class _Sent:
    """A record on its way."""

    def __init__(self, size_bytes: int, stats: list["Stats"], clock: Clock) -> None:
        self._size_bytes = size_bytes
        self._stats = stats
        self._clock = clock
        self._start_ms = clock.now_ms()

    def __call__(self, _record: Outgoing, end: Delivered | SendError) -> None:
        if isinstance(end, SendError):
            sys.stderr.write(f"{end}\n")
            return
        latency_ms = self._clock.now_ms() - self._start_ms
        for stats in self._stats:
            stats.record(latency_ms, self._size_bytes)


class Stats:
    """Counts and latencies of records, in all and since the last line."""

    def __init__(self, expected: int, interval_ms: int, clock: Clock) -> None:
        """Begin now; a line is printed each `interval_ms`."""
        self._clock = clock
        self._start_ms = self._window_start_ms = clock.now_ms()
        self._interval_ms = interval_ms
        self._sampling = max(1, expected // min(expected, _SAMPLES_MAX))
        self._latencies: list[int] = []
        self._all = [0, 0, 0, 0]
        """Records, bytes, sum of the latencies, the largest latency."""
        self._window = [0, 0, 0, 0]

    def record(self, latency_ms: int, size_bytes: int) -> None:
        """Count a record."""
        if self._all[0] % self._sampling == 0:
            self._latencies.append(latency_ms)
        for sums in (self._all, self._window):
            sums[0] += 1
            sums[1] += size_bytes
            sums[2] += latency_ms
            sums[3] = max(sums[3], latency_ms)
        if self._clock.now_ms() - self._window_start_ms >= self._interval_ms:
            self._print_window()

    def _print_window(self) -> None:
        count, size_bytes, latency_ms, latency_ms_max = self._window
        records, mib = self._rates(count, size_bytes, self._window_start_ms)
        sys.stdout.write(
            f"{count} records sent, {records:.1f} records/sec ({mib:.2f} MB/sec), "
            f"{latency_ms / count:.1f} ms avg latency, {latency_ms_max:.1f} ms max latency.\n"
        )
        sys.stdout.flush()
        self._window = [0, 0, 0, 0]
        self._window_start_ms = self._clock.now_ms()

    def _rates(self, count: int, size_bytes: int, start_ms: int) -> tuple[float, float]:
        """Records and MiB per second since a time."""
        elapsed_s = max(1, self._clock.now_ms() - start_ms) / 1000
        return count / elapsed_s, size_bytes / elapsed_s / _MIB

    def summary(self) -> dict[str, Any]:
        """The measured values by name."""
        count, size_bytes, latency_ms, latency_ms_max = self._all
        records, mib = self._rates(count, size_bytes, self._start_ms)
        found = sorted(self._latencies) or [0]
        return {
            "records": count,
            "records_per_second": records,
            "mib_per_second": mib,
            "latency_ms_average": latency_ms / max(1, count),
            "latency_ms_max": latency_ms_max,
            "latency_ms": {
                name: found[int(part * len(found))] for name, part in PERCENTILES.items()
            },
        }

    def total(self, kind: str) -> str:
        """The line about all records."""
        found = self.summary()
        shares = ", ".join(f"{ms} ms {name}" for name, ms in found["latency_ms"].items())
        return (
            f"{found['records']}{kind} records sent, {found['records_per_second']:f} records/sec "
            f"({found['mib_per_second']:.2f} MB/sec), {found['latency_ms_average']:.2f} ms avg "
            f"latency, {found['latency_ms_max']:.2f} ms max latency, {shares}.\n"
        )
