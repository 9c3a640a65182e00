"""Check of a history of txn, as a run reports it."""

from collections import Counter
from pathlib import Path
from typing import Any, Final

import msgspec

from jepsen.cycles.checker import FINDINGS_SHOWN, judged
from jepsen.findings_page import page_of, written
from jepsen.linearizability import History
from jepsen.report import INVALID, VALID, Check

NAME: Final = "transactions"


def check_transactions(history: History, folder: Path) -> tuple[Check, dict[str, Any]]:
    """Check a history of txn; the evidence is plain objects, and a page if it is invalid.

    Raises:
        HistoryError: it is none.
    """
    found = judged(history)
    kinds = Counter(finding.kind for finding in found.findings)
    evidence: dict[str, Any] = {
        "findings": [msgspec.to_builtins(each) for each in found.findings[:FINDINGS_SHOWN]],
        "permitted": found.permitted,
        "examples": found.examples,
        "transactions": found.named,
    }
    if not kinds:
        return Check(NAME, VALID), evidence
    counted = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    title = f"{NAME}: {counted}"
    seen = written(folder, page_of(title, evidence["findings"], found.named))
    return Check(NAME, INVALID, f"{counted}; {seen}; first: {found.findings[0].text}"), evidence
