"""Bodies of messages as kio writes them, for what this house reads and writes by itself."""

import io
import zlib
from uuid import UUID

from kio.serial import entity_writer


def written(entity) -> bytes:
    """The bytes of an entity."""
    content = io.BytesIO()
    entity_writer(type(entity))(content, entity)
    return content.getvalue()


def topic_id(name: str) -> UUID:
    """The id that stands for a topic in versions that know no names."""
    return UUID(int=zlib.crc32(name.encode()) + 1)
