"""Every test ends: one that hangs fails after its time, and those behind it still run."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_tidy import ROOT
from tests.time_limits import SLOW_TIMEOUT_S, give_time

HANGING = """
import pytest
from hypothesis import given
from hypothesis import strategies as st


@given(st.integers())
def test_that_hangs_in_an_example(number):
    while number != number + 1:
        pass


async def test_that_hangs_in_a_loop():
    while True:
        pass


def test_that_hangs():
    while True:
        pass


{mark}
def test_that_hangs_with_a_mark():
    while True:
        pass


@pytest.mark.long
def test_behind_it(request):
    assert request.node.get_closest_marker("timeout").args == ({slow},)
"""


def limits(item: pytest.Item) -> list[float]:
    give_time([item])
    return [mark.args[0] for mark in item.iter_markers("timeout")]


def item(request: pytest.FixtureRequest, *marks: pytest.MarkDecorator) -> pytest.Item:
    made = pytest.Function.from_parent(request.node.parent, name="made", callobj=lambda: None)
    for mark in marks:
        made.add_marker(mark)
    return made


@pytest.mark.parametrize("kind", ["interop", "jvm", "spark", "browser", "long"])
def test_slow_kinds_have_more_time(request: pytest.FixtureRequest, kind: str) -> None:
    mark = getattr(pytest.mark, kind)
    assert limits(item(request, mark)) == [SLOW_TIMEOUT_S]
    assert limits(item(request, mark, pytest.mark.timeout(7))) == [7]
    assert SLOW_TIMEOUT_S > float(request.config.getini("timeout")) > 0


def test_other_kinds_have_the_limit_of_all(request: pytest.FixtureRequest) -> None:
    assert limits(item(request)) == []


def test_a_test_that_hangs_fails_and_the_others_run(tmp_path: Path) -> None:
    """With the settings and hooks of this project, and less time."""
    path = tmp_path / "test_hanging.py"
    path.write_text(HANGING.format(mark="@pytest.mark.timeout(0.2)", slow=SLOW_TIMEOUT_S))
    settings = ["-c", str(ROOT / "pyproject.toml"), "-o", "timeout=0.1"]
    plugins = ["-p", "no:xdist", "-p", "no:cacheprovider", "-p", "tests.conftest"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *settings, *plugins, str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert "4 failed, 1 passed" in ran.stdout, ran.stdout + ran.stderr
    assert "Timeout (>0.1s) from pytest-timeout." in ran.stdout
    assert "Timeout (>0.2s) from pytest-timeout." in ran.stdout
