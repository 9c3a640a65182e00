"""The port between the two values of a node: effects of one are events of the other.

Each has its loop and thread. Both ends queue what a step says and hand it over at once, with one
wake-up of the other loop; order is kept in each direction. Images pass by reference: nobody changes
them.

A connection to a broker listener has a twin of the same id at the kernel. When the kernel does not
want to read it, its socket is not read: requests that the kernel does not take yet must not pile up
there, and only the operating system's buffer holds as many as one client may send. Nor is it read
before the twin is made: the kernel's limits on connections hold for requests about records too.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from broker import effects as records
from broker import events as records_events
from kernel import effects as kernel
from kernel import events as kernel_events

CLOSED_BY_KERNEL: Final = "the kernel closed it"
"""Reason of a twin's close; the kernel has written the log line of it."""
_KERNEL_EVENTS: Final[Mapping[type, Callable[[Any], kernel_events.Event]]] = {
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
_RECORDS_EVENTS: Final[Mapping[type, Callable[[Any], records_events.Event]]] = {
    kernel.PublishImage: lambda e: records_events.ImagePublished(e.image, e.delta),
    kernel.TellBrokerEpoch: lambda e: records_events.BrokerEpochChanged(e.epoch),
    kernel.AnswerRecords: lambda e: records_events.Answered(e.token, e.answer),
    kernel.StopRecords: lambda _: records_events.StopRequested(),
}
TO_KERNEL: Final = frozenset(_KERNEL_EVENTS)
TO_RECORDS: Final = frozenset(_RECORDS_EVENTS)


class ToKernel:
    """The end on the thread of the records.

    Args:
        post: hands events over to the main thread.
    """

    def __init__(self, post: Callable[[Sequence[kernel_events.Event]], None]) -> None:
        self._post = post
        self._queued: list[kernel_events.Event] = []

    def carry_out(self, effect: records.Effect) -> None:
        """Queue an effect that is meant for the kernel."""
        self._queued.append(_KERNEL_EVENTS[type(effect)](effect))

    def flush(self) -> None:
        """Hand over what is queued."""
        if self._queued:
            queued, self._queued = self._queued, []
            self._post(queued)


class ToRecords:
    """The end on the main thread, where the kernel's driver carries out effects.

    Args:
        post: hands over events, and by id of a connection whether the kernel wants to read it.
    """

    def __init__(
        self, post: Callable[[Sequence[records_events.Event], Mapping[int, bool]], None]
    ) -> None:
        self._post = post
        self._queued: list[records_events.Event] = []
        self._readings: dict[int, bool] = {}

    def carry_out(self, effect: kernel.RecordsEffect) -> None:
        """Queue an effect that is meant for the records."""
        self._queued.append(_RECORDS_EVENTS[type(effect)](effect))

    def twin(self, connection_id: int) -> "Twin":
        """Make the kernel's end of a connection to a broker listener, which is read from now on.

        What the kernel says about that in the step that takes the connection replaces it.
        """
        self.queue_reading(connection_id, is_wanted=True)
        return Twin(self, connection_id)

    def queue(self, event: records_events.Event) -> None:
        """Queue an event of a twin."""
        self._queued.append(event)

    def queue_reading(self, connection_id: int, *, is_wanted: bool) -> None:
        """Queue whether a connection is to be read; the last word counts."""
        self._readings[connection_id] = is_wanted

    def flush(self) -> None:
        """Hand over what is queued."""
        if self._queued or self._readings:
            queued, self._queued = self._queued, []
            readings, self._readings = self._readings, {}
            self._post(queued, readings)


class Twin:
    """The kernel's end of a connection, for a socket (`node.connections.InboundEnd`)."""

    def __init__(self, end: ToRecords, connection_id: int) -> None:
        self._end = end
        self._id = connection_id

    def write(self, content: bytes, spent_ns: int = 0) -> None:
        """Take bytes of responses for the client."""
        self._end.queue(records_events.KernelBytes(self._id, content, spent_ns))

    def close(self) -> None:
        """Close the connection, behind what was written."""
        self._end.queue(records_events.KernelClosed(self._id, CLOSED_BY_KERNEL))

    def set_reading(self, *, is_wanted: bool) -> None:
        """Read the client's requests, or leave them in the operating system's buffer."""
        self._end.queue_reading(self._id, is_wanted=is_wanted)
