"""A producer that commits one small transaction after the other, in either protocol."""

import asyncio
import struct
import time
from typing import Final, NamedTuple

from crc32c import crc32c

from benchmarks.coordinators.session import (
    RefusedError,
    Session,
    framed,
    milliseconds,
    schema,
    until_served,
)
from wire.api_keys import ADD_PARTITIONS_TO_TXN, END_TXN, INIT_PRODUCER_ID, PRODUCE
from wire.batches.batch import TRANSACTIONAL_BIT, BatchHeader, RecordView, encode_records
from wire.types import LeaderEpoch, Offset

TRANSACTION_MS: Final = 60_000
CONCURRENT_TRANSACTIONS: Final = 51
RETRY_S: Final = 0.002
_PRODUCER: Final = struct.Struct(">qh")
"""Id and epoch of a producer: neighbours in each of the requests and in the head of a batch."""
_MARK: Final = (0x5A5A_A5A5_5A5A_A5A5, 0x5AA5)
"""Stand for them in requests that are encoded once."""
_SEQUENCE: Final = struct.Struct(">i")
_CRC: Final = struct.Struct(">I")
_PRODUCER_IN_BATCH: Final = 43
_CRC_IN_BATCH: Final = 17
_HEADER_BYTES: Final = 5
_THROTTLE_BYTES: Final = 4
_ERROR: Final = struct.Struct(">h")
TAGS_BEHIND_BATCH: Final = 3
"""Bytes behind the batch: no tagged fields of partition, topic and request."""


class Protocol(NamedTuple):
    """Versions of Produce and EndTxn; AddPartitionsToTxn is asked for, or Produce does it."""

    produce: int
    end_txn: int
    has_partitions: bool


PROTOCOLS: Final = {
    "tv2": Protocol(produce=12, end_txn=5, has_partitions=False),
    "tv1": Protocol(produce=11, end_txn=4, has_partitions=True),
}


class Template:
    """A request that is encoded once, with the place of the producer's id and epoch."""

    def __init__(self, frame: bytes) -> None:
        self._frame = bytearray(frame)
        mark = _PRODUCER.pack(*_MARK)
        self._at = frame.index(mark)
        assert frame.count(mark) == 1, "one place"

    def of(self, producer_id: int, epoch: int) -> bytes:
        """The request of a producer."""
        _PRODUCER.pack_into(self._frame, self._at, producer_id, epoch)
        return bytes(self._frame)

    def with_batch(self, producer_id: int, epoch: int, sequence: int, end: int) -> bytes:
        """The Produce of a producer; its batch ends `end` bytes before the request does."""
        _PRODUCER.pack_into(self._frame, self._at, producer_id, epoch)
        _SEQUENCE.pack_into(self._frame, self._at + _PRODUCER.size, sequence)
        crc_at = self._at - _PRODUCER_IN_BATCH + _CRC_IN_BATCH
        covered = memoryview(self._frame)[crc_at + _CRC.size : len(self._frame) - end]
        _CRC.pack_into(self._frame, crc_at, crc32c(covered))
        return bytes(self._frame)


