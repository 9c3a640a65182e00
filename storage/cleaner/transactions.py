"""The transactions that a cleaner meets: which batches are aborted, which markers are not needed.

apache/kafka: storage/.../log/CleanedTransactionMetadata.java
"""

import heapq
from collections.abc import Iterable

from storage.segments.transaction_index import AbortedTransaction
from wire.batches.batch import Batch, BatchHeader
from wire.batches.control_records import ControlType, control_type


class CleanedTransactions:
    """State of the transactions at one place of the log, which only moves forward."""

    def __init__(self) -> None:
        self._ahead: list[tuple[int, int, AbortedTransaction]] = []
        """A heap by first offset."""
        self._number = 0
        self._aborted: dict[int, AbortedTransaction] = {}
        """Aborted transactions that have begun, by producer id."""
        self._aborted_with_data: set[int] = set()
        """Producers of those of them of which a batch was met."""
        self._committed: set[int] = set()
        """Producers of committed transactions of which a batch was met."""
        self.retained: list[AbortedTransaction] = []
        """Entries of the transaction index of the cleaned segment, in the order of the markers."""

    def add_aborted(self, transactions: Iterable[AbortedTransaction]) -> None:
        """Take the aborted transactions that concern the next segment."""
        for each in transactions:
            self._number += 1
            heapq.heappush(self._ahead, (each.first_offset, self._number, each))

    def _begin_up_to(self, offset: int) -> None:
        while self._ahead and self._ahead[0][0] <= offset:
            transaction = heapq.heappop(self._ahead)[2]
            assert transaction.first_offset <= transaction.last_offset, f"{transaction=}"
            self._aborted.setdefault(transaction.producer_id, transaction)

    def is_aborted(self, last_offset: int, header: BatchHeader | None) -> bool:
        """Pass a batch of records; True if its transaction is aborted.

        Args:
            last_offset: of the batch.
            header: None of a message of magic 0 or 1, which has no producer.
        """
        self._begin_up_to(last_offset)
        if header is None or not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._aborted_with_data.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def is_needless(self, batch: Batch) -> bool:
        """Pass a control batch; True if no record of its transaction was met, or it is empty.

        Raises:
            CorruptBatchError: its first record cannot be read.
        """
        header = batch.header
        self._begin_up_to(header.last_offset)
        record = next(iter(batch.records()), None)
        if record is None:  # it was cleaned before
            return True
        assert header.is_control, f"{header=}"
        producer_id = header.producer_id
        match control_type(record.key):
            case ControlType.ABORT:
                transaction = self._aborted.pop(producer_id, None)
                if transaction is not None and producer_id in self._aborted_with_data:
                    self._aborted_with_data.remove(producer_id)
                    self.retained.append(transaction)
                    return False
                return True
            case ControlType.COMMIT:
                is_needless = producer_id not in self._committed
                self._committed.discard(producer_id)
                return is_needless
            case _:
                return False

    def take_retained(self) -> list[AbortedTransaction]:
        """The retained entries since the last call."""
        taken, self.retained = self.retained, []
        return taken
