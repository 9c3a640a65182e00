"""Name of the code of a run: by its commit, or by a hash of the packages that it is made of."""

import subprocess
import sys

import pytest

from simulator.campaign import commit_name
from simulator.campaign.commit_name import ROOT, SIMULATED

PRINT_PACKAGES = """
import sys
import simulator.campaign.session, simulator.mutants.command
for name, module in sys.modules.items():
    if "." not in name and getattr(module, "__file__", None):
        print(name, module.__file__)
"""


def test_the_packages_of_a_run_are_those_that_the_simulator_imports():
    """A package that is missing there changes no name: the ledger keeps results of other code."""
    command = [sys.executable, "-c", PRINT_PACKAGES]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    ours = {name for name, path in loaded.items() if path == str(ROOT / name / "__init__.py")}
    assert ours == set(SIMULATED)


def git_says(monkeypatch, described, changed):
    answers = {"describe": described, "status": changed}
    monkeypatch.setattr(commit_name, "_git", lambda word, *_: answers[word])


def test_code_is_named_by_its_commit(monkeypatch):
    git_says(monkeypatch, "0123456789", "")
    assert commit_name.commit_name() == "0123456789"
    git_says(monkeypatch, "0123456789-dirty", "")
    assert commit_name.commit_name() == "0123456789-dirty"


@pytest.mark.parametrize(
    ("described", "changed", "prefix"),
    [
        ("0123456789-dirty", " M raft/core.py", "0123456789-dirty-"),
        ("0123456789", "?? raft/new.py", "0123456789-dirty-"),
        ("", "", "unknown-"),
    ],
)
def test_code_without_a_commit_is_named_by_what_it_is(
    monkeypatch, tmp_path, described, changed, prefix
):
    git_says(monkeypatch, described, changed)
    monkeypatch.setattr(commit_name, "ROOT", tmp_path)
    names = set()
    (tmp_path / "raft").mkdir()
    for content in ("a = 1\n", "a = 2\n", "a = 1\n"):
        (tmp_path / "raft" / "core.py").write_text(content)
        names.add(commit_name.commit_name())
    assert len(names) == 2
    assert all(name.startswith(prefix) for name in names)


def test_a_repository_around_the_installed_code_does_not_name_it(monkeypatch):
    monkeypatch.setattr(commit_name, "ROOT", ROOT / "raft")
    assert commit_name._git("rev-parse", "--show-prefix") == ""
