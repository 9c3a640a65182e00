"""The subscription of a member of the classic protocol as bytes, of the newest version.

The layout is in coordinator/group/consumer/client_protocol, which reads it. A member that gave up
everything before it joins owns nothing and names no generation; racks are not used.
"""

import struct
from collections.abc import Sequence
from typing import Final

VERSION: Final = 3
_NOTHING: Final = struct.pack(">iiih", -1, 0, -1, -1)
"""No user data, no owned partitions, no generation, no rack."""


def subscription_bytes(topics: Sequence[str]) -> bytes:
    """The subscription of these topics."""
    encoded = [topic.encode() for topic in topics]
    names = b"".join(struct.pack(">h", len(name)) + name for name in encoded)
    return struct.pack(">hi", VERSION, len(encoded)) + names + _NOTHING
