"""The parts that only a broker has, joined: its life cycle and what follows the image beside it.

With a port these are the exchange with the records of the broker. Without one, as the simulator of
metadata runs a broker, they are partition directories and the ISR expansion.
"""

import contextlib
from collections.abc import Callable
from typing import assert_never
from uuid import UUID

import msgspec

from broker_publisher.publisher import Publisher
from kernel.config import NodeConfig
from kernel.effects import Effect, Exit, Log, LogLevel
from kernel.events import (
    RecordsAlive,
    RecordsAsked,
    RecordsDirectoryFailed,
    RecordsEvent,
    RecordsReady,
    RecordsStopped,
)
from kernel.lifecycle.broker_lifecycle import BrokerLifecycle, Incarnation
from kernel.lifecycle.controller_link import ControllerLink
from kernel.lifecycle.folders import Folders
from kernel.lifecycle.isr_expansion import IsrExpansion
from kernel.lifecycle.records import Records
from kernel.port import RecordsPort
from network.clock import Clock
from network.timers import Timed
from storage.errors import FsyncError, OutOfSpaceError
from storage.log_dir.clean_shutdown_file import CleanShutdownFiles
from storage.vfs import Vfs
from wire.types import DirectoryId


class BrokerIdentity(msgspec.Struct, frozen=True):
    """The identity of a broker's process, and its source of ids."""

    cluster_id: str
    directory_ids: dict[str, DirectoryId]
    """Id of every log directory, by path."""
    incarnation_id: UUID
    new_uuid: Callable[[], bytes]


class BrokerParts:
    """The parts of one broker.

    Args:
        config: settings of the node.
        vfs: its disk.
        identity: of its process.
        port: port to the records; None without them.
        link: link to the active controller.
        clock: clock of the node.
        effects: sink of the effects.
        on_shut_down: called once, when the broker has left.
    """

    def __init__(
        self,
        config: NodeConfig,
        vfs: Vfs,
        identity: BrokerIdentity,
        *,
        port: RecordsPort | None,
        link: ControllerLink,
        clock: Clock,
        effects: list[Effect],
        on_shut_down: Callable[[], None],
    ) -> None:
        directory_ids, incarnation_id = identity.directory_ids, identity.incarnation_id
        self._config = config
        self._effects = effects
        self.folders: Folders | None = None
        self.isr_expansion: IsrExpansion | None = None
        self.records: Records | None = None
        first: Publisher
        if port is None:
            first = self.folders = Folders(
                config,
                vfs,
                directory_ids,
                incarnation_id.bytes,
                identity.new_uuid,
                clock=clock,
                effects=effects,
            )
        else:
            first = self.records = Records(
                config,
                incarnation_id.bytes,
                link,
                clock=clock,
                effects=effects,
                on_stopped=on_shut_down,
            )
        self._clean_shutdown = CleanShutdownFiles(vfs, config.log_dirs)
        self.clean_log_dirs = self._clean_shutdown.found_in
        """Log directories that the last process shut down cleanly."""
        self.lifecycle = BrokerLifecycle(
            config,
            identity.cluster_id,
            incarnation=Incarnation(
                incarnation_id, directory_ids, self._clean_shutdown.previous_epoch
            ),
            controller=link,
            clock=clock,
            effects=effects,
            on_state=self._on_state,
            on_shut_down=on_shut_down if self.records is None else self.records.stop,
        )
        if self.records is not None:
            self.lifecycle.wait_for_records(self.records.registered, self.records.are_silent)
        self.publishers: tuple[Publisher, ...] = (first, self.lifecycle)
        if self.folders is not None:
            self.isr_expansion = IsrExpansion(
                config, self.lifecycle, link, clock, self.folders.with_records
            )
            self.publishers += (self.isr_expansion,)

    @property
    def timed(self) -> tuple[Timed | None, ...]:
        """The parts behind the life cycle that have timers, in the order in which they tick."""
        return (self.isr_expansion, self.folders, self.records)

    def remove_clean_shutdown_files(self) -> None:
        """Remove the files of the last process, so that a crash from now on leaves none."""
        self._clean_shutdown.remove()

    def _on_state(self) -> None:
        """Set the timer of the ISR expansion, which needs a running broker."""
        if self.isr_expansion is not None:
            self.isr_expansion.set_timer()

    def take(self, event: RecordsEvent) -> None:
        """Take an event of the records."""
        assert self.records is not None, f"without a port: {event=}"
        match event:
            case RecordsAsked():
                self.records.ask(event.token, event.api_key, event.body)
            case RecordsReady():
                self.lifecycle.become_ready()
            case RecordsAlive():
                self.records.note_alive()
            case RecordsDirectoryFailed():
                self._on_directory_failed(event.path, is_last=event.is_last)
            case RecordsStopped():
                self.records.stopped(event.clean)
            case _:
                assert_never(event)

    def _on_directory_failed(self, path: str, *, is_last: bool) -> None:
        """Tell the controller of a failed log directory, or exit if the node needs it.

        Source: apache/kafka: core/.../server/ReplicaManager.scala (handleLogDirFailure),
        core/.../log/LogManager.scala.
        """
        reason = None
        if is_last:
            every = ", ".join(self._config.log_dirs)
            reason = f"Shutdown broker because all log dirs in {every} have failed"
        elif path == self._config.metadata_log_dir:
            reason = f"Shutdown broker because the metadata log dir {path} has failed"
        if reason is None:
            self.lifecycle.directory_failed(path)
            return
        self._effects.append(Log(LogLevel.ERROR, "log_dirs_failed", {"error": reason}))
        self._effects.append(Exit(1, reason))

    def close(self) -> None:
        """Write the clean-shutdown files, after `Exit`.

        Those that cannot be written make the next start an unclean one.
        """
        epoch = self.lifecycle.epoch
        if self.records is None:
            assert self.folders is not None, "a broker without records has folders"
            is_sound = self.folders.with_records() == set()
            with contextlib.suppress(OSError, OutOfSpaceError, FsyncError):
                self._clean_shutdown.write(epoch, is_everything_sound=is_sound)
        else:
            for path in self.records.clean:
                with contextlib.suppress(OSError, OutOfSpaceError, FsyncError):
                    self._clean_shutdown.write_into(path, epoch)
