"""DescribeLogDirs: the partitions in each log directory of this broker, with their sizes.

Source: apache/kafka: core/.../server/KafkaApis.scala (handleDescribeLogDirsRequest),
ReplicaManager.describeLogDirs. A node keeps metadata only: a replica has the records that a Kafka
broker wrote to its directory before, mostly none, and no offset lag.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from broker_publisher.local_changes import LocalPartition, local_partitions
from metadata.image import Image
from storage.vfs import Volume
from wire import codec
from wire.api_keys import DESCRIBE_LOG_DIRS
from wire.codec import Entity, Schema
from wire.errors import ErrorCode
from wire.types import DirectoryId, NodeId, TopicIdPartition

if TYPE_CHECKING:
    from kio.schema.describe_log_dirs.v5.request import (
        DescribableLogDirTopic,
        DescribeLogDirsRequest,
    )


class LogDirs:
    """The log directories of one broker.

    Args:
        paths: all log directories; a replica without a known directory is in the first.
        path_by_id: paths by directory id.
        volume: returns the file system of a path; OSError if that fails.
        record_bytes: returns the size of the records by partition; none if missing.
    """

    def __init__(
        self,
        paths: Sequence[str],
        path_by_id: Mapping[DirectoryId, str],
        volume: Callable[[str], Volume],
        record_bytes: Callable[[], Mapping[TopicIdPartition, int]],
    ) -> None:
        self._paths = paths
        self._path_by_id = path_by_id
        self._volume = volume
        self._record_bytes = record_bytes

    def described(
        self, image: Image, broker_id: NodeId, request: "DescribeLogDirsRequest"
    ) -> Entity:
        """Return the response to a request; its topics None means all partitions."""
        new = codec.newest(DESCRIBE_LOG_DIRS, "response")
        wanted = None if request.topics is None else _wanted(request.topics)
        found: dict[str, dict[str, list[LocalPartition]]] = {path: {} for path in self._paths}
        for hosted in local_partitions(image, broker_id):
            name = hosted.topic_name
            if wanted is None or hosted.partition in wanted.get(name, ()):
                path = self._path_by_id.get(hosted.directory_id, self._paths[0])
                found[path].setdefault(name, []).append(hosted)
        broker = image.brokers.get(broker_id)
        cordoned = () if broker is None else broker.cordoned_log_dirs or ()
        is_cordoned = {self._path_by_id[one] for one in cordoned if one in self._path_by_id}
        return new.DescribeLogDirsResponse(
            throttle_time=timedelta(0),
            error_code=ErrorCode.none,
            results=tuple(
                self._result(new, path, topics, is_cordoned=path in is_cordoned)
                for path, topics in found.items()
            ),
        )

    def _result(
        self, new: Schema, path: str, topics: dict[str, list[LocalPartition]], *, is_cordoned: bool
    ) -> Entity:
        try:
            volume = self._volume(path)
        except OSError:
            error = ErrorCode.kafka_storage_error
            return new.DescribeLogDirsResult(error_code=error, log_dir=path, topics=())
        return new.DescribeLogDirsResult(
            error_code=ErrorCode.none,
            log_dir=path,
            topics=tuple(
                new.DescribeLogDirsTopic(name=name, partitions=self._partitions(new, hosted))
                for name, hosted in sorted(topics.items())
            ),
            total_bytes=volume.total_bytes,
            usable_bytes=volume.usable_bytes,
            is_cordoned=is_cordoned,
        )

    def _partitions(self, new: Schema, hosted: Sequence[LocalPartition]) -> tuple[Entity, ...]:
        record_bytes = self._record_bytes()
        return tuple(
            new.DescribeLogDirsPartition(
                partition_index=one.partition,
                partition_size=record_bytes.get((one.topic_id, one.partition), 0),
                offset_lag=0,
                is_future_key=False,
            )
            for one in sorted(hosted, key=lambda one: one.partition)
        )


def _wanted(topics: Sequence["DescribableLogDirTopic"]) -> dict[str, set[int]]:
    wanted: dict[str, set[int]] = {}
    for topic in topics:
        wanted.setdefault(str(topic.topic), set()).update(map(int, topic.partitions))
    return wanted
