"""Recorded histories of other projects with known verdicts, in a folder outside the tree.

KRAFTLINE_HISTORIES names the folder, else it is `shared/histories` beside the checkout. Without it
these tests are skipped, and fail where everything must run (tests/peers.py). Its README.md holds
the table of expected verdicts: | file | bytes | ops | never completed | linearizable? | sha256 |.
"""

import os
import re
import time
from pathlib import Path

import pytest

from jepsen.linearizability import Budget, Format, check, explain, parse_history, read_history
from jepsen.linearizability import written_history as written
from tests.peers import is_missing

ROOT = Path(__file__).resolve().parent.parent.parent
BESIDE = ROOT.parent / "shared" / "histories"
ROW = re.compile(r"^\| (\w+/\S+) \|[^|]*\| (\d+) \| (\d+) \| (yes|no) \|", re.MULTILINE)
MODELS = {"jepsen": "cas-register", "kv": "kv"}
ETCD_SECONDS_MAX = 3.0  # the acceptance condition of all register histories, parsing included


def folder(environment, beside):
    """Folder of the histories; None: nowhere. An empty variable means unset, as elsewhere."""
    named = environment.get("KRAFTLINE_HISTORIES")
    return named or (str(beside) if beside.is_dir() else None)


FOLDER = folder(os.environ, BESIDE)


@pytest.fixture
def _histories():
    if FOLDER is None:
        is_missing(f"the histories: KRAFTLINE_HISTORIES names no folder, {BESIDE} is none")


needs_histories = pytest.mark.usefixtures("_histories")


def rows():
    text = (Path(FOLDER) / "README.md").read_text(encoding="utf-8") if FOLDER else ""
    return [
        (name, int(ops), int(lost), good == "yes") for name, ops, lost, good in ROW.findall(text)
    ]


LARGE = 1_000
"""Operations of a history that only long tests read."""


def marked(rows):
    return [row if row[1] < LARGE else pytest.param(*row, marks=pytest.mark.long) for row in rows]


def model_of(name):
    return MODELS[name.partition("/")[0]]


@pytest.mark.parametrize(("name", "operations", "lost", "good"), marked(rows()))
def test_verdict(name, operations, lost, good):
    history = read_history(Path(FOLDER) / name)
    assert len(history.operations) == operations
    assert sum(each.end is None for each in history.operations) == lost
    result = check(history, model_of(name), budget=Budget(steps=50_000_000))
    assert result.verdict == ("ok" if good else "illegal")
    found = explain(history, model_of(name), result=result)
    assert (found is None) == good
    assert found is None or len(found.operations) < 20


@needs_histories
def test_there_are_histories():
    assert len(rows()) >= 50


@pytest.mark.parametrize(("name", "_operations", "_lost", "_good"), marked(rows()))
def test_formats_lose_nothing(name, _operations, _lost, _good):
    events = read_history(Path(FOLDER) / name).events
    first = current = written(events, Format.JSONL)
    for kind in (Format.MSGPACK, Format.EDN, Format.JSONL):
        current = written(parse_history(current).events, kind)
    assert current == first
    assert parse_history(current).events == events


@needs_histories
def test_all_register_histories_are_quick():
    started = time.process_time()
    for name, *_ in rows():
        if model_of(name) == "cas-register":
            check(read_history(Path(FOLDER) / name), "cas-register")
    assert time.process_time() - started < ETCD_SECONDS_MAX


def test_where_the_histories_are(tmp_path):
    assert folder({"KRAFTLINE_HISTORIES": "/h"}, tmp_path) == "/h"
    assert folder({"KRAFTLINE_HISTORIES": ""}, tmp_path) == str(tmp_path)
    assert folder({}, tmp_path / "none") is None
