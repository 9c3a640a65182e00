"""Batches with many records to decode are checked over turns, and appended in one at the end."""

from typing import Any

import pytest

from broker.effects import Lane, RunWork
from broker.events import (
    ConnectionClosed,
    TimeAdvanced,
    WorkDone,
)
from storage.logs.log_validator import SLICE, SMALL_BYTES_MAX
from tests.broker.brokers import response
from tests.broker.large_produces import (
    COMPACTED,
    MANY,
    NONE,
    PAIR,
    TIME_MS,
    VERSION,
    batch,
    codes_of,
    ends,
    over_turns,
    produce,
    publish,
    rest,
    rows_of,
    sent,
    started,
    turn,
)
from tests.broker.metadata_log import A
from wire.api_keys import PRODUCE
from wire.batches.batch import iterate_batches
from wire.batches.compression import Codec
from wire.errors import ErrorCode


def test_a_batch_is_decoded_over_turns_and_appended_at_the_end() -> None:
    driven = started(1, **COMPACTED)
    effects = turn(driven, produce([(0, batch(MANY))]))
    assert ends(driven) == [0]
    turns, more = over_turns(driven, produce([(0, batch())], connection_id=2))
    assert turns >= 3
    assert rows_of(effects + more)[0].base_offset == 1, "another was appended meanwhile"
    assert ends(driven) == [MANY + 1]
    assert driven.broker.memory.used_bytes == 0


@pytest.mark.parametrize(
    ("count", "size", "topic", "is_large"),
    [
        (SLICE, 1, COMPACTED, False),
        (SLICE + 1, 1, COMPACTED, True),
        (SLICE + 1, 1, {}, False),
        (1, SMALL_BYTES_MAX - 73, COMPACTED, False),
        (1, SMALL_BYTES_MAX - 72, COMPACTED, True),
    ],
)
def test_what_takes_pieces(count: int, size: int, topic: Any, *, is_large: bool) -> None:
    driven = started(1, **PAIR, **topic)
    driven.metadata.register(2)
    driven.publish()
    request = produce([(0, batch(count, size))])
    driven.take_memory([request])
    effects = driven.broker.take([request], driven.now)
    calls = len(sent(effects))
    assert calls == 1 or driven.broker._front.is_busy
    key, given = (A, 0), next(iterate_batches(batch(count, size)))
    assert driven.broker._replicas.takes_pieces({key: given}) is is_large
    rest(driven)
    driven.metadata.change(0, leader=2)
    driven.publish()
    assert not driven.broker._replicas.takes_pieces({key: given}), "no leader refuses at once"
    assert not driven.broker._replicas.takes_pieces({(A, 9): given})


def test_records_without_a_key_are_refused_behind_the_last_piece() -> None:
    driven = started(1, **COMPACTED)
    effects = rest(driven, turn(driven, produce([(0, batch(MANY, key=None))])))
    row = rows_of(effects)[0]
    assert row.error_code is ErrorCode.invalid_record
    assert [each.batch_index for each in row.record_errors] == list(range(MANY))
    assert row.log_start_offset == 0
    assert ends(driven) == [0]


