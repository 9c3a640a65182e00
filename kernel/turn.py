"""One turn of a node: what is taken together, what leaves first, and where the log is flushed.

A driver collects events until its loop comes round; then comes a turn. Its first half takes all
that waits, and what it sends leaves at once; its second half settles (docs/decisions/0013). Between
them is a flush of the log that nobody has to wait for: what follows from it (a follower
acknowledges, a node alone commits) still belongs to this turn. A flush has one of three ways
(docs/decisions/0006):

- in the loop, at once: the disk is quick, nothing was sent in this half, and no follower comes for
  the records meanwhile;
- in the loop, behind what was sent, unless other events came meanwhile: the disk is quick;
- on another thread.

The asyncio driver (node/) and the simulator's turns (simulator/cluster/turns.py) both run this
class; what they carry out, and how long it takes, is theirs.
"""

from typing import Final, Protocol

from kernel.effects import Effect, RunFlush, SendBytes, SendPeerBytes

_SENDS: Final = frozenset({SendBytes, SendPeerBytes})


class TurnDriver(Protocol):
    """Who has the events, the sockets and the threads of a node."""

    def take(self) -> list[Effect] | None:
        """Take every event that waits: `Kernel.take`. None: the process is gone by it."""
        ...

    def settle(self) -> list[Effect] | None:
        """The rest of the step: `Kernel.settle`. None: the process is gone by it."""
        ...

    def carry_out(self, effect: Effect) -> bool:
        """Do what an effect says, any but RunFlush; False: the process is gone."""
        ...

    @property
    def has_waiting(self) -> bool:
        """Whether events wait for the next turn."""
        ...

    @property
    def is_disk_quick(self) -> bool:
        """Whether a flush is short enough for the loop; asked once for a flush, if it counts."""
        ...

    def flush_here(self, effect: RunFlush) -> bool:
        """Flush now; its end waits as an event afterwards. False: the process is gone."""
        ...

    def flush_on_thread(self, effect: RunFlush) -> None:
        """Flush on another thread; its end is an event some time."""
        ...

    def flush_behind(self, effect: RunFlush) -> None:
        """Call `Turn.flush_behind` when the turn is over and what it sent has left."""
        ...


class Turn:
    """The turns of one node, one after the other."""

    def __init__(self, driver: TurnDriver) -> None:
        self._driver = driver
        self.has_sent = False
        """Whether something was sent since events were taken."""
        self._has_flushed = False

    def take(self) -> bool:
        """The first half; False: the process is gone."""
        is_running = self._take_waiting()
        if is_running and self._has_flushed:  # once more and no more: others are to be answered
            is_running = self._take_waiting()
        return is_running

    def _take_waiting(self) -> bool:
        self.has_sent = self._has_flushed = False
        effects = self._driver.take()
        return effects is not None and self.perform(effects)

    def settle(self) -> bool:
        """The second half; False: the process is gone."""
        effects = self._driver.settle()
        return effects is not None and self.perform(effects)

    def perform(self, effects: list[Effect]) -> bool:
        """Do what a half asks for, in its order; False: the process is gone by it."""
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
        """What was sent before the flush has left; False: the process is gone."""
        if self._driver.has_waiting:  # there is other work meanwhile
            self._driver.flush_on_thread(effect)
            return True
        return self._driver.flush_here(effect)
