"""Soft state: when brokers were last heard and how far they have read the metadata.

Never in the log, never in a snapshot. A new active controller starts empty, so every broker gets a
full session from the moment of activation. An entry belongs to one broker epoch: a new incarnation
starts afresh. Whether a broker is fenced is not soft state: the image says it.
Source: apache/kafka: metadata/.../controller/BrokerHeartbeatManager.java.
"""

from typing import Final

from metadata.image import Broker, Image
from wire.types import BrokerEpoch, NodeId, Offset

NO_OFFSET: Final = -1


class _Contact:
    """What was heard of one registration."""

    __slots__ = ("epoch", "is_challenged", "last_contact_ms", "metadata_offset", "shutdown_offset")

    def __init__(self, epoch: BrokerEpoch, now_ms: int) -> None:
        self.epoch = epoch
        self.last_contact_ms = now_ms
        self.metadata_offset = NO_OFFSET
        self.shutdown_offset: Offset | None = None
        self.is_challenged = False

    @property
    def is_awaited(self) -> bool:
        """Whether others wait until it has read the metadata: it stays and nothing says it died."""
        return self.shutdown_offset is None and not self.is_challenged


class Liveness:
    """Contacts per broker.

    Args:
        session_timeout_ms: silence after which a broker is fenced (broker.session.timeout.ms).
        now_ms: monotonic time of the activation; unknown brokers count as heard then.
    """

    def __init__(self, session_timeout_ms: int, now_ms: int) -> None:
        assert session_timeout_ms > 0, f"{session_timeout_ms=}"
        self.session_timeout_ms = session_timeout_ms
        self._activated_ms = now_ms
        self._contacts: dict[NodeId, _Contact] = {}
        self._deadline_of: object = None
        """The brokers that `_deadline_ms` was computed for; None after a contact."""
        self._deadline_ms: int | None = None

    def touch(self, broker: Broker, metadata_offset: int, now_ms: int) -> None:
        """A heartbeat arrived; a fenced broker forgets its controlled shutdown."""
        contact = self._entry(broker, now_ms)
        contact.last_contact_ms = now_ms
        contact.metadata_offset = metadata_offset
        contact.is_challenged = False
        if broker.fenced:
            contact.shutdown_offset = None

    def register(self, broker: Broker, now_ms: int) -> None:
        """A broker registered; a new epoch drops what was known of the old one."""
        self._entry(broker, now_ms).last_contact_ms = now_ms

    def challenge(self, broker: Broker) -> None:
        """Another incarnation asked to register: nobody waits for the old one until it is heard.

        Not in Kafka, where a controlled shutdown waits for a dead broker until its session ends.
        """
        self._entry(broker, self._activated_ms).is_challenged = True

    def enter_controlled_shutdown(self, broker: Broker, last_offset: Offset, now_ms: int) -> None:
        """Remember the last offset that others must have read; only the first call counts."""
        contact = self._entry(broker, now_ms)
        if contact.shutdown_offset is None:
            contact.shutdown_offset = last_offset

    def extend_controlled_shutdown(self, broker: Broker, last_offset: Offset) -> None:
        """More of its partitions moved later: others must have read that too."""
        contact = self._known(broker)
        if contact is not None and contact.shutdown_offset is not None:
            contact.shutdown_offset = max(contact.shutdown_offset, last_offset)

    def shutdown_offset(self, broker: Broker) -> Offset | None:
        """The offset of `enter_controlled_shutdown`, None when not shutting down."""
        contact = self._known(broker)
        return None if contact is None else contact.shutdown_offset

    def has_valid_session(self, broker: Broker, now_ms: int) -> bool:
        """Whether another incarnation must wait: unfenced, not leaving, heard in time."""
        if broker.fenced or broker.in_controlled_shutdown:
            return False
        return self._last_contact_ms(broker) + self.session_timeout_ms >= now_ms

    def lowest_active_offset(self, image: Image) -> int | None:
        """Lowest metadata offset of brokers that are unfenced and stay; None if there are none."""
        offsets = [
            NO_OFFSET if contact is None else contact.metadata_offset
            for broker, contact in ((b, self._known(b)) for b in image.brokers.values())
            if not broker.fenced and (contact is None or contact.is_awaited)
        ]
        return min(offsets, default=None)

    def stale_broker(self, image: Image, now_ms: int) -> Broker | None:
        """The unfenced broker whose session ended first, by contact and then id."""
        stale = [
            (self._last_contact_ms(broker), broker.id)
            for broker in image.brokers.values()
            if not broker.fenced
            and self._last_contact_ms(broker) + self.session_timeout_ms < now_ms
        ]
        return image.brokers[min(stale)[1]] if stale else None

    def next_deadline_ms(self, image: Image) -> int | None:
        """When the next session ends, None without unfenced brokers.

        Asked after every step of a node, so the answer is kept until a broker is heard or changes.
        """
        if self._deadline_of is not image.brokers:
            contacts = [self._last_contact_ms(b) for b in image.brokers.values() if not b.fenced]
            # A session ends strictly after its time-out: waking up then would find nothing.
            self._deadline_ms = min(contacts) + self.session_timeout_ms + 1 if contacts else None
            self._deadline_of = image.brokers
        return self._deadline_ms

    def ages_ms(self, image: Image, now_ms: int) -> dict[NodeId, int]:
        """How long ago each broker of the image was heard."""
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
