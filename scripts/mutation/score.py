"""Results of mutants: their file, the list of equivalent ones, the table and the score."""

import json
import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from scripts.mutation.modules import ROOT

EQUIVALENTS: Final = ROOT / "docs" / "mutation" / "equivalents.toml"


@dataclass(frozen=True, slots=True)
class Result:
    """Outcome of one mutant."""

    id: str
    line: int
    outcome: str
    killer: str
    covering: int  # tests that run the mutated statement
    ran: int  # tests of them that were run until one failed or the time of a mutant was over
    seconds: float

    @property
    def package(self) -> str:
        """Package that the mutant belongs to."""
        return self.id.partition("/")[0]

    @property
    def place(self) -> str:
        """File and line."""
        return f"{self.id.partition('::')[0]}:{self.line}"


@dataclass(slots=True)
class Results:
    """Results so far of the mutants of one sample."""

    commit: str
    seed: str
    sample: int | None
    packages: list[str]
    found: dict[str, Result] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Replace the file with all results, one mutant a line."""
        head = {
            "commit": self.commit,
            "seed": self.seed,
            "sample": self.sample,
            "packages": self.packages,
        }
        lines = [json.dumps(asdict(result)) for _, result in sorted(self.found.items())]
        text = json.dumps(head)[:-1] + ', "mutants": [\n' + ",\n".join(lines) + "\n]}\n"
        path.parent.mkdir(parents=True, exist_ok=True)
        written = path.with_suffix(".new")
        written.write_text(text, "utf-8")
        written.replace(path)


def read_results(path: Path) -> Results:
    """Read a results file."""
    content = json.loads(path.read_text("utf-8"))
    found = [Result(**mutant) for mutant in content.pop("mutants")]
    return Results(**content, found={result.id: result for result in found})


def read_equivalents(path: Path = EQUIVALENTS) -> dict[str, str]:
    """Return the mutants that no test can distinguish from the code, with the argument for each.

    Raises:
        ValueError: an argument is missing.
    """
    content = tomllib.loads(path.read_text("utf-8")) if path.exists() else {}
    reasons = {entry["id"]: entry["why"].strip() for entry in content.get("equivalent", [])}
    for mutant, reason in reasons.items():
        if not reason:
            raise ValueError(f"no argument why {mutant} is equivalent")
    return reasons


@dataclass(frozen=True, slots=True)
class Score:
    """Dead mutants among those that a test could distinguish from the code."""

    killed: int = 0
    timeout: int = 0  # ran out of time: dead, counted apart
    equivalent: int = 0
    survived: int = 0

    @property
    def percent(self) -> float:
        """Share of dead mutants in all but the equivalent ones; 100 without any."""
        dead = self.killed + self.timeout
        counted = dead + self.survived
        return 100.0 * dead / counted if counted else 100.0

    def as_json(self) -> dict[str, Any]:
        """Return the counts and the score."""
        return {**asdict(self), "percent": round(self.percent, 1)}


def judged(results: Iterable[Result], equivalents: Iterable[str]) -> list[tuple[Result, str]]:
    """Return results with their outcomes; a survivor listed as equivalent is `equivalent`."""
    argued = frozenset(equivalents)
    found = []
    for result in results:
        is_argued = result.outcome == "survived" and result.id in argued
        found.append((result, "equivalent" if is_argued else result.outcome))
    return found


def scores(results: Iterable[Result], equivalents: Iterable[str]) -> dict[str, Score]:
    """Return the score of each package, sorted by name, and of all together ("all")."""
    counts: dict[str, Counter[str]] = {"all": Counter()}
    for result, outcome in judged(results, equivalents):
        counts.setdefault(result.package, Counter())[outcome] += 1
        counts["all"][outcome] += 1
    order = sorted(counts, key=lambda package: (package == "all", package))
    return {package: Score(**counts[package]) for package in order}


def table(found: dict[str, Score]) -> str:
    """Format the scores as text."""
    rows = [f"{'':18}{'killed':>8}{'timeout':>8}{'equivalent':>12}{'survived':>10}{'score':>9}"]
    rows += [
        f"{package:18}{score.killed:8}{score.timeout:8}{score.equivalent:12}"
        f"{score.survived:10}{score.percent:7.1f} %"
        for package, score in found.items()
    ]
    return "\n".join(rows)


def survivor_text(result: Result) -> str:
    """Format a survivor as two lines: the place, and the unnoticed change."""
    _, function, kind, *rest = result.id.split("::")
    before, _, after = "::".join(rest[:-1]).partition(" -> ")
    tests = f"{result.ran} of {result.covering} covering tests ran"
    if not result.covering:
        tests = "no quick test covers it"
    where = f"{result.place} {function or 'module'} ({kind}; {tests})"
    return f"{where}\n    {before}  ->  {after or 'removed'}"
