"""Checks of a run, composed to a verdict, and the files written about them.

Checks are composed as in Jepsen: false beats unknown beats true.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from jepsen.linearizability import (
    ILLEGAL,
    OK,
    Budget,
    Event,
    History,
    Result,
    check,
    explain,
    model_named,
)
from jepsen.linearizability.history import INVOKE, is_client
from jepsen.linearizability.picture import page_of
from jepsen.linearizability.values import thawed, to_plain

VALID: Final = "valid"
INVALID: Final = "invalid"
UNKNOWN: Final = "unknown"
Verdict = Literal["valid", "invalid", "unknown"]
CHECK_SECONDS_MAX: Final = 120.0
RESULTS_FILE: Final = "results.json"
PICTURE_FILE: Final = "linear.html"


class Check(msgspec.Struct, frozen=True):
    """Result of one checker: `valid`, `invalid` or `unknown`, and the reason if not valid."""

    name: str
    verdict: Verdict
    reason: str | None = None


def composed(checks: Iterable[Check]) -> Verdict:
    """Compose the verdict of all."""
    verdicts: set[Verdict] = {check.verdict for check in checks}
    assert verdicts, "no check proves nothing"
    return next(verdict for verdict in (INVALID, UNKNOWN, VALID) if verdict in verdicts)


def linearizable(history: History, model: str, folder: Path) -> tuple[Check, dict[str, Any]]:
    """Check that the history is linearizable; return the verdict of every key with it.

    An illegal history is drawn on a page in the folder; if that fails, the reason says so.
    """
    result = check(history, model_named(model), budget=Budget(seconds=CHECK_SECONDS_MAX))
    details: dict[str, Any] = {
        "steps": result.steps,
        "seconds": round(result.wall_s, 3),
        "keys": _by_key(result),
    }
    name = "linearizable"
    if result.verdict == OK:
        return Check(name, VALID), details
    if result.verdict != ILLEGAL:
        return Check(name, UNKNOWN, result.reason), details
    found = explain(history, model_named(model), result=result)
    assert found is not None, "an illegal history has a counterexample"
    details["counterexample"] = found.text()
    page = page_of(history, model_named(model), result, found)
    seen = f"see {PICTURE_FILE}"
    try:
        (folder / PICTURE_FILE).write_text(page, encoding="utf-8")
    except OSError as error:
        seen = f"{PICTURE_FILE} cannot be written: {error.strerror}"
    keys = ", ".join(str(to_plain(thawed(key))) for key in found.keys)
    return Check(name, INVALID, f"key {keys}: no legal order; {seen}"), details


def _by_key(result: Result) -> dict[str, str]:
    """Verdicts by key as the race left them: keys that it did not come to are unknown."""
    return {
        ", ".join(str(key) for key in part.keys): part.verdict
        for part in sorted(result.partitions, key=lambda part: str(part.keys))
    }


def counts(events: Sequence[Event]) -> dict[str, dict[str, int]]:
    """Count completions by function and type; calls without one count as info."""
    found: dict[str, dict[str, int]] = {}
    for event in events:
        if not is_client(event):
            continue
        row = found.setdefault(event.f, {"ok": 0, "fail": 0, "info": 0})
        row["info" if event.type == INVOKE else event.type] += 1
        if event.type != INVOKE:
            row["info"] -= 1  # it completed after all
    return found


def enough_happened(by_function: Mapping[str, Mapping[str, int]]) -> Check:
    """Check that every function succeeded once; else the history proves nothing."""
    never = [f for f, row in by_function.items() if row["ok"] == 0]
    if never or not by_function:
        return Check("enough happened", UNKNOWN, f"never ok: {', '.join(never) or 'anything'}")
    return Check("enough happened", VALID)


def nemesis_bit(bites: Mapping[str, int], kinds: Sequence[str]) -> Check:
    """Check that every kind of fault asked for took effect on a process."""
    missing = [kind for kind in kinds if bites[kind] == 0]
    if missing:
        return Check("nemesis bit", UNKNOWN, f"no process was affected by: {', '.join(missing)}")
    return Check("nemesis bit", VALID)


def write_results(folder: Path, results: Mapping[str, Any]) -> None:
    """Write `results.json`."""
    text = json.dumps(results, indent=2) + "\n"
    (folder / RESULTS_FILE).write_text(text, encoding="utf-8")
