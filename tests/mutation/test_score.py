"""Results, equivalent mutants and the score."""

import pytest

from scripts.mutation.modules import ROOT
from scripts.mutation.points import points
from scripts.mutation.score import (
    Result,
    Results,
    Score,
    judged,
    read_equivalents,
    read_results,
    scores,
    survivor_text,
    table,
)


def result(module, outcome, tests=3):
    mutant = f"{module}::f::comparison::a < b -> a <= b::0"
    return Result(mutant, 7, outcome, "", tests, min(tests, 2), 0.5)


FOUND = [
    result("raft/a.py", "killed"),
    result("raft/b.py", "timeout"),
    result("raft/c.py", "survived"),
    result("wire/a.py", "survived"),
    result("wire/b.py", "survived", tests=0),
]


def test_dead_ones_of_those_that_could_die():
    assert Score(killed=2, timeout=1, equivalent=5, survived=1).percent == 75.0
    assert Score(equivalent=5).percent == 100.0
    assert Score(survived=1).percent == 0.0


def test_each_package_and_all_of_them_have_a_score():
    found = scores(FOUND, [FOUND[3].id, FOUND[0].id])
    assert list(found) == ["raft", "wire", "all"]
    assert found["raft"] == Score(killed=1, timeout=1, survived=1)
    assert found["wire"] == Score(equivalent=1, survived=1)
    assert found["all"] == Score(killed=1, timeout=1, equivalent=1, survived=2)
    assert found["all"].as_json()["percent"] == 50.0


def test_a_mutant_that_is_argued_away_and_dies_is_dead():
    assert [outcome for _, outcome in judged(FOUND[:1], [FOUND[0].id])] == ["killed"]


def test_time_outs_stand_apart_in_the_table():
    lines = table(scores(FOUND, [])).splitlines()
    assert lines[0].split() == ["killed", "timeout", "equivalent", "survived", "score"]
    assert lines[1].split() == ["raft", "1", "1", "0", "1", "66.7", "%"]
    assert lines[-1].split() == ["all", "1", "1", "0", "3", "40.0", "%"]


def test_results_are_read_as_they_were_written(tmp_path):
    results = Results("c0ffee", "18", 400, ["raft", "wire"], {r.id: r for r in FOUND})
    results.write(tmp_path / "new" / "results.json")
    assert read_results(tmp_path / "new" / "results.json") == results
    lines = (tmp_path / "new" / "results.json").read_text("utf-8").splitlines()
    assert len(lines) == len(FOUND) + 2  # a mutant a line


def test_a_survivor_has_place_change_and_tests():
    assert survivor_text(FOUND[2]) == (
        "raft/c.py:7 f (comparison; 2 of 3 covering tests ran)\n    a < b  ->  a <= b"
    )
    assert "no quick test covers it" in survivor_text(FOUND[4])
    removed = Result("raft/a.py::::statement::a['::'] = b -> ::0", 1, "survived", "", 1, 1, 0.1)
    assert survivor_text(removed) == (
        "raft/a.py:1 module (statement; 1 of 1 covering tests ran)\n    a['::'] = b  ->  removed"
    )


def test_an_equivalent_mutant_needs_an_argument(tmp_path):
    path = tmp_path / "equivalents.toml"
    assert read_equivalents(path) == {}
    path.write_text('[[equivalent]]\nid = "a"\nwhy = "no test can see it"\n', "utf-8")
    assert read_equivalents(path) == {"a": "no test can see it"}
    path.write_text('[[equivalent]]\nid = "a"\nwhy = " "\n', "utf-8")
    with pytest.raises(ValueError, match="no argument"):
        read_equivalents(path)


def test_every_equivalent_mutant_exists():
    """An entry goes with the code that it names; `--list` prints the mutants of a package."""
    argued = read_equivalents()
    modules = {mutant.partition("::")[0] for mutant in argued}
    texts = {path: (ROOT / path).read_text("utf-8") for path in modules if (ROOT / path).exists()}
    existing = {point.id for path, text in texts.items() for point in points(path, text)}
    assert [mutant for mutant in argued if mutant not in existing] == []
