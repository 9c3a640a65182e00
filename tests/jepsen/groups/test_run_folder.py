"""`kraftline jepsen check` of stored runs of group."""

import json

import pytest

from cli.main import main
from jepsen.findings_page import FINDINGS_FILE
from jepsen.groups.names import PROTOCOLS
from jepsen.history import JSONL_FILE, Recorder
from jepsen.judgement import TEST_FILE
from jepsen.report import RESULTS_FILE

LOG = "log-a-0"


def record(folder, *, committed):
    """A value is appended, read and committed by each group, and read at the end."""
    recorder = Recorder(folder)
    key = {"key": LOG}
    recorder.complete(recorder.invoke(0, "append", 7, **key), "ok", [7, 0], epoch=1)
    recorder.complete(recorder.invoke(1, "fetch", 0, node=1, **key), "ok", [7])
    for group in PROTOCOLS:
        for at, (f, value) in enumerate(
            (
                ("assigned", {"partitions": [LOG], "generation": 1}),
                ("revoked", {"partitions": [LOG], "generation": 1}),
                ("assigned", {"partitions": [LOG], "generation": 2}),
                ("read", {"records": {LOG: [[0, 7]]}}),
                ("committing", {"offsets": {LOG: 1}}),
                ("committed", {"offsets": {LOG: 1}, "began": 5}),
                ("fetched", {"offsets": {LOG: committed}, "began": 7}),
                ("caught up", {"offsets": {LOG: 1}, "ends": {LOG: 1}}),
            )
        ):
            recorder.note(f"{group}/0", f, {"group": group, "at": at + 1, **value})
    recorder.complete(recorder.invoke(2, "read", None, node=1, **key), "ok", [7])
    recorder.close()


@pytest.mark.parametrize(("committed", "verdict", "code"), [(1, "valid", 2), (None, "invalid", 1)])
def test_a_stored_run(tmp_path, capsys, committed, verdict, code):
    record(tmp_path, committed=committed)
    test = {"workload": "group", "nemesis": [], "seed": 7, "nodes": 1}
    (tmp_path / TEST_FILE).write_text(json.dumps(test))
    results = {"checks": [{"name": "converged", "verdict": "valid"}]}
    (tmp_path / RESULTS_FILE).write_text(json.dumps(results))
    assert (tmp_path / JSONL_FILE).exists()
    assert main(["jepsen", "check", str(tmp_path), "--json"]) == code
    found = json.loads(capsys.readouterr().out)
    checks = {each["name"]: each["verdict"] for each in found["checks"]}
    assert checks.pop("logs") == "unknown", "no data of nodes"
    assert checks.pop("groups") == verdict
    assert set(checks.values()) == {"valid"}
    assert found["operations"].keys() == {"append", "fetch", "read"}, "members are no clients"
    assert found["groups"]["readers-848"]["read"] == 1
    assert (tmp_path / FINDINGS_FILE).exists() == (verdict == "invalid")
    main(["jepsen", "check", str(tmp_path)])
    text = capsys.readouterr().out
    assert "\n  readers-848: 0 members, 0 killed, " in text
    shown = "\n    went back: readers-848: readers-848/0 is given offset None of log-a-0 after 1"
    assert (shown in text) == (verdict == "invalid")
