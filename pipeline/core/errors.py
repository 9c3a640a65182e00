"""How reading goes wrong: the user's fault, or the data's at one position of one file."""

from typing import Any

from typing_extensions import override


class BadInputError(Exception):
    """A path, an option or a range that cannot be used; the text names it and what is allowed."""


class DataLossError(Exception):
    """Records that were asked for or already read are not in the log any more."""


class CorruptSegmentError(Exception):
    """A damaged batch, read in mode FAILFAST."""

    def __init__(self, path: str, position: int, base_offset: int | None, reason: str) -> None:
        super().__init__(path, position, base_offset, reason)
        self.path = path
        self.position = position
        self.base_offset = base_offset
        self.reason = reason

    @override
    def __str__(self) -> str:
        """One line: file, position, offset, reason."""
        offset = "" if self.base_offset is None else f" (base offset {self.base_offset})"
        return f"{self.path}:{self.position}{offset}: {self.reason}"

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        """Errors travel from a task to the driver by pickle."""
        return type(self), (self.path, self.position, self.base_offset, self.reason)
