"""Offset commits of one partition of `__consumer_offsets`: a row per record, and what became of it.

The image of the coordinator (`coordinator.group.image`) says what a record means; here each row
learns its outcome:

    committed    the offset counts; of a transaction, since its marker (`decided_offset`)
    tombstone    the record removes the offset: expired or deleted
    pending      of a transaction without a marker
    aborted      of a transaction that was aborted
    superseded   of a transaction that was committed, but another commit counts that is later
    removed      pending when a tombstone removed it
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from coordinator.group.image import GroupsImage, OffsetAndMetadata, apply_marker
from coordinator.records.group import OffsetCommitKey, OffsetCommitValue
from metadata.json_form import uuid_text
from pipeline.core.groups.log_records import LogRecord
from pipeline.core.groups.tables import known_ms
from wire.types import ZERO_UUID

COMMITTED: Final = "committed"
TOMBSTONE: Final = "tombstone"
PENDING: Final = "pending"
ABORTED: Final = "aborted"
SUPERSEDED: Final = "superseded"
REMOVED: Final = "removed"
NO_OFFSET: Final = -1
"""In a `Timeline`: the group has no offset of the partition any more."""
GroupPartition = tuple[str, str, int]


class CommitRow(msgspec.Struct, kw_only=True):
    """One record of an offset; the outcome of one of a transaction changes later."""

    group_id: str
    topic: str
    partition: int
    committed_offset: int | None
    leader_epoch: int | None
    metadata: str | None
    commit_ts: int | None
    expire_ts: int | None
    topic_id: str | None
    outcome: str
    producer_id: int | None
    log_partition: int
    log_offset: int
    log_ts: int | None
    decided_offset: int | None = None
    decided_ts: int | None = None


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """The offsets that a group had of a partition, in the order in which they began to count.

    Each is (since when in ms, offset or NO_OFFSET, topic id or None).
    """

    group_id: str
    topic: str
    partition: int
    offsets: list[tuple[int, int, str | None]]


class CommitFold:
    """Rows so far; the image before each record is the caller's."""

    def __init__(self, log_partition: int) -> None:
        self.rows: list[CommitRow] = []
        self.last_commit_ms: dict[str, int] = {}
        """By group: time of its newest commit that counts."""
        self._log_partition = log_partition
        self._pending: dict[int, CommitRow] = {}  # by the offset of the record
        self._timelines: dict[GroupPartition, Timeline] = {}

    def add(
        self, before: GroupsImage, record: LogRecord, key: OffsetCommitKey,
        value: OffsetCommitValue | None,
    ) -> CommitRow:  # fmt: skip
        """Add the row of a record that is applied to an image next."""
        row = self._row(record, key, value)
        self.rows.append(row)
        at: GroupPartition = key.group, key.topic, key.partition
        if value is None:
            self._removed(before, record, at)
            self._count(row, record.time_ms)
        elif record.producer_id is None:
            self._count(row, row.commit_ts if row.commit_ts is not None else record.time_ms)
        else:
            earlier = before.pending.get(record.producer_id, _NOTHING).get(at)
            if earlier is not None:
                self._decide(earlier.record_offset, SUPERSEDED, record)
            self._pending[record.offset] = row
        return row

    def end(self, before: GroupsImage, record: LogRecord, *, is_commit: bool) -> GroupsImage:
        """The image after a marker, which decides what is pending of its producer."""
        assert record.producer_id is not None
        entries = before.pending.get(record.producer_id, _NOTHING)
        after = apply_marker(before, record.producer_id, is_commit=is_commit)
        decided = sorted(entries.items(), key=lambda item: item[1].record_offset)
        for (group_id, topic, partition), entry in decided:
            if not is_commit:
                self._decide(entry.record_offset, ABORTED, record)
                continue
            counts = after.offset(group_id, (topic, partition))
            assert counts is not None, f"{group_id} {topic}-{partition} was committed"
            is_last = counts.record_offset == entry.record_offset
            outcome = COMMITTED if is_last else SUPERSEDED
            row = self._decide(entry.record_offset, outcome, record)
            if is_last:
                self._count(row, record.time_ms)
        return after

    def timelines(self) -> list[Timeline]:
        """All offsets that counted, by group and partition."""
        return [self._timelines[key] for key in sorted(self._timelines)]

    def _row(
        self, record: LogRecord, key: OffsetCommitKey, value: OffsetCommitValue | None
    ) -> CommitRow:
        row = CommitRow(
            group_id=key.group, topic=key.topic, partition=key.partition, committed_offset=None,
            leader_epoch=None, metadata=None, commit_ts=None, expire_ts=None, topic_id=None,
            outcome=TOMBSTONE, producer_id=record.producer_id, log_partition=self._log_partition,
            log_offset=record.offset, log_ts=record.time_ms,
        )  # fmt: skip
        if value is not None:
            row.committed_offset = value.offset
            row.leader_epoch = None if value.leader_epoch < 0 else value.leader_epoch
            row.metadata = value.metadata
            row.commit_ts = known_ms(value.commit_timestamp)
            row.expire_ts = known_ms(value.expire_timestamp)
            row.topic_id = None if value.topic_id == ZERO_UUID else uuid_text(value.topic_id)
            row.outcome = COMMITTED if record.producer_id is None else PENDING
        return row

    def _removed(self, before: GroupsImage, record: LogRecord, at: GroupPartition) -> None:
        group_id, topic, partition = at
        of_group = before.open.get(group_id)
        producers = () if of_group is None else of_group.get((topic, partition), ())
        for producer_id in producers:
            self._decide(before.pending[producer_id][at].record_offset, REMOVED, record)

    def _decide(self, offset: int, outcome: str, record: LogRecord) -> CommitRow:
        row = self._pending.pop(offset)
        row.outcome, row.decided_offset, row.decided_ts = outcome, record.offset, record.time_ms
        return row

    def _count(self, row: CommitRow, time_ms: int | None) -> None:
        """Note that the offset of a row, or its absence, counts from a time on."""
        if time_ms is None:
            return
        key = row.group_id, row.topic, row.partition
        timeline = self._timelines.get(key)
        if timeline is None:
            timeline = Timeline(
                group_id=row.group_id, topic=row.topic, partition=row.partition, offsets=[]
            )
            self._timelines[key] = timeline
        offset = NO_OFFSET if row.committed_offset is None else row.committed_offset
        timeline.offsets.append((time_ms, offset, row.topic_id))
        if row.committed_offset is not None:
            known = self.last_commit_ms.get(row.group_id, time_ms)
            self.last_commit_ms[row.group_id] = max(known, time_ms)


_NOTHING: Final[Mapping[GroupPartition, OffsetAndMetadata]] = {}
