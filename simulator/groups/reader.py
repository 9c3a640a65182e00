"""Reading of one partition by the member that owns it, from the offset that its group committed."""

from collections.abc import Callable
from typing import Any, Final

from simulator.checks.partitions.groups import GroupChecks
from simulator.checks.partitions.record_logs import whole_batches
from simulator.checks.violation import Violation
from simulator.records import requests
from simulator.records.clients import RETRIED, Cluster, PartitionClient
from wire.api_keys import FETCH
from wire.batches.batch import iterate_batches
from wire.errors import ErrorCode

BEGINNING: Final = 0
PAUSE_US: Final = 20_000


class Reader(PartitionClient):
    """Reads one partition until it is closed.

    Args:
        cluster: from which it reads.
        host: number of the member.
        partition: which it reads.
        group_id: for which.
        groups: the checks.
        when_awake: calls what it is given, or keeps it while the member is paused.
    """

    def __init__(
        self,
        cluster: Cluster,
        host: int,
        partition: int,
        *,
        group_id: str,
        groups: GroupChecks,
        when_awake: Callable[[Callable[[], None]], None],
    ) -> None:
        super().__init__(cluster, host, partition)
        self._group_id = group_id
        self._groups = groups
        self._when_awake = when_awake
        self.position: int | None = None
        """Offset of the next record; None before it is known."""
        self.committed: int | None = None
        """Offset that is asked to be committed."""

    def begin(self, offset: int) -> None:
        """Read from the offset that the group has, or from the beginning."""
        self.committed = self.position = max(BEGINNING, offset)
        self._groups.started((self._group_id, self.partition), self.position)
        self._again()

    def end(self) -> None:
        """Read no more."""
        self.is_stopped = True
        self.close()

    def _again(self) -> None:
        self.find_leader(lambda: self._when_awake(self._fetch))

    def _fetch(self) -> None:
        if self.is_stopped:
            return
        assert self.topic_id is not None, "a leader is known"
        assert self.position is not None, "it has begun"
        sent_us = self.scheduler.now_us
        body = requests.fetch(self.topic_id, self.partition, self.position, self.leader_epoch)

        def answered(response: Any) -> None:
            self._when_awake(lambda: self._on_answer(response, sent_us))

        self.ask_leader(FETCH, body, answered)

    def _on_answer(self, response: Any, sent_us: int) -> None:
        if self.is_stopped:
            return
        if response is None or response.error_code is not ErrorCode.none or not response.responses:
            self.later(self._again)
            return
        row = response.responses[0].partitions[0]
        if row.error_code is ErrorCode.offset_out_of_range:
            assert self.position is not None, "it was asked for"
            self.checks.out_of_range(self.key, self.position, sent_us)
            self.position = BEGINNING
            self.later(self._again)
            return
        if row.error_code is not ErrorCode.none:
            if row.error_code not in RETRIED:
                text = f"group {self._group_id} reads {self.partition}: {row.error_code.name}"
                raise Violation("D2", text)
            self.later(self._again)
            return
        for batch in iterate_batches(whole_batches(bytes(row.records or b""))):
            self._take(batch, sent_us)
        self.later(lambda: self._when_awake(self._fetch), PAUSE_US)

    def _take(self, batch: Any, sent_us: int) -> None:
        header = batch.header
        values = tuple(record.value or b"" for record in batch.records())
        self.checks.consumed(
            self.key,
            header.base_offset,
            values,
            sent_us,
            header.max_timestamp_ms,
            self.leader_epoch,
        )
        assert self.position is not None, "it was asked for"
        end = max(self.position, int(header.end_offset))
        self._groups.consumed((self._group_id, self.partition), self.position, end)
        self.position = end
