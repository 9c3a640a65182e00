"""The places of Kafka's log where the recorded changes belong: `offset` in cli/verdicts.json.

An output has no time. A change wrote records, so it ran where our command prints what Kafka's did
and our records, whole and in order, are the next ones of Kafka's log; before them only no-op
records may come. There is one such place for each, or, where a command line ran twice, `TURNS`
says which. `python -m tests.cli.bind_offsets` writes the places into verdicts.json; a test demands
that each change still has the place that is written there.
"""

import json
import re
import sys
import tempfile
from pathlib import Path

from metadata.schema import Record
from tests.cli.comparison import apart_from
from tests.cli.golden import FOLDER, Recorded, Verdict, outputs, verdicts
from tests.cli.recorded_cluster import are_next, changes_of, states
from tests.cli.replay import replay

TURNS = {
    "static-4.3.1/cluster-unregister": 0,
    "static-4.3.1/cluster-unregister-again": 1,
}
"""Choice among several places: the command lines and their outputs are the same."""


def follows(run: Recorded, held: Verdict, written: list[Record], offset: int | None = None) -> bool:
    """True if the records of a change are the next ones of Kafka's log."""
    at = held.offset if offset is None else offset
    assert at is not None, f"{run.name} has no place"
    is_placed = "--replica-assignment" in run.args or run.command == "ReassignPartitionsCommand"
    return are_next(written, run.scenario, at, is_any_order=held.is_any_order, is_placed=is_placed)


def places(run: Recorded, held: Verdict) -> list[int]:
    """The ends of the log at which the command may have run, one for each place of its records."""
    found: dict[int, int] = {}
    ends = states(run.scenario)
    kinds = _kinds(run, held)
    for start, record, _ in changes_of(run.scenario):
        end = max((end for end in ends if end <= start), default=0)
        if type(record) not in kinds or _next_change(run, end) != start:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                ours, written = replay(run, Path(folder), end, held)
            except ValueError:  # a broker has lost a directory here: FOLDERS does not fit
                continue
        apart = apart_from(ours, run)
        if apart is not None and list(apart) == held.apart and follows(run, held, written, end):
            found[start] = end
    return list(found.values())


def _kinds(run: Recorded, held: Verdict) -> set[type[Record]]:
    assert held.offset is not None
    with tempfile.TemporaryDirectory() as folder:
        _, written = replay(run, Path(folder), held.offset, held)
    return {type(record) for record in written}


def _next_change(run: Recorded, end: int) -> int:
    return next(offset for offset, _, _ in changes_of(run.scenario) if offset >= end)


def bound(name: str) -> int:
    """The place of a change.

    Raises:
        LookupError: it has none, or several and no turn.
    """
    found = places(outputs()[name], verdicts()[name])
    if name in TURNS:
        return found[TURNS[name]]
    if len(found) != 1:
        raise LookupError(f"{name} has {found=}")
    return found[0]


def main() -> None:
    """Writes the places into verdicts.json."""
    path = FOLDER / "verdicts.json"
    text, unbound = path.read_text(), []
    for name, held in verdicts().items():
        if held.records is None:
            continue
        try:
            offset = bound(name)
        except LookupError as error:
            unbound.append(str(error))
            continue
        line = re.compile(rf'^({re.escape(json.dumps(name))}: .*"offset": )\d+', re.MULTILINE)
        text = line.sub(rf"\g<1>{offset}", text)
    path.write_text(text)
    sys.exit("\n".join(unbound))


if __name__ == "__main__":
    main()
