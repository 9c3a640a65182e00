"""One turn of a node: events taken together, the order of sends, and the place of the flush.

A driver collects events until its loop comes round; then it runs a turn. The first half takes all
waiting events, and its sends leave at once; the second half settles (docs/decisions/0013). Between
them the log may be flushed in the loop: the consequences of the flush (a follower acknowledges, a
sole voter commits) then belong to the same turn. A flush runs in one of three ways
(docs/decisions/0006):

- in the loop, at once: the disk is fast, nothing was sent in this half, and no follower fetches the
  records meanwhile;
- in the loop, after the sends have left, unless other events arrived meanwhile: the disk is fast;
- on another thread.

The asyncio driver (node/) and the simulator's turns (simulator/cluster/event_loop.py) both run this
class; they perform the effects, each in its own time.
"""

from typing import Final, Protocol

from kernel.effects import Effect, RunFlush, SendBytes, SendPeerBytes

_SENDS: Final = frozenset({SendBytes, SendPeerBytes})


class TurnDriver(Protocol):
    """The owner of the events, sockets and threads of a node."""

    def take(self) -> list[Effect] | None:
        """Run `Kernel.take` on every waiting event; None: the process ended in it."""
        ...

    def settle(self) -> list[Effect] | None:
        """Run `Kernel.settle`; None: the process ended in it."""
        ...

    def carry_out(self, effect: Effect) -> bool:
        """Perform an effect other than RunFlush; False: the process has ended."""
        ...

    @property
    def has_waiting(self) -> bool:
        """True if events wait for the next turn."""
        ...

    @property
    def is_disk_quick(self) -> bool:
        """True if flushes are short enough for the loop; read at most once for a flush."""
        ...

    def flush_here(self, effect: RunFlush) -> bool:
        """Flush now and queue its end as an event; False: the process has ended."""
        ...

    def flush_on_thread(self, effect: RunFlush) -> None:
        """Flush on another thread; its end becomes an event later."""
        ...

    def flush_behind(self, effect: RunFlush) -> None:
        """Call `Turn.flush_behind` when the turn is over and its sends have left."""
        ...


class Turn:
    """The sequence of turns of one node."""

    def __init__(self, driver: TurnDriver) -> None:
        self._driver = driver
        self.has_sent = False
        """True if something was sent since events were last taken."""
        self._has_flushed = False

    def take(self) -> bool:
        """Run the first half; False: the process has ended."""
        is_running = self._take_waiting()
        if is_running and self._has_flushed:  # only once more: other requests wait
            is_running = self._take_waiting()
        return is_running

    def _take_waiting(self) -> bool:
        self.has_sent = self._has_flushed = False
        effects = self._driver.take()
        return effects is not None and self.perform(effects)

    def settle(self) -> bool:
        """Run the second half; False: the process has ended."""
        effects = self._driver.settle()
        return effects is not None and self.perform(effects)

    def perform(self, effects: list[Effect]) -> bool:
        """Perform the effects of a half, in order; False: the process ended in it."""
        driver = self._driver
        for effect in effects:
            if type(effect) is RunFlush:
                is_running = self._flush(effect)
            else:
                self.has_sent = self.has_sent or type(effect) in _SENDS
                is_running = driver.carry_out(effect)
            if not is_running:
                return False
        return True

    def _flush(self, effect: RunFlush) -> bool:
        driver = self._driver
        is_waited_for = effect.has_followers and not self.has_sent
        if is_waited_for or not driver.is_disk_quick:
            driver.flush_on_thread(effect)
        elif self.has_sent:
            driver.flush_behind(effect)
        else:
            self._has_flushed = True
            return driver.flush_here(effect)
        return True

    def flush_behind(self, effect: RunFlush) -> bool:
        """Run a flush after the sends of its turn have left; False: the process has ended."""
        if self._driver.has_waiting:  # other events must not wait for the flush
            self._driver.flush_on_thread(effect)
            return True
        return self._driver.flush_here(effect)
