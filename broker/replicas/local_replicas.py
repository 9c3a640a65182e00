"""The replicas of this broker: what its images say, carried out on logs, partitions and fetchers.

The first image waits until all logs are loaded, and later ones behind it. Of each: deletions, then
leaders, then followers, then settings. They are applied in slices, some partitions in a step: one
that an image has not reached yet is as the image before says, and one that it creates answers
NOT_LEADER_OR_FOLLOWER. A partition whose log is still being created takes its newest metadata when
the log is open.

    INV-LR-1  a hosted partition without a log is waiting for one, or offline

apache/kafka: core/.../server/ReplicaManager.scala (`applyDelta`),
core/.../server/metadata/BrokerMetadataPublisher.scala
"""

from collections.abc import Callable, Iterator, Mapping

from broker.config import RecordsConfig
from broker.effects import DirectoryFailed, Log, LogLevel, Ready
from broker.replicas.broker_settings import broker_settings
from broker.replicas.directory_assignments import DirectoryAssignments
from broker.replicas.hosted_partitions import Hosted, HostedPartitions
from broker.replicas.image_queue import Change, ImageQueue, PartitionChanges
from broker.replicas.log_closing import LogClosing
from broker.replicas.log_dir_choice import LogDirChoice
from broker.replicas.log_flushes import LogFlushes
from broker.replicas.log_loading import LogLoading
from broker.replicas.partition_files import PartitionFiles
from broker.replicas.readiness import Readiness
from broker.replicas.replica_moves import MoveListener, ReplicaMoves
from broker.replicas.stored_logs import StoredLogs
from broker.replicas.topic_settings import TopicSettingsOf
from broker.replicas.upkeep import Upkeep
from broker.services import Disk, Services
from metadata.delta import MetadataDelta
from metadata.image import EMPTY, Image
from metadata.image import Partition as PartitionRegistration
from replication.follower.fetchers import Fetchers
from replication.leader.flush_gate import Flushed
from replication.leader.leadership import Leadership, LocalBroker
from replication.partition import Partition
from replication.replica_manager import ReplicaManager
from replication.roles import Following, Offline, Transition
from storage.checkpoints.recovery_points import TopicAndPartition
from storage.errors import CorruptFileError
from storage.logs.log_manager import LogManager
from storage.logs.unified_log import UnifiedLog
from wire.api_keys import ASSIGN_REPLICAS_TO_DIRS
from wire.types import DirectoryId, TopicIdPartition


