"""The compacted topic of a run, and the producer that writes its keys again and again."""

from random import Random
from typing import Any, Final

from simulator.checks.partitions.compacted import COMPACTED, CompactedChecks
from simulator.cluster.machine import WALL_MS
from simulator.records import requests
from simulator.records.clients import RETRIED, Cluster, PartitionClient, Topic
from simulator.records.producers import outcome_of
from wire.api_keys import PRODUCE
from wire.batches.compression import Codec
from wire.batches.produced_batch import produced_batch
from wire.batches.records import RecordView
from wire.errors import ErrorCode
from wire.types import Offset

TOPIC: Final = Topic(COMPACTED, 1)
KEYS: Final = tuple(b"key-%d" % number for number in range(7))
DELETED_SHARE: Final = 0.1
CONFIGS: Final = {
    "cleanup_policy": "compact",
    "min_cleanable_dirty_ratio": "0.01",
    "delete_retention_ms": "300",
    "file_delete_delay_ms": "500",
}
SEGMENTS: Final = ("300", "700", "2000")
PAUSE_US: Final = 40_000
CREATED: Final = (ErrorCode.none, ErrorCode.topic_already_exists)


class KeyedProducer(PartitionClient):
    """Writes values and tombstones of few keys with acks=all, a batch at a time.

    Args:
        cluster: with the compacted topic.
        host: its number.
        rng: of what it writes.
        compacted: told of what is acknowledged.
    """

    def __init__(
        self, cluster: Cluster, host: int, rng: Random, compacted: CompactedChecks
    ) -> None:
        super().__init__(cluster, host, 0)
        self._drawn = rng
        self._compacted = compacted
        self._number = 0
        self._unanswered: list[tuple[bytes, bytes | None]] = []
        self._codec = rng.choice(tuple(Codec))
        self._segment_bytes = rng.choice(SEGMENTS)
        self.acknowledged = 0

    @property
    def is_idle(self) -> bool:
        """True if all that it sent is acknowledged."""
        return not self._unanswered

    def start(self) -> None:
        """Create the topic, and write."""
        body = requests.create_topic(
            TOPIC.name,
            TOPIC.partitions,
            min(3, len(self.cluster.nodes)),
            internal_segment_bytes=self._segment_bytes,
            **CONFIGS,
        )

        def answered(response: Any) -> None:
            if response is not None and response.topics[0].error_code in CREATED:
                self.find_leader(self._send)
            else:
                self.later(self.start)

        self.ask_any(requests.CREATE_TOPICS, body, answered)

    def _send(self) -> None:
        if not self._unanswered:
            if self.is_stopped:
                return
            for _ in range(self._drawn.randrange(1, 4)):
                self._number += 1
                value = b"%d:%d" % (self.host, self._number)
                is_deleted = self._drawn.random() < DELETED_SHARE
                self._unanswered.append((self._drawn.choice(KEYS), None if is_deleted else value))
        wall_ms = WALL_MS + self.scheduler.now_us // 1_000
        records = [
            RecordView(Offset(n), wall_ms, key, value)
            for n, (key, value) in enumerate(self._unanswered)
        ]
        assert self.topic_id is not None, "a leader is known"
        content = produced_batch(records, self._codec)
        body = requests.produce(self.topic_id, self.partition, content, -1)
        self.ask_leader(PRODUCE, body, self._on_answer)

    def _on_answer(self, response: Any) -> None:
        code, row = outcome_of(response)
        if code is ErrorCode.none:
            for offset, (key, value) in enumerate(self._unanswered, int(row.base_offset)):
                self._compacted.acknowledged(self.key, key, offset, value)
            self.acknowledged += len(self._unanswered)
            self._unanswered = []
            self.later(self._send, PAUSE_US)
            return
        assert code in RETRIED, f"{code=}"
        self.later(lambda: self.find_leader(self._send))
