"""`kraftline jepsen check` and `verify` of a stored run of append-log."""

import json

import pytest

from cli.main import main
from jepsen.history import JSONL_FILE
from jepsen.judgement import TEST_FILE
from jepsen.linearizability import Budget, Format, check, write_history
from jepsen.report import RESULTS_FILE
from tests.jepsen.records.histories import Made, changed, good


@pytest.fixture
def judge(tmp_path, capsys):
    """Stores a history of two nodes and judges it: exit code, checks, everything."""

    def judged(events, **fields):
        test = {"workload": "append-log", "nemesis": [], "seed": 7, "nodes": 2} | fields
        (tmp_path / TEST_FILE).write_text(json.dumps(test))
        results = {"checks": [{"name": "converged", "verdict": "valid"}]}
        (tmp_path / RESULTS_FILE).write_text(json.dumps(results))
        write_history(tmp_path / JSONL_FILE, events, Format.JSONL)
        code = main(["jepsen", "check", str(tmp_path), "--json"])
        found = json.loads(capsys.readouterr().out)
        checks = {each["name"]: each["verdict"] for each in found["checks"]}
        assert checks.pop("logs") == "unknown", "no data of nodes"
        return code, checks, found

    return judged


def doubled(values):
    return [*values, values[0]]


def test_a_good_history(judge):
    code, checks, found = judge(good().events)
    assert (code, set(checks.values())) == (2, {"valid"})
    assert {"records", "linearizable", "final reads"} <= checks.keys()
    assert (found["findings"], found["ok"]) == ([], 13)


def test_a_lost_record_is_invalid_with_its_evidence(judge):
    code, checks, found = judge(changed(good(), lambda values: values[:-1]).events)
    assert (code, checks["records"]) == (1, "invalid")
    assert "linearizable" not in checks, "the evidence is there"
    (finding,) = found["findings"]
    place = (finding["value"], finding["partition"], finding["offset"], finding["epoch"])
    assert place == (5, "log-a-0", 5, 2)


def test_the_evidence_is_shown_to_people(judge, tmp_path, capsys):
    judge(changed(good(), lambda values: values[:-1]).events)
    assert main(["jepsen", "check", str(tmp_path)]) == 1
    assert "\n    lost: log-a-0: value 5 acknowledged at offset 5" in capsys.readouterr().out


def test_a_node_that_nobody_read(judge):
    events = [event for event in good().events if event.extra.get("node") != 2]
    assert judge(events)[1]["final reads"] == "unknown"


def test_without_idempotence_a_record_may_be_there_twice(judge):
    events = changed(good(), doubled).events
    assert judge(events)[1]["records"] == "invalid"
    _, checks, _ = judge(events, is_idempotent=False)
    assert checks["records"] == "valid"
    assert "linearizable" not in checks


def test_verify_judges_a_history_by_the_model(tmp_path, capsys):
    path = tmp_path / "h.jsonl"
    for events, code in ((good().events, 0), (changed(good(), doubled).events, 1)):
        write_history(path, events, Format.JSONL)
        assert main(["jepsen", "verify", "--model", "append-log", str(path)]) == code
    lost = changed(good(), lambda values: values[:-1]).events
    write_history(path, lost, Format.JSONL)
    assert main(["jepsen", "verify", "--model", "append-log", "--explain", str(path)]) == 1
    assert "append 5 -> 5" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("start", "values", "code"),
    [
        (2, [2, 3], 0),  # not all
        (2, [], 0),
        (9, [], 0),  # beyond the end
        (2, [2, 3, 4, 5], 0),
        (2, [3], 1),
        (0, [0, 2], 1),
        (5, [5, 6], 1),  # more than there is
        (9, [6], 1),
    ],
)
def test_a_fetch_gives_records_from_an_offset_on(tmp_path, capsys, start, values, code):
    made = good()
    made.fetch(start, values)
    write_history(tmp_path / "h.jsonl", made.events, Format.JSONL)
    path = str(tmp_path / "h.jsonl")
    assert main(["jepsen", "verify", "--model", "append-log", path]) == code


def test_lost_appends_that_no_log_has_are_dropped():
    """Else each may stand anywhere, which took minutes for a run with forty of them."""
    made = Made()
    for value in range(60):
        made.append(0, value, value)
        made.end(made.call(1000 + value, "append", 500 + value), "info", None, "timeout")
    made.read(range(60))
    result = check(made.history(), "append-log", budget=Budget(steps=1000))
    assert result.verdict == "ok"
    assert [part.dropped for part in result.partitions] == [60]


@pytest.mark.parametrize(
    ("offset", "verdict"),
    [(1, "ok"), (2, "illegal")],  # the lost append stands before, or nothing does
)
def test_a_lost_append_that_an_offset_needs_stays(offset, verdict):
    made = Made()
    made.end(made.call(1, "append", 7), "info", None, "timeout")
    made.read([])
    made.append(0, 8, offset)
    assert check(made.history(), "append-log").verdict == verdict


@pytest.mark.parametrize("f", ["fetch", "read-from"])
def test_a_lost_append_that_was_fetched_stays(f):
    made = Made()
    made.read([])
    made.end(made.call(1, "append", 7), "info", None, "timeout")
    at = made.call(2, f, 0)
    made.end(at, "ok", [7])
    assert check(made.history(), "append-log").verdict == "ok"
