"""Check of what the members of groups told, against what the partitions hold at the end.

Members commit what they have read. Time is that of the history; a member tells a read before its
commit begins, so that nothing is missed by its death.

| finding | what |
|---|---|
| `skipped` | an offset is committed behind a record that nobody of the group had read |
| `went back` | the coordinator gave a lower offset, or none, than it had acknowledged before |
| `committed back` | it acknowledged one, after it had acknowledged a higher one |
| `made up` | it gave an offset that nobody had asked it to commit |
| `two owners` | two members had a partition at a time (`jepsen.groups.owners`) |
| `wrong record` | a member read another record than stands there |
| `behind` | at the end the group did not catch up with the producers in time |
"""

import bisect
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from jepsen.findings_page import page_of, written
from jepsen.groups import names
from jepsen.groups.owners import two_owners
from jepsen.groups.told import Contents, Told, contents, told
from jepsen.linearizability import History
from jepsen.records.checker import FINDINGS_SHOWN
from jepsen.report import INVALID, UNKNOWN, VALID, Check

NAME: Final = "groups"


class Finding(msgspec.Struct, frozen=True):
    """Evidence against the nodes."""

    kind: str
    group: str
    text: str


def check_groups(history: History, folder: Path) -> tuple[Check, dict[str, Any]]:
    """Check a history of group; the evidence is plain objects, and a page if it is invalid.

    Raises:
        HistoryError: an event of a member is none.
    """
    groups, there = told(history), contents(history)
    found = [
        finding for group in sorted(groups) for finding in findings(group, groups[group], there)
    ]
    evidence: dict[str, Any] = {
        "group_findings": [msgspec.to_builtins(each) for each in found[:FINDINGS_SHOWN]],
        "groups": {group: _summary(groups[group]) for group in sorted(groups)},
    }
    if found:
        kinds = Counter(finding.kind for finding in found)
        counted = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        seen = written(folder, page_of(f"{NAME}: {counted}", evidence["group_findings"], {}))
        return Check(NAME, INVALID, f"{counted}; {seen}; first: {found[0].text}"), evidence
    idle = [group for group in names.PROTOCOLS if not _has_worked(groups.get(group, []))]
    if idle:
        text = f"no rebalance, no commit, or no end: {', '.join(idle)}"
        return Check(NAME, UNKNOWN, text), evidence
    return Check(NAME, VALID), evidence


def findings(group: str, rows: Sequence[Told], there: Contents) -> Iterator[Finding]:
    """Everything that is wrong with a group.

    Args:
        group: Its id.
        rows: What its members told, by time.
        there: What the partitions hold.
    """
    for kind, text in (
        *_skipped(rows, there),
        *_offsets(rows),
        *two_owners(group, rows),
        *_wrong_records(rows, there),
        *_behind(rows),
    ):
        yield Finding(kind, group, f"{group}: {text}")


# -- records ---------------------------------------------------------------------------------------


def _skipped(rows: Sequence[Told], there: Contents) -> Iterator[tuple[str, str]]:
    consumed: dict[str, set[int]] = {}
    passed: dict[str, int] = {}
    for row in rows:
        if row.f == names.READ:
            for partition, records in row.records.items():
                consumed.setdefault(partition, set()).update(offset for offset, _ in records)
        for partition, offset in row.offsets.items():  # asked for, answered, given: all the same
            start, end = passed.get(partition, 0), offset or 0
            missing = [
                at
                for at in there.offsets_below(partition, start, end)
                if at not in consumed.get(partition, ())
            ]
            if missing:
                text = f"{row.f} by {row.member}: offset {end} of {partition}, and nobody read"
                yield "skipped", f"{text} {len(missing)} records from offset {missing[0]} on"
            passed[partition] = max(start, end)


def _wrong_records(rows: Sequence[Told], there: Contents) -> Iterator[tuple[str, str]]:
    for row in rows:
        for partition, records in row.records.items():
            at_end = there.values.get(partition)
            for offset, value in records if at_end is not None else ():
                assert at_end is not None
                if at_end.get(offset) != value:
                    text = f"{row.member} read {value} at offset {offset} of {partition}, where"
                    yield "wrong record", f"{text} {at_end.get(offset)} is at the end"


def _behind(rows: Sequence[Told]) -> Iterator[tuple[str, str]]:
    for row in rows:
        if row.f == names.BEHIND:
            late = [key for key, end in row.ends.items() if row.offsets.get(key) != end]
            text = f"at the end {', '.join(late) or 'nothing is known of any partition'}"
            at = ", ".join(f"{row.offsets.get(key)} of {row.ends[key]}" for key in late)
            yield "behind", f"{text}: {at}"


# -- offsets ---------------------------------------------------------------------------------------


def _offsets(rows: Sequence[Told]) -> Iterator[tuple[str, str]]:
    """Went back, committed back, made up."""
    asked: dict[str, set[int | None]] = {}
    known: dict[str, tuple[list[int], list[int]]] = {}  # times, greatest offsets acknowledged
    for row in rows:
        if row.f == names.COMMITTING:
            for partition, offset in row.offsets.items():
                asked.setdefault(partition, set()).add(offset)
        if row.f not in (names.FETCHED, names.COMMITTED, names.CAUGHT_UP):
            continue
        for partition, offset in row.offsets.items():
            times, greatest = known.setdefault(partition, ([], []))
            before = bisect.bisect_left(times, row.began) if row.began else len(times)
            floor = greatest[before - 1] if before else 0
            if row.f == names.COMMITTED:
                if (offset or 0) < floor:
                    text = f"{row.member} commits {offset} of {partition} after {floor}"
                    yield "committed back", text
                times.append(row.at)
                greatest.append(max(greatest[-1] if greatest else 0, offset or 0))
                continue
            if (offset or 0) < floor:
                text = f"{row.member} is given offset {offset} of {partition} after {floor}"
                yield "went back", f"{text} was acknowledged"
            if offset is not None and offset not in asked.get(partition, ()):
                text = f"{row.member} is given offset {offset} of {partition}, which nobody"
                yield "made up", f"{text} committed"


# -- what happened ---------------------------------------------------------------------------------


def _summary(rows: Sequence[Told]) -> dict[str, int]:
    """Counts for the report."""
    counts = Counter(row.f for row in rows)
    read = [(key, at) for row in rows for key, records in row.records.items() for at, _ in records]
    return {
        "members": counts[names.STARTED],
        "killed": counts[names.KILLED],
        "left": counts[names.LEFT],
        "paused": counts[names.PAUSED],
        "assignments": counts[names.ASSIGNED],
        "lost": counts[names.LOST],
        "commits": counts[names.COMMITTED],
        "refused commits": counts[names.REFUSED],
        "read": len(set(read)),
        "read again": len(read) - len(set(read)),
    }


def _has_worked(rows: Sequence[Told]) -> bool:
    """True if the history proves something about the group."""
    kinds = Counter(row.f for row in rows)
    return kinds[names.CAUGHT_UP] == 1 and kinds[names.ASSIGNED] > 1 and kinds[names.COMMITTED] > 0
