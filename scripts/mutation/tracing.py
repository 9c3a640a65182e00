"""Trace of the statements that each quick test runs: a byte a statement, set just before it.

The tree of every traced module gets `__hits__[n] = 1` before each statement, which costs some 30 ns
and needs no hook of the interpreter. After each test the bytes that are set are its statements.
Bytes that are set before the first test belong to the import.
"""

import ast
import builtins
import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

HITS: Final = "__hits__"
STATEMENTS_MAX: Final = 1 << 17
SET: Final = re.compile(b"\x01")
BODIES: Final = ("body", "orelse", "finalbody")


@dataclass(slots=True)
class Trace:
    """Statements of one run of the quick tests; `tests` are numbered in the order of the run."""

    tests: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    failed: set[int] = field(default_factory=set)
    runs: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """"path:line" of a statement -> bit set of the tests that run it."""
    imported: set[str] = field(default_factory=set)
    """Statements that ran before the first test."""

    def add(self, other: "Trace") -> None:
        """Add the trace of another worker."""
        shift = len(self.tests)
        self.tests += other.tests
        self.seconds += other.seconds
        self.failed |= {number + shift for number in other.failed}
        self.imported |= other.imported
        for place, bits in other.runs.items():
            self.runs[place] = self.runs.get(place, 0) | bits << shift

    def numbers(self, bits: int) -> list[int]:
        """Return the passing tests of a bit set, the fastest first."""
        found = [
            number
            for number, digit in enumerate(reversed(f"{bits:b}"))
            if digit == "1" and number not in self.failed
        ]
        return sorted(found, key=lambda number: (self.seconds[number], number))

    def write(self, path: Path) -> None:
        """Write the trace to a file."""
        content = {
            "tests": self.tests,
            "seconds": self.seconds,
            "failed": sorted(self.failed),
            "runs": {place: f"{bits:x}" for place, bits in sorted(self.runs.items())},
            "imported": sorted(self.imported),
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        written = path.with_suffix(".new")
        with gzip.open(written, "wt", compresslevel=3, encoding="utf-8") as file:
            json.dump(content, file)
        written.replace(path)


def read_trace(path: Path) -> Trace:
    """Read a trace from its file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        content = json.load(file)
    return Trace(
        tests=content["tests"],
        seconds=content["seconds"],
        failed=set(content["failed"]),
        runs={place: int(bits, 16) for place, bits in content["runs"].items()},
        imported=set(content["imported"]),
    )


class Tracer:
    """Numbers of statements, and the bytes that mark those that ran."""

    def __init__(self) -> None:
        self._places: list[str] = []
        self._hits = bytearray(STATEMENTS_MAX)
        setattr(builtins, HITS, self._hits)

    def instrument(self, module: str, source: bytes) -> ast.Module:
        """Return the tree of a module in which every statement sets its byte."""
        tree = ast.parse(source)
        for node in list(ast.walk(tree)):
            for name in BODIES:
                body = getattr(node, name, None)
                if isinstance(body, list):
                    body[:] = self._marked(module, body)
        assert len(self._places) <= STATEMENTS_MAX, f"{len(self._places)=}"
        return ast.fix_missing_locations(tree)

    def take(self) -> Iterable[str]:
        """Return the statements that ran since the last call."""
        found = [self._places[match.start()] for match in SET.finditer(self._hits)]
        self._hits[:] = bytes(STATEMENTS_MAX)
        return found

    def _marked(self, module: str, body: list[ast.stmt]) -> Iterator[ast.stmt]:
        for statement in body:
            if not _must_be_first(statement):
                mark = ast.parse(f"{HITS}[{len(self._places)}] = 1").body[0]
                for node in ast.walk(mark):
                    ast.copy_location(node, statement)
                self._places.append(f"{module}:{statement.lineno}")
                yield mark
            yield statement


def _must_be_first(statement: ast.stmt) -> bool:
    """Return True for a docstring or an import from the future: no statement may precede them."""
    match statement:
        case ast.Expr(value=ast.Constant(value=str())) | ast.ImportFrom(module="__future__"):
            return True
        case _:
            return False
