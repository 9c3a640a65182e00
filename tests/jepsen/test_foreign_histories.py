"""Recorded histories of other projects with known verdicts, in a folder outside the tree.

KRAFTLINE_HISTORIES names the folder; without it these tests are skipped. Its README.md holds the
table of expected verdicts: | file | bytes | ops | never completed | linearizable? | sha256 |.
"""

import os
import re
import time
from pathlib import Path

import pytest

from jepsen.linearizability import Budget, Format, check, explain, parse_history, read_history
from jepsen.linearizability import written_history as written

FOLDER = os.environ.get("KRAFTLINE_HISTORIES") or None  # empty means unset, as elsewhere
ROW = re.compile(r"^\| (\w+/\S+) \|[^|]*\| (\d+) \| (\d+) \| (yes|no) \|", re.MULTILINE)
MODELS = {"jepsen": "cas-register", "kv": "kv"}
ETCD_SECONDS_MAX = 3.0  # the acceptance condition of all register histories, parsing included

pytestmark = pytest.mark.skipif(FOLDER is None, reason="KRAFTLINE_HISTORIES is not set")


def rows():
    text = (Path(FOLDER) / "README.md").read_text(encoding="utf-8") if FOLDER else ""
    return [
        (name, int(ops), int(lost), good == "yes") for name, ops, lost, good in ROW.findall(text)
    ]


def model_of(name):
    return MODELS[name.partition("/")[0]]


@pytest.mark.parametrize(("name", "operations", "lost", "good"), rows())
def test_verdict(name, operations, lost, good):
    history = read_history(Path(FOLDER) / name)
    assert len(history.operations) == operations
    assert sum(each.end is None for each in history.operations) == lost
    result = check(history, model_of(name), budget=Budget(steps=50_000_000))
    assert result.verdict == ("ok" if good else "illegal")
    found = explain(history, model_of(name), result=result)
    assert (found is None) == good
    assert found is None or len(found.operations) < 20


def test_there_are_histories():
    assert len(rows()) >= 50


@pytest.mark.parametrize("name", [name for name, *_ in rows()])
def test_formats_lose_nothing(name):
    events = read_history(Path(FOLDER) / name).events
    first = current = written(events, Format.JSONL)
    for kind in (Format.MSGPACK, Format.EDN, Format.JSONL):
        current = written(parse_history(current).events, kind)
    assert current == first
    assert parse_history(current).events == events


def test_all_register_histories_are_quick():
    started = time.process_time()
    for name, *_ in rows():
        if model_of(name) == "cas-register":
            check(read_history(Path(FOLDER) / name), "cas-register")
    assert time.process_time() - started < ETCD_SECONDS_MAX
