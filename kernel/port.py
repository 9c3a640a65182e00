"""The port of a kernel to the records of its broker, which another value of the node serves.

With it the kernel has no partition directories and no in-sync replicas of its own: it publishes
each image as an effect, sends requests of the records to the active controller, and waits for them
before it asks to be unfenced and before it exits (`lifecycle/records.py`, and the `Records...`
events and effects). Without it a broker keeps metadata only: so the simulator of metadata runs it,
and no process.
"""

from contextlib import AbstractContextManager

import msgspec


class RecordsPort(msgspec.Struct, frozen=True):
    """The records of a broker as its kernel sees them.

    Args:
        offered: APIs that they serve at broker listeners, listed by ApiVersions in Kafka's ranges;
            no request of them in a version of its range reaches the kernel.
        guard: held while the recovery point of the metadata log is written, whose file the records
            may write on their own thread; None if they do not.
    """

    offered: frozenset[int]
    guard: AbstractContextManager[object] | None = None
