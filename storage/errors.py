"""Errors of files and directories; each names its path."""


class CorruptLogError(Exception):
    """Damage below the recorded flushed end of a log: the node must stop."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(f"{path}: corrupt at position {position}: {reason}")
        self.path = path
        self.position = position
        self.reason = reason


class CorruptFileError(Exception):
    """A small file (checkpoint, quorum-state, meta.properties, ...) has invalid content."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class OutOfSpaceError(Exception):
    """The disk is full; the write has been undone, and a retry may succeed."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path}: no space left on device")
        self.path = path


class FsyncError(Exception):
    """An fsync failed: the content of the disk is unknown, so the node must stop."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: fsync failed: {reason}")
        self.path = path
        self.reason = reason


class LockedDirectoryError(Exception):
    """Another process holds the lock of a log directory."""

    def __init__(self, directory: str) -> None:
        super().__init__(
            f"{directory}: locked by another process; a node with this log directory is running"
        )
        self.directory = directory


class OffsetOutOfRangeError(Exception):
    """A read at an offset that the log does not hold."""

    def __init__(self, offset: int, log_start_offset: int, end_offset: int) -> None:
        super().__init__(f"offset {offset} is not in [{log_start_offset}, {end_offset}]")
        self.offset = offset
