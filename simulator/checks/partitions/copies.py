"""Invariant of a group that copies in transactions: D4 and D6 together, when all is quiet.

    D4  of each record that the group has committed there is one copy that is committed, and of no
        record more: the copy and the offset are of one transaction

Where all replicas in sync of one of the partitions lost their power at once nothing is said: of the
two topics, of offsets, or of the states of transactions.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final

from coordinator.records.kinds import CONSUMER_OFFSETS
from metadata.image import Image
from simulator.checks.partitions.records import RecordChecks
from simulator.checks.partitions.transactions import TransactionChecks
from simulator.checks.violation import Violation
from wire.types import TopicIdPartition

COPY_PARTS: Final = 5
"""Numbers in the value of a copy; the last two are the partition and the offset of the record."""


class CopyChecks:
    """The checks of the copies of one topic.

    Args:
        transactions: of the topic that is written to.
        records: checks of all records, which know what may be lost.
        image: gives the newest committed image.
        topic: that is copied.
    """

    def __init__(
        self,
        transactions: TransactionChecks,
        records: RecordChecks,
        image: Callable[[], Image],
        topic: str,
    ) -> None:
        self._transactions = transactions
        self._records = records
        self._image = image
        self._topic = topic

    def _keys(self, topic: str) -> list[TopicIdPartition]:
        image = self._image()
        topic_id = image.topic_id_by_name[topic]
        return [(topic_id, number) for number in sorted(image.topics[topic_id].partitions)]

    @property
    def is_excused(self) -> bool:
        """True if records, offsets or decisions may be lost."""
        keys = self._keys(self._topic) + self._keys(CONSUMER_OFFSETS)
        return self._transactions.is_excused or any(map(self._records.may_have_lost, keys))

    def check_at_rest(self) -> None:
        """Check the copies of all records; the group has read to the end, and committed that.

        Raises:
            Violation: D4.
        """
        if self.is_excused:
            return
        ends = {key[1]: self._end(key) for key in self._keys(self._topic)}
        wrong = wrong_copies(self._transactions.committed_values(), ends)
        if wrong:
            raise Violation("D4", wrong)

    def _end(self, key: TopicIdPartition) -> int:
        leader = int(self._image().topics[key[0]].partitions[key[1]].leader)
        partition = self._records.partition_at(leader, key)
        assert partition is not None, "it is at rest"
        assert partition.log is not None, "it is at rest"
        return int(partition.log.end_offset)


def wrong_copies(values: list[bytes], ends: dict[int, int]) -> str:
    """Describe a record without a copy or with two; empty when there is none.

    Args:
        values: of the topic that was written to, as far as they are committed.
        ends: end offset of each partition of the topic that was copied.
    """
    parts = [value.split(b":") for value in values]
    copied = Counter((int(each[3]), int(each[4])) for each in parts if len(each) == COPY_PARTS)
    more = sorted(place for place, count in copied.items() if count > 1)
    if more:
        return f"{len(more)} records have several copies: {more[:3]}"
    wanted = {(number, offset) for number, end in ends.items() for offset in range(end)}
    missing, strange = sorted(wanted - copied.keys()), sorted(copied.keys() - wanted)
    if missing or strange:
        return f"records without a copy: {missing[:3]}, copies of no record: {strange[:3]}"
    return ""
