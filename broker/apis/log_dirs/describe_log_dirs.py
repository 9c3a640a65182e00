"""DescribeLogDirs: the logs in each log directory of this broker, with their sizes."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from broker.apis.access import Access
from broker.clients.call import PIECE_UNITS, Call
from broker.config import RecordsConfig
from broker_publisher.log_dirs import (
    LocalReplica,
    cordoned_log_dirs,
    log_dir_result,
    log_dirs_response,
    replica_row,
    topic_row,
    wanted_partitions,
)
from metadata.image import Image
from quorum_controller.bodies import NO_TIME
from quorum_controller.security.authorization import Operation
from storage.checkpoints.recovery_points import TopicAndPartition
from storage.logs.unified_log import UnifiedLog
from storage.vfs import Volume
from wire.api_keys import DESCRIBE_LOG_DIRS
from wire.errors import ErrorCode
from wire.messages import codec
from wire.messages.codec import Entity
from wire.steps import Steps

if TYPE_CHECKING:
    from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest

_PIECE: Final = 32
"""Replicas that are looked at before the units are asked again."""
_LOOK_UNITS: Final = 1
"""Cost of a log that is looked up."""
_ROW_UNITS: Final = 2
"""Cost of a row of the answer."""
_DIRECTORY_UNITS: Final = 10
_SEGMENTS_PER_UNIT: Final = 10
_NAMED: Final = 512
_NAMED_PER_UNIT: Final = 4

_Wanted = Mapping[str, Collection[int]]
"""Numbers of partitions by topic."""
LogsIn = Callable[[str], Mapping[TopicAndPartition, UnifiedLog] | None]
"""The open logs in a log directory by its path; None if it is offline."""
FuturesIn = Callable[[str], list[tuple[TopicAndPartition, int, int]]]
"""The copies that are being made in a log directory: name, bytes, lag."""


class DescribeLogDirs:
    """Handler of DescribeLogDirs, versions 1 to 5.

    Args:
        config: of the broker.
        image: returns the newest image.
        access: DESCRIBE of the cluster is asked for.
        logs_in: the logs.
        futures_in: copies of replicas that move.
        volume: returns the file system of a path; OSError if that fails.
    """

    def __init__(
        self,
        config: RecordsConfig,
        image: Callable[[], Image],
        access: Access,
        logs_in: LogsIn,
        futures_in: FuturesIn,
        volume: Callable[[str], Volume],
    ) -> None:
        self._config = config
        self._path_by_id = {one: path for path, one in config.directory_ids.items()}
        self._image = image
        self._access = access
        self._logs_in = logs_in
        self._futures_in = futures_in
        self._volume = volume

    def serve(self, call: Call) -> None:
        """Answer a request, a large one over turns."""
        if self._access.allows_cluster(call.caller, Operation.DESCRIBE):
            call.answer_from(self._described(call, call.body()))
            return
        new = codec.newest(DESCRIBE_LOG_DIRS, "response")
        call.answer(
            new.DescribeLogDirsResponse(
                throttle_time=NO_TIME,
                error_code=ErrorCode.cluster_authorization_failed,
                results=(),
            )
        )

    def _described(self, call: Call, body: "DescribeLogDirsRequest") -> Steps[Entity]:
        config = self._config
        wanted = None if body.topics is None else wanted_partitions(body.topics)
        found: dict[str, tuple[Entity, ...] | None] = {}
        for path in config.log_dirs:
            found[path] = yield from self._topics(call, path, wanted)
        cordoned = cordoned_log_dirs(self._image(), config.node_id, self._path_by_id)
        results = []
        for path, topics in found.items():
            now = topics if self._logs_in(path) is not None else None
            results.append(log_dir_result(path, now, self._volume, is_cordoned=path in cordoned))
            call.units += _DIRECTORY_UNITS
        return log_dirs_response(results)

    def _topics(
        self, call: Call, path: str, wanted: _Wanted | None
    ) -> Steps[tuple[Entity, ...] | None]:
        """The topics in a log directory, None if it is offline."""
        logs = self._logs_in(path)
        if logs is None:
            return None
        copies: dict[str, list[LocalReplica]] = {}
        for (topic, number), size_bytes, lag in self._futures_in(path):
            if wanted is None or number in wanted.get(topic, ()):
                copy = LocalReplica(topic, number, size_bytes, lag, is_future=True)
                copies.setdefault(topic, []).append(copy)
        if wanted is None:
            wanted = yield from _by_topic(call, list(logs))
        topics = []
        for topic in sorted(wanted.keys() | copies.keys()):
            replicas = yield from self._replicas(call, path, topic, wanted.get(topic, ()))
            if topic in copies:
                replicas = sorted(replicas + copies[topic])
            rows: list[Entity] = []
            for start in range(0, len(replicas), _PIECE):
                if call.units >= PIECE_UNITS:
                    yield call.take_units()
                some = replicas[start : start + _PIECE]
                rows += map(replica_row, some)
                call.units += len(some) * _ROW_UNITS
            if rows:
                topics.append(topic_row(topic, rows))
        return tuple(topics)

    def _replicas(
        self, call: Call, path: str, topic: str, numbers: Collection[int]
    ) -> Steps[list[LocalReplica]]:
        """Those of the partitions of a topic that are in a log directory at their piece."""
        found: list[LocalReplica] = []
        in_order = sorted(numbers)
        for start in range(0, len(in_order), _PIECE):
            if call.units >= PIECE_UNITS:
                yield call.take_units()
            some = in_order[start : start + _PIECE]
            logs = self._logs_in(path) or {}
            for number in some:
                log = logs.get((topic, number))
                if log is not None:
                    found.append(LocalReplica(topic, number, log.log.size_bytes))
                    call.units += len(log.log.segments) // _SEGMENTS_PER_UNIT
            call.units += 1 + len(some) * _LOOK_UNITS
        return found


def _by_topic(call: Call, names: Sequence[TopicAndPartition]) -> Steps[_Wanted]:
    """The numbers of partitions by topic."""
    found: dict[str, set[int]] = {}
    for start in range(0, len(names), _NAMED):
        if call.units >= PIECE_UNITS:
            yield call.take_units()
        some = names[start : start + _NAMED]
        for topic, number in some:
            found.setdefault(topic, set()).add(number)
        call.units += len(some) // _NAMED_PER_UNIT
    return found
