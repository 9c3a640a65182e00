"""`quorum`: what recorded outputs do not show (those are in test_golden_outputs.py)."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cli.admin import quorum
from cli.admin.controller_properties import ControllerToAdd, controller_of
from cli.arguments import UsageError
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


SHORT = "Failed to parse --controller-directory-id: Input string `shor` decoded as 3 bytes"
SUPPLY = "You must supply the configuration file of the controller you are adding when using"
REMOVE = ("remove-controller", "-i", "-3", "-d", "QUFBQUFBQUFBQUFBQUFBAQ")


@pytest.mark.parametrize(("words", "said"), [
    (("remove-controller", "-i", "3", "-d", "A" * 21), "Failed to parse --controller-directory-id"),
    (("remove-controller", "-i", "3", "-d", "shor"), SHORT),
    (REMOVE, "Invalid negative --controller-id: -3\n"),
    ((*REMOVE[:2], "-2147483648", *REMOVE[3:]), "Invalid negative --controller-id: -2147483648\n"),
    (("add-controller",), SUPPLY),
    (("describe",), "One of --status or --replication must be specified with describe sub-command"),
    (("describe", "--status", "--replication"),
     "Only one of --status or --replication should be specified with describe sub-command"),
    (("describe", "--status", "--human-readable"),
     "The option --human-readable is only supported along with --replication"),
])  # fmt: skip
def test_bad_command_lines_are_refused_before_anybody_is_asked(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["quorum", *SERVER, *words]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(said)
    assert err.count("\n") == 1


@pytest.mark.parametrize("name", ["none", "n" * 40_000, "n\0"])
@pytest.mark.parametrize("words", [("describe", "--status"), ("add-controller",)])
def test_a_file_of_properties_that_is_not_there(
    name: str, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["quorum", *SERVER, "--command-config", name, *words]) == 1
    assert capsys.readouterr().err.startswith(f"Properties file {name[:80]}")


CONTROLLER = """process.roles=controller
node.id=4
log.dirs=data,more
controller.listener.names=C
listeners=C://h:1
"""
FILE = "configuration file. Is this a valid controller configuration file?"


def controller(folder: Path, text: str) -> ControllerToAdd:
    path = folder / "server.properties"
    path.write_text(text)
    return controller_of(path)


@pytest.mark.parametrize(("old", "new", "said"), [
    ("node.id=4\n", "", f"node.id not found in {FILE}"),
    ("node.id=4", "node.id=-4", f"node.id was negative in {FILE}"),
    ("node.id=4", "node.id=2147483648", "node.id '2147483648' is no number from 0 to 2147483647"),
    ("node.id=4", "node.id=", "node.id '' is no number"),
    ("node.id=4", "node.id=-", "node.id '-' is no number"),
    ("roles=controller", "roles=broker", f"process.roles did not contain 'controller' in {FILE}"),
    ("process.roles=controller\n", "", "process.roles did not contain"),
    ("log.dirs=data,more\n", "", "Neither metadata.log.dir nor log.dirs were found. Is this a"),
    ("dirs=data", "dirs=none", "Unable to read meta.properties from none"),
    ("log.dirs=data", "metadata.log.dir=none\nlog.dirs=data", "Unable to read meta.properties"),
    ("dirs=data", "dirs=old", "No directory id found in old"),
    ("controller.listener.names=C\n", "", "controller.listener.names was not found. Is this a"),
    ("names=C", "names=C,x", "Cannot find information about controller listener name: X"),
    ("C://h:1", "C://h:65536", "'C://h:65536' is not a listener: NAME://HOST:PORT"),
    ("C://h:1", "C://h", "'C://h' is not a listener"),
    ("C://h:1", "C://h:1,://h:2", "'://h:2' is not a listener"),
])  # fmt: skip
def test_files_that_describe_no_controller(
    old: str, new: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder, more in (("data", "directory.id=QUFBQUFBQUFBQUFBQUFBAQ\n"), ("old", "")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "meta.properties").write_text(
            f"version=1\ncluster.id=x\nnode.id=4\n{more}"
        )
    assert old in CONTROLLER
    with pytest.raises(UsageError) as refused:
        controller(tmp_path, CONTROLLER.replace(old, new))
    assert said in str(refused.value)


@pytest.mark.parametrize(("text", "found"), [
    (CONTROLLER, ["C://h:1"]),
    (CONTROLLER.replace("C://h:1", "C://:65535"), ["C://localhost:65535"]),
    (CONTROLLER + "advertised.listeners=c://[::1]:2,B://b:3\n", ["C://[::1]:2"]),
    (CONTROLLER.replace("names=C", "names=d, c, C") + "advertised.listeners=D://d:0",
     ["D://d:0", "C://h:1"]),
    (CONTROLLER.replace("log.dirs=", "metadata.log.dir="), ["C://h:1"]),
    (CONTROLLER.replace("log.dirs=data,more", "log.dir=data"), ["C://h:1"]),
])  # fmt: skip
def test_the_controller_of_a_file(
    text: str, found: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / ("data,more" if "metadata.log.dir" in text else "data")
    folder.mkdir()
    (folder / "meta.properties").write_text(
        "version=1\ncluster.id=x\nnode.id=4\ndirectory.id=QUFBQUFBQUFBQUFBQUFBAQ\n"
    )
    added = controller(tmp_path, text)
    assert (added.node_id, added.directory_id) == (4, b"A" * 15 + b"\x01")
    assert list(map(str, added.endpoints)) == found


def test_hosts_with_colons_are_in_brackets(capsys: pytest.CaptureFixture[str]) -> None:
    name = "dynamic-4.3.1/quorum-replication-observer4"
    answer = recorded_answer(outputs()[name], verdicts()[name])
    first, *more = answer.nodes
    listeners = tuple(replace(each, host="::1") for each in first.listeners)
    described = replace(answer, nodes=(replace(first, listeners=listeners), *more))
    cluster = RecordedCluster("dynamic-4.3.1", 167, quorum=described)
    assert quorum.run([*SERVER, "describe", "--status"], cluster.opened) == 0
    out = capsys.readouterr().out
    assert out.count('"CONTROLLER://[::1]:') == 1
    assert out.count('"CONTROLLER://127.0.0.1:') == len(more)


def test_an_observer_with_endpoints_shows_them(capsys: pytest.CaptureFixture[str]) -> None:
    """As a node of the voters' ids under another directory id has them."""
    name = "dynamic-4.3.1/quorum-replication-observer4"
    answer = recorded_answer(outputs()[name], verdicts()[name])
    voter = next(node for node in answer.nodes if node.node_id == 1)
    more = replace(voter, node_id=101)
    described = replace(answer, nodes=(*answer.nodes, more))
    cluster = RecordedCluster("dynamic-4.3.1", 167, quorum=described)
    assert quorum.run([*SERVER, "describe", "--status"], cluster.opened) == 0
    (line,) = [x for x in capsys.readouterr().out.splitlines() if x.startswith("CurrentObservers")]
    found = {node["id"]: node.get("endpoints") for node in json.loads(line.partition(":")[2])}
    assert found == {102: None, 4: None, 101: ["CONTROLLER://127.0.0.1:29901"]}
