"""Target: a whole broker of records, on a disk in memory, that anybody may connect to.

No request, however odd, ends it, and each has its end: an answer, a refusal, a close. The broker
lives on from case to case, so that odd requests meet what earlier ones left behind; after some
hundreds it is replaced by a new one. A failure is repeated by the bytes alone only where it does
not depend on what came before; then `--seed` and `--cases` repeat it.
"""

import struct
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

from broker.effects import Effect, SendParts
from broker.events import ConnectionClosed, ConnectionOpened, FramesReceived, TimeAdvanced
from storage.segments.file_slice import FileSlice
from tests.broker.brokers import Driven
from tests.broker.fronts import LISTENER
from tests.fuzz.engine import Target
from tests.wire.messages import test_fetch_request, test_produce
from wire.api_keys import (
    DELETE_RECORDS,
    DESCRIBE_LOG_DIRS,
    DESCRIBE_PRODUCERS,
    FETCH,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
)
from wire.batches.batch import BatchHeader, RecordView, encode_records
from wire.messages import codec, fetch_request, produce
from wire.types import LeaderEpoch, Offset

CASES_PER_BROKER = 400
QUIET_MS = 7
TOPICS = ("a", "b")
PARTITIONS = 3
FLEXIBLE_FROM = {PRODUCE: 9, FETCH: 12}
VERSIONS = {
    LIST_OFFSETS: range(1, 12), DELETE_RECORDS: range(3), INIT_PRODUCER_ID: range(6),
    OFFSET_FOR_LEADER_EPOCH: range(2, 5), DESCRIBE_LOG_DIRS: range(1, 6),
    DESCRIBE_PRODUCERS: range(1),
}  # fmt: skip
NUMBERS = (-(2**31), -2, -1, 0, 1, 2, 3, 7, 2**31 - 1)
OFFSETS = (-(2**63), -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 10, 2**63 - 1)


class UnderFire:
    """A broker, and the answers that it owes."""

    def __init__(self) -> None:
        self._driven: Driven | None = None
        self._cases = 0

    def receive(self, data: bytes) -> int:
        """A request without its length, on a connection of its own; number of the answers."""
        driven = self._ready()
        self._cases += 1
        number = self._cases
        driven.step(ConnectionOpened(number, LISTENER, "127.0.0.1"))
        effects = driven.step(FramesReceived(number, [bytearray(data)]))
        for _ in range(3):
            driven.now_ms += QUIET_MS
            effects += driven.step(TimeAdvanced())
        effects += driven.step(ConnectionClosed(number))
        return _read(effects)

    def _ready(self) -> Driven:
        if self._driven is None or self._cases >= CASES_PER_BROKER:
            driven = Driven()
            for name in TOPICS:
                driven.metadata.topic(
                    name, topic_id=test_produce.topic_id(name).bytes, partitions=PARTITIONS
                )
            driven.metadata.config("b", cleanup_policy="compact", compression_type="gzip")
            driven.start()
            self._driven, self._cases = driven, 0
        return self._driven


def _read(effects: list[Effect]) -> int:
    """Read what is sent, as a driver does, and count it."""
    sent = [each for each in effects if isinstance(each, SendParts)]
    for each in sent:
        for part in each.parts:
            if isinstance(part, FileSlice):
                part.read()
                part.close()
    return len(sent)


# ---- requests that reach the handlers --------------------------------------------------------


def _frame(rng: Random) -> bytes:
    key = rng.choice((PRODUCE, PRODUCE, FETCH, FETCH, *VERSIONS))
    if key not in VERSIONS:
        return _by_hand(key, rng)
    body = {
        LIST_OFFSETS: _list_offsets, DELETE_RECORDS: _delete_records,
        OFFSET_FOR_LEADER_EPOCH: _leader_epochs, DESCRIBE_PRODUCERS: _producers,
        DESCRIBE_LOG_DIRS: _log_dirs,
    }.get(key, lambda _: codec.default_request(key))(rng)  # fmt: skip
    return codec.encode_request(key, rng.choice(VERSIONS[key]), 1, "c", body)


