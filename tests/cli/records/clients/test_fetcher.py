"""The blocking fetcher: positions, markers, aborted transactions, errors."""

import random
import time
from pathlib import Path
from typing import Any

import pytest

from cli.kafka_errors import message_of
from cli.records.clients.clock import SYSTEM
from cli.records.clients.fetcher import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    Fetcher,
    FetcherConfig,
    FetchError,
)
from cli.records.clients.offsets import EARLIEST, LATEST, READ_COMMITTED
from cli.records.clients.producer import Outgoing, Producer, ProducerConfig
from cli.records.clients.topic_metadata import NO_LEADER, Partition
from tests.cli.records.broker import FETCH, LIST_OFFSETS, METADATA, Broker, Log
from tests.cli.records.recorded_topics import COMMIT, COMMITTED, in_transaction, mark
from wire.batches.compression import Codec

T0 = Partition("t", 0)
LEGACY = Path(__file__).resolve().parents[3] / "golden" / "storage" / "legacy-log"


def fetcher(broker: Broker, **config: Any) -> Fetcher:
    return Fetcher(broker, FetcherConfig(**config), broker.clock)


def log_of(*values: bytes) -> Log:
    log = Log()
    for value in values:
        log.append(value)
    return log


def read(made: Fetcher, timeout_ms: int = 1000) -> list[tuple[int, bytes | None]]:
    return [(int(f.record.offset), f.record.value) for f in made.poll(timeout_ms)]


def test_records_below_the_position_are_left_out() -> None:
    broker = Broker(t=1)
    broker.topics["t"].logs[0].append(b"a", b"b", b"c")
    made = fetcher(broker)
    made.assign(T0, 1)
    assert read(made) == [(1, b"b"), (2, b"c")]
    assert made.positions == {T0: 3}


def test_positions_go_on_and_an_empty_poll_takes_its_time() -> None:
    broker = Broker(t=[log_of(b"a", b"b", b"c")])
    broker.batches_max = 2
    made = fetcher(broker)
    made.assign(T0, EARLIEST)
    assert read(made) == [(0, b"a"), (1, b"b")]
    assert read(made) == [(2, b"c")]
    assert broker.clock.now_ms() == 0
    assert read(made, 1200) == []
    assert broker.clock.now_ms() == 1200
    waits = [round(body.max_wait.total_seconds() * 1000) for k, body in broker.asked if k == FETCH]
    assert waits == [500, 500, 500, 500, 200]
    broker.topics["t"].logs[0].append(b"d")
    assert read(made) == [(3, b"d")]


def test_the_end_is_looked_up_once() -> None:
    broker = Broker(t=[log_of(b"a")])
    made = fetcher(broker)
    made.assign(T0, LATEST)
    assert read(made, 0) == []
    broker.topics["t"].logs[0].append(b"b")
    assert read(made) == [(1, b"b")]
    assert [key for key, _ in broker.asked].count(LIST_OFFSETS) == 1


def test_all_partitions_take_turns() -> None:
    broker = Broker(t=[log_of(b"a", b"b"), log_of(b"c"), Log()])
    broker.batches_max = 1
    made = fetcher(broker)
    for number in range(3):
        made.assign(Partition("t", number), 0)
    assert read(made) == [(0, b"a"), (0, b"c")]
    assert read(made) == [(1, b"b")]
    last = [p.partition for t in broker.asked[-1][1].topics for p in t.partitions]
    assert last == [2, 0, 1]


@pytest.mark.parametrize(("reset", "expected"), [(EARLIEST, [(0, b"a")]), (LATEST, [])])
def test_a_position_out_of_range(reset: int, expected: list[tuple[int, bytes]]) -> None:
    broker = Broker(t=[log_of(b"a")])
    made = fetcher(broker, reset_to=reset)
    made.assign(T0, 99)
    assert read(made, 600) == expected
    assert made.positions == {T0: 1}


def test_a_position_out_of_range_without_a_policy() -> None:
    broker = Broker(t=[log_of(b"a")])
    made = fetcher(broker, reset_to=None)
    made.assign(T0, 99)
    with pytest.raises(FetchError, match="Fetch position 99 is out of range for partition t-0"):
        made.poll(0)


def transactions() -> Log:
    log = Log()
    in_transaction(log, COMMITTED, b"a")
    in_transaction(log, 5, b"b")
    mark(log, COMMIT, COMMITTED)
    mark(log, b"\0\0\0\0", 5)
    in_transaction(log, 5, b"c")
    mark(log, COMMIT, 5)
    log.append(b"d")
    in_transaction(log, 6, b"e")
    log.aborted, log.stable = ((5, 1, 3),), 7
    return log