@pytest.mark.parametrize("codec_", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_batches_are_compressed_aside(codec_: Codec) -> None:
    driven = started(1, compression_type=codec_.name.lower())
    request = produce([(0, batch(MANY, 10))])
    done, works = turn(driven, request), []
    while not works:
        done += turn(driven, TimeAdvanced())
        works = [each for each in done if isinstance(each, RunWork)]
    assert [each.lane for each in works] == [Lane.CODEC]
    assert not driven.broker._turns.is_busy, "it waits for the work"
    works[0].work()
    assert rows_of(rest(driven, turn(driven, WorkDone(works[0].token, None))))[0].error_code is NONE
    log = driven.broker._replicas.partitions[A, 0].log
    assert log is not None
    (stored,) = iterate_batches(log.log.read(0, 1 << 20))
    assert (stored.header.codec, stored.crc_is_valid) == (codec_, True)
    assert [record.timestamp_ms for record in stored.records()] == [
        TIME_MS + n for n in range(MANY)
    ]


def test_batches_are_decompressed_aside() -> None:
    driven = started(1, compression_type="uncompressed")
    effects = turn(driven, produce([(0, batch(MANY, codec=Codec.GZIP))]))
    assert [each.lane for each in effects if isinstance(each, RunWork)] == [Lane.CODEC]
    assert rows_of(rest(driven, effects))[0].error_code is NONE
    assert ends(driven) == [MANY]


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_connection_waits_for_what_is_done_aside(*, is_closed: bool) -> None:
    driven = started(1, compression_type="uncompressed")
    first = turn(driven, produce([(0, batch(MANY, codec=Codec.GZIP))]))
    later = turn(driven, produce([(0, batch())]))
    if is_closed:
        turn(driven, ConnectionClosed(1))
    assert sent(later) == []
    assert ends(driven) == [0]
    effects = rest(driven, first)
    assert ends(driven) == [MANY + 1]
    assert is_closed or len(sent(effects)) == 2
    assert len(driven.broker._front) == (1 if is_closed else 2)
    assert driven.broker.memory.used_bytes == 0


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"leader": 2}, ErrorCode.not_leader_or_follower),
        (None, ErrorCode.unknown_topic_or_partition),
        ("disk", ErrorCode.kafka_storage_error),
    ],
)
def test_a_partition_that_goes_while_its_batch_is_decoded(change: Any, code: ErrorCode) -> None:
    driven = started(1, **PAIR, **COMPACTED)
    driven.metadata.register(2)
    driven.publish()
    effects = turn(driven, produce([(0, batch(MANY, key=None))]))
    if change == "disk":
        driven.broker._on_disk_failure((A, 0), OSError(5, "gone"))
    else:
        if change is None:
            driven.metadata.remove()
        else:
            driven.metadata.change(0, **change)
        effects += publish(driven)
    assert codes_of(rest(driven, effects)) == [code]


def test_settings_that_change_while_a_batch_is_decoded() -> None:
    driven = started(1, **COMPACTED)
    effects = turn(driven, produce([(0, batch(MANY, key=None))]))
    driven.metadata.config("a", cleanup_policy="delete", message_timestamp_type="LogAppendTime")
    effects = rest(driven, effects + publish(driven))
    assert codes_of(effects) == [NONE]


def test_the_time_of_an_append_is_that_of_the_last_piece() -> None:
    driven = started(1, **COMPACTED, message_timestamp_type="LogAppendTime")
    effects = turn(driven, produce([(0, batch(MANY))]))
    driven.now_ms += 70
    row = rows_of(rest(driven, effects))[0]
    assert row.log_append_time is not None
    log = driven.broker._replicas.partitions[A, 0].log
    assert log is not None
    (stored,) = iterate_batches(log.log.read(0, 1 << 20))
    assert stored.header.max_timestamp_ms == driven.now.wall_ms
    assert stored.crc_is_valid


def test_the_sequence_of_a_producer_is_checked_when_its_batch_is_appended() -> None:
    driven = started(1, **COMPACTED)
    fields = {"producer_id": 7, "producer_epoch": 0}
    first = batch(MANY, base_sequence=0, **fields)
    effects = turn(driven, produce([(0, first)]))
    effects += turn(driven, produce([(0, first)]))
    effects += turn(driven, produce([(0, batch(base_sequence=MANY, **fields))]))
    effects = rest(driven, effects)
    rows = [
        response(PRODUCE, VERSION, parts).responses[0].partition_responses[0]
        for parts in sent(effects)
    ]
    assert [(row.error_code, row.base_offset) for row in rows] == [
        (NONE, 0),
        (NONE, 0),
        (NONE, MANY),
    ]
    assert ends(driven) == [MANY + 1]
