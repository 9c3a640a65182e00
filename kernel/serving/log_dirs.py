"""DescribeLogDirs of a broker without a port to records, by the replicas that its image has.

A replica has the records that a Kafka broker wrote to its directory before, mostly none.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from broker_publisher.local_changes import local_partitions
from broker_publisher.log_dirs import LocalReplica, cordoned_log_dirs, described_log_dirs
from metadata.image import Image
from storage.vfs import Volume
from wire.messages.codec import Entity
from wire.types import DirectoryId, NodeId, TopicIdPartition

if TYPE_CHECKING:
    from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest


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
        record_bytes = self._record_bytes()
        replicas: dict[str, list[LocalReplica]] = {path: [] for path in self._paths}
        for hosted in local_partitions(image, broker_id):
            path = self._path_by_id.get(hosted.directory_id, self._paths[0])
            size = record_bytes.get((hosted.topic_id, hosted.partition), 0)
            replicas[path].append(LocalReplica(hosted.topic_name, hosted.partition, size))
        cordoned = cordoned_log_dirs(image, broker_id, self._path_by_id)
        return described_log_dirs(request, replicas, self._volume, cordoned)
