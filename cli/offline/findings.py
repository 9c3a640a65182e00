"""What `log verify` finds: where, what, how bad."""

from enum import Enum
from pathlib import Path

import msgspec


class Severity(Enum):
    """How bad a finding is; only errors make the exit code 1."""

    ERROR = "error"
    WARNING = "warning"


class Finding(msgspec.Struct, frozen=True):
    """One thing that is not as it should be."""

    severity: Severity
    file: str
    position: int
    """Byte in the file; 0 for the file as a whole."""
    check: str
    """A short name of what was checked."""
    reason: str

    def line(self) -> str:
        """The line that is printed."""
        return f"{self.severity.value} {self.file}:{self.position} {self.check}: {self.reason}\n"


def error(path: Path, position: int, check: str, reason: str) -> Finding:
    """A finding that is an error."""
    return Finding(Severity.ERROR, str(path), position, check, reason)


def warning(path: Path, position: int, check: str, reason: str) -> Finding:
    """A finding that may be as it should be."""
    return Finding(Severity.WARNING, str(path), position, check, reason)
