"""Produces of many partitions or records, and a broker that does them turn by turn."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from broker.apis.records.produce import SMALL_MAX
from broker.effects import RunWork, SendParts
from broker.events import (
    Event,
    FramesReceived,
    ImagePublished,
    TimeAdvanced,
    WorkDone,
)
from network.turn_budget import TURN_UNITS_MAX
from replication.leader.appends import PIECE_UNITS
from storage.logs.log_validator import SLICE
from tests.broker.brokers import Driven, _error_of, response
from tests.broker.metadata_log import A
from tests.broker.test_replication import TOPIC_ID
from wire.api_keys import PRODUCE
from wire.batches.batch import RecordView
from wire.batches.produced_batch import produced_batch
from wire.errors import ErrorCode
from wire.messages import codec

COUNT = 6 * SMALL_MAX
MANY = 10 * SLICE
"""Records of a batch that is decoded over turns."""
VERSION = 13
NONE = ErrorCode.none
PAIR = {"replicas": (1, 2)}
TIME_MS = 1_000_000
COMPACTED = {"cleanup_policy": "compact"}


def started(count: int = COUNT, **fields: Any) -> Driven:
    driven = Driven()
    driven.metadata.topic(partitions=count, **fields)
    driven.start()
    for connection_id in (1, 2):
        driven.connect(connection_id)
    return driven


def batch(count: int = 1, size: int = 1, *, key: bytes | None = b"k", **fields: Any) -> bytes:
    records = [RecordView(n, TIME_MS + n, key, b"v" * size) for n in range(count)]
    return produced_batch(records, **fields)


def produce(
    batches: Iterable[tuple[int, bytes]],
    acks: int = 1,
    *,
    connection_id: int = 1,
    timeout_ms: int = 1_000,
) -> FramesReceived:
    new = codec.newest(PRODUCE, "request")
    rows = tuple(new.PartitionProduceData(index=number, records=data) for number, data in batches)
    topic = new.TopicProduceData(topic_id=TOPIC_ID, partition_data=rows)
    body = replace(
        codec.default_request(PRODUCE),
        acks=acks,
        timeout=timedelta(milliseconds=timeout_ms),
        topic_data=(topic,),
    )
    frame = codec.encode_request(PRODUCE, VERSION, 5, "client", body)
    return FramesReceived(connection_id, [bytearray(frame)])


def many(acks: int = 1, count: int = COUNT, **fields: Any) -> FramesReceived:
    """A batch for each partition."""
    return produce([(number, batch()) for number in range(count)], acks, **fields)


def turn(driven: Driven, *events: Event) -> list[Any]:
    """One turn alone, whose cost is bounded, and the end of its work; its effects."""
    driven.take_memory(events)
    effects = driven.broker.take(events, driven.now) + driven.broker.settle()
    assert driven.broker._budget.spent < TURN_UNITS_MAX + PIECE_UNITS + 100
    return effects


def rest(driven: Driven, effects: Iterable[Any] = ()) -> list[Any]:
    """Turns until nothing waits, in which work ends too; all effects."""
    done, new = list(effects), list(effects)
    while True:
        awaited = driven.broker._work._awaited._functions
        works = [each for each in new if isinstance(each, RunWork) and each.token in awaited]
        if not (works or driven.broker._turns.is_busy):
            return done
        ends = [WorkDone(each.token, _error_of(each)) for each in works]
        new = turn(driven, *(ends or [TimeAdvanced()]))
        done += new


def sent(effects: Iterable[Any], connection_id: int = 1) -> list[Any]:
    return [
        each.parts
        for each in effects
        if isinstance(each, SendParts) and each.connection_id == connection_id
    ]


def rows_of(effects: Iterable[Any]) -> dict[int, Any]:
    """Rows of the one answer."""
    (parts,) = sent(effects)
    (topic,) = response(PRODUCE, VERSION, parts).responses
    return {row.index: row for row in topic.partition_responses}


def codes_of(effects: Iterable[Any]) -> list[ErrorCode]:
    return [row.error_code for row in rows_of(effects).values()]


def ends(driven: Driven) -> list[int]:
    """End offsets of the logs."""
    hosted = driven.broker._replicas.partitions
    logs = (hosted[A, number].log for number in range(len(hosted)))
    return [0 if log is None else log.end_offset for log in logs]


def begun(driven: Driven, request: FramesReceived) -> list[Any]:
    """Turns until the first partitions are appended to, and not the last; their effects."""
    effects = turn(driven, request)
    while not any(ends(driven)):
        effects += turn(driven, TimeAdvanced())
    assert ends(driven)[-1] == 0
    return effects


def publish(driven: Driven) -> list[Any]:
    return turn(driven, ImagePublished(*driven.metadata.take()))


def over_turns(driven: Driven, request: FramesReceived) -> tuple[int, list[Any]]:
    """Number of turns of a request, and its effects."""
    done, count = turn(driven, request), 1
    while driven.broker._turns.is_busy:
        done += turn(driven, TimeAdvanced())
        count += 1
    return count, done
