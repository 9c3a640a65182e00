"""Checkouts of the suites' repositories: fetched once, or taken from a folder that has them."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from scripts.suites.catalogue import Suite

HOST: Final = "https://github.com"
FETCH_S: Final = 300.0


class NoSourceError(Exception):
    """The files of a suite are not to be had; one line."""


def checkout(suite: Suite, cache: Path, sources: Path | None) -> Path:
    """The folder with the suite's files at its tag.

    Args:
        suite: whose.
        cache: where fetched ones are kept.
        sources: a folder with clones by the repositories' names, for a machine without network.

    Raises:
        NoSourceError: it cannot be fetched, or has no such tag.
    """
    folder = cache / "checkouts" / f"{suite.repository.replace('/', '+')}@{suite.tag}"
    if folder.exists():
        return folder
    name = suite.repository.partition("/")[2]
    origin = (
        f"{HOST}/{suite.repository}" if sources is None else (sources.resolve() / name).as_uri()
    )
    fetched = folder.with_suffix(".part")
    shutil.rmtree(fetched, ignore_errors=True)
    words = ["git", "clone", "--quiet", "--depth", "1", "--branch", suite.tag, origin]
    try:
        ended = subprocess.run(
            [*words, str(fetched)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=FETCH_S, check=False, env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise NoSourceError(f"{origin} does not answer within {FETCH_S:.0f} s") from None
    if ended.returncode != 0:
        raise NoSourceError(f"git clone {origin}: {ended.stderr.strip().splitlines()[-1]}")
    fetched.rename(folder)
    return folder


def copy_tests(suite: Suite, files: Path, folder: Path) -> None:
    """Make `folder` one with the suite's tests and without its package: the installed one counts.

    Raises:
        NoSourceError: the checkout lacks one of them.
    """
    shutil.rmtree(folder, ignore_errors=True)
    for name in suite.copied:
        source, target = files / name, folder / name
        if not source.exists():
            raise NoSourceError(f"{suite.repository} has no {name} at {suite.tag}")
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copy(source, target)
