"""A virtual environment for each suite: its requirements and the wheel of this tree."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from scripts.suites.catalogue import CHECKOUT, Suite

ROOT: Final = Path(__file__).resolve().parent.parent.parent
READY: Final = "ready"
"""A file in an environment: what it was made of."""


class InstallError(Exception):
    """pip did not install something; its last lines."""


def wheel(cache: Path) -> Path:
    """The wheel of this tree, built anew."""
    folder = cache / "wheel"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.whl"):
        old.unlink()
    _pip(Path(sys.executable), "wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
    return next(folder.glob("*.whl"))


def environment(suite: Suite, files: Path, built: Path | None, cache: Path) -> Path:
    """The interpreter of the suite's environment, which is kept.

    Args:
        suite: whose requirements.
        files: its checkout.
        built: the wheel of this tree, which replaces an older one; None: not needed.
        cache: where environments are.

    Raises:
        InstallError: something is not to be had.
    """
    folder = cache / "environments" / suite.repository.replace("/", "+")
    python = folder / "bin" / "python"
    wanted = [word.replace(CHECKOUT, str(files)) for word in suite.requirements]
    mark = hashlib.sha256("\n".join([sys.version, *wanted]).encode()).hexdigest()
    ready = folder / READY
    if not ready.exists() or ready.read_text() != mark:
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        _pip(python, "install", *wanted)
        ready.write_text(mark)
    if built is not None:
        _pip(python, "install", str(built))  # its dependencies, once
        _pip(python, "install", "--no-deps", "--force-reinstall", str(built))
    return python


def _pip(python: Path, *words: str) -> None:
    ended = subprocess.run(
        [python, "-m", "pip", "--disable-pip-version-check", "--quiet", *words],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        env={**os.environ, "PIP_NO_INPUT": "1"},
    )  # fmt: skip
    if ended.returncode != 0:
        raise InstallError("\n".join(ended.stderr.strip().splitlines()[-5:]))
