"""The log directory of a replica that has no log yet.

apache/kafka: core/.../log/LogManager.scala (`getOrCreateLog`, `nextLogDirs`)
"""

from collections.abc import Collection

from broker.config import RecordsConfig
from metadata.cordoned_directories import cordoned_paths
from metadata.image import Image
from metadata.image import Partition as PartitionRegistration
from storage.checkpoints.recovery_points import TopicAndPartition
from storage.logs.log_manager import LogManager


class LogDirChoice:
    """The choice of log directories.

    Args:
        config: of the broker.
        manager: of the logs.
    """

    def __init__(self, config: RecordsConfig, manager: LogManager) -> None:
        self._config = config
        self._manager = manager
        self._properties = dict(config.properties)
        self._path_by_id = {identity: path for path, identity in config.directory_ids.items()}
        self.preferred: dict[TopicAndPartition, str] = {}
        """Log directories that AlterReplicaLogDirs named for replicas without a log."""

    def log_dir_for(
        self, name: TopicAndPartition, registration: PartitionRegistration, image: Image
    ) -> str | None:
        """The preferred one, else that of the metadata if it is one here, else any.

        None if the one that is named is offline, or all are.
        """
        online = [path for path in self._config.log_dirs if path in self._manager.directories]
        assigned = self._path_by_id.get(registration.directory(self._config.node_id))
        named = self.preferred.pop(name, assigned)
        if named is not None:
            return named if named in online else None
        if not online:
            return None
        cordoned = self.cordoned(image)
        allowed = [path for path in online if path not in cordoned]
        return self._manager.next_log_dir(allowed or online)

    def prefer(self, name: TopicAndPartition, path: str) -> None:
        """Name the log directory of a replica that has no log yet."""
        self.preferred[name] = path

    def forget(self, name: TopicAndPartition) -> None:
        """Leave out the preferred log directory of a replica that has a log."""
        self.preferred.pop(name, None)

    def is_online(self, path: str) -> bool:
        """True for a log directory that can be used."""
        return path in self._manager.directories

    def cordoned(self, image: Image) -> Collection[str]:
        """The log directories that take no new replicas."""
        node_id, paths = self._config.node_id, self._config.log_dirs
        return cordoned_paths(image, node_id, self._properties, paths) or ()
