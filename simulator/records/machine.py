"""A machine whose process serves records: both values of a node on one disk and network."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from typing_extensions import override

from broker.config import RecordsConfig
from broker.effects import Effect
from broker.events import Event, KernelBytes, KernelClosed, TimeAdvanced
from kernel import effects as out
from kernel import events
from kernel.kernel import Kernel
from kernel.port import RecordsPort
from simulator.cluster.machine import Machine
from simulator.cluster.network import End, Pipe
from simulator.records.failing_directories import delete_duplicates, failed_directory
from simulator.records.ports import CLOSED_BY_KERNEL, RECORDS_EVENTS
from simulator.records.records_side import RecordsSide, records_config


class RecordsMachine(Machine):
    """One node of the cluster; one that is no broker is as without records."""

    delays: Random
    """Draws how long things of the records take; set by the world."""
    on_records_step: "Callable[[RecordsMachine, Sequence[Event], Sequence[Effect]], None]"
    """Looks at each half of a step before its effects are performed; set by the world."""
    on_power_lost: "Callable[[RecordsMachine], None]"
    """Called before the disk forgets; set by the world."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.records: RecordsSide | None = None
        """The records of the process; None while none runs."""
        self._failed_before: str | None = None
        """Log directory that failed before the power did, and is as good as new since."""
        self._twins: set[int] = set()
        self.amended: Callable[[RecordsConfig], RecordsConfig] = lambda config: config
        """Changes the settings of the broker; set by the world."""
        self._perform |= dict.fromkeys(RECORDS_EVENTS, self._tell_records)
        self._perform[out.SetReading] = self._set_reading

    # ---- process -------------------------------------------------------------------------------

    @override
    def _open(self, rng: Random, port: RecordsPort | None = None) -> Kernel:
        if not self.config.is_broker:
            return super()._open(rng)
        records = RecordsSide(self, self.make_random(self.rng.getrandbits(64)), self.delays)
        kernel = super()._open(rng, RecordsPort(records.broker.apis))
        self.records = records
        return kernel

    def records_config(self) -> RecordsConfig:
        """Settings of the broker."""
        return self.amended(records_config(self))

    @override
    def start(self) -> None:
        failed = failed_directory(self.vfs) or self._failed_before
        if failed is not None:
            delete_duplicates(self.vfs, failed, self.config.log_dirs)
            self._failed_before = None
        super().start()
        if self.records is not None:
            self.records.post(TimeAdvanced())

    @override
    def _ended(self, reason: str, error: BaseException | None) -> None:
        if self.records is not None:
            self.records.end()
            self.records = None
        self._twins.clear()
        super()._ended(reason, error)

    @override
    def power_off(self, why: str = "power failure") -> None:
        self.on_power_lost(self)
        self._failed_before = failed_directory(self.vfs)
        super().power_off(why)

    def failed(self, error: BaseException) -> None:
        """End the node by an error of its records, as the asyncio driver does: exit code 1."""
        self._stop(error)

    def due_us(self, deadline_ms: int) -> int:
        """Time of the world at which the clock of the machine shows a time."""
        return self._due_us(deadline_ms)

    def after_records_step(self, taken: Sequence[Event], effects: Sequence[Effect]) -> None:
        """Let the world look at a half of a step of the records."""
        self.on_records_step(self, taken, effects)

    # ---- between both --------------------------------------------------------------------------

    def post_of_records(self, event: events.Event, incarnation: int) -> None:
        """Step the kernel with an event of the records."""
        if incarnation != self.incarnation:
            return
        if type(event) is events.ConnectionOpened:
            self._twins.add(event.connection_id)
        self.post(event, incarnation)

    def _tell_records(self, effect: out.RecordsEffect) -> None:
        self._to_records(RECORDS_EVENTS[type(effect)](effect))

    def _to_records(self, event: Event) -> None:
        records = self.records
        assert records is not None, "only a kernel with a port has effects for the records"
        records.take_later(records.post, event)

    # ---- connections to broker listeners -------------------------------------------------------

    @override
    def accept(self, pipe: Pipe, listener: str) -> End | None:
        if self.records is None or listener == "CONTROLLER":
            return super().accept(pipe, listener)
        connection_id = self._next_connection_id
        self._next_connection_id += 1
        return self.records.accept(pipe, listener, connection_id)

    @override
    def note_closed(self, connection_id: int) -> None:
        self._twins.discard(connection_id)
        super().note_closed(connection_id)

    @property
    @override
    def connection_count(self) -> int:
        return super().connection_count + len(self._twins)

    @override
    def _send(self, effect: out.SendBytes) -> None:
        if effect.connection_id in self._twins:
            self._to_records(KernelBytes(effect.connection_id, bytes(effect.data)))
        else:
            super()._send(effect)

    @override
    def _close(self, effect: out.CloseConnection) -> None:
        if effect.connection_id in self._twins:
            self._twins.discard(effect.connection_id)
            self._to_records(KernelClosed(effect.connection_id, CLOSED_BY_KERNEL))
        else:
            super()._close(effect)

    def _set_reading(self, effect: out.SetReading) -> None:
        records = self.records
        if records is not None and effect.connection_id in self._twins:
            records.take_later(records.set_reading_by_kernel, effect)
