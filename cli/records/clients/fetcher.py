"""Blocking fetcher: records of partitions from positions on, one request to each leader in turn.

Control batches are not shown. With READ_COMMITTED neither are records of transactions that were
aborted. Topics are named by id (Fetch 13, Kafka 3.1 and later).
"""

from collections import deque
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import msgspec

from cli.connect import ClusterError
from cli.kafka_errors import message_of
from cli.records.clients.clock import Backoff, Clock
from cli.records.clients.offsets import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    list_offsets,
)
from cli.records.clients.records_api import RecordsApi
from cli.records.clients.topic_metadata import NO_LEADER, Partition, Topic, described_topics
from wire.batches.batch import Batch, RecordView
from wire.batches.legacy_batch import LegacyBatch, iterate_any
from wire.errors import CorruptBatchError
from wire.messages.record_requests import fetch_request

FETCH: Final = 1
VERSION_MIN: Final = 13
OFFSET_OUT_OF_RANGE: Final = 1
RETRIABLE: Final = frozenset({3, 5, 6, 7, 9, 13, 56, 74, 75, 78, 100, 103, 106})
BACKOFF_MS: Final = 100
CREATE_TIME: Final = "CreateTime"
LOG_APPEND_TIME: Final = "LogAppendTime"
NO_TIMESTAMP: Final = "NoTimestampType"
_TYPE: Final = 2
"""Position of the type in the key of a control record."""
_ABORT: Final = b"\0\0"


class FetchError(Exception):
    """A partition that cannot be read; the text is Kafka's message."""


class FetcherConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Named as Kafka's consumer configs, with its defaults."""

    isolation_level: int = READ_UNCOMMITTED
    fetch_max_wait_ms: int = 500
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 50 * 1024 * 1024
    max_partition_fetch_bytes: int = 1024 * 1024
    reset_to: int | None = LATEST
    """Place of a position that is out of range: EARLIEST, LATEST; None: that is an error."""


class Fetched(msgspec.Struct, frozen=True):
    """A record of a partition."""

    partition: Partition
    record: RecordView
    timestamp_type: str
    """CREATE_TIME, LOG_APPEND_TIME, or NO_TIMESTAMP of message format 0."""
    leader_epoch: int = -1
    """Of its batch; -1 of older messages."""


