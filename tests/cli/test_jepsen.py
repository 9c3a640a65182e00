"""`kraftline jepsen verify`: verdicts, exit codes, bad input."""

import json
from pathlib import Path

import pytest

from cli.main import main
from jepsen.linearizability import Format, Operation, history_of, write_history

GOOD = [
    Operation(process=0, f="write", value=1, call=0, end=10, output=1),
    Operation(process=1, f="read", output=1, call=11, end=12),
]
STALE = [*GOOD, Operation(process=1, f="read", output=None, call=20, end=21)]


def hard(count=14):
    writes = [Operation(process=n, f="write", value=n, call=0, end=9) for n in range(count)]
    reads = [
        Operation(process=n, f="read", output=n % 2, call=10 + n, end=10 + n) for n in range(3)
    ]
    return [*writes, *reads]


@pytest.fixture
def files(tmp_path):
    def write(operations, kind=Format.JSONL, name="h"):
        path = tmp_path / f"{name}.{kind.value}"
        write_history(path, history_of(operations).events, kind)
        return str(path)

    return write


def verify(*words):
    return main(["jepsen", "verify", "--model", "cas-register", *words])


@pytest.mark.parametrize("kind", [Format.JSONL, Format.EDN, Format.MSGPACK])
def test_one_object_a_file(files, capsys, kind):
    good, stale = files(GOOD, kind, "good"), files(STALE, kind, "stale")
    assert verify("--json", good, stale) == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["file"], line["verdict"]) for line in lines] == [(good, "ok"), (stale, "illegal")]
    assert all(
        list(line) == ["file", "verdict", "operations", "steps", "seconds"] for line in lines
    )
    assert lines[1]["operations"] == 3


def test_a_torn_last_line_is_said(files, tmp_path, capsys):
    path = tmp_path / "torn.jsonl"
    path.write_text(Path(files(GOOD)).read_text() + '{"process":4,"ty')
    assert verify(str(path)) == 0
    assert ": ok (line 5 breaks off: left out)  2 operations" in capsys.readouterr().out
    assert verify("--json", str(path)) == 0
    assert json.loads(capsys.readouterr().out)["reason"] == "line 5 breaks off: left out"


def test_a_history_without_operations_is_unknown(tmp_path, capsys):
    path = tmp_path / "h.jsonl"
    path.write_text('{"process":"nemesis","type":"info","f":"kill"}\n')
    assert verify(str(path)) == 2
    assert ": unknown (none of 1 events is of a client" in capsys.readouterr().out
    path.write_text("")
    assert verify(str(path)) == 0
    assert ": ok (the history is empty)  0 operations" in capsys.readouterr().out


def test_lines_for_people(files, capsys):
    assert verify(files(GOOD)) == 0
    assert ": ok  2 operations, 3 steps, " in capsys.readouterr().out


def test_a_spent_budget_is_unknown_with_its_reason(files, capsys):
    assert verify("--json", "--steps", "5", files(hard())) == 2
    line = json.loads(capsys.readouterr().out)
    assert (line["verdict"], line["reason"]) == ("unknown", "5 steps are done")
    assert verify("--cache-entries", "10", files(hard(18))) == 2
    assert "unknown (the cache of 10 configurations is full)" in capsys.readouterr().out
    assert verify("--time-limit", "0.000001", files(hard())) == 2
    assert "seconds are over" in capsys.readouterr().out


def test_illegal_beats_unknown_beats_ok(files):
    bad, good = files(STALE, name="bad"), files(GOOD, name="good")
    assert verify("missing.jsonl", bad, good) == 1
    assert verify(good, "missing.jsonl") == 2


def test_a_file_that_is_no_history_has_its_object_too(files, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)  # long paths are cut in the middle
    good, missing, broken = files(GOOD), "none.jsonl", "broken.jsonl"
    Path(broken).write_text('{"process":0}\n')
    assert verify("--json", missing, broken, good) == 2
    captured = capsys.readouterr()
    lines = [json.loads(line) for line in captured.out.splitlines()]
    assert lines[0].pop("seconds") >= 0
    assert lines[0] == {
        "file": missing,
        "verdict": "unknown",
        "operations": 0,
        "steps": 0,
        "error": f"{missing}: No such file or directory",
    }
    assert lines[1]["error"] == f"{broken}:1: an event without 'type'"
    assert [(line["file"], line["verdict"]) for line in lines[1:]] == [
        (broken, "unknown"),
        (good, "ok"),
    ]
    assert captured.err.count("\n") == 2


