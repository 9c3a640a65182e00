"""The answer to DescribeLogDirs: the replicas in each log directory of a broker, with their sizes.

No replica has an offset lag but a copy of one that moves: the end of a log is never below its high
watermark.

apache/kafka: core/.../server/KafkaApis.scala (handleDescribeLogDirsRequest), ReplicaManager.scala
(describeLogDirs)
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import timedelta
from itertools import groupby
from typing import TYPE_CHECKING

import msgspec

from metadata.image import Image
from storage.vfs import Volume
from wire.api_keys import DESCRIBE_LOG_DIRS
from wire.errors import ErrorCode
from wire.messages import codec
from wire.messages.codec import Entity
from wire.types import DirectoryId, NodeId

if TYPE_CHECKING:
    from kio.schema.describe_log_dirs.v5.request import (
        DescribableLogDirTopic,
        DescribeLogDirsRequest,
    )


class LocalReplica(msgspec.Struct, frozen=True, order=True, gc=False):
    """A replica with the size of its records."""

    topic_name: str
    partition: int
    size_bytes: int
    offset_lag: int = 0
    is_future: bool = False
    """True for a copy of the replica that is being made in this log directory."""


def described_log_dirs(
    request: "DescribeLogDirsRequest",
    replicas: Mapping[str, Iterable[LocalReplica] | None],
    volume: Callable[[str], Volume],
    cordoned: AbstractSet[str],
) -> Entity:
    """Return the response to a request.

    Args:
        request: its topics None means all partitions.
        replicas: by the path of each log directory, in their order; None for one that is offline.
        volume: returns the file system of a path; OSError if that fails.
        cordoned: paths of the cordoned log directories.
    """
    wanted = None if request.topics is None else wanted_partitions(request.topics)
    return log_dirs_response(
        [
            log_dir_result(
                path,
                None if found is None else _topics(found, wanted),
                volume,
                is_cordoned=path in cordoned,
            )
            for path, found in replicas.items()
        ]
    )


def log_dirs_response(results: Iterable[Entity]) -> Entity:
    """The response of the results of all log directories."""
    new = codec.newest(DESCRIBE_LOG_DIRS, "response")
    return new.DescribeLogDirsResponse(
        throttle_time=timedelta(0), error_code=ErrorCode.none, results=tuple(results)
    )


def log_dir_result(
    path: str,
    topics: tuple[Entity, ...] | None,
    volume: Callable[[str], Volume],
    *,
    is_cordoned: bool,
) -> Entity:
    """The result of a log directory, with its topics; None for one that is offline."""
    new = codec.newest(DESCRIBE_LOG_DIRS, "response")
    error = ErrorCode.kafka_storage_error
    offline = new.DescribeLogDirsResult(error_code=error, log_dir=path, topics=())
    if topics is None:
        return offline
    try:
        size = volume(path)
    except OSError:
        return offline
    return new.DescribeLogDirsResult(
        error_code=ErrorCode.none,
        log_dir=path,
        topics=topics,
        total_bytes=size.total_bytes,
        usable_bytes=size.usable_bytes,
        is_cordoned=is_cordoned,
    )


def topic_row(name: str, partitions: Iterable[Entity]) -> Entity:
    """A topic of a log directory, with its replicas."""
    new = codec.newest(DESCRIBE_LOG_DIRS, "response")
    return new.DescribeLogDirsTopic(name=name, partitions=tuple(partitions))


def replica_row(replica: LocalReplica) -> Entity:
    """A replica."""
    new = codec.newest(DESCRIBE_LOG_DIRS, "response")
    return new.DescribeLogDirsPartition(
        partition_index=replica.partition,
        partition_size=replica.size_bytes,
        offset_lag=replica.offset_lag,
        is_future_key=replica.is_future,
    )


def wanted_partitions(topics: Sequence["DescribableLogDirTopic"]) -> dict[str, set[int]]:
    """The partitions that a request names, by topic."""
    wanted: dict[str, set[int]] = {}
    for topic in topics:
        wanted.setdefault(str(topic.topic), set()).update(map(int, topic.partitions))
    return wanted


def cordoned_log_dirs(
    image: Image, broker_id: NodeId, path_by_id: Mapping[DirectoryId, str]
) -> frozenset[str]:
    """Paths of the log directories that the broker told the controller are cordoned."""
    broker = image.brokers.get(broker_id)
    cordoned = () if broker is None else broker.cordoned_log_dirs or ()
    return frozenset(path_by_id[one] for one in cordoned if one in path_by_id)


def _topics(
    replicas: Iterable[LocalReplica], wanted: dict[str, set[int]] | None
) -> tuple[Entity, ...]:
    found = sorted(
        one for one in replicas if wanted is None or one.partition in wanted.get(one.topic_name, ())
    )
    return tuple(
        topic_row(name, map(replica_row, of_topic))
        for name, of_topic in groupby(found, key=lambda one: one.topic_name)
    )
