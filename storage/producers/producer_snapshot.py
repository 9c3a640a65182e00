"""`.snapshot` files of a partition: the state of its producers below the offset in the name.

    INT16 version 1, UINT32 CRC-32C of what follows it, INT32 number of entries, then of each entry
    INT64 producer id, INT16 epoch, INT32 last sequence, INT64 last offset, INT32 offset delta,
    INT64 timestamp, INT32 coordinator epoch, INT64 first offset of the open transaction

All big-endian; -1 stands for none. Only the newest batch of a producer is kept.
apache/kafka: storage/.../log/ProducerStateManager.java (`readSnapshot`, `writeSnapshot`)
"""

import struct
from collections.abc import Iterable
from typing import Final

import msgspec

from storage.errors import CorruptFileError
from wire.checksum import crc32c

PRODUCER_SNAPSHOT_SUFFIX: Final = ".snapshot"
PRODUCER_SNAPSHOT_VERSION: Final = 1
_HEADER: Final = struct.Struct(">hIi")
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_CRC_START: Final = 6  # behind the version and the CRC itself
assert _ENTRY.size == 46, f"{_ENTRY.size=}"


class ProducerSnapshotEntry(msgspec.Struct, frozen=True, gc=False):
    """One producer, in the order of the fields in the file; -1 stands for none."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    """Inclusive."""
    offset_delta: int
    """Last offset of the newest batch less its first."""
    timestamp_ms: int
    coordinator_epoch: int
    current_transaction_first_offset: int


def encode_producer_snapshot(entries: Iterable[ProducerSnapshotEntry]) -> bytes:
    """The content of a `.snapshot` file; the entries keep their order."""
    packed = [_ENTRY.pack(*msgspec.structs.astuple(entry)) for entry in entries]
    checked = struct.pack(">i", len(packed)) + b"".join(packed)
    return struct.pack(">hI", PRODUCER_SNAPSHOT_VERSION, crc32c(checked)) + checked


def decode_producer_snapshot(content: bytes, path: str) -> list[ProducerSnapshotEntry]:
    """The entries of a `.snapshot` file.

    Raises:
        CorruptFileError: another version, a wrong checksum, or entries that do not fill the file.
    """
    if len(content) < _HEADER.size:
        raise CorruptFileError(path, f"producer snapshot of {len(content)} bytes is cut")
    version, crc, count = _HEADER.unpack_from(content)
    if version != PRODUCER_SNAPSHOT_VERSION:
        raise CorruptFileError(path, f"producer snapshot version {version}, only 1 is known")
    computed = crc32c(content[_CRC_START:])
    if crc != computed:
        raise CorruptFileError(
            path, f"producer snapshot is corrupt: stored CRC {crc}, computed CRC {computed}"
        )
    if len(content) != _HEADER.size + count * _ENTRY.size:
        raise CorruptFileError(path, f"{count} producers do not fill {len(content)} bytes")
    return [
        ProducerSnapshotEntry(*fields) for fields in _ENTRY.iter_unpack(content[_HEADER.size :])
    ]
