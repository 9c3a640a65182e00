"""`quorum`: what recorded outputs do not show (those are in test_golden_outputs.py)."""

import json

import pytest

from cli.admin import quorum
from cli.main import main
from tests.cli.golden import outputs, verdicts
from tests.cli.quorum_answers import recorded_answer
from tests.cli.recorded_cluster import RecordedCluster

SERVER = ["--bootstrap-server", "127.0.0.1:1"]


def test_nobody_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quorum", *SERVER, "describe", "--status"]) == 1
    assert "no node can be reached" in capsys.readouterr().err


def test_json_of_the_status(capsys: pytest.CaptureFixture[str]) -> None:
    name = "static-4.3.1/quorum-status-after-kill"
    answer = recorded_answer(outputs()[name], verdicts()[name])
    cluster = RecordedCluster("static-4.3.1", 340, quorum=answer)
    assert quorum.run([*SERVER, "describe", "--status", "--json"], cluster.opened) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["leader_id"] == 2
    assert found["follower_lag_max"] == 561
    assert [replica["status"] for replica in found["replicas"]][:1] == ["leader"]


@pytest.mark.parametrize("words", [
    ("remove-controller", "-i", "3", "-d", "short"),
    ("remove-controller", "-i", "-3", "-d", "QUFBQUFBQUFBQUFBQUFBAQ"),
    ("add-controller",),
    ("describe",),
])  # fmt: skip
def test_bad_command_lines_are_refused_before_anybody_is_asked(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(["quorum", *SERVER, *words])
    except SystemExit as left:
        code = left.code
    assert code == 1
    assert "no node can be reached" not in capsys.readouterr().err
