"""Protocols on both sides of a shard: the coordinator that it runs, the log that it writes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from coordinator.records.kinds import Kinds
from coordinator.records.schema import CoordinatorRecord
from coordinator.runtime.write import Applied
from storage.producers.verification import VerificationGuard
from wire.batches.batch import Batch, RecordView
from wire.errors import ErrorCode
from wire.types import Offset

if TYPE_CHECKING:
    from coordinator.runtime.shard import Shard

ImageT = TypeVar("ImageT")


class ShardLog(Protocol):
    """The log of a led partition of a coordinator's topic."""

    @property
    def end_offset(self) -> Offset:
        """Offset of the next record."""

    @property
    def batch_bytes_max(self) -> int:
        """`max.message.bytes` of the topic."""

    @property
    def unflushed_offset(self) -> Offset | None:
        """First offset that waits for a flush which `flush.messages` asked for; None without one.

        What is at or above it is not committed yet, whatever the high watermark.
        """

    def append(
        self, batch: Batch, *, guard: VerificationGuard | None = None, transaction_version: int = 0
    ) -> Offset | ErrorCode:
        """Append a batch as leader, without waiting for replicas.

        Args:
            batch: at offset 0, in a buffer of its own.
            guard: of the verification of a transaction that the batch is part of.
            transaction_version: of the client whose transaction the batch ends.

        Returns:
            The end offset, or the error with which nothing was appended. The shard is told of the
            high watermark by `Shard.advance`, not from inside this call.
        """

    def buffered(self) -> None:
        """Flush the shard at the end of the turn: it has records that are not appended."""


class Machine(Protocol[ImageT]):
    """A coordinator of one partition: the meaning of its records, its soft state, its timers.

    A machine is made for one leadership. `kinds` are the types of records that it knows, `empty`
    the image before the first.
    """

    kinds: Kinds
    empty: ImageT

    def apply(self, image: ImageT, records: Sequence[tuple[CoordinatorRecord, Applied]]) -> ImageT:
        """The image after records, in order: their only meaning, for writes and for loading."""

    def replay(self, image: ImageT, views: Sequence[RecordView], producer_id: int | None) -> ImageT:
        """The image after records of a batch of the log: what `apply` makes of them decoded.

        Args:
            image: before them.
            views: as they are in the log; those of a type that is not known are left out.
            producer_id: of the transaction that they are part of; None if they are of none.

        Raises:
            CoordinatorRecordError: one cannot be read, or not be applied.
        """

    def apply_marker(self, image: ImageT, producer_id: int, *, is_commit: bool) -> ImageT:
        """The image after the end of a producer's transaction."""

    def activated(self, shard: "Shard[ImageT]") -> None:
        """Make soft state anew from `shard.image`: the partition is loaded."""

    def resigned(self) -> None:
        """Forget soft state; waiting requests are answered NOT_COORDINATOR."""

    def next_ms(self) -> int | None:
        """Instant (monotonic ms) of the next `tick`, None for none."""

    def tick(self) -> None:
        """Do what is due."""

    def look(self, units: int) -> int:
        """Go on to count what the committed image has; the units that are left, at least 0."""
