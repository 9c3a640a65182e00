"""Numbers on the command line of `scripts/quorum`: a wrong one is named with the allowed ones."""

from pathlib import Path

import pytest

from scripts.launcher.commands import main
from scripts.launcher.description import save_cluster
from scripts.launcher.layout import Cluster

CLUSTER_ID = "Z29sZGVuLXNoYXJlZC0wMQ"
LONG = "9" * 5000  # more digits than int() reads


@pytest.fixture
def folder(tmp_path):
    save_cluster(Cluster(tmp_path / "q", CLUSTER_ID, 2, 1, 9092))
    return str(tmp_path / "q")


@pytest.mark.parametrize("command", ["kill", "pause", "resume", "restart", "logs"])
@pytest.mark.parametrize(
    ("node", "shown"),
    [
        ("x", "'x'"),
        ("", "''"),
        ("1.0", "'1.0'"),
        ("one\nline", r"'one\nline'"),
        (LONG, repr(LONG[:80])),
    ],
    ids=["word", "empty", "fraction", "lines", "long"],
)
def test_a_node_that_is_no_number_is_refused_with_the_ids(folder, capsys, command, node, shown):
    assert main([command, "--dir", folder, node]) == 2
    assert capsys.readouterr().err == (
        f"quorum: NODE {shown} is not the id of a node in {folder}; its nodes are 1, 2, 101\n"
    )


def test_a_node_of_another_number_is_refused_with_the_ids(folder, capsys):
    assert main(["restart", "--dir", folder, "9"]) == 1
    assert capsys.readouterr().err == (
        f"quorum: there is no node 9 in {folder}; its nodes are 1, 2, 101\n"
    )


def test_without_a_quorum_no_node_is_looked_for(tmp_path, capsys):
    assert main(["restart", "--dir", str(tmp_path), "x"]) == 1
    assert "there is no quorum in" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flag", "bounds"),
    [
        ("--nodes", "between 1 and 100"),
        ("--brokers", "between 0 and 100"),
        ("--base-port", "between 1 and 63535"),
    ],
)
@pytest.mark.parametrize(("text", "shown"), [("x", "'x'"), (LONG, repr(LONG[:80]))])
def test_a_count_that_is_no_number_is_refused_with_its_bounds(
    tmp_path, capsys, flag, bounds, text, shown
):
    with pytest.raises(SystemExit) as stopped:
        main(["up", "--dir", str(tmp_path / "q"), flag, text])
    assert stopped.value.code == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line == f"quorum up: error: argument {flag}: {shown} is not a number {bounds}"
    assert not Path(tmp_path / "q").exists()
