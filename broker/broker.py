"""The records of one broker as a value: events in, effects out, no I/O but its disk.

Composition only: each part is documented in its own module. As a kernel it takes events and
settles; what the parts hand to the driver, and ask of the controller, comes back as an event.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from broker.apis.access import Access
from broker.apis.producer_ids import InitProducerId
from broker.awaited import Asks, Work
from broker.config import RecordsConfig
from broker.effects import Effect
from broker.events import (
    Answered,
    BrokerEpochChanged,
    ConnectionBroken,
    ConnectionClosed,
    ConnectionOpened,
    Event,
    FramesReceived,
    ImagePublished,
    KernelBytes,
    KernelClosed,
    Now,
    TimeAdvanced,
    WorkDone,
)
from broker.front import Front, Handler
from broker.producer_id_blocks import ProducerIdBlocks
from metadata.image import EMPTY, Image
from network.clock import Clock
from network.timers import NEVER_MS
from wire.api_keys import INIT_PRODUCER_ID
from wire.types import BrokerEpoch

NO_EPOCH = BrokerEpoch(-1)


class Timed(Protocol):
    """A part with timers."""

    def next_ms(self) -> int | None:
        """Time of the next `tick`, None for none."""
        ...

    def tick(self) -> None:
        """Do what is due."""
        ...


class Broker:
    """The records of a broker.

    Args:
        config: its settings.
        now: time at start.
    """

    def __init__(self, config: RecordsConfig, *, now: Now) -> None:
        self.config = config
        self._effects: list[Effect] = []
        self._clock = Clock(now)
        self._deadline_ms = now.monotonic_ms
        self._image = EMPTY
        self._epoch = NO_EPOCH
        self._work = Work(self._effects)
        self._asks = Asks(self._effects)
        handlers = self._handlers()
        self.apis = frozenset(handlers)
        """Keys of the APIs that are served here, and not by the kernel."""
        self._front = Front(handlers, config.queued_bytes_max, self._clock, self._effects)
        self._timed: tuple[Timed, ...] = (self._front,)
        self._takes: dict[type, Callable[[Any], None]] = self._event_table()

    def _handlers(self) -> dict[int, Handler]:
        """Make the handlers of the APIs about records."""
        access = Access(self.config.access, self._newest_image)
        blocks = ProducerIdBlocks(
            self.config.node_id, self._broker_epoch, self._clock, self._asks.ask
        )
        return {INIT_PRODUCER_ID: InitProducerId(blocks, access).serve}

    def _event_table(self) -> dict[type, Callable[[Any], None]]:
        """Return the function of each kind of event."""
        front = self._front
        return {
            FramesReceived: lambda event: front.received(event.connection_id, event.frames),
            KernelBytes: lambda event: front.kernel_bytes(event.connection_id, event.data),
            ConnectionOpened: lambda event: front.opened(
                event.connection_id, event.listener, event.client_host
            ),
            ConnectionBroken: lambda event: front.broken(event.connection_id, event.reason),
            ConnectionClosed: lambda event: front.closed(event.connection_id),
            KernelClosed: lambda event: front.kernel_closed(event.connection_id, event.reason),
            Answered: lambda event: self._asks.on_answer(event.token, event.answer),
            WorkDone: lambda event: self._work.on_done(event.token, event.error),
            ImagePublished: self._publish,
            BrokerEpochChanged: self._on_epoch,
            TimeAdvanced: lambda _: None,  # timers run in `settle`
        }

    # ---- the driver's side -------------------------------------------------------------------

    def take(self, events: Iterable[Event], now: Now) -> list[Effect]:
        """Take events in order: the first half of a step."""
        self._clock.set(now)
        takes = self._takes
        for event in events:
            takes[type(event)](event)
        return self._taken()

    def settle(self) -> list[Effect]:
        """Run the timers that are due and set the deadline: the second half of a step."""
        now_ms = self._clock.now_ms
        for part in self._timed:
            next_ms = part.next_ms()
            if next_ms is not None and next_ms <= now_ms:
                part.tick()
        effects = self._taken()
        times = [part.next_ms() for part in self._timed]
        self._deadline_ms = min((each for each in times if each is not None), default=NEVER_MS)
        return effects

    def next_deadline_ms(self) -> int:
        """Return the latest time of the next TimeAdvanced."""
        return self._deadline_ms

    def _taken(self) -> list[Effect]:
        """Go on with the connections that the step answered; then all its effects."""
        self._front.drain()
        effects = self._effects[:]
        self._effects.clear()
        return effects

    # ---- the node ----------------------------------------------------------------------------

    def _newest_image(self) -> Image:
        return self._image

    def _broker_epoch(self) -> BrokerEpoch:
        return self._epoch

    def _publish(self, event: ImagePublished) -> None:
        self._image = event.image

    def _on_epoch(self, event: BrokerEpochChanged) -> None:
        self._epoch = event.epoch
