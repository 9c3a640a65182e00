"""Fold of one partition of `__consumer_offsets`: tables of commits, members, rebalances, groups.

`coordinator.group.image` is the only meaning of the records, as it is for a coordinator that loads
them. What it does not know is counted and named: types of keys without a declaration. A record
that cannot be read, or that no coordinator writes there, is named with its offset and passed over.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import msgspec
import pyarrow as pa

from coordinator.group.image import EMPTY, Group, GroupsImage, apply
from coordinator.records.consumer import GroupKey
from coordinator.records.group import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coordinator.records.schema import Key
from coordinator.runtime.write import Applied
from metadata import control_records
from metadata.schema import MetadataRecordError
from pipeline.core.groups.commits import CommitFold, Timeline
from pipeline.core.groups.log_records import LogRecord
from pipeline.core.groups.members import (
    MemberFold,
    TopicNames,
    epoch_of,
    member_ids,
    protocol_of,
    state_of,
)
from pipeline.core.groups.tables import COMMITS, GROUPS, MEMBERS, REBALANCES, Row, table_of
from pipeline.core.records.coordinator_records import (
    CONSUMER_OFFSETS,
    CoordinatorRecordError,
    UnknownTypeError,
    typed_decoder,
    undeclared_name,
)
from pipeline.core.records.json_records import COMMIT
from wire.types import Offset

REFUSED_MAX: Final = 100
"""Records of a partition that are named one by one."""


class Refused(msgspec.Struct, frozen=True):
    """A record that was passed over, and why."""

    offset: int
    reason: str


class LogCounts(msgspec.Struct, kw_only=True):
    """Counts of the records of a partition; the first REFUSED_MAX of `refused_count` are kept."""

    records: int = 0
    undeclared: Counter[str] = msgspec.field(default_factory=Counter)
    """Records by the name of their type of key, where that is not declared."""
    refused_count: int = 0
    refused: list[Refused] = []
    last_ms: int | None = None
    """The newest time of a record."""

    def saw(self, record: LogRecord) -> None:
        """Count a record."""
        self.records += 1
        if record.time_ms is not None:
            self.last_ms = max(record.time_ms, self.last_ms or record.time_ms)

    def refuse(self, record: LogRecord, error: Exception) -> None:
        """Count a record that is passed over."""
        self.refused_count += 1
        if len(self.refused) < REFUSED_MAX:
            self.refused.append(Refused(record.offset, str(error)))


class GroupLog(msgspec.Struct, frozen=True, kw_only=True):
    """Tables and timelines of one partition of `__consumer_offsets`."""

    commits: pa.Table
    members: pa.Table
    rebalances: pa.Table
    groups: pa.Table
    timelines: list[Timeline]
    counts: LogCounts
    image: GroupsImage
    """After the last record."""


def fold_group_log(
    records: Iterable[LogRecord], log_partition: int, names: TopicNames | None = None
) -> GroupLog:
    """Fold the records of a partition, in order, control records among them.

    Args:
        records: from any offset on; what a compacted log has left is enough for what counts.
        log_partition: number of the partition.
        names: of topics by id, for assignments of consumer groups, beside those of commits.
    """
    fold = _Fold(log_partition, names or {})
    for record in records:
        fold.add(record)
    return fold.end()


class _Fold:
    def __init__(self, log_partition: int, names: TopicNames) -> None:
        self._log_partition = log_partition
        self._image = EMPTY
        self._decode = typed_decoder(CONSUMER_OFFSETS)
        self._names = dict(names)
        self._commits = CommitFold(log_partition)
        self._members = MemberFold(log_partition)
        self._counts = LogCounts()
        self._batch: int | None = None
        self._before: dict[str, Group | None] = {}  # groups that the batch changes
        self._last: dict[str, LogRecord] = {}  # of each group

    def add(self, record: LogRecord) -> None:
        if record.batch != self._batch:
            self._end_batch()
            self._batch = record.batch
        self._counts.saw(record)
        try:
            if record.is_control:
                self._end_transaction(record)
            else:
                self._apply(record)
        except UnknownTypeError as error:
            self._counts.undeclared[undeclared_name(CONSUMER_OFFSETS, error.number)] += 1
        except (CoordinatorRecordError, MetadataRecordError) as error:
            self._counts.refuse(record, error)

    def _end_transaction(self, record: LogRecord) -> None:
        kind = control_records.control_type(record.key)
        if kind in _MARKERS and record.producer_id is not None:
            self._image = self._commits.end(self._image, record, is_commit=kind == COMMIT)

    def _apply(self, record: LogRecord) -> None:
        found = self._decode(record.key, record.value)
        key, value = found.record.key, found.record.value
        at = Applied(Offset(record.offset), record.time_ms or 0, record.producer_id)
        group_id = _group_of(key)
        before = self._image
        after = apply(before, found.record, at)
        if isinstance(key, OffsetCommitKey):
            assert value is None or isinstance(value, OffsetCommitValue)
            row = self._commits.add(before, record, key, value)
            if row.topic_id is not None:
                self._names.setdefault(row.topic_id, row.topic)
        else:
            self._before.setdefault(group_id, before.groups.get(group_id))
        self._image = after
        self._last[group_id] = record

    def _end_batch(self) -> None:
        for group_id, before in self._before.items():
            after = self._image.groups.get(group_id)
            self._members.step(group_id, before, after, self._last[group_id])
        self._before.clear()

    def end(self) -> GroupLog:
        self._end_batch()
        self._members.end(self._names)
        rows = [msgspec.structs.asdict(row) for row in self._commits.rows]
        groups = [self._group_row(group_id) for group_id in sorted(self._last)]
        return GroupLog(
            commits=table_of(rows, COMMITS),
            members=table_of(self._members.members, MEMBERS),
            rebalances=table_of(self._members.rebalances, REBALANCES),
            groups=table_of(groups, GROUPS),
            timelines=self._commits.timelines(),
            counts=self._counts,
            image=self._image,
        )

    def _group_row(self, group_id: str) -> Row:
        group = self._image.groups.get(group_id)
        offsets: Any = self._image.offsets.get(group_id, ())
        has_offsets = bool(offsets) or group_id in self._image.open
        last = self._last[group_id]
        protocol_type = group.protocol_type if isinstance(group, GroupMetadataValue) else None
        return {
            "group_id": group_id, "protocol": None if group is None else protocol_of(group),
            "protocol_type": protocol_type, "state": state_of(group, has_offsets=has_offsets),
            "epoch": epoch_of(group), "members": len(member_ids(group)),
            "committed_partitions": len(offsets),
            "last_commit_ts": self._commits.last_commit_ms.get(group_id),
            "last_ts": last.time_ms, "log_partition": self._log_partition,
            "log_offset": last.offset,
        }  # fmt: skip


_MARKERS: Final = (0, COMMIT)


def _group_of(key: Key) -> str:
    if isinstance(key, OffsetCommitKey | GroupMetadataKey):
        return key.group
    assert isinstance(key, GroupKey), f"{key=}"
    return key.group_id
