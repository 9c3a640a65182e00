"""Moves of replicas between the log directories of a broker, while they are written.

    asked --directory made--> copying --has all--> assigned --the controller has it--> replaced

A copy that has all but the last records is told to the controller first (KIP-858); it replaces its
log once the image names its log directory, and takes those records in the same step of the broker,
so that a log that is always written is replaced too. One step of a copy is in a lane at a time, and
at most as many as there are threads for it. A move whose replica goes, or is asked for elsewhere,
ends when its step has ended.

    INV-MV-2  a log is replaced by a copy that has all of it, and whose log directory is assigned

apache/kafka: core/.../server/{ReplicaAlterLogDirsThread,ReplicaAlterLogDirsManager}.scala
"""

from collections.abc import Callable, Iterable
from math import inf
from typing import Final

import msgspec

from broker.cleaning.log_cleaner import LogCleaner
from broker.config import RecordsConfig
from broker.effects import Lane, Log, LogLevel
from broker.replicas.partition_files import PartitionFiles
from broker.replicas.replica_views import FutureLogView
from broker.services import Disk, Services
from metadata.features import LEVEL_DIRECTORIES
from metadata.image import EMPTY, Image
from metadata.node_configs import NodeConfigs
from network.sampled_rate import SimpleRate
from replication.follower.moving import CopyStep, is_ahead, is_last, next_step
from replication.leader.leadership import Changed
from replication.partition import Partition
from replication.replica_manager import ReplicaManager
from replication.roles import Offline
from storage.checkpoints.recovery_points import TopicAndPartition
from storage.logs.log_manager import ERRORS, LogManager
from storage.logs.recovery import first_gap
from storage.logs.unified_log import UnifiedLog
from storage.vfs import parent
from wire.types import DirectoryId, LeaderEpoch, TopicIdPartition

RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"

LAST_BYTES_MAX: Final = 1 << 20
"""Bytes that the step which replaces a log copies: as many as a Produce may append to it."""

Generation = tuple[UnifiedLog, int, LeaderEpoch]


class Move:
    """One replica on its way to another log directory."""

    def __init__(
        self, key: TopicIdPartition, name: TopicAndPartition, partition: Partition, copy: UnifiedLog
    ) -> None:
        self.key = key
        self.name = name
        self.partition = partition
        self.copy = copy
        self.copied_offset = copy.end_offset
        """End of the copy behind its last step."""
        self.copied_bytes = copy.log.size_bytes
        self.is_running = False
        self.is_ended = False
        self.is_assigned = False
        """True once the controller was told of the log directory."""
        self.generation: Generation | None = None
        """Log, truncations of it, and leader epoch when it was reconciled last."""
        self.is_stuck = False
        """True while that is the same behind a step that could not copy the next batch."""

    @property
    def lag(self) -> int:
        """Number of records up to the end of the log; -1 while that is not there."""
        return _lag(self.partition.log, self.copied_offset)


class MoveListener(msgspec.Struct, frozen=True, kw_only=True):
    """The owner of the replicas, as their moves see it."""

    assign: Callable[[TopicIdPartition, DirectoryId], None]
    """Tell the controller of a replica's log directory."""
    failed: Callable[[str, BaseException], None]
    """Take a log directory offline."""
    cleaner: LogCleaner
    """Paused for a replica that moves, until its directory has its name or the move is given up."""
    replaces: Callable[[TopicAndPartition], None]
    """Leave the flushes of a log, which its copy replaces now."""
    replaced: Callable[[TopicIdPartition, TopicAndPartition], None]
    """Follow a log that was replaced, when its directory has its name, or is gone."""


