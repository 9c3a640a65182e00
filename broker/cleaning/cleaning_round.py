"""One round of the log cleaner: steps of a session in a lane, each followed by a swap.

    step -> group -> begin swap -> sync -> replace -> sync -> finish -> sync -> step ... -> end

A log that is truncated, deleted, offline, or was moved meanwhile has nothing to do with the round
any more: what comes is left out (`is_wanted`). A swap that has begun goes on, unless its log ended
it. apache/kafka: storage/.../log/LogCleaner.java (`cleanLog`), Cleaner.java (`cleanSegments`)
"""

from collections.abc import Callable

import msgspec

from broker.effects import Lane
from broker.services import Services
from storage.checkpoints.recovery_points import TopicAndPartition
from storage.cleaner.clean_job import CleanJob, GroupCleaned, RoundEnded
from storage.cleaner.cleaned_segment import discard_cleaned
from storage.cleaner.segment_swap import SegmentSwap, SwapState
from storage.cleaner.session import CleanSession
from storage.logs.log_manager import ERRORS, LogManager
from storage.logs.unified_log import UnifiedLog
from storage.vfs import Vfs


class RoundOwner(msgspec.Struct, frozen=True, kw_only=True):
    """The owner of the rounds, as one of them sees it."""

    is_wanted: Callable[["CleaningRound"], bool]
    """True while the round is that of the log that it began with."""
    failed: Callable[[str, BaseException], None]
    """Take a log directory offline."""
    rate: Callable[[], float]
    """Bytes per second of a session, in force now."""
    ended: Callable[["CleaningRound", RoundEnded | None, BaseException | None], None]
    """Told of the end; with the last event if the round is whole, else with its error, if any."""


class CleaningRound:
    """One round.

    Args:
        thread: name of the cleaner that runs it.
        name: of the partition.
        path: of its log directory.
        log: of the partition.
        job: the round.
        session: of it.
        manager: of the logs.
        vfs: of the logs.
        services: of the step.
        owner: of the rounds.
    """

    def __init__(  # noqa: PLR0913 - made in one place
        self,
        *,
        thread: str,
        name: TopicAndPartition,
        path: str,
        log: UnifiedLog,
        job: CleanJob,
        session: CleanSession,
        manager: LogManager,
        vfs: Vfs,
        services: Services,
        owner: RoundOwner,
    ) -> None:
        self.thread = thread
        self.name = name
        self.path = path
        self.log = log
        self.job = job
        self._segments = log.log
        self._generation = self._segments.generation
        """Number of truncations of the log when it began."""
        self.begun_ms = services.now_ms
        self.session = session
        self._manager = manager
        self._vfs = vfs
        self._services = services
        self._owner = owner
        self._event: GroupCleaned | RoundEnded | None = None

    @property
    def is_log_same(self) -> bool:
        """True if the log is open, and was not truncated."""
        return self.is_log_open and self._segments.generation == self._generation

    @property
    def is_log_open(self) -> bool:
        """True if the log is that of the partition still, and online."""
        return self._manager.get(*self.name) is self.log

    def step(self) -> None:
        """Run the session up to the end of the next group."""
        rate = self._owner.rate()

        def work() -> None:
            self._event = self.session.step(rate)

        self._services.run(Lane.CLEANER, self.thread, work, self._stepped)

    def _stepped(self, error: BaseException | None) -> None:
        event, self._event = self._event, None
        if error is not None:
            self._close(None, error)
        elif isinstance(event, RoundEnded):
            self._close(event, None)
        elif event is not None:
            self._swap(event)

    def _swap(self, group: GroupCleaned) -> None:
        if not self._owner.is_wanted(self):
            if self.is_log_open:  # else its files go with the others
                discard_cleaned(self._vfs, self.job.directory, group.base_offset)
            self._close(None, None)
            return
        swap = SegmentSwap(self._vfs, self._segments, group)
        self._take(swap, swap.begin, lambda: self._replace(swap))

    def _replace(self, swap: SegmentSwap) -> None:
        def replace() -> None:
            renamed = swap.replace()
            self._manager.remove_later(renamed, self.name[0], self._services.wall_ms)

        if swap.state is SwapState.BEGUN:
            self._take(swap, replace, lambda: self._finish(swap))
        else:  # the log was truncated, which has undone it
            self._close(None, None)

    def _finish(self, swap: SegmentSwap) -> None:
        if swap.state is SwapState.REPLACED:
            self._take(swap, swap.finish, self._go_on)
        else:  # the log was truncated, which has finished it
            self._close(None, None)

    def _go_on(self) -> None:
        if self._owner.is_wanted(self):
            self.step()
        else:
            self._close(None, None)

    def _take(self, swap: SegmentSwap, step: Callable[[], None], after: Callable[[], None]) -> None:
        """Take a step of a swap, make it durable, and go on; the end if the log is gone."""
        try:
            step()
        except ERRORS as error:
            self._disk_failed(error)
            return

        def synced(error: BaseException | None) -> None:
            if error is not None:
                self._disk_failed(error)
            elif not self.is_log_open:
                self._close(None, None)
            else:
                after()

        self._services.run(Lane.FILES, self.path, swap.sync, synced)

    def _disk_failed(self, error: BaseException) -> None:
        if not isinstance(error, ERRORS):
            raise error
        if self.is_log_open:
            self._owner.failed(self.path, error)
        self._close(None, None)

    def _close(self, event: RoundEnded | None, error: BaseException | None) -> None:
        def closed(reason: BaseException | None) -> None:
            if reason is not None:
                raise reason
            self._owner.ended(self, event, error)

        self._services.run(Lane.CLEANER, self.thread, self.session.close, closed)