class LocalReplicas:
    """The replicas of one broker.

    Args:
        config: of the broker.
        disk: of the broker.
        broker: this one, as its partitions see it.
        services: of the step.
        replicas: where the partitions are hosted.
        fetchers: of its followers.
    """

    def __init__(
        self,
        config: RecordsConfig,
        disk: Disk,
        broker: LocalBroker,
        services: Services,
        *,
        replicas: ReplicaManager,
        fetchers: Fetchers,
    ) -> None:
        self._config, self._broker = config, broker
        self._services, self._budget = services, services.budget
        self._is_stopping = False
        self._is_leaving = False
        """True while partitions are left at the end."""
        self._replicas, self._fetchers = replicas, fetchers
        self._image = EMPTY
        """The newest that is applied, whole or in part."""
        self._images = ImageQueue(self._applying, services.budget)
        self._readiness = Readiness(lambda: services.emit(Ready()))
        self._changed: list[TopicIdPartition] = []
        """Partitions that the slice has given other metadata."""
        self._clean_log_dirs = disk.clean_log_dirs
        self._is_begun = False
        """True once logs are looked for."""
        self._failed: set[str] = set()
        self._all = HostedPartitions()
        self._hosted = self._all.by_key
        self._own = broker_settings(config, EMPTY)
        self.settings = TopicSettingsOf(config.node_id, dict(config.properties))
        self.manager = LogManager(
            disk.vfs,
            self.settings.log,
            disk.new_uuid,
            disk.rng,
            producer_expiration_ms=config.upkeep.producer_expiration_ms,
        )
        self._assignments = DirectoryAssignments(config.node_id)
        logs = StoredLogs(self.manager, disk.vfs, services)
        self._files = PartitionFiles(logs, self.fail)
        self.loading = LogLoading(
            config, disk, self.manager, services, failed=self.fail, loaded=self._logs_loaded
        )
        self.choice = LogDirChoice(config, self.manager)
        self._flushes = LogFlushes(logs, self.fail)
        self.flush_counts = self._flushes.counts
        self.upkeep = Upkeep(
            self.manager,
            disk,
            config,
            services,
            settings_of=self.settings.log,
            flushes=self._flushes,
            failed=self.fail,
            log_start_raised=self._log_start_raised,
        )
        self.cleaner = self.upkeep.cleaner
        listener = MoveListener(
            assign=self._assign,
            failed=self.fail,
            cleaner=self.cleaner,
            replaces=self._flushes.hold,
            replaced=self._log_replaced,
        )
        self.moves = ReplicaMoves(
            config, disk, services, self.manager, self._files, replicas=replicas, listener=listener
        )

    # -- images ---------------------------------------------------------------------------------

    def publish(self, image: Image, delta: MetadataDelta) -> None:
        """Take the next image; the first holds the registration of this process."""
        if self._is_stopping:
            return
        if not self._is_begun:
            self._is_begun = True
            self.settings.publish(image, delta)  # the logs are opened with them
            self.loading.start(image)
        self._images.put(image, delta)

    def _logs_loaded(self) -> None:
        if not self._is_stopping:
            self.moves.recover(self._images.first, self._begin)

    def _begin(self) -> None:
        if self._is_stopping:
            return
        self._readiness.loaded(self._images.count)

    @property
    def is_busy(self) -> bool:
        """True if another slice of the images is to be applied, or partitions are left."""
        if not self._images.count or self._is_stopping:
            return self._is_leaving
        return self._readiness.is_loaded

    def go_on(self) -> None:
        """Apply a slice; fetchers that do not wait for their leader wait for its end.

        A Fetch that left with the first partitions would keep the others waiting at a leader that
        has nothing for it.
        """
        if self._is_leaving:
            self._leave_some()
            return
        applied_count = self._images.apply_slice()
        changed, self._changed = self._changed, []
        if changed:  # once for all: a fetch that waits looks at every partition that it names
            self._replicas.check_all(changed)
        self._fetchers.hold(is_wanted=self._images.count > 0)
        if self._readiness.applied(applied_count):
            self.upkeep.start()  # no log is loaded any more
            self._readiness.maybe_ready()

    def _applying(self, image: Image, delta: MetadataDelta) -> Iterator[Change]:
        """Apply an image, one change at each `next`."""
        before, self._image = self._image, image
        changes = PartitionChanges(before, image, delta, self._config.node_id, self._hosted)
        yield from changes.collected()
        for key in changes.deleted():
            self._drop(key)
            yield Change.PARTITION
        changed_topics = self.settings.publish(image, delta)
        yield from self._take_settings(image)
        self.cleaner.publish(image)
        for topic, key in changes.taken():
            self._take(key, topic, _registration(image, key))
            self._tell_directory(key)
            self.moves.host(key, self._hosted[key].name, self._hosted[key].partition)
            yield Change.PARTITION
        for topic in changed_topics:
            yield Change.SETTINGS
            if self.settings.is_changed(topic):
                yield from self._configured(topic)
        self.moves.publish(image)
        self._readiness.first_applied()

    def _drop(self, key: TopicIdPartition) -> None:
        hosted = self._all.drop(key)
        self._fetchers.remove(key)
        self._replicas.drop(key)
        if not self.moves.end(key):
            self._files.delete_future(hosted.name)
        self.cleaner.deleted(hosted.name)
        self._files.delete(hosted.name)
        self._readiness.has_log_or_none(key)

    def _take_settings(self, image: Image) -> Iterator[Change]:
        """Apply the settings of the broker, where they are others."""
        before, self._own = self._own, broker_settings(self._config, image)
        if self._own.producer_expiration_ms != before.producer_expiration_ms:
            self.manager.expire_producers_after(self._own.producer_expiration_ms)
        if self._own.fetchers == before.fetchers:
            return
        self._fetchers.count = self._own.fetchers
        for key, hosted in list(self._hosted.items()):
            self._fetchers.move(key, hosted.name[0], hosted.partition.leader_epoch)
            yield Change.PARTITION

    def _configured(self, topic: str) -> Iterator[Change]:
        """Apply the settings of a topic, which changed."""
        topic_id = self._image.topic_id_by_name[topic]
        for number in range(len(self._image.topics[topic_id].partitions)):
            hosted = self._hosted.get((topic_id, number))
            if hosted is not None:
                self.manager.configure(*hosted.name)
                self.cleaner.configured(hosted.name)
                settings = self.settings.partition(topic)
                changed = hosted.partition.configure(settings, self._services.now_ms)
                self._replicas.took((topic_id, number), changed)
            yield Change.SETTINGS

    # -- roles ----------------------------------------------------------------------------------

    def _take(self, key: TopicIdPartition, topic: str, registration: PartitionRegistration) -> None:
        hosted = self._hosted.get(key)
        if hosted is None:
            hosted = self._host(key, (topic, key[1]))
        partition, now_ms = hosted.partition, self._services.now_ms
        if registration.leader == self._config.node_id:
            if not isinstance(partition.role, Leadership):
                self._fetchers.remove(key)
            taken = partition.make_leader(registration, now_ms)
        else:
            taken = partition.make_follower(registration, now_ms)
        self._took(key, hosted, taken)
        self._changed.append(key)

    def _host(self, key: TopicIdPartition, name: TopicAndPartition) -> Hosted:
        partition = Partition(self._broker, self.settings.partition(name[0]))
        hosted = self._all.add(key, name, partition)
        self._replicas.host(key, partition)
        log = None if self._files.is_busy(name) else self.manager.get(*name)
        if log is not None:
            partition.open_log(log, self._services.now_ms)
        else:
            self._create(key, hosted)
        return hosted

    def _create(self, key: TopicIdPartition, hosted: Hosted) -> None:
        def choose() -> str | None:
            registration = self._replica(key)
            if self._hosted.get(key) is not hosted or registration is None:
                return None
            path = self.choice.log_dir_for(hosted.name, registration, self._image)
            if path is None:
                self._mark_offline(key)
            return path

        def created(log: UnifiedLog) -> None:
            if self._hosted.get(key) is hosted:
                opened = hosted.partition.open_log(log, self._services.now_ms)
                self._took(key, hosted, opened)
                self._replicas.check(key)
                self._tell_directory(key)
                self.moves.host(key, hosted.name, hosted.partition)
                self._readiness.has_log_or_none(key)

        def not_created(reason: CorruptFileError) -> None:
            fields = {"log": f"{hosted.name[0]}-{hosted.name[1]}", "reason": str(reason)}
            self._services.emit(Log(LogLevel.ERROR, "log_not_created", fields))
            if self._hosted.get(key) is hosted:
                self._mark_offline(key)

        self._readiness.await_log(key)
        self._files.create(hosted.name, key[0], choose, created=created, not_created=not_created)

    def _took(self, key: TopicIdPartition, hosted: Hosted, taken: Transition) -> None:
        if not taken.is_taken:
            return
        self._replicas.took(key, taken.changed)
        self.upkeep.note_epochs(hosted.name)
        self._follow(key, hosted.name[0], hosted.partition.role, taken)

    def _follow(
        self,
        key: TopicIdPartition,
        topic: str,
        role: Leadership | Following | Offline,
        taken: Transition,
    ) -> None:
        """Fetch from the leader of a new epoch; from none in the other roles."""
        if not isinstance(role, Following):
            return
        if role.leader_id is None or self._leaves(key):
            self._fetchers.remove(key)
        elif taken.is_new_leader_epoch:
            self._fetchers.remove(key)
            self._fetchers.assign(key, topic, role.leader_id, role.leader_epoch)

    def _leaves(self, key: TopicIdPartition) -> bool:
        """True for a replica out of sync while this broker is in controlled shutdown."""
        node_id = self._config.node_id
        broker, registration = self._image.brokers.get(node_id), self._replica(key)
        is_leaving = broker is not None and broker.in_controlled_shutdown
        return is_leaving and (registration is None or node_id not in registration.isr)

    def _replica(self, key: TopicIdPartition) -> PartitionRegistration | None:
        """The metadata of a replica here; None if the image, applied in part, drops it."""
        registration = self._image.partition(*key)
        is_here = registration is not None and self._config.node_id in registration.replicas
        return registration if is_here else None

    # -- log directories ------------------------------------------------------------------------

    def _tell_directory(self, key: TopicIdPartition) -> None:
        hosted, registration = self._hosted[key], self._replica(key)
        path = self.manager.log_dir_of(*hosted.name)
        is_assigned = self.moves.holds_assignment(key)
        if path is None or hosted.partition.log is None or registration is None or is_assigned:
            return
        actual = self._config.directory_ids[path]
        if registration.directory(self._config.node_id) != actual:
            self._assign(key, actual)

    def _assign(self, key: TopicIdPartition, directory: DirectoryId) -> None:
        self._assignments.submit(key, directory, self._services.now_ms)

    def end_move(self, key: TopicIdPartition) -> None:
        """End the move of a hosted replica, and tell the controller where its log stays."""
        path = self.log_dir_of(key)
        if self.moves.end(key) and path is not None:
            self._assign(key, self._config.directory_ids[path])

    def _log_replaced(self, key: TopicIdPartition, name: TopicAndPartition) -> None:
        self._flushes.settled(name)
        if key in self._hosted:
            self._tell_directory(key)

    def fail(self, path: str, error: BaseException) -> None:
        """Take a log directory offline, with its partitions; nothing if it is."""
        if path in self._failed:
            return
        self._failed.add(path)
        self.upkeep.leave(path)
        self._services.emit(
            Log(LogLevel.ERROR, "log_directory_failed", {"path": path, "reason": str(error)})
        )
        for name in sorted(self.manager.fail(path)):
            key = self._all.key_of(name)
            if key is not None:
                self._mark_offline(key)
        for key, name in self.moves.fail(path):
            actual = self.manager.log_dir_of(*name) or path
            self._assign(key, self._config.directory_ids[actual])
        is_last = self._failed.issuperset(self._config.log_dirs)
        self._services.emit(DirectoryFailed(path, str(error), is_last))

    def disk_failed(self, key: TopicIdPartition, error: BaseException) -> None:
        """Take the log directory of a partition offline, at whose log the disk failed."""
        hosted = self._hosted.get(key)
        path = None if hosted is None else self.manager.log_dir_of(*hosted.name)
        if path is not None:
            self.fail(path, error)

    def _mark_offline(self, key: TopicIdPartition) -> None:
        self._all.mark_offline(key)
        self._fetchers.remove(key)
        self._replicas.check(key)
        self._readiness.has_log_or_none(key)

    # -- upkeep and end -------------------------------------------------------------------------

    def _log_start_raised(self, name: TopicAndPartition) -> None:
        key = self._all.key_of(name)
        if key is not None:
            self._replicas.check(key)
            self._fetchers.log_start_raised(key)

    def appended(self, key: TopicIdPartition, wait: Callable[[], Flushed] | None = None) -> None:
        """Hand out the flush that an append to a hosted partition asks for, if it does."""
        hosted = self._hosted.get(key)
        if hosted is not None and hosted.partition.log is not None:
            self._flushes.appended(hosted.name, wait)
            self.upkeep.note_epochs(hosted.name)
            self.moves.appended(key)

    def next_ms(self) -> int | None:
        """Instant of the next `tick`; None without one."""
        if self._is_stopping:
            return None
        parts = (self.upkeep, self._assignments, self.moves, self.loading)
        instants = [part.next_ms() for part in parts]
        return min((each for each in instants if each is not None), default=None)

    def tick(self) -> None:
        """Do what is due."""
        if self._is_stopping:
            return
        self.loading.tick()
        self.upkeep.tick()
        if self.moves.is_due:
            self.moves.tick()
        now_ms = self._services.now_ms
        request = self._assignments.take_request(self._image, self._broker.broker_epoch, now_ms)
        if request is not None:
            self._services.ask(ASSIGN_REPLICAS_TO_DIRS, request, self._answered)

    def _answered(self, answer: object | None) -> None:
        self._assignments.on_answer(answer, self._services.now_ms)  # type: ignore[arg-type]

    def stop(self) -> None:
        """Leave all partitions, close all logs, then `Stopped`; no image is taken any more."""
        assert not self._is_stopping, "it stops once"
        self._is_stopping = self.loading.is_stopped = self.moves.is_stopped = True
        self._readiness.stop()
        self.upkeep.stop()
        self._is_leaving = True

    def _leave_some(self) -> None:
        """Leave some partitions; behind the last one, and all work, the logs are closed."""
        while self._hosted and self._budget.has_room:
            key, _ = self._all.drop_last()
            self._fetchers.remove(key)
            self._replicas.drop(key)
            self._budget.spend(Change.PARTITION)
        if self._hosted:
            return
        self._is_leaving = False
        untouched = frozenset() if self._is_begun else self._clean_log_dirs
        self._services.when_idle(
            lambda: LogClosing(self.manager, self._services, untouched).start()
        )

    # -- views ----------------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """True once the logs are loaded and those of the first image are open: after `Ready`."""
        return self._readiness.is_ready

    @property
    def hosted(self) -> Mapping[TopicIdPartition, Hosted]:
        """The hosted partitions, also offline ones."""
        return self._hosted

    def partition(self, key: TopicIdPartition) -> Partition | None:
        """A hosted partition."""
        hosted = self._hosted.get(key)
        return None if hosted is None else hosted.partition

    def open_log(self, name: TopicAndPartition) -> UnifiedLog | None:
        """The open log of a hosted partition."""
        return self._all.open_log(name)

    def open_logs(self) -> Iterator[tuple[TopicAndPartition, UnifiedLog]]:
        """The open logs of the hosted partitions."""
        return self._all.open_logs()

    @property
    def failed_log_dirs(self) -> frozenset[str]:
        """The log directories that are offline."""
        return frozenset(self._failed)

    @property
    def remaining(self) -> tuple[Mapping[str, int], Mapping[tuple[str, int], int]]:
        """Logs and segments that a start has left: `remaining`, `remaining_segments` of it."""
        return self.loading.remaining, self.loading.remaining_segments

    @property
    def offline_count(self) -> int:
        """Number of hosted partitions whose log failed, or could not be created."""
        return self._all.offline_count

    def log_dir_of(self, key: TopicIdPartition) -> str | None:
        """The log directory of a partition; None without one, or if it is offline."""
        hosted = self._hosted.get(key)
        return None if hosted is None else self.manager.log_dir_of(*hosted.name)

    def logs_in(self, path: str) -> Mapping[TopicAndPartition, UnifiedLog] | None:
        """The open logs in a log directory; None if it is offline, or not read yet."""
        return self.manager.directories[path].logs if path in self.manager.directories else None


def _registration(image: Image, key: TopicIdPartition) -> PartitionRegistration:
    registration = image.partition(*key)
    assert registration is not None, f"{key=} is of a live topic"
    return registration
