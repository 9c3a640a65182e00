"""The readiness of a broker: its logs are loaded, and those of its first image are open.

apache/kafka: core/.../server/metadata/BrokerMetadataPublisher.scala (`firstPublishFuture`)
"""

from collections.abc import Callable

from wire.types import TopicIdPartition


class Readiness:
    """The way of a broker to its `Ready`.

    Args:
        ready: told once.
    """

    def __init__(self, ready: Callable[[], None]) -> None:
        self._ready = ready
        self._is_first = True
        """True until the first image is applied."""
        self._catch_up_count = 0
        """Images that are applied before: those that came while the logs were loaded."""
        self._awaited: set[TopicIdPartition] | None = None
        """Partitions of the first image without a log; None before the logs are loaded and at the
        end."""
        self.is_loaded = False
        """True once the logs are loaded."""

    @property
    def is_ready(self) -> bool:
        """True once the logs are loaded and those of the first image are open."""
        return self.is_loaded and self._awaited is None

    def loaded(self, image_count: int) -> None:
        """Take note that the logs are loaded, and so many images came meanwhile."""
        self.is_loaded = True
        self._catch_up_count = image_count
        self._awaited = set()

    def await_log(self, key: TopicIdPartition) -> None:
        """Wait for a log that is created, if it is of the first image."""
        if self._is_first:
            assert self._awaited is not None, "the logs are loaded"
            self._awaited.add(key)

    def first_applied(self) -> None:
        """Take note that the first image is applied."""
        self._is_first = False

    def applied(self, image_count: int) -> bool:
        """Take the end of images; True if the last of those that came meanwhile is among them."""
        if not self._catch_up_count:
            return False
        self._catch_up_count = max(0, self._catch_up_count - image_count)
        return self._catch_up_count == 0

    def has_log_or_none(self, key: TopicIdPartition) -> None:
        """Take note that a log is open, or will not be."""
        if self._awaited is not None:
            self._awaited.discard(key)
            self.maybe_ready()

    def maybe_ready(self) -> None:
        """Tell it if nothing is waited for."""
        if not self._awaited and not self._catch_up_count:
            self._awaited = None
            self._ready()

    def stop(self) -> None:
        """Tell nothing any more."""
        self._awaited = None
