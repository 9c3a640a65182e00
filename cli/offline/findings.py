"""Findings of `log verify`: place, check, reason, severity."""

from enum import Enum
from pathlib import Path

import msgspec


class Severity(Enum):
    """Severity of a finding; only errors make the exit code 1."""

    ERROR = "error"
    WARNING = "warning"


class Finding(msgspec.Struct, frozen=True):
    """One defect of a file, or a possible one."""

    severity: Severity
    file: str
    position: int
    """Byte position in the file; 0 for the file as a whole."""
    check: str
    """Short name of the check."""
    reason: str

    def line(self) -> str:
        """The output line."""
        return f"{self.severity.value} {self.file}:{self.position} {self.check}: {self.reason}\n"


def error(path: Path, position: int, check: str, reason: str) -> Finding:
    """A finding that is an error."""
    return Finding(Severity.ERROR, str(path), position, check, reason)


def warning(path: Path, position: int, check: str, reason: str) -> Finding:
    """A finding that may be harmless."""
    return Finding(Severity.WARNING, str(path), position, check, reason)
