"""Outcomes of a suite's tests, which of them are explained, and tables for people."""

import enum
from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from scripts.suites.catalogue import Suite
from scripts.suites.explained import Explanation, explanation


class Kind(enum.Enum):
    """Ends of a test, in pytest's words."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One test of a suite."""

    test: str
    """pytest's id."""
    outcome: Kind
    text: str
    """End of a failure, or the reason of a skip."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """All tests of a suite."""

    suite: Suite
    outcomes: Sequence[Outcome]

    def of(self, kind: Kind) -> list[Outcome]:
        """Those of a kind, in their order."""
        return [one for one in self.outcomes if one.outcome is kind]

    def unexplained(self) -> list[Outcome]:
        """Failures that nothing in `explained` names: each is a defect, or belongs there."""
        return [one for one in self.of(Kind.FAILED) if self._why(one) is None]

    def outdated(self) -> list[Outcome]:
        """Tests that pass although `explained` says that they never do."""
        found = [(one, self._why(one)) for one in self.of(Kind.PASSED)]
        return [one for one, why in found if why is not None and why.always]

    def reasons(self) -> Counter[str]:
        """Number of failing tests by reason, in the order of the first."""
        explained = [why for one in self.of(Kind.FAILED) if (why := self._why(one))]
        return Counter(f"{why.cause.value}: {why.reason}" for why in explained)

    def _why(self, one: Outcome) -> Explanation | None:
        return explanation(self.suite.name, one.test)


HEADING: Final = (
    "| suite | version | passed | failed | skipped | why tests fail |\n|---|---|---|---|---|---|\n"
)


def read_outcomes(text: str) -> list[Outcome]:
    """Outcomes of the adapter's file: one JSON object a line."""
    return [msgspec.json.decode(line, type=Outcome) for line in text.splitlines()]


def table(results: Sequence[Result]) -> str:
    """A row a suite, in Markdown."""
    return HEADING + "".join(map(_row, results))


def _row(result: Result) -> str:
    suite = result.suite
    counts = [len(result.of(kind)) for kind in (Kind.PASSED, Kind.FAILED, Kind.SKIPPED)]
    reasons = [f"{count}: {reason}" for reason, count in result.reasons().items()]
    if unexplained := len(result.unexplained()):
        reasons.append(f"{unexplained}: not explained")
    cells = [suite.name, suite.tag.removeprefix("v"), *map(str, counts), "<br>".join(reasons)]
    return "| " + " | ".join(cells) + " |\n"


def complaints(result: Result) -> str:
    """Lines about a run that is not as `explained` says, for a terminal; "" for none."""
    name, lines = result.suite.name, []
    for one in result.unexplained():
        lines.append(f"{name}: fails and is not explained: {one.test}\n")
        lines += [f"    {line}\n" for line in one.text.splitlines() if line.startswith("E ")]
    lines += [
        f"{name}: passes now, scripts/suites/explained.py is out of date: {one.test}\n"
        for one in result.outdated()
    ]
    return "".join(lines)
