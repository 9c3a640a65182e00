"""`scripts/mutants` over a small project: which mutants die, of what, and what stays on disk."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "scripts" / "mutation"
LIMITS = """\
import functools

MAXIMUM = 7


def is_full(count):
    return count >= MAXIMUM


def steps(count):
    taken = 0
    while count > 0:
        count -= 2
        taken = taken + 1
    return taken


@functools.cache
def is_small(count):
    return count < 3


def unseen(count):
    return count == 5


def squared(number):
    return number * number


LETTERS = "abc"
SQUARED = squared(len(LETTERS))
"""
TESTS = """\
from pathlib import Path

from raft import limits


def test_that_passes_only_once():
    Path(__file__).with_name("ran").touch(exist_ok=False)
    assert limits.MAXIMUM


def test_is_full():
    assert limits.is_full(8)
    assert not limits.is_full(6)


def test_steps():
    assert limits.steps(4) == 2


def test_is_small():
    assert limits.is_small(2)
    assert not limits.is_small(3)


def test_squared():
    assert limits.SQUARED == 9
"""
CONFTEST = """\
from hypothesis import settings

settings.register_profile("quick", max_examples=10)
"""
PYPROJECT = """\
[tool.pytest.ini_options]
addopts = "--strict-markers --import-mode=importlib -q -p no:schemathesis -p no:anyio"
pythonpath = ["."]
filterwarnings = ["error"]
asyncio_default_fixture_loop_scope = "function"
markers = ["interop: a", "jvm: a", "long: a", "spark: a", "browser: a"]
"""


pytestmark = pytest.mark.long  # each mutant is a process, some of them without an end


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    root = tmp_path_factory.mktemp("project")
    for path, text in {
        "raft/__init__.py": "",
        "raft/limits.py": LIMITS,
        "tests/conftest.py": CONFTEST,
        "tests/raft/test_limits.py": TESTS,
        "pyproject.toml": PYPROJECT,
        "scripts/__init__.py": "",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, "utf-8")
    shutil.copytree(TOOL, root / "scripts" / "mutation")
    limits = root / "scripts" / "mutation" / "forks.py"
    limits.write_text(limits.read_text("utf-8").replace("SECONDS: Final = 10.0", "SECONDS = 0.5"))
    return root


def mutants(root, *words, output=subprocess.PIPE):
    return subprocess.run(
        [sys.executable, "-m", "scripts.mutation", *words],
        cwd=root, stdout=output, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def outcomes(project):
    done = mutants(project, "raft", "--seed", "1", "--results", "r.json", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads((project / "r.json").read_text("utf-8"))["mutants"]
    return {mutant["id"].split("::", 1)[1]: mutant for mutant in found}


def outcome(outcomes, mutant):
    return outcomes[mutant]["outcome"]


def test_a_mutant_dies_of_the_test_that_covers_it(outcomes):
    dead = outcomes["is_small::comparison::count < 3 -> count <= 3::0"]
    assert dead["outcome"] == "killed"  # also behind a decorator
    assert dead["killer"] == "tests/raft/test_limits.py::test_is_small"
    assert (dead["covering"], dead["ran"]) == (1, 1)


def test_a_mutant_that_no_assertion_sees_survives(outcomes):
    mutant = "is_full::comparison::count >= MAXIMUM -> count > MAXIMUM::0"
    assert outcome(outcomes, mutant) == "survived"


def test_a_mutant_that_no_test_runs_survives(outcomes):
    unseen = outcomes["unseen::comparison::count == 5 -> count != 5::0"]
    assert (unseen["outcome"], unseen["covering"]) == ("survived", 0)


def test_a_mutant_without_an_end_is_a_time_out(outcomes):
    endless = "steps::arithmetic::count -= 2 -> count += 2::0"
    assert outcome(outcomes, endless) == "timeout"


def test_what_runs_at_import_is_imported_anew(outcomes):
    assert outcome(outcomes, "::constant::7 -> 8::0") == "survived"
    assert (
        outcome(outcomes, "squared::arithmetic::number * number -> number // number::0") == "killed"
    )


def test_the_tree_stays_as_it_was(project, outcomes):
    assert (project / "raft/limits.py").read_text("utf-8") == LIMITS
    assert outcomes


def test_survivors_are_printed_and_a_file_goes_on_where_it_ended(project, outcomes):
    done = mutants(project, "raft", "--seed", "1", "--results", "r.json", "--floor", "99")
    assert done.returncode == 1
    assert done.stderr == "mutants: the score is below 99 %\n"  # nothing ran again
    assert "survived: raft/limits.py:24 unseen (comparison; no quick test" in done.stdout
    assert outcomes


def test_a_file_of_another_sample_is_refused(project, outcomes):
    done = mutants(project, "raft", "--seed", "2", "--results", "r.json")
    assert done.returncode == 1
    assert "r.json holds another sample: all of raft, seed 1" in done.stderr
    assert outcomes


def test_a_new_test_kills_a_survivor_by_retry(project, outcomes):
    path = project / "tests/raft/test_limits.py"
    path.write_text(f"{TESTS}\n\ndef test_unseen():\n    assert limits.unseen(5)\n", "utf-8")
    done = mutants(project, "raft", "--seed", "1", "--results", "r.json", "--retry")
    assert done.returncode == 0, done.stderr
    assert "unseen" not in done.stdout
    assert "is_full (comparison" in done.stdout
    assert len(json.loads((project / "r.json").read_text("utf-8"))["mutants"]) == len(outcomes)


def test_usage(project):
    assert mutants(project, "nothing").returncode == 2
    assert mutants(project, "raft", "--sample", "0").returncode == 2
    listed = mutants(project, "raft", "--sample", "3", "--list")
    assert len(listed.stdout.splitlines()) == 3


def test_a_reader_that_leaves_ends_the_output_quietly(project, outcomes):
    """As with `| head -1`; the list, and the report."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as output:
        for words in (["--list"], ["raft", "--seed", "1", "--results", "r.json"]):
            done = mutants(project, *words, output=output)
            assert (done.returncode, done.stderr) == (1, ""), words
    assert outcomes
