"""Soft state of broker sessions: last heartbeats and the metadata offsets they reported.

It is never in the log or a snapshot. A new active controller starts empty, so every broker gets a
full session from the time of activation. An entry belongs to one broker epoch: a new incarnation
gets a new one. Fencing is not soft state: it is in the image.
Source: apache/kafka: metadata/.../controller/BrokerHeartbeatManager.java.
"""

from typing import Final

from metadata.image import Broker, Image
from wire.types import BrokerEpoch, NodeId, Offset

NO_OFFSET: Final = -1


class _Contact:
    """The last heartbeat and the controlled shutdown of one registration."""

    __slots__ = (
        "epoch",
        "is_challenged",
        "is_heard",
        "last_contact_ms",
        "metadata_offset",
        "shutdown_offset",
    )

    def __init__(self, epoch: BrokerEpoch, now_ms: int) -> None:
        self.epoch = epoch
        self.last_contact_ms = now_ms
        self.metadata_offset = NO_OFFSET
        self.shutdown_offset: Offset | None = None
        self.is_challenged = False
        self.is_heard = False

    @property
    def is_awaited(self) -> bool:
        """True if controlled shutdowns wait for its metadata offset: not leaving or challenged."""
        return self.shutdown_offset is None and not self.is_challenged


class Liveness:
    """The sessions of brokers.

    Args:
        session_timeout_ms: time without heartbeat after which a broker is fenced
            (broker.session.timeout.ms).
        now_ms: monotonic time of the activation: the last contact of brokers without an entry.
    """

    def __init__(self, session_timeout_ms: int, now_ms: int) -> None:
        assert session_timeout_ms > 0, f"{session_timeout_ms=}"
        self.session_timeout_ms = session_timeout_ms
        self._activated_ms = now_ms
        self._contacts: dict[NodeId, _Contact] = {}
        self._deadline_of: object = None
        """The brokers for which `_deadline_ms` was computed; None after a contact."""
        self._deadline_ms: int | None = None

    def touch(self, broker: Broker, metadata_offset: int, now_ms: int) -> None:
        """Record a heartbeat; that of a fenced broker ends its controlled shutdown."""
        contact = self._entry(broker, now_ms)
        contact.last_contact_ms = now_ms
        contact.metadata_offset = metadata_offset
        contact.is_challenged = False
        contact.is_heard = True
        if broker.fenced:
            contact.shutdown_offset = None

    def register(self, broker: Broker, now_ms: int) -> None:
        """Record a registration; a new epoch replaces the entry of the old one."""
        self._entry(broker, now_ms).last_contact_ms = now_ms

    def challenge(self, broker: Broker) -> None:
        """Record that another incarnation tried to register in a valid session.

        Controlled shutdowns no longer wait for the old incarnation until its next heartbeat. Kafka
        lacks this: there they wait for a dead broker until its session ends.
        """
        self._entry(broker, self._activated_ms).is_challenged = True

    def enter_controlled_shutdown(self, broker: Broker, last_offset: Offset, now_ms: int) -> None:
        """Set the offset that other brokers must have read; only the first call has an effect."""
        contact = self._entry(broker, now_ms)
        if contact.shutdown_offset is None:
            contact.shutdown_offset = last_offset

    def extend_controlled_shutdown(self, broker: Broker, last_offset: Offset) -> None:
        """Raise the offset that other brokers must have read: more partitions were moved."""
        contact = self._known(broker)
        if contact is not None and contact.shutdown_offset is not None:
            contact.shutdown_offset = max(contact.shutdown_offset, last_offset)

    def end_session(self, broker: Broker) -> None:
        """Record that the broker was allowed to shut down: its successor need not wait."""
        contact = self._known(broker)
        if contact is not None:
            contact.is_heard = False

    def shutdown_offset(self, broker: Broker) -> Offset | None:
        """Return the offset that other brokers must have read, None when not shutting down."""
        contact = self._known(broker)
        return None if contact is None else contact.shutdown_offset

    def has_valid_session(self, broker: Broker, now_ms: int) -> bool:
        """True if another incarnation must wait: heard in time and not leaving.

        An unfenced broker counts as heard at the activation, a fenced one by its heartbeats only.
        One that leaves in order is replaced at once; Kafka lets its successor wait too
        (docs/decisions/0016-leaving-broker.md).
        """
        if broker.in_controlled_shutdown:
            return False
        contact = self._known(broker)
        if broker.fenced and (contact is None or not contact.is_heard):
            return False
        return self._last_contact_ms(broker) + self.session_timeout_ms >= now_ms

    def lowest_active_offset(self, image: Image) -> int | None:
        """Return the lowest metadata offset of unfenced, awaited brokers; None without any."""
        offsets = [
            NO_OFFSET if contact is None else contact.metadata_offset
            for broker, contact in ((b, self._known(b)) for b in image.brokers.values())
            if not broker.fenced and (contact is None or contact.is_awaited)
        ]
        return min(offsets, default=None)

    def stale_broker(self, image: Image, now_ms: int) -> Broker | None:
        """Return the unfenced broker whose session expired first, by contact and then id."""
        stale = [
            (self._last_contact_ms(broker), broker.id)
            for broker in image.brokers.values()
            if not broker.fenced
            and self._last_contact_ms(broker) + self.session_timeout_ms < now_ms
        ]
        return image.brokers[min(stale)[1]] if stale else None

    def next_deadline_ms(self, image: Image) -> int | None:
        """Return the time at which the next session expires, None without unfenced brokers.

        Called after every step of a node, so the result is cached until a contact or a change of
        brokers.
        """
        if self._deadline_of is not image.brokers:
            contacts = [self._last_contact_ms(b) for b in image.brokers.values() if not b.fenced]
            # A session expires strictly after its time-out: at the time-out it is still valid.
            self._deadline_ms = min(contacts) + self.session_timeout_ms + 1 if contacts else None
            self._deadline_of = image.brokers
        return self._deadline_ms

    def ages_ms(self, image: Image, now_ms: int) -> dict[NodeId, int]:
        """Return the ms since the last contact of each broker of the image."""
        return {
            broker.id: max(0, now_ms - self._last_contact_ms(broker))
            for broker in image.brokers.values()
        }

    def _known(self, broker: Broker) -> _Contact | None:
        contact = self._contacts.get(broker.id)
        return contact if contact is not None and contact.epoch == broker.epoch else None

    def _entry(self, broker: Broker, now_ms: int) -> _Contact:
        self._deadline_of = None
        contact = self._known(broker)
        if contact is None:
            contact = self._contacts[broker.id] = _Contact(broker.epoch, now_ms)
        return contact

    def _last_contact_ms(self, broker: Broker) -> int:
        contact = self._contacts.get(broker.id)
        if contact is None or contact.epoch != broker.epoch:
            return self._activated_ms
        return contact.last_contact_ms
