"""Sample of the mutants, and the tests that run for each of them."""

import pytest

from scripts.mutation.points import points
from scripts.mutation.sampling import Coverage, rank, sample, shares
from scripts.mutation.tracing import Trace

LIMITS = """\
MAXIMUM = 7


def is_full(count):
    return count >= MAXIMUM


def halved(count):
    if count > 1:
        return count - 3
    return 0
"""
USER = "from raft.limits import is_full\n\n\ndef rest(count):\n    return is_full(count)\n"
TESTS = (
    "tests/raft/test_limits.py::test_halved",
    "tests/raft/test_limits.py::test_is_full",
    "tests/node/test_all.py::test_all",
    "tests/raft/test_limits.py::test_broken",
)


@pytest.fixture
def tree(tmp_path):
    for path, text in {
        "raft/limits.py": LIMITS,
        "raft/user.py": USER,
        "simulator/cluster/memory_vfs.py": "x = 1\n",  # the simulated disk is no production module
        "storage/logs/log.py": "x = 1\n",
        "tests/raft/test_limits.py": "from raft.limits import halved\n",
        "tests/node/test_all.py": "",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, "utf-8")
    return tmp_path


def trace():
    return Trace(
        tests=list(TESTS),
        seconds=[0.3, 0.2, 0.1, 0.0],
        failed={3},
        runs={"raft/limits.py:5": 0b1110, "raft/limits.py:9": 0b1101, "raft/limits.py:10": 0b101},
        imported={"raft/limits.py:1", "raft/limits.py:11"},
    )


def covering(tree, source):
    """Tests for the mutant of that text, and whether it runs at import."""
    (point,) = (p for p in points("raft/limits.py", LIMITS) if p.source == source)
    coverage = Coverage(trace(), ["raft"], tree)
    return [test.id for test in coverage.job(point).tests], coverage.runs_at_import(point)


@pytest.mark.parametrize(
    ("sizes", "count", "expected"),
    [
        ([10, 10], 4, [2, 2]),
        ([1, 3, 6], 10, [1, 3, 6]),
        ([1, 3, 6], 99, [1, 3, 6]),
        ([1, 1, 1], 2, [1, 1, 0]),
        ([50, 30, 20], 7, [4, 2, 1]),
        ([0, 0], 5, [0, 0]),
    ],
)
def test_a_sample_is_divided_in_proportion(sizes, count, expected):
    assert shares(sizes, count) == expected


def test_the_same_seed_draws_the_same_mutants(tree):
    drawn = [point.id for point in sample(["raft", "storage"], 4, "a", tree)]
    assert drawn == [point.id for point in sample(["raft", "storage"], 4, "a", tree)]
    assert drawn != [point.id for point in sample(["raft", "storage"], 4, "b", tree)]
    assert len(set(drawn)) == 4


def test_other_code_does_not_change_who_is_drawn(tree):
    whole = sample(["raft"], None, "a", tree)
    (tree / "raft/limits.py").write_text(f"# new\n{LIMITS}", "utf-8")
    assert [p.id for p in sample(["raft"], None, "a", tree)] == [p.id for p in whole]
    assert [rank(p, "a") for p in whole] == sorted(rank(p, "a") for p in whole)


def test_the_fastest_come_first_and_other_packages_stand_back(tree):
    assert covering(tree, "count >= MAXIMUM")[0] == [TESTS[1], TESTS[2]]
    assert covering(tree, "count - 3")[0] == [TESTS[0], TESTS[2]]
    (point,) = (p for p in points("raft/limits.py", LIMITS) if p.source == "count >= MAXIMUM")
    quick = trace()
    quick.seconds[2] = 0.05  # a quarter of what the other takes
    job = Coverage(quick, ["raft"], tree).job(point)
    assert [test.id for test in job.tests] == [TESTS[2], TESTS[1]]


def test_what_tests_run_again_does_not_count_as_import(tree):
    (point,) = (p for p in points("raft/limits.py", LIMITS) if p.source == "count >= MAXIMUM")
    twice = trace()
    twice.imported.add("raft/limits.py:5")
    assert not Coverage(twice, ["raft"], tree).runs_at_import(point)


@pytest.mark.parametrize(("seconds", "count"), [(0.1, 1), (0.29, 1), (0.31, 2), (9.0, 2)])
def test_a_mutant_has_the_time_of_its_nearest_tests(tree, seconds, count):
    (point,) = (p for p in points("raft/limits.py", LIMITS) if p.source == "count >= MAXIMUM")
    job = Coverage(trace(), ["raft"], tree, seconds).job(point)
    assert [test.id for test in job.tests] == [TESTS[1], TESTS[2]][:count]
    assert job.covering == 2


def test_a_test_that_fails_without_a_mutant_judges_none(tree):
    assert TESTS[3] not in covering(tree, "count >= MAXIMUM")[0]


def test_what_runs_at_import_has_the_tests_that_use_its_name(tree):
    assert covering(tree, "7") == ([TESTS[1], TESTS[2]], True)


def test_what_a_call_at_import_has_run_counts_as_import(tree):
    tests, at_import = covering(tree, "0")
    assert at_import
    assert tests == [TESTS[1], TESTS[0]]  # none runs it again: those of the file that names it


def test_what_is_made_at_import_has_the_tests_of_what_it_makes(tree):
    (tree / "tests/node/test_all.py").write_text("DOUBLED", "utf-8")
    source = "def table(): return 2\n\n\nDOUBLED = table()\n"
    (tree / "raft/limits.py").write_text(source, "utf-8")
    (point,) = points("raft/limits.py", source)[1:]
    coverage = Coverage(
        Trace(list(TESTS), [0.1] * 4, imported={"raft/limits.py:1"}), ["raft"], tree
    )
    assert [test.id for test in coverage.job(point).tests] == [TESTS[2]]


@pytest.mark.parametrize("arguments", ["count=MAXIMUM", "*, count=MAXIMUM"])
def test_the_default_of_an_argument_has_the_tests_of_its_function(tree, arguments):
    (tree / "tests/node/test_all.py").write_text("asked()", "utf-8")
    source = f"MAXIMUM = 7\n\n\ndef asked({arguments}): return count\n"
    (tree / "raft/limits.py").write_text(source, "utf-8")
    assert covering(tree, "7") == ([TESTS[2]], True)


def test_a_name_in_a_test_file_is_enough(tree):
    (tree / "tests/node/test_all.py").write_text("MAXIMUM", "utf-8")
    (tree / "raft/limits.py").write_text("MAXIMUM = 7\n", "utf-8")
    assert covering(tree, "7") == ([TESTS[2]], True)
