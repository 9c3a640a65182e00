"""`kraftline log verify DIR...`: check of log directories for damage and equality of replicas.

Each DIR is a log directory or one partition folder of it. Exit code 0 no error, 1 errors, 2 a
folder or file cannot be read. Nothing is written, not even of a running node.
"""

import sys
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from cli.arguments import Parser
from cli.offline.findings import Finding, Severity

if TYPE_CHECKING:
    from cli.offline.verify_partition import PartitionResult

WHOLE, DAMAGED, UNREADABLE = 0, 1, 2
_COMPARED: Final = "compared where their offsets meet"


class _Parser(Parser):
    """Parser whose refusal gives no verdict: exit code 2, as 1 means damaged."""

    refusal_code = UNREADABLE


def run(arguments: Sequence[str]) -> int:
    """Verify the directories and return the exit code."""
    parser = _Parser("kraftline log", "Verify log directories.")
    parser.add_argument("command", choices=["verify"], help="what to do")
    parser.add_argument("directories", nargs="+", metavar="DIR", help="log directories")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    options = parser.parse_args(arguments)
    verdict = Verdict()
    try:
        for finding in verdict.findings([Path(name) for name in options.directories]):
            if not options.json:
                sys.stdout.write(finding.line())
    except OSError as problem:
        where = "" if problem.filename is None else f"{problem.filename}: "
        sys.stderr.write(f"{where}{problem.strerror or problem}\n")
        return UNREADABLE
    sys.stdout.write(verdict.as_json() if options.json else verdict.summary())
    return DAMAGED if verdict.error_count else WHOLE


class Verdict:
    """Checked partitions and their findings."""

    def __init__(self) -> None:
        self.found: list[Finding] = []
        self.partitions: list[PartitionResult] = []

    @property
    def error_count(self) -> int:
        """Number of findings that are errors."""
        return sum(finding.severity is Severity.ERROR for finding in self.found)

    def findings(self, directories: Sequence[Path]) -> Iterator[Finding]:
        """Yield every finding as soon as it is known.

        Raises:
            OSError: a folder or file cannot be read.
        """
        for finding in self._all(directories):
            self.found.append(finding)
            yield finding

    def _all(self, directories: Sequence[Path]) -> Iterator[Finding]:
        from cli.offline.verify_partition import (  # noqa: PLC0415  # slow
            PartitionResult,
            check_partition,
            compare,
        )

        for path in _partitions(directories):
            result = PartitionResult(path, [])
            self.partitions.append(result)
            yield from check_partition(path, result)
        for ours, theirs in combinations(self.partitions, 2):
            if ours.path.name == theirs.path.name:
                yield from compare(ours, theirs)

    def summary(self) -> str:
        """One line per partition and a last one for all."""
        lines = [
            f"{p.path}: offsets {p.start_offset} to {p.end_offset}, {p.batch_count} batches in "
            f"{len(p.segments)} segments\n"
            for p in self.partitions
        ]
        names = [p.path.name for p in self.partitions]
        replicas = sum(names.count(name) > 1 for name in set(names))
        compared = f", {replicas} with replicas {_COMPARED}" if replicas else ""
        warnings = len(self.found) - self.error_count
        lines.append(
            f"{len(self.partitions)} partition folders{compared}: {self.error_count} errors, "
            f"{warnings} warnings\n"
        )
        return "".join(lines)

    def as_json(self) -> str:
        """All results as one JSON object."""
        answer = {
            "partitions": [
                {
                    "path": str(p.path),
                    "start_offset": p.start_offset,
                    "end_offset": p.end_offset,
                    "batches": p.batch_count,
                    "segments": len(p.segments),
                }
                for p in self.partitions
            ],
            "findings": self.found,
            "errors": self.error_count,
        }
        return msgspec.json.encode(answer).decode() + "\n"


def _partitions(directories: Sequence[Path]) -> list[Path]:
    from cli.offline.verify_partition import is_partition  # noqa: PLC0415  # slow

    found: list[Path] = []
    for directory in directories:
        if is_partition(directory):
            found.append(directory)
            continue
        inside = [entry for entry in sorted(directory.iterdir()) if entry.is_dir()]
        folders = [entry for entry in inside if is_partition(entry)]
        if not folders:
            raise FileNotFoundError(2, "no partition folder with segments", str(directory))
        found += folders
    return found