class Fetcher:
    """Positions of partitions, moved by what is read."""

    def __init__(self, api: RecordsApi, config: FetcherConfig, clock: Clock) -> None:
        """A fetcher of nothing yet; `api` stays the caller's."""
        self._api = api
        self._config = config
        self._clock = clock
        self._topics: dict[str, Topic] = {}
        self._positions: dict[Partition, int] = {}
        """Offsets, or EARLIEST and LATEST, which are looked up at the next poll."""
        self._turns: deque[Partition] = deque()
        self._backoff = Backoff(clock, BACKOFF_MS)

    @property
    def positions(self) -> dict[Partition, int]:
        """The next offset of each partition."""
        return dict(self._positions)

    def assign(self, partition: Partition, position: int) -> None:
        """Read a partition from an offset, EARLIEST or LATEST."""
        if partition not in self._positions:
            self._turns.append(partition)
        self._positions[partition] = position

    def give_up(self, partition: Partition) -> None:
        """Read a partition no longer."""
        if self._positions.pop(partition, None) is not None:
            self._turns.remove(partition)

    def poll(self, timeout_ms: int) -> list[Fetched]:
        """Records in the order of their partitions; none if there were none in time.

        Raises:
            FetchError: a partition that cannot be read.
        """
        limit_ms = self._clock.now_ms() + timeout_ms
        while True:
            left_ms = max(0, limit_ms - self._clock.now_ms())
            try:
                found = self._round(left_ms)
                self._backoff = Backoff(self._clock, BACKOFF_MS)
            except (_StaleError, ClusterError):
                found = []
                self._topics.clear()
                if not self._backoff.wait(limit_ms):
                    return []
            if found or self._clock.now_ms() >= limit_ms:
                return found

    def _round(self, wait_ms: int) -> list[Fetched]:
        """One request to the leaders of all partitions.

        Raises:
            _StaleError: a leader is not known, or refuses for now.
            ClusterError: a leader cannot be reached.
        """
        self._look_up()
        wait_ms = min(wait_ms, self._config.fetch_max_wait_ms)
        leaders: dict[int, list[Partition]] = {}
        for partition in self._turns:
            leader = self._topics[partition.topic].leaders.get(partition.number, NO_LEADER)
            leaders.setdefault(leader, []).append(partition)
        if not leaders:
            self._clock.sleep_ms(wait_ms)
            return []
        is_missing = leaders.pop(NO_LEADER, None) is not None
        found: list[Fetched] = []
        share_ms = wait_ms // max(1, len(leaders))
        for leader, partitions in leaders.items():
            found += self._fetch(leader, partitions, 0 if found else share_ms)
        if is_missing and not found:
            raise _StaleError
        return found

    def _look_up(self) -> None:
        """Learn the leaders, and the offsets of partitions that begin at an end."""
        names = {partition.topic for partition in self._positions}
        if names - self._topics.keys():
            self._topics = described_topics(self._api, sorted(names))
        if any(topic.error_code for topic in self._topics.values()):
            raise _StaleError
        for place in (EARLIEST, LATEST):
            wanted = [p for p, position in self._positions.items() if position == place]
            listed = list_offsets(
                self._api, self._topics, wanted, place, self._config.isolation_level
            )
            for partition, answer in listed.items():
                if answer.error_code in RETRIABLE:
                    raise _StaleError
                if answer.error_code:
                    raise FetchError(f"{message_of(answer.error_code)} ({partition})")
                self._positions[partition] = answer.offset

    def _fetch(self, leader: int, partitions: list[Partition], wait_ms: int) -> list[Fetched]:
        if self._api.version_of(FETCH, leader) < VERSION_MIN:
            raise FetchError("the broker does not know Fetch 13, which Kafka has from 3.1 on")
        answer = self._api.call(FETCH, self._request(partitions, wait_ms), leader)
        if int(answer.error_code):
            raise _StaleError
        names = {topic.id: topic.name for topic in self._topics.values()}
        found: list[Fetched] = []
        is_refused = False
        for topic in answer.responses:
            for row in topic.partitions:
                partition = Partition(names.get(topic.topic_id, ""), int(row.partition_index))
                if partition not in self._positions:
                    continue
                code = int(row.error_code)
                if code == OFFSET_OUT_OF_RANGE:
                    self._reset(partition)
                elif code in RETRIABLE:
                    is_refused = True
                elif code:
                    raise FetchError(f"{message_of(code)} ({partition})")
                else:
                    found += self._records(partition, row)
        if is_refused and not found:
            raise _StaleError
        return found

    def _reset(self, partition: Partition) -> None:
        if self._config.reset_to is None:
            raise FetchError(
                f"Fetch position {self._positions[partition]} is out of range for partition "
                f"{partition} and no reset policy is defined"
            )
        self._positions[partition] = self._config.reset_to

    def _request(self, partitions: list[Partition], wait_ms: int) -> Any:
        offsets: dict[UUID, dict[int, int]] = {}
        for partition in partitions:
            of_topic = offsets.setdefault(self._topics[partition.topic].id, {})
            of_topic[partition.number] = self._positions[partition]
        return fetch_request(
            offsets,
            timedelta(milliseconds=wait_ms),
            min_bytes=self._config.fetch_min_bytes,
            max_bytes=self._config.fetch_max_bytes,
            partition_max_bytes=self._config.max_partition_fetch_bytes,
            isolation_level=self._config.isolation_level,
        )

    def _records(self, partition: Partition, row: Any) -> list[Fetched]:
        """The records of an answer from the position on; moves the position behind them."""
        position = self._positions[partition]
        is_committed = self._config.isolation_level == READ_COMMITTED
        hidden = _Hidden(row.aborted_transactions if is_committed else None)
        found: list[Fetched] = []
        try:
            for batch in iterate_any(row.records or b""):
                found += _shown(batch, hidden, partition, self._positions[partition])
                position = max(position, _end_offset(batch))
        except CorruptBatchError as error:
            if not found:
                raise FetchError(
                    "Received exception when fetching the next record from "
                    f"{partition}. If needed, please seek past the record to continue "
                    f"consumption. ({error})"
                ) from error
        if position > self._positions[partition]:
            self._turns.remove(partition)  # the others come first next time
            self._turns.append(partition)
        self._positions[partition] = position
        return found


class _StaleError(Exception):
    """Leaders have to be looked up once more, after a while."""


class _Hidden:
    """Producers whose transactions were aborted, at a place of a partition."""

    def __init__(self, aborted: Sequence[Any] | None) -> None:
        """Begin at the first batch of an answer; None: nothing but markers is hidden."""
        self._begins = sorted(
            (int(row.first_offset), int(row.producer_id)) for row in aborted or ()
        )
        self._producers: set[int] = set()

    def hides(self, batch: Batch) -> bool:
        """Return True if the records of the next batch are not for applications."""
        header = batch.header
        while self._begins and self._begins[0][0] <= header.last_offset:
            self._producers.add(self._begins.pop(0)[1])
        if not header.is_control:
            return header.is_transactional and header.producer_id in self._producers
        records = batch.records()
        if records and (records[0].key or b"")[_TYPE:] == _ABORT:
            self._producers.discard(header.producer_id)
        return True


def _shown(
    batch: Batch | LegacyBatch, hidden: _Hidden, partition: Partition, position: int
) -> list[Fetched]:
    """The records of a batch for applications.

    Raises:
        CorruptBatchError: it is damaged.
    """
    if not batch.crc_is_valid:
        raise CorruptBatchError(f"batch before offset {_end_offset(batch)}: the checksum differs")
    if isinstance(batch, LegacyBatch):
        kind = batch.timestamp_type
        return [
            Fetched(partition, RecordView(r.offset, r.timestamp_ms, r.key, r.value), kind)
            for r in batch.records()
            if r.offset >= position
        ]
    if hidden.hides(batch):
        return []
    kind = LOG_APPEND_TIME if batch.header.is_log_append_time else CREATE_TIME
    epoch = int(batch.header.leader_epoch)
    return [Fetched(partition, r, kind, epoch) for r in batch.records() if r.offset >= position]


def _end_offset(batch: Batch | LegacyBatch) -> int:
    return (batch.last_offset if isinstance(batch, LegacyBatch) else batch.header.last_offset) + 1
