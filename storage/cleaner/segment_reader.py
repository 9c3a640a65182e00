"""The batches of a whole segment, some at a time: a cleaner holds no segment in memory."""

from collections.abc import Iterator

from storage.errors import CorruptLogError
from storage.vfs import VfsFile
from wire.batches.batch import HEADER_BYTES, Batch
from wire.batches.legacy_batch import LegacyBatch, iterate_any
from wire.batches.log_batches import parse_log_header
from wire.errors import CorruptBatchError


def read_segment(
    file: VfsFile, path: str, position: int, read_bytes: int
) -> Iterator[tuple[int, int, list[Batch | LegacyBatch]]]:
    """The batches from a position on, those of one read at a time.

    Args:
        file: of a closed segment.
        path: of it, for errors.
        position: of a batch.
        read_bytes: of one read; a batch that is larger is read alone.

    Yields:
        Position and size of a read in bytes, and the whole batches in it, whose own positions count
        from there.

    Raises:
        CorruptLogError: there is no whole batch at a position.
    """
    assert read_bytes >= HEADER_BYTES, f"{read_bytes=}"
    size_bytes, wanted_bytes = file.size(), read_bytes
    while position < size_bytes:
        window = file.pread(min(wanted_bytes, size_bytes - position), position)
        batches: list[Batch | LegacyBatch] = []
        used = 0
        try:
            for batch in iterate_any(window):
                batches.append(batch)
                used = batch.position + len(batch.buffer)
            if not batches:
                wanted_bytes = _batch_bytes(window, size_bytes - position)
                assert wanted_bytes > len(window), f"{wanted_bytes=}: it was read and is whole"
                continue
        except CorruptBatchError as error:
            raise CorruptLogError(path, position + used, str(error)) from error
        yield position, used, batches
        position, wanted_bytes = position + used, read_bytes


def _batch_bytes(window: bytes, left_bytes: int) -> int:
    """Size of a batch that is larger than a read.

    Raises:
        CorruptBatchError: the segment ends inside it.
    """
    needed = parse_log_header(window).size_bytes
    if needed > left_bytes:
        raise CorruptBatchError(f"batch is cut: {left_bytes} of {needed} bytes are left")
    return needed
