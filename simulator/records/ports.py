"""The port between the two values of a simulated node: messages late, in order, each way.

What each effect of one is to the other is as in the asyncio drivers (node/records/bridge.py).
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from broker import effects as records
from broker import events as records_events
from kernel import effects as kernel
from kernel import events as kernel_events
from simulator.cluster.scheduler import Scheduler

CLOSED_BY_KERNEL: Final = "the kernel closed it"
KERNEL_EVENTS: Final[Mapping[type, Callable[[Any], kernel_events.Event]]] = {
    records.OpenAtKernel: lambda e: kernel_events.ConnectionOpened(
        e.connection_id, e.listener, e.client_host
    ),
    records.SendToKernel: lambda e: kernel_events.BytesReceived(e.connection_id, e.data),
    records.UsedAtKernel: lambda e: kernel_events.ConnectionUsed(e.connection_id),
    records.CloseAtKernel: lambda e: kernel_events.ConnectionClosed(e.connection_id),
    records.Ask: lambda e: kernel_events.RecordsAsked(e.token, e.api_key, e.body),
    records.Ready: lambda _: kernel_events.RecordsReady(),
    records.Alive: lambda _: kernel_events.RecordsAlive(),
    records.DirectoryFailed: lambda e: kernel_events.RecordsDirectoryFailed(e.path, e.is_last),
    records.Stopped: lambda e: kernel_events.RecordsStopped(e.clean),
}
RECORDS_EVENTS: Final[Mapping[type, Callable[[Any], records_events.Event]]] = {
    kernel.PublishImage: lambda e: records_events.ImagePublished(e.image, e.delta),
    kernel.TellBrokerEpoch: lambda e: records_events.BrokerEpochChanged(e.epoch),
    kernel.AnswerRecords: lambda e: records_events.Answered(e.token, e.answer),
    kernel.StopRecords: lambda _: records_events.StopRequested(),
}


class LatePort:
    """One direction.

    Args:
        scheduler: of the world.
        lag_us: draws how late a message is; none overtakes another.
    """

    def __init__(self, scheduler: Scheduler, lag_us: Callable[[], int]) -> None:
        self._scheduler = scheduler
        self._lag_us = lag_us
        self._last_us = 0

    def send(self, deliver: Callable[[Any], None], message: object) -> None:
        """Deliver a message after all that were sent before."""
        self._last_us = max(self._last_us, self._scheduler.now_us + self._lag_us())
        self._scheduler.at(self._last_us, partial(deliver, message))
