"""Services of the whole for the parts of a broker's records: time, effects, work, requests."""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager

import msgspec

from broker.awaited import Asks, Work, WorkFinished
from broker.effects import Effect, EffectSink, Lane
from network.clock import Clock
from network.turn_budget import TurnBudget
from storage.cleaner.session import OpenSession
from storage.vfs import Vfs
from wire.messages.codec import Entity
from wire.types import Rng


class Services(msgspec.Struct, frozen=True):
    """The step that runs: its time, effects and budget, and what it asks of the driver."""

    clock: Clock
    effects: EffectSink
    work: Work
    asks: Asks
    budget: TurnBudget

    @property
    def now_ms(self) -> int:
        """Instant of the step, monotonic."""
        return self.clock.now_ms

    @property
    def wall_ms(self) -> int:
        """Wall clock of the step."""
        return self.clock.wall_ms

    def emit(self, effect: Effect) -> None:
        """Add the next effect of the step."""
        self.effects.append(effect)

    def run(self, lane: Lane, name: str, work: Callable[[], object], done: WorkFinished) -> None:
        """Run work in the lane of this name, off the step thread."""
        self.work.run(lane, name, work, done)

    def went_on(self) -> None:
        """Note that a part of a work has ended; called in any thread."""
        self.work.went_on()

    def when_idle(self, idle: Callable[[], None]) -> None:
        """Tell once when all work has ended."""
        self.work.when_idle(idle)

    def ask(self, api_key: int, body: Entity, answered: Callable[[object | None], None]) -> None:
        """Send a request to the active controller; `answered` gets None without a response."""
        self.asks.ask(api_key, body, answered)


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """The disk of a broker, and how its log directories were left."""

    vfs: Vfs
    clean_log_dirs: AbstractSet[str]
    """Those that a clean shutdown left."""
    new_uuid: Callable[[], bytes]
    rng: Rng
    open_session: OpenSession
    """Of a round of the log cleaner."""
    guards: Mapping[str, AbstractContextManager[object]] = msgspec.field(default_factory=dict)
    """Locks by log directory, held while the recovery points are written: by the step thread at a
    truncation, by a lane, and by the metadata log of the kernel."""
