"""DescribeLogDirs: the logs in each log directory of this broker, with their sizes."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from broker.apis.access import Access
from broker.clients.call import Call
from broker.config import RecordsConfig
from broker_publisher.log_dirs import LocalReplica, cordoned_log_dirs, described_log_dirs
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

if TYPE_CHECKING:
    from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest

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
        """Answer a request."""
        if self._access.allows_cluster(call.caller, Operation.DESCRIBE):
            call.answer(self._described(call.body()))
            return
        new = codec.newest(DESCRIBE_LOG_DIRS, "response")
        call.answer(
            new.DescribeLogDirsResponse(
                throttle_time=NO_TIME,
                error_code=ErrorCode.cluster_authorization_failed,
                results=(),
            )
        )

    def _described(self, body: "DescribeLogDirsRequest") -> Entity:
        config = self._config
        cordoned = cordoned_log_dirs(self._image(), config.node_id, self._path_by_id)
        replicas = {path: self._replicas(path) for path in config.log_dirs}
        return described_log_dirs(body, replicas, self._volume, cordoned)

    def _replicas(self, path: str) -> list[LocalReplica] | None:
        logs = self._logs_in(path)
        if logs is None:
            return None
        futures = [
            LocalReplica(topic, number, size_bytes, lag, is_future=True)
            for (topic, number), size_bytes, lag in self._futures_in(path)
        ]
        return futures + [
            LocalReplica(topic, number, log.log.size_bytes) for (topic, number), log in logs.items()
        ]
