"""The exchange of a broker's kernel with the records that another value of the node serves.

They get every image from the one on that holds the registration of this process: before it a
missing topic proves nothing, and a log without one would be removed. They are stopped after the
controlled shutdown, when other brokers lead, and before the replica of the metadata log.
"""

from collections.abc import Callable
from typing import Final

from kernel.config import NodeConfig
from kernel.effects import (
    AnswerRecords,
    Effect,
    Log,
    LogLevel,
    PublishImage,
    StopRecords,
    TellBrokerEpoch,
)
from kernel.lifecycle.controller_link import ControllerLink
from metadata.delta import MetadataDelta, delta_between
from metadata.image import EMPTY, Image
from network.clock import Clock
from network.peers import Channel, Failure
from network.timers import RECORDS_STOP
from wire.messages.codec import Entity
from wire.types import BrokerEpoch

STOP_MS_MAX: Final = 20_000
"""Longest wait for a sign that another log is closed; then the node exits, and the next start
recovers what is left.

Kafka waits without a limit, also for a disk that is stuck."""


SILENT_MS_MIN: Final = 5_000
"""Shortest silence that counts, some times what lies between two signs of life."""


class Records:
    """The records of one broker, as its kernel sees them.

    Args:
        config: settings of the node.
        incarnation_id: of this process, in its registration.
        controller: link for the requests of the records.
        clock: clock of the node.
        effects: sink of the effects.
        on_stopped: called once, when the records have stopped or their time is over.
    """

    def __init__(
        self,
        config: NodeConfig,
        incarnation_id: bytes,
        controller: ControllerLink,
        *,
        clock: Clock,
        effects: list[Effect],
        on_stopped: Callable[[], None],
    ) -> None:
        self._node_id = config.node_id
        self._timeout_ms = config.broker.session_timeout_ms
        self._incarnation_id = incarnation_id
        self._controller = controller
        self._clock = clock
        self._timers = clock.timers
        self._effects = effects
        self._on_stopped = on_stopped
        self._alive_ms: int | None = None
        """Time of the last sign of life; None before the first."""
        self._silent_count = 0
        """Number of times one behind the other that they were found silent."""
        self._is_published = False
        self._is_stopping = False
        self._has_stopped = False
        self.clean: tuple[str, ...] = ()
        """Log directories that need no recovery; none before the records have stopped."""

    def publish(self, before: Image, after: Image, delta: MetadataDelta) -> None:
        """Give the records a new image, unless they have none and it is older than this process."""
        del before
        if self._is_stopping:
            return
        if self._is_published:
            self._effects.append(PublishImage(after, delta))
            return
        broker = after.brokers.get(self._node_id)
        if broker is not None and broker.incarnation_id == self._incarnation_id:
            self._is_published = True
            self._effects.append(PublishImage(after, delta_between(EMPTY, after)))

    def registered(self, epoch: int) -> None:
        """Tell the epoch of a registration."""
        self._effects.append(TellBrokerEpoch(BrokerEpoch(epoch)))

    def note_alive(self) -> None:
        """Note a sign of life; while the records stop it says that they are nearer to their end."""
        self._alive_ms = self._clock.now_ms
        if self._is_stopping and not self._has_stopped:
            self._timers.set(RECORDS_STOP, self._clock.now_ms + STOP_MS_MAX)

    def are_silent(self) -> bool:
        """Return True if they are found without a sign of life for a session, for the second time.

        The broker asks to be fenced then: others lead its partitions until the thread goes on. The
        first time may be behind a pause of the whole process, whose signs are still to be read.
        """
        silent_ms = 0 if self._alive_ms is None else self._clock.now_ms - self._alive_ms
        was_silent = self._silent_count > 1
        is_over = silent_ms < max(self._timeout_ms, SILENT_MS_MIN)
        self._silent_count = 0 if is_over else self._silent_count + 1
        is_silent = self._silent_count > 1
        if is_silent is not was_silent:
            event = "records_silent" if is_silent else "records_not_silent"
            self._effects.append(Log(LogLevel.ERROR, event, {"silent_ms": silent_ms}))
        return is_silent

    def ask(self, token: int, api_key: int, body: Entity) -> None:
        """Send a request to the active controller; several may be outstanding."""

        def answered(answer: object) -> None:
            self._effects.append(
                AnswerRecords(token, None if isinstance(answer, Failure) else answer)
            )

        self._controller.call(api_key, body, self._timeout_ms, answered, channel=Channel.RECORDS)

    def stop(self) -> None:
        """Stop the records; `on_stopped` is called when that is done."""
        assert not self._is_stopping, "they stop once"
        self._is_stopping = True
        self._effects.append(StopRecords())
        self._timers.set(RECORDS_STOP, self._clock.now_ms + STOP_MS_MAX)

    def stopped(self, clean: tuple[str, ...]) -> None:
        """Note which directories are clean, and go on unless the time was over before."""
        assert self._is_stopping, "nobody asked them to stop"
        self.clean = clean
        if not self._has_stopped:
            self._go_on()

    def tick(self) -> None:
        """Go on without the records if they need too long."""
        if self._timers.at_ms[RECORDS_STOP] <= self._clock.now_ms:
            fields = {"waited_ms": STOP_MS_MAX}
            self._effects.append(Log(LogLevel.WARN, "records_stop_given_up", fields))
            self._go_on()

    def _go_on(self) -> None:
        self._has_stopped = True
        self._timers.clear(RECORDS_STOP)
        self._on_stopped()
