"""The log directories of replicas, told to the controller: AssignReplicasToDirs (KIP-858).

One request is in flight, with the assignments that wait by then; one that is refused, or without an
answer, is sent again. A partition that is no replica of this broker any more is left out.

apache/kafka: server/.../AssignmentsManager.java
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from uuid import UUID

from metadata.features import LEVEL_DIRECTORIES
from metadata.image import Image
from wire.api_keys import ASSIGN_REPLICAS_TO_DIRS
from wire.errors import ErrorCode
from wire.messages import codec
from wire.messages.codec import Entity
from wire.types import BrokerEpoch, DirectoryId, NodeId, TopicId, TopicIdPartition

if TYPE_CHECKING:
    from kio.schema.assign_replicas_to_dirs.v0.response import AssignReplicasToDirsResponse

LINGER_MS: Final = 100
"""Delay of a request, so that it has more assignments."""
RETRY_MS_MAX: Final = 10_000
ASSIGNMENTS_PER_REQUEST: Final = 2250
"""`AssignReplicasToDirsRequest.MAX_ASSIGNMENTS_PER_REQUEST`"""


class DirectoryAssignments:
    """Assignments of one broker that the controller has not taken yet."""

    def __init__(self, node_id: NodeId) -> None:
        self._node_id = node_id
        self._waiting: dict[TopicIdPartition, DirectoryId] = {}
        self._in_flight: dict[TopicIdPartition, DirectoryId] | None = None
        self._failures = 0
        self._due_ms: int | None = None

    def submit(self, key: TopicIdPartition, directory: DirectoryId, now_ms: int) -> None:
        """Tell of the log directory of a replica; a newer one replaces it."""
        self._waiting[key] = directory
        self._schedule(now_ms)

    def next_ms(self) -> int | None:
        """Instant of the next request; None without one, or while one is in flight."""
        return None if self._in_flight is not None else self._due_ms

    def take_request(
        self, image: Image, broker_epoch: Callable[[], BrokerEpoch], now_ms: int
    ) -> Entity | None:
        """The request that is due, which is in flight from here on; None without one."""
        due_ms = self.next_ms()
        if due_ms is None or now_ms < due_ms:
            return None
        self._due_ms = None
        sent: dict[TopicIdPartition, DirectoryId] = {}
        for key in list(self._waiting)[:ASSIGNMENTS_PER_REQUEST]:
            directory = self._waiting.pop(key)
            if self._is_wanted(image, key, directory):
                sent[key] = directory
        if not sent:
            self._schedule(now_ms)
            return None
        self._in_flight = sent
        return self._request(sent, broker_epoch())

    def _is_wanted(self, image: Image, key: TopicIdPartition, directory: DirectoryId) -> bool:
        partition = image.partition(*key)
        return (
            image.metadata_version >= LEVEL_DIRECTORIES
            and partition is not None
            and self._node_id in partition.replicas
            and partition.directory(self._node_id) != directory
        )

    def on_answer(self, answer: "AssignReplicasToDirsResponse | None", now_ms: int) -> None:
        """Take the answer to the request in flight, None for none."""
        assert self._in_flight is not None, "an answer without a request"
        sent, self._in_flight = self._in_flight, None
        taken: set[TopicIdPartition] = set()
        if answer is None or answer.error_code is not ErrorCode.none:
            self._failures += 1
        else:
            self._failures = 0
            taken = {
                (TopicId(topic.topic_id.bytes), row.partition_index)
                for directory in answer.directories
                for topic in directory.topics
                for row in topic.partitions
                if topic.topic_id is not None and row.error_code is ErrorCode.none
            }
        for key, directory in sent.items():
            if key not in taken:
                self._waiting.setdefault(key, directory)
        self._schedule(now_ms)

    def _schedule(self, now_ms: int) -> None:
        if not self._waiting:
            return
        delay_ms = min(LINGER_MS << min(self._failures, 16), RETRY_MS_MAX)
        if len(self._waiting) > ASSIGNMENTS_PER_REQUEST and not self._failures:
            delay_ms = 0
        due_ms = now_ms + delay_ms
        self._due_ms = due_ms if self._due_ms is None else min(self._due_ms, due_ms)

    def _request(self, sent: dict[TopicIdPartition, DirectoryId], epoch: BrokerEpoch) -> Entity:
        new = codec.newest(ASSIGN_REPLICAS_TO_DIRS, "request")
        directories: dict[DirectoryId, dict[TopicId, list[Entity]]] = {}
        for (topic_id, number), directory in sent.items():
            row = new.PartitionData(partition_index=number)
            directories.setdefault(directory, {}).setdefault(topic_id, []).append(row)
        return new.AssignReplicasToDirsRequest(
            broker_id=self._node_id,
            broker_epoch=epoch,
            directories=tuple(
                new.DirectoryData(
                    id_=UUID(bytes=directory),
                    topics=tuple(
                        new.TopicData(topic_id=UUID(bytes=topic_id), partitions=tuple(rows))
                        for topic_id, rows in topics.items()
                    ),
                )
                for directory, topics in directories.items()
            ),
        )
