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
    new = codec.newest(DESCRIBE_LOG_DIRS, "response")
    wanted = None if request.topics is None else _wanted(request.topics)

    def result(path: str, found: Iterable[LocalReplica] | None) -> Entity:
        error = ErrorCode.kafka_storage_error
        offline = new.DescribeLogDirsResult(error_code=error, log_dir=path, topics=())
        if found is None:
            return offline
        try:
            size = volume(path)
        except OSError:
            return offline
        return new.DescribeLogDirsResult(
            error_code=ErrorCode.none,
            log_dir=path,
            topics=_topics(found, wanted),
            total_bytes=size.total_bytes,
            usable_bytes=size.usable_bytes,
            is_cordoned=path in cordoned,
        )

    return new.DescribeLogDirsResponse(
        throttle_time=timedelta(0),
        error_code=ErrorCode.none,
        results=tuple(result(path, found) for path, found in replicas.items()),
    )


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
    new = codec.newest(DESCRIBE_LOG_DIRS, "response")
    found = sorted(
        one for one in replicas if wanted is None or one.partition in wanted.get(one.topic_name, ())
    )
    return tuple(
        new.DescribeLogDirsTopic(
            name=name,
            partitions=tuple(
                new.DescribeLogDirsPartition(
                    partition_index=one.partition,
                    partition_size=one.size_bytes,
                    offset_lag=one.offset_lag,
                    is_future_key=one.is_future,
                )
                for one in of_topic
            ),
        )
        for name, of_topic in groupby(found, key=lambda one: one.topic_name)
    )


def _wanted(topics: Sequence["DescribableLogDirTopic"]) -> dict[str, set[int]]:
    wanted: dict[str, set[int]] = {}
    for topic in topics:
        wanted.setdefault(str(topic.topic), set()).update(map(int, topic.partitions))
    return wanted
