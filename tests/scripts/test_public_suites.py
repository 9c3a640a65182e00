"""`scripts/public_suites`: fetching, the adapter in a suite's process, and what a run says."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from scripts.suites import commands, explained
from scripts.suites.catalogue import AIOKAFKA, SUITES
from scripts.suites.checkouts import NoSourceError, checkout, copy_tests
from scripts.suites.commands import DONE, FAILED, NOTHING_FETCHED, main
from scripts.suites.explained import Cause, Explanation, explanation
from scripts.suites.outcomes import HEADING, Kind, Outcome, Result, complaints, table
from scripts.suites.run import RunError, run

ROOT = Path(__file__).parents[2]
SUITE = msgspec.structs.replace(
    AIOKAFKA, name="orders", repository="shop/orders", tag="v1", conftest="conftest",
    copied=("checks/test_orders.py", "shared", "test_elsewhere.py"), arguments=("checks",),
    environment={"SHOP": "open"},
)  # fmt: skip
TESTS = """\
import os, pytest
def test_address(): assert os.environ["KAFKA_URI"] == "kafka://" + os.environ["BROKERS"]
def test_variable(): assert os.environ["SHOP"] == "shut"
@pytest.fixture
def broken():
    yield
    raise OSError("afterwards")
def test_teardown(broken): pass
@pytest.fixture
def unset(): raise OSError("before")
def test_setup(unset): pass
def test_twice(broken): raise OSError("within")
@pytest.mark.skip(reason="not today")
def test_skipped(): pass
"""


@pytest.fixture
def sources(tmp_path):
    folder = tmp_path / "sources" / "orders"
    (folder / "checks").mkdir(parents=True)
    (folder / "shared").mkdir()
    (folder / "checks" / "test_orders.py").write_text(TESTS)
    (folder / "shared" / "words.txt").write_text("words")
    (folder / "test_elsewhere.py").write_text("def test_elsewhere(): pass")
    (folder / "orders.py").write_text("raise ImportError('the package of the checkout')")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", folder]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "1"], ["tag", "v1"]):
        subprocess.run([*git, *words], check=True)
    return folder.parent


@pytest.fixture
def reasons(monkeypatch):
    found = (
        Explanation(tests="*[ssl]", cause=Cause.SCOPE, reason="SSL"),
        Explanation(tests="*[tls]", cause=Cause.SCOPE, reason="SSL"),
        Explanation(tests="*slow*", cause=Cause.SUITE, reason="waits 1 s", always=False),
    )
    monkeypatch.setitem(explained.EXPLAINED, "orders", found)
    return found


def outcome(test, kind, text=""):
    return Outcome(test=test, outcome=kind, text=text)


def result(*outcomes):
    return Result(suite=SUITE, outcomes=outcomes)


def test_files_are_fetched_once_without_the_package(sources, tmp_path):
    files = checkout(SUITE, tmp_path / "cache", sources)
    assert (files / "orders.py").exists()
    assert checkout(SUITE, tmp_path / "cache", tmp_path / "nowhere") == files
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "old.py").touch()
    copy_tests(SUITE, files, tmp_path / "run")
    left = [path.relative_to(tmp_path / "run") for path in (tmp_path / "run").rglob("*.*")]
    assert sorted(map(str, left)) == [
        "checks/test_orders.py", "shared/words.txt", "test_elsewhere.py"
    ]  # fmt: skip


def test_a_tag_or_file_that_is_not_there_is_said(sources, tmp_path):
    with pytest.raises(NoSourceError, match=r"git clone file:.*v2"):
        checkout(msgspec.structs.replace(SUITE, tag="v2"), tmp_path / "cache", sources)
    files = checkout(SUITE, tmp_path / "cache", sources)
    lacking = msgspec.structs.replace(SUITE, copied=("docs",))
    with pytest.raises(NoSourceError, match="shop/orders has no docs at v1"):
        copy_tests(lacking, files, tmp_path / "run")


def test_the_adapter_writes_down_the_worst_phase_of_each_test(sources, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # half of its time
    tests = tmp_path / "run"
    copy_tests(SUITE, sources / "orders", tests)
    found = run(SUITE, sys.executable, tests, "localhost:1", [])
    assert [(one.test.partition("::")[2], one.outcome) for one in found] == [
        ("test_address", Kind.PASSED),
        ("test_variable", Kind.FAILED),
        ("test_teardown", Kind.FAILED),
        ("test_setup", Kind.FAILED),
        ("test_twice", Kind.FAILED),
        ("test_skipped", Kind.SKIPPED),
    ]
    assert "'open' == 'shut'" in found[1].text
    assert "E       OSError: afterwards" in found[2].text
    assert "OSError: within" in found[4].text
    assert found[5].text == "Skipped: not today"


@pytest.mark.parametrize("words", [["-k", "none_of_them"], ["--no-such-option"]])
def test_a_run_that_judges_nothing_is_an_error(sources, tmp_path, monkeypatch, words):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    tests = tmp_path / "run"
    copy_tests(SUITE, sources / "orders", tests)
    with pytest.raises(RunError, match="no outcomes"):
        run(SUITE, sys.executable, tests, "localhost:1", words)


def test_a_run_without_files_shows_nothing_and_says_so(tmp_path, capsys):
    words = ["aiokafka", "--address", "localhost:1", "--sources", str(tmp_path)]
    assert main([*words, "--cache", str(tmp_path / "cache")]) == NOTHING_FETCHED
    said = capsys.readouterr()
    assert said.out == HEADING
    assert "aiokafka: not run, nothing is shown of it: git clone file:" in said.err


@pytest.mark.parametrize(
    ("kind", "code"), [(Kind.PASSED, DONE), (Kind.FAILED, FAILED)], ids=["passed", "failed"]
)
def test_the_exit_code_is_of_what_is_not_explained(monkeypatch, capsys, kind, code):
    seen = []

    def one_test(suite, _arguments, built, for_pytest):
        seen.append((suite.name, built, for_pytest))
        return Result(suite=suite, outcomes=[outcome("a::new", kind)])

    monkeypatch.setattr(commands, "_result", one_test)
    assert main(["aiokafka", "--address", "localhost:1", "--", "-k", "new"]) == code
    assert seen == [("aiokafka", None, ["-k", "new"])]
    assert capsys.readouterr().out.startswith(HEADING + "| aiokafka |")


def test_an_unknown_suite_is_named_with_the_known(capsys):
    with pytest.raises(SystemExit):
        main(["orders"])
    known = ", ".join(suite.name for suite in SUITES)
    assert f"SUITE 'orders' is not one of {known}" in capsys.readouterr().err


def test_a_failure_is_explained_by_the_first_pattern_of_its_suite(reasons):
    assert explanation("orders", "a::slow[ssl]") == reasons[0]
    assert explanation("orders", "a::slow") == reasons[2]
    assert explanation("orders", "a::two[ssl]-more") is None
    assert explanation("bills", "a::slow") is None


def test_a_row_counts_and_says_why(reasons):
    found = result(
        outcome("a::one", Kind.PASSED),
        outcome("a::two[ssl]", Kind.FAILED),
        outcome("a::three[tls]", Kind.FAILED),
        outcome("a::slow", Kind.FAILED),
        outcome("a::new", Kind.FAILED, "trace\nE   OSError: 1\na:1: OSError"),
        outcome("a::old", Kind.SKIPPED),
        outcome("a::old[ssl]", Kind.SKIPPED),
    )
    assert table([found]) == HEADING + (
        "| orders | 1 | 1 | 4 | 2 | 2: outside the scope: SSL<br>"
        "1: an assumption of the suite: waits 1 s<br>1: not explained |\n"
    )
    assert complaints(found) == ("orders: fails and is not explained: a::new\n    E   OSError: 1\n")


def test_a_test_that_passes_against_its_explanation_is_said(reasons):
    found = result(outcome("a::two[ssl]", Kind.PASSED), outcome("a::slow", Kind.PASSED))
    assert complaints(found) == (
        "orders: passes now, scripts/suites/explained.py is out of date: a::two[ssl]\n"
    )


def test_the_adapter_takes_what_the_package_has():
    """Only a run of all suites, with the wheel and a network, would notice that it has not."""
    code = ast.parse((ROOT / "scripts/suites/adapter/kraftline_suite.py").read_text())
    found = [
        (node.module.removeprefix("kraftline."), each.name)
        for node in ast.walk(code)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("kraftline.")
        for each in node.names
    ]
    assert ("testing", "Cluster") in found
    for module, name in found:
        assert hasattr(importlib.import_module(module), name), (module, name)
