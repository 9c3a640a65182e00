"""Every scenario gives its golden text; the runner itself reports what differs."""

import re

import pytest

from simulator.scenarios import scenario
from simulator.scenarios.command import ScenarioError
from tests.test_tidy import ROOT

LINES_MAX = 80
"""Of a whole file; a longer one shows more than one thing."""
FILES = scenario.scenario_files([ROOT / "tests" / "scenarios"])


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_scenario(path):
    assert scenario.difference(path) == ""


def test_there_are_enough_scenarios_of_bearable_length():
    assert len(FILES) >= 60
    long = [path.name for path in FILES if len(path.read_text().splitlines()) > LINES_MAX]
    assert long == []
    untitled = [path.name for path in FILES if not path.read_text().startswith("# ")]
    assert untitled == []


def rows_of_the_table():
    """(what the row is about, its text), of "here" and of "does not apply"."""
    page = (ROOT / "docs" / "simulator" / "raft-tests.md").read_text()
    row = re.compile(r"^\| ([A-F]|\d+(?:-\d+)?) \| (.*) \|$", re.MULTILINE)
    here, elsewhere = page.split("## Do not apply")
    return row.findall(here), row.findall(elsewhere)


def claims_of(path):
    """Numbers of tests and letters of flows that the comments of a scenario name."""
    comments = [line[2:] for line in path.read_text().splitlines() if line.startswith("#")]
    number = r"(?:[A-F]|\d+)\b"
    claim = rf"(?:[Tt]ests?|Flow) ({number}(?:(?:, | and ){number})*)"
    found = re.findall(claim, " ".join(comments))
    return {key for keys in found for key in re.findall(number, keys)}


def test_the_table_of_kafkas_tests_names_every_one():
    here, elsewhere = rows_of_the_table()
    found = set()
    for first, _, last in (key.partition("-") for key, _ in here + elsewhere):
        found |= {str(i) for i in range(int(first), int(last) + 1)} if last else {first}
    assert found == {str(i) for i in range(1, 68)} | set("ABCDEF")


def test_a_row_of_the_table_and_the_scenarios_it_names_say_the_same():
    in_table = {
        (key, name)
        for key, text in rows_of_the_table()[0]
        for name in re.findall(r"`([a-z_]+[a-z])`", text)
        if not name.startswith("test_")
    }
    raft = [path for path in FILES if path.parent.name == "raft"]
    in_files = {(key, path.stem) for path in raft for key in claims_of(path)}
    assert len(in_table) > 75
    assert in_table - in_files == set(), "the scenario does not say that it shows the test"
    assert in_files - in_table == set(), "the table does not name the scenario"


def test_what_the_table_names_exists():
    page = (ROOT / "docs" / "simulator" / "raft-tests.md").read_text()
    scenarios = {name for path in FILES for name in (path.stem, f"{path.parent.name}/{path.stem}")}
    names = set(re.findall(r"`([a-z_/]+[a-z])`", page))
    assert {name for name in names if not name.startswith("test_")} - scenarios == set()
    tests = set()
    for file, listed in re.findall(r"(tests/[a-z_/]+\.py) \(([^)]*)\)", page):
        content = (ROOT / file).read_text()
        found = re.findall(r"`(test_[a-z_]+)`", listed)
        assert [name for name in found if f"def {name}(" not in content] == [], file
        tests.update(found)
    assert tests == {name for name in names if name.startswith("test_")}


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
