"""Choices of a driver: decoders of batches and of the bytes of connections, and a clock.

The asyncio driver measures requests and the batches that a node applies; the simulator decodes a
batch once for all its nodes and hands the bodies of messages over in memory.
"""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from metadata.loader import CommittedBatch, committed_batches
from network.connections import MakeServerConnection
from network.peers import MakeClientConnection, client_connection
from wire.connections.connection import ServerConnection

ReadBatches = Callable[[bytes], Iterator[CommittedBatch]]
"""Decodes stored batches; the next one is asked for when the one before is applied."""


class Decoding(msgspec.Struct, frozen=True, kw_only=True):
    """Decoders of a node; the defaults are those of the bytes themselves, and measure nothing."""

    read_batches: ReadBatches = committed_batches
    server_connection: MakeServerConnection = ServerConnection
    client_connection: MakeClientConnection = client_connection
    nanoseconds: Callable[[], int] = lambda: 0
    """Clock that times requests; their time has a quota beside records."""


BYTES: Final = Decoding()
"""Everything is read from its bytes, and nothing is measured."""
