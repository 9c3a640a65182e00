"""Producer of one client thread: one batch at a time, sent again until it is acknowledged.

With idempotence a batch keeps its producer id, epoch and sequence in all attempts. A batch that is
given up may be in the log or come there later, so that its sequence is not known: the producer
goes on with a new id.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from jepsen.clients import Refused
from jepsen.connections import CallError
from jepsen.records.brokers import NO_LEADER, Brokers, PartitionView
from jepsen.records.payload import content_of
from jepsen.records.requests import TopicPartition
from wire.batches.batch import RecordView
from wire.batches.compression import Codec
from wire.batches.produced_batch import produced_batch
from wire.errors import ErrorCode
from wire.types import Offset

DELIVERY_S: Final = 15.0
RETRY_S: Final = 0.1
DUPLICATE_SEQUENCE: Final = 46
NOT_APPENDED: Final = frozenset({10, 19, 45, 47, 59})
"""Refusals before the append: MESSAGE_TOO_LARGE, NOT_ENOUGH_REPLICAS, OUT_OF_ORDER_SEQUENCE_NUMBER,
INVALID_PRODUCER_EPOCH, UNKNOWN_PRODUCER_ID."""
RETRIABLE: Final = frozenset({-1, 2, 3, 5, 6, 7, 9, 13, 14, 15, 16, 19, 20, 56, 74, 75, 100})


class Acknowledged(NamedTuple):
    """Place of a batch; the offset is None of a duplicate, whose place the broker forgot."""

    base_offset: int | None
    leader_epoch: int
    attempts: int


class _Attempt(NamedTuple):
    """Outcome of a request: acknowledged, or the error with what it proves."""

    reason: str
    is_certain: bool = False
    """The batch was not appended by it."""
    is_last: bool = False
    """Sending it again is of no use."""
    is_acknowledged: bool = False
    base_offset: int | None = None


class GivenUp(Exception):  # noqa: N818  # not an error of the harness
    """A batch that nobody acknowledged.

    Attributes:
        reason: The last error.
        is_certain: True if it is in no log.
    """

    def __init__(self, reason: str, *, is_certain: bool) -> None:
        super().__init__(reason)
        self.reason: Final = reason
        self.is_certain: Final = is_certain


class Producer:
    """Appends batches with acks of all replicas in sync."""

    def __init__(self, brokers: Brokers, codec: Codec, *, is_idempotent: bool) -> None:
        self._brokers = brokers
        self._codec = codec
        self._is_idempotent = is_idempotent
        self._identity: tuple[int, int] | None = None if is_idempotent else (-1, -1)
        self._sequences: dict[TopicPartition, int] = {}
        self._views: dict[TopicPartition, PartitionView] = {}

    async def append(
        self, partition: TopicPartition, values: Sequence[int], timestamp_ms: int
    ) -> Acknowledged:
        """Append a batch of values.

        Raises:
            GivenUp: it was not acknowledged in time, or is refused for good.
        """
        until_s = asyncio.get_running_loop().time() + DELIVERY_S
        content: bytes | None = None
        is_certain, attempts = True, 0
        while True:
            try:
                if self._identity is None:
                    self._identity = await self._brokers.producer_id()
                if content is None:
                    content = self._encoded(partition, values, timestamp_ms, self._identity)
                view = await self._led(partition)
            except (CallError, Refused) as error:
                attempt = _Attempt(str(error), is_certain=True, is_last=False)
            else:
                attempts += 1
                attempt = await self._attempt(view, partition.number, content)
                if attempt.is_acknowledged:
                    known = self._sequences.get(partition, 0)
                    self._sequences[partition] = known + len(values)
                    return Acknowledged(attempt.base_offset, view.leader_epoch, attempts)
            is_certain = is_certain and attempt.is_certain
            self._views.pop(partition, None)
            if attempt.is_last or asyncio.get_running_loop().time() >= until_s:
                self._forget()
                raise GivenUp(f"{attempt.reason}, attempt {attempts}", is_certain=is_certain)
            await asyncio.sleep(RETRY_S)

    async def _attempt(self, view: PartitionView, number: int, content: bytes) -> "_Attempt":
        try:
            offset = await self._brokers.produce(view, number, content)
        except CallError as error:
            return _Attempt(error.reason, is_certain=not error.is_sent, is_last=False)
        except Refused as error:
            return _Attempt(
                f"refused: {error}",
                is_certain=error.code in NOT_APPENDED,
                is_last=error.code not in RETRIABLE,
                is_acknowledged=error.code == DUPLICATE_SEQUENCE,
            )
        base_offset = None if offset < 0 else offset
        return _Attempt("", is_acknowledged=True, base_offset=base_offset)

    async def _led(self, partition: TopicPartition) -> PartitionView:
        """View of a partition that has a leader; raises as `Brokers.views`."""
        if partition not in self._views:
            self._views = await self._brokers.views()
        view = self._views[partition]
        if view.leader_id == NO_LEADER:
            raise Refused(ErrorCode.leader_not_available.value)
        return view

    def _forget(self) -> None:
        if self._is_idempotent:
            self._identity = None
            self._sequences.clear()

    def _encoded(
        self,
        partition: TopicPartition,
        values: Sequence[int],
        timestamp_ms: int,
        identity: tuple[int, int],
    ) -> bytes:
        producer_id, producer_epoch = identity
        sequence = self._sequences.get(partition, 0) if self._is_idempotent else -1
        records = [
            RecordView(Offset(delta), timestamp_ms, None, content_of(value))
            for delta, value in enumerate(values)
        ]
        return produced_batch(
            records,
            self._codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=sequence,
        )
