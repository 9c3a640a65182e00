"""DescribeLogDirs: which partitions lie in which log directory of this broker.

Source: apache/kafka: core/.../server/KafkaApis.scala (handleDescribeLogDirsRequest),
ReplicaManager.describeLogDirs. A node keeps metadata only, so every replica has 0 bytes and lags
behind nobody; how large a volume is is told as unknown, as of one that cannot be asked.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from broker_publisher.local_changes import local_partitions
from metadata.image import Image
from wire import codec
from wire.api_keys import DESCRIBE_LOG_DIRS
from wire.errors import ErrorCode
from wire.types import DirectoryId, NodeId

UNKNOWN_BYTES = -1


def described_log_dirs(
    image: Image,
    broker_id: NodeId,
    log_dirs: Sequence[str],
    path_by_id: Mapping[DirectoryId, str],
    request: Any,
) -> Any:
    """The response of one broker.

    Args:
        image: says what this broker hosts.
        broker_id: this broker.
        log_dirs: all of its log directories; a replica without one is in the first.
        path_by_id: their ids.
        request: topics None means all.
    """
    new = codec.newest(DESCRIBE_LOG_DIRS, "response")
    wanted = None if request.topics is None else _wanted(request.topics)
    found: dict[str, dict[str, list[int]]] = {path: {} for path in log_dirs}
    for hosted in local_partitions(image, broker_id):
        name, number = hosted.topic_name, hosted.partition
        if wanted is None or number in wanted.get(name, ()):
            path = path_by_id.get(hosted.directory_id, log_dirs[0])
            found[path].setdefault(name, []).append(number)
    cordoned = image.brokers[broker_id].cordoned_log_dirs if broker_id in image.brokers else None
    is_cordoned = {path_by_id[one] for one in cordoned or () if one in path_by_id}
    return new.DescribeLogDirsResponse(
        throttle_time=timedelta(0),
        error_code=ErrorCode.none,
        results=tuple(
            new.DescribeLogDirsResult(
                error_code=ErrorCode.none,
                log_dir=path,
                topics=tuple(
                    new.DescribeLogDirsTopic(
                        name=name,
                        partitions=tuple(
                            new.DescribeLogDirsPartition(
                                partition_index=number,
                                partition_size=0,
                                offset_lag=0,
                                is_future_key=False,
                            )
                            for number in sorted(numbers)
                        ),
                    )
                    for name, numbers in sorted(topics.items())
                ),
                total_bytes=UNKNOWN_BYTES,
                usable_bytes=UNKNOWN_BYTES,
                is_cordoned=path in is_cordoned,
            )
            for path, topics in found.items()
        ),
    )


def _wanted(topics: Sequence[Any]) -> dict[str, set[int]]:
    wanted: dict[str, set[int]] = {}
    for topic in topics:
        wanted.setdefault(str(topic.topic), set()).update(map(int, topic.partitions))
    return wanted
