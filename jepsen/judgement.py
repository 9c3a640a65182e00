"""Verdict on a run, from what is kept of it: just after the run, or later from its folder."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from jepsen.final_reads import check_final_reads
from jepsen.groups.checker import check_groups
from jepsen.history import JSONL_FILE, NEMESIS
from jepsen.linearizability import Event, History, HistoryError, read_history
from jepsen.linearizability.formats.codecs import packed_fields
from jepsen.logs import check_logs
from jepsen.names import APPEND_LOG, GROUP, KINDS, NODES_MAX, OF_RECORDS, TXN, WORKLOADS
from jepsen.records.checker import check_records
from jepsen.report import (
    INVALID,
    RESULTS_FILE,
    UNKNOWN,
    Check,
    composed,
    counts,
    enough_happened,
    linearizable,
    nemesis_bit,
)
from jepsen.transactions.judgement import check_transactions
from jepsen.workloads import workload_named

TEST_FILE: Final = "test.json"
QUORUM_FOLDER: Final = "quorum"
NODE_PREFIX: Final = "node"
CONVERGED: Final = "converged"
"""Name of the check that the nodes came to agree; only the run itself can make it."""
PATH_CHARACTERS: Final = 200
"""Characters of a path that an error line shows."""


class StoredRunError(Exception):
    """A folder holds no run; the text is for people."""


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of a run that is judged."""

    workload: str
    is_idempotent: bool
    """Producers of append-log were."""
    nemesis: tuple[str, ...]
    """Kinds of faults that were asked for."""
    seed: int
    history: History
    folder: Path
    """Folder of the run; the page of an illegal history is written there."""
    nodes: Mapping[int, Path]
    """Folder of every node; empty where the data of one is missing."""
    node_count: int
    committed: int | None
    """High watermark that all nodes had reached after the healing; None: they had not."""
    converged: Check
    bites: Mapping[str, int]
    """Faults that took effect on a process, by kind."""
    leaders: Mapping[str, int]
    """Leaders by epoch, as far as they were seen."""


def judged(left: Left) -> dict[str, Any]:
    """Make all checks; return the object of results.json but `seconds` and `dir`.

    Raises:
        HistoryError: the history is none of this workload.
    """
    events = left.history.events
    by_function = counts(events)
    legal, evidence = _legal(left)
    same_logs, batches = Check("logs", UNKNOWN, "the nodes did not converge"), 0
    if left.committed is not None and not left.nodes:
        same_logs = Check("logs", UNKNOWN, "the data of the nodes is not there")
    elif left.committed is not None:
        same_logs, batches = check_logs(left.nodes, left.committed, events)
    checks = [
        *legal,
        same_logs,
        left.converged,
        check_final_reads(events, left.node_count, has_key_field=_has_key_field(left)),
        enough_happened(by_function),
        nemesis_bit(left.bites, left.nemesis),
    ]
    total = {
        kind: sum(row[kind] for row in by_function.values()) for kind in ("ok", "fail", "info")
    }
    return {
        "verdict": composed(checks),
        "workload": left.workload,
        "seed": left.seed,
        **total,
        "operations": by_function,
        "faults": {kind: left.bites[kind] for kind in left.nemesis},
        "batches": batches,
        "high_watermark": left.committed,
        "leaders": dict(left.leaders),
        "checks": [msgspec.to_builtins(check) for check in checks],
        **evidence,
    }


def _legal(left: Left) -> tuple[list[Check], dict[str, Any]]:
    """Checks of what clients saw, and the fields of their evidence.

    A record that is there twice is no answer of the model's, so that only producers with
    idempotence are judged for linearizability.
    """
    if left.workload == TXN:
        check, found = check_transactions(left.history, left.folder)
        return [check], {"linearizability": {}, **found}
    if left.workload not in OF_RECORDS:
        workload = workload_named(left.workload, operations=0)
        check, details = linearizable(left.history, workload.model, left.folder)
        return [check], {"linearizability": details}
    check, findings = check_records(left.history, is_idempotent=left.is_idempotent)
    if left.workload == GROUP:
        of_groups, evidence = check_groups(left.history, left.folder)
        return [check, of_groups], {"linearizability": {}, "findings": findings, **evidence}
    if check.verdict == INVALID or not left.is_idempotent:
        return [check], {"linearizability": {}, "findings": findings}
    legal, details = linearizable(left.history, APPEND_LOG, left.folder)
    return [check, legal], {"linearizability": details, "findings": findings}


