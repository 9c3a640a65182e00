"""The segments of a log, by the files in its directory."""

from storage.logs.log import Log
from storage.segments.segment import segment_base_offset
from storage.vfs import Vfs


def segment_bases(vfs: Vfs, log: Log) -> tuple[int, ...]:
    """Base offsets of the segment files, ascending."""
    bases = (segment_base_offset(name) for name in vfs.list(log.directory))
    return tuple(sorted(base for base in bases if base is not None))
