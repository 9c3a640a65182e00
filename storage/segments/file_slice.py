"""Whole batches of a segment file, not read yet: what a fetch answers with.

apache/kafka: clients/.../common/record/FileRecords.java (`slice`)
"""

import msgspec

from storage.vfs import VfsFile


class FileSlice(msgspec.Struct, frozen=True):
    """Bytes [`position`, `position + size_bytes`) of a file.

    Its own handle of the file stays valid when the segment is closed, renamed or removed. A log
    whose `generation` is another one was truncated since: the bytes may be those of other batches.
    The owner closes the handle.
    """

    file: VfsFile
    position: int
    size_bytes: int
    generation: int
    segment_base_offset: int

    def read(self) -> bytes:
        """The bytes; fewer if the file was truncated meanwhile."""
        return self.file.pread(self.size_bytes, self.position)

    def close(self) -> None:
        """Close the handle; the bytes cannot be read from here any more."""
        self.file.close()