def test_markers_are_hidden_and_aborted_records_from_who_asks_for_committed_ones() -> None:
    everything = [(0, b"a"), (1, b"b"), (4, b"c"), (6, b"d"), (7, b"e")]
    for config, expected in (
        ({}, everything),
        ({"isolation_level": READ_COMMITTED}, [(0, b"a"), (4, b"c"), (6, b"d")]),
    ):
        broker = Broker(t=[transactions()])
        made = fetcher(broker, **config)
        made.assign(T0, EARLIEST)
        assert read(made) == expected
    made.assign(T0, LATEST)
    assert read(made, 0) == []
    assert made.positions == {T0: 7}, "the last stable offset"


def test_a_poll_of_nothing_but_markers_moves_on() -> None:
    log = Log()
    mark(log, COMMIT, 5)
    log.append(b"a")
    broker = Broker(t=[log])
    broker.batches_max = 1
    made = fetcher(broker)
    made.assign(T0, 0)
    assert read(made) == [(1, b"a")]


@pytest.mark.parametrize("code", [3, 6, 7, 56, 74, 100])
def test_an_error_that_passes(code: int) -> None:
    broker = Broker(t=[log_of(b"a")])
    broker.errors = [(FETCH, code)]
    made = fetcher(broker)
    made.assign(T0, 0)
    assert read(made) == [(0, b"a")]
    assert broker.clock.now_ms() == 100
    assert [key for key, _ in broker.asked].count(METADATA) == 2, "looked for the leader again"


def test_a_connection_that_breaks() -> None:
    broker = Broker(t=[log_of(b"a")])
    broker.lost_answers = 2
    made = fetcher(broker)
    made.assign(T0, 0)
    assert read(made) == [(0, b"a")]
    assert broker.clock.now_ms() == 100 + 200


def test_an_error_that_stays() -> None:
    broker = Broker(t=1)
    broker.errors = [(FETCH, 29)]
    made = fetcher(broker)
    made.assign(T0, 0)
    with pytest.raises(FetchError) as error:
        made.poll(0)
    assert str(error.value) == f"{message_of(29)} (t-0)"


def test_no_leader_for_a_while() -> None:
    log = log_of(b"a")
    log.leader = NO_LEADER
    broker = Broker(t=[log])
    made = fetcher(broker)
    made.assign(T0, 0)
    assert read(made, 250) == []
    assert broker.clock.now_ms() == 250
    log.leader = 1
    assert read(made) == [(0, b"a")]


def test_a_damaged_batch_is_told_after_the_records_before_it() -> None:
    log = log_of(b"a", b"b")
    log.batches[1] = log.batches[1][:-1] + b"\1"
    made = fetcher(Broker(t=[log]))
    made.assign(T0, 0)
    assert read(made) == [(0, b"a")]
    with pytest.raises(FetchError, match=r"record from t-0. If needed, .* the checksum differs"):
        made.poll(0)


@pytest.mark.parametrize("codec", Codec)
def test_records_of_the_producer(codec: Codec) -> None:
    broker = Broker(t=1)
    config = ProducerConfig(codec=codec)
    made = Producer(broker, config, broker.clock, random.Random(1))
    headers = (("h", b"1"), ("h", None))
    made.send(Outgoing("t", None, b"v", headers, timestamp_ms=7), lambda *_: None)
    made.flush()
    reading = fetcher(broker)
    reading.assign(T0, EARLIEST)
    (found,) = reading.poll(0)
    record = found.record
    assert (found.partition, found.timestamp_type) == (T0, CREATE_TIME)
    assert (record.key, record.value, record.headers, record.timestamp_ms) == (
        None, b"v", headers, 7,
    )  # fmt: skip


def test_the_time_of_the_broker() -> None:
    log = Log()
    log.append(b"a", attributes=8, max_timestamp_ms=99)
    made = fetcher(Broker(t=[log]))
    made.assign(T0, 0)
    (found,) = made.poll(0)
    assert (found.timestamp_type, found.record.timestamp_ms) == (LOG_APPEND_TIME, 99)


def test_old_messages() -> None:
    (folder,) = LEGACY.glob("v0-none*")
    log = Log(old_messages=next(folder.glob("*.log")).read_bytes())
    broker = Broker(t=[log])
    made = fetcher(broker)
    made.assign(T0, 1)
    found = made.poll(0)
    assert {f.timestamp_type for f in found} == {NO_TIMESTAMP}
    assert [int(f.record.offset) for f in found] == list(range(1, len(found) + 1))
    assert made.positions == {T0: len(found) + 1}


def test_an_old_broker() -> None:
    broker = Broker(t=1)
    broker.versions[FETCH] = 12
    made = fetcher(broker)
    made.assign(T0, 0)
    with pytest.raises(FetchError, match="does not know Fetch 13"):
        made.poll(0)


def test_the_clocks_of_the_system() -> None:
    assert abs(SYSTEM.wall_ms() - time.time_ns() / 1e6) < 60_000
    assert abs(SYSTEM.now_ms() - time.monotonic_ns() / 1e6) < 60_000
