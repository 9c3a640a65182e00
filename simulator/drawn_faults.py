"""What the classes of faults that draws 4 and 5 added have in common: what they may touch."""

from collections.abc import Callable

import msgspec

from simulator.felt import Felt
from simulator.machine import Machine
from simulator.network import Network
from simulator.plan import Decision
from simulator.probes import Probes
from simulator.scheduler import Scheduler


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """What a fault may touch, and whom it may ask."""

    scheduler: Scheduler
    network: Network
    machines: dict[int, Machine]
    probes: Probes
    restart: Callable[[Machine], None]
    """Starts a process where none runs."""
    later: Callable[[Decision, Callable[[], None]], None]
    """Does something when a decision is over, unless all faults are."""
    is_over: Callable[[], bool]
    """Whether all faults are."""
    strike: Callable[[Decision, list[Machine]], Felt | None]
    """Carries out a decision of another kind."""


class DrawnFaults:
    """Carries out decisions; subclasses have a method for each kind, which says what it did."""

    def __init__(self, reach: Reach) -> None:
        self._scheduler = reach.scheduler
        self._network = reach.network
        self._machines = reach.machines
        self._probes = reach.probes
        self._restart = reach.restart
        self._later = reach.later
        self._is_over = reach.is_over
        self._strike = reach.strike
