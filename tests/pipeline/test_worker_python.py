"""The Python that workers run, by what the session says, without Spark."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeline.worker_python import has_project, is_own, use_own_python

ADVICE = (
    "workers run python3 of their PATH; if it lacks kraftline, put into the configuration:"
    f" spark.pyspark.python={sys.executable}"
)


def program(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def session(python: str, master: str = "local[2,4]") -> SimpleNamespace:
    return SimpleNamespace(sparkContext=SimpleNamespace(pythonExec=python, master=master))


@pytest.fixture
def bare(tmp_path: Path) -> str:
    """A Python that lacks the project."""
    return program(tmp_path / "python3", "exit 1")


def test_local_workers_get_a_python_that_has_the_project(bare: str, tmp_path: Path) -> None:
    version = f"{sys.version_info[0]} {sys.version_info[1]}"
    good = program(tmp_path / "good", f"echo {version}")
    for python, expected in ((bare, sys.executable), (good, good), ("nowhere", sys.executable)):
        spark = session(python)
        assert use_own_python(spark) is None
        assert spark.sparkContext.pythonExec == expected


def test_workers_elsewhere_keep_theirs_and_the_line_is_said(
    bare: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(Path(bare).parent))
    for python, advice in (("python3", ADVICE), (bare, None), (sys.executable, None)):
        spark = session(python, "spark://h:7077")
        assert use_own_python(spark) == advice
        assert spark.sparkContext.pythonExec == python


def test_an_activated_environment_is_right_for_any_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    assert use_own_python(session("python3", "spark://h:7077")) is None


def test_another_program_beside_it_is_not_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = program(tmp_path / "python", "exit 1")
    other = program(tmp_path / "python3", "exit 0")
    monkeypatch.setattr(sys, "executable", own)
    assert is_own(own)
    assert not is_own(other)


def test_a_session_of_spark_connect_says_nothing() -> None:
    assert use_own_python(object()) is None


def test_an_environment_is_not_the_one_it_links_to(tmp_path: Path) -> None:
    link = tmp_path / "python3"
    link.symlink_to(sys.executable)
    assert is_own(sys.executable)
    assert not is_own(str(link))
    assert not is_own("nowhere")


def test_the_version_must_be_this_one_too(tmp_path: Path, bare: str) -> None:
    assert not has_project(program(tmp_path / "old", "echo 3 9"))
    assert not has_project(bare)
    right = f"echo {sys.version_info[0]} {sys.version_info[1]}; exit 1"
    assert not has_project(program(tmp_path / "fails", right))
