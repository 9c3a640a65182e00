"""Errors of reading: bad input by the user, or damaged data at one position of one file."""

from typing import Any

from typing_extensions import override


class BadInputError(Exception):
    """A path, option or range that cannot be used; the text names it and the allowed values."""


class DataLossError(Exception):
    """Requested or already read records that are no longer in the log."""


class CorruptSegmentError(Exception):
    """A damaged batch in mode FAILFAST."""

    def __init__(self, path: str, position: int, base_offset: int | None, reason: str) -> None:
        super().__init__(path, position, base_offset, reason)
        self.path = path
        self.position = position
        self.base_offset = base_offset
        self.reason = reason

    @override
    def __str__(self) -> str:
        """Return one line: file, position, offset, reason."""
        offset = "" if self.base_offset is None else f" (base offset {self.base_offset})"
        return f"{self.path}:{self.position}{offset}: {self.reason}"

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        """Support pickle, by which errors travel from a task to the driver."""
        return type(self), (self.path, self.position, self.base_offset, self.reason)