def test_bad_input_is_one_line_with_file_and_position(files, tmp_path, capsys):
    path = tmp_path / "broken.jsonl"
    path.write_text('{"process":0,"type":"invoke","f":"read"}\n{"process":0}\n')
    assert verify(str(path)) == 2
    assert capsys.readouterr().err == f"{path}:2: an event without 'type'\n"
    path.write_text('{"process":0,"type":"invoke","f":"jump"}\n')
    assert verify(str(path)) == 2
    assert capsys.readouterr().err == (
        f"{path}:1: operation 'jump' is not one of cas-register: read, write, cas\n"
    )
    assert verify(str(tmp_path / "none")) == 2
    assert capsys.readouterr().err == f"{tmp_path / 'none'}: No such file or directory\n"


@pytest.mark.parametrize(
    "words",
    [
        ["jepsen"],
        ["jepsen", "serve"],
        ["jepsen", "verify", "x"],
        ["jepsen", "verify", "--model", "queue", "x"],
        ["jepsen", "verify", "--model", "kv", "--cache-entries", "0", "x"],
        ["jepsen", "verify", "--model", "kv", "--time-limit", "nan", "x"],
        ["jepsen", "verify", "--model", "kv", "--html", "p.html", "x", "y"],
    ],
)
def test_a_wrong_command_line_gives_no_verdict(words, capsys):
    try:
        code = main(words)
    except SystemExit as stopped:
        code = stopped.code
    assert code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_help_is_no_error(capsys):
    assert main(["jepsen", "--help"]) == 0
    captured = capsys.readouterr()
    assert (captured.err, captured.out.count("kraftline jepsen ")) == ("", 3)


def test_the_counterexample_in_words_and_as_a_page(files, tmp_path, capsys):
    page = tmp_path / "page.html"
    stale = files(STALE)
    assert verify("--explain", "--html", str(page), stale) == 1
    out = capsys.readouterr().out
    assert "minimal counterexample, 2 operations (1 left out)" in out
    assert "read -> absent: impossible in this state" in out
    assert "not linearizable" in page.read_text(encoding="utf-8")
    assert verify("--explain", "--json", stale) == 1
    assert json.loads(capsys.readouterr().out)["counterexample"]["operations"] == [0, 2]


def test_half_characters_and_line_ends_are_shown_as_escapes(files, tmp_path, capfd):
    odd = [
        Operation(process=0, f="write", value="\ud800", call=0, end=10, output="\ud800"),
        Operation(process=1, f="read", output="\ud801\n", call=11, end=12),
    ]
    page = tmp_path / "page.html"
    assert verify("--explain", "--html", str(page), files(odd, name="a\nb")) == 1
    found = capfd.readouterr()
    assert "read -> \\ud801\\n: impossible" in found.out
    assert "a\\nb.jsonl: illegal" in found.out
    assert found.err == ""
    assert "\\ud801" in page.read_text(encoding="utf-8")


def test_what_stands_in_a_history_fills_no_place_of_the_page(tmp_path):
    stale = [
        Operation(process=0, f="write", value="@DATA@", call=0, end=10, output="@DATA@"),
        Operation(process=1, f="read", output="@TEXT@", call=11, end=12),
    ]
    source, page = tmp_path / "@DATA@.jsonl", tmp_path / "page.html"
    write_history(source, history_of(stale).events, Format.JSONL)
    assert verify("--html", str(page), str(source)) == 1
    text = page.read_text(encoding="utf-8")
    assert f"<h1>{source}: not linearizable</h1>" in text
    assert text.count("const DATA = {") == text.count('"Partitions"') == 1
    assert "write @DATA@" in text
