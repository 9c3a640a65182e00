"""Random UUIDs, generated as in Kafka.

(apache/kafka: clients/.../common/Uuid.java, `randomUuid`)
"""

from wire.types import Rng


def random_uuid(rng: Rng) -> bytes:
    """Return 16 bytes of version 4, never a reserved UUID, whose text never starts with a dash.

    A dash would make the text a flag on a command line.
    """
    while True:
        high, low = rng.randrange(1 << 64), rng.randrange(1 << 64)
        high = high & ~(0xF << 12) | (4 << 12)
        low = low & ((1 << 62) - 1) | (1 << 63)
        content = high.to_bytes(8, "big") + low.to_bytes(8, "big")
        if content[0] >> 2 != 62:  # base64url 62 is "-"
            return content
