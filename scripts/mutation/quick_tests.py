"""Quick tests as this tool runs them: pytest in this process, one worker, no random examples.

Examples of hypothesis derive from the name of the test, not from chance and not from an earlier
failure, so that a mutant dies on every machine or on none. They have no deadline of their own:
the limit of the tool applies.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings

from scripts.mutation.modules import ROOT

QUICK_PROFILE: Final = "quick"
MARKERS: Final = "not (interop or jvm or spark or browser or long)"
LEFT_OUT: Final = (
    "mutation",
    "pipeline",
    "jepsen",
    "fuzz",
    "scripts",
    "test_determinism.py",
    "test_tidy.py",
)
"""Left out below tests/: a sixth of the time, and first to kill only 2 of 295 mutants."""
OPTIONS: Final = (
    "-m",
    MARKERS,
    f"--hypothesis-profile={QUICK_PROFILE}",
    "--numprocesses=0",
    "--capture=no",  # a capture would keep the pipes of a fork open
    "-p",
    "no:cacheprovider",
    *(f"--ignore=tests/{name}" for name in LEFT_OUT),
    "-W",
    "ignore:Module already imported",  # hypothesis: nothing of it is rewritten
)


class Examples:
    """Plugin that makes the examples of properties the same in every run."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self) -> None:
        """Derive the profile before a test module is imported."""
        quick = settings.get_profile(QUICK_PROFILE)
        settings.register_profile(
            QUICK_PROFILE, quick, database=None, derandomize=True, deadline=None
        )


def run(plugin: object, arguments: Sequence[str] = ("tests",)) -> int:
    """Run pytest with a plugin of the tool and return its exit code."""
    os.chdir(ROOT)
    words = [*OPTIONS, f"--rootdir={ROOT}", *arguments]
    return int(pytest.main(words, plugins=[plugin, Examples()]))


def silence(log: Path) -> None:
    """Send the output of tests to a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
