"""Kafka's text checkpoints: version 0, the number of entries, one entry per line.

`recovery-point-offset-checkpoint` is the recorded flushed end of every partition: damage below it
stops the node. It is written when a segment rolled, after each `LogConfig.recovery_point_bytes` of
flushed log, at a truncation and at a clean close; so it lags behind what was flushed by at most
that many bytes. The metadata log has a `FlushedEndFile` beside it, which does not lag.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from storage.checkpoints.flushed_end_file import FlushedEndFile
from storage.errors import CorruptFileError, OutOfSpaceError
from storage.logs.recovery import FileRebuilt
from storage.vfs import Vfs, join, write_file_atomically

RECOVERY_POINT_NAME: Final = "recovery-point-offset-checkpoint"
LOG_START_NAME: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK_NAME: Final = "replication-offset-checkpoint"
INT32_MAX: Final = (1 << 31) - 1
INT64_MAX: Final = (1 << 63) - 1
_VERSION: Final = 0
_DIGITS: Final = re.compile(r"[0-9]{1,19}")
assert _DIGITS.fullmatch(str(INT64_MAX)), "every offset can be read back"


def whole_number(text: str, maximum: int) -> int:
    """The number in decimal digits, 0 to `maximum` inclusive.

    Raises:
        ValueError: a sign, underscores, digits of other scripts, or a larger number.
    """
    number = -1 if _DIGITS.fullmatch(text) is None else int(text)
    if not 0 <= number <= maximum:
        raise ValueError(f"{text!r} is no whole number from 0 to {maximum}")
    return number


def decode_lines(content: bytes, path: str) -> list[list[str]]:
    """The entries of a checkpoint file, each split at white space.

    Raises:
        CorruptFileError: wrong version, count or characters.
    """
    try:
        lines = content.decode().split("\n")
        version, count = _header(lines)
    except ValueError as error:
        raise CorruptFileError(path, f"not a checkpoint file: {error}") from error
    if version is None:
        return []
    if version != _VERSION:
        raise CorruptFileError(path, f"Unrecognized version of the checkpoint file: {version}")
    entries = [line.split() for line in lines[2:] if line.strip()]
    if len(entries) != count:
        raise CorruptFileError(
            path,
            f"Expected [{count}] entries in checkpoint file [{path}], "
            f"but found only [{len(entries)}]",
        )
    return entries


def _header(lines: list[str]) -> tuple[int | None, int]:
    if not lines[0].strip():
        return None, 0
    version = whole_number(lines[0].strip(), INT32_MAX)
    count = lines[1].strip() if len(lines) > 1 else ""
    return version, whole_number(count, INT32_MAX) if count else 0


def encode_lines(entries: list[str]) -> bytes:
    """The content of a checkpoint file."""
    assert not any("\n" in entry for entry in entries), "one entry, one line"
    return "".join(f"{line}\n" for line in [str(_VERSION), str(len(entries)), *entries]).encode()


def decode_offsets(content: bytes, path: str) -> dict[tuple[str, int], int]:
    """The offsets by (topic, partition) of `topic partition offset` lines.

    Raises:
        CorruptFileError: a line has another form, or a number out of range for an int32 partition
            or an int64 offset.
    """
    offsets: dict[tuple[str, int], int] = {}
    for fields in decode_lines(content, path):
        try:
            topic, partition, offset = fields
            offsets[topic, whole_number(partition, INT32_MAX)] = whole_number(offset, INT64_MAX)
        except ValueError as error:
            raise CorruptFileError(
                path, f"malformed line {' '.join(fields)!r}, allowed: topic partition offset"
            ) from error
    return offsets


def encode_offsets(offsets: dict[tuple[str, int], int]) -> bytes:
    """`topic partition offset` lines in the order of the dictionary."""
    return encode_lines([f"{topic} {part} {offset}" for (topic, part), offset in offsets.items()])


class OffsetCheckpoint:
    """An offset checkpoint file of a log directory, rewritten whole.

    Several may be open on one file, each for other partitions: a change reads the file again. If
    they belong to several threads, they share a `guard`, which is held meanwhile.
    """

    def __init__(
        self,
        vfs: Vfs,
        log_directory: str,
        name: str = RECOVERY_POINT_NAME,
        guard: AbstractContextManager[object] | None = None,
    ) -> None:
        self._vfs = vfs
        self._guard = nullcontext() if guard is None else guard
        self.path = join(log_directory, name)
        with self._guard:
            self._offsets = self._read()

    @property
    def offsets(self) -> Mapping[tuple[str, int], int]:
        """The recorded offsets, as last read or written here."""
        return self._offsets

    def get(self, topic: str, partition: int) -> int:
        """The recorded offset, 0 if there is none."""
        return self._offsets.get((topic, partition), 0)

    def record(self, topic: str, partition: int, offset: int) -> None:
        """Make an offset durable; does nothing if it is already recorded."""
        assert offset >= 0, f"{offset=}"
        assert partition >= 0, f"{partition=}"
        if self._offsets.get((topic, partition)) != offset:
            with self._guard:
                self._write({**self._read(), (topic, partition): offset})
        assert self.get(topic, partition) == offset, f"{topic=} {partition=} {offset=}"

    def forget(self, topic: str, partition: int) -> None:
        """Remove the entry of a deleted partition."""
        if (topic, partition) in self._offsets:
            with self._guard:
                kept = {key: o for key, o in self._read().items() if key != (topic, partition)}
                self._write(kept)

    def replace(
        self, offsets: Mapping[tuple[str, int], int], kept_topic: str | None = None
    ) -> None:
        """Make these offsets durable in the place of all others, but for those of `kept_topic`."""
        self.replace_with(lambda: offsets, kept_topic)

    def replace_with(
        self, offsets: Callable[[], Mapping[tuple[str, int], int]], kept_topic: str | None = None
    ) -> None:
        """As `replace`, with the offsets at the moment when the file is written."""
        with self._guard:
            kept = {key: o for key, o in self._read().items() if key[0] == kept_topic}
            replaced = offsets()
            assert all(key[0] != kept_topic for key in replaced), f"{kept_topic=}"
            self._write({**kept, **replaced})

    def _read(self) -> dict[tuple[str, int], int]:
        content = self._vfs.read(self.path) if self._vfs.exists(self.path) else b""
        return decode_offsets(content, self.path)

    def _write(self, offsets: dict[tuple[str, int], int]) -> None:
        write_file_atomically(self._vfs, self.path, encode_offsets(offsets))
        self._offsets = offsets


class RecoveryPoint:
    """The recorded flushed end of one partition: the higher of its two records."""

    def __init__(
        self,
        checkpoint: OffsetCheckpoint,
        topic: str,
        partition: int,
        flushed_end: FlushedEndFile | None = None,
    ) -> None:
        self._checkpoint = checkpoint
        self._topic = topic
        self._partition = partition
        self._flushed_end = flushed_end

    @property
    def end_offset(self) -> int:
        """The recorded flushed end offset, exclusive."""
        recorded = self._checkpoint.get(self._topic, self._partition)
        flushed_end = self._flushed_end
        return recorded if flushed_end is None else max(recorded, flushed_end.end_offset)

    @property
    def damage(self) -> FileRebuilt | None:
        """The damage of the `FlushedEndFile`, None without; the checkpoint is then used alone."""
        return None if self._flushed_end is None else self._flushed_end.damage

    def note(self, end_offset: int) -> None:
        """Record a flush: survives a SIGKILL; a power failure may leave an earlier record."""
        if self._flushed_end is None:
            return
        try:
            self._flushed_end.write(end_offset)
        except OutOfSpaceError:  # the first record of a directory only
            return

    def record(self, end_offset: int) -> None:
        """Make the end offset durable, also one lower than before."""
        if self._flushed_end is not None and self._flushed_end.end_offset > end_offset:
            self._flushed_end.record(end_offset)
        self._checkpoint.record(self._topic, self._partition, end_offset)
        assert self.end_offset == end_offset, f"{self.end_offset=} {end_offset=}"

    def close(self) -> None:
        """Close the `FlushedEndFile`."""
        if self._flushed_end is not None:
            self._flushed_end.close()
