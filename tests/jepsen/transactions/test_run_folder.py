"""`kraftline jepsen check` of stored runs of txn."""

import json

import pytest

from cli.main import main
from jepsen.findings_page import FINDINGS_FILE
from jepsen.history import JSONL_FILE
from jepsen.judgement import TEST_FILE
from jepsen.linearizability import Format, write_history
from jepsen.report import RESULTS_FILE
from tests.jepsen.cycles.lists import Made


@pytest.fixture
def judge(tmp_path, capsys):
    """Stores a history of two nodes and judges it: exit code, checks, everything."""

    def judged(made):
        test = {"workload": "txn", "nemesis": [], "seed": 7, "nodes": 2}
        (tmp_path / TEST_FILE).write_text(json.dumps(test))
        results = {"checks": [{"name": "converged", "verdict": "valid"}]}
        (tmp_path / RESULTS_FILE).write_text(json.dumps(results))
        write_history(tmp_path / JSONL_FILE, made.events, Format.JSONL)
        code = main(["jepsen", "check", str(tmp_path), "--json"])
        found = json.loads(capsys.readouterr().out)
        checks = {each["name"]: (each["verdict"], each["reason"]) for each in found["checks"]}
        assert checks.pop("logs")[0] == "unknown", "no data of nodes"
        return code, checks, found

    return judged


def good():
    made = Made()
    made.together(["a+1", "b+2"], ["a+3", "b+4"])
    made.txn(2, "a=13", "b=")
    made.txn(3, "c+5", kind="fail")
    for node in (1, 2):
        made.read("a", "13", node)
        made.read("b", "42", node)
        made.read("c", "", node)
    return made


def test_a_good_history(judge, tmp_path, capsys):
    code, checks, found = judge(good())
    assert (code, {verdict for verdict, _ in checks.values()}) == (2, {"valid"})
    assert checks.keys() >= {"transactions", "final reads"}
    assert (found["findings"], found["permitted"]) == ([], {"G0": 1, "G-single": 1})
    assert found["examples"]["G0"] == "T0 -ww a: 1, 3-> T1 -ww b: 4, 2-> T0"
    assert found["operations"]["txn"] == {"ok": 3, "fail": 1, "info": 0}
    main(["jepsen", "check", str(tmp_path)])
    shown = capsys.readouterr().out
    assert "\n  permitted anomalies: 1 G0, 1 G-single\n" in shown
    assert "T0" not in shown, "nothing is wrong with it"


def test_an_aborted_read_is_invalid_with_its_evidence(judge, tmp_path, capsys):
    made = good()
    made.txn(4, "c=5")
    code, checks, found = judge(made)
    assert (code, checks["transactions"][0]) == (1, "invalid")
    told = "c: value 5 of T3, which was aborted, read by T10"
    assert checks["transactions"][1] == f"1 G1a, 1 other order; see {FINDINGS_FILE}; first: {told}"
    assert found["findings"][0] == {"kind": "G1a", "key": "c", "text": told}
    page = (tmp_path / FINDINGS_FILE).read_text()
    assert '<td>G1a</td><td>c: value 5 of <a href="#T3">T3</a>, which was' in page
    assert '<td><span id="T3">T3</span></td><td>fail, 3, ' in page
    assert main(["jepsen", "check", str(tmp_path)]) == 1
    shown = capsys.readouterr().out
    assert "\n    G1a: c: value 5 of T3" in shown
    assert "\n      T3: fail, 3, " in shown


def test_every_list_of_a_transaction_is_read_at_the_end(judge):
    made = good()
    made.events = made.events[:-2]
    assert judge(made)[1]["final reads"] == ("unknown", "no final read of c at node 2")
    early = good()
    early.txn(0, "d=")
    for node in (1, 2):
        early.read("a", "13", node)
        early.read("b", "42", node)
        early.read("c", "", node)
    assert judge(early)[1]["final reads"] == ("unknown", "no final read of d at node 1")
