"""Errors of reading: bad input by the user, or damaged data at one position of one file."""

from typing import Any

from typing_extensions import override


class BadInputError(Exception):
    """A path, option or range that cannot be used; the text names it and the allowed values."""


def not_installed(package: str, extra: str, module: str = __name__) -> str:
    """Line about a package that an extra brings, with what installs it where this code lies.

    Args:
        package: what is missing.
        extra: of the project, which has it.
        module: name of one of our modules: the wheel has them inside one package, the source tree
            has not, and there pip would look for the project in its index.
    """
    is_wheel = not module.startswith("pipeline")
    command = f"pip install 'kraftline[{extra}]'" if is_wheel else f"pip install -e '.[{extra}]'"
    where = "" if is_wheel else " in the source tree"
    return f"{package} is not installed; install it{where} with: {command}"


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
