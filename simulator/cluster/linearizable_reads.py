"""Linearizable reads of simulated nodes: clients of their inspection API, without its sockets.

A read takes a while to the node and back. A process that was stopped takes it before all that
arrived meanwhile: of several sockets it may read any first.
"""

from collections.abc import Callable
from functools import partial
from itertools import count
from random import Random
from typing import Final

from kernel.effects import AnswerRead
from kernel.events import ReadAsked
from metadata.image import Image
from simulator.cluster.machine import Machine, Power
from simulator.cluster.scheduler import Scheduler

DELAY_US_MAX: Final = 2_000
"""Longest time of a request, and of an answer."""
Answered = Callable[[Image | None], None]
"""A function of the node's image, or None if that is not linearizable."""


class LinearizableReads:
    """Reads at nodes that take themselves for the leader, deposed ones too.

    Args:
        machines: the nodes.
        scheduler: the world's.
        rng: draws nodes and delays.
    """

    def __init__(self, machines: dict[int, Machine], scheduler: Scheduler, rng: Random) -> None:
        self._machines = machines
        self._scheduler = scheduler
        self._rng = rng
        self._tokens = count(1)
        self._waiting: dict[int, Answered] = {}
        for machine in machines.values():
            machine._perform[AnswerRead] = partial(self._answer, machine)  # noqa: SLF001

    def target(self, other: int) -> int:
        """Draw the node to ask; `other` if nobody leads."""
        leading = [
            machine.id
            for machine in self._machines.values()
            if machine.kernel is not None and machine.kernel.core.is_leader
        ]
        return self._rng.choice(leading) if leading else other

    def begin(self, target: int, answered: Answered) -> None:
        """Ask a node; `answered` is not called if the process ends before it has answered."""
        token = next(self._tokens)
        self._waiting[token] = answered
        self._after(lambda: _post_first(self._machines[target], ReadAsked(token)))

    def _answer(self, machine: Machine, effect: AnswerRead) -> None:
        assert machine.kernel is not None, f"{effect=}"
        image = machine.kernel.cache.image if effect.refusal is None else None
        answered = self._waiting.pop(effect.token)
        self._after(lambda: answered(image))

    def _after(self, action: Callable[[], None]) -> None:
        self._scheduler.after(1 + self._rng.randrange(DELAY_US_MAX), action)


def _post_first(machine: Machine, event: ReadAsked) -> None:
    """Post an event; a paused process takes it before all that waits, when it goes on."""
    if machine.power is Power.PAUSED:
        machine._paused.insert(0, event)  # noqa: SLF001
    else:
        machine.post(event, machine.incarnation)