class ReplicaMoves:
    """The moves of one broker.

    Args:
        config: of the broker.
        disk: of the broker.
        services: of the step.
        manager: of the logs.
        files: of the logs.
        replicas: told of what a move changes for those who wait.
        listener: told of what a move asks for.
    """

    def __init__(
        self,
        config: RecordsConfig,
        disk: Disk,
        services: Services,
        manager: LogManager,
        files: PartitionFiles,
        *,
        replicas: ReplicaManager,
        listener: MoveListener,
    ) -> None:
        self._config = config
        self._vfs = disk.vfs
        self._services = services
        self._manager = manager
        self._files = files
        self._replicas = replicas
        self._listener = listener
        self._cleaner = listener.cleaner
        self._after: dict[TopicAndPartition, list[Callable[[], None]]] = {}
        """Moves that wait for the last step of an ended one, by name."""
        self._image = EMPTY
        self._moves: dict[TopicIdPartition, Move] = {}
        count = config.move_threads or len(config.log_dirs)
        self._threads = [str(number) for number in range(count)]
        """Those without a step."""
        self._rate = SimpleRate(config.move_window)
        self._bound = inf
        self._retry_ms: int | None = None
        self.is_stopped = False

    # -- what others ask for --------------------------------------------------------------------

    def recover(self, image: Image, done: Callable[[], None]) -> None:
        """Finish what a crash interrupted, before any partition is hosted.

        A copy in the log directory that is assigned to its replica replaces the log if it is ahead
        of it, or if there is no other. Else it goes on.
        """
        self._image = image
        ready = [name for name in sorted(self._manager.futures) if self._is_abandoned(name)]
        left = set(ready)

        def settled(name: TopicAndPartition) -> None:
            left.discard(name)
            if not left:
                done()

        for name in ready:
            fields = {"log": f"{name[0]}-{name[1]}"}
            self._services.emit(Log(LogLevel.INFO, "abandoned_future_log", fields))
            self._files.replace(name, lambda name=name: settled(name))  # type: ignore[misc]
        if not ready:
            done()

    def _is_abandoned(self, name: TopicAndPartition) -> bool:
        copy, log = self._manager.future(*name), self._manager.get(*name)
        topic_id = self._image.topic_id_by_name.get(name[0])
        if copy is None or topic_id is None:
            return False
        is_alone = log is None and self._manager.log_dir_of(*name) is None
        if self._image.metadata_version < LEVEL_DIRECTORIES:
            return is_alone and len(self._manager.directories) == len(self._config.log_dirs)
        if not self._is_accepted((topic_id, name[1]), name):
            return False
        return is_alone or (log is not None and is_ahead(log, copy))

    def publish(self, image: Image) -> None:
        """Take the next image, which may assign log directories and bound the rate."""
        self._image = image
        properties = dict(self._config.properties)
        value = NodeConfigs(image, self._config.node_id, properties).value(RATE)
        self._bound = inf if value is None else float(value)
        self.advance(list(self._moves))

    def host(self, key: TopicIdPartition, name: TopicAndPartition, partition: Partition) -> None:
        """Go on with the move of a replica whose log is open, if its copy is there to stay."""
        copy = None if name in self._after else self._manager.future(*name)
        if copy is not None and key not in self._moves and partition.log is not None:
            self._begin(Move(key, name, partition, copy))

    def start(
        self,
        key: TopicIdPartition,
        name: TopicAndPartition,
        partition: Partition,
        path: str,
        started: Callable[[bool], None],
    ) -> None:
        """Copy a replica to another log directory; `started` is told whether that is made."""

        def created(copy: UnifiedLog | None) -> None:
            is_wanted = self._replicas.hosted(key) is partition and partition.log is not None
            if copy is not None and is_wanted:
                self._begin(Move(key, name, partition, copy))
            elif copy is not None and not self.is_stopped:
                self._files.delete_future(name)
            started(copy is not None and is_wanted)

        def create() -> None:
            self._files.create_future(
                name, key[0], path, created=created, ended=lambda: self.advance([key])
            )

        if name in self._after:
            self._after[name].append(create)
        else:
            create()

    def _begin(self, move: Move) -> None:
        if self.is_stopped:
            return
        self._moves[move.key] = move
        self._cleaner.pause(move.name)
        move.partition.set_future_log(move.copy)
        self.advance([move.key])

    def end(self, key: TopicIdPartition, *, deletes: bool = True) -> bool:
        """End the move of a replica, if it has one; its copy goes."""
        move = self._moves.pop(key, None)
        if move is None:
            return False
        move.partition.set_future_log(None)
        self._cleaner.resume(move.name)
        move.is_ended = deletes
        if move.is_running:
            self._after[move.name] = []
        else:
            self._discard(move)
        return True

    def _discard(self, move: Move) -> None:
        if move.is_ended:
            self._files.delete_future(move.name)
        else:
            _close(move.copy)

    def fail(self, path: str) -> list[tuple[TopicIdPartition, TopicAndPartition]]:
        """End the moves from and to a log directory that is offline; those that were assigned."""
        assigned = []
        for key, move in list(self._moves.items()):
            is_target = _is_in(move.copy, path)
            if is_target or self._manager.log_dir_of(*move.name) is None:
                if move.is_assigned:
                    assigned.append((key, move.name))
                self.end(key, deletes=not is_target)
        return assigned

    def holds_assignment(self, key: TopicIdPartition) -> bool:
        """True while the controller is told of the log directory that a replica moves to."""
        move = self._moves.get(key)
        return move is not None and move.is_assigned

    def log_dir_of(self, key: TopicIdPartition) -> str | None:
        """The log directory that a replica moves to."""
        move = self._moves.get(key)
        return None if move is None else self._manager.futures[move.name].path

    def of(self, key: TopicIdPartition) -> Move | None:
        """The move of a replica."""
        return self._moves.get(key)

    def in_directory(self, path: str) -> Iterable[Move]:
        """The moves to a log directory."""
        return [
            move for move in self._moves.values()
            if self._manager.futures[move.name].path == path
        ]  # fmt: skip

    def futures_in(self, path: str) -> list[tuple[TopicAndPartition, int, int]]:
        """The copies in a log directory: name, bytes, and records that they lack of their log."""
        return [(move.name, move.copied_bytes, move.lag) for move in self.in_directory(path)]

    def view(self, key: TopicIdPartition) -> FutureLogView | None:
        """View of the copy of a replica that moves."""
        move, path = self._moves.get(key), self.log_dir_of(key)
        if move is None or path is None:
            return None
        return FutureLogView(
            log_dir=path,
            log_end_offset=move.copied_offset,
            size_bytes=move.copied_bytes,
            lag=move.lag,
            is_assigned=move.is_assigned,
        )

    # -- steps ----------------------------------------------------------------------------------

    def next_ms(self) -> int | None:
        """Instant at which throttled moves go on."""
        return self._retry_ms

    @property
    def is_due(self) -> bool:
        """True if throttled moves go on now."""
        return self._retry_ms is not None and self._retry_ms <= self._services.now_ms

    def tick(self) -> None:
        """Go on with throttled moves."""
        self._retry_ms = None
        self.advance(list(self._moves))

    def appended(self, key: TopicIdPartition) -> None:
        """Go on with the move of a replica that was written."""
        if key in self._moves:
            self.advance([key])

    def advance(self, keys: Iterable[TopicIdPartition], ended: Move | None = None) -> None:
        """Go on with moves that have something to do, by name.

        Args:
            keys: of their replicas.
            ended: one whose step has just ended; of others no records are copied here, so that
                there is one such copy in a step of the broker.
        """
        moves = [self._moves[key] for key in keys if key in self._moves]
        for move in sorted(moves, key=lambda each: each.name):
            if not move.is_running and not self.is_stopped:
                self._advance(move, LAST_BYTES_MAX if move is ended else 0)

    def _advance(self, move: Move, last_bytes_max: int) -> None:
        partition = move.partition
        if partition.log is None or isinstance(partition.role, Offline) or not self._threads:
            return
        now_ms = self._services.now_ms
        if self._bound < inf and self._rate.per_second(now_ms) > self._bound:
            if self._retry_ms is None:
                self._retry_ms = now_ms + self._config.replica_fetch.backoff_ms
            return
        try:
            step = self._next_step(move, partition.log)
        except ERRORS as error:
            path = self._manager.log_dir_of(*move.name)
            assert path is not None, f"{move.name=}"
            self._listener.failed(path, error)
            return
        is_near = move.lag == 0 if step is None else is_last(step, partition.log, last_bytes_max)
        if is_near and self._may_replace(move):
            self._replace(move, partition.log, step)
        elif step is not None:
            self._run(move, step)

    def _next_step(self, move: Move, log: UnifiedLog) -> CopyStep | None:
        leader_epoch = move.partition.leader_epoch
        before, move.generation = move.generation, _generation(log, leader_epoch)
        if move.is_stuck and move.generation == before:
            return None
        move.is_stuck = False
        return next_step(
            self._vfs,
            log,
            move.copy,
            leader_epoch,
            self._services.wall_ms,
            max_bytes=self._config.replica_fetch.bytes_max,
            reconciles=move.generation != before,
            gap_offset=first_gap(move.copy.recovery_report) if before is None else None,
        )

    def _run(self, move: Move, step: CopyStep) -> None:
        thread = self._threads.pop()
        move.is_running = True
        if step.records is not None:
            self._rate.record(step.records.size_bytes, self._services.now_ms)
        done = self._done(move, thread, step)
        self._services.run(Lane.MOVES, thread, step.run, done)

    def _done(
        self, move: Move, thread: str, step: CopyStep
    ) -> Callable[[BaseException | None], None]:
        def done(error: BaseException | None) -> None:
            self._threads.append(thread)
            move.is_running = False
            if self._moves.get(move.key) is not move:
                self._discard(move)
                for begin in self._after.pop(move.name):
                    begin()
            elif isinstance(error, ERRORS):
                self._listener.failed(self._manager.futures[move.name].path, error)
            elif error is not None:
                raise error
            else:
                self._copied(move, step)
                if not self.is_stopped:
                    self._replicas.took(move.key, Changed(low_watermark_raised=True))
            self.advance(list(self._moves), move)

        return done

    def _copied(self, move: Move, step: CopyStep) -> None:
        self._manager.futures[move.name].note_future(move.name)
        before, move.copied_offset = move.copied_offset, move.copy.end_offset
        move.copied_bytes = _size(move.copy)
        is_same = move.generation == _generation(move.partition.log, move.partition.leader_epoch)
        if is_same and step.records is not None and move.copied_offset == before:
            move.is_stuck = True
            fields = {"log": f"{move.name[0]}-{move.name[1]}", "offset": before}
            self._services.emit(Log(LogLevel.ERROR, "log_not_copied", fields))

    def _is_accepted(self, key: TopicIdPartition, name: TopicAndPartition) -> bool:
        """True if the image assigns the log directory of a copy to its replica."""
        registration = self._image.partition(*key)
        target = self._config.directory_ids[self._manager.futures[name].path]
        node_id = self._config.node_id
        return (
            registration is not None
            and node_id in registration.replicas
            and registration.directory(node_id) == target
        )

    def _may_replace(self, move: Move) -> bool:
        """True if a log may be replaced; else the controller is asked for its log directory."""
        has_directories = self._image.metadata_version >= LEVEL_DIRECTORIES
        if has_directories and not self._is_accepted(move.key, move.name):
            if not move.is_assigned:
                move.is_assigned = True
                path = self._manager.futures[move.name].path
                self._listener.assign(move.key, self._config.directory_ids[path])
            return False
        return not self._files.is_busy(move.name)

    def _replace(self, move: Move, log: UnifiedLog, step: CopyStep | None) -> None:
        """Replace the log of a replica by its copy, behind the last step of copying."""
        copy = move.copy
        if step is not None:
            try:
                step.copy_records()
            except ERRORS as error:
                self._listener.failed(self._manager.futures[move.name].path, error)
                return
            if copy.end_offset < log.end_offset:  # a damaged batch, which stays behind
                self._copied(move, step)
                self.advance([move.key])
                return
        assert copy.end_offset == log.end_offset, f"INV-MV-2 {copy.end_offset=} {log.end_offset=}"
        del self._moves[move.key]
        if log.last_epoch is not None and log.last_epoch > (copy.last_epoch or -1):
            copy.assign_epoch(log.last_epoch)
        source = parent(log.log.directory)
        move.partition.replace_log(copy)
        if step is not None:
            self._replicas.took(move.key, Changed(low_watermark_raised=True))
        self._listener.replaces(move.name)
        self._files.replace(move.name, lambda: self._replaced(move))
        target = self._manager.log_dir_of(*move.name)
        if target is not None:
            self._cleaner.moved(move.name, source, target)
        fields = {"log": f"{move.name[0]}-{move.name[1]}", "path": target}
        self._services.emit(Log(LogLevel.INFO, "log_moved", fields))

    def _replaced(self, move: Move) -> None:
        self._cleaner.resume(move.name)
        self._listener.replaced(move.key, move.name)


def _generation(log: UnifiedLog | None, leader_epoch: LeaderEpoch) -> Generation | None:
    return None if log is None else (log, log.log.generation, leader_epoch)


def _lag(log: UnifiedLog | None, end_offset: int) -> int:
    return -1 if log is None else log.end_offset - end_offset


def _size(copy: UnifiedLog) -> int:
    return copy.log.size_bytes


def _is_in(copy: UnifiedLog, path: str) -> bool:
    return parent(copy.log.directory) == path


def _close(copy: UnifiedLog) -> None:
    copy.log.close_files()
