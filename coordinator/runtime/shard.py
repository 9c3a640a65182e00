"""One partition that this broker coordinates: Kafka's CoordinatorContext as images.

Theory. `committed` is the image of the records below the high watermark, `image` that of all that
was decided; between them are the pending writes in the order of the log, each with the image after
it. Those that were not appended yet are the buffer, which leaves as one batch (`flush`, at the end
of a turn or when it is full). A failed append drops the buffer: `image` is the last one appended.

- INV-CO-1: pending writes are in the order of the log; their end offsets do not fall.
- INV-CO-2: a response leaves when all it was decided on is committed, once; a refusal at once.
- INV-CO-3: a shard that is not active has no pending write.

Source: apache/kafka: coordinator-common/.../runtime/CoordinatorRuntime.java
"""

from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import Final, Generic, TypeVar

from coordinator.records.codec import encode
from coordinator.records.schema import CoordinatorRecord, CoordinatorRecordError
from coordinator.runtime.batches import RECORD_OVERHEAD_BYTES, EncodedRecord, records_batch
from coordinator.runtime.machine import ImageT, Machine, ShardLog
from coordinator.runtime.write import (
    Applied,
    OnFailure,
    ProducerIdAndEpoch,
    Write,
    coordinator_error,
)
from network.clock import Clock
from storage.producers.verification import VerificationGuard
from wire.batches.batch import HEADER_BYTES, BatchHeader, RecordView
from wire.batches.compression import Codec
from wire.batches.control_records import ControlType, control_type
from wire.batches.transaction_markers import marker_batch
from wire.errors import ApiError, CorruptBatchError, ErrorCode
from wire.types import LeaderEpoch, Offset

PENDING_MAX: Final = 10_000
"""Limit of writes that wait for the high watermark; one more is COORDINATOR_NOT_AVAILABLE."""

R = TypeVar("R")
Answer = Callable[[R | ApiError], None]


