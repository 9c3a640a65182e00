"""AlterReplicaLogDirs: moves replicas of this broker to other log directories of it.

A replica that is not here yet is created in the log directory that was named for it.

apache/kafka: core/.../server/KafkaApis.scala (handleAlterReplicaLogDirsRequest),
ReplicaManager.scala (alterReplicaLogDirs); 4.3
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from broker.apis.access import Access
from broker.apis.named_partitions import NamedPartitions
from broker.clients.call import Call
from broker.config import RecordsConfig
from broker.replicas.local_replicas import LocalReplicas
from broker.replicas.log_dir_choice import LogDirChoice
from broker.replicas.replica_moves import ReplicaMoves
from metadata.image import Image
from quorum_controller.bodies import NO_TIME
from quorum_controller.security.authorization import Operation
from replication.roles import Offline
from storage.log_dir.partition_directories import has_future_name
from wire.api_keys import ALTER_REPLICA_LOG_DIRS
from wire.errors import ErrorCode
from wire.messages import codec

if TYPE_CHECKING:
    from kio.schema.alter_replica_log_dirs.v2.request import AlterReplicaLogDirsRequest

Codes = dict[tuple[str, int], ErrorCode | None]
"""By topic and partition, in the order of the request; None for one that is not answered yet."""


class AlterReplicaLogDirs:
    """Handler of AlterReplicaLogDirs, versions 1 and 2.

    Args:
        config: of the broker.
        partitions: of this broker.
        access: ALTER of the cluster is asked for.
        local: the replicas.
        choice: of the log directories of new ones.
        moves: of the replicas.
        image: returns the newest image.
    """

    def __init__(
        self,
        config: RecordsConfig,
        partitions: NamedPartitions,
        access: Access,
        *,
        local: LocalReplicas,
        choice: LogDirChoice,
        moves: ReplicaMoves,
        image: Callable[[], Image],
    ) -> None:
        self._config = config
        self._partitions = partitions
        self._access = access
        self._local = local
        self._choice = choice
        self._moves = moves
        self._image = image

    def serve(self, call: Call) -> None:
        """Answer a request, when the directories of all copies are made."""
        body: AlterReplicaLogDirsRequest = call.body()
        is_allowed = self._access.allows_cluster(call.caller, Operation.ALTER)
        asked = {
            (str(topic.name), int(number)): directory.path
            for directory in body.dirs
            for topic in directory.topics
            for number in topic.partitions
        }
        codes: Codes = dict.fromkeys(asked)

        def answered(name: tuple[str, int], code: ErrorCode) -> None:
            codes[name] = code
            if None not in codes.values():
                _answer(call, codes)

        if not asked:
            _answer(call, codes)
        for name, path in asked.items():
            if is_allowed:
                self._alter(name, path, partial(answered, name))
            else:
                answered(name, ErrorCode.cluster_authorization_failed)

    def _alter(
        self, name: tuple[str, int], path: str, answered: Callable[[ErrorCode], None]
    ) -> None:
        local = self._local
        code = self._refusal_of(name, path)
        key = self._partitions.key_of(*name)
        partition = None if key is None else local.partition(key)
        role = None if partition is None else partition.role
        if code is ErrorCode.none and isinstance(role, Offline):
            code = role.code if role.code is ErrorCode.kafka_storage_error else code
        if code is not ErrorCode.none:
            answered(code)
            return
        current = target = None
        if key is not None:
            if self._moves.log_dir_of(key) not in (None, path):
                local.end_move(key)
            current, target = local.log_dir_of(key), self._moves.log_dir_of(key)
        if path not in (current, target):
            self._choice.prefer(name, path)
        if key is None:
            answered(ErrorCode.unknown_topic_or_partition)
        elif partition is None or partition.log is None:
            answered(ErrorCode.replica_not_available)
        elif path in (current, target):
            answered(ErrorCode.none)
        elif local.failed_log_dirs:  # one of them may have a copy of it
            answered(ErrorCode.kafka_storage_error)
        else:
            self._choice.forget(name)
            self._moves.start(
                key,
                name,
                partition,
                path,
                lambda is_made: answered(
                    ErrorCode.none if is_made else ErrorCode.kafka_storage_error
                ),
            )

    def _refusal_of(self, name: tuple[str, int], path: str) -> ErrorCode:
        if not has_future_name(*name):
            return ErrorCode.invalid_topic_exception
        if path not in self._config.log_dirs:
            return ErrorCode.log_dir_not_found
        if not self._choice.is_online(path):
            return ErrorCode.kafka_storage_error
        if path in self._choice.cordoned(self._image()):
            return ErrorCode.invalid_replica_assignment
        return ErrorCode.none


def _answer(call: Call, codes: Codes) -> None:
    new = codec.newest(ALTER_REPLICA_LOG_DIRS, "response")
    topics: dict[str, list[object]] = {}
    for (topic, number), code in codes.items():
        row = new.AlterReplicaLogDirPartitionResult(partition_index=number, error_code=code)
        topics.setdefault(topic, []).append(row)
    call.answer(
        new.AlterReplicaLogDirsResponse(
            throttle_time=NO_TIME,
            results=tuple(
                new.AlterReplicaLogDirTopicResult(topic_name=topic, partitions=tuple(rows))
                for topic, rows in topics.items()
            ),
        )
    )