class TransactionalProducer:
    """A producer with a connection to its coordinator and one to the leader of its partition."""

    def __init__(
        self,
        sessions: tuple[Session, Session],
        transactional_id: str,
        partition: tuple[str, int],
        protocol: Protocol,
        value: bytes,
    ) -> None:
        self.early_count = 0
        """Requests that were asked again: the transaction before was not complete."""
        self._coordinator, self._leader = sessions
        self._id = transactional_id
        self._topic, self._number = partition
        self._protocol = protocol
        self._producer_id = self._epoch = -1
        self._sequence = 0
        self.end = self._end_template()
        self.add = self._add_template()
        self.produce = self._produce_template(value)
        name_bytes = 1 + len(self._topic)
        self._add_error_at = _HEADER_BYTES + _THROTTLE_BYTES + 1 + name_bytes + 1 + 4
        self._produce_error_at = _HEADER_BYTES + 1 + name_bytes + 1 + 4
        self._end_error_at = _HEADER_BYTES + _THROTTLE_BYTES

    async def init(self) -> None:
        """Get an id."""
        request = schema(INIT_PRODUCER_ID).InitProducerIdRequest(
            transactional_id=self._id, transaction_timeout=milliseconds(TRANSACTION_MS)
        )
        answer = await until_served(
            self._coordinator, INIT_PRODUCER_ID, request, lambda found: found.error_code
        )
        self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch

    async def commit_until(self, until: float) -> list[float]:
        """Commit transactions until an instant of `time.perf_counter`; seconds of each."""
        took = []
        while (begin := time.perf_counter()) < until:
            await self.commit()
            took.append(time.perf_counter() - begin)
        return took

    async def commit(self) -> None:
        """One transaction of one record."""
        who = self._producer_id, self._epoch
        if self._protocol.has_partitions:
            await _again(self, self._coordinator, self.add.of(*who), self._add_error_at)
        produce = self.produce.with_batch(*who, self._sequence, end=TAGS_BEHIND_BATCH)
        await _again(self, self._leader, produce, self._produce_error_at)
        self._sequence += 1
        answer = await _again(self, self._coordinator, self.end.of(*who), self._end_error_at)
        if not self._protocol.has_partitions:  # EndTxn 5 gives the epoch of the next transaction
            self._producer_id, self._epoch = _PRODUCER.unpack_from(answer, self._end_error_at + 2)
            self._sequence = 0

    def _end_template(self) -> Template:
        version = self._protocol.end_txn
        request = schema(END_TXN, version).EndTxnRequest(
            transactional_id=self._id,
            producer_id=_MARK[0],
            producer_epoch=_MARK[1],
            committed=True,
        )
        return Template(framed(END_TXN, request, version))

    def _add_template(self) -> Template:
        new = schema(ADD_PARTITIONS_TO_TXN)
        topic = new.AddPartitionsToTxnTopic(name=self._topic, partitions=(self._number,))
        request = new.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=_MARK[0],
            v3_and_below_producer_epoch=_MARK[1],
            v3_and_below_topics=(topic,),
        )
        return Template(framed(ADD_PARTITIONS_TO_TXN, request))

    def _produce_template(self, value: bytes) -> Template:
        version, now_ms = self._protocol.produce, time.time_ns() // 1_000_000
        new = schema(PRODUCE, version)
        header = BatchHeader(
            base_offset=Offset(0),
            leader_epoch=LeaderEpoch(-1),
            attributes=TRANSACTIONAL_BIT,
            last_offset_delta=0,
            base_timestamp_ms=now_ms,
            max_timestamp_ms=now_ms,
            producer_id=_MARK[0],
            producer_epoch=_MARK[1],
            base_sequence=0,
            records_count=1,
        )
        records = encode_records(header, [RecordView(Offset(0), now_ms, None, value)])
        partition = new.PartitionProduceData(index=self._number, records=records)
        request = new.ProduceRequest(
            transactional_id=self._id,
            acks=-1,
            timeout=milliseconds(TRANSACTION_MS),
            topic_data=(new.TopicProduceData(name=self._topic, partition_data=(partition,)),),
        )
        frame = framed(PRODUCE, request, version)
        assert frame.endswith(bytes(records) + bytes(TAGS_BEHIND_BATCH)), "only tags behind it"
        return Template(frame)


async def _again(
    producer: TransactionalProducer, session: Session, frame: bytes, error_at: int
) -> bytes:
    """Ask until the transaction before is complete; returns the answer."""
    while True:
        answer = await session.ask_raw(frame)
        (code,) = _ERROR.unpack_from(answer, error_at)
        if not code:
            return answer
        if code != CONCURRENT_TRANSACTIONS:
            raise RefusedError(f"error {code} to a request of {len(frame)} bytes")
        producer.early_count += 1
        await asyncio.sleep(RETRY_S)
