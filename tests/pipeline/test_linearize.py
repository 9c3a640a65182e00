"""Verdicts of the job are those of the local checker."""

import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from jepsen.linearizability import Budget, Format, Operation, check, history_of, write_history
from pipeline.cli import main
from pipeline.core.audit.verdicts import NAMES, HistoryTask, judge, put_together
from tests.jepsen.sequential import OBJECTS, random_operations
from tests.selection import thinned

BY_MODEL = {each.model: each for each in OBJECTS}


def write_corpus(folder: Path, model: str, count: int) -> dict[str, str]:
    """Histories of random runs, half of them with changed answers; path -> the local verdict."""
    sequential = BY_MODEL[model]
    rng = random.Random(f"{model}{count}")
    expected = {}
    for number in range(count):
        operations = random_operations(
            sequential, rng, count=rng.randrange(2, 12), clients=3, crashes=rng.choice((0, 0.2))
        )
        if number % 2:
            operations = [
                msgspec.structs.replace(each, **sequential.corrupt(each, rng))
                if each.end is not None and rng.random() < 0.3
                else each
                for each in operations
            ]
        history = history_of(operations)
        kind = rng.choice((Format.JSONL, Format.EDN, Format.MSGPACK))
        run = folder / f"run-{number:04d}"
        run.mkdir(parents=True)
        path = run / f"history.{kind.value}"
        write_history(path, history.events, kind)
        expected[str(path)] = NAMES[check(history, model).verdict]
    return expected


def shares_of(path: Path, model: str) -> tuple[str, str | None]:
    """Verdict and reason of a history whose keys three workers judge."""
    rows = [
        row
        for share in range(3)
        for row in judge(
            HistoryTask(path=str(path), size=1, model=model, budget=Budget(), share=share, shares=3)
        )
    ]
    (whole,) = (row for row in put_together(rows) if row.key == "*")
    return whole.verdict, whole.reason


