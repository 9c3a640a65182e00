"""Verdicts on recorded histories, in pieces that can run on any worker.

The checker is `jepsen.linearizability`, as on one machine. A piece of work is one history or, if
every operation is about one key, some of its keys: splitting by key is exact then. The verdict of a
piece on a key is that of `check`; the verdict on a history is combined from them as
`check` does it.
"""

import json
import resource
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from jepsen.linearizability import (
    ILLEGAL,
    OK,
    UNKNOWN,
    Budget,
    Counterexample,
    History,
    HistoryError,
    Result,
    check,
    explain,
    history_of,
    model_named,
    read_history,
)
from jepsen.linearizability.model import Model
from jepsen.linearizability.partition import Partition, Standing, partitions_of
from jepsen.linearizability.values import thawed, to_plain
from pipeline.core.errors import BadInputError

HISTORY_SUFFIXES: Final = (".jsonl", ".edn", ".msgpack", ".log", ".json")
NAMES: Final = {OK: "valid", ILLEGAL: "invalid", UNKNOWN: "unknown"}
UNREADABLE: Final = "unreadable"
WHOLE: Final = "*"  # the key of a row about the whole history


class HistoryTask(msgspec.Struct, frozen=True, kw_only=True):
    """One history, or its keys whose number modulo `shares` is `share`."""

    path: str
    size: int
    model: str
    budget: Budget
    share: int = 0
    shares: int = 1
    explain_seconds: float = 0.0


class KeyVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the result; `key` is `*` for the whole history."""

    run: str
    key: str
    ops: int
    verdict: str
    engine: str
    seconds: float
    states: int
    max_rss: int
    history_path: str
    reason: str | None = None
    counterexample: str | None = None


def find_histories(paths: Sequence[str]) -> list[tuple[str, int]]:
    """Path and bytes of each history below the paths, largest first.

    A file given by its path always counts. In a folder, files whose name begins with
    `history` count if there are any (a folder of runs), else all with a known suffix; of one
    history in several formats, the one whose suffix comes first in HISTORY_SUFFIXES.

    Raises:
        BadInputError: a path does not exist, or there is no history.
    """
    found: dict[str, int] = {}
    for given in paths:
        path = Path(given)
        if path.is_file():
            found[str(path)] = path.stat().st_size
        elif path.is_dir():
            found |= _in_folder(path)
        else:
            raise BadInputError(f"{given}: no such file or directory")
    if not found:
        raise BadInputError(
            f"{', '.join(paths)}: no histories (files with {', '.join(HISTORY_SUFFIXES)},"
            " or these with .gz)"
        )
    return sorted(found.items(), key=lambda item: (-item[1], item[0]))


def _in_folder(folder: Path) -> dict[str, int]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and _suffix(path)]
    named = [path for path in files if path.name.startswith("history")]
    best: dict[tuple[str, str], Path] = {}
    for path in named or files:
        suffix = _suffix(path)
        stem = path.name.removesuffix(".gz").removesuffix(suffix)
        key = str(path.parent), stem
        known = best.get(key)
        if known is None or _rank(path) < _rank(known):
            best[key] = path
    return {str(path): path.stat().st_size for path in best.values()}


def _suffix(path: Path) -> str:
    suffix = Path(path.name.removesuffix(".gz")).suffix
    return suffix if suffix in HISTORY_SUFFIXES else ""


def _rank(path: Path) -> int:
    return HISTORY_SUFFIXES.index(_suffix(path))


def judge(task: HistoryTask) -> list[KeyVerdict]:
    """Judge one piece of work; an unreadable history gives one row."""
    started = time.perf_counter()
    try:
        history = read_history(Path(task.path))
        model = model_named(task.model)
        if task.shares > 1 and can_split(history, model):
            return _judge_share(task, history, model, started)
        if task.share:
            return []  # the first share judges all of it
        return _judge_whole(task, history, model, started)
    except (HistoryError, OSError) as error:
        if task.share:
            return []
        reason = str(error) if isinstance(error, HistoryError) else f"{error.strerror}"
        return [_row(task, started, key=WHOLE, ops=0, verdict=UNREADABLE, reason=reason)]


def can_split(history: History, model: Model) -> bool:
    """Return True if the keys can be judged separately: exactly, and without a common rule.

    A model infers the meaning of values from all operations of a history (is a pair a key with a
    value?). The operations of each key alone must have the same meaning as among the others. A
    history without keys is judged whole: `check` gives the reason if there is nothing to judge.
    """
    try:
        if model.violation(history.operations) is not None:
            return False
        found = partitions_of(history.operations, model)
    except HistoryError:
        return False  # `check` names the place
    return bool(found) and all(
        each.standing is Standing.EXACT and _means_the_same(each, history, model) for each in found
    )


def _means_the_same(partition: Partition, history: History, model: Model) -> bool:
    """Return True if the model prepares the operations of a partition alone as in the history."""
    alone = [history.operations[item.operation] for item in partition.items]
    try:
        return model.prepare(alone) == [item.parts for item in partition.items]
    except HistoryError:
        return False


def _judge_whole(
    task: HistoryTask, history: History, model: Model, started: float
) -> list[KeyVerdict]:
    result = check(history, model, budget=task.budget)
    found = None
    if result.verdict == ILLEGAL and task.explain_seconds > 0:
        found = explain(history, model, result=result, seconds=task.explain_seconds)
    rows = [
        _row(task, started, key=_key_text(part.keys), ops=len(part.operations),
             verdict=NAMES[part.verdict], engine=part.engine, states=part.cache_size)
        for part in result.partitions
    ]  # fmt: skip
    return [*rows, _result_row(task, started, WHOLE, result, found)]


def _judge_share(
    task: HistoryTask, history: History, model: Model, started: float
) -> list[KeyVerdict]:
    """Judge some keys, each as a history of its own."""
    rows = []
    for number, partition in enumerate(partitions_of(history.operations, model)):
        if number % task.shares != task.share:
            continue
        before = time.perf_counter()
        part = history_of([history.operations[item.operation] for item in partition.items])
        result: Result = check(part, model, budget=task.budget)
        found = None
        if result.verdict == ILLEGAL and task.explain_seconds > 0:
            found = explain(part, model, result=result, seconds=task.explain_seconds)
        rows.append(_result_row(task, before, _key_text(partition.keys), result, found))
    if task.share == 0:  # `put_together` sets the verdict
        count, reason = len(history.operations), history.left_out
        rows.append(_row(task, started, key=WHOLE, ops=count, verdict="", reason=reason))
    return rows


def _result_row(
    task: HistoryTask, started: float, key: str, result: Result, found: Counterexample | None
) -> KeyVerdict:
    return _row(
        task, started, key=key, ops=result.operations, verdict=NAMES[result.verdict],
        engine=result.engine, states=result.cache_size, reason=result.reason,
        counterexample=None if found is None else _json(found),
    )  # fmt: skip


def put_together(rows: Iterable[KeyVerdict]) -> list[KeyVerdict]:
    """Combine the rows of all pieces; adds the verdict on each history whose keys were split."""
    by_path: dict[str, list[KeyVerdict]] = {}
    for row in rows:
        by_path.setdefault(row.history_path, []).append(row)
    made: list[KeyVerdict] = []
    for path in sorted(by_path):
        keys = sorted((row for row in by_path[path] if row.key != WHOLE), key=lambda row: row.key)
        (whole,) = (row for row in by_path[path] if row.key == WHOLE)
        made += [*keys, _whole_of(whole, keys) if not whole.verdict else whole]
    return made


def _whole_of(whole: KeyVerdict, keys: list[KeyVerdict]) -> KeyVerdict:
    verdicts = {row.verdict for row in keys}
    verdict = next((name for name in ("invalid", "unknown") if name in verdicts), "valid")
    first = next((row for row in keys if row.verdict == verdict), None)
    engines = dict.fromkeys(row.engine for row in keys)
    return msgspec.structs.replace(
        whole, verdict=verdict, engine=", ".join(engines),
        seconds=round(sum(row.seconds for row in keys), 6),
        states=sum(row.states for row in keys),
        max_rss=max((row.max_rss for row in keys), default=0),
        reason=whole.reason if first is None or verdict == "valid" else first.reason,
        counterexample=None if first is None else first.counterexample,
    )  # fmt: skip


def _row(task: HistoryTask, started: float, **more: Any) -> KeyVerdict:
    """Build a row; `more` has its fields except those of the task and the process."""
    kibibytes = 1 if sys.platform == "darwin" else 1024
    known: dict[str, Any] = {"engine": "", "states": 0} | more
    return KeyVerdict(
        run=_run_of(task.path),
        seconds=round(time.perf_counter() - started, 6),
        max_rss=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * kibibytes,
        history_path=task.path,
        **known,
    )


def _run_of(path: str) -> str:
    """The folder of a run, or the file's name where it is more specific."""
    file = Path(path)
    if file.name.startswith("history."):
        return file.parent.name
    return file.name.removesuffix(".gz").rpartition(".")[0] or file.name


def _key_text(keys: tuple[Any, ...]) -> str:
    plain = [to_plain(thawed(key)) for key in keys]
    return (
        plain[0]
        if len(plain) == 1 and isinstance(plain[0], str)
        else json.dumps(plain[0] if len(plain) == 1 else plain, default=str)
    )


def _json(found: Counterexample) -> str:
    shown = msgspec.structs.replace(found, keys=tuple(to_plain(thawed(key)) for key in found.keys))
    return json.dumps(msgspec.to_builtins(shown))