def _by_hand(key: int, rng: Random) -> bytes:
    if key == PRODUCE:
        version = rng.randrange(produce.VERSION_MIN, produce.VERSION_MAX + 1)
        topics = {name: [(rng.randrange(4), _batch(rng))] for name in _names(rng)}
        body = test_produce.request_bytes(version, None, rng.choice((-1, 0, 1)), 5, topics)
    else:
        version = rng.randrange(fetch_request.VERSION_MIN, fetch_request.VERSION_MAX + 1)
        rows = {
            name: [
                fetch_request.RequestedPartition(
                    topic="", partition=rng.randrange(4), fetch_offset=rng.choice(OFFSETS),
                    max_bytes=rng.choice(NUMBERS), current_leader_epoch=rng.choice((-1, 0, 1)),
                )
            ]
            for name in _names(rng)
        }  # fmt: skip
        values = {"max_wait_ms": rng.choice((0, 5, 2**31 - 1)), "max_bytes": rng.choice(NUMBERS)}
        body = test_fetch_request.request_bytes(version, rows, None, **values)
    header = struct.pack(">hhih", key, version, 1, 1) + b"c"
    return header + (b"\0" if version >= FLEXIBLE_FROM[key] else b"") + body


def _batch(rng: Random) -> bytes:
    count = rng.randrange(1, 4)
    producer_id = rng.choice((-1, 5))
    header = BatchHeader(
        base_offset=Offset(0),
        leader_epoch=LeaderEpoch(-1),
        attributes=rng.randrange(5),
        last_offset_delta=count - 1,
        base_timestamp_ms=1_000_000,
        max_timestamp_ms=1_000_000,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=rng.randrange(3) if producer_id >= 0 else -1,
        records_count=count,
    )
    records = [RecordView(Offset(n), 1_000_000, b"k", rng.randbytes(9)) for n in range(count)]
    return encode_records(header, records)


def _names(rng: Random) -> list[str]:
    return rng.sample((*TOPICS, "none"), rng.randrange(1, 3))


def _new(key: int) -> Any:
    return codec.newest(key, "request")


def _list_offsets(rng: Random) -> Any:
    new = _new(LIST_OFFSETS)
    topics = tuple(
        new.ListOffsetsTopic(
            name=name,
            partitions=(
                new.ListOffsetsPartition(
                    partition_index=rng.randrange(4), timestamp=rng.choice(OFFSETS)
                ),
            ),
        )
        for name in _names(rng)
    )
    return replace(codec.default_request(LIST_OFFSETS), replica_id=-1, topics=topics)


def _delete_records(rng: Random) -> Any:
    new = _new(DELETE_RECORDS)
    topics = tuple(
        new.DeleteRecordsTopic(
            name=name,
            partitions=(
                new.DeleteRecordsPartition(
                    partition_index=rng.randrange(4), offset=rng.choice(OFFSETS)
                ),
            ),
        )
        for name in _names(rng)
    )
    return replace(codec.default_request(DELETE_RECORDS), topics=topics)


def _leader_epochs(rng: Random) -> Any:
    new = _new(OFFSET_FOR_LEADER_EPOCH)
    topics = tuple(
        new.OffsetForLeaderTopic(
            topic=name,
            partitions=(
                new.OffsetForLeaderPartition(
                    partition=rng.randrange(4), leader_epoch=rng.choice(NUMBERS)
                ),
            ),
        )
        for name in _names(rng)
    )
    return replace(codec.default_request(OFFSET_FOR_LEADER_EPOCH), topics=topics)


def _producers(rng: Random) -> Any:
    new = _new(DESCRIBE_PRODUCERS)
    topics = tuple(
        new.TopicRequest(name=name, partition_indexes=(rng.randrange(4),)) for name in _names(rng)
    )
    return replace(codec.default_request(DESCRIBE_PRODUCERS), topics=topics)


def _log_dirs(rng: Random) -> Any:
    new = _new(DESCRIBE_LOG_DIRS)
    topics = tuple(
        new.DescribableLogDirTopic(topic=name, partitions=(rng.randrange(4),))
        for name in _names(rng)
    )
    return replace(codec.default_request(DESCRIBE_LOG_DIRS), topics=rng.choice((None, topics)))


@cache
def _seeds() -> tuple[bytes, ...]:
    rng = Random(1)
    return tuple(_frame(rng) for _ in range(40))


def targets() -> list[Target]:
    """All of this file."""
    return [
        Target(
            "broker", _seeds(), UnderFire().receive, (), None, _frame,
            cpu_seconds_max=1.0, weight=0.4,
        ),
    ]  # fmt: skip
