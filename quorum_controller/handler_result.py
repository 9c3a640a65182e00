"""The result of a handler that does not refuse the whole request."""

import msgspec

from quorum_controller.brokers.sweeps import Sweep
from wire.messages.codec import Entity


class HandlerResult(msgspec.Struct, frozen=True):
    """A response body, and a sweep that must end before it is sent."""

    response: Entity
    sweep: Sweep | None = None
    kraft_version: int | None = None
    """Level to which raft raises kraft.version, by records before those of the draft."""
