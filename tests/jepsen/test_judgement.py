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
from wire.batch import encode_batch

ID = UUID("00000000-0000-4000-8000-000000000001")
NOW_MS = 1_700_000_000_000


def record(folder, seen=str(ID)):
    recorder = Recorder(folder)
    for f, asked, told in (
        ("create", ["t", None], ["t", str(ID)]),
        ("exists", ["t", None], ["t", seen]),
        ("delete", ["t", str(ID)], ["t", str(ID)]),
    ):
        recorder.complete(recorder.invoke(0, f, asked), "ok", told)
    recorder.fault("kill", {"node": 1, "role": "leader"})
    recorder.fault("pause", 2, "it does not stop")
    recorder.close()


@pytest.fixture
def run(tmp_path):
    """What a run of two nodes leaves behind."""
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
    assert (found["ok"], found["faults"], found["batches"]) == (3, {"kill": 1}, 1)
    assert (found["high_watermark"], found["leaders"], found["dir"]) == (1, {"1": 2}, str(run))
    assert main(["jepsen", "check", str(run)]) == 0
    assert capsys.readouterr().out.startswith("valid: topic-set, seed 7\n")


def test_an_illegal_history(run, capsys):
    record(run, seen="nobody-made-it")
    code, checks, _ = check(capsys, run)
    assert (code, checks["linearizable"][0], checks["logs"][0]) == (1, "invalid", "valid")
    assert (run / PICTURE_FILE).exists()


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
    assert (code, checks["nemesis bit"]) == (2, ("unknown", "no process felt: pause"))


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
        (RESULTS_FILE, "[]", f"{RESULTS_FILE}: Expected `object`"),
        (JSONL_FILE, None, f"{JSONL_FILE}: No such file or directory"),
        (JSONL_FILE, "x\n{}\n", JSONL_FILE),
    ],
)
def test_a_folder_that_holds_no_run_is_254(run, capsys, name, content, said):
    (run / name).unlink()
    if content is not None:
        (run / name).write_text(content)
    with pytest.raises(SystemExit) as ended:
        main(["jepsen", "check", str(run)])
    assert ended.value.code == 254
    told = capsys.readouterr().err
    assert told.startswith("kraftline jepsen check: ")
    assert said in told
    assert told.count("\n") == 1


def test_python_m_jepsen_is_kraftline_jepsen(run):
    words = [sys.executable, "-m", "jepsen", "check", str(run)]
    root = Path(__file__).parents[2]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("valid: topic-set, seed 7\n")