class ShardState(Enum):
    """State of a shard (apache/kafka: CoordinatorRuntime.CoordinatorState)."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


class _Waiting:
    """A response that waits for the commit of the image before it."""

    __slots__ = ("answer", "deadline_ms", "is_answered", "on_failure")

    def __init__(
        self, answer: Callable[[ApiError | None], None], on_failure: OnFailure | None, due_ms: int
    ) -> None:
        self.answer = answer
        self.on_failure = on_failure
        self.deadline_ms = due_ms
        self.is_answered = False

    def succeed(self) -> None:
        if not self.is_answered:
            self.is_answered = True
            self.answer(None)

    def fail(self, code: ErrorCode, refused: ApiError) -> None:
        if not self.is_answered:
            self.is_answered = True
            if self.on_failure is not None:
                self.on_failure(code)
            self.answer(refused)


class _Pending(Generic[ImageT]):
    """Records up to `end_offset`, the image after them, and who waits for it."""

    __slots__ = ("end_offset", "image", "waiting")

    def __init__(self, end_offset: Offset, image: ImageT, waiting: list[_Waiting]) -> None:
        self.end_offset = end_offset
        self.image = image
        self.waiting = waiting


class Shard(Generic[ImageT]):
    """A partition from its election on.

    Args:
        machine: of this leadership.
        log: of the partition.
        clock: of the broker.
        epoch: of the leadership.
        timeout_ms: after which a write that is not committed is answered with an error.
        codec: of the batches (`offsets.topic.compression.codec`).
    """

    def __init__(
        self,
        machine: Machine[ImageT],
        log: ShardLog,
        clock: Clock,
        *,
        epoch: LeaderEpoch,
        timeout_ms: int,
        codec: Codec = Codec.NONE,
    ) -> None:
        assert timeout_ms > 0, f"{timeout_ms=}"
        self.machine = machine
        self.epoch = epoch
        self.clock = clock
        self.state = ShardState.LOADING
        self.image: ImageT = machine.empty
        """Image of all that was decided: writes are decided on it."""
        self.committed: ImageT = machine.empty
        """Image of what is below the high watermark: reads are answered from it."""
        self._loaded: _Pending[ImageT] | None = None
        """The end of what was loaded, until it is committed."""
        self._log = log
        self._timeout_ms = timeout_ms
        self._codec = codec
        self._pending: deque[_Pending[ImageT]] = deque()
        self._buffer: list[EncodedRecord] = []
        self._buffer_bytes = HEADER_BYTES
        self._buffer_waiting: list[_Waiting] = []
        self._waiting_count = 0
        self._deadlines: deque[_Waiting] = deque()

    # -- requests -------------------------------------------------------------------------------

    def refusal(self) -> ApiError | None:
        """The error of every request now; None if the shard takes them."""
        match self.state:
            case ShardState.ACTIVE:
                return None
            case ShardState.LOADING:
                return ApiError(ErrorCode.coordinator_load_in_progress)
            case ShardState.FAILED | ShardState.CLOSED:
                return ApiError(ErrorCode.not_coordinator)

    def read(self, find: Callable[[ImageT], R | ApiError], answer: Answer[R]) -> None:
        """Answer from the committed image, at once."""
        refused = self.refusal()
        answer(find(self.committed) if refused is None else refused)

    @property
    def known(self) -> ImageT:
        """Image of all that was loaded, and of what was committed since.

        A new leader's high watermark is behind what the leader before it acknowledged, for a
        moment: `committed` lacks that, and this does not.
        """
        return self.committed if self._loaded is None else self._loaded.image

    def read_known(self, find: Callable[[ImageT], R | ApiError], answer: Answer[R]) -> None:
        """Answer from the image of what is known, at once."""
        refused = self.refusal()
        answer(find(self.known) if refused is None else refused)

    def write(self, decide: Callable[[ImageT], Write[R] | ApiError], answer: Answer[R]) -> None:
        """Decide on the latest image; answer when that is committed, once.

        Args:
            decide: pure function of the image.
            answer: gets the response of the decision; or its refusal, at once; or
                COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR or UNKNOWN_SERVER_ERROR.
        """
        refused = self.refusal()
        if self._waiting_count >= PENDING_MAX:  # of an active shard
            refused = ApiError(ErrorCode.coordinator_not_available)
        decided = decide(self.image) if refused is None else refused
        if isinstance(decided, ApiError):
            answer(decided)
            return
        waiting = self._waiting(decided.response, answer, decided.on_failure)
        code = None
        records = decided.records
        units = (records,) if decided.is_atomic else tuple((record,) for record in records)
        for unit in units:
            if unit and code is None:
                code = self._take(unit, decided.producer)
        if code is not None:
            waiting.fail(code, coordinator_error(code))
            return
        self._wait_for_all(waiting)
        if decided.records and decided.producer is not None:
            self._flush(decided.producer, decided.guard)

    def complete_transaction(
        self,
        producer: ProducerIdAndEpoch,
        *,
        is_commit: bool,
        coordinator_epoch: int,
        answer: Answer[None],
        transaction_version: int = 0,
    ) -> None:
        """End the transaction of a producer in this partition by a marker of its own batch.

        The answer is None, or the error of the log as it is.
        """
        refused = self.refusal()
        if refused is not None:
            answer(refused)
            return
        self._flush(None)
        batch = marker_batch(
            producer.producer_id,
            producer.producer_epoch,
            is_commit=is_commit,
            coordinator_epoch=coordinator_epoch,
            timestamp_ms=self.clock.wall_ms,
        )
        end = self._log.append(batch, transaction_version=transaction_version)
        if isinstance(end, ErrorCode):
            answer(ApiError(end))
            return
        self.image = self.machine.apply_marker(
            self.image, producer.producer_id, is_commit=is_commit
        )
        self._append(end, [])
        self._wait_for_all(self._waiting(None, answer, None))

    def flush(self) -> None:
        """Append the buffer as one batch."""
        self._flush(None)

    def advance(self, high_watermark: Offset) -> None:
        """Commit what is below the high watermark and flushed, and answer who waited for it."""
        unflushed = self._log.unflushed_offset
        if unflushed is not None and unflushed < high_watermark:
            high_watermark = unflushed
        done: list[_Waiting] = []
        while self._pending and self._pending[0].end_offset <= high_watermark:
            pending = self._pending.popleft()
            self.committed = pending.image
            done += pending.waiting
        if self._loaded is not None and self._loaded.end_offset <= high_watermark:
            self._loaded = None
        self._waiting_count -= len(done)
        for waiting in done:
            waiting.succeed()

    # -- loading --------------------------------------------------------------------------------

    def replay(
        self, header: BatchHeader, records: Sequence[RecordView], *, high_watermark: Offset
    ) -> None:
        """Apply records of a batch of the log, in order; those above the watermark are pending.

        Records of a type that is not known are left out, as by Kafka.

        Args:
            header: of the batch.
            records: of it, all or a slice.
            high_watermark: of the partition, now.

        Raises:
            CoordinatorRecordError: a record cannot be read; the shard has failed.
            CorruptBatchError: nor can a marker; the same.
        """
        assert self.state is ShardState.LOADING, f"{self.state=}"
        try:
            if header.is_control:
                self._replay_markers(header, records)
            else:
                self._replay_records(header, records)
        except (CoordinatorRecordError, CorruptBatchError):
            self.fail()
            raise
        if records:
            self._append(Offset(records[-1].offset + 1), [])
            self.advance(high_watermark)

    def activate(self) -> None:
        """Take requests: the log is applied to its end. `advance` commits what of it is."""
        assert self.state is ShardState.LOADING, f"{self.state=}"
        self.state = ShardState.ACTIVE
        self._loaded = self._pending[-1] if self._pending else None
        self.machine.activated(self)

    def fail(self) -> None:
        """Refuse all: the log cannot be applied."""
        assert self.state is ShardState.LOADING, f"{self.state=}"
        self.state = ShardState.FAILED
        self._pending.clear()
        self.image = self.committed = self.machine.empty

    def resign(self) -> None:
        """Refuse all: this broker leads the partition no longer."""
        was_active = self.state is ShardState.ACTIVE
        self.state = ShardState.CLOSED
        dropped = [waiting for pending in self._pending for waiting in pending.waiting]
        dropped += self._buffer_waiting
        self._pending.clear()
        self._clear_buffer()
        self._waiting_count = 0
        self._deadlines.clear()
        self.image = self.committed
        for waiting in dropped:
            waiting.fail(ErrorCode.not_coordinator, ApiError(ErrorCode.not_coordinator))
        if was_active:
            self.machine.resigned()

    # -- time -----------------------------------------------------------------------------------

    def next_ms(self) -> int | None:
        """Instant of the next `tick`, None for none."""
        if self.state is not ShardState.ACTIVE:
            return None
        while self._deadlines and self._deadlines[0].is_answered:
            self._deadlines.popleft()
        due_ms = self.machine.next_ms()
        if not self._deadlines:
            return due_ms
        deadline_ms = self._deadlines[0].deadline_ms
        return deadline_ms if due_ms is None else min(deadline_ms, due_ms)

    def tick(self) -> None:
        """Answer writes whose time is over; what was appended of them stays. Run the machine."""
        if self.state is not ShardState.ACTIVE:
            return
        late = ErrorCode.request_timed_out
        while self._deadlines and (
            self._deadlines[0].is_answered or self._deadlines[0].deadline_ms <= self.clock.now_ms
        ):
            self._deadlines.popleft().fail(late, coordinator_error(late))
        due_ms = self.machine.next_ms()
        if due_ms is not None and due_ms <= self.clock.now_ms:
            self.machine.tick()

    @property
    def waiting_count(self) -> int:
        """Number of writes that wait for the high watermark."""
        return self._waiting_count

    # -- inside ---------------------------------------------------------------------------------

    def _waiting(self, response: R, answer: Answer[R], on_failure: OnFailure | None) -> _Waiting:
        due_ms = self.clock.now_ms + self._timeout_ms
        return _Waiting(partial(_respond, answer, response), on_failure, due_ms)

    def _wait_for_all(self, waiting: _Waiting) -> None:
        """Answer when everything that is pending now is committed."""
        if self._buffer:
            self._park(self._buffer_waiting, waiting)
        elif self._pending:
            self._park(self._pending[-1].waiting, waiting)
        else:
            waiting.succeed()

    def _park(self, list_: list[_Waiting], waiting: _Waiting) -> None:
        list_.append(waiting)
        self._deadlines.append(waiting)
        self._waiting_count += 1

    def _take(
        self, records: Sequence[CoordinatorRecord], producer: ProducerIdAndEpoch | None
    ) -> ErrorCode | None:
        """Apply records and put them behind the buffer, which is appended if there is no room.

        Returns:
            The error if no batch can hold them, or if what they were decided on is not appended.

        Raises:
            CoordinatorRecordError: the decision made a record that cannot be written, a bug.
        """
        wall_ms = self.clock.wall_ms
        encoded, size_bytes = [], len(records) * RECORD_OVERHEAD_BYTES
        for record in records:
            key, value = encode(record)
            size_bytes += len(key) if value is None else len(key) + len(value)
            encoded.append(EncodedRecord(key, value, wall_ms))
        bytes_max = self._log.batch_bytes_max
        if HEADER_BYTES + size_bytes > bytes_max:
            return ErrorCode.record_list_too_large
        if producer is not None or self._buffer_bytes + size_bytes > bytes_max:
            code = self._flush(None)
            if code is not None:
                return code
        base_offset = self._log.end_offset + len(self._buffer)
        producer_id = None if producer is None else producer.producer_id
        placed = [
            (record, Applied(Offset(offset), wall_ms, producer_id))
            for offset, record in enumerate(records, base_offset)
        ]
        self.image = self.machine.apply(self.image, placed)
        if not self._buffer:
            self._log.buffered()
        self._buffer += encoded
        self._buffer_bytes += size_bytes
        return None

    def _flush(
        self, producer: ProducerIdAndEpoch | None, guard: VerificationGuard | None = None
    ) -> ErrorCode | None:
        if not self._buffer:
            return None
        batch = records_batch(self._buffer, producer, self._codec)
        waiting = self._buffer_waiting
        self._clear_buffer()
        end = self._log.append(batch, guard=guard)
        if not isinstance(end, ErrorCode):
            self._append(end, waiting)
            return None
        self.image = self._pending[-1].image if self._pending else self.committed
        self._waiting_count -= len(waiting)
        refused = coordinator_error(end)
        for each in waiting:
            each.fail(end, refused)
        return end

    def _append(self, end: Offset, waiting: list[_Waiting]) -> None:
        assert not self._pending or end > self._pending[-1].end_offset, f"{end=}"
        self._pending.append(_Pending(end, self.image, waiting))

    def _clear_buffer(self) -> None:
        self._buffer = []
        self._buffer_waiting = []
        self._buffer_bytes = HEADER_BYTES

    def _replay_markers(self, header: BatchHeader, records: Sequence[RecordView]) -> None:
        for view in records:
            kind = control_type(view.key)
            if kind in (ControlType.COMMIT, ControlType.ABORT):
                is_commit = kind is ControlType.COMMIT
                self.image = self.machine.apply_marker(
                    self.image, header.producer_id, is_commit=is_commit
                )

    def _replay_records(self, header: BatchHeader, records: Sequence[RecordView]) -> None:
        producer_id = header.producer_id if header.is_transactional else None
        self.image = self.machine.replay(self.image, records, producer_id)


def _respond(answer: Answer[R], response: R, refused: ApiError | None) -> None:
    answer(response if refused is None else refused)
