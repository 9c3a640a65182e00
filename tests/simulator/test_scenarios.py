"""Every scenario gives its golden text; the runner itself reports what differs."""

import re

import pytest

from simulator import scenario
from simulator.scenario_command import ScenarioError
from tests.test_tidy import ROOT

FILES = scenario.scenario_files([ROOT / "tests" / "scenarios"])


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_scenario(path):
    assert scenario.difference(path) == ""


def test_there_are_enough_scenarios_of_bearable_length():
    assert len(FILES) >= 60
    long = [path.name for path in FILES if len(path.read_text().splitlines()) > scenario.LINES_MAX]
    assert long == []
    untitled = [path.name for path in FILES if not path.read_text().startswith("# ")]
    assert untitled == []


def test_the_table_of_kafkas_tests_names_every_one_and_what_is_there():
    page = (ROOT / "docs" / "simulator" / "raft-tests.md").read_text()
    numbers = set()
    for first, last in re.findall(r"^\| (\d+)(?:-(\d+))? \|", page, re.MULTILINE):
        numbers.update(range(int(first), int(last or first) + 1))
    assert numbers == set(range(1, 68))
    known = {name for path in FILES for name in (path.stem, f"{path.parent.name}/{path.stem}")}
    tests = (ROOT / "tests" / "kernel" / "test_snapshots.py").read_text()
    names = set(re.findall(r"`([a-z_/]+[a-z])`", page))
    assert len(names) > 60
    assert {name for name in names - known if f"def {name}(" not in tests} == set()


@pytest.fixture
def file(tmp_path):
    folder = tmp_path / "raft"
    folder.mkdir()
    return folder / "one.txt"


def test_difference_names_the_lines_and_rewrite_stores_them(file, capsys):
    file.write_text("# A sole voter.\nnodes voters=1\nquietly start 1\nstate\n----\nwrong\n")
    assert scenario.main([str(file)]) == 1
    report = capsys.readouterr().out
    assert "-wrong" in report
    assert "+1 leader epoch=1 leader=1 log=[0,1) hw=1 parked=0" in report
    assert scenario.main(["--rewrite", str(file)]) == 0
    assert scenario.main([str(file)]) == 0


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("fly 1", "no command 'fly', allowed: advance"),
        ("nodes voters=1,x", "'x' is not a number"),
        ("nodes voters=1 colour=red", "nodes does not know colour"),
        ("start 7", "no node 7"),
        ("timeout", "timeout: argument 1 (id of a node) is missing"),
        ("deliver 1 2", "no message from 1 to 2"),
        ("answer 1 2 granted", "no node 1"),
    ],
)
def test_a_broken_line_is_named(file, capsys, line, reason):
    file.write_text(f"# Broken.\n{line}\n----\nok\n")
    assert scenario.main([str(file)]) == 2
    assert f"line 2: {line!r}: {reason}" in capsys.readouterr().err


def test_commands_need_their_separator_and_folders_their_environment(file, tmp_path):
    with pytest.raises(ScenarioError, match="line 1: commands without '----'"):
        scenario.parse_scenario("nodes voters=1\n")
    with pytest.raises(ScenarioError, match="no environment"):
        scenario.environment_of(tmp_path / "nowhere" / "one.txt")
