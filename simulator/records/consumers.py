"""Consumers: from the leader or a follower in their rack, by offset and by time."""

from typing import Any, Final

from typing_extensions import override

from simulator.checks.partitions.record_logs import whole_batches
from simulator.checks.violation import Violation
from simulator.cluster.machine import WALL_MS
from simulator.records import requests
from simulator.records.clients import RETRIED, Cluster, PartitionClient
from wire.api_keys import FETCH, LIST_OFFSETS
from wire.batches.batch import iterate_batches
from wire.errors import ErrorCode

EARLIEST: Final = -2
LATEST: Final = -1
FOLLOWED_US: Final = 2_000_000
"""Time for which a consumer reads from a follower before it asks the leader again."""


class RecordConsumer(PartitionClient):
    """Reads one partition from its beginning, over and over.

    Args:
        cluster: from which it reads.
        host: its number.
        partition: which it reads.
        rack: of the consumer; with one it reads from a follower where the leader says so.
    """

    def __init__(self, cluster: Cluster, host: int, partition: int, rack: str = "") -> None:
        super().__init__(cluster, host, partition)
        self._rack = rack
        self._body = requests.fetch
        self._follower: int | None = None
        self._follower_until_us = 0
        self.position = 0
        self.is_waiting = False
        """True while a fetch of it is open."""

    def start(self) -> None:
        """Find the leader and read."""
        self._follower = None
        if not self.is_stopped:
            self.find_leader(self._fetch)

    @override
    def topic_changed(self) -> None:
        """Begin anew."""
        self.position = 0

    # ---- reading -------------------------------------------------------------------------------

    def _fetch(self) -> None:
        if self.is_stopped:
            return
        assert self.topic_id is not None, "a leader is known"
        sent_us = self.scheduler.now_us
        if self._follower is not None and sent_us >= self._follower_until_us:
            self._follower = None
        self.is_waiting = True
        target = self.leader if self._follower is None else self._follower

        def answered(response: Any) -> None:
            self.is_waiting = False
            self._on_answer(response, sent_us, target)

        body = self._body(
            self.topic_id, self.partition, self.position, self.leader_epoch, self._rack
        )
        self.ask(target, FETCH, body, answered)

    def _on_answer(self, response: Any, sent_us: int, target: int) -> None:
        if response is None or response.error_code is not ErrorCode.none or not response.responses:
            self.later(self.start)
            return
        row = response.responses[0].partitions[0]
        if row.error_code is ErrorCode.offset_out_of_range and target == self.leader:
            self.checks.out_of_range(self.key, self.position, sent_us)
            self._seek(EARLIEST)
            return
        if row.error_code is not ErrorCode.none:
            is_expected = row.error_code in RETRIED or target != self.leader
            if not is_expected:
                raise Violation("D2", f"consumer {self.host}: {row.error_code.name}")
            self.later(self.start)
            return
        if row.preferred_read_replica >= 0:
            self._follower = int(row.preferred_read_replica)
            self._follower_until_us = sent_us + FOLLOWED_US
        elif self._read(row, sent_us) and target != self.leader:
            self.checks.hit("read_from_follower")
        if self.rng.random() < 0.04:
            self._seek(EARLIEST if self.rng.random() < 0.5 else self._some_time_ms())
        else:
            self.later(self._fetch, 20_000)

    def _read(self, row: Any, sent_us: int) -> int:
        """Take the records of a response; return their number."""
        count = 0
        for batch in iterate_batches(whole_batches(bytes(row.records or b""))):
            header = batch.header
            if header.end_offset > row.high_watermark:
                text = f"{header.end_offset} is above the high watermark {row.high_watermark}"
                raise Violation("D2", f"consumer {self.host} of partition {self.partition}: {text}")
            if not batch.crc_is_valid:
                raise Violation("D3", f"consumer {self.host}: CRC of {header.base_offset} is wrong")
            values = tuple(record.value or b"" for record in batch.records())
            count += len(values)
            self.checks.consumed(
                self.key,
                header.base_offset,
                values,
                sent_us,
                header.max_timestamp_ms,
                self.leader_epoch,
            )
            self.position = max(self.position, header.end_offset)
        return count

    # ---- looking up ----------------------------------------------------------------------------

    def _some_time_ms(self) -> int:
        return WALL_MS + self.rng.randrange(1 + self.scheduler.now_us // 1_000)

    def _seek(self, timestamp_ms: int) -> None:
        """Go on at an offset that the leader looks up."""
        sent_us = self.scheduler.now_us
        self.is_waiting = True

        def answered(response: Any) -> None:
            self.is_waiting = False
            row = None if response is None else response.topics[0].partitions[0]
            if row is None or row.error_code is not ErrorCode.none:
                if row is not None and row.error_code not in RETRIED:
                    raise Violation("D2", f"consumer {self.host} seeks: {row.error_code.name}")
                self.later(self.start)
                return
            if timestamp_ms == EARLIEST:
                self.position = int(row.offset)
            elif row.offset >= 0:
                self.checks.looked_up(self.key, timestamp_ms, row.timestamp, row.offset, sent_us)
                self.position = int(row.offset)
            self.later(self._fetch, 20_000)

        body = requests.list_offsets(self.topic_name, self.partition, timestamp_ms)
        self.ask_leader(LIST_OFFSETS, body, answered)
