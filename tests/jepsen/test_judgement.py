"""`kraftline jepsen check`: a stored run is judged again, by everything that is in its folder."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest

from cli.main import main
from jepsen.history import JSONL_FILE, Recorder
from jepsen.judgement import TEST_FILE
from jepsen.logs import LOG_FOLDER
from jepsen.report import PICTURE_FILE, RESULTS_FILE
from wire.batches.batch import encode_batch

ID = UUID("00000000-0000-4000-8000-000000000001")
NOW_MS = 1_700_000_000_000
CONVERGED = '{"checks":[{"name":"converged","verdict":"%s"}]}'


def record(folder, seen=str(ID), final=(1, 2)):
    """A history of two nodes; `final` are those that are read at the end."""
    recorder = Recorder(folder)
    for f, asked, told in (
        ("create", ["t", None], ["t", str(ID)]),
        ("exists", ["t", None], ["t", seen]),
        ("delete", ["t", str(ID)], ["t", str(ID)]),
    ):
        recorder.complete(recorder.invoke(0, f, asked), "ok", told)
    recorder.fault("kill", {"node": 1, "role": "leader"})
    recorder.fault("pause", 2, "it does not stop")
    for node in final:
        read = recorder.invoke(1, "exists", ["t", None], node=node)
        recorder.complete(read, "ok", ["t", None])
    recorder.close()


@pytest.fixture
def run(tmp_path):
    """Folder that a run of two nodes leaves behind."""
    folder = tmp_path / "run"
    for number in (1, 2):
        log = folder / "quorum" / f"node{number}" / LOG_FOLDER
        log.mkdir(parents=True)
        content = encode_batch([b"a topic" + ID.bytes], 0, 1, NOW_MS)
        (log / f"{0:020d}.log").write_bytes(content)
    record(folder)
    test = {"workload": "topic-set", "nemesis": ["kill"], "seed": 7, "nodes": 2, "rate": 50.0}
    (folder / TEST_FILE).write_text(json.dumps(test))
    results = {
        "verdict": "valid",
        "high_watermark": 1,
        "leaders": {"1": 2},
        "checks": [{"name": "converged", "verdict": "valid", "reason": None}],
    }
    (folder / RESULTS_FILE).write_text(json.dumps(results))
    return folder


def check(capsys, folder):
    """(exit code, verdict and reason by check, the whole object)."""
    code = main(["jepsen", "check", str(folder), "--json"])
    found = json.loads(capsys.readouterr().out)
    return (
        code,
        {each["name"]: (each["verdict"], each["reason"]) for each in found["checks"]},
        found,
    )


def test_a_valid_run(run, capsys):
    code, checks, found = check(capsys, run)
    assert code == 0, checks
    assert {verdict for verdict, _ in checks.values()} == {"valid"}
    assert (found["ok"], found["faults"], found["batches"]) == (5, {"kill": 1}, 1)
    assert (found["high_watermark"], found["leaders"], found["dir"]) == (1, {"1": 2}, str(run))
    assert main(["jepsen", "check", str(run)]) == 0
    assert capsys.readouterr().out.startswith("valid: topic-set, seed 7\n")


def test_an_illegal_history(run, capsys):
    record(run, seen="nobody-made-it")
    code, checks, _ = check(capsys, run)
    assert (code, checks["linearizable"][0], checks["logs"][0]) == (1, "invalid", "valid")
    assert (run / PICTURE_FILE).exists()


def test_a_picture_that_cannot_be_written_takes_no_verdict_away(run, capsys):
    record(run, seen="nobody-made-it")
    (run / PICTURE_FILE).mkdir()
    code, checks, _ = check(capsys, run)
    assert (code, checks["linearizable"]) == (
        1,
        ("invalid", f"key t: no legal order; {PICTURE_FILE} cannot be written: Is a directory"),
    )


def appended(run, *events):
    with (run / JSONL_FILE).open("a") as file:
        file.writelines(json.dumps({"process": 9} | event) + "\n" for event in events)


def asked(f, value, told=None, kind="ok", **extra):
    return (
        {"type": "invoke", "f": f, "value": value} | extra,
        {"type": kind, "f": f, "value": told or value} | extra,
    )


def test_a_node_that_nobody_read_at_the_end(run, capsys):
    for final, missing in (((), 1), ((2,), 1), ((1, 1), 2)):
        record(run, final=final)
        code, checks, _ = check(capsys, run)
        reason = f"no final read of t at node {missing}"
        assert (code, checks["final reads"]) == (2, ("unknown", reason))


def test_final_reads_are_answered_reads_of_every_key_after_all_else(run, capsys):
    def reason(*events):
        record(run, final=(1,))
        appended(run, *events)
        return check(capsys, run)[1]["final reads"][1]

    read = asked("exists", ["t", None], node=2)
    assert reason(*read) is None
    assert reason(*asked("exists", ["t", None], kind="fail", node=2)).endswith("of t at node 2")
    assert reason(*read, {"process": "nemesis", "type": "info", "f": "start"}).endswith("node 1")
    assert reason(*read, *asked("exists", ["u", None], node=2)).endswith("of u at node 1")
    late = {"process": 8, "type": "invoke", "f": "delete", "value": ["t", None]}
    assert reason(read[0], late, read[1]).endswith("of t at node 1"), "it began before a write"


def test_final_reads_of_keys_beside_the_value(run, capsys):
    test = json.loads((run / TEST_FILE).read_text()) | {"workload": "config-register"}
    (run / TEST_FILE).write_text(json.dumps(test))
    (run / JSONL_FILE).write_text("")
    appended(run, *asked("write", 1, key="r"), *asked("read", None, 1, key="r", node=1))
    assert check(capsys, run)[1]["final reads"][1] == "no final read of r at node 2"
    appended(run, *asked("read", None, 1, key="r", node=2))
    assert check(capsys, run)[1]["final reads"] == ("valid", None)


@pytest.mark.parametrize(
    ("events", "said"),
    [
        (asked("exists", ["t", None])[1:], "has no open operation"),
        (asked("exists", ["t", None])[:1] * 2, "invokes exists while its operation of"),
        (asked("frob", ["t", None]), "operation 'frob' is not one of topic-set: create, delete"),
        (asked("create", 5), "value of create is 5, not [name id]"),
        (asked("create", ["z", None]), "create of z succeeded without an id"),
        (
            asked("create", ["z", None], ["z", "abc"]),
            "create of z gave 'abc', which is no",
        ),
        (asked("exists", ["\ud800", None], ["\ud800", str(ID)]), "'\\ud800' is no character"),
    ],
)
def test_a_history_that_is_none_is_254(run, capsys, events, said):
    appended(run, *events)
    assert said in refusal(run, capsys)


def test_a_history_of_another_workload_is_254(run, capsys):
    test = json.loads((run / TEST_FILE).read_text()) | {"workload": "config-register"}
    (run / TEST_FILE).write_text(json.dumps(test))
    assert "operation 'create' is not one of register: read, write" in refusal(run, capsys)


def refusal(run, capsys):
    """The one line that refuses the folder."""
    with pytest.raises(SystemExit) as ended:
        main(["jepsen", "check", str(run)])
    assert ended.value.code == 254
    told = capsys.readouterr().err
    assert told.startswith("kraftline jepsen check: ")
    assert told.count("\n") == 1
    return told


def test_logs_that_differ(run, capsys):
    log = run / "quorum" / "node2" / LOG_FOLDER / f"{0:020d}.log"
    log.write_bytes(encode_batch([b"another topic"], 0, 1, NOW_MS))
    code, checks, _ = check(capsys, run)
    assert (code, checks["logs"]) == (
        1,
        ("invalid", "nodes 1 and 2: offset 0 differs (epochs 1 and 1)"),
    )


def test_a_fault_that_no_process_felt(run, capsys):
    test = json.loads((run / TEST_FILE).read_text())
    (run / TEST_FILE).write_text(json.dumps(test | {"nemesis": ["kill", "pause"]}))
    code, checks, _ = check(capsys, run)
    assert (code, checks["nemesis bit"]) == (2, ("unknown", "no process was affected by: pause"))


def test_a_run_that_was_killed_is_unknown(run, capsys):
    (run / RESULTS_FILE).unlink()
    code, checks, _ = check(capsys, run)
    assert (code, checks["linearizable"][0]) == (2, "valid")
    assert (checks["converged"][0], checks["logs"][0]) == ("unknown", "unknown")


def test_data_that_was_not_kept_is_no_difference(run, capsys):
    shutil.rmtree(run / "quorum" / "node2")
    code, checks, _ = check(capsys, run)
    assert (code, checks["logs"]) == (2, ("unknown", "the data of the nodes is not there"))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (TEST_FILE, None, f"{TEST_FILE}: No such file or directory; a folder that"),
        (TEST_FILE, "{", f"{TEST_FILE}: "),
        (TEST_FILE, '{"workload":"topic-set"}', f"{TEST_FILE}: Object missing required field"),
        (
            TEST_FILE,
            '{"workload":"queue","nemesis":[],"seed":1,"nodes":1}',
            f"{TEST_FILE}: of another version of the harness",
        ),
        (TEST_FILE, '{"workload":"topic-set","nemesis":[],"seed":1,"nodes":0}', ">= 1"),
        (RESULTS_FILE, "[]", f"{RESULTS_FILE}: Expected `object`"),
        (RESULTS_FILE, '{"high_watermark":-1}', ">= 0"),
        (RESULTS_FILE, CONVERGED % "frob", "Invalid enum value 'frob'"),
        (RESULTS_FILE, CONVERGED % 'valid"},{"name":"converged","verdict":"invalid', "two checks"),
        (JSONL_FILE, None, f"{JSONL_FILE}: No such file or directory"),
        (JSONL_FILE, "x\n{}\n", JSONL_FILE),
    ],
)
def test_a_folder_that_holds_no_run_is_254(run, capsys, name, content, said):
    (run / name).unlink()
    if content is not None:
        (run / name).write_text(content)
    assert said in refusal(run, capsys)


def test_python_m_jepsen_is_kraftline_jepsen(run):
    words = [sys.executable, "-m", "jepsen", "check", str(run)]
    root = Path(__file__).parents[2]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("valid: topic-set, seed 7\n")
