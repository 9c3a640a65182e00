"""Decoding of arrays of ids, once per content; adjacent arrays are decoded as one block.

A log repeats few replica lists and few lists of directories. The tuples of a block are cached by
its bytes: a lookup costs a fifth of decoding, and equal lists are one object in every image.
"""

from typing import Final

from metadata.primitives import null_error, read_ints, read_uuids

KNOWN_MAX: Final = 4096
"""Limit of cached blocks, about 1 MB; the cache is cleared when it is reached."""
BLOCK_BYTES_MAX: Final = 512
"""Longer blocks are not cached."""
INT32_BYTES: Final = 4

Ids = tuple[int, ...] | tuple[bytes, ...] | None


class ArrayBlock:
    """Adjacent compact arrays; `known` is the cache of decoded blocks by their bytes."""

    def __init__(self, arrays: tuple[tuple[str, int], ...], *, is_nullable: bool = False) -> None:
        """A block of arrays, each given as label and bytes per id (4 or 16), in wire order."""
        self._arrays = arrays
        self._is_nullable = is_nullable
        self.known: dict[bytes, tuple[Ids, ...]] = {}

    def read(self, buffer: bytes, position: int, end: int) -> tuple[tuple[Ids, ...], int]:
        """Decode and cache the block at `position`; return its tuples and the position after it.

        Raises:
            MetadataRecordError: an array is null.
            IndexError, struct.error: the block ends after `end`.
        """
        found: list[Ids] = []
        start = position
        for label, id_bytes in self._arrays:
            values: Ids
            if id_bytes == INT32_BYTES:
                values, position = read_ints(buffer, position, end)
            else:
                values, position = read_uuids(buffer, position, end)
            if values is None and not self._is_nullable:
                raise null_error(label)
            found.append(values)
        block = tuple(found)
        if position - start <= BLOCK_BYTES_MAX:
            if len(self.known) >= KNOWN_MAX:
                self.known.clear()
            self.known[buffer[start:position]] = block
        return block, position