def _has_key_field(left: Left) -> bool:
    """True if events name their key beside the value."""
    if left.workload in OF_RECORDS:
        return True
    return workload_named(left.workload, operations=0).has_key_field


class _Test(msgspec.Struct, frozen=True):
    """Fields that are read of test.json."""

    workload: str
    nemesis: tuple[str, ...]
    seed: int
    nodes: Annotated[int, msgspec.Meta(ge=1, le=NODES_MAX)]
    is_idempotent: bool = True


class _Results(msgspec.Struct, frozen=True):
    """Fields that are read of results.json: those that no checker can find out again."""

    high_watermark: Annotated[int, msgspec.Meta(ge=0)] | None = None
    leaders: dict[str, int] = {}
    checks: tuple[Check, ...] = ()


def judged_again(folder: Path) -> dict[str, Any]:
    """Judge a stored run as `judged` does.

    Raises:
        StoredRunError: as `stored`; or the history is none of its workload.
    """
    left = stored(folder)
    try:
        return judged(left)
    except HistoryError as error:
        raise StoredRunError(str(error)) from error


def stored(folder: Path) -> Left:
    """Read a run from its folder.

    Args:
        folder: The `--dir` of a run, or what was kept of an invalid one.

    Raises:
        StoredRunError: it is no folder of a run, or a file in it is damaged.
    """
    test = _read(folder / TEST_FILE, _Test)
    strange = [kind for kind in test.nemesis if kind not in KINDS]
    if test.workload not in WORKLOADS or strange:
        raise StoredRunError(f"{_shown(folder / TEST_FILE)}: of another version of the harness")
    results = _Results()
    if (folder / RESULTS_FILE).exists():
        results = _read(folder / RESULTS_FILE, _Results)
    interrupted = Check(CONVERGED, UNKNOWN, f"the run did not end: no {RESULTS_FILE} says")
    found = [check for check in results.checks if check.name == CONVERGED]
    if len(found) > 1:
        raise StoredRunError(f"{_shown(folder / RESULTS_FILE)}: two checks named {CONVERGED}")
    history = _read_history(folder / JSONL_FILE)
    bites = Counter(
        event.f
        for event in history.events
        if event.process == NEMESIS and event.f in KINDS and event.error is None
    )
    nodes = {
        int(path.name.removeprefix(NODE_PREFIX)): path
        for path in sorted((folder / QUORUM_FOLDER).glob(f"{NODE_PREFIX}*"))
        if path.is_dir() and path.name.removeprefix(NODE_PREFIX).isdecimal()
    }
    return Left(
        workload=test.workload,
        is_idempotent=test.is_idempotent,
        nemesis=test.nemesis,
        seed=test.seed,
        history=history,
        folder=folder,
        nodes=nodes if nodes.keys() == set(range(1, test.nodes + 1)) else {},
        node_count=test.nodes,
        committed=results.high_watermark,
        converged=found[0] if found else interrupted,
        bites=bites,
        leaders=results.leaders,
    )


def _read(path: Path, kind: Any) -> Any:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as error:
        reason = f"{error.strerror}; a folder that 'jepsen run --dir' made is expected"
        raise StoredRunError(f"{_shown(path)}: {reason}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoredRunError(f"{_shown(path)}: {error}") from error


def _read_history(path: Path) -> History:
    try:
        history = read_history(path)
        for position, event in enumerate(history.events):
            _check_text(event, history.place(position))
    except HistoryError as error:
        raise StoredRunError(str(error)) from error
    except OSError as error:
        raise StoredRunError(f"{_shown(path)}: {error.strerror}") from error
    return history


def _check_text(event: Event, place: str) -> None:
    """Refuse half of a UTF-16 pair, which cannot be written and is in no name of Kafka's."""
    try:
        json.dumps(packed_fields(event), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise HistoryError(f"{place}: {error.object[error.start]!r} is no character") from error


def _shown(path: Path) -> str:
    text = json.dumps(str(path), ensure_ascii=False)[1:-1]  # a newline in it must not end the line
    return text if len(text) <= PATH_CHARACTERS else f"{text[:PATH_CHARACTERS]}..."
