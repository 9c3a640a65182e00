"""A consumer of what is committed, which leaves out what the leader says is aborted.

As Java's: the producers of aborted transactions are taken up at the first offset of each, and left
at the marker; batches of theirs in between are skipped (clients/.../consumer/internals/
CompletedFetch.java).
"""

from collections.abc import Iterator, Sequence
from typing import Any

from typing_extensions import override

from simulator.checks.partitions.record_logs import COMMIT_KEY, whole_batches
from simulator.checks.partitions.transactions import TransactionChecks
from simulator.checks.violation import Violation
from simulator.records.clients import Cluster
from simulator.records.consumers import RecordConsumer
from simulator.records.transactions import requests
from wire.batches.batch import Batch, iterate_batches


class CommittedConsumer(RecordConsumer):
    """Reads one partition as `read_committed`, over and over.

    Args:
        cluster: of the transactional topic.
        host: its number.
        partition: which it reads.
        rack: of the consumer.
        transactions: told of what it sees.
    """

    def __init__(
        self,
        cluster: Cluster,
        host: int,
        partition: int,
        rack: str,
        transactions: TransactionChecks,
    ) -> None:
        super().__init__(cluster, host, partition, rack)
        self._transactions = transactions
        self._body = requests.fetch_committed

    @override
    def _read(self, row: Any, sent_us: int) -> int:
        """Take the records of a response, and see what is committed of them."""
        start, content = self.position, whole_batches(bytes(row.records or b""))
        count = super()._read(row, sent_us)
        aborted = [
            (int(each.first_offset), int(each.producer_id))
            for each in row.aborted_transactions or ()
        ]
        seen: dict[int, bytes] = {}
        for batch in committed_batches(content, aborted):
            seen.update(
                enumerate((r.value or b"" for r in batch.records()), batch.header.base_offset)
            )
        if content:
            self._transactions.consumed(self.partition, start, self.position, seen)
            self._check_stable(int(row.last_stable_offset))
        return count

    def _check_stable(self, last_stable_offset: int) -> None:
        if self.position > last_stable_offset:
            text = f"{self.position} is above the last stable offset {last_stable_offset}"
            raise Violation("D4", f"consumer {self.host} of partition {self.partition}: {text}")


def committed_batches(content: bytes, aborted: Sequence[tuple[int, int]]) -> Iterator[Batch]:
    """The batches of a response that a reader of what is committed is given.

    Args:
        content: whole batches.
        aborted: first offset and producer id of each aborted transaction.
    """
    coming = sorted(aborted, reverse=True)
    producers: set[int] = set()
    for batch in iterate_batches(content):
        header = batch.header
        while coming and coming[-1][0] <= header.last_offset:
            producers.add(coming.pop()[1])
        if header.is_control:
            if next(iter(batch.records())).key != COMMIT_KEY:
                producers.discard(header.producer_id)
        elif not header.is_transactional or header.producer_id not in producers:
            yield batch
