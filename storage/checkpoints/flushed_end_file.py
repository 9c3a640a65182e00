"""`flushed-end-offset`: the flushed end of the metadata log, exact to the last flush.

A file of this project beside the segments (Kafka ignores unknown files of a partition). Kafka's
`recovery-point-offset-checkpoint` holds the same, but a new file with two fsyncs for each flush is
too slow, so it lags; this one is overwritten in place, one sector, without an fsync, after each
flush. A SIGKILL leaves the last one written (page cache), a power failure some earlier one; all of
them are valid, as the log was durable before the offset was written. docs/decisions/0005.

One line: version, end offset (20 digits, exclusive), CRC-32C of what precedes it (8 hex digits).
"""

from typing import Final

from storage.logs.recovery import FileRebuilt
from storage.vfs import Vfs, VfsFile, join, write_file_atomically
from wire.checksum import crc32c

FLUSHED_END_NAME: Final = "flushed-end-offset"
_CONTENT_BYTES: Final = 32  # "0 " + 20 digits + " " + 8 hex digits + newline
_DIGITS: Final = slice(2, 22)
_END_MAX: Final = 2**63 - 1
_SECTOR_BYTES: Final = 512
assert _CONTENT_BYTES <= _SECTOR_BYTES, "overwritten in place: all of it or nothing"
assert len(str(_END_MAX)) <= _DIGITS.stop - _DIGITS.start, f"{_END_MAX=}"


def encode_flushed_end(end_offset: int) -> bytes:
    """The content of the file."""
    assert end_offset >= 0, f"{end_offset=}"
    text = b"0 %020d " % end_offset
    content = b"%b%08x\n" % (text, crc32c(text))
    assert len(content) == _CONTENT_BYTES
    return content


def decode_flushed_end(content: bytes) -> int | None:
    """The end offset; None unless the content is of the form that `encode_flushed_end` writes."""
    digits = content[_DIGITS]
    if len(content) != _CONTENT_BYTES or not digits.isdigit() or int(digits) > _END_MAX:
        return None
    end_offset = int(digits)
    return end_offset if content == encode_flushed_end(end_offset) else None


class FlushedEndFile:
    """The file of one log, kept open. `end_offset` is its offset, 0 without a valid file.

    Damage is reported in `damage`; the other record of the flushed end, which is older, is still
    valid.
    """

    def __init__(self, vfs: Vfs, partition_directory: str) -> None:
        self._path = join(partition_directory, FLUSHED_END_NAME)
        self._vfs = vfs
        self._file: VfsFile | None = None
        self.damage: FileRebuilt | None = None
        self.end_offset = 0
        self._exists = vfs.exists(self._path)
        if self._exists:
            end_offset = decode_flushed_end(vfs.read(self._path))
            if end_offset is None:
                self.damage = FileRebuilt(self._path, "not a record of a flushed end")
            else:
                self.end_offset = end_offset

    def write(self, end_offset: int) -> None:
        """Overwrite in place; not durable. The log must be durable up to the offset.

        The first write creates the file and is durable.

        Raises:
            OutOfSpaceError: the file could not be created; nothing depends on it yet.
        """
        if self.damage is not None or not self._exists:
            self.record(end_offset)
        elif end_offset != self.end_offset:
            assert end_offset > self.end_offset, f"only `record` lowers: {end_offset=}"
            if self._file is None:
                self._file = self._vfs.open(self._path)
            self._file.pwrite(encode_flushed_end(end_offset), 0)
            self.end_offset = end_offset

    def record(self, end_offset: int) -> None:
        """Replace the file, durably: before a truncation, and for the first record."""
        self.close()
        write_file_atomically(self._vfs, self._path, encode_flushed_end(end_offset))
        self.end_offset = end_offset
        self._exists = True
        self.damage = None

    def close(self) -> None:
        """Close the file; the next write opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None