def test_what_the_reader_left_out_is_said_of_a_history_in_shares(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(
        '{"process":0,"type":"invoke","f":"write","key":"k","value":1}\n'
        '{"process":1,"type":"invoke","f":"write","key":"j","value":1}\n'
        '{"process":1,"type":"o'
    )
    assert shares_of(path, "register") == ("valid", "line 3 breaks off: left out")


def test_a_key_that_alone_would_be_ambiguous_is_judged_with_the_others(tmp_path: Path) -> None:
    steps = [([1, 2], [1, 2]), ([3, 4], [3, 0])]  # [key record]; an offset of 2 in an empty log
    operations = [
        Operation(process=n, f="append", value=value, output=output, call=n, end=n)
        for n, (value, output) in enumerate(steps)
    ]
    path = tmp_path / "history.jsonl"
    write_history(path, history_of(operations).events, Format.JSONL)
    assert check(operations, "append-log").verdict == "illegal"
    assert shares_of(path, "append-log")[0] == "invalid"


@pytest.mark.parametrize(
    ("model", "steps", "verdict"),
    [
        (
            "register",
            [("write", "a", 1, 1), ("write", None, [1, 5], [1, 5]), ("write", None, [2, 6], [2, 6]),
             ("read", None, [1, None], [1, 5])],
            "invalid",
        ),
        (
            "cas-register",
            [("write", "a", 1, 1), ("write", None, [0, 0], [0, 0]),
             ("cas", None, [[0, 0], [1, 1]], [[0, 0], [1, 1]])],
            "valid",
        ),
    ],
)  # fmt: skip
def test_values_that_alone_would_be_keys_are_judged_with_the_others(
    model: str, steps: list[tuple[str, Any, Any, Any]], verdict: str, tmp_path: Path
) -> None:
    operations = [
        Operation(process=n, f=f, key=key, value=value, output=output, call=n, end=n)
        for n, (f, key, value, output) in enumerate(steps)
    ]
    path = tmp_path / "history.jsonl"
    write_history(path, history_of(operations).events, Format.JSONL)
    assert NAMES[check(operations, model).verdict] == verdict
    assert shares_of(path, model)[0] == verdict


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '{"process":"nemesis","type":"info","f":"kill"}\n',
            ("unknown", "none of 1 events is of a client: their processes are names"),
        ),
        ("", ("valid", "the history is empty")),
    ],
)
def test_a_history_in_shares_that_judges_nothing_says_so(
    text: str, expected: tuple[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(text)
    assert shares_of(path, "register") == expected


def test_a_refused_operation_is_named_by_its_place_in_shares_too(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text('{"process":0,"type":"invoke","f":"put","key":"k","value":1}\n')
    assert shares_of(path, "kv") == ("unreadable", f"{path}:1: value of put is 1, not a string")


@pytest.mark.parametrize("model", thinned(sorted(BY_MODEL), every=3))
def test_verdicts_equal_those_of_the_local_checker(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = write_corpus(tmp_path / "in", model, 60)
    out = tmp_path / "out"
    command = ["linearize", "--model", model, "--input", str(tmp_path / "in"), "--json"]
    code = main([*command, "--output", str(out), "--explain"])
    rows = pq.read_table(out / "verdicts.parquet").to_pylist()
    found = {row["history_path"]: row for row in rows if row["key"] == "*"}
    assert {path: row["verdict"] for path, row in found.items()} == expected
    assert code == (1 if "invalid" in expected.values() else 0)
    assert "valid" in expected.values()
    for row in found.values():
        assert (row["counterexample"] is not None) == (row["verdict"] == "invalid")
        assert row["run"].startswith("run-")
        assert row["max_rss"] > 0
    counted = json.loads(capsys.readouterr().out.splitlines()[-1])["counters"]
    assert counted["histories"] == 60
    assert counted["valid"] + counted["invalid"] == 60


@pytest.mark.parametrize("model", sorted(BY_MODEL))
def test_keys_judged_apart_give_the_same_verdict(model: str, tmp_path: Path) -> None:
    expected = write_corpus(tmp_path, model, 40)
    split = 0
    for path, verdict in expected.items():
        rows = []
        for share in range(3):
            task = HistoryTask(path=path, size=0, model=model, budget=Budget(), share=share,
                               shares=3)  # fmt: skip
            rows += judge(task)
        split += len({row.key for row in rows}) > 2
        made = put_together(rows)
        assert [row.verdict for row in made if row.key == "*"] == [verdict], path
    assert split or not model.startswith("kv")


def test_a_budget_ends_as_unknown_and_not_as_a_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_corpus(tmp_path, "cas-register", 1)
    command = ["linearize", "--model", "cas-register", "--input", str(tmp_path), "--json"]
    main([*command, "--steps", "1"])
    counted = json.loads(capsys.readouterr().out)["counters"]
    assert counted["valid"] + counted["unknown"] == 1


def test_a_history_that_can_not_be_read_is_a_finding_among_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_corpus(tmp_path, "cas-register", 2)
    bad = tmp_path / "run-bad"
    bad.mkdir()
    (bad / "history.jsonl").write_text('{"process": 0}\n')
    command = ["linearize", "--model", "cas-register", "--json", "--input"]
    assert main([*command, str(tmp_path)]) == 1
    shown = capsys.readouterr()
    assert json.loads(shown.out)["counters"]["unreadable"] == 1
    assert f"{bad}/history.jsonl: unreadable" in shown.err
    assert main([*command, str(bad)]) == 2
    assert "no history can be read" in capsys.readouterr().err


def test_one_history_in_several_formats_counts_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = map(Path, write_corpus(tmp_path, "register", 1))
    history = history_of([])
    for name, kind in (("history.jsonl", Format.JSONL), ("history.msgpack", Format.MSGPACK)):
        write_history(path.parent / name, history.events, kind)
    (path.parent / "nemesis.jsonl").write_text("")
    main(["linearize", "--model", "register", "--input", str(tmp_path), "--dry-run"])
    assert "histories 1, tasks 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--input", "/no/such"], "/no/such: no such file or directory"),
        (["--input", "."], "no histories"),
        (["--input", ".", "--steps", "0"], "--steps is 0, allowed: above 0"),
    ],
)
def test_bad_input_is_exit_code_2(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(["linearize", "--model", "register", *arguments]) == 2
    assert message in capsys.readouterr().err
