"""Services of the whole for the parts of a broker's records: time, effects, work, requests."""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager

import msgspec

from broker.awaited import Asks, Work
from broker.effects import Effect, EffectSink
from network.clock import Clock
from storage.vfs import Vfs
from wire.types import Rng


class Services(msgspec.Struct, frozen=True):
    """The step that runs: its time, its effects, and what it asks of the driver."""

    clock: Clock
    effects: EffectSink
    work: Work
    asks: Asks

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


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """The disk of a broker, and how its log directories were left."""

    vfs: Vfs
    clean_log_dirs: AbstractSet[str]
    """Those that a clean shutdown left."""
    new_uuid: Callable[[], bytes]
    rng: Rng
    guards: Mapping[str, AbstractContextManager[object]] = msgspec.field(default_factory=dict)
    """Locks by log directory, held while the recovery points are written: by the step thread at a
    truncation, by a lane, and by the metadata log of the kernel."""
