"""What can go wrong with files. Each of them names the file."""


class CorruptLogError(Exception):
    """Damage where the log was already recorded as flushed: the node must stop."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(f"{path}: corrupt at position {position}: {reason}")
        self.path = path
        self.position = position
        self.reason = reason


class CorruptFileError(Exception):
    """A small file (checkpoint, quorum-state, meta.properties, ...) does not say what it must."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class OutOfSpaceError(Exception):
    """The disk is full; what was being written has been taken back, and a retry may succeed."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path}: no space left on device")
        self.path = path


class FsyncError(Exception):
    """An fsync failed: nobody knows what is on the disk, so the node must stop."""

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
